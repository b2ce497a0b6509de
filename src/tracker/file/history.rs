//! `KEY.history.jsonl`: what happened to a ticket, one line each, ids ascending.

use crate::model::ticket::{Comment, EventId, TicketChange, TicketEvent};
use crate::model::time::WallTime;
use serde::{Deserialize, Serialize};

/// Who changed a ticket with an editor, as far as we can know.
pub(super) const EDIT: &str = "edit";

/// One line of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Line {
    pub(super) id: u64,
    pub(super) at: String,
    pub(super) event: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) label: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) body: Option<String>,
    #[serde(default)]
    pub(super) actor: String,
}

/// The whole of it.
#[derive(Debug, Default)]
pub(super) struct History {
    lines: Vec<Line>,
    /// The last line has no end: whoever appends closes it first.
    torn: bool,
}

impl History {
    /// Reads what parses; a line that does not (torn, typed by hand) explains nothing.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let lines: Vec<Line> =
            bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
        Self { lines, torn: bytes.last().is_some_and(|byte| *byte != b'\n') }
    }

    /// The id the next event gets: above every one there is. A new file begins at
    /// the time in seconds, so that a mark from before somebody removed the file is
    /// nobody's mark afterwards.
    pub(super) fn next_id(&self, now: WallTime) -> u64 {
        self.lines.iter().map(|line| line.id).max().map_or(now.seconds(), |last| last + 1)
    }

    /// Labels and state as the events explain them.
    pub(super) fn explains(&self) -> (Vec<String>, bool) {
        let mut labels: Vec<String> = Vec::new();
        let mut closed = false;
        for line in &self.lines {
            match (line.event.as_str(), &line.label) {
                ("labeled", Some(label)) if !labels.contains(label) => labels.push(label.clone()),
                ("unlabeled", Some(label)) => labels.retain(|known| known != label),
                ("closed", _) => closed = true,
                ("reopened", _) => closed = false,
                _ => {}
            }
        }
        (labels, closed)
    }

    /// The events that lead from what is explained to what the ticket shows.
    pub(super) fn missing(&self, labels: &[String], closed: bool) -> Vec<TicketChange> {
        let (known, was_closed) = self.explains();
        let mut missing: Vec<TicketChange> = Vec::new();
        let off = known.iter().filter(|label| !labels.contains(label));
        missing.extend(off.cloned().map(TicketChange::Unlabeled));
        let on = labels.iter().filter(|label| !known.contains(label));
        missing.extend(on.cloned().map(TicketChange::Labeled));
        match (was_closed, closed) {
            (false, true) => missing.push(TicketChange::Closed),
            (true, false) => missing.push(TicketChange::Reopened),
            _ => {}
        }
        missing
    }

    /// Lines for new events, ids ascending.
    pub(super) fn lines_for(&self, events: &[TicketChange], now: WallTime, actor: &str) -> Vec<Line> {
        let line = |(id, what): (u64, &TicketChange)| {
            let (event, label) = match what {
                TicketChange::Labeled(label) => ("labeled", Some(label.clone())),
                TicketChange::Unlabeled(label) => ("unlabeled", Some(label.clone())),
                TicketChange::Closed => ("closed", None),
                TicketChange::Reopened => ("reopened", None),
            };
            let (at, event, actor) = (now.rfc3339(), event.to_owned(), actor.to_owned());
            Line { id, at, event, label, body: None, actor }
        };
        (self.next_id(now)..).zip(events).map(line).collect()
    }

    /// The line for a comment.
    pub(super) fn comment_line(&self, body: &str, now: WallTime, actor: &str) -> Line {
        let (event, body) = ("comment".to_owned(), Some(body.to_owned()));
        Line { id: self.next_id(now), at: now.rfc3339(), event, label: None, body, actor: actor.to_owned() }
    }

    /// The bytes to append for these lines.
    pub(super) fn bytes(&self, lines: &[Line]) -> Vec<u8> {
        let mut text = if self.torn { "\n".to_owned() } else { String::new() };
        for line in lines {
            text.push_str(&serde_json::to_string(line).unwrap_or_default());
            text.push('\n');
        }
        text.into_bytes()
    }

    /// These lines are in the file now.
    pub(super) fn extend(&mut self, lines: Vec<Line>) {
        self.lines.extend(lines);
        self.torn = false;
    }

    /// Is this very line in it?
    pub(super) fn has(&self, line: &Line) -> bool {
        self.lines.iter().any(|known| known.id == line.id && known.event == line.event && known.at == line.at)
    }

    /// Events of labels and state, oldest first.
    pub(super) fn events(&self) -> Vec<TicketEvent> {
        let event = |line: &Line| {
            let what = match (line.event.as_str(), &line.label) {
                ("labeled", Some(label)) => TicketChange::Labeled(label.clone()),
                ("unlabeled", Some(label)) => TicketChange::Unlabeled(label.clone()),
                ("closed", _) => TicketChange::Closed,
                ("reopened", _) => TicketChange::Reopened,
                _ => return None,
            };
            let (id, at) = (EventId(line.id.to_string()), WallTime::parse(&line.at));
            Some(TicketEvent { id, what, at, actor: line.actor.clone() })
        };
        self.lines.iter().filter_map(event).collect()
    }

    /// Comments, ascending by id.
    pub(super) fn comments(&self) -> Vec<Comment> {
        let comment = |line: &Line| {
            let body = line.body.clone().filter(|_| line.event == "comment")?;
            Some(Comment { id: line.id, author: line.actor.clone(), at: WallTime::parse(&line.at), body })
        };
        let mut comments: Vec<Comment> = self.lines.iter().filter_map(comment).collect();
        comments.sort_by_key(|comment| comment.id);
        comments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_line_is_closed_and_never_joined() {
        let history =
            History::parse(b"{\"id\":4,\"at\":\"x\",\"event\":\"labeled\",\"label\":\"a\"}\n{\"id\":5,");
        assert_eq!(history.next_id(WallTime(9000)), 5);
        assert_eq!(History::default().next_id(WallTime(9000)), 9);
        let lines = history.lines_for(&[TicketChange::Unlabeled("a".into())], WallTime(0), "me");
        let bytes = history.bytes(&lines);
        assert!(bytes.starts_with(b"\n{"), "{}", String::from_utf8_lossy(&bytes));
        assert_eq!(history.explains(), (vec!["a".to_owned()], false));
    }

    #[test]
    fn what_the_events_do_not_explain_is_named() {
        let history = History::parse(b"{\"id\":1,\"at\":\"x\",\"event\":\"labeled\",\"label\":\"a\"}\n");
        let missing = history.missing(&["b".to_owned()], true);
        assert_eq!(
            missing,
            [TicketChange::Unlabeled("a".into()), TicketChange::Labeled("b".into()), TicketChange::Closed]
        );
        assert!(history.missing(&["a".to_owned()], false).is_empty());
    }
}
