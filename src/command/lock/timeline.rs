//! `timeline`: what was held when, as a picture.

use super::LockCall;
use super::whose::places;
use crate::cli::lock_seeing::LockTimeline;
use crate::command::logged::live_tokens;
use crate::command::picture::{Drawing, show, window};
use crate::command::records::{ALL_LOG, Records, Where};
use crate::command::typed::name;
use crate::error::{Error, Kind};
use crate::exit::Status;
use crate::lease;
use crate::lease::observe::find;
use crate::model::name::LockName;
use crate::model::record::CLAIM;
use crate::model::time::WallTime;
use crate::os::clock;
use crate::verdict::pause::told_pauses;
use crate::verdict::story::{ToldEnd, ToldRun};
use crate::verdict::timeline::{Lane, LaneKind, Stretch, Window};
use std::ffi::OsStr;
use std::path::Path;

const DRAWING: Drawing = Drawing { head: "Locks", by: "orion-lock timeline", key: "locks" };

pub(super) fn timeline(call: &LockCall, args: &LockTimeline) -> Result<Status, Error> {
    let wanted = args.names.iter().map(|typed| name(typed)).collect::<Result<Vec<LockName>, Error>>()?;
    let window = window(&args.picture)?;
    let (mut lanes, mut looked_in) = (Vec::new(), Vec::new());
    for place in places(call, &args.whose)? {
        let path = place.place()?.path;
        looked_in.push(path.join("log").display().to_string());
        let mut of_all = Vec::new();
        if let Some(store) = call.place_store(&place, false)? {
            of_all = told_pauses(&store.read_log(ALL_LOG), clock::wall());
            lanes.extend(locks(&store, &wanted, &of_all, window));
        }
        if args.claims {
            looked_in.push(path.join("claims").display().to_string());
            lanes.extend(tickets(&place, &of_all, window)?);
        }
    }
    for store in &args.lease {
        lanes.push(lease_of(store)?);
    }
    show(&call.report, &DRAWING, &args.picture, &lanes, &looked_in, window)
}

/// The rows of a directory's locks, in the order of their names.
fn locks(store: &Records, wanted: &[LockName], of_all: &[Stretch], window: Window) -> Vec<Lane> {
    let mut lanes = Vec::new();
    for name in store.logged_names() {
        let is_wanted = wanted.is_empty() || wanted.iter().any(|wanted| wanted.file() == name);
        // Other logs of the directory (a tool's own) are not locks.
        let (true, Some(lock)) = (is_wanted, store.log_owner(&name)) else { continue };
        let events = store.read_log(&name);
        let own = told_pauses(&events, clock::wall());
        let lane =
            Lane::of(lock.as_str().to_owned(), LaneKind::Lock, &events, live_tokens(store, &lock), own);
        if lane.is_drawn(window) || !wanted.is_empty() {
            lanes.push(lane.also_paused(of_all));
        }
    }
    lanes
}

/// The rows of all tickets that were claimed by way of this directory.
fn tickets(place: &Where, of_all: &[Stretch], window: Window) -> Result<Vec<Lane>, Error> {
    let mut lanes = Vec::new();
    for folder in Records::trackers(place)? {
        let Some(store) = Records::open(place, &["claims", &folder], CLAIM, false)? else { continue };
        let of_tracker = told_pauses(&store.read_log(ALL_LOG), clock::wall());
        for name in store.logged_names() {
            let Some(key) = LockName::plain(OsStr::new(&name)) else { continue };
            let (kind, events) = (LaneKind::Ticket(folder.clone()), store.read_log(key.as_str()));
            let lane = Lane::of(name, kind, &events, live_tokens(&store, &key), Vec::new());
            if lane.is_drawn(window) {
                let lane = lane.also_paused(&of_tracker).also_paused(of_all);
                lanes.push(Lane { title: format!("ticket {key}"), ..lane });
            }
        }
    }
    Ok(lanes)
}

/// The row of a store's server: only the present one is known.
fn lease_of(store: &Path) -> Result<Lane, Error> {
    let path = find(store).map_err(|error| Error::new(Kind::CannotTell, error.message()))?.store;
    let now = clock::wall();
    let title = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let mut lane = Lane {
        title: format!("lease {title}"),
        name: path.to_string_lossy().into_owned(),
        kind: LaneKind::Lease,
        known_from: Some(now),
        ..Lane::default()
    };
    if let Some(holder) = lease::probe(&path)? {
        let begun = holder.acquired_at.map_or(now, WallTime::of).min(now);
        lane.known_from = Some(begun);
        lane.live = vec![0];
        lane.runs = vec![ToldRun {
            token: 0,
            pid: holder.pid,
            comm: holder.comm,
            begun,
            seen: now,
            end: ToldEnd::Open,
            status: None,
            turned_away: 0,
            first_away: None,
            last_away: None,
        }];
    }
    Ok(lane)
}
