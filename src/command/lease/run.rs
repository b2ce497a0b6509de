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
use crate::os::store::StorePlace;
use crate::report::Report;
use crate::verdict::lease::Reason;
use std::time::Duration;

const USAGE: &str = "orion-lease run -w 10m STORE CMD [ARG...]";

pub(super) fn run(arguments: Run, report: &Report) -> Result<Status, Error> {
    exec::check(&arguments.command, USAGE)?;
    let busy = busy_code(&arguments.busy, true)?;
    let place = look::find(&arguments.store)?;
    let build = build(&arguments)?;
    let allowed: Vec<Reason> = arguments
        .takeover
        .iter()
        .map(|when| match when {
            When::Stuck => Reason::Stuck,
            When::Newer => Reason::Newer,
        })
        .collect();
    let (wait, grace) = match arguments.wait.wait {
        None => (Some(Duration::ZERO), GRACE),
        Some(Patience::For(wait)) => (Some(wait), Duration::ZERO),
        Some(Patience::Forever) => (None, GRACE),
    };
    let policy = Policy {
        wait,
        allowed,
        ours: build.clone(),
        stuck_after: arguments.patience.stuck_after,
        kill_after: arguments.kill_after,
        grace,
        second_look: Duration::ZERO,
        dry_run: false,
    };
    let mut siege = Siege::new(&policy);
    match role::take(&place, |look| siege.judge(look))? {
        Taken::Held(look) => {
            let error = refusal(&place, &look, &policy, siege.kept.as_deref());
            let loud = Known::of(&place, &look, policy.stuck_after).is_loud();
            report.error(&error, !loud);
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

/// The build of the command. What cannot be examined is unstamped, except when it was named.
fn build(arguments: &Run) -> Result<Option<Build>, Error> {
    let build = match &arguments.build_file {
        Some(file) => Some(Build::of(file)?),
        None => arguments.command.first().and_then(exec::find).and_then(|program| Build::of(&program).ok()),
    };
    Ok(match (build, &arguments.revision) {
        (Some(build), Some(revision)) => Some(build.revision(revision.as_str())),
        (build, _) => build,
    })
}

fn refusal(place: &StorePlace, look: &Look, policy: &Policy, kept: Option<&str>) -> Error {
    let known = Known::of(place, look, policy.stuck_after);
    if look.pid().is_some_and(is_ancestor) {
        return Error::new(
            Kind::HeldByAncestor,
            format!("{}; the holder is one of our own callers", known.line()),
        );
    }
    let why = kept.map_or_else(String::new, |why| format!(": not taken over: {why}"));
    Error::new(Kind::Held, format!("{}{why}", known.line()))
}
