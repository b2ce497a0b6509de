//! `command:PROG`: any tracker there is, through a program that reads one JSON
//! object on stdin and writes one on stdout, once per question.
//!
//! Questions: `{"schema":1,"op":…,"labels":{…}}` with `key`, and per op
//! `hello`; `queue`, `in_flight`; `ticket`; `events`; `write` (`add`, `remove`,
//! `signature`); `swap` (the same and `expect`), asked where `hello` said
//! `conditional`; `take` (`label`); `comments`; `comment` (`body`);
//! `void` (`comment`, `nonce`); `check` (`create`).
//! A ticket may carry `assignees` and `blocked_by` (the keys of open tickets), and the
//! answer to `hello` a `me`: who the program acts for.
//! A failure is `{"error":{"kind":…,"message":…,"retry_after_s":…}}`.

use super::{Options, TicketList, Tracker, TrackerFinding};
use crate::error::escape;
use crate::model::arbiter::Capabilities;
use crate::model::labels::Labels;
use crate::model::ticket::{
    Comment, EventId, Expect, GateTaken, Key, Swap, Swapped, Ticket, TicketChange, TicketEvent,
};
use crate::model::time::WallTime;
use crate::os::call::{self, NoAnswer};
use crate::tracker::failure::{Failure, Why};
use serde_json::{Map, Value, json};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A program that is a tracker.
#[derive(Debug)]
pub(super) struct TrackerProgram {
    path: PathBuf,
    labels: Labels,
    timeout: Duration,
    can: Capabilities,
    /// Who it acts for, as its assignees are named.
    me: Option<String>,
    started: AtomicU64,
}

impl TrackerProgram {
    /// Asks the program what it promises.
    ///
    /// # Errors
    /// [`Why::Setting`]: no such program, or one that does not speak this.
    pub(super) fn open(path: &Path, options: &Options) -> Result<Self, Failure> {
        let nothing =
            Capabilities { remote: true, event_ids: false, conditional: false, gate: false, comments: false };
        let mut program = Self {
            path: path.to_owned(),
            labels: options.labels.clone(),
            timeout: options.timeout,
            can: nothing,
            me: None,
            started: AtomicU64::new(0),
        };
        let answer = program.ask("hello", None, json!({}))?;
        let promised = answer.get("capabilities").and_then(Value::as_object).ok_or_else(|| {
            Failure::new(Why::Setting, format!("{} did not say what it promises", program.name()))
        })?;
        let says = |name: &str| promised.get(name).and_then(Value::as_bool);
        program.can = Capabilities {
            // Unless it says so itself, others may use the same tickets.
            remote: says("remote").unwrap_or(true),
            event_ids: says("event_ids").unwrap_or(false),
            conditional: says("conditional").unwrap_or(false),
            gate: says("gate").unwrap_or(false),
            comments: says("comments").unwrap_or(false),
        };
        program.me = answer.get("me").and_then(Value::as_str).map(str::to_owned);
        Ok(program)
    }

    fn name(&self) -> String {
        escape(self.path.as_os_str().as_encoded_bytes(), 200)
    }

    fn ask(&self, op: &str, key: Option<&Key>, more: Value) -> Result<Map<String, Value>, Failure> {
        self.started.fetch_add(1, Ordering::Relaxed);
        let [queue, working, ci_wait, ready, failed] = self.labels.managed();
        let labels =
            json!({"queue": queue, "working": working, "ci_wait": ci_wait, "ready": ready, "failed": failed});
        let mut question = json!({"schema": 1, "op": op, "labels": labels});
        if let Some(key) = key {
            question["key"] = json!(key.as_str());
        }
        if let Value::Object(more) = more {
            for (name, value) in more {
                question[name] = value;
            }
        }
        let local = |error: std::io::Error| Failure::local(&format!("cannot ask {}", self.name()), &error);
        let mut input = tempfile::tempfile().map_err(local)?;
        input.write_all(question.to_string().as_bytes()).and_then(|()| input.rewind()).map_err(local)?;
        let writes = matches!(op, "write" | "swap" | "take" | "comment" | "void");
        let answer = call::call_with(&mut Command::new(&self.path), input.into(), self.timeout);
        let answer = answer.map_err(|none| {
            let (why, what) = match none {
                NoAnswer::NotFound => (Why::Setting, "is not there".to_owned()),
                NoAnswer::TimedOut => (Why::Unreachable, "did not answer in time".to_owned()),
                NoAnswer::TooMuch => (Why::Protocol, "produced more than 64 MiB".to_owned()),
                NoAnswer::Failed(error) => {
                    (Why::Setting, format!("cannot run: {}", crate::error::reason(&error)))
                }
            };
            Failure::new(why, format!("{} {what}", self.name())).maybe_applied(writes && why != Why::Setting)
        })?;
        let Ok(Value::Object(value)) = serde_json::from_slice::<Value>(&answer.stdout) else {
            let said = String::from_utf8_lossy(&answer.stderr);
            let said = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
            let said = escape(said.as_bytes(), 200);
            let message = format!(
                "{} answered {op} with something that is not a JSON object ({}; it says: {said})",
                self.name(),
                answer.status
            );
            return Err(Failure::new(Why::Protocol, message).maybe_applied(writes));
        };
        match value.get("error") {
            Some(error) => Err(self.failure(error, writes)),
            None => Ok(value),
        }
    }

