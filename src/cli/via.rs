//! What can be typed about locks of many machines, and the hidden subcommands of `orion-via`.

use super::duration;
use clap::Args;
#[cfg(feature = "postgres")]
use std::ffi::OsString;
use std::time::Duration;

/// What `run` promises to the other machines.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Many machines (--via)")]
pub(crate) struct ViaRunOptions {
    /// With --via: so long after this host lost the database nobody else begins [60s; 15s up to 60s, or never]
    #[arg(long, value_name = "DUR", value_parser = grace, hide_short_help = true)]
    pub(crate) grace: Option<Grace>,
    /// With --via: so long without the database the run works on, then it is stopped [grace less 3s or a tenth]
    #[arg(long, value_name = "DUR", value_parser = duration, hide_short_help = true)]
    pub(crate) fence: Option<Duration>,
    /// With --via: so long a stopped run waits for the database before it is killed (1h)
    #[arg(long, value_name = "DUR", value_parser = duration, hide_short_help = true)]
    pub(crate) frozen: Option<Duration>,
    /// The token to take; for 'orion-claim'
    #[arg(long, value_name = "N", hide = true)]
    pub(crate) floor: Option<u64>,
}

impl ViaRunOptions {
    /// The first of them that was typed.
    pub(crate) fn typed(&self) -> Option<&'static str> {
        let all = [
            ("--grace", self.grace.is_some()),
            ("--fence", self.fence.is_some()),
            ("--frozen", self.frozen.is_some()),
        ];
        all.into_iter().find(|(_, typed)| *typed).map(|(name, _)| name)
    }
}

/// `--grace`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grace {
    For(Duration),
    Never,
}

fn grace(text: &str) -> Result<Grace, String> {
    if text == "never" { Ok(Grace::Never) } else { duration(text).map(Grace::For) }
}

/// `init`
#[derive(Args, Debug)]
pub(crate) struct ViaInit {
    /// Only print what would be run, for psql
    #[arg(long)]
    pub(crate) print: bool,
    /// Who may use the locks; repeat it for more
    #[arg(long, value_name = "ROLE")]
    pub(crate) grant: Vec<String>,
    /// The longest grace that a run may promise (60s)
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(crate) max_grace: Option<Duration>,
}

/// The guardian; not for people.
#[cfg(feature = "postgres")]
#[derive(Debug, clap::Parser)]
pub(crate) struct GuardianArgs {
    /// Descriptor with orders
    #[arg(long, value_name = "FD")]
    pub(crate) pipe: i32,
    /// Descriptor for news
    #[arg(long, value_name = "FD")]
    pub(crate) report: i32,
    /// The command
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<OsString>,
}

/// The shim that a guardian starts; not for people.
#[cfg(feature = "postgres")]
#[derive(Debug, clap::Parser)]
pub(crate) struct ViaShimArgs {
    /// Descriptor to wait at
    #[arg(long, value_name = "FD")]
    pub(crate) gate: i32,
    /// Descriptor to answer on
    #[arg(long, value_name = "FD")]
    pub(crate) answer: i32,
    /// Signals to unblock, as bits
    #[arg(long, value_name = "HEX")]
    pub(crate) mask: String,
    /// The guardian
    #[arg(long, value_name = "PID")]
    pub(crate) parent: u32,
    /// The command
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<OsString>,
}

/// How `orion-claim` speaks to a database that decides who gets a ticket; not for people.
#[cfg(feature = "postgres")]
#[derive(Debug, clap::Parser)]
#[command(disable_help_subcommand = true)]
pub(crate) struct ViaArbiter {
    /// The database, instead of ORION_VIA
    #[arg(long, value_name = "WHERE")]
    pub(crate) via: Option<String>,
    /// State directory
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<std::path::PathBuf>,
    /// The tracker whose tickets are meant
    #[arg(long, value_name = "NAME")]
    pub(crate) tickets: String,
    #[command(subcommand)]
    pub(crate) command: ViaArbiterCommand,
}

/// What it may be asked.
#[cfg(feature = "postgres")]
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ViaArbiterCommand {
    /// The rows, and what an onlooker may say of them
    Look,
    /// Take a row for a process that keeps no session
    Take {
        #[arg(long, value_name = "TEXT")]
        nonce: String,
        #[arg(long, value_name = "N")]
        floor: u64,
        #[arg(long, value_name = "PID")]
        pid: u32,
        #[arg(long, value_name = "TEXT")]
        comm: String,
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Give back the row of this nonce
    GiveBack {
        #[arg(long, value_name = "TEXT")]
        nonce: String,
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Break a row that no session holds
    Free {
        #[arg(value_name = "NAME")]
        name: String,
    },
}

/// The program behind `orion-lock --via` and `orion-precheck --via`; these call it, people do not.
#[cfg(feature = "postgres")]
#[derive(Debug, clap::Parser)]
#[command(name = "orion-via", version)]
pub(crate) struct Via {}
