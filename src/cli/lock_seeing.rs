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