    fn failure(&self, error: &Value, writes: bool) -> Failure {
        let text = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default();
        let why = match text("kind") {
            "unauthorised" => Why::Unauthorised,
            "no_tracker" => Why::NoTracker,
            "no_ticket" => Why::NoTicket,
            "refused" => Why::Refused,
            _ => Why::Unreachable,
        };
        let wait = error.get("retry_after_s").and_then(Value::as_u64).map(Duration::from_secs);
        let message = format!("{}: {}", self.name(), escape(text("message").as_bytes(), 200));
        // An answer of its own that says "no" is believed; "unreachable" may hide a write.
        let maybe = writes && why == Why::Unreachable;
        Failure::new(why, message).retry_after(wait).maybe_applied(maybe)
    }

    fn odd(&self, op: &str) -> Failure {
        Failure::new(Why::Protocol, format!("{} answered {op} with something else", self.name()))
    }

    fn list(&self, op: &str) -> Result<TicketList, Failure> {
        let answer = self.ask(op, None, json!({}))?;
        let tickets = answer.get("tickets").and_then(Value::as_array).ok_or_else(|| self.odd(op))?;
        let mut listing = TicketList::default();
        for value in tickets {
            match ticket(value) {
                Some(ticket) => listing.tickets.push(ticket),
                None => listing.broken.push(format!("{} sent an invalid ticket", self.name())),
            }
        }
        Ok(listing)
    }
}

impl Tracker for TrackerProgram {
    fn key(&self, text: &str) -> Result<Key, Failure> {
        Key::new(text).ok_or_else(|| {
            let text = escape(text.as_bytes(), 120);
            Failure::new(Why::NoTicket, format!("{text} is not a ticket key"))
                .hint("use A-Z a-z 0-9 . _ -, a letter or digit first, at most 100")
        })
    }

    fn can(&self) -> Capabilities {
        self.can
    }

    fn queue(&self) -> Result<TicketList, Failure> {
        let mut listing = self.list("queue")?.queued(&self.labels);
        // Among equals its own order stays.
        listing.tickets.sort_by_key(|ticket| std::cmp::Reverse(ticket.priority));
        Ok(listing)
    }

    fn in_flight(&self) -> Result<TicketList, Failure> {
        Ok(self.list("in_flight")?.in_flight(&self.labels))
    }

    fn ticket(&self, key: &Key) -> Result<Ticket, Failure> {
        let answer = self.ask("ticket", Some(key), json!({}))?;
        let ticket = answer.get("ticket").and_then(ticket);
        ticket.filter(|ticket| ticket.key == *key).ok_or_else(|| self.odd("ticket"))
    }

    fn events(&self, key: &Key) -> Result<Vec<TicketEvent>, Failure> {
        let answer = self.ask("events", Some(key), json!({}))?;
        let events = answer.get("events").and_then(Value::as_array).ok_or_else(|| self.odd("events"))?;
        Ok(events.iter().filter_map(event).collect())
    }

    fn write(&self, key: &Key, add: &[String], remove: &[String]) -> Result<(), Failure> {
        self.ask("write", Some(key), json!({"add": add, "remove": remove})).map(drop)
    }

    fn swap(&self, key: &Key, swap: &Swap) -> Result<Swapped, Failure> {
        if !self.can.conditional {
            return super::swap_in_steps(self, key, swap);
        }
        let mut more = json!({"add": swap.add, "remove": swap.remove, "expect": expectation(&swap.expect)});
        if let Some(signature) = &swap.signature {
            more["signature"] = json!(signature);
        }
        let answer = match self.ask("swap", Some(key), more) {
            Ok(answer) => answer,
            Err(failure) if failure.may_be_applied() => return Ok(Swapped::Unconfirmed(failure.to_string())),
            Err(failure) => return Err(failure),
        };
        let text = |name: &str| answer.get(name).and_then(Value::as_str);
        let why = || escape(text("why").unwrap_or("no reason given").as_bytes(), 200);
        match text("swapped") {
            Some("changed") => Ok(Swapped::Changed(why())),
            // Its word is not enough: the ticket itself must show it.
            Some("done") => match self.ticket(key) {
                Ok(after) if swap.is_done(&after) => Ok(Swapped::Done(id(answer.get("event")))),
                Ok(after) => Ok(Swapped::Unconfirmed(format!("labels now {}", super::show(&after.labels)))),
                Err(failure) => Ok(Swapped::Unconfirmed(format!("written, then unreadable: {failure}"))),
            },
            _ => Ok(Swapped::Unconfirmed(why())),
        }
    }

