//! `timeline`: who had which ticket when, as a picture. Nothing is asked of the tracker.

use super::ClaimCall;
use crate::cli::claim::ClaimTimeline;
use crate::command::logged::live_tokens;
use crate::command::picture::{Drawing, show, window};
use crate::error::Error;
use crate::exit::Status;
use crate::model::name::LockName;
use crate::verdict::timeline::{Lane, LaneKind};
use std::ffi::OsStr;

const DRAWING: Drawing = Drawing { head: "Tickets", by: "orion-claim timeline", key: "tickets" };

pub(super) fn timeline(call: &ClaimCall, args: &ClaimTimeline) -> Result<Status, Error> {
    let window = window(&args.picture)?;
    let claims = call.claims()?;
    let wanted =
        args.keys.iter().map(|key| Ok(claims.key(key)?.1)).collect::<Result<Vec<LockName>, Error>>()?;
    let folder = claims.settings.address.dir_name();
    let mut lanes = Vec::new();
    for name in claims.store.logged_names() {
        let Some(key) = LockName::from_file(OsStr::new(&name)) else { continue };
        if !wanted.is_empty() && !wanted.contains(&key) {
            continue;
        }
        let events = claims.store.read_log(&name);
        let kind = LaneKind::Ticket(folder.clone());
        let lane = Lane::of(name, kind, &events, live_tokens(&claims.store, &key));
        if lane.within(window).next().is_some() || !wanted.is_empty() {
            lanes.push(lane);
        }
    }
    let looked_in = [claims.store.path().join("log").display().to_string()];
    show(&call.report, &DRAWING, &args.picture, &lanes, &looked_in, window)
}
