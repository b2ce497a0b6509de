//! A picture as it was asked for: text, a page, or JSON.

use super::Drawing;
use super::page::page;
use super::text::{Glyphs, text};
use crate::cli::shared::PictureArgs;
use crate::command::logged::{looked_in_words, moment};
use crate::command::story::object;
use crate::env;
use crate::error::{Error, Kind, reason};
use crate::exit::{Exit, Status};
use crate::os::{clock, plain_file, terminal};
use crate::report::Report;
use crate::verdict::timeline::{Lane, LaneKind, Window};
use serde_json::{Value, json};
use std::path::Path;

/// Where nothing is known about the reader's screen, columns.
const WIDTH: usize = 100;

/// The time that was asked for.
///
/// # Errors
/// USAGE: it ends before it begins.
pub(crate) fn window(args: &PictureArgs) -> Result<Window, Error> {
    let now = clock::wall();
    let window = Window {
        from: moment("--since", Some(args.since))?.unwrap_or(now),
        to: moment("--until", args.until)?.unwrap_or(now),
    };
    if window.from >= window.to {
        return Err(Error::usage("--since is not before --until").hint("for example --since 24h --until 1h"));
    }
    Ok(window)
}

/// Shows or writes the rows; `looked_in` are the directories of the logs.
///
/// # Errors
/// CANTCREAT for a page that cannot be written.
pub(crate) fn show(
    report: &Report,
    what: &Drawing,
    args: &PictureArgs,
    lanes: &[Lane],
    looked_in: &[String],
    window: Window,
) -> Result<Status, Error> {
    if let Some(file) = &args.html {
        return write_page(report, file, &page(what, lanes, window, clock::wall()));
    }
    let written = if report.json {
        report.object(&json!({
            "looked_in": looked_in,
            "from": window.from.rfc3339(),
            "to": window.to.rfc3339(),
            what.key: lanes.iter().map(|lane| lane_object(lane, window)).collect::<Vec<_>>(),
        }))
    } else if lanes.is_empty() {
        report.data(&format!("nothing ran in that time, by the logs in {}", looked_in_words(looked_in)))
    } else {
        let glyphs = if is_utf8() { Glyphs::BLOCKS } else { Glyphs::ASCII };
        report.data(&text(lanes, window, terminal::width().unwrap_or(WIDTH), glyphs))
    };
    report.or_broken_pipe(written)?;
    Ok(Exit::Ok.into())
}

fn lane_object(lane: &Lane, window: Window) -> Value {
    let totals = lane.totals(window);
    let runs: Vec<Value> = lane.within(window).map(|(run, _)| object(run)).collect();
    let mut shown = json!({
        "name": lane.name,
        "kind": match &lane.kind {
            LaneKind::Lock => "lock",
            LaneKind::Ticket(_) => "ticket",
            LaneKind::Lease => "lease",
        },
        "known_from": lane.known_from.map(|from| from.rfc3339()),
        "runs": runs,
        "failed": totals.failed,
        "turned_away": totals.turned_away,
        "longest_s": totals.longest_s,
        "most_at_once": lane.most(window),
    });
    match &lane.kind {
        LaneKind::Ticket(folder) => shown["claims"] = json!(folder),
        // A lease has no token.
        LaneKind::Lease => shown["runs"].as_array_mut().into_iter().flatten().for_each(|run| {
            run["token"] = Value::Null;
        }),
        LaneKind::Lock => {}
    }
    shown
}

/// The page appears whole or not at all.
fn write_page(report: &Report, file: &Path, page: &str) -> Result<Status, Error> {
    let mut temp = file.as_os_str().to_owned();
    temp.push(".tmp");
    // Readable by all that may enter its directory: it is made to be shown.
    plain_file::replace(file, Path::new(&temp), page.as_bytes(), 0o644)
        .map_err(|error| Error::new(Kind::CannotCreate, format!("{}: {}", file.display(), reason(&error))))?;
    if report.json {
        report.or_broken_pipe(report.object(&json!({ "html": file })))?;
    }
    report.detail(&format!("written to {}", file.display()));
    Ok(Exit::Ok.into())
}

/// Does the locale say UTF-8? As setlocale(3) looks for it, without loading one.
fn is_utf8() -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(env::text).unwrap_or_default();
    let set = set.to_ascii_lowercase();
    set.contains("utf-8") || set.contains("utf8")
}
