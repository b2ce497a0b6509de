//! `log`: what happened, and why a run was skipped.

use super::{LockCall, whose};
use crate::cli::lock::LockLog;
use crate::command::typed::name;
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::model::duration;
use crate::model::event::Event;
use crate::model::time::WallTime;
use crate::os::clock;
use crate::report::escape;
use serde_json::{Value, json};
use std::time::Duration;

pub(super) fn log(call: &LockCall, args: LockLog) -> Result<Status, Error> {
    let wanted = args.name.as_deref().map(name).transpose()?;
    let mut events: Vec<Event> = Vec::new();
    let mut looked_in = Vec::new();
    for place in whose::places(call, &args.whose)? {
        looked_in.push(place.place()?.path.join("log").display().to_string());
        let Some(store) = call.place_store(&place, false)? else { continue };
        let names = wanted.as_ref().map_or_else(|| store.logged_names(), |name| vec![name.to_string()]);
        for name in names {
            events.extend(store.read_log(&name));
        }
    }
    if let Some(since) = args.since {
        let now = clock::wall();
        events.retain(|event| {
            let last = event.last.as_deref().unwrap_or(&event.at);
            WallTime::parse(last).and_then(|at| at.age(now)).is_none_or(|age| age <= since)
        });
    }
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
        call.report.data(&events.iter().map(line).collect::<Vec<_>>().join("\n"))
    };
    call.report.arrived(written)?;
    Ok(Exit::Ok.into())
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
fn line(event: &Event) -> String {
    let at = |text: &str| WallTime::parse(text).map_or_else(|| escape(text.as_bytes(), 40), WallTime::show);
    let mut about: Vec<String> = Vec::new();
    if let Some(pid) = event.pid {
        let comm = event
            .comm
            .as_deref()
            .map_or_else(String::new, |comm| format!(" ({})", escape(comm.as_bytes(), 40)));
        let by = if event.is_turned_away() { "held by " } else { "" };
        about.push(format!("{by}pid {pid}{comm}"));
    }
    if let Some(token) = event.token {
        about.push(format!("token {token}"));
    }
    if let Some(held) = event.held_s {
        // Without a status nobody stood by: the end was seen some time after it came.
        let at_most = if event.status.is_none() { "at most " } else { "" };
        about.push(format!("after {at_most}{}", duration::show(Duration::from_secs(held))));
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
