//! What the logs of locks and of claims say, for people and for programs: which lines were asked for,
//! and one line of each.

use super::local_time;
use super::records::Records;
use crate::error::Error;
use crate::model::duration;
use crate::model::event::{self, Event};
use crate::model::moment::Moment;
use crate::model::name::LockName;
use crate::model::time::WallTime;
use crate::os::clock;
use crate::report::escape;
use serde_json::{Value, json};
use std::time::Duration;

/// Which lines of a log were asked for.
#[derive(Debug)]
pub(crate) struct WantedLines<'a> {
    since: Option<WallTime>,
    until: Option<WallTime>,
    events: &'a [String],
}

impl<'a> WantedLines<'a> {
    /// `--since`, `--until` and `--event`.
    ///
    /// # Errors
    /// USAGE: no such time, or no such event.
    pub(crate) fn of(
        since: Option<Moment>,
        until: Option<Moment>,
        events: &'a [String],
    ) -> Result<Self, Error> {
        known_events(events)?;
        Ok(Self { since: moment("--since", since)?, until: moment("--until", until)?, events })
    }

    /// Is this line one of them?
    pub(crate) fn has(&self, event: &Event) -> bool {
        let last = event.last.as_deref().unwrap_or(&event.at);
        self.since.is_none_or(|since| WallTime::parse(last).is_none_or(|last| since <= last))
            && self.until.is_none_or(|until| WallTime::parse(&event.at).is_none_or(|at| at <= until))
            && (self.events.is_empty() || self.events.contains(&event.event))
    }
}

/// The instant that an option means, seen from now.
pub(crate) fn moment(option: &str, moment: Option<Moment>) -> Result<Option<WallTime>, Error> {
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

/// Tokens of those that hold a name now, as far as that is proved.
pub(crate) fn live_tokens(store: &Records, name: &LockName) -> Vec<u64> {
    store.state_of(name).live_tokens()
}

/// The directories that were looked in, for a person.
pub(crate) fn looked_in_words(looked_in: &[String]) -> String {
    if looked_in.is_empty() { "any user's directory".to_owned() } else { looked_in.join(", ") }
}

/// The line as written, with its times as numbers too.
pub(crate) fn object(event: &Event) -> Value {
    let mut object = json!(event);
    let seconds = |text: &str| WallTime::parse(text).map(WallTime::seconds);
    object["at_s"] = json!(seconds(&event.at));
    if let Some(last) = &event.last {
        object["last_s"] = json!(seconds(last));
    }
    object
}

/// `2026-11-29 09:45:01 UTC  skipped  sync  pid 812 (pi), token 1796…, 12 times until …`
pub(crate) fn line(event: &Event, container: Option<u64>) -> String {
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
        let until = event
            .last
            .as_deref()
            .map_or_else(String::new, |last| format!(" until {}", local_time::show_text(last)));
        about.push(format!("{} times{until}", event.times()));
    }
    if let Some(until) = &event.until {
        about.push(format!("until {}", local_time::show_text(until)));
    }
    if let Some(detail) = &event.detail {
        about.push(escape(detail.as_bytes(), 200));
    }
    format!(
        "{}  {:<13}  {}  {}",
        local_time::show_text(&event.at),
        escape(event.event.as_bytes(), 20),
        escape(event.name.as_bytes(), 200),
        about.join(", ")
    )
    .trim_end()
    .to_owned()
}
