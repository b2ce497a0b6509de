//! What can be typed to `orion-mark`.

use super::HELP;
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  orion-mark install claude --dry-run   show the hooks that Claude Code needs
  orion-mark install claude             add them to ~/.claude/settings.json
  orion-mark check claude               are they there, complete and current?
  orion-mark claim nightly              at the start of a run, in its tmux pane
  orion-mark idle                       in a hook at the end of a turn
  orion-mark busy                       in a hook, when a turn or a tool begins
";

const EXITS: &str = "\
Exit status:
  0    done. The words of hooks (claim to ended) always end with 0: a hook must not stop an agent
With --strict the words of hooks let the code of a problem through, too: 64 bad arguments, 69 no
mark was set, 70 a bug of ours. install, check and profile always do: 64, 69 an agent that is not
known here, 70, 73 a settings file that cannot be written, 74 one that cannot be read, 78 hooks
that are missing, or settings that are not understood; nothing is changed then.
";

/// Say in a tmux pane whose run it is and whether its agent works; install hooks.
#[derive(Debug, Parser)]
#[command(
    name = "orion-mark",
    version,
    help_template = HELP,
    before_help = EXAMPLES,
    after_long_help = EXITS,
    disable_help_subcommand = true
)]
pub(crate) struct MarkTool {
    /// Exit with the code of a problem, to test hooks
    #[arg(long, global = true)]
    pub(crate) strict: bool,
    /// State directory for the log, instead of the one 'orion-lock where' names
    #[arg(long, value_name = "DIR", global = true, hide_short_help = true)]
    pub(crate) dir: Option<PathBuf>,
    /// What to do
    #[command(subcommand)]
    pub(crate) act: MarkAct,
}

/// The words of hooks, and the commands for people.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum MarkAct {
    /// This pane is a run of the automation (orion-fire says it)
    Claim(MarkClaim),
    /// The agent has started and no turn runs yet: hooks speak here
    Ready,
    /// A turn begins, or a tool begins or ends
    Busy,
    /// A turn has ended; the hook's JSON on stdin may say that work goes on
    Idle(MarkIdle),
    /// The turn has ended, and N pieces of work go on in the background
    Working(MarkWorking),
    /// The agent waits for a person
    Question,
    /// The agent's session has ended
    Ended,
    /// Add the hooks to an agent's own settings, or take them out again
    Install(MarkInstall),
    /// Are an agent's hooks complete and current? 0, or 78 with what is missing
    Check(MarkCheck),
    /// What is known about an agent, or about all of them
    Profile(MarkProfile),
}

/// `install AGENT`.
#[derive(Args, Clone, Debug)]
pub(crate) struct MarkInstall {
    /// claude, codex, gemini, opencode, pi, or one of your own profiles
    #[arg(value_name = "AGENT")]
    pub(crate) agent: OsString,
    /// Into the settings of the project in this directory
    #[arg(long)]
    pub(crate) project: bool,
    /// Into this file
    #[arg(long, value_name = "FILE", conflicts_with = "project")]
    pub(crate) file: Option<PathBuf>,
    /// Take out exactly the hooks of orion-mark
    #[arg(long)]
    pub(crate) remove: bool,
    /// Change nothing; show the lines that would change
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// `check AGENT`.
#[derive(Args, Clone, Debug)]
pub(crate) struct MarkCheck {
    /// The agent
    #[arg(value_name = "AGENT")]
    pub(crate) agent: OsString,
    /// Only in the settings of the project in this directory
    #[arg(long)]
    pub(crate) project: bool,
    /// Only in this file
    #[arg(long, value_name = "FILE", conflicts_with = "project")]
    pub(crate) file: Option<PathBuf>,
}

/// `profile [AGENT]`.
#[derive(Args, Clone, Debug)]
pub(crate) struct MarkProfile {
    /// The agent, by its name or its command
    #[arg(value_name = "AGENT")]
    pub(crate) agent: Option<OsString>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `claim AUTOMATION`.
#[derive(Args, Clone, Debug)]
pub(crate) struct MarkClaim {
    /// The automation, for orion-reap
    #[arg(value_name = "AUTOMATION")]
    pub(crate) automation: OsString,
}

/// `idle [JSON]`.
#[derive(Args, Clone, Debug)]
pub(crate) struct MarkIdle {
    /// What Codex's notify setting adds at the end
    #[arg(value_name = "JSON")]
    pub(crate) json: Option<OsString>,
}

/// `working [N]`.
#[derive(Args, Clone, Debug)]
pub(crate) struct MarkWorking {
    /// How many pieces of work
    #[arg(value_name = "N", default_value_t = 1)]
    pub(crate) tasks: u64,
}

impl MarkAct {
    /// As it is typed.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Claim(_) => "claim",
            Self::Ready => "ready",
            Self::Busy => "busy",
            Self::Idle(_) => "idle",
            Self::Working(_) => "working",
            Self::Question => "question",
            Self::Ended => "ended",
            Self::Install(_) => "install",
            Self::Check(_) => "check",
            Self::Profile(_) => "profile",
        }
    }
}
