//! What can be typed to `orion-lock`.

use super::lock_control::{LockBreak, LockHold, LockPause, LockResume, LockStop, LockTick, TreeLimits};
use super::lock_seeing::{LockCheck, LockList, LockMetrics, LockPrune, LockTimeline};
use super::shared::{
    Busy, BusyNotZero, Entry, FlockWords, InLine, NotAgain, NotAgainHeld, Patience, ShimArgs, Wait, Whose,
    patience,
};
use super::via::{ViaInit, ViaRunOptions};
use super::{GLOBAL, HELP, Lazy, moment};
use crate::exit::{Exit, table};
use crate::model::moment::Moment;
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  orion-lock run sync nightly-report            exit 75 if another run holds it
  orion-lock run -w 10m sync nightly-report     wait up to ten minutes first
  orion-lock run --slots 3 agents start-agent   at most three at the same time
  orion-lock run --once \"$(date +%F)\" sync nightly-report   not twice a day
  orion-lock acquire --owner $$ sync            in a script, until it ends
  orion-lock status sync                        who holds it?
  orion-lock log --at 09:45 sync                why was 09:45 skipped?
  orion-lock pause --for 2h --all               let nothing new begin for two hours
";

/// A named lock keyed on a live process, freed only when its owner is proved dead.
#[derive(Debug, Parser)]
#[command(
    name = "orion-lock",
    version,
    help_template = HELP,
    before_long_help = EXAMPLES,
    after_long_help = table(&Exit::ALL, &[
        (Exit::Ok, "done; acquired; free; for run: the command's own status"),
        (Exit::Unavailable, "cannot tell: owner unknown, or the guard of the name is stuck"),
        (Exit::Skip, "proof of a live holder (or waited for one and time ran out), or --once, --cooldown, --max-waiting, a pause"),
    ]),
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Lock {
    #[command(flatten)]
    pub(crate) shared: LockShared,
    #[command(subcommand)]
    pub(crate) command: LockCommand,
}

/// Options that every subcommand takes.
#[derive(Args, Debug)]
pub(crate) struct LockShared {
    /// State directory, instead of the one 'where' names
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "DIR", hide_short_help = true)]
    pub(crate) dir: Option<PathBuf>,
    /// The lock of many machines: a database's URL, or its NAME in /etc/orion/via (default: ORION_VIA)
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "WHERE", hide_short_help = true)]
    pub(crate) via: Option<String>,
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

/// The hidden subcommand of the shim.
pub(crate) const SHIM: &str = "tree-shim";

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum LockCommand {
    /// Take the lock and become the command; the lock ends with it
    Run(Lazy<LockRun>),
    /// Take the lock for a process that lives on
    Acquire(Lazy<LockAcquire>),
    /// Give it back
    Release(Lazy<LockRelease>),
    /// Check that it is still yours; run it just before publishing results
    Verify(Lazy<LockVerify>),
    /// Report progress; --every DUR promises the next report in time
    Tick(Lazy<LockTick>),
    /// Who holds it (0 free, 75 held, 76 stuck, 69 cannot tell)
    Status(Lazy<LockStatus>),
    /// Wait until it is free, without taking it
    Wait(Lazy<LockWait>),
    /// Every lock, one row each
    List(Lazy<LockList>),
    /// Keep it by hand until Ctrl-C
    Hold(Lazy<LockHold>),
    /// Let no new run begin until 'resume', or for a time
    Pause(Lazy<LockPause>),
    /// End a pause
    Resume(Lazy<LockResume>),
    /// End the holder; free nothing
    Stop(Lazy<LockStop>),
    /// Free it by hand when nobody can tell whether its owner lives
    Break(Lazy<LockBreak>),
    /// What happened, and why a run was skipped
    Log(Lazy<LockLog>),
    /// A picture of what was held when, one row a lock
    Timeline(Lazy<LockTimeline>),
    /// Say what needs a person (76), or nothing (0): for cron's mail
    Check(Lazy<LockCheck>),
    /// Print the state of all locks for a monitoring system (OpenMetrics)
    Metrics(Lazy<LockMetrics>),
    /// Remove the files of names that nobody has and nobody used for long
    Prune(Lazy<LockPrune>),
    /// Which directory, and why that one
    Where(Lazy<LockWhere>),
    /// Self-test on this host as this user (run it from cron once, too)
    Doctor,
    /// With --via: set up the database, once
    Init(Lazy<ViaInit>),
    /// About a subcommand, or 'exit-codes'
    Help(Lazy<LockHelp>),
    /// What `run --tree` starts in the command's place; waits for its record, then becomes the command
    #[command(name = SHIM, hide = true)]
    Shim(Lazy<ShimArgs>),
}

/// `run`
#[derive(Args, Debug)]
pub(crate) struct LockRun {
    #[command(flatten)]
    pub(crate) wait: Wait,
    #[command(flatten)]
    pub(crate) line: InLine,
    #[command(flatten)]
    pub(crate) entry: Entry,
    #[command(flatten)]
    pub(crate) again: NotAgain,
    #[command(flatten)]
    pub(crate) busy: Busy,
    #[command(flatten)]
    pub(crate) limits: TreeLimits,
    #[command(flatten)]
    pub(crate) flock: FlockWords,
    /// End the holder first (TERM); waits for it -w, or 30s
    #[arg(long, conflicts_with_all = ["nonblock", "reentrant", "once", "once_ok", "cooldown"])]
    pub(crate) replace: bool,
    /// Do not let what the command leaves behind hold the lock
    #[arg(short = 'o', long, alias = "close", hide_short_help = true)]
    pub(crate) owner_only: bool,
    /// Go ahead when an ancestor of ours holds it already
    #[arg(long, hide_short_help = true)]
    pub(crate) reentrant: bool,
    /// Write one JSON line per fact there (/dev/fd/3 works)
    #[arg(long, value_name = "PATH", hide_short_help = true)]
    pub(crate) status_file: Option<PathBuf>,
    /// A word about this run, shown by status
    #[arg(long, value_name = "TEXT", hide_short_help = true)]
    pub(crate) note: Option<String>,
    /// Name of the lock
    #[arg(value_name = "NAME")]
    pub(crate) name: OsString,
    /// The command; or -c STRING, for sh
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<OsString>,
    // Last: its heading would take what follows.
    #[command(flatten)]
    pub(crate) via: ViaRunOptions,
}

