//! What can be typed to `orion-precheck`.

use super::reap::BeforeCheck;
use super::shared::{Entry, NotAgain};
use super::{HELP, duration};
use clap::Parser;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  orion-precheck sync; [ $? -ne 75 ]             for a runner
  orion-precheck sync; [ $? -eq 75 ] && exit 75  in a bash script
  orion-precheck --cooldown 1h sync; [ $? -ne 75 ]
                                                 nor soon after its end
  orion-gate sync                                also if this binary is missing
  orion-precheck --reap --runner tmux --automation sync sync; [ $? -ne 75 ]
                                                 close finished runs first
  orion-precheck --strict -v sync                by hand: is it set up right?

Never 'orion-precheck sync && job': a missing binary would then skip every run.
";

const EXITS: &str = "\
Exit status:
  0    go: nobody is proved to hold a lock, or it cannot be told (stderr has why)
  75   skip: proof of a live owner, or --once, --cooldown (or the code of -E)
With --strict the real code of a problem comes through: 64, 69, 70, 71, 74, 78.
";

/// Before a fire: exit 75 (skip) on proof of a live owner, 0 (go) on every doubt.
#[derive(Debug, Parser)]
#[command(name = "orion-precheck", version, help_template = HELP, before_help = EXAMPLES, after_long_help = EXITS)]
pub(crate) struct Precheck {
    /// State directory, instead of the one 'orion-lock where' names
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub(crate) dir: Option<PathBuf>,
    /// The locks of many machines: a database's URL, or its NAME in /etc/orion/via (default: ORION_VIA)
    #[arg(long, value_name = "WHERE", hide_short_help = true)]
    pub(crate) via: Option<String>,
    /// Go ahead when there is no answer by then
    #[arg(long, value_name = "DUR", default_value = "45s", value_parser = duration, hide_short_help = true)]
    pub(crate) deadline: Duration,
    /// Exit with N instead of 75 (not 0: there is --observe)
    #[arg(short = 'E', long = "busy-code", value_name = "N", hide_short_help = true)]
    pub(crate) busy_code: Option<u8>,
    /// Always exit 0, and log what would have been said
    #[arg(long)]
    pub(crate) observe: bool,
    /// Change nothing: no log, and nothing is reaped
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Exit with the code of a problem, to test a configuration
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Say nothing about skips
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Explain each decision, and name what was never held here
    #[arg(short, long)]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) entry: Entry,
    #[command(flatten)]
    pub(crate) again: NotAgain,
    /// Names of locks; any one that is held is a skip
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<OsString>,
    #[command(flatten)]
    pub(crate) before: BeforeCheck,
}
