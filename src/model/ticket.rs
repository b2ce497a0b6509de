//! Tickets as every tracker shows them: a key, labels, and a list of events whose
//! ids let a claim be told from every other claim of the same ticket.

use crate::model::time::WallTime;
use std::fmt;

/// A ticket's key in the tracker's own spelling, after the tracker made it
/// canonical: one ticket has one key. Safe as a file name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key(String);

impl Key {
    /// `[A-Za-z0-9][A-Za-z0-9._-]{0,99}`; anything else is `None`.
    pub(crate) fn new(text: &str) -> Option<Self> {
        let first = text.bytes().next()?;
        let legal = first.is_ascii_alphanumeric()
            && text.len() <= 100
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        legal.then(|| Self(text.to_owned()))
    }

    /// The key as text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id a tracker gave to one event. Compared for equality; the order of events
/// is the order of their list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EventId(pub(crate) String);

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A ticket as a tracker shows it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// Its canonical key.
    pub(crate) key: Key,
    /// For people; escape before printing.
    pub(crate) title: String,
    /// Closed (Jira: status category Done). An unknown category is not closed.
    pub(crate) closed: bool,
    /// Every label, ours and others', in the tracker's order.
    pub(crate) labels: Vec<String>,
    /// Higher first; 0 where the tracker's list order says it all.
    pub(crate) priority: i64,
    /// Where a person looks at it.
    pub(crate) link: Option<String>,
    /// A value that differs once anything about the ticket has changed, where the
    /// tracker has one. A hint that saves reads; never enough for a write.
    pub(crate) revision: Option<String>,
    /// Everybody it is assigned to, as the tracker names them.
    pub(crate) assignees: Vec<String>,
    /// What must be closed first and is open: keys, or a number in words. `None`: a
    /// list of this tracker does not show it, and it must be asked for.
    pub(crate) blocked_by: Option<Vec<String>>,
}

impl Ticket {
    /// An open ticket without anything on it; what blocks it is not known.
    #[cfg(test)]
    pub(crate) fn bare(key: Key) -> Self {
        Self {
            key,
            title: String::new(),
            closed: false,
            labels: Vec::new(),
            priority: 0,
            link: None,
            revision: None,
            assignees: Vec::new(),
            blocked_by: None,
        }
    }

    /// Is the label on it? Exactly, never by prefix.
    pub(crate) fn has(&self, label: &str) -> bool {
        self.labels.iter().any(|own| own == label)
    }
}

/// What an event of a ticket was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TicketChange {
    /// A label came on.
    Labeled(String),
    /// A label went off.
    Unlabeled(String),
    /// Closed.
    Closed,
    /// Opened again.
    Reopened,
}

/// One event of a ticket. Lists of events are oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TicketEvent {
    /// The tracker's id. A tracker that changes several labels in one write may
    /// give all of them one id.
    pub(crate) id: EventId,
    /// What happened.
    pub(crate) what: TicketChange,
    /// The tracker's clock, for people and for one margin of minutes.
    pub(crate) at: Option<WallTime>,
    /// Who did it, as the tracker names them; shown, never decisive: agents share logins.
    pub(crate) actor: String,
}

/// A comment of a ticket. Lists of comments ascend by id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Comment {
    /// Ascending within the tracker.
    pub(crate) id: u64,
    /// The author as the tracker identifies them.
    pub(crate) author: String,
    /// The tracker's clock.
    pub(crate) at: Option<WallTime>,
    /// Plain text.
    pub(crate) body: String,
}

/// What a write requires of the ticket at that moment; with nothing in it, anything goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expect {
    /// Labels that must be on it.
    pub(crate) has: Vec<String>,
    /// Labels that must not be on it.
    pub(crate) lacks: Vec<String>,
    /// It must be open (`Some(true)`) or closed (`Some(false)`).
    pub(crate) open: Option<bool>,
    /// The newest event that put this label on must be this one.
    pub(crate) mark: Option<(String, EventId)>,
}

