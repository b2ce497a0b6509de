//! The tickets themselves, shared by both dialects.

use super::{Fault, Request};
use std::collections::BTreeMap;
use std::time::SystemTime;

/// One change of a ticket: what both dialects tell as events.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) id: u64,
    pub(crate) from: Vec<String>,
    pub(crate) to: Vec<String>,
    /// Closed or reopened by it.
    pub(crate) closed: Option<bool>,
    pub(crate) at: String,
    pub(crate) actor: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Comment {
    pub(crate) id: u64,
    pub(crate) author: String,
    pub(crate) body: String,
    pub(crate) at: String,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Ticket {
    pub(crate) title: String,
    pub(crate) closed: bool,
    pub(crate) labels: Vec<String>,
    pub(crate) changes: Vec<Change>,
    pub(crate) comments: Vec<Comment>,
    pub(crate) pull_request: bool,
    pub(crate) assignees: Vec<String>,
    /// Keys of tickets that must be closed first.
    pub(crate) blockers: Vec<String>,
}

#[derive(Default)]
pub(crate) struct World {
    /// By number (GitHub) or key (Jira).
    pub(crate) tickets: BTreeMap<String, Ticket>,
    pub(crate) seen: Vec<Request>,
    pub(crate) faults: Vec<Fault>,
    /// Lists are answered from this copy: an index that lags.
    pub(crate) stale: Option<BTreeMap<String, Ticket>>,
    /// So many readings of events do not show the newest change yet.
    pub(crate) events_lag: usize,
    /// Adding a label reads the list, waits and writes it back whole.
    pub(crate) leaky_adds: bool,
    /// Labels must be made before they can be put on.
    pub(crate) strict_labels: bool,
    /// Labels made so far.
    pub(crate) known_labels: Vec<String>,
    /// Lists give no links to further pages.
    pub(crate) no_links: bool,
    /// Only requests with this in their authorization are answered; others with 401.
    pub(crate) accepts: Option<String>,
    /// The scopes of the token, where they are told.
    pub(crate) scopes: Option<String>,
    /// Nothing is said about rights.
    pub(crate) no_rights_told: bool,
    ids: u64,
}

impl World {
    /// A ticket as a person makes it, then queued.
    pub(crate) fn queued(&mut self, key: &str) {
        self.tickets.insert(key.to_owned(), Ticket { title: format!("ticket {key}"), ..Ticket::default() });
        self.label(key, "person", &["orion-queue"], &[]);
    }

    /// Whatever else a person does to a ticket.
    pub(crate) fn change(&mut self, key: &str, change: impl FnOnce(&mut Ticket)) {
        change(self.tickets.get_mut(key).expect("a ticket"));
    }

    /// Labels by somebody.
    pub(crate) fn label(&mut self, key: &str, actor: &str, add: &[&str], remove: &[&str]) {
        let Some(ticket) = self.tickets.get(key) else { return };
        let mut to: Vec<String> =
            ticket.labels.iter().filter(|label| !remove.contains(&label.as_str())).cloned().collect();
        for label in add {
            if !to.iter().any(|known| known == label) {
                to.push((*label).to_owned());
            }
        }
        self.set_labels(key, actor, to);
    }

    /// Writes a full list of labels.
    pub(crate) fn set_labels(&mut self, key: &str, actor: &str, to: Vec<String>) {
        let (id, at) = (self.id(), now());
        let Some(ticket) = self.tickets.get_mut(key) else { return };
        let from = std::mem::replace(&mut ticket.labels, to.clone());
        if from != to {
            ticket.changes.push(Change { id, from, to, closed: None, at, actor: actor.to_owned() });
        }
    }

    /// Closes or reopens.
    pub(crate) fn close(&mut self, key: &str, closed: bool) {
        let (id, at) = (self.id(), now());
        let Some(ticket) = self.tickets.get_mut(key) else { return };
        ticket.closed = closed;
        let labels = ticket.labels.clone();
        ticket.changes.push(Change {
            id,
            from: labels.clone(),
            to: labels,
            closed: Some(closed),
            at,
            actor: "person".to_owned(),
        });
    }

    /// A label that is on a ticket exists.
    pub(super) fn know_labels(&mut self) {
        for label in self.tickets.values().flat_map(|ticket| &ticket.labels) {
            if !self.known_labels.contains(label) {
                self.known_labels.push(label.clone());
            }
        }
    }

    /// Those of its blockers that are open.
    pub(super) fn open_blockers(&self, key: &str) -> Vec<String> {
        let blockers = self.tickets.get(key).map(|ticket| ticket.blockers.clone()).unwrap_or_default();
        let open = |key: &String| self.tickets.get(key).is_some_and(|ticket| !ticket.closed);
        blockers.into_iter().filter(open).collect()
    }

    pub(crate) fn labels(&self, key: &str) -> Vec<String> {
        self.tickets.get(key).map(|ticket| ticket.labels.clone()).unwrap_or_default()
    }

    /// How often a label came on.
    pub(crate) fn times_on(&self, key: &str, label: &str) -> usize {
        let on = |change: &&Change| {
            change.to.iter().any(|to| to == label) && !change.from.iter().any(|from| from == label)
        };
        self.tickets.get(key).map_or(0, |ticket| ticket.changes.iter().filter(on).count())
    }

    /// The tickets as lists show them.
    pub(super) fn listed(&self) -> &BTreeMap<String, Ticket> {
        self.stale.as_ref().unwrap_or(&self.tickets)
    }

    /// The changes as an event list shows them now.
    pub(super) fn shown_changes(&mut self, key: &str) -> Vec<Change> {
        let mut changes = self.tickets.get(key).map(|ticket| ticket.changes.clone()).unwrap_or_default();
        if self.events_lag > 0 {
            self.events_lag -= 1;
            changes.pop();
        }
        changes
    }

    /// A comment by somebody else.
    pub(crate) fn person_comments(&mut self, key: &str, body: &str) {
        self.add_comment(key, "person", body);
    }

    pub(super) fn add_comment(&mut self, key: &str, author: &str, body: &str) -> Comment {
        let comment = Comment { id: self.id(), author: author.to_owned(), body: body.to_owned(), at: now() };
        if let Some(ticket) = self.tickets.get_mut(key) {
            ticket.comments.push(comment.clone());
        }
        comment
    }

    /// Room for the events of one change.
    fn id(&mut self) -> u64 {
        self.ids += 100;
        self.ids
    }
}

pub(super) fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}
