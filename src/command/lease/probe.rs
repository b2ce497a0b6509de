//! `probe`: who serves a store, said without taking part.

use super::say::HolderReport;
use crate::cli::lease::LeaseProbe;
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::lease::observe::{self, LockState, show};
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
    let store = place.store.to_string_lossy();
    let lock = place.lock_path();
    let (exit, line, mut object) = match &state {
        LockState::Free => {
            let exit = if arguments.up { Exit::Unavailable } else { Exit::Ok };
            let line = format!("free: nobody serves {} (looked at {})", show(&place.store), show(&lock));
            (exit, line, json!({"state": "free"}))
        }
        LockState::Held(observed) => {
            let known = HolderReport::of(&place, observed, arguments.patience.stuck_after);
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
    object["store"] = json!(store);
    object["lock"] = json!(lock.to_string_lossy());
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
