//! `log/_reap.jsonl`: what each pass decided about the runs of named automations, and why.

use super::case::{Fate, ReapPass, ReapRow, ReapSettings};
use super::show::{self, Summary};
use crate::command::local_time;
use crate::command::records::Where;
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::model::event::Event;
use crate::model::terminal::Belongs;
use crate::model::time::WallTime;
use crate::os::dir::Dir;
use crate::os::state_dir::StateDir;
use crate::os::{clock, log_file};
use crate::report::{Report, escape};
use serde_json::{Value, json};

/// No lock can be called so. `orion-mark` writes there too, what it refused.
const OWN_LOG: &str = "_reap";

/// Where decisions are written, and what passes remember. Best effort: neither ever changes an outcome.
pub(super) struct Journal {
    state: Option<StateDir>,
    dry_run: bool,
}

impl Journal {
    /// Opens the state directory. It is made only by a pass that may close something.
    pub(super) fn open(place: &Where, settings: &ReapSettings) -> Self {
        let create = !settings.dry_run && !settings.automations.is_empty();
        let state = place.place().and_then(|place| StateDir::open(place, create)).ok().flatten();
        Self { state, dry_run: settings.dry_run }
    }

    /// Where passes keep what they remember.
    pub(super) fn memory_dir(&self, create: bool) -> Option<Dir> {
        self.state.as_ref()?.dir.sub("reap", create).ok()
    }

    /// One line for each terminal that was judged as a run of a named automation, and the summary of a pass
    /// that closed or warned.
    pub(super) fn write(&self, pass: &ReapPass, summary: &Summary) {
        let Some(state) = self.state.as_ref().filter(|_| !self.dry_run) else { return };
        let mut events: Vec<Event> = pass.rows.iter().filter(|row| is_ours(row)).map(event).collect();
        for warning in &pass.warnings {
            events.push(about("warning", escape(warning.as_bytes(), 200)));
        }
        if summary.closed > 0 || !pass.warnings.is_empty() {
            events.push(about("pass", summary.line()));
        }
        if events.is_empty() {
            return;
        }
        if let Ok(log) = state.dir.sub("log", true) {
            drop(log_file::append(&log, OWN_LOG, &events));
        }
    }
}

/// Terminals of nobody and of other automations are not worth a line in every pass.
fn is_ours(row: &ReapRow) -> bool {
    !matches!(row.terminal.belongs, Belongs::NoRun | Belongs::Other(_))
}

fn about(word: &str, detail: String) -> Event {
    Event { detail: Some(detail), ..Event::new(word, clock::wall().rfc3339(), OWN_LOG) }
}

fn event(row: &ReapRow) -> Event {
    let word = match row.fate {
        Fate::Closed => "closed",
        Fate::Kept(_) | Fate::WouldClose => "kept",
    };
    let first = row.processes.first();
    Event {
        pid: first.map(|first| first.pid),
        comm: first.map(|first| first.comm.clone()),
        ..about(word, show::lines(row, false).join("; "))
    }
}

/// `orion-reap --log`.
pub(super) fn show(report: &Report, place: &Where) -> Result<Status, Error> {
    let place = place.place()?;
    let path = place.path.join("log").join(format!("{OWN_LOG}.jsonl")).display().to_string();
    let state = StateDir::open(place, false)?;
    let log = state.and_then(|state| state.dir.sub("log", false).ok());
    let events = log.and_then(|log| log_file::read(&log, OWN_LOG).ok()).unwrap_or_default();
    let written = if report.json {
        report.object(&json!({"looked_in": path, "events": events.iter().map(object).collect::<Vec<_>>()}))
    } else if events.is_empty() {
        report.data(&format!("nothing logged in {path}"))
    } else {
        report.data(&events.iter().map(line).collect::<Vec<_>>().join("\n"))
    };
    report.or_broken_pipe(written)?;
    Ok(Exit::Ok.into())
}

fn object(event: &Event) -> Value {
    let mut object = json!(event);
    object["at_s"] = json!(WallTime::parse(&event.at).map(WallTime::seconds));
    object
}

/// `2026-11-29 09:45:01 UTC  kept    tmux %3 nightly: kept, busy: …`
fn line(event: &Event) -> String {
    let at = local_time::show_text(&event.at);
    let detail = escape(event.detail.as_deref().unwrap_or_default().as_bytes(), 2000);
    format!("{at}  {:<7} {detail}", escape(event.event.as_bytes(), 20))
}
