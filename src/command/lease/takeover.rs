//! `takeover`: end a stuck holder, leave the role free.

use super::evidence::evidence;
use super::say::{HolderReport, json_path};
use crate::cli::lease::LeaseTakeover;
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::lease::observe::{self, LeaseObservation, LockState, show};
use crate::lease::role::{self, RoleOutcome, is_ancestor};
use crate::lease::takeover::{AskedResident, LeasePolicy, RoleAttempt};
use crate::model::duration;
use crate::os::store::StorePlace;
use crate::report::Report;
use crate::verdict::lease::TakeoverReason;
use serde_json::json;
use std::time::Duration;

pub(super) fn takeover(arguments: &LeaseTakeover, report: &Report) -> Result<Status, Error> {
    let place = observe::find(&arguments.store)?;
    let policy = LeasePolicy {
        wait: Some(Duration::ZERO),
        allowed: vec![TakeoverReason::Stuck],
        ours: None,
        stuck_after: arguments.patience.stuck_after,
        kill_after: arguments.kill_after,
        grace: arguments.wait,
        second_look: arguments.wait,
        dry_run: arguments.dry_run,
    };
    if let LockState::Free = observe::observe(&place)? {
        say(report, &place, "was free", None);
        return Ok(Exit::Ok.into());
    }
    let mut attempt = RoleAttempt::new(&policy);
    let taken = role::take(&place, |observed| attempt.judge(observed))?;
    let asked = attempt.asked.take();
    match (taken, asked) {
        // Free again by giving it back.
        (RoleOutcome::Won(role), asked) => {
            drop(role);
            say(report, &place, "is free", asked.as_ref());
            Ok(Exit::Ok.into())
        }
        (RoleOutcome::Held(observed), Some(asked)) => after(&place, &observed, &asked, report),
        (RoleOutcome::Held(observed), None) => match attempt.due.take() {
            Some(pid) => {
                say_due(report, &place, pid);
                Ok(Exit::Ok.into())
            }
            None => {
                let known = HolderReport::of(&place, &observed, arguments.patience.stuck_after);
                evidence(&known).iter().for_each(|line| report.detail(line));
                let ours = observed.pid().is_some_and(is_ancestor);
                let otherwise = if ours { "it is one of our own callers" } else { "it is at work" };
                let why = attempt.kept.as_deref().unwrap_or(otherwise);
                let kind = if attempt.doubtful { Kind::CannotTell } else { Kind::Held };
                Err(Error::new(kind, format!("{}: not taken over: {why}", known.line())))
            }
        },
    }
}

/// The one that was asked is gone, or should be, and somebody holds the role.
fn after(
    place: &StorePlace,
    observed: &LeaseObservation,
    asked: &AskedResident,
    report: &Report,
) -> Result<Status, Error> {
    let known = HolderReport::of(place, observed, Duration::MAX);
    let pid = asked.process.pid();
    if known.holder.pid.is_some_and(|holder| holder != pid) {
        // Whoever waited was faster than we were; that is what a free role is for.
        report.detail(&known.line());
        say(report, place, "has a new holder", Some(asked));
        return Ok(Exit::Ok.into());
    }
    // What it started with the lock in its hands has it still.
    let what = if asked.process.ended().unwrap_or(false) { "has ended" } else { "was asked to end" };
    Err(Error::new(Kind::StillRunning, format!("pid {pid} {what}, and {}", known.line())))
}

fn say_due(report: &Report, place: &StorePlace, pid: u32) {
    if report.json {
        drop(report.object(&json!({"store": json_path(&place.store), "would_end": pid})));
    } else {
        drop(report.data(&format!("would end pid {pid}, which holds {}", show(&place.store))));
    }
}

fn say(report: &Report, place: &StorePlace, how: &str, asked: Option<&AskedResident>) {
    if report.json {
        drop(report.object(&json!({
            "store": json_path(&place.store),
            "role": how,
            "ended": asked.map(|asked| asked.process.pid()),
            "killed": asked.is_some_and(|asked| asked.killed),
        })));
        return;
    }
    let ended = asked.map_or_else(String::new, |asked| {
        format!(
            ": pid {} ended {} after it was {}",
            asked.process.pid(),
            duration::show(asked.at.elapsed()),
            if asked.killed { "asked, by KILL" } else { "asked (TERM)" }
        )
    });
    report.notice(&format!("the role of {} {how}{ended}", show(&place.store)));
}
