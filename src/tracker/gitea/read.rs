//! What Gitea and Forgejo show: issues, their timeline, comments and dependencies.

use super::Gitea;
use crate::model::ticket::{Comment, EventId, Key, Ticket, TicketChange, TicketEvent};
use crate::model::time::WallTime;
use crate::tracker::TicketList;
use crate::tracker::failure::{Failure, Why};
use crate::tracker::http::{HttpAnswer, MorePages, names, percent, zoned};
use serde_json::Value;
use ureq::http::Method;

/// The most that a server gives by default.
pub(super) const PAGE: usize = 50;

impl Gitea {
    pub(super) fn pages(&self, first: &str, more: MorePages) -> Result<Vec<Value>, Failure> {
        let refused = |path: &str, answer: &HttpAnswer| self.refused(&Method::GET, path, answer);
        self.http.pages(first, more, refused)
    }

    pub(super) fn list(&self, label: &str, state: &str) -> Result<TicketList, Failure> {
        let first =
            format!("{}/issues?labels={}&state={state}&type=issues&limit={PAGE}", self.repo, percent(label));
        let mut listing = TicketList::default();
        for issue in self.pages(&first, MorePages::Told(PAGE))? {
            if issue.get("pull_request").is_some_and(|pull| !pull.is_null()) {
                continue;
            }
            match parse(&issue) {
                Some(ticket) => listing.tickets.push(ticket),
                None => listing.broken.push(format!("{} sent an issue without a number", self.http.host())),
            }
        }
        Ok(listing.by_number())
    }

    pub(super) fn read_ticket(&self, key: &Key) -> Result<Ticket, Failure> {
        let path = self.issue(key, "");
        let answer = self.get(&path)?;
        if answer.status != 200 {
            return Err(self.refused(&Method::GET, &path, &answer));
        }
        let issue = answer.json(&format!("issue {key}"))?;
        if issue.get("pull_request").is_some_and(|pull| !pull.is_null()) {
            return Err(Failure::new(Why::NoTicket, format!("{key} is a pull request, not an issue")));
        }
        match parse(&issue) {
            Some(ticket) if ticket.key == *key => Ok(ticket),
            _ => Err(Failure::new(Why::Protocol, format!("issue {key} was answered with something else"))),
        }
    }

    /// From the timeline, whose ids ascend with what happened. It tells no total, and
    /// leaves out what we may not see, so that a short page need not be the last.
    pub(super) fn read_events(&self, key: &Key) -> Result<Vec<TicketEvent>, Failure> {
        let first = self.issue(key, &format!("/timeline?limit={PAGE}"));
        let mut found = Vec::new();
        for entry in self.pages(&first, MorePages::UntilEmpty)? {
            let label = || entry.pointer("/label/name").and_then(Value::as_str).map(str::to_owned);
            // The text "1" says that the label was put on.
            let on = entry.get("body").and_then(Value::as_str) == Some("1");
            let what = match entry.get("type").and_then(Value::as_str) {
                Some("label") if on => label().map(TicketChange::Labeled),
                Some("label") => label().map(TicketChange::Unlabeled),
                Some("close") => Some(TicketChange::Closed),
                Some("reopen") => Some(TicketChange::Reopened),
                _ => None,
            };
            let (Some(what), Some(id)) = (what, entry.get("id").and_then(Value::as_u64)) else { continue };
            let event = TicketEvent {
                id: EventId(id.to_string()),
                what,
                at: time(&entry),
                actor: login(entry.get("user")),
            };
            found.push((id, event));
        }
        found.sort_by_key(|(id, _)| *id);
        found.dedup_by_key(|(id, _)| *id);
        Ok(found.into_iter().map(|(_, event)| event).collect())
    }

    /// All of them come at once.
    pub(super) fn read_comments(&self, key: &Key) -> Result<Vec<Comment>, Failure> {
        let first = self.issue(key, &format!("/comments?limit={PAGE}"));
        let comment = |comment: Value| {
            Some(Comment {
                id: comment.get("id")?.as_u64()?,
                author: login(comment.get("user")),
                at: time(&comment),
                body: comment.get("body")?.as_str()?.to_owned(),
            })
        };
        let found = self.pages(&first, MorePages::Never)?;
        let mut comments: Vec<Comment> = found.into_iter().filter_map(comment).collect();
        comments.sort_by_key(|comment| comment.id);
        Ok(comments)
    }

    /// An older server has no dependencies in its API, and a repository may switch them off.
    pub(super) fn read_blockers(&self, key: &Key) -> Result<Vec<String>, Failure> {
        let first = self.issue(key, &format!("/dependencies?limit={PAGE}"));
        let found = match self.pages(&first, MorePages::Told(PAGE)) {
            Err(failure) if failure.why() == Why::NoTicket => Vec::new(),
            other => other?,
        };
        let blocker = |issue: &Value| {
            let number = issue.get("number")?.as_u64()?;
            let closed = issue.get("state").and_then(Value::as_str) == Some("closed");
            let repo = issue.pointer("/repository/full_name").and_then(Value::as_str);
            let elsewhere = repo.filter(|repo| !repo.eq_ignore_ascii_case(&self.name)).unwrap_or_default();
            (!closed).then(|| format!("{elsewhere}#{number}"))
        };
        Ok(found.iter().filter_map(blocker).collect())
    }
}

fn parse(issue: &Value) -> Option<Ticket> {
    let text = |name: &str| issue.get(name).and_then(Value::as_str).map(str::to_owned);
    let labels = issue.get("labels")?;
    Some(Ticket {
        key: Key::new(&issue.get("number")?.as_u64()?.to_string())?,
        title: text("title").unwrap_or_default(),
        closed: text("state").as_deref() == Some("closed"),
        labels: if labels.is_null() || labels.is_array() {
            names(Some(labels), "name")
        } else {
            return None;
        },
        priority: 0,
        link: text("html_url"),
        revision: text("updated_at"),
        assignees: names(issue.get("assignees"), "login"),
        blocked_by: None,
    })
}

fn login(user: Option<&Value>) -> String {
    user.and_then(|user| user.get("login")).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// With the server's own offset from UTC.
fn time(value: &Value) -> Option<WallTime> {
    value.get("created_at")?.as_str().and_then(zoned)
}
