//! What can be typed to `orion-claim`.

use super::claim_run::{ClaimRun, ClaimWatch, ClaimWork};
use super::shared::{PauseTerms, PictureArgs, ShimArgs};
use super::{GLOBAL, HELP, duration, moment};
use crate::exit::{Exit, table};
use crate::model::moment::Moment;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  orion-claim watch --max 2 -- start-agent   claim queued tickets, start the command
  orion-claim run 42 -- start-agent          claim one, run, hand over by the status
  orion-claim acquire --owner $$ 42          in a script; then release it --to ready
  orion-claim reconcile --dry-run            what would be healed, and why
  orion-claim status 42                      who holds it?
  orion-claim --print-config                 which settings are in force, and why

Never remove the working label while a run holds the ticket: it is the lock.
";

/// Claim tickets for live runs: the label is the lock, and dead runs are healed.
#[derive(Debug, Parser)]
#[command(
    name = "orion-claim",
    version,
    help_template = HELP,
    before_long_help = EXAMPLES,
    after_long_help = table(&Exit::ALL, &[
        (Exit::Ok, "done; the ticket is yours; free"),
        (Exit::Unavailable, "cannot tell: owner unknown, or the tracker cannot be reached"),
        (Exit::Skip, "a live run has the ticket, somebody else won it, or there is none to claim"),
        (Exit::NoPerm, "the ticket is not yours, or its owner has ended"),
    ]),
    disable_help_subcommand = true,
    arg_required_else_help = true
)]
pub(crate) struct ClaimArgs {
    #[command(flatten)]
    pub(crate) shared: ClaimShared,
    /// Show the settings in force and where each came from
    #[arg(long)]
    pub(crate) print_config: bool,
    #[command(subcommand)]
    pub(crate) command: Option<ClaimCommand>,
}

/// Options that every subcommand takes.
#[derive(Args, Debug)]
pub(crate) struct ClaimShared {
    /// file:/DIR, github:OWNER/REPO, gitlab:HOST/PATH, gitea:HOST/OWNER/REPO, jira:URL/PROJECT or command:/PROG
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "URL")]
    pub(crate) tracker: Option<String>,
    /// Who decides a race: guard, label-gate, comment-order, git-ref, none, or a PostgreSQL by URL
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "NAME", hide_short_help = true)]
    pub(crate) arbiter: Option<String>,
    /// Only this machine claims from that tracker
    #[arg(long, global = true, help_heading = GLOBAL, hide_short_help = true)]
    pub(crate) single_machine: bool,
    /// Offer tickets that are assigned to somebody else too
    #[arg(long, global = true, help_heading = GLOBAL, hide_short_help = true)]
    pub(crate) ignore_assignee: bool,
    /// Settings file, instead of claim.toml in the state directory
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "FILE", hide_short_help = true)]
    pub(crate) config: Option<PathBuf>,
    /// State directory, instead of the one 'orion-lock where' names
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "DIR", hide_short_help = true)]
    pub(crate) dir: Option<PathBuf>,
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
pub(crate) const SHIM: &str = "run-shim";
/// The hidden subcommand of a pass.
pub(crate) const TAKE_OVER: &str = "take-over";

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum ClaimCommand {
    /// Create labels and directories that are missing, or only report
    Init(ClaimInit),
    /// The next ticket that may be claimed (75: none)
    Next,
    /// Claim a ticket for a process that lives on
    Acquire(ClaimAcquire),
    /// Claim a ticket, run the command, hand over by its exit status
    Run(ClaimRun),
    /// Report progress; --every DUR promises the next report in time
    Tick(ClaimTick),
    /// Say which actor is on it
    Stage(ClaimStage),
    /// Check that it is still yours; run it just before pushing or writing
    Verify(ClaimVerify),
    /// Hand a ticket over
    Release(ClaimRelease),
    /// Tickets in the queue and in flight
    List,
    /// What happened to the claims of this machine, or to one ticket's
    Log(ClaimLog),
    /// A picture of who had which ticket when
    Timeline(ClaimTimeline),
    /// Numbers for monitoring (OpenMetrics)
    Metrics,
    /// The directory of this machine's claims
    Where(ClaimWhere),
    /// Who holds a ticket (0 free, 75 held, 76 stuck, 69 cannot tell)
    Status(KeyArg),
    /// Let no ticket be taken until 'resume', or for a time
    Pause(PauseTerms),
    /// End the pause of this tracker
    Resume,
    /// One pass over everything in flight: heal what a dead run left
    Reconcile(ClaimReconcile),
    /// Until stopped: reconcile, claim, start the command
    Watch(ClaimWatch),
    /// For a person who knows that nobody works on it any more
    Free(ClaimFree),
    /// What `run` starts in the command's place; waits for its record, then becomes the command
    #[command(name = SHIM, hide = true)]
    Shim(ShimArgs),
    /// What a pass starts for a ticket whose machine lost the database that decides
    #[command(name = TAKE_OVER, hide = true)]
    TakeOver(ClaimTakeOver),
}

/// `status`
#[derive(Args, Debug)]
pub(crate) struct KeyArg {
    /// The ticket
    #[arg(value_name = "KEY")]
    pub(crate) key: OsString,
}

/// `init`
#[derive(Args, Debug)]
pub(crate) struct ClaimInit {
    /// Only report
    #[arg(long)]
    pub(crate) check: bool,
}

