//! `log`: what happened to the claims of this machine, oldest first.

use super::{ClaimCall, Claims};
use crate::cli::claim::ClaimLog as Args;
use crate::command::local_time;
use crate::command::logged::{WantedLines, line, live_tokens, moment, object};
use crate::command::story::Story;
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::model::event::Event;
use crate::model::moment::Moment;
use crate::model::name::LockName;
use crate::model::time::WallTime;
use crate::os::host;
use serde_json::{Value, json};
use std::ffi::OsStr;

/// So many of all tickets together, where no number and no time was asked for.
const SHOWN: usize = 50;

pub(super) fn log(call: &ClaimCall, args: &Args) -> Result<Status, Error> {
    let wanted = WantedLines::of(args.since, args.until, &args.event)?;
    let at = moment("--at", args.at)?;
    let claims = call.claims()?;
    let names = match &args.key {
        Some(key) => vec![claims.key(key)?.1.as_str().to_owned()],
        None => claims.store.logged_names(),
    };
    if let Some(at) = at {
        let length = args.at.map_or(0, Moment::length_ms);
        let span = (at, WallTime(at.0.saturating_add(length)));
        return tell_story(call, &claims, names, span, args.key.is_some());
    }
    let mut events: Vec<(String, Event)> = Vec::new();
    for name in names {
        let lines = claims.store.read_log(&name).into_iter().filter(|event| wanted.has(event));
        events.extend(lines.map(|event| (name.clone(), event)));
    }
    // The same form everywhere, so that text sorts as time does; equal ones stay as they are.
    events.sort_by(|a, b| a.1.at.cmp(&b.1.at));
    let most = args.lines.unwrap_or(if args.since.is_some() { usize::MAX } else { SHOWN });
    let shown = &events[events.len().saturating_sub(most)..];
    let written = if call.report.json {
        let rows: Vec<_> =
            shown.iter().map(|(key, event)| json!({"key": key, "event": object(event)})).collect();
        call.report.object(&json!({"tracker": claims.settings.address.canonical(), "events": rows}))
    } else if shown.is_empty() {
        call.report.data(&format!("nothing logged in {}", claims.store.path().join("log").display()))
    } else {
        let container = host::container();
        call.report
            .data(&shown.iter().map(|(_, event)| line(event, container)).collect::<Vec<_>>().join("\n"))
    };
    call.report.or_broken_pipe(written)?;
    Ok(Exit::Ok.into())
}

/// `--at`: one story a ticket, of those that the log says anything about.
fn tell_story(
    call: &ClaimCall,
    claims: &Claims,
    names: Vec<String>,
    span: (WallTime, WallTime),
    one: bool,
) -> Result<Status, Error> {
    let mut stories = Vec::new();
    for name in names {
        let live = LockName::plain(OsStr::new(&name))
            .map_or_else(Vec::new, |name| live_tokens(&claims.store, &name));
        let story = Story::of(name.clone(), span, &claims.store.read_log(&name), live);
        if one || !story.is_empty() {
            stories.push(story);
        }
    }
    let written = if call.report.json {
        let objects: Vec<Value> = stories.iter().map(Story::object).collect();
        let tracker = claims.settings.address.canonical();
        call.report.object(&json!({"tracker": tracker, "at": span.0.rfc3339(), "stories": objects}))
    } else if stories.is_empty() {
        let place = claims.store.path().join("log");
        call.report.data(&format!("nothing logged about {} in {}", local_time::show(span.0), place.display()))
    } else {
        call.report.data(&stories.iter().flat_map(Story::lines).collect::<Vec<_>>().join("\n"))
    };
    call.report.or_broken_pipe(written)?;
    Ok(Exit::Ok.into())
}
