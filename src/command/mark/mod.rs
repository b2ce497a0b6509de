//! `orion-mark`: the marks of agents on their panes, and the hooks that set them.
//!
//! The words of hooks end with 0 and print nothing, whatever happens: agents show, or act on, what their hooks say.

mod check;
mod hooks;
mod install;
mod json_settings;
mod place;
mod profile;
mod profiles;
mod set;
mod settings;
mod toml_settings;

pub(crate) use profiles::all as agent_profiles;

use super::frame::{bug, silence_panics};
use crate::cli::mark::{MarkAct, MarkTool};
use crate::cli::{self, ParseEnd};
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::report::Report;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

const PROGRAM: &str = "orion-mark";
/// Subcommands whose exit status is always the real one.
const FOR_PEOPLE: [&str; 3] = ["install", "check", "profile"];

/// Entry of the program.
pub fn main() -> ExitCode {
    silence_panics();
    let strict = std::env::args_os().take_while(|word| word != "--").any(|word| word == "--strict");
    let mut report = Report::new(PROGRAM);
    let args = match cli::parse::<MarkTool>(PROGRAM, std::env::args_os()) {
        Ok(args) => args,
        Err(ParseEnd::Show(text)) => {
            drop(report.data(&text));
            return Status::from(Exit::Ok).into();
        }
        Err(ParseEnd::Usage(error)) => {
            // A person typed it, or wrote it into a hook: the line helps both, the code would stop the agent.
            report.error(&error, false);
            let exit = if strict || !words_of_hooks() { Exit::Usage } else { Exit::Ok };
            return Status::from(exit).into();
        }
    };
    let word = !FOR_PEOPLE.contains(&args.act.word());
    let done = catch_unwind(AssertUnwindSafe(|| run(&args, &mut report)));
    let status = match done.unwrap_or_else(|payload| Err(bug(payload.as_ref()))) {
        Ok(status) => status,
        Err(error) => {
            if !word || strict {
                report.error(&error, false);
            }
            Exit::from(error.kind()).into()
        }
    };
    if word && !strict { Status::from(Exit::Ok) } else { status }.into()
}

/// Was a word of hooks typed, or nothing that is understood at all?
fn words_of_hooks() -> bool {
    !std::env::args_os().skip(1).any(|word| FOR_PEOPLE.iter().any(|name| word == *name))
}

fn run(args: &MarkTool, report: &mut Report) -> Result<Status, Error> {
    match &args.act {
        MarkAct::Install(install) => install::install(install, report),
        MarkAct::Check(check) => check::check(check, report),
        MarkAct::Profile(profile) => {
            report.json = profile.json;
            profile::profile(profile, report)
        }
        word => set::set(word, args.dir.clone()),
    }
}
