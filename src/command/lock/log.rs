//! `log`: what happened, and why a run was skipped.

use super::LockCall;
use super::whose::places;
use crate::cli::lock::LockLog;
use crate::cli::shared::Whose;
use crate::command::local_time;
use crate::command::logged::{WantedLines, line, live_tokens, looked_in_words, moment, object};
use crate::command::story::Story;
use crate::command::typed::name;
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::model::event::Event;
use crate::model::moment::Moment;
use crate::model::name::LockName;
use crate::model::time::WallTime;
use crate::os::host;
use serde_json::{Value, json};

pub(super) fn log(call: &LockCall, args: LockLog) -> Result<Status, Error> {
    let wanted = args.name.as_deref().map(name).transpose()?;
    let lines = WantedLines::of(args.since, args.until, &args.event)?;
    if let Some(at) = moment("--at", args.at)? {
        let length = args.at.map_or(0, Moment::length_ms);
        let at = (at, WallTime(at.0.saturating_add(length)));
        return tell_story(call, &args.whose, wanted, at);
    }
    let mut events: Vec<Event> = Vec::new();
    let mut looked_in = Vec::new();
    for place in places(call, &args.whose)? {
        looked_in.push(place.place()?.path.join("log").display().to_string());
        let Some(store) = call.place_store(&place, false)? else { continue };
        let names = wanted.as_ref().map_or_else(|| store.logged_names(), |name| vec![name.file().to_owned()]);
        for name in names {
            events.extend(store.read_log(&name));
        }
    }
    events.retain(|event| lines.has(event));
    // Stable: lines of one time keep the order they were written in.
    events.sort_by(|a, b| a.at.cmp(&b.at));
    if let Some(lines) = args.lines {
        events.drain(..events.len().saturating_sub(lines));
    }
    let written = if call.report.json {
        call.report
            .object(&json!({"looked_in": looked_in, "events": events.iter().map(object).collect::<Vec<_>>()}))
    } else if events.is_empty() {
        call.report.data(&format!("nothing logged in {}", looked_in_words(&looked_in)))
    } else {
        let container = host::container();
        call.report.data(&events.iter().map(|event| line(event, container)).collect::<Vec<_>>().join("\n"))
    };
    call.report.or_broken_pipe(written)?;
    Ok(Exit::Ok.into())
}

/// `--at`: one story a name, of those that the log says anything about.
fn tell_story(
    call: &LockCall,
    whose: &Whose,
    wanted: Option<LockName>,
    (at, to): (WallTime, WallTime),
) -> Result<Status, Error> {
    let (mut stories, mut looked_in) = (Vec::new(), Vec::new());
    for place in places(call, whose)? {
        looked_in.push(place.place()?.path.join("log").display().to_string());
        let Some(store) = call.place_store(&place, false)? else { continue };
        let names = wanted.as_ref().map_or_else(|| store.logged_names(), |name| vec![name.file().to_owned()]);
        for name in names {
            let lock = store.log_owner(&name);
            let live = lock.as_ref().map_or_else(Vec::new, |lock| live_tokens(&store, lock));
            let shown = lock.map_or_else(|| name.clone(), |lock| lock.as_str().to_owned());
            let story = Story::of(shown, (at, to), &store.read_log(&name), live);
            if wanted.is_some() || !story.is_empty() {
                stories.push(story);
            }
        }
    }
    let written = if call.report.json {
        let objects: Vec<Value> = stories.iter().map(Story::object).collect();
        call.report.object(&json!({"looked_in": looked_in, "at": at.rfc3339(), "stories": objects}))
    } else if stories.is_empty() {
        call.report.data(&format!(
            "nothing logged about {} in {}",
            local_time::show(at),
            looked_in_words(&looked_in)
        ))
    } else {
        call.report.data(&stories.iter().flat_map(Story::lines).collect::<Vec<_>>().join("\n"))
    };
    call.report.or_broken_pipe(written)?;
    Ok(Exit::Ok.into())
}
