//! `orion-lease`: one file per subcommand.

mod evidence;
mod guardian;
mod probe;
mod run;
mod say;
mod supervise;
mod takeover;

use crate::cli::lease::{LeaseArgs, LeaseCommand, LeaseStore};
use crate::command::local_time;
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::lease::observe::{self, show};
use crate::lease::ticking;
use crate::report::Report;
use serde_json::json;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;

/// The name before every line.
const PROGRAM: &str = "orion-lease";

/// Entry of the program.
pub fn main() -> ExitCode {
    super::frame::run(PROGRAM, |arguments: LeaseArgs, report: &mut Report| {
        report.quiet = arguments.shared.quiet;
        report.verbose = arguments.shared.verbose;
        report.json = arguments.shared.json;
        if arguments.shared.utc {
            local_time::use_utc();
        }
        match arguments.command {
            LeaseCommand::Path(store) => path(&store, report),
            LeaseCommand::Run(run) => run::run(run, report),
            LeaseCommand::Probe(probe) => probe::probe(&probe, report),
            LeaseCommand::Tick(store) => tick(&store, report),
            LeaseCommand::Takeover(takeover) => takeover::takeover(&takeover, report),
            LeaseCommand::Guardian(guardian) => guardian::guard(&guardian),
            LeaseCommand::Become(shim) => guardian::become_command(&shim, report),
        }
    })
}

fn path(arguments: &LeaseStore, report: &Report) -> Result<Status, Error> {
    let place = observe::find(&arguments.store)?;
    let locks: Vec<PathBuf> = place.own().map(|(_, lock)| lock.path()).collect();
    let printed = if report.json {
        let texts: Option<Vec<&str>> = locks.iter().map(|lock| lock.to_str()).collect();
        let (Some(store), Some(locks)) = (place.store.to_str(), texts) else {
            return Err(Error::usage(format!(
                "{} is not UTF-8, and JSON holds nothing else",
                show(&place.store)
            ))
            .hint("without --json its bytes are printed"));
        };
        report.object(&json!({"store": store, "lock": locks[0], "locks": locks}))
    } else {
        let lines: Vec<&[u8]> = locks.iter().map(|lock| lock.as_os_str().as_bytes()).collect();
        report.bytes(&lines.join(&b'\n'))
    };
    printed.map_err(|error| Error::io("stdout", &error))?;
    Ok(Exit::Ok.into())
}

fn tick(arguments: &LeaseStore, report: &Report) -> Result<Status, Error> {
    let place = observe::find(&arguments.store).map_err(|error| match error.kind() {
        // The directory went away under a resident: its role is gone, nothing is to be created.
        Kind::CannotCreate => Error::new(Kind::NotOwner, error.message().to_owned()),
        _ => error,
    })?;
    // The command itself may be us, or whoever called us.
    let callers = [std::os::unix::process::parent_id(), std::process::id()];
    ticking::tick_for(&place, &callers)?;
    if report.json {
        drop(report.object(&json!({"store": say::json_path(&place.store), "ticked": true})));
    }
    Ok(Exit::Ok.into())
}