impl Expect {
    /// Why the ticket is not as expected; `None` when it is. `events` is only
    /// looked at where a mark is expected.
    pub(crate) fn broken(&self, ticket: &Ticket, events: &[TicketEvent]) -> Option<String> {
        if let Some(label) = self.has.iter().find(|label| !ticket.has(label)) {
            return Some(format!("the label {label} is not on it"));
        }
        if let Some(label) = self.lacks.iter().find(|label| ticket.has(label)) {
            return Some(format!("the label {label} is on it"));
        }
        if let Some(open) = self.open
            && open == ticket.closed
        {
            return Some(if open { "it is closed" } else { "it is open" }.to_owned());
        }
        let (label, mark) = self.mark.as_ref()?;
        match newest_labeled(events, label) {
            Some(event) if event.id == *mark => None,
            Some(event) => Some(format!("{label} was put on by event {}, ours is {mark}", event.id)),
            None => Some(format!("it shows no event that put {label} on, ours is {mark}")),
        }
    }
}

/// The newest event that put this label on.
pub(crate) fn newest_labeled<'a>(events: &'a [TicketEvent], label: &str) -> Option<&'a TicketEvent> {
    events.iter().rev().find(|event| matches!(&event.what, TicketChange::Labeled(on) if on == label))
}

/// One change of labels: adds and removes, never a full list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Swap {
    /// Labels to put on. Where a tracker needs several requests, these come first,
    /// so that a kill in between leaves a label that says whose turn it is.
    pub(crate) add: Vec<String>,
    /// Labels to take off; one that is off already is not a failure.
    pub(crate) remove: Vec<String>,
    /// What must hold when the write happens.
    pub(crate) expect: Expect,
    /// The actor of its events, where a tracker takes our word for that (files,
    /// programs). A claim signs with its nonce and finds its mark by it after a kill.
    pub(crate) signature: Option<String>,
}

impl Swap {
    /// Is the ticket as this swap leaves it?
    pub(crate) fn is_done(&self, ticket: &Ticket) -> bool {
        self.add.iter().all(|label| ticket.has(label)) && !self.remove.iter().any(|label| ticket.has(label))
    }
}

/// What a swap came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Swapped {
    /// Written, and the ticket itself, read again, shows it. With the id of the
    /// event where the tracker told it with the write.
    Done(Option<EventId>),
    /// The ticket was not as expected; nothing was written. Why.
    Changed(String),
    /// Answered as done, or not answered, and the ticket does not show it. What was seen.
    Unconfirmed(String),
}

/// What taking a label off as a gate came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GateTaken {
    /// This call took it off.
    Ours,
    /// It was not on any more: somebody else did.
    Gone,
    /// No answer that says which. The ticket may or may not have lost the label. Why.
    Unclear(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_file_names_and_nothing_else() {
        let long = "K".repeat(101);
        for bad in ["", ".", "..", "a/b", "../x", "-1", "a b", "a\n", "é", "\u{1b}[2J", &long, "#12"] {
            assert_eq!(Key::new(bad), None, "{bad:?}");
        }
        for good in ["12", "ABC-7", "a.b_c-9", &"K".repeat(100)] {
            assert_eq!(Key::new(good).expect(good).as_str(), good);
        }
    }

    fn labeled(id: &str, label: &str) -> TicketEvent {
        let what = TicketChange::Labeled(label.to_owned());
        TicketEvent { id: EventId(id.to_owned()), what, at: None, actor: String::new() }
    }

    #[test]
    fn an_expectation_says_what_is_not_as_expected() {
        let ticket = Ticket { labels: vec!["w".into()], ..Ticket::bare(Key::new("1").expect("key")) };
        let events = [labeled("1", "w"), labeled("2", "w"), labeled("3", "x")];
        let mark = |id: &str| Some(("w".to_owned(), EventId(id.to_owned())));
        let ok = |expect: Expect| expect.broken(&ticket, &events).is_none();
        assert!(ok(Expect::default()));
        assert!(ok(Expect { has: vec!["w".into()], open: Some(true), mark: mark("2"), ..Expect::default() }));
        assert!(!ok(Expect { mark: mark("1"), ..Expect::default() }), "an older event of the label");
        assert!(!ok(Expect { has: vec!["W".into()], ..Expect::default() }), "exactly");
        assert!(!ok(Expect { lacks: vec!["w".into()], ..Expect::default() }));
        assert!(!ok(Expect { open: Some(false), ..Expect::default() }));
    }
}
