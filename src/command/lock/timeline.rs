//! `timeline`: what was held when, as a picture.

use super::LockCall;
use super::whose::places;
use crate::cli::lock_seeing::LockTimeline;
use crate::command::logged::{live_tokens, moment};
use crate::command::picture::{Glyphs, page, text};
use crate::command::records::ALL_LOG;
use crate::command::story::object;
use crate::command::typed::name;
use crate::env;
use crate::error::{Error, Kind, reason};
use crate::exit::{Exit, Status};
use crate::model::name::LockName;
use crate::os::{clock, plain_file, terminal};
use crate::verdict::pause::told_pauses;
use crate::verdict::story::runs;
use crate::verdict::timeline::{Lane, Window};
use serde_json::{Value, json};
use std::path::Path;

/// Where nothing is known about the reader's screen, columns.
const WIDTH: usize = 100;

pub(super) fn timeline(call: &LockCall, args: &LockTimeline) -> Result<Status, Error> {
    let wanted = args.names.iter().map(|typed| name(typed)).collect::<Result<Vec<LockName>, Error>>()?;
    let now = clock::wall();
    let window = Window {
        from: moment("--since", Some(args.since))?.unwrap_or(now),
        to: moment("--until", args.until)?.unwrap_or(now),
    };
    if window.from >= window.to {
        return Err(Error::usage("--since is not before --until").hint("for example --since 24h --until 1h"));
    }
    let (lanes, looked_in) = lanes(call, args, &wanted, window)?;
    if let Some(file) = &args.html {
        return write_page(call, file, &page(&lanes, window, now));
    }
    let written = if call.report.json {
        call.report.object(&json!({
            "looked_in": looked_in,
            "from": window.from.rfc3339(),
            "to": window.to.rfc3339(),
            "locks": lanes.iter().map(|lane| lane_object(lane, window)).collect::<Vec<_>>(),
        }))
    } else if lanes.is_empty() {
        call.report.data(&format!("nothing ran in that time, by the logs in {}", looked_in.join(", ")))
    } else {
        let glyphs = if is_utf8() { Glyphs::BLOCKS } else { Glyphs::ASCII };
        call.report.data(&text(&lanes, window, terminal::width().unwrap_or(WIDTH), glyphs))
    };
    call.report.or_broken_pipe(written)?;
    Ok(Exit::Ok.into())
}

/// The rows, in the order of their names.
fn lanes(
    call: &LockCall,
    args: &LockTimeline,
    wanted: &[LockName],
    window: Window,
) -> Result<(Vec<Lane>, Vec<String>), Error> {
    let (mut lanes, mut looked_in) = (Vec::new(), Vec::new());
    for place in places(call, &args.whose)? {
        looked_in.push(place.place()?.path.join("log").display().to_string());
        let Some(store) = call.place_store(&place, false)? else { continue };
        let of_all = told_pauses(&store.read_log(ALL_LOG), clock::wall());
        for name in store.logged_names() {
            let is_wanted = wanted.is_empty() || wanted.iter().any(|wanted| wanted.file() == name);
            // Other logs of the directory (a tool's own) are not locks.
            let (true, Some(lock)) = (is_wanted, store.log_owner(&name)) else { continue };
            let live = live_tokens(&store, &lock);
            let events = store.read_log(&name);
            let mut paused = told_pauses(&events, clock::wall());
            paused.extend(&of_all);
            let lane = Lane { runs: runs(&events), name: lock.as_str().to_owned(), live, paused };
            let drawn = lane.within(window).next().is_some();
            if drawn || !wanted.is_empty() {
                lanes.push(lane);
            }
        }
    }
    Ok((lanes, looked_in))
}

fn lane_object(lane: &Lane, window: Window) -> Value {
    let totals = lane.totals(window);
    let runs: Vec<Value> = lane.within(window).map(|(run, _)| object(run)).collect();
    json!({
        "name": lane.name,
        "runs": runs,
        "failed": totals.failed,
        "turned_away": totals.turned_away,
        "longest_s": totals.longest_s,
        "most_at_once": lane.most(window),
    })
}

/// The page appears whole or not at all.
fn write_page(call: &LockCall, file: &Path, page: &str) -> Result<Status, Error> {
    let mut temp = file.as_os_str().to_owned();
    temp.push(".tmp");
    // Readable by all that may enter its directory: it is made to be shown.
    plain_file::replace(file, Path::new(&temp), page.as_bytes(), 0o644)
        .map_err(|error| Error::new(Kind::CannotCreate, format!("{}: {}", file.display(), reason(&error))))?;
    call.report.detail(&format!("written to {}", file.display()));
    Ok(Exit::Ok.into())
}

/// Does the locale say UTF-8? As setlocale(3) looks for it, without loading one.
fn is_utf8() -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(env::text).unwrap_or_default();
    let set = set.to_ascii_lowercase();
    set.contains("utf-8") || set.contains("utf8")
}
