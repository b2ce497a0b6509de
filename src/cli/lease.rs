//! What can be typed to `orion-lease`.

use super::shared::{Busy, Wait};
use super::{GLOBAL, HELP, duration};
use crate::exit::{Exit, table};
use crate::model::lease::{BECOME, GUARDIAN};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  orion-lease run /srv/journal.db server    serve it; exit 75 if another does
  orion-lease tick /srv/journal.db          in the server's loop: report progress
  orion-lease probe /srv/journal.db         who serves it? (75 held, 76 stuck)
  orion-lease probe --up /srv/journal.db    health check: 0 serving, 76 stuck, 69
  orion-lease takeover /srv/journal.db      end a stuck holder
";

/// A payload has no versions, so nothing is ever too new.
const EXITS: [Exit; 11] = [
    Exit::Ok,
    Exit::Usage,
    Exit::Unavailable,
    Exit::Software,
    Exit::OsErr,
    Exit::CantCreat,
    Exit::IoErr,
    Exit::Skip,
    Exit::Stuck,
    Exit::NoPerm,
    Exit::Config,
];

/// One resident process per store, with ticks, a stuck report and takeover.
#[derive(Debug, Parser)]
#[command(
    name = "orion-lease",
    version,
    help_template = HELP,
    before_help = EXAMPLES,
    after_long_help = table(&EXITS, &[
        (Exit::Ok, "done; the role is free"),
        (Exit::Unavailable, "cannot tell: the holder cannot be named, or its payload cannot be believed"),
        (Exit::CantCreat, "the lock file could not be made or written (ENOSPC, EROFS, EACCES)"),
        (Exit::Skip, "proof of a live resident (or waited for one and time ran out)"),
        (Exit::NoPerm, "you are not the resident, or the role was lost"),
    ]),
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct LeaseArgs {
    #[command(flatten)]
    pub(crate) shared: LeaseShared,
    #[command(subcommand)]
    pub(crate) command: LeaseCommand,
}

/// Options that every subcommand takes.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct LeaseShared {
    /// Print one JSON object
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,
    /// Show times in UTC instead of local time
    #[arg(long, global = true, help_heading = GLOBAL, hide_short_help = true)]
    pub(crate) utc: bool,
    /// Do not print refusals
    #[arg(short, long, global = true, help_heading = GLOBAL)]
    pub(crate) quiet: bool,
    /// Explain each decision
    #[arg(short, long, global = true, help_heading = GLOBAL)]
    pub(crate) verbose: bool,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum LeaseCommand {
    /// Print the lock file of a store
    Path(LeaseStore),
    /// Take the role and run the command under it
    Run(LeaseRun),
    /// Who serves it (0 free, 75 held, 76 stuck, 69 cannot tell)
    Probe(LeaseProbe),
    /// Report progress; from the holder or its command only
    Tick(LeaseStore),
    /// End a stuck holder and leave the role free
    Takeover(LeaseTakeover),
    #[command(name = GUARDIAN, hide = true)]
    Guardian(LeaseGuardian),
    #[command(name = BECOME, hide = true)]
    Become(Become),
}

/// `path`, `tick`
#[derive(Args, Debug)]
pub(crate) struct LeaseStore {
    /// The store: a file, existing or not, in an existing directory
    #[arg(value_name = "STORE")]
    pub(crate) store: PathBuf,
}

/// When a holder that has ticked is called stuck.
#[derive(Args, Debug)]
pub(crate) struct LeasePatience {
    /// Stuck: no tick for so long in time awake; at least 1s
    #[arg(long, value_name = "DUR", value_parser = silence_limit, default_value = "5m")]
    pub(crate) stuck_after: Duration,
}

/// Below a second the second look before a signal would be as long as the silence itself.
fn silence_limit(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        limit if limit < Duration::from_secs(1) => Err("at least 1s".to_owned()),
        limit => Ok(limit),
    }
}

/// `run`
#[derive(Args, Debug)]
pub(crate) struct LeaseRun {
    #[command(flatten)]
    pub(crate) wait: Wait,
    #[command(flatten)]
    pub(crate) busy: Busy,
    /// Where this process comes from, shown to others: chat, wake, api
    #[arg(long, value_name = "NAME", default_value = "unknown", hide_short_help = true)]
    pub(crate) surface: String,
    /// End a holder that is stuck, or of an older build
    #[arg(long, value_name = "WHEN")]
    pub(crate) takeover: Vec<When>,
    /// KILL a holder that did not end within DUR
    #[arg(long, value_name = "DUR", value_parser = duration, requires = "takeover")]
    pub(crate) kill_after: Option<Duration>,
    #[command(flatten)]
    pub(crate) patience: LeasePatience,
    /// The file whose time and size are the build's, instead of the command's own
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) build_file: Option<PathBuf>,
    /// The build's revision: a commit, a version
    #[arg(long, value_name = "TEXT", hide_short_help = true)]
    pub(crate) revision: Option<String>,
    /// Become the command instead of watching it: for programs that tick by themselves
    #[arg(long, hide_short_help = true)]
    pub(crate) exec: bool,
    /// The store: a file, existing or not, in an existing directory
    #[arg(value_name = "STORE")]
    pub(crate) store: PathBuf,
    /// The command
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<OsString>,
}

/// Which holders may be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    // No doc comments here: with them every option of the help takes three lines.
    Stuck,
    Newer,
}

/// `probe`
#[derive(Args, Debug)]
pub(crate) struct LeaseProbe {
    /// As a health check: 0 serving, 76 stuck, 69 nobody
    #[arg(long)]
    pub(crate) up: bool,
    #[command(flatten)]
    pub(crate) patience: LeasePatience,
    /// The store
    #[arg(value_name = "STORE")]
    pub(crate) store: PathBuf,
}

/// `takeover`
#[derive(Args, Debug)]
pub(crate) struct LeaseTakeover {
    /// Wait that long for the holder's end
    #[arg(short, long, value_name = "DUR", value_parser = duration, default_value = "30s")]
    pub(crate) wait: Duration,
    /// KILL it if it is still there after DUR
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(crate) kill_after: Option<Duration>,
    #[command(flatten)]
    pub(crate) patience: LeasePatience,
    /// Say what would be done and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The store
    #[arg(value_name = "STORE")]
    pub(crate) store: PathBuf,
}

/// Internal: the command's parent.
#[derive(Args, Debug)]
pub(crate) struct LeaseGuardian {
    #[arg(long)]
    pub(crate) pipe: i32,
    #[arg(long)]
    pub(crate) mask: String,
    #[arg(long)]
    pub(crate) parent: u32,
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<OsString>,
}

/// Internal: gives signals back and becomes the command.
#[derive(Args, Debug)]
pub(crate) struct Become {
    #[arg(long)]
    pub(crate) mask: String,
    #[arg(long)]
    pub(crate) parent: u32,
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<OsString>,
}
