//! What can be typed to `orion-precheck`.

use super::reap::BeforeCheck;
use super::shared::Entry;
use super::{HELP, duration};
use clap::Parser;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  orion-precheck sync; [ $? -ne 75 ]             for a runner: go unless a live run holds 'sync'
  orion-precheck sync; [ $? -eq 75 ] && exit 75  in a bash script
  orion-gate sync                                the same in one word, also when this binary is missing
  orion-precheck --reap --runner tmux --automation sync sync; [ $? -ne 75 ]
                                                 the same where finished runs stay open: close them first
  orion-precheck --strict -v sync                by hand: is it set up right?

Never 'orion-precheck sync && job': a missing binary would then skip every run.
";

const EXITS: &str = "\
Exit status:
  0    go: nobody is proved to hold a lock, or this tool cannot tell (it says so on stderr)
  75   skip: proof of a live owner (or the code of -E)
With --strict the real code of a problem comes through: 64, 69, 70, 71, 74, 78.
";

/// The check before a fire: skip only on proof of a live owner, go on every doubt.
#[derive(Debug, Parser)]
#[command(name = "orion-precheck", version, help_template = HELP, before_help = EXAMPLES, after_help = EXITS)]
pub(crate) struct Precheck {
    /// State directory, instead of the one 'orion-lock where' names
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// The locks of many machines: a database's URL, or its NAME in /etc/orion/via (default: ORION_VIA)
    #[arg(long, value_name = "WHERE")]
    pub(crate) via: Option<String>,
    /// Go ahead when there is no answer by then
    #[arg(long, value_name = "DUR", default_value = "45s", value_parser = duration)]
    pub(crate) deadline: Duration,
    /// Exit with N instead of 75 (not 0: there is --observe)
    #[arg(short = 'E', long = "busy-code", value_name = "N")]
    pub(crate) busy_code: Option<u8>,
    /// Always exit 0, and log what would have been said
    #[arg(long)]
    pub(crate) observe: bool,
    /// Change nothing: no log, and nothing is reaped
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Let the code of a problem through, to test a configuration by hand
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Say nothing about skips
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Explain each decision, and say which names were never held here
    #[arg(short, long)]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) entry: Entry,
    /// Names of locks; any one that is held is a skip
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<OsString>,
    #[command(flatten)]
    pub(crate) before: BeforeCheck,
}
