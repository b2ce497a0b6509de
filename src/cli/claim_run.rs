//! The subcommands of `orion-claim` that run a command for a ticket.

use super::duration;
use super::shared::positive;
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Where a run that ended well goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Success {
    Ready,
    CiWait,
}

/// Where the work on a ticket is.
#[derive(Args, Clone, Debug)]
pub(crate) struct ClaimWork {
    /// The branch of this work, for whoever must resume it
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub(crate) branch: Option<String>,
    /// The working directory of this work, for whoever must resume it
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub(crate) worktree: Option<String>,
}

/// How the command of a ticket is run: the same for `run` and for every run of a `watch`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ClaimHow {
    /// The actor that begins, for the stage label
    #[arg(long, value_name = "NAME")]
    pub(crate) stage: Option<String>,
    /// Where exit status 0 leads, instead of ready
    #[arg(long, value_name = "WHERE")]
    pub(crate) on_success: Option<Success>,
    /// End all of it after that time (TERM); leads to failed
    #[arg(long, value_name = "DUR", value_parser = positive)]
    pub(crate) max_run: Option<Duration>,
    /// Hand over when the command has ended, whatever it leaves running (a daemon)
    #[arg(long, hide_short_help = true)]
    pub(crate) owner_only: bool,
    /// Write the command's stderr into a file of DIR, of which the last 4 KiB stay
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub(crate) keep_output: Option<PathBuf>,
    /// Write on the ticket how the command ended, and after how long
    #[arg(long, hide_short_help = true)]
    pub(crate) comment: bool,
}

/// `run`
#[derive(Args, Debug)]
pub(crate) struct ClaimRun {
    #[command(flatten)]
    pub(crate) how: ClaimHow,
    /// KILL what is left so long after a signal, or --max-run
    #[arg(long, value_name = "DUR", value_parser = duration, hide_short_help = true)]
    pub(crate) kill_after: Option<Duration>,
    /// Leave a ticket alone that long after the command said 75, doubling to an hour (default 60s)
    #[arg(long, value_name = "DUR", value_parser = positive, hide_short_help = true)]
    pub(crate) every: Option<Duration>,
    #[command(flatten)]
    pub(crate) work: ClaimWork,
    /// The ticket
    #[arg(value_name = "KEY")]
    pub(crate) key: OsString,
    /// The command
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<OsString>,
}

/// `watch`
#[derive(Args, Debug)]
pub(crate) struct ClaimWatch {
    /// Time between two passes (default 60s)
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(crate) every: Option<Duration>,
    /// Tickets at a time (default 1)
    #[arg(long, value_name = "N")]
    pub(crate) max: Option<u32>,
    #[command(flatten)]
    pub(crate) how: ClaimHow,
    /// KILL what is left so long after a signal, or --max-run
    #[arg(long, value_name = "DUR", value_parser = duration, hide_short_help = true)]
    pub(crate) kill_after: Option<Duration>,
    /// A run that ends within this time counts for the breaker (default 30s; 0: no breaker)
    #[arg(long, value_name = "DUR", value_parser = duration, hide_short_help = true)]
    pub(crate) quick: Option<Duration>,
    /// Exit status 0 within --quick counts as well
    #[arg(long, hide_short_help = true)]
    pub(crate) quick_success: bool,
    /// After so many quick endings of different tickets in a row nothing is claimed (default 3)
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub(crate) trip: Option<u32>,
    /// Then try one ticket after this time, doubling to 30 minutes (default 1m)
    #[arg(long, value_name = "DUR", value_parser = positive, hide_short_help = true)]
    pub(crate) retry_after: Option<Duration>,
    /// The command; the ticket's key is in ORION_TICKET
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<OsString>,
}
