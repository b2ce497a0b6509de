//! `log --at`: the story around one moment, for "why was 09:45 skipped?".

use crate::command::local_time::show;
use crate::model::duration;
use crate::model::event::Event;
use crate::model::time::WallTime;
use crate::report::escape;
use crate::verdict::story::{Then, ToldEnd, ToldRun, runs, then};
use serde_json::{Value, json};
use std::time::Duration;

/// Lines about a name that are not runs of its own are told when they are this near, milliseconds.
const NEAR: u64 = 60_000;

/// One name's story.
pub(crate) struct Story {
    name: String,
    at: WallTime,
    /// The end of what was meant: the minute of `09:45`.
    to: WallTime,
    runs: Vec<ToldRun>,
    /// Tokens of those that hold it now.
    live: Vec<u64>,
    /// What else happened near that moment.
    near: Vec<Event>,
}

impl Story {
    pub(crate) fn of(name: String, (at, to): (WallTime, WallTime), events: &[Event], live: Vec<u64>) -> Self {
        let is_near = |event: &&Event| {
            let apart = WallTime::parse(&event.at).map(|time| time.0.abs_diff(at.0));
            let told = matches!(event.event.as_str(), "acquired" | "released" | "ended" | "reclaimed");
            apart.is_some_and(|apart| apart <= NEAR)
                && !told
                && (!event.is_turned_away() || event.token.is_none())
        };
        let near = events.iter().filter(is_near).cloned().collect();
        Self { name, at, to, runs: runs(events), live, near }
    }

    /// Does the log say anything about this moment?
    pub(crate) fn is_empty(&self) -> bool {
        self.near.is_empty() && self.runs.iter().all(|run| run.begun > self.to)
    }

    /// Did the log begin later?
    fn knows_nothing(&self) -> bool {
        self.runs.iter().all(|run| run.begun > self.to)
    }

    fn next(&self) -> Option<&ToldRun> {
        self.runs.iter().filter(|run| run.begun > self.to).min_by_key(|run| run.begun)
    }

    fn previous(&self) -> Option<&ToldRun> {
        self.runs.iter().filter(|run| run.begun <= self.to).max_by_key(|run| run.begun)
    }

    /// A few lines for a person.
    pub(crate) fn lines(&self) -> Vec<String> {
        let name = escape(self.name.as_bytes(), 100);
        let mut lines = Vec::new();
        let head = |what: &str| format!("{name} at {}: {what}", show(self.at));
        match then(&self.runs, (self.at, self.to), &self.live) {
            Then::Free if self.knows_nothing() => lines.push(head("nothing is logged of that time")),
            Then::Held(held) => {
                for run in held {
                    lines.push(head(&format!("held by {}", who(run))));
                    lines.extend(self.about(run));
                }
            }
            Then::Perhaps(perhaps) => {
                for run in perhaps {
                    lines.push(head(&format!("not known whether {} still held it", who(run))));
                    lines.extend(self.about(run));
                }
            }
            Then::Free => {
                lines.push(head("free"));
                match self.previous() {
                    Some(run) => {
                        lines.push(format!("  before: {}", who(run)));
                        lines.extend(self.about(run));
                    }
                    None => lines.push("  before: nothing in the log".to_owned()),
                }
            }
        }
        for event in &self.near {
            let at = WallTime::parse(&event.at).map_or_else(String::new, show);
            let detail = event
                .detail
                .as_deref()
                .map_or_else(String::new, |detail| format!(": {}", escape(detail.as_bytes(), 200)));
            lines.push(format!("  {at} {}{detail}", escape(event.event.as_bytes(), 20)));
        }
        lines.push(match self.next() {
            Some(run) => format!("  next: {}, from {}", who(run), show(run.begun)),
            None => "  next: nobody since".to_owned(),
        });
        lines
    }

    /// From when to when, and whom it turned away.
    fn about(&self, run: &ToldRun) -> Vec<String> {
        let mut lines = vec![format!("  since {}; {}", show(run.begun), self.end(run))];
        if let (Some(first), Some(last)) = (run.first_away, run.last_away) {
            let when = if run.turned_away == 1 {
                format!("at {}", show(first))
            } else {
                format!("from {} to {}", show(first), show(last))
            };
            lines.push(format!("  refused or skipped meanwhile: {}, {when}", times(run.turned_away)));
        }
        lines
    }

    fn end(&self, run: &ToldRun) -> String {
        let length = |time: WallTime| {
            time.age(run.begun).or_else(|| run.begun.age(time)).map_or_else(String::new, |_| {
                duration::show(Duration::from_millis(time.0.saturating_sub(run.begun.0)))
            })
        };
        match run.end {
            ToldEnd::At(end) => {
                let status = run.status.map_or_else(String::new, |status| format!(" with status {status}"));
                format!("ended{status} at {}, after {}", show(end), length(end))
            }
            ToldEnd::GoneBy(gone) => format!(
                "last seen at {}, gone by {}: held for {} at least, {} at most",
                show(run.seen),
                show(gone),
                length(run.seen),
                length(gone)
            ),
            ToldEnd::Open if self.live.contains(&run.token) => {
                "this run, or what it started, still holds it".to_owned()
            }
            ToldEnd::Open => format!("last seen at {}; nothing is logged of its end", show(run.seen)),
        }
    }

    /// The same for programs.
    pub(crate) fn object(&self) -> Value {
        let state = |then: &Then<'_>| match then {
            Then::Held(_) => "held",
            Then::Perhaps(_) => "not_known",
            Then::Free if self.knows_nothing() => "not_logged",
            Then::Free => "free",
        };
        let then = then(&self.runs, (self.at, self.to), &self.live);
        let holders: Vec<Value> = match &then {
            Then::Held(runs) | Then::Perhaps(runs) => runs.iter().map(|run| object(run)).collect(),
            Then::Free => Vec::new(),
        };
        let before = matches!(then, Then::Free).then(|| self.previous().map(object)).flatten();
        json!({
            "name": self.name,
            "at": self.at.rfc3339(),
            "state": state(&then),
            "holders": holders,
            "before": before,
            "next": self.next().map(object),
            "events": self.near,
        })
    }
}

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

/// `pid 812 (pi), token 1796…`
fn who(run: &ToldRun) -> String {
    let comm =
        run.comm.as_deref().map_or_else(String::new, |comm| format!(" ({})", escape(comm.as_bytes(), 40)));
    let pid = run.pid.map_or_else(|| "a run".to_owned(), |pid| format!("pid {pid}"));
    format!("{pid}{comm}, token {}", run.token)
}

/// A run for `--json`: `held_at_most_s` is absent where no end is known.
pub(crate) fn object(run: &ToldRun) -> Value {
    let (at_least, at_most) = run.held_s();
    let mut object = json!({
        "token": run.token,
        "pid": run.pid,
        "comm": run.comm,
        "begun_at": run.begun.rfc3339(),
        "last_seen_at": run.held_until().rfc3339(),
        "gone_by": run.over_by().map(WallTime::rfc3339),
        "held_at_least_s": at_least,
        "status": run.status,
        "turned_away": run.turned_away,
    });
    if let Some(at_most) = at_most {
        object["held_at_most_s"] = json!(at_most);
    }
    object
}
