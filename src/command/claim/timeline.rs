//! `timeline`: who had which ticket when, as a picture. Nothing is asked of the tracker.

use super::ClaimCall;
use crate::cli::claim::ClaimTimeline;
use crate::command::logged::live_tokens;
use crate::command::picture::{Drawing, show, window};
use crate::command::records::{ALL_LOG, Records, Where};
use crate::error::Error;
use crate::exit::Status;
use crate::model::name::LockName;
use crate::model::record::LOCK;
use crate::os::clock;
use crate::verdict::pause::told_pauses;
use crate::verdict::timeline::{Lane, LaneKind};
use std::ffi::OsStr;

const DRAWING: Drawing = Drawing { head: "Tickets", by: "orion-claim timeline", key: "tickets" };

pub(super) fn timeline(call: &ClaimCall, args: &ClaimTimeline) -> Result<Status, Error> {
    let window = window(&args.picture)?;
    let claims = call.claims()?;
    let wanted =
        args.keys.iter().map(|key| Ok(claims.key(key)?.1)).collect::<Result<Vec<LockName>, Error>>()?;
    let folder = claims.settings.address.dir_name();
    // By this tracker's own pause, and by the one for everything.
    let mut paused = told_pauses(&claims.store.read_log(ALL_LOG), clock::wall());
    let place = Where { dir: call.shared.dir.clone(), user: None };
    if let Some(locks) = Records::open(&place, &["locks"], LOCK, false)? {
        paused.extend(told_pauses(&locks.read_log(ALL_LOG), clock::wall()));
    }
    let mut lanes = Vec::new();
    for name in claims.store.logged_names() {
        let Some(key) = LockName::plain(OsStr::new(&name)) else { continue };
        if !wanted.is_empty() && !wanted.contains(&key) {
            continue;
        }
        let events = claims.store.read_log(&name);
        let kind = LaneKind::Ticket(folder.clone());
        let lane = Lane::of(name, kind, &events, live_tokens(&claims.store, &key), Vec::new());
        if lane.is_drawn(window) || !wanted.is_empty() {
            lanes.push(lane.also_paused(&paused));
        }
    }
    let looked_in = [claims.store.path().join("log").display().to_string()];
    show(&call.report, &DRAWING, &args.picture, &lanes, &looked_in, window)
}
