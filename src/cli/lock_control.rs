//! What can be typed to `orion-lock` about a lock that is held: limits of a run, and
//! the subcommands that keep, prolong or end it.

use super::duration;
use super::shared::{BusyNotZero, InLine, PauseTerms, Wait, positive};
use clap::Args;
use std::ffi::OsString;
use std::time::Duration;

/// How long the tree of a run may live.
#[derive(Args, Debug)]
pub(crate) struct TreeLimits {
    /// Hold it until everything the command started has ended
    #[arg(long)]
    pub(crate) tree: bool,
    /// End all of it after that time (TERM); implies --tree
    #[arg(long, value_name = "DUR", value_parser = positive)]
    pub(crate) max_run: Option<Duration>,
    /// Kill what is still there that long after the TERM of --max-run
    #[arg(long, value_name = "DUR", value_parser = duration, requires = "max_run", hide_short_help = true)]
    pub(crate) kill_after: Option<Duration>,
}

/// `tick`
#[derive(Args, Debug)]
pub(crate) struct LockTick {
    /// The token; default: the one that run exported for this name
    #[arg(long, value_name = "N", conflicts_with = "owner")]
    pub(crate) token: Option<u64>,
    /// The owner, by pid or unique name
    #[arg(long, value_name = "WHO")]
    pub(crate) owner: Option<String>,
    /// Promise the next tick within that time (0: no promise)
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(crate) every: Option<Duration>,
    /// Name of the lock
    #[arg(value_name = "NAME")]
    pub(crate) name: OsString,
}

/// `hold`
#[derive(Args, Debug)]
pub(crate) struct LockHold {
    #[command(flatten)]
    pub(crate) wait: Wait,
    #[command(flatten)]
    pub(crate) line: InLine,
    #[command(flatten)]
    pub(crate) busy: BusyNotZero,
    /// A word about why, shown by status
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
    /// Name of the lock
    #[arg(value_name = "NAME")]
    pub(crate) name: OsString,
}

/// `stop`
#[derive(Args, Debug)]
pub(crate) struct LockStop {
    /// The token of the holder that is meant
    #[arg(long, value_name = "N")]
    pub(crate) token: u64,
    /// Wait that long for its end [30s, plus --kill-after]
    #[arg(short, long, value_name = "DUR", value_parser = duration)]
    pub(crate) wait: Option<Duration>,
    /// Kill what is still there that long after the TERM
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(crate) kill_after: Option<Duration>,
    /// Name of the lock
    #[arg(value_name = "NAME")]
    pub(crate) name: OsString,
}

/// `break`
#[derive(Args, Debug)]
pub(crate) struct LockBreak {
    /// The token of the record that is meant
    #[arg(long, value_name = "N")]
    pub(crate) token: u64,
    /// Also when its owner is proved to live; nothing is ended
    #[arg(long)]
    pub(crate) owner_is_alive: bool,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
    /// Name of the lock
    #[arg(value_name = "NAME")]
    pub(crate) name: OsString,
}

/// `pause`
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["name", "all"]))]
pub(crate) struct LockPause {
    #[command(flatten)]
    pub(crate) terms: PauseTerms,
    /// Everything that keeps its state in this directory: locks, fires and tickets
    #[arg(long)]
    pub(crate) all: bool,
    /// Name of the lock
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<OsString>,
}

/// `resume`
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["name", "all"]))]
pub(crate) struct LockResume {
    /// End the pause of everything; names that were paused one by one stay paused
    #[arg(long)]
    pub(crate) all: bool,
    /// Name of the lock
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<OsString>,
}
