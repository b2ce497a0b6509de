//! What GitLab shows: issues, their label events, notes and links, all pages.

use super::GitLab;
use crate::model::ticket::{Comment, EventId, Key, Ticket, TicketChange, TicketEvent};
use crate::model::time::WallTime;
use crate::tracker::TicketList;
use crate::tracker::failure::{Failure, Why};
use crate::tracker::http::{HttpAnswer, MorePages, names, percent, zoned};
use serde_json::Value;
use ureq::http::Method;

const PAGE: usize = 100;

impl GitLab {
    fn pages(&self, first: &str) -> Result<Vec<Value>, Failure> {
        let refused = |path: &str, answer: &HttpAnswer| self.refused(&Method::GET, path, answer);
        self.http.pages(first, MorePages::Told(PAGE), refused)
    }

    pub(super) fn list(&self, label: &str, state: &str) -> Result<TicketList, Failure> {
        let first = format!(
            "{}/issues?labels={}&state={state}&scope=all&order_by=created_at&sort=asc&per_page={PAGE}",
            self.project,
            percent(label)
        );
        let mut listing = TicketList::default();
        for issue in self.pages(&first)? {
            match parse(&issue) {
                Some(ticket) => listing.tickets.push(ticket),
                None => listing.broken.push(format!("{} sent an issue without a number", self.http.host())),
            }
        }
        Ok(listing.by_number())
    }

    pub(super) fn read_ticket(&self, key: &Key) -> Result<Ticket, Failure> {
        let issue = self.object(&self.issue(key, ""), &format!("issue {key}"))?;
        if issue.get("moved_to_id").is_some_and(|to| !to.is_null()) {
            return Err(Failure::new(Why::NoTicket, format!("issue {key} was moved to another project")));
        }
        match parse(&issue) {
            Some(ticket) if ticket.key == *key => Ok(ticket),
            _ => Err(Failure::new(Why::Protocol, format!("issue {key} was answered with something else"))),
        }
    }

    /// Label events have ids of their own, and so have changes of state: the order of
    /// label events is the order of their ids, and the others stand between them by time.
    pub(super) fn read_events(&self, key: &Key) -> Result<Vec<TicketEvent>, Failure> {
        let mut found = Vec::new();
        for event in self.pages(&self.issue(key, &format!("/resource_label_events?per_page={PAGE}")))? {
            // A label that was deleted since has no name here any more.
            let Some(label) = event.pointer("/label/name").and_then(Value::as_str) else { continue };
            let what = match event.get("action").and_then(Value::as_str) {
                Some("add") => TicketChange::Labeled(label.to_owned()),
                Some("remove") => TicketChange::Unlabeled(label.to_owned()),
                _ => continue,
            };
            let Some(id) = event.get("id").and_then(Value::as_u64) else { continue };
            found.push((id, told(&event, id.to_string(), what)));
        }
        found.sort_by_key(|(id, _)| *id);
        let mut events: Vec<TicketEvent> = found.into_iter().map(|(_, event)| event).collect();
        for event in self.pages(&self.issue(key, &format!("/resource_state_events?per_page={PAGE}")))? {
            let what = match event.get("state").and_then(Value::as_str) {
                Some("closed") => TicketChange::Closed,
                Some("reopened") => TicketChange::Reopened,
                _ => continue,
            };
            let Some(id) = event.get("id").and_then(Value::as_u64) else { continue };
            let event = told(&event, format!("state-{id}"), what);
            let at = events.iter().rposition(|other| other.at <= event.at).map_or(0, |before| before + 1);
            events.insert(at, event);
        }
        Ok(events)
    }

    pub(super) fn read_comments(&self, key: &Key) -> Result<Vec<Comment>, Failure> {
        let first = self.issue(key, &format!("/notes?sort=asc&order_by=created_at&per_page={PAGE}"));
        let comment = |note: Value| {
            if note.get("system").and_then(Value::as_bool) == Some(true) {
                return None;
            }
            Some(Comment {
                id: note.get("id")?.as_u64()?,
                author: username(note.get("author")),
                at: time(&note),
                body: note.get("body")?.as_str()?.to_owned(),
            })
        };
        let mut comments: Vec<Comment> = self.pages(&first)?.into_iter().filter_map(comment).collect();
        comments.sort_by_key(|comment| comment.id);
        comments.dedup_by_key(|comment| comment.id);
        Ok(comments)
    }

    pub(super) fn read_blockers(&self, key: &Key) -> Result<Vec<String>, Failure> {
        let links = self.pages(&self.issue(key, &format!("/links?per_page={PAGE}")))?;
        let blocker = |link: &Value| {
            let text = |path: &str| link.pointer(path).and_then(Value::as_str);
            if text("/link_type") != Some("is_blocked_by") || text("/state") == Some("closed") {
                return None;
            }
            let number = || link.get("iid").and_then(Value::as_u64).map(|iid| format!("#{iid}"));
            text("/references/full").map(str::to_owned).or_else(number)
        };
        Ok(links.iter().filter_map(blocker).collect())
    }
}

fn parse(issue: &Value) -> Option<Ticket> {
    let text = |name: &str| issue.get(name).and_then(Value::as_str).map(str::to_owned);
    let labels = issue.get("labels")?.as_array()?;
    Some(Ticket {
        key: Key::new(&issue.get("iid")?.as_u64()?.to_string())?,
        title: text("title").unwrap_or_default(),
        closed: text("state").as_deref() == Some("closed"),
        labels: labels.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        priority: 0,
        link: text("web_url"),
        revision: text("updated_at"),
        assignees: names(issue.get("assignees"), "username"),
        blocked_by: None,
    })
}

fn told(event: &Value, id: String, what: TicketChange) -> TicketEvent {
    TicketEvent { id: EventId(id), what, at: time(event), actor: username(event.get("user")) }
}

fn username(user: Option<&Value>) -> String {
    user.and_then(|user| user.get("username")).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn time(value: &Value) -> Option<WallTime> {
    value.get("created_at")?.as_str().and_then(zoned)
}
