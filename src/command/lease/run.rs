//! `run`: take the role, or be refused, and run a command under it.

use super::evidence::evidence;
use super::say::HolderReport;
use super::supervise::supervise;
use crate::cli::lease::{LeaseRun, When};
use crate::cli::shared::Patience;
use crate::command::exec;
use crate::command::typed::busy_code;
use crate::error::{Error, Kind};
use crate::exit::Status;
use crate::lease::observe::{self, LeaseObservation, show};
use crate::lease::role::{self, OwnDescription, RoleOutcome, is_ancestor};
use crate::lease::takeover::{GRACE, LeasePolicy, RoleAttempt};
use crate::lease::{Build, Resident};
use crate::report::Report;
use crate::verdict::lease::TakeoverReason;
use std::ffi::OsString;
use std::time::Duration;

pub(super) fn run(arguments: LeaseRun, report: &Report) -> Result<Status, Error> {
    exec::check(&arguments.command, "orion-lease run -w 10m STORE CMD [ARG...]")?;
    let busy = busy_code(arguments.busy.busy_code, None)?;
    let place = observe::find(&arguments.store)?;
    if !arguments.exec {
        exec::needs_pidfds(&show(&place.store))?;
    }
    // Also when it is not needed: what was named must exist.
    let mut own_build = match &arguments.build_file {
        Some(file) => Some(Build::of(file)?),
        None => None,
    };
    let allowed: Vec<TakeoverReason> = arguments
        .takeover
        .iter()
        .map(|when| match when {
            When::Stuck => TakeoverReason::Stuck,
            When::Newer => TakeoverReason::Newer,
        })
        .collect();
    if own_build.is_none() && allowed.contains(&TakeoverReason::Newer) {
        own_build = command_build(&arguments.command);
    }
    let (wait, grace) = match arguments.wait.wait {
        None => (Some(Duration::ZERO), GRACE),
        Some(Patience::For(wait)) => (Some(wait), Duration::ZERO),
        Some(Patience::Forever) => (None, GRACE),
    };
    let policy = LeasePolicy {
        wait,
        allowed,
        ours: stamped(own_build.clone(), &arguments),
        stuck_after: arguments.patience.stuck_after,
        kill_after: arguments.kill_after,
        grace,
        second_look: Duration::ZERO,
        dry_run: false,
    };
    let mut attempt = RoleAttempt::new(&policy);
    match role::take(&place, |observed| attempt.judge(observed))? {
        RoleOutcome::Held(observed) => {
            let known = HolderReport::of(&place, &observed, policy.stuck_after);
            evidence(&known).iter().for_each(|line| report.detail(line));
            report.error(&refusal(&known, &observed, attempt.kept.as_deref()), !known.is_loud());
            Ok(busy)
        }
        RoleOutcome::Won(role) => {
            if let Some(asked) = &attempt.asked {
                report.notice(&format!(
                    "took {} over from pid {}, which {}",
                    show(&place.store),
                    asked.process.pid(),
                    match asked.reason {
                        TakeoverReason::Stuck => "was stuck",
                        TakeoverReason::Newer => "ran an older build",
                    }
                ));
            }
            let build = stamped(own_build.or_else(|| command_build(&arguments.command)), &arguments);
            role.write_first_payload(&place, &OwnDescription { surface: arguments.surface.clone(), build })?;
            serve(Resident { place, role }, &arguments, report)
        }
    }
}

fn serve(resident: Resident, arguments: &LeaseRun, report: &Report) -> Result<Status, Error> {
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

fn stamped(build: Option<Build>, arguments: &LeaseRun) -> Option<Build> {
    match (build, &arguments.revision) {
        (Some(build), Some(revision)) => Some(build.revision(revision.as_str())),
        (build, _) => build,
    }
}

fn refusal(known: &HolderReport<'_>, observed: &LeaseObservation, kept: Option<&str>) -> Error {
    if observed.pid().is_some_and(is_ancestor) {
        let line = format!("{}; the holder is one of our own callers", known.line());
        return Error::new(Kind::HeldByAncestor, line);
    }
    let why = kept.map_or_else(String::new, |why| format!(": not taken over: {why}"));
    Error::new(Kind::Held, format!("{}{why}", known.line()))
}
