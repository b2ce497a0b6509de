//! `log`: what happened, and why a run was skipped.

use super::LockCall;
use super::log_at::Story;
use super::whose::places;
use crate::cli::lock::LockLog;
use crate::cli::shared::Whose;
use crate::command::local_time;
use crate::command::records::Records;
use crate::command::typed::name;
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::model::duration;
use crate::model::event::{self, Event};
use crate::model::moment::Moment;
use crate::model::name::LockName;
use crate::model::time::WallTime;
use crate::os::{clock, host};
use crate::report::escape;
use crate::verdict::liveness::State;
use serde_json::{Value, json};
use std::time::Duration;

pub(super) fn log(call: &LockCall, args: LockLog) -> Result<Status, Error> {
    let wanted = args.name.as_deref().map(name).transpose()?;
    known_events(&args.event)?;
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
        let names = wanted.as_ref().map_or_else(|| store.logged_names(), |name| vec![name.to_string()]);
        for name in names {
            events.extend(store.read_log(&name));
        }
    }
    let since = moment("--since", args.since)?;
    let until = moment("--until", args.until)?;
    events.retain(|event| {
        let last = event.last.as_deref().unwrap_or(&event.at);
        since.is_none_or(|since| WallTime::parse(last).is_none_or(|last| since <= last))
            && until.is_none_or(|until| WallTime::parse(&event.at).is_none_or(|at| at <= until))
            && (args.event.is_empty() || args.event.contains(&event.event))
    });
    // Stable: lines of one time keep the order they were written in.
    events.sort_by(|a, b| a.at.cmp(&b.at));
    if let Some(lines) = args.lines {
        events.drain(..events.len().saturating_sub(lines));
    }
    let written = if call.report.json {
        call.report
            .object(&json!({"looked_in": looked_in, "events": events.iter().map(object).collect::<Vec<_>>()}))
    } else if events.is_empty() {
        call.report.data(&format!("nothing logged in {}", looked_in.join(", ")))
    } else {
        let container = host::container();
        call.report.data(&events.iter().map(|event| line(event, container)).collect::<Vec<_>>().join("\n"))
    };
    call.report.arrived(written)?;
    Ok(Exit::Ok.into())
}

/// The instant that an option means, seen from now.
pub(super) fn moment(option: &str, moment: Option<Moment>) -> Result<Option<WallTime>, Error> {
    let now = clock::wall();
    moment
        .map(|moment| local_time::resolve(moment, now))
        .transpose()
        .map_err(|why| Error::usage(format!("{option}: {why}")))
}

/// A word that no event has would find nothing, and that would read as "it never happened".
fn known_events(words: &[String]) -> Result<(), Error> {
    match words.iter().find(|word| !event::WORDS.contains(&word.as_str())) {
        Some(word) => Err(Error::usage(format!("there is no event '{}'", escape(word.as_bytes(), 40)))
            .hint(format!("the events are {}", event::WORDS.join(", ")))),
        None => Ok(()),
    }
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
        let names = wanted.as_ref().map_or_else(|| store.logged_names(), |name| vec![name.to_string()]);
        for name in names {
            let live =
                LockName::parse(name.as_ref()).map_or_else(|_| Vec::new(), |name| live_tokens(&store, &name));
            let story = Story::of(name.clone(), (at, to), &store.read_log(&name), live);
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
            looked_in.join(", ")
        ))
    } else {
        call.report.data(&stories.iter().flat_map(Story::lines).collect::<Vec<_>>().join("\n"))
    };
    call.report.arrived(written)?;
    Ok(Exit::Ok.into())
}

/// Tokens of those that hold a name now, as far as that is proved.
pub(super) fn live_tokens(store: &Records, name: &LockName) -> Vec<u64> {
    let judged = store.look(name);
    let live = matches!(judged.state(), State::Live(_));
    judged.record().filter(|_| live).map(|record| record.token).into_iter().collect()
}

/// The line as written, with its times as numbers too.
fn object(event: &Event) -> Value {
    let mut object = json!(event);
    let seconds = |text: &str| WallTime::parse(text).map(WallTime::seconds);
    object["at_s"] = json!(seconds(&event.at));
    if let Some(last) = &event.last {
        object["last_s"] = json!(seconds(last));
    }
    object
}

/// `2026-11-29 09:45:01 UTC  skipped  sync  pid 812 (pi), token 1796…, 12 times until …`
fn line(event: &Event, container: Option<u64>) -> String {
    let at = |text: &str| WallTime::parse(text).map_or_else(|| escape(text.as_bytes(), 40), local_time::show);
    let mut about: Vec<String> = Vec::new();
    if let Some(pid) = event.pid {
        let comm = event
            .comm
            .as_deref()
            .map_or_else(String::new, |comm| format!(" ({})", escape(comm.as_bytes(), 40)));
        let by = if event.is_turned_away() { "held by " } else { "" };
        let elsewhere = if event.pid_ns == container { "" } else { " of another container" };
        about.push(format!("{by}pid {pid}{elsewhere}{comm}"));
    }
    if let Some(token) = event.token {
        about.push(format!("token {token}"));
    }
    let shown = |seconds: u64| duration::show(Duration::from_secs(seconds));
    match (event.held_s, event.held_at_least_s, event.held_at_most_s) {
        // A line of an older version: without a status nobody stood by.
        (Some(held), ..) if event.status.is_none() => about.push(format!("after at most {}", shown(held))),
        (Some(held), ..) => about.push(format!("after {}", shown(held))),
        (None, Some(least @ 1..), Some(most)) => {
            about.push(format!("after at least {} and at most {}", shown(least), shown(most)));
        }
        (None, _, Some(most)) => about.push(format!("after at most {}", shown(most))),
        _ => {}
    }
    if let Some(status) = event.status {
        about.push(format!("status {status}"));
    }
    if event.times() > 1 {
        let until = event.last.as_deref().map_or_else(String::new, |last| format!(" until {}", at(last)));
        about.push(format!("{} times{until}", event.times()));
    }
    if let Some(detail) = &event.detail {
        about.push(escape(detail.as_bytes(), 200));
    }
    format!(
        "{}  {:<13}  {}  {}",
        at(&event.at),
        escape(event.event.as_bytes(), 20),
        escape(event.name.as_bytes(), 100),
        about.join(", ")
    )
    .trim_end()
    .to_owned()
}
