//! `log`: what happened to the claims of this machine, oldest first.

use super::{ClaimCall, tell};
use crate::cli::claim::ClaimLog as Args;
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::model::duration;
use crate::model::event::Event;
use crate::report::escape;
use serde_json::json;
use std::time::Duration;

/// So many of all tickets together, where no number was asked for.
const SHOWN: usize = 50;

pub(super) fn log(call: &ClaimCall, args: &Args) -> Result<Status, Error> {
    let claims = call.claims()?;
    let names = match &args.key {
        Some(key) => vec![claims.key(key)?.1.as_str().to_owned()],
        None => claims.store.logged_names(),
    };
    let mut events: Vec<(String, Event)> = Vec::new();
    for name in names {
        events.extend(claims.store.read_log(&name).into_iter().map(|event| (name.clone(), event)));
    }
    // The same form everywhere, so that text sorts as time does; equal ones stay as they are.
    events.sort_by(|a, b| a.1.at.cmp(&b.1.at));
    let skip = events.len().saturating_sub(args.lines.unwrap_or(SHOWN));
    let shown = &events[skip..];
    if call.report.json {
        let rows: Vec<_> = shown.iter().map(|(key, event)| json!({"key": key, "event": event})).collect();
        tell(&call.report, json!({"tracker": claims.settings.address.canonical(), "events": rows}));
    } else if shown.is_empty() {
        call.report.say(&format!("nothing was claimed here yet ({})", claims.store.path().display()));
    } else {
        let lines: Vec<String> = shown.iter().map(|(key, event)| format!("{key}  {}", line(event))).collect();
        drop(call.report.data(&lines.join("\n")));
    }
    Ok(Exit::Ok.into())
}

/// One event, for people.
pub(super) fn line(event: &Event) -> String {
    let times = if event.times() > 1 { format!(" {} times", event.times()) } else { String::new() };
    let token = event.token.map_or_else(String::new, |token| format!(", token {token}"));
    let status = event.status.map_or_else(String::new, |status| format!(", exit status {status}"));
    let ran = event
        .held_s
        .map_or_else(String::new, |ran| format!(" after {}", duration::show(Duration::from_secs(ran))));
    let detail = event
        .detail
        .as_ref()
        .map_or_else(String::new, |detail| format!(" ({})", escape(detail.as_bytes(), 120)));
    format!("{} {}{times}{detail}{status}{ran}{token}", event.at, event.event)
}
