//! `run`: take the role, or be refused, and run a command under it.

use super::say::Known;
use super::supervise::supervise;
use crate::cli::lease::{Run, When};
use crate::cli::lock::Patience;
use crate::command::exec;
use crate::command::lock::busy_code;
use crate::error::{Error, Kind};
use crate::exit::Status;
use crate::lease::look::{self, Look, show};
use crate::lease::role::{self, Candidate, Taken, is_ancestor};
use crate::lease::takeover::{GRACE, Policy, Siege};
use crate::lease::{Build, Resident};
use crate::report::Report;
use crate::verdict::lease::Reason;
use std::ffi::OsString;
use std::time::Duration;

pub(super) fn run(arguments: Run, report: &Report) -> Result<Status, Error> {
    exec::check(&arguments.command, "orion-lease run -w 10m STORE CMD [ARG...]")?;
    let busy = busy_code(&arguments.busy, true)?;
    let place = look::find(&arguments.store)?;
    // Also when it is not needed: what was named must exist.
    let mut own_build = match &arguments.build_file {
        Some(file) => Some(Build::of(file)?),
        None => None,
    };
    let allowed: Vec<Reason> = arguments
        .takeover
        .iter()
        .map(|when| match when {
            When::Stuck => Reason::Stuck,
            When::Newer => Reason::Newer,
        })
        .collect();
    if own_build.is_none() && allowed.contains(&Reason::Newer) {
        own_build = command_build(&arguments.command);
    }
    let (wait, grace) = match arguments.wait.wait {
        None => (Some(Duration::ZERO), GRACE),
        Some(Patience::For(wait)) => (Some(wait), Duration::ZERO),
        Some(Patience::Forever) => (None, GRACE),
    };
    let policy = Policy {
        wait,
        allowed,
        ours: stamped(own_build.clone(), &arguments),
        stuck_after: arguments.patience.stuck_after,
        kill_after: arguments.kill_after,
        grace,
        second_look: Duration::ZERO,
        dry_run: false,
    };
    let mut siege = Siege::new(&policy);
    match role::take(&place, |look| siege.judge(look))? {
        Taken::Held(look) => {
            let known = Known::of(&place, &look, policy.stuck_after);
            report.error(&refusal(&known, &look, siege.kept.as_deref()), !known.is_loud());
            Ok(busy)
        }
        Taken::Won(role) => {
            if let Some(asked) = &siege.asked {
                report.say(&format!(
                    "took {} over from pid {}, which {}",
                    show(&place.store),
                    asked.process.pid(),
                    match asked.reason {
                        Reason::Stuck => "was stuck",
                        Reason::Newer => "ran an older build",
                    }
                ));
            }
            let build = stamped(own_build.or_else(|| command_build(&arguments.command)), &arguments);
            role.introduce(&place, &Candidate { surface: arguments.surface.clone(), build })?;
            serve(Resident { place, role }, &arguments, report)
        }
    }
}

fn serve(resident: Resident, arguments: &Run, report: &Report) -> Result<Status, Error> {
    if !arguments.exec {
        return supervise(resident, &arguments.command, report);
    }
    let kept = resident.hand_on()?;
    let error = exec::exec(&arguments.command);
    // Nothing runs, so nobody serves.
    drop(kept);
    Ok(exec::cannot_run(report, &arguments.command, &error))
}

/// The build of the command; what cannot be examined is unstamped.
fn command_build(command: &[OsString]) -> Option<Build> {
    Build::of(&exec::find(command.first()?)?).ok()
}

fn stamped(build: Option<Build>, arguments: &Run) -> Option<Build> {
    match (build, &arguments.revision) {
        (Some(build), Some(revision)) => Some(build.revision(revision.as_str())),
        (build, _) => build,
    }
}

fn refusal(known: &Known<'_>, look: &Look, kept: Option<&str>) -> Error {
    if look.pid().is_some_and(is_ancestor) {
        let line = format!("{}; the holder is one of our own callers", known.line());
        return Error::new(Kind::HeldByAncestor, line);
    }
    let why = kept.map_or_else(String::new, |why| format!(": not taken over: {why}"));
    Error::new(Kind::Held, format!("{}{why}", known.line()))
}