    fn take(&self, key: &Key, label: &str) -> Result<GateTaken, Failure> {
        if !self.can.gate {
            return Err(Failure::new(
                Why::Setting,
                format!("{} does not say who took a label off", self.name()),
            ));
        }
        match self.ask("take", Some(key), json!({ "label": label })) {
            Ok(answer) => Ok(match answer.get("taken").and_then(Value::as_str) {
                Some("ours") => GateTaken::Ours,
                Some("gone") => GateTaken::Gone,
                _ => GateTaken::Unclear(format!("{} does not know who took the label off", self.name())),
            }),
            Err(failure) if failure.may_be_applied() => Ok(GateTaken::Unclear(failure.to_string())),
            Err(failure) => Err(failure),
        }
    }

    fn comments(&self, key: &Key) -> Result<Vec<Comment>, Failure> {
        let answer = self.ask("comments", Some(key), json!({}))?;
        let comments =
            answer.get("comments").and_then(Value::as_array).ok_or_else(|| self.odd("comments"))?;
        let mut comments: Vec<Comment> = comments.iter().filter_map(comment).collect();
        comments.sort_by_key(|comment| comment.id);
        Ok(comments)
    }

    fn comment(&self, key: &Key, body: &str) -> Result<(), Failure> {
        super::comment_once(self, key, body, || {
            self.ask("comment", Some(key), json!({ "body": body })).map(drop)
        })
    }

    fn void(&self, key: &Key, comment: u64, nonce: &str) -> Result<(), Failure> {
        self.ask("void", Some(key), json!({"comment": comment, "nonce": nonce})).map(drop)
    }

    fn me(&self) -> Result<Option<String>, Failure> {
        Ok(self.me.clone())
    }

    fn check(&self, create: bool) -> Result<Vec<TrackerFinding>, Failure> {
        let promises = format!("{} promises {:?}", self.name(), self.can);
        let mut findings = vec![TrackerFinding::good(promises)];
        match self.ask("check", None, json!({ "create": create })) {
            Ok(answer) => {
                let list = answer.get("findings").and_then(Value::as_array);
                findings.extend(list.into_iter().flatten().map(|finding| {
                    let what = finding.get("what").and_then(Value::as_str).unwrap_or_default();
                    let what = escape(what.as_bytes(), 200);
                    match finding.get("ok").and_then(Value::as_bool) {
                        Some(true) => TrackerFinding::good(what),
                        _ => TrackerFinding::bad(what),
                    }
                }));
            }
            // It need not have anything to check.
            Err(failure) if matches!(failure.why(), Why::Refused | Why::NoTicket) => {}
            Err(failure) => return Err(failure),
        }
        Ok(findings)
    }

    fn requests(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }
}

fn expectation(expect: &Expect) -> Value {
    let mut value = json!({"has": expect.has, "lacks": expect.lacks});
    if let Some(open) = expect.open {
        value["open"] = json!(open);
    }
    if let Some((label, mark)) = &expect.mark {
        value["mark_label"] = json!(label);
        value["mark"] = json!(mark.0);
    }
    value
}

fn ticket(value: &Value) -> Option<Ticket> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let labels = value.get("labels")?.as_array()?;
    Some(Ticket {
        key: Key::new(value.get("key")?.as_str()?)?,
        title: text("title").unwrap_or_default(),
        closed: value.get("closed").and_then(Value::as_bool).unwrap_or(false),
        labels: labels.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        priority: value.get("priority").and_then(Value::as_i64).unwrap_or(0),
        link: text("link"),
        revision: text("revision"),
        assignees: texts(value.get("assignees")),
        blocked_by: Some(texts(value.get("blocked_by"))),
    })
}

fn texts(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn event(value: &Value) -> Option<TicketEvent> {
    let label = || value.get("label").and_then(Value::as_str).map(str::to_owned);
    let what = match value.get("event")?.as_str()? {
        "labeled" => TicketChange::Labeled(label()?),
        "unlabeled" => TicketChange::Unlabeled(label()?),
        "closed" => TicketChange::Closed,
        "reopened" => TicketChange::Reopened,
        _ => return None,
    };
    let at = value.get("at").and_then(Value::as_str).and_then(WallTime::parse);
    let actor = value.get("actor").and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(TicketEvent { id: id(value.get("id"))?, what, at, actor })
}

fn comment(value: &Value) -> Option<Comment> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let at = text("at").and_then(|at| WallTime::parse(&at));
    let author = text("author").unwrap_or_default();
    Some(Comment { id: value.get("id")?.as_u64()?, author, at, body: text("body")? })
}

/// An id as text or as a number.
fn id(value: Option<&Value>) -> Option<EventId> {
    match value? {
        Value::String(text) if !text.is_empty() => Some(EventId(text.clone())),
        Value::Number(number) => Some(EventId(number.to_string())),
        _ => None,
    }
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