/// Whose the lock is to be.
#[derive(Args, Debug)]
pub(crate) struct Owner {
    /// The owner, a caller of this: its pid ($$) or unique name
    #[arg(long, value_name = "WHO", conflicts_with = "for_pid")]
    pub(crate) owner: Option<String>,
    /// The owner: any process of this user
    #[arg(long = "for", value_name = "PID")]
    pub(crate) for_pid: Option<u32>,
}

/// `acquire`
#[derive(Args, Debug)]
pub(crate) struct LockAcquire {
    #[command(flatten)]
    pub(crate) owner: Owner,
    #[command(flatten)]
    pub(crate) wait: Wait,
    #[command(flatten)]
    pub(crate) line: InLine,
    #[command(flatten)]
    pub(crate) entry: Entry,
    #[command(flatten)]
    pub(crate) again: NotAgainHeld,
    #[command(flatten)]
    pub(crate) busy: BusyNotZero,
    /// Allow a one-shot shell (sh -c) as the owner
    #[arg(long, hide_short_help = true)]
    pub(crate) short_lived: bool,
    /// Standard input is NAME.pulse: let everything that has it open hold the lock
    #[arg(long, hide_short_help = true)]
    pub(crate) pulse_stdin: bool,
    /// A word about this run, shown by status
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
    /// Print the token
    #[arg(long)]
    pub(crate) print_token: bool,
    /// Go ahead when this owner, or an ancestor's exported token, holds it already
    #[arg(long, hide_short_help = true)]
    pub(crate) reentrant: bool,
    /// Only say who would own it
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Name of the lock
    #[arg(value_name = "NAME")]
    pub(crate) name: OsString,
}

/// `release`
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("right").required(true).args(["token", "owner"]))]
pub(crate) struct LockRelease {
    /// The token that acquire printed
    #[arg(long, value_name = "N")]
    pub(crate) token: Option<u64>,
    /// The owner's pid ($$), a caller of this command
    #[arg(long, value_name = "PID")]
    pub(crate) owner: Option<u32>,
    /// Name of the lock
    #[arg(value_name = "NAME")]
    pub(crate) name: OsString,
}

/// `verify`
#[derive(Args, Debug)]
pub(crate) struct LockVerify {
    /// The token; default: the one that run exported for this name
    #[arg(long, value_name = "N", conflicts_with = "owner")]
    pub(crate) token: Option<u64>,
    /// The owner, by pid or unique name
    #[arg(long, value_name = "WHO")]
    pub(crate) owner: Option<String>,
    /// Fine also when only something the owner started still lives
    #[arg(long, hide_short_help = true)]
    pub(crate) orphan_ok: bool,
    /// Name of the lock
    #[arg(value_name = "NAME")]
    pub(crate) name: OsString,
}

/// `status`
#[derive(Args, Debug)]
pub(crate) struct LockStatus {
    #[command(flatten)]
    pub(crate) whose: Whose,
    /// Name of the lock; without it, as list
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<OsString>,
}

/// `wait`
#[derive(Args, Debug)]
pub(crate) struct LockWait {
    /// At most that long (90s, 10m, 0); without it, for ever
    #[arg(short, long, value_name = "DUR", value_parser = patience)]
    pub(crate) wait: Option<Patience>,
    #[command(flatten)]
    pub(crate) entry: Entry,
    /// Name of the lock
    #[arg(value_name = "NAME")]
    pub(crate) name: OsString,
}

/// `log`
#[derive(Args, Debug)]
pub(crate) struct LockLog {
    #[command(flatten)]
    pub(crate) whose: Whose,
    /// Only the last N
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) lines: Option<usize>,
    /// The story around that moment: holder, skips, who came next
    #[arg(long, value_name = "WHEN", value_parser = moment, conflicts_with_all = ["lines", "since", "until", "event"])]
    pub(crate) at: Option<Moment>,
    /// Only from then on (90m, 09:45, 2026-11-29, RFC 3339)
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    pub(crate) since: Option<Moment>,
    /// Only until then
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    pub(crate) until: Option<Moment>,
    /// Only this kind of event: skipped, refused, acquired, ended, … (repeat it)
    #[arg(long, value_name = "EVENT", hide_short_help = true)]
    pub(crate) event: Vec<String>,
    /// Name of the lock; without it, all of them
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<OsString>,
}

/// `help`
#[derive(Args, Debug)]
pub(crate) struct LockHelp {
    /// A subcommand, or 'exit-codes'
    #[arg(value_name = "TOPIC")]
    pub(crate) topic: Option<String>,
}

/// `where`
#[derive(Args, Debug)]
pub(crate) struct LockWhere {
    /// Mark the directory as used by one container at a time
    #[arg(long, conflicts_with = "mark_network")]
    pub(crate) mark_private: bool,
    /// Mark the directory as shared between machines
    #[arg(long)]
    pub(crate) mark_network: bool,
    /// Make NAME's pulse file and print its path, for --pulse-stdin
    #[arg(long, value_name = "NAME", conflicts_with_all = ["mark_private", "mark_network"])]
    pub(crate) pulse: Option<OsString>,
}
