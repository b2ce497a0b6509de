//! `probe`: who serves a store, said without taking part.

use super::evidence::evidence;
use super::say::{HolderReport, json_path};
use crate::cli::lease::LeaseProbe;
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::lease::observe::{self, LockState, show};
use crate::os::store::LockPlace;
use crate::report::Report;
use serde_json::json;

pub(super) fn probe(arguments: &LeaseProbe, report: &Report) -> Result<Status, Error> {
    let place = observe::find(&arguments.store)
        // A probe creates nothing: a missing directory only means that nothing can be said.
        .map_err(|error| match error.kind() {
            crate::error::Kind::CannotCreate => {
                Error::new(crate::error::Kind::CannotTell, error.message().to_owned())
            }
            _ => error,
        })?;
    let state = observe::observe(&place)?;
    let lock = place.lock_path();
    let (exit, line, mut object) = match &state {
        LockState::Free => {
            let exit = if arguments.up { Exit::Unavailable } else { Exit::Ok };
            let paths = |locks: Vec<&LockPlace>| {
                locks.iter().map(|lock| show(&lock.path())).collect::<Vec<_>>().join(" and ")
            };
            let own = paths(place.own().map(|(_, lock)| lock).collect());
            let line = format!("free: nobody serves {} (looked at {own})", show(&place.store));
            report.detail(&format!("not locked, or not there: {}", paths(place.locks.iter().collect())));
            (exit, line, json!({"state": "free"}))
        }
        LockState::Held(observed) => {
            let known = HolderReport::of(&place, observed, arguments.patience.stuck_after);
            evidence(&known).iter().for_each(|line| report.detail(line));
            let mut object = json!({
                "state": if known.is_stuck() { "stuck" } else { "held" },
                "holder": known.object(),
                "message": known.line(),
            });
            if known.is_stuck() {
                object["advice"] = json!(known.takeover_command());
            }
            let exit = match (known.is_stuck(), arguments.up) {
                (true, _) => Exit::Stuck,
                (false, true) => Exit::Ok,
                (false, false) => Exit::Skip,
            };
            (exit, known.long_line(), object)
        }
    };
    object["store"] = json!(json_path(&place.store));
    object["lock"] = json!(json_path(&lock));
    // The exit code is the answer; a closed pipe does not change it.
    drop(if report.json {
        report.object(&object)
    } else if report.quiet && exit != Exit::Stuck {
        Ok(())
    } else {
        report.data(&line)
    });
    Ok(exit.into())
}
