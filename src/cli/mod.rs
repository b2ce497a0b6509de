//! What can be typed: one file per tool with its clap types, and here what they
//! share. Parsing never touches the world.
//!
//! `-h` fits one screen, so it has what people type every day; the rest is marked
//! `hide_short_help = true` and stands in `--help`, which has everything.

pub(crate) mod claim;
pub(crate) mod claim_run;
// Serves tests and releases only, but has to see the crate-private clap types.
#[cfg(test)]
#[path = "../../tests/completions_writer/mod.rs"]
mod completions;
mod flock_line;
pub(crate) mod lease;
pub(crate) mod lock;
pub(crate) mod lock_control;
pub(crate) mod lock_seeing;
pub(crate) mod mark;
pub(crate) mod precheck;
pub(crate) mod reap;
pub(crate) mod shared;
pub(crate) mod via;

use crate::error::Error;
use crate::model::duration;
use crate::model::moment::{self, Moment};
use clap::error::ErrorKind;
use clap::{ArgMatches, Args, FromArgMatches};
use std::ffi::OsString;
use std::time::Duration;

/// Options that every subcommand takes stand under a heading of their own, behind its own ones.
pub(crate) const GLOBAL: &str = "Global options";

/// Help with the examples before the options, as people read it.
pub(crate) const HELP: &str = "\
{about-with-newline}
{before-help}{usage-heading} {usage}

{all-args}{after-help}";

/// Why parsing ended without arguments to act on.
#[derive(Debug)]
pub(crate) enum ParseEnd {
    /// `--help` or `--version`: this text goes to stdout.
    Show(String),
    /// One line that says what to type.
    Usage(Error),
}

/// Parses arguments of `program`.
///
/// # Errors
/// [`ParseEnd`]: help to show, or a usage error in one line.
pub(crate) fn parse<C: clap::Parser>(
    program: &str,
    args: impl IntoIterator<Item = OsString>,
) -> Result<C, ParseEnd> {
    let args: Vec<OsString> = args.into_iter().collect();
    C::try_parse_from(&args).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp if args.iter().any(|arg| arg == "--help") => {
            ParseEnd::Show(whole_help(C::command(), &error.to_string()))
        }
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ParseEnd::Show(shown(&error.to_string())),
        _ => ParseEnd::Usage(
            flock_line::instead(&args, &error)
                .unwrap_or_else(|| usage_error(program, subcommand(&args), &error)),
        ),
    })
}

/// A text of clap as it goes to stdout: one empty line between two parts.
fn shown(text: &str) -> String {
    text.trim_end().replace("\n\n\n", "\n\n")
}

/// What stands behind "Usage:" until the first argument: `orion-lock run`.
fn usage_of(text: &str) -> Option<String> {
    let usage = text.lines().find_map(|line| line.trim().strip_prefix("Usage: "))?;
    let words = usage.split(' ').take_while(|word| !word.starts_with(['[', '<', '-', '(']));
    Some(words.take(2).collect::<Vec<_>>().join(" "))
}

/// `--help` with all that `-h` leaves out, in the layout of `-h`: clap's own long help, in `text`,
/// takes three lines an option.
fn whole_help(mut command: clap::Command, text: &str) -> String {
    command.build();
    let usage = usage_of(text).unwrap_or_default();
    let meant = usage.split(' ').nth(1).and_then(|word| command.find_subcommand_mut(word));
    let mut meant = meant.cloned().unwrap_or(command).mut_args(|arg| arg.hide_short_help(false));
    if let Some(start) = meant.get_before_long_help().cloned() {
        meant = meant.before_help(start);
    }
    if let Some(end) = meant.get_after_long_help().cloned() {
        meant = meant.after_help(end);
    }
    shown(&meant.render_help().to_string().replace("(see more with '--help')", "(a summary with -h)"))
}

/// What looks like the subcommand: the first word behind the program's name, if it is not an option.
fn subcommand(args: &[OsString]) -> Option<&str> {
    args.get(1)?.to_str().filter(|word| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'))
}

/// clap's paragraphs as one line: what is wrong, its tip, where to read on.
fn usage_error(program: &str, subcommand: Option<&str>, error: &clap::Error) -> Error {
    let text = error.to_string();
    let mut parts: Vec<&str> = Vec::new();
    let mut tips: Vec<&str> = Vec::new();
    let mut see = program.to_owned();
    // Where a value is wrong there is no usage line, and the subcommand was understood.
    if matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue)
        && let Some(word) = subcommand.filter(|word| !word.starts_with('-'))
    {
        see = format!("{program} {word}");
    }
    for line in text.lines().map(str::trim) {
        if line.starts_with("Usage: ") {
            // "orion-lock run [OPTIONS] …" names the subcommand whose help is meant.
            see = usage_of(line).unwrap_or(see);
            break;
        }
        if let Some(tip) = line.strip_prefix("tip: ") {
            tips.push(tip);
        } else if !line.is_empty() && !line.starts_with("For more information") {
            parts.push(line);
        }
    }
    let message = if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        "a subcommand is missing".to_owned()
    } else {
        parts.join(" ").trim_start_matches("error: ").to_owned()
    };
    tips.push("see");
    Error::usage(message).hint(format!("{} {see} --help", tips.join("; ")))
}

/// Arguments of a subcommand that are described to clap only when that subcommand is
/// typed: describing all of them is a third of the time a refusal takes.
#[derive(Clone, Debug)]
pub(crate) struct Lazy<T>(pub(crate) T);

impl<T: Args> Lazy<T> {
    fn describe(command: clap::Command) -> clap::Command {
        // The words of the subcommand stay, not those of its arguments' type.
        let about = command.get_about().cloned();
        T::augment_args(command).about(about.unwrap_or_default())
    }
}

impl<T: Args> Args for Lazy<T> {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.defer(Self::describe)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        command.defer(Self::describe)
    }
}

impl<T: FromArgMatches> FromArgMatches for Lazy<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

/// A clap value parser for moments.
///
/// # Errors
/// What is accepted.
pub(crate) fn moment(text: &str) -> Result<Moment, String> {
    moment::parse(text)
}

/// A clap value parser for durations.
///
/// # Errors
/// What is accepted.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    duration::parse(text)
}
