//! What can be typed to `orion-reap`, and the part of it that `orion-precheck --reap` takes too.

use super::{HELP, duration};
use clap::{Args, Parser};
use regex_lite::Regex;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  orion-reap --runner tmux --automation nightly --dry-run   only say what and why
  orion-reap --runner tmux --automation nightly             close finished runs
  orion-reap --runner orca --automation nightly --json      the same for Orca
  orion-reap --log                                          what was decided, why
  orion-precheck --reap --runner tmux --automation nightly nightly; [ $? -ne 75 ]
";

const EXITS: &str = "\
Exit status:
  0    always: what was closed, what was kept and what did not work is in the output
With --strict the real code of a problem comes through: 64 bad arguments, 69 a runner that
did not answer or a close that did not work, 70 a bug of ours, 71 the system refused, 73 and
74 --keep-output not writable.
";

/// Close the terminals of finished runs, and wait for their processes to go.
#[derive(Debug, Parser)]
#[command(
    name = "orion-reap",
    version,
    help_template = HELP,
    before_help = EXAMPLES,
    after_long_help = EXITS
)]
pub(crate) struct Reap {
    #[command(flatten)]
    pub(crate) what: ReapOptions,
    /// Be done by then, whatever hangs
    #[arg(long, value_name = "DUR", default_value = "90s", value_parser = duration, hide_short_help = true)]
    pub(crate) deadline: Duration,
    /// Close nothing; show each condition and its evidence
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Close nothing; print what earlier passes decided
    #[arg(long)]
    pub(crate) log: bool,
    /// State directory for the log and for what passes remember, instead of the one 'orion-lock where' names
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub(crate) dir: Option<PathBuf>,
    /// Exit with the code of a problem, to test a configuration
    #[arg(long, hide_short_help = true)]
    pub(crate) strict: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only the summary
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Print each condition and its evidence
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// What to reap and when a run counts as finished.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Reaping")]
pub(crate) struct ReapOptions {
    /// Who keeps the terminals: tmux, orca, or command:PROG
    #[arg(long, value_name = "RUNNER", value_parser = runner)]
    pub(crate) runner: Option<RunnerName>,
    /// Only runs of this one: exact name or id; repeat for more
    #[arg(long = "automation", value_name = "NAME", value_parser = automation)]
    pub(crate) automations: Vec<String>,
    /// Silent, and alive, for so long
    #[arg(long, value_name = "DUR", default_value = "10m", value_parser = duration)]
    pub(crate) idle: Duration,
    /// Wait this long for the processes of closed terminals to go
    #[arg(long, value_name = "DUR", default_value = "5s", value_parser = duration, hide_short_help = true)]
    pub(crate) settle: Duration,
    /// tmux: a pane without a mark is idle if one of its last lines matches
    #[arg(long, value_name = "REGEX", value_parser = regex, requires = "trust_screen", hide_short_help = true)]
    pub(crate) idle_match: Option<Regex>,
    /// Yes, believe what --idle-match sees on a screen
    #[arg(long, requires = "idle_match", hide_short_help = true)]
    pub(crate) trust_screen: bool,
    /// tmux: a server by socket name, or by path if it has a slash (repeat for more)
    #[arg(long = "tmux-socket", value_name = "NAME|PATH", hide_short_help = true)]
    pub(crate) tmux_sockets: Vec<OsString>,
    /// A process of this name belongs to an idle agent, an MCP server say (repeat for more)
    #[arg(long = "resident", value_name = "COMM", hide_short_help = true)]
    pub(crate) residents: Vec<String>,
    /// A job left by a turn keeps its terminal until it has done nothing at all for this long
    #[arg(long, value_name = "DUR", default_value = "2h", value_parser = duration, hide_short_help = true)]
    pub(crate) job_quiet: Duration,
    /// Close also runs whose turn began, never ended, and showed no sign for this long
    #[arg(long, value_name = "DUR", value_parser = duration, hide_short_help = true)]
    pub(crate) interrupted: Option<Duration>,
    /// Send TERM to processes that outlive the close of their terminal, and KILL after DUR where it is given
    #[arg(long, value_name = "DUR", num_args = 0..=1, require_equals = true, value_parser = duration, hide_short_help = true)]
    pub(crate) end_survivors: Option<Option<Duration>>,
    /// Close also the newest terminal of an automation that reuses its session
    #[arg(long, hide_short_help = true)]
    pub(crate) close_newest: bool,
    /// Save the text of each terminal here (mode 0600) before it is closed
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub(crate) keep_output: Option<PathBuf>,
    /// Allow --idle under 1m
    #[arg(long, hide_short_help = true)]
    pub(crate) force: bool,
}

/// The part of `orion-precheck` that is about reaping.
#[derive(Args, Clone, Debug)]
pub(crate) struct BeforeCheck {
    /// First close terminals of finished runs, as orion-reap does
    #[arg(long, requires = "runner")]
    pub(crate) reap: bool,
    /// A terminal of a named automation that the runner proves busy is a live owner too
    #[arg(long, requires = "reap", hide_short_help = true)]
    pub(crate) busy_is_held: bool,
    #[command(flatten)]
    pub(crate) what: ReapOptions,
}

/// Which runner was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunnerName {
    Tmux,
    Orca,
    Command(OsString),
}

fn runner(text: &str) -> Result<RunnerName, String> {
    match text.split_once(':') {
        None if text == "tmux" => Ok(RunnerName::Tmux),
        None if text == "orca" => Ok(RunnerName::Orca),
        Some(("command", program)) if !program.is_empty() => {
            Ok(RunnerName::Command(OsStr::new(program).to_owned()))
        }
        _ => Err("not a runner (tmux, orca, or command:PROG)".to_owned()),
    }
}

fn automation(text: &str) -> Result<String, String> {
    if text.is_empty() {
        Err("empty: it would mean every automation".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

fn regex(text: &str) -> Result<Regex, String> {
    let regex = Regex::new(text).map_err(|error| error.to_string())?;
    if regex.is_match("") { Err("matches an empty line, so every screen".to_owned()) } else { Ok(regex) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_is_one_of_three() {
        assert_eq!(runner("tmux"), Ok(RunnerName::Tmux));
        assert_eq!(runner("command:/x y"), Ok(RunnerName::Command("/x y".into())));
        for bad in ["", "tmux:", "command", "command:", "herdr", "Tmux"] {
            assert!(runner(bad).is_err(), "{bad}");
        }
        assert!(automation("").is_err() && regex("").is_err() && regex("(").is_err() && regex("> $").is_ok());
    }
}
