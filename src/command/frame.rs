//! The frame every tool but the fail-open ones runs in: parse, run, report, exit.

use crate::cli::{self, ParseEnd};
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::os::mask::Blocked;
use crate::report::Report;
use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// Parses the process's arguments and runs `body` with them. A usage error is 64,
/// a panic 70, both with one line.
///
/// `-q` may silence what `body` returns only where that is a refusal (75).
pub(crate) fn run<C: clap::Parser>(
    program: &'static str,
    body: impl FnOnce(C, &mut Report) -> Result<Status, Error>,
) -> ExitCode {
    run_with(program, std::env::args_os().collect(), body)
}

/// As [`run`], with arguments of the caller's; the first is the program's name.
pub(crate) fn run_with<C: clap::Parser>(
    program: &'static str,
    arguments: Vec<OsString>,
    body: impl FnOnce(C, &mut Report) -> Result<Status, Error>,
) -> ExitCode {
    let mut report = Report::new(program);
    let arguments = match cli::parse::<C>(program, arguments) {
        Ok(arguments) => arguments,
        Err(ParseEnd::Show(text)) => {
            let _blocked = Blocked::file_size();
            return shown(&report, &text);
        }
        Err(ParseEnd::Usage(error)) => {
            // Not even the line about a bad option may be our death.
            let _blocked = Blocked::file_size();
            report.json = asks_for_json();
            report.error(&error, false);
            return Status::from(Exit::Usage).into();
        }
    };
    silence_panics();
    let outcome = catch_unwind(AssertUnwindSafe(|| body(arguments, &mut report)));
    let outcome = outcome.unwrap_or_else(|payload| Err(bug(payload.as_ref())));
    outcome
        .unwrap_or_else(|error| {
            let _blocked = Blocked::file_size();
            let exit = Exit::from(error.kind());
            report.error(&error, exit == Exit::Skip);
            exit.into()
        })
        .into()
}

/// Help and version go to stdout; a closed pipe there is not an error.
fn shown(report: &Report, text: &str) -> ExitCode {
    match report.data(text) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Status::from(Exit::IoErr).into(),
        _ => Status::from(Exit::Ok).into(),
    }
}

/// Was `--json` asked for, in arguments that could not be parsed? Before a `--` only.
pub(crate) fn asks_for_json() -> bool {
    std::env::args_os().take_while(|argument| argument != "--").any(|argument| argument == "--json")
}

/// The default hook prints several lines; the one line that matters comes from [`bug`].
pub(crate) fn silence_panics() {
    std::panic::set_hook(Box::new(|_| {}));
}

/// A panic as an error of kind [`Kind::Bug`].
pub(crate) fn bug(payload: &(dyn std::any::Any + Send)) -> Error {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    Error::new(Kind::Bug, format!("a bug: {text}")).hint("please report it with the command you typed")
}
