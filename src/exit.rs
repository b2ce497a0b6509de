//! Exit codes: the language the tools speak to each other and to scripts.
//!
//! This is the only file with numbers. A command ends in an [`Exit`], or in the
//! status of the command it ran; an [`Error`](crate::error::Error) becomes an
//! exit through one exhaustive match on its kind.

use crate::error::Kind;
use std::process::{ExitCode, ExitStatus};

/// What a tool of this kit ends with when it speaks for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done; acquired; free; clear to run.
    Ok,
    /// Bad arguments.
    Usage,
    /// A record of a newer format; left untouched.
    DataErr,
    /// Cannot tell, or something we depend on cannot be reached.
    Unavailable,
    /// A bug of ours.
    Software,
    /// The system refused (EMFILE, ENOLCK, fork).
    OsErr,
    /// The record or directory could not be written.
    CantCreat,
    /// Read or write failed.
    IoErr,
    /// Proof of a live holder.
    Skip,
    /// Held, alive, promised to tick and fell silent.
    Stuck,
    /// Not the owner, or the owner has ended.
    NoPerm,
    /// Unusable setting.
    Config,
}

impl Exit {
    /// Every code, in the order the manuals list them.
    pub(crate) const ALL: [Self; 12] = [
        Self::Ok,
        Self::Usage,
        Self::DataErr,
        Self::Unavailable,
        Self::Software,
        Self::OsErr,
        Self::CantCreat,
        Self::IoErr,
        Self::Skip,
        Self::Stuck,
        Self::NoPerm,
        Self::Config,
    ];

    /// The number a shell sees.
    pub(crate) fn code(self) -> u8 {
        let number = match self {
            Self::Ok => exitcode::OK,
            Self::Usage => exitcode::USAGE,
            Self::DataErr => exitcode::DATAERR,
            Self::Unavailable => exitcode::UNAVAILABLE,
            Self::Software => exitcode::SOFTWARE,
            Self::OsErr => exitcode::OSERR,
            Self::CantCreat => exitcode::CANTCREAT,
            Self::IoErr => exitcode::IOERR,
            Self::Skip => exitcode::TEMPFAIL,
            // sysexits calls 76 EX_PROTOCOL; a holder that broke its promise to tick is the closest to it.
            Self::Stuck => exitcode::PROTOCOL,
            Self::NoPerm => exitcode::NOPERM,
            Self::Config => exitcode::CONFIG,
        };
        u8::try_from(number).unwrap_or(u8::MAX)
    }

    /// The name used in manuals.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Usage => "USAGE",
            Self::DataErr => "DATAERR",
            Self::Unavailable => "UNAVAILABLE",
            Self::Software => "SOFTWARE",
            Self::OsErr => "OSERR",
            Self::CantCreat => "CANTCREAT",
            Self::IoErr => "IOERR",
            Self::Skip => "SKIP",
            Self::Stuck => "STUCK",
            Self::NoPerm => "NOPERM",
            Self::Config => "CONFIG",
        }
    }

    /// One line for help and manuals.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::Ok => "done; acquired; free; clear to run",
            Self::Usage => "bad arguments",
            Self::DataErr => "a record of a newer format; left untouched",
            Self::Unavailable => {
                "cannot tell: owner unknown, guard stuck, or runner, tracker or engine unreachable"
            }
            Self::Software => "a bug of ours",
            Self::OsErr => "the system refused (EMFILE, ENOLCK, fork)",
            Self::CantCreat => "the record or directory could not be written (ENOSPC, EROFS, EACCES)",
            Self::IoErr => "read or write failed",
            Self::Skip => {
                "proof of a live holder (or waited for one and time ran out; for a ticket: somebody else won it), or what was asked for: --once, --cooldown, --max-waiting"
            }
            Self::Stuck => "held, alive, promised to tick and fell silent",
            Self::NoPerm => "you are not the owner, or your owner has ended",
            Self::Config => "unusable setting",
        }
    }
}

/// Every kind of error has one exit code.
impl From<Kind> for Exit {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Usage => Self::Usage,
            Kind::NewerRecord => Self::DataErr,
            Kind::UnknownOwner | Kind::GuardStuck | Kind::Unreachable | Kind::Refused | Kind::CannotTell => {
                Self::Unavailable
            }
            Kind::Bug => Self::Software,
            Kind::System => Self::OsErr,
            Kind::CannotCreate => Self::CantCreat,
            Kind::Io => Self::IoErr,
            Kind::Held
            | Kind::BeingTaken
            | Kind::HeldByYou
            | Kind::HeldByAncestor
            | Kind::ExclusiveWaits
            | Kind::QueueFull
            | Kind::RanAlready
            | Kind::TooSoon
            | Kind::Paused
            | Kind::StillRunning
            | Kind::Lost => Self::Skip,
            Kind::Stuck => Self::Stuck,
            Kind::NotOwner | Kind::OwnerEnded => Self::NoPerm,
            Kind::Config => Self::Config,
        }
    }
}

/// How a process of ours ends: an [`Exit`], or the status of the command it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status(u8);

/// The command exists and could not be executed, as a shell reports it.
pub(crate) const CANNOT_EXECUTE: Status = Status(126);
/// The command was not found, as a shell reports it.
pub(crate) const NOT_FOUND: Status = Status(127);

impl Status {
    /// The number a shell sees.
    pub(crate) fn code(self) -> u8 {
        self.0
    }

    /// A status the user chose, as with `-E N`.
    pub(crate) fn chosen(code: u8) -> Self {
        Self(code)
    }

    /// A child's end as a shell reports it: its status, or 128 + the signal.
    pub(crate) fn of_child(status: ExitStatus) -> Self {
        use std::os::unix::process::ExitStatusExt;
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
        Self(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
    }
}

impl From<Exit> for Status {
    fn from(exit: Exit) -> Self {
        Self(exit.code())
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status.0)
    }
}

/// Is `code` free to mean "skip" (`-E`)? Refused are the codes that mean
/// something else already: ours, a shell's, and a death by signal.
pub(crate) fn may_mean_busy(code: u8) -> bool {
    !matches!(code, 64..=74 | 76..=78 | 126..)
}

/// The table for `--help`, with a tool's own reasons, and for `orion-lock help exit-codes`.
pub(crate) fn table(codes: &[Exit], own: &[(Exit, &str)]) -> String {
    let mut text = String::from("Exit status:\n");
    for exit in codes {
        let meaning = own.iter().find(|(code, _)| code == exit).map_or(exit.meaning(), |(_, own)| own);
        text.push_str(&format!("  {:<3} {:<11} {}\n", exit.code(), exit.name(), meaning));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_contract() {
        let numbers: Vec<u8> = Exit::ALL.iter().map(|exit| exit.code()).collect();
        assert_eq!(numbers, [0, 64, 65, 69, 70, 71, 73, 74, 75, 76, 77, 78], "design 2.1");
    }

    #[test]
    fn busy_may_be_moved_only_to_codes_without_a_meaning() {
        let refused: Vec<u8> = (0..=255).filter(|code| !may_mean_busy(*code)).collect();
        let expected: Vec<u8> = (64..=74).chain(76..=78).chain(126..=255).collect();
        assert_eq!(refused, expected);
    }
}
