//! `takeover`: end a stuck holder, leave the role free.

use super::say::Known;
use crate::cli::lease::Takeover;
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::lease::look::{self, Look, Sight, show};
use crate::lease::role::{self, Taken};
use crate::lease::takeover::{Asked, Policy, Siege};
use crate::model::duration;
use crate::os::store::StorePlace;
use crate::report::Report;
use crate::verdict::lease::Reason;
use serde_json::json;
use std::time::Duration;

pub(super) fn takeover(arguments: &Takeover, report: &Report) -> Result<Status, Error> {
    let place = look::find(&arguments.store)?;
    let policy = Policy {
        wait: Some(Duration::ZERO),
        allowed: vec![Reason::Stuck],
        ours: None,
        stuck_after: arguments.patience.stuck_after,
        kill_after: arguments.kill_after,
        grace: arguments.wait,
        second_look: arguments.wait,
        dry_run: arguments.dry_run,
    };
    if let Sight::Free = look::look(&place)? {
        say(report, &place, "was free", None);
        return Ok(Exit::Ok.into());
    }
    let mut siege = Siege::new(&policy);
    let taken = role::take(&place, |look| siege.judge(look))?;
    let asked = siege.asked.take();
    match (taken, asked) {
        // Free again by giving it back.
        (Taken::Won(role), asked) => {
            drop(role);
            say(report, &place, "is free", asked.as_ref());
            Ok(Exit::Ok.into())
        }
        (Taken::Held(look), Some(asked)) => after(&place, &look, &asked, report),
        (Taken::Held(look), None) => match siege.due.take() {
            Some(pid) => {
                say_due(report, &place, pid);
                Ok(Exit::Ok.into())
            }
            None => Err(refused(&place, &look, arguments.patience.stuck_after, siege.kept.as_deref())),
        },
    }
}

/// The one that was asked is gone, or should be, and somebody holds the role.
fn after(place: &StorePlace, look: &Look, asked: &Asked, report: &Report) -> Result<Status, Error> {
    let known = Known::of(place, look, Duration::MAX);
    let pid = asked.process.pid();
    if known.holder.pid.is_some_and(|holder| holder != pid) {
        // Whoever waited was faster than we were; that is what a free role is for.
        report.note(&known.line());
        say(report, place, "has a new holder", Some(asked));
        return Ok(Exit::Ok.into());
    }
    Err(Error::new(Kind::StillRunning, format!("pid {pid} was asked to end, and {}", known.line())))
}

fn refused(place: &StorePlace, look: &Look, stuck_after: Duration, kept: Option<&str>) -> Error {
    let known = Known::of(place, look, stuck_after);
    let why = kept.unwrap_or("it is one of our own callers");
    Error::new(Kind::Held, format!("{}: not taken over: {why}", known.line()))
}

fn say_due(report: &Report, place: &StorePlace, pid: u32) {
    if report.json {
        drop(report.object(&json!({"store": place.store.to_string_lossy(), "would_end": pid})));
    } else {
        drop(report.data(&format!("would end pid {pid}, which holds {}", show(&place.store))));
    }
}

fn say(report: &Report, place: &StorePlace, how: &str, asked: Option<&Asked>) {
    if report.json {
        drop(report.object(&json!({
            "store": place.store.to_string_lossy(),
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
    report.say(&format!("the role of {} {how}{ended}", show(&place.store)));
}
