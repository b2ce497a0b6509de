//! What can be typed to several tools in the same words.

use super::{duration, moment};
use crate::model::entry::EntryMode;
use crate::model::last_run::{self, OnceKey, RepeatTerms};
use crate::model::moment::Moment;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Waiting for a lock.
#[derive(Args, Debug)]
pub(crate) struct Wait {
    /// Do not wait (the default; accepted for flock lines)
    #[arg(short = 'n', long, alias = "nb", conflicts_with = "wait", hide_short_help = true)]
    pub(crate) nonblock: bool,
    /// Wait that long for it: 90s, 10m, 0, or 'forever'
    #[arg(short, long, alias = "timeout", value_name = "DUR", value_parser = patience)]
    pub(crate) wait: Option<Patience>,
}

/// What a line of flock(1) may say and what happens anyway.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct FlockWords {
    /// Hold it alone (the default; accepted for flock lines)
    #[arg(short = 'x', visible_short_alias = 'e', long, conflicts_with_all = ["slots", "shared"], hide_short_help = true)]
    pub(crate) exclusive: bool,
    /// Become the command (the default; accepted for flock lines)
    #[arg(short = 'F', long, conflicts_with_all = ["tree", "max_run", "once_ok"], hide_short_help = true)]
    pub(crate) no_fork: bool,
}

/// Standing in line for a lock.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct InLine {
    /// With -w: exit at once if N wait for it already
    #[arg(long, value_name = "N", requires = "wait", hide_short_help = true)]
    pub(crate) max_waiting: Option<u64>,
}

/// As what to come to a lock.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    /// At most N runs at a time; ORION_LOCK_SLOT has the number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) slots: Option<u32>,
    /// Share it with all but an exclusive run
    #[arg(short, long, conflicts_with = "slots")]
    pub(crate) shared: bool,
}

impl Entry {
    /// What was asked for.
    pub(crate) fn mode(self) -> EntryMode {
        match (self.slots, self.shared) {
            (Some(slots), _) => EntryMode::Slots(slots),
            (None, true) => EntryMode::Shared,
            (None, false) => EntryMode::Exclusive,
        }
    }
}

/// Not again, by what is known of the last run.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct NotAgain {
    /// Exit 75 if the last run of NAME that began had this KEY: --once "$(date +%F-%H%M)"
    #[arg(long, value_name = "KEY", value_parser = last_run::key, hide_short_help = true)]
    pub(crate) once: Option<String>,
    /// As --once; only a run that ended with 0 counts. For run it implies --tree
    #[arg(long, value_name = "KEY", conflicts_with = "once", value_parser = last_run::key, hide_short_help = true)]
    pub(crate) once_ok: Option<String>,
    /// Exit 75 if the last run of NAME ended less than DUR ago
    #[arg(long, value_name = "DUR", value_parser = duration, hide_short_help = true)]
    pub(crate) cooldown: Option<Duration>,
}

impl NotAgain {
    /// What is asked of the last run.
    pub(crate) fn terms(&self) -> RepeatTerms {
        let key = |key: &Option<String>, only_ok| key.clone().map(|key| OnceKey { key, only_ok });
        RepeatTerms {
            once: key(&self.once, false).or_else(|| key(&self.once_ok, true)),
            cooldown: self.cooldown,
        }
    }
}

/// As [`NotAgain`], where the end of the work is not known.
#[derive(Args, Clone, Debug)]
pub(crate) struct NotAgainHeld {
    /// Exit 75 if the last run of NAME that began had this KEY
    #[arg(long, value_name = "KEY", value_parser = last_run::key, hide_short_help = true)]
    pub(crate) once: Option<String>,
    /// For run alone
    #[arg(long, hide = true, value_name = "KEY")]
    pub(crate) once_ok: Option<String>,
    /// Exit 75 if the last run of NAME ended less than DUR ago
    #[arg(long, value_name = "DUR", value_parser = duration, hide_short_help = true)]
    pub(crate) cooldown: Option<Duration>,
}

impl NotAgainHeld {
    /// What is asked of the last run.
    pub(crate) fn terms(&self) -> RepeatTerms {
        let once = self.once.clone().map(|key| OnceKey { key, only_ok: false });
        RepeatTerms { once, cooldown: self.cooldown }
    }
}

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    For(Duration),
    Forever,
}

impl Patience {
    /// Not at all.
    pub(crate) const NONE: Self = Self::For(Duration::ZERO);
}

/// A clap value parser for [`Patience`].
///
/// # Errors
/// What is accepted.
pub(crate) fn patience(text: &str) -> Result<Patience, String> {
    if text == "forever" { Ok(Patience::Forever) } else { duration(text).map(Patience::For) }
}

/// A clap value parser for the time after which a run or a pause is ended.
///
/// # Errors
/// What is accepted.
pub(crate) fn positive(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("0 would end it at once".to_owned()),
        duration => Ok(duration),
    }
}

/// How long something is paused, and why.
#[derive(Args, Debug)]
pub(crate) struct PauseTerms {
    /// End the pause by itself after that time
    #[arg(long = "for", value_name = "DUR", value_parser = positive)]
    pub(crate) lasting: Option<Duration>,
    /// A word about why, shown to everybody who is refused
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
}

/// Where the 75 goes, for a tool whose skip may be a success.
#[derive(Args, Debug)]
pub(crate) struct Busy {
    /// Exit with N instead of 75 for a skip (0: success)
    #[arg(short = 'E', long = "busy-code", alias = "conflict-exit-code", value_name = "N")]
    pub(crate) busy_code: Option<u8>,
}

/// Where the 75 goes, for a tool whose skip must not look like a lock that was taken.
#[derive(Args, Debug)]
pub(crate) struct BusyNotZero {
    /// Exit with N instead of 75 for a skip
    #[arg(short = 'E', long = "busy-code", alias = "conflict-exit-code", value_name = "N")]
    pub(crate) busy_code: Option<u8>,
}

/// The shim that a supervisor starts in the place of the command; not for people.
#[derive(Args, Debug)]
pub(crate) struct ShimArgs {
    /// Descriptor to wait at
    #[arg(long, value_name = "FD")]
    pub(crate) gate: i32,
    /// Descriptor to answer on
    #[arg(long, value_name = "FD")]
    pub(crate) answer: i32,
    /// Signals to unblock, as bits
    #[arg(long, value_name = "HEX")]
    pub(crate) mask: String,
    /// The command
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<OsString>,
}

/// A picture over time.
#[derive(Args, Debug)]
pub(crate) struct PictureArgs {
    /// Where it begins (90m, 09:45, RFC 3339)
    #[arg(long, value_name = "WHEN", value_parser = moment, default_value = "24h")]
    pub(crate) since: Moment,
    /// Where it ends; now, if not given
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    pub(crate) until: Option<Moment>,
    /// Write it to FILE as a page that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

/// Whose locks to read.
#[derive(Args, Debug)]
pub(crate) struct Whose {
    /// Another user's locks
    #[arg(long, value_name = "NAME", conflicts_with = "all_users")]
    pub(crate) user: Option<String>,
    /// Every user's locks
    #[arg(long)]
    pub(crate) all_users: bool,
}
