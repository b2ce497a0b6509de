//! Subcommands of `orion-lock` that show what happened, to people and to programs that watch.

use super::duration;
use super::shared::{PictureArgs, Whose};
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// `timeline`
#[derive(Args, Debug)]
pub(crate) struct LockTimeline {
    #[command(flatten)]
    pub(crate) whose: Whose,
    #[command(flatten)]
    pub(crate) picture: PictureArgs,
    /// Tickets that were claimed on this machine have rows too
    #[arg(long)]
    pub(crate) claims: bool,
    /// The server of STORE has a row too (orion-lease; repeat it)
    #[arg(long, value_name = "STORE")]
    pub(crate) lease: Vec<PathBuf>,
    /// Names of locks; without one, all that ran in this time
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<OsString>,
}

/// `check`
#[derive(Args, Debug)]
pub(crate) struct LockCheck {
    /// Trouble: held for longer than that
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(crate) held_longer: Option<Duration>,
    /// Trouble: N skips in a row because of one holder
    #[arg(long, value_name = "N")]
    pub(crate) skips: Option<u64>,
    /// Trouble: no run began within that time
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(crate) last_run_within: Option<Duration>,
    /// Trouble: somebody has waited for longer than that
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(crate) waiting_longer: Option<Duration>,
    /// Names of locks; without one, all that were ever held
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<OsString>,
}

/// `metrics`
#[derive(Args, Debug)]
pub(crate) struct LockMetrics {
    /// At most N names; the number left out is a metric
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub(crate) most: usize,
    /// Names of locks; without one, all that were ever held
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<OsString>,
}

/// `list`
#[derive(Args, Debug)]
pub(crate) struct LockList {
    #[command(flatten)]
    pub(crate) whose: Whose,
    /// Also free ones, where a terminal has no room for all
    #[arg(long)]
    pub(crate) all: bool,
    /// Only the names, as typed, one a line; for completions
    #[arg(long, hide = true, conflicts_with = "all_users")]
    pub(crate) names: bool,
    /// Names of locks; without one, every lock
    #[arg(value_name = "NAME")]
    pub(crate) wanted: Vec<OsString>,
}

/// `prune`
#[derive(Args, Debug)]
pub(crate) struct LockPrune {
    /// Only names that nobody used for so long
    #[arg(long, value_name = "DUR", value_parser = duration, default_value = "30d")]
    pub(crate) older: Duration,
    /// Only say what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Remove their logs too
    #[arg(long)]
    pub(crate) logs: bool,
    /// Names of locks; without one, all of them
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<OsString>,
}