/// `log`
#[derive(Args, Debug)]
pub(crate) struct ClaimLog {
    /// So many of the last lines (default 50)
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) lines: Option<usize>,
    /// The story around that moment: whose it was, who came next
    #[arg(long, value_name = "WHEN", value_parser = moment, conflicts_with_all = ["lines", "since", "until", "event"])]
    pub(crate) at: Option<Moment>,
    /// Only from then on (90m, 09:45, 2026-11-29, RFC 3339)
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    pub(crate) since: Option<Moment>,
    /// Only until then
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    pub(crate) until: Option<Moment>,
    /// Only this kind of event: acquired, released, refused, … (repeat it)
    #[arg(long, value_name = "EVENT", hide_short_help = true)]
    pub(crate) event: Vec<String>,
    /// The ticket
    #[arg(value_name = "KEY")]
    pub(crate) key: Option<OsString>,
}

/// `timeline`
#[derive(Args, Debug)]
pub(crate) struct ClaimTimeline {
    #[command(flatten)]
    pub(crate) picture: PictureArgs,
    /// Tickets; without one, all that were claimed here in this time
    #[arg(value_name = "KEY")]
    pub(crate) keys: Vec<OsString>,
}

/// `where`
#[derive(Args, Debug)]
pub(crate) struct ClaimWhere {
    /// Make KEY's pulse file and print its path, for --pulse-stdin
    #[arg(long, value_name = "KEY")]
    pub(crate) pulse: Option<OsString>,
}

/// `acquire`
#[derive(Args, Debug)]
pub(crate) struct ClaimAcquire {
    /// The owner, a caller of this: its pid ($$) or unique name
    #[arg(long, value_name = "WHO", conflicts_with = "for_pid")]
    pub(crate) owner: Option<String>,
    /// The owner: any process of this user
    #[arg(long = "for", value_name = "PID")]
    pub(crate) for_pid: Option<u32>,
    /// Allow a one-shot shell (sh -c) as the owner
    #[arg(long, hide_short_help = true)]
    pub(crate) short_lived: bool,
    /// Standard input is KEY's pulse file: whatever has it open keeps the claim
    #[arg(long, hide_short_help = true)]
    pub(crate) pulse_stdin: bool,
    /// Print the token
    #[arg(long)]
    pub(crate) print_token: bool,
    #[command(flatten)]
    pub(crate) work: ClaimWork,
    /// The ticket
    #[arg(value_name = "KEY")]
    pub(crate) key: OsString,
}

/// Whose claim it is.
#[derive(Args, Debug)]
pub(crate) struct ClaimRight {
    /// The token; default: ORION_CLAIM_TOKEN
    #[arg(long, value_name = "N", conflicts_with = "owner")]
    pub(crate) token: Option<u64>,
    /// The owner, by pid or unique name
    #[arg(long, value_name = "WHO")]
    pub(crate) owner: Option<String>,
}

/// `tick`
#[derive(Args, Debug)]
pub(crate) struct ClaimTick {
    #[command(flatten)]
    pub(crate) right: ClaimRight,
    /// The promise: the next one comes within that time
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(crate) every: Option<Duration>,
    /// The ticket
    #[arg(value_name = "KEY")]
    pub(crate) key: OsString,
}

/// `stage`
#[derive(Args, Debug)]
pub(crate) struct ClaimStage {
    #[command(flatten)]
    pub(crate) right: ClaimRight,
    #[command(flatten)]
    pub(crate) work: ClaimWork,
    /// The ticket
    #[arg(value_name = "KEY")]
    pub(crate) key: OsString,
    /// The id of the actor that begins now
    #[arg(value_name = "NAME")]
    pub(crate) name: OsString,
}

/// `verify`
#[derive(Args, Debug)]
pub(crate) struct ClaimVerify {
    #[command(flatten)]
    pub(crate) right: ClaimRight,
    /// The ticket
    #[arg(value_name = "KEY")]
    pub(crate) key: OsString,
}

/// Where a ticket goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum To {
    Ready,
    CiWait,
    Queue,
    Failed,
}

/// `release`
#[derive(Args, Debug)]
pub(crate) struct ClaimRelease {
    /// Where the ticket goes
    #[arg(long, value_name = "WHERE")]
    pub(crate) to: To,
    /// The token that acquire printed
    #[arg(long, value_name = "N", required_unless_present = "owner", conflicts_with = "owner")]
    pub(crate) token: Option<u64>,
    /// The owner's pid ($$), a caller of this command
    #[arg(long, value_name = "PID")]
    pub(crate) owner: Option<u32>,
    /// The ticket
    #[arg(value_name = "KEY")]
    pub(crate) key: OsString,
}

/// `reconcile`
#[derive(Args, Debug)]
pub(crate) struct ClaimReconcile {
    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// What a pass starts; not for people.
#[derive(Args, Debug)]
pub(crate) struct ClaimTakeOver {
    /// The event that put the working label on, as it was seen
    #[arg(long, value_name = "ID")]
    pub(crate) event: Option<String>,
    /// The ticket
    #[arg(value_name = "KEY")]
    pub(crate) key: OsString,
}

/// `free`
#[derive(Args, Debug)]
pub(crate) struct ClaimFree {
    /// The machine that the ticket's host label names
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
    /// You have made sure that nobody works on it
    #[arg(long)]
    pub(crate) yes: bool,
    /// The ticket
    #[arg(value_name = "KEY")]
    pub(crate) key: OsString,
}
