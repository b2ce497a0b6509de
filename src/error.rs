//! What can go wrong, in the user's words, with the way out apart.
//!
//! No codes here (see [`crate::exit`]) and no printing (see [`crate::report`]).

use crate::model::letters::is_mark;
use std::fmt;

/// What kind of failure it is. The name is the `kind` of a JSON error and finer
/// than an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bad arguments.
    Usage,
    /// A record written by a newer version.
    NewerRecord,
    /// The owner can be proved neither live nor dead.
    UnknownOwner,
    /// Somebody stays in the middle of a change.
    GuardStuck,
    /// A runner, tracker or engine does not answer.
    Unreachable,
    /// A tracker said a clear no to a write or read.
    Refused,
    /// A question that has no proved answer (a race undecided, a write unconfirmed).
    CannotTell,
    /// A bug of ours.
    Bug,
    /// The system refused: descriptors, locks, processes.
    System,
    /// A file or directory of ours could not be written.
    CannotCreate,
    /// Read or write failed.
    Io,
    /// Somebody else holds it and lives.
    Held,
    /// A run waits with the lock until a lost holder must have stopped.
    BeingTaken,
    /// Its last run had the same key (`--once`).
    RanAlready,
    /// Its last run ended too short ago (`--cooldown`).
    TooSoon,
    /// The same owner holds it already.
    HeldByYou,
    /// An ancestor of the caller holds it.
    HeldByAncestor,
    /// Somebody who needs it alone stands in line before the caller.
    ExclusiveWaits,
    /// As many wait as the caller allowed.
    QueueFull,
    /// A person paused it.
    Paused,
    /// Asked to end and still there.
    StillRunning,
    /// Somebody else won the ticket.
    Lost,
    /// Held, alive, promised to tick and silent.
    Stuck,
    /// The caller does not own it.
    NotOwner,
    /// The caller's owner has ended.
    OwnerEnded,
    /// An unusable setting.
    Config,
}

impl Kind {
    /// The `kind` in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::NewerRecord => "newer_record",
            Self::UnknownOwner => "unknown_owner",
            Self::GuardStuck => "guard_stuck",
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::CannotTell => "cannot_tell",
            Self::Bug => "bug",
            Self::System => "system",
            Self::CannotCreate => "cannot_create",
            Self::Io => "io",
            Self::Held => "held",
            Self::BeingTaken => "being_taken",
            Self::HeldByYou => "held_by_you",
            Self::HeldByAncestor => "held_by_ancestor",
            Self::ExclusiveWaits => "exclusive_waits",
            Self::QueueFull => "queue_full",
            Self::RanAlready => "ran_already",
            Self::TooSoon => "too_soon",
            Self::Paused => "paused",
            Self::StillRunning => "still_running",
            Self::Lost => "lost",
            Self::Stuck => "stuck",
            Self::NotOwner => "not_owner",
            Self::OwnerEnded => "owner_ended",
            Self::Config => "config",
        }
    }
}

/// A failure: its kind, one line that says what, where and why, and what to do.
#[derive(Clone, Debug)]
pub struct Error {
    kind: Kind,
    message: String,
    hint: Option<String>,
}

impl Error {
    /// `message` starts in lower case and has no full stop: it stands after `orion-lock: `.
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    /// Adds what the person can type or change.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Bad arguments.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    /// An unusable setting.
    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::new(Kind::Config, message)
    }

    /// A failed system call on something of ours, sorted by its errno: no room or
    /// no right to write is [`Kind::CannotCreate`], a limit of the system is
    /// [`Kind::System`], the rest is [`Kind::Io`].
    pub(crate) fn io(what: &str, error: &std::io::Error) -> Self {
        use nix::libc;
        let kind = match error.raw_os_error() {
            Some(
                libc::ENOSPC
                | libc::EDQUOT
                | libc::EROFS
                | libc::EACCES
                | libc::EPERM
                | libc::EFBIG
                | libc::ENOTDIR
                | libc::ELOOP
                | libc::EISDIR
                | libc::ENAMETOOLONG,
            ) => Kind::CannotCreate,
            Some(
                libc::EMFILE
                | libc::ENFILE
                | libc::ENOMEM
                | libc::ENOLCK
                | libc::EAGAIN
                | libc::ENOSYS
                | libc::EINVAL,
            ) => Kind::System,
            _ => Kind::Io,
        };
        Self::new(kind, format!("{what}: {}", reason(error)))
    }

    /// The kind, which decides the exit code.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The line without the program's name and without the hint.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do about it.
    pub fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

/// The system's own words for an error, without Rust's "(os error 2)".
pub(crate) fn reason(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(errno) => nix::errno::Errno::from_raw(errno).desc().to_lowercase(),
        None => error.to_string(),
    }
}

/// Text from outside (titles, comm, ticket names, paths) made safe for a terminal:
/// control characters, bidirectional marks and bytes that are not UTF-8 are
/// written as `\n`, `\u{202e}`, `\xff`; cut at `limit` characters.
pub(crate) fn escape(text: &[u8], limit: usize) -> String {
    let mut out = String::new();
    let mut count = 0;
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            count += 1;
            if count > limit {
                out.push('…');
                return out;
            }
            if c.is_control() || is_mark(c) {
                out.extend(c.escape_default());
            } else {
                out.push(c);
            }
        }
        for byte in chunk.invalid() {
            count += 1;
            if count > limit {
                out.push('…');
                return out;
            }
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}
