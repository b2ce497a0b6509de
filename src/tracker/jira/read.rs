//! What Jira shows: tickets by search and by themselves, changelog, comments.

use super::Jira;
use crate::error::escape;
use crate::model::ticket::{Comment, EventId, Key, Ticket, TicketChange, TicketEvent};
use crate::tracker::TicketList;
use crate::tracker::failure::{Failure, Why};
use crate::tracker::http::{percent, zoned};
use serde_json::Value;

const PAGE: usize = 100;
const PAGES: usize = 200;
const FIELDS: &str = "summary,labels,status,updated,assignee,issuelinks";

impl Jira {
    /// The queue, in the order of priority, then the project's own rank where it has one.
    pub(super) fn list_queue(&self) -> Result<TicketList, Failure> {
        let jql = format!(
            "project = {} AND labels = {} AND statusCategory != Done ORDER BY priority DESC",
            quoted(&self.project),
            quoted(&self.labels.queue)
        );
        match self.search(&format!("{jql}, Rank ASC")) {
            // A site without boards has no rank; a wrong project says so by itself.
            Err(failure) if failure.why() == Why::Refused => self.search(&format!("{jql}, key ASC")),
            other => other,
        }
    }

    pub(super) fn list_in_flight(&self) -> Result<TicketList, Failure> {
        let (project, working) = (quoted(&self.project), quoted(&self.labels.working));
        self.search(&format!("project = {project} AND labels = {working} ORDER BY key ASC"))
    }

    fn search(&self, jql: &str) -> Result<TicketList, Failure> {
        let mut listing = TicketList::default();
        let mut token: Option<String> = None;
        let mut seen = 0;
        for _ in 0..PAGES {
            let query = format!("jql={}&fields={FIELDS}&maxResults={PAGE}", percent(jql));
            let path = match (self.cloud, &token) {
                (true, None) => format!("{}/search/jql?{query}", self.api),
                (true, Some(token)) => {
                    format!("{}/search/jql?{query}&nextPageToken={}", self.api, percent(token))
                }
                (false, _) => format!("{}/search?{query}&startAt={seen}", self.api),
            };
            let value = self.get(&path)?;
            let Some(issues) = value.get("issues").and_then(Value::as_array) else {
                return Err(Failure::new(
                    Why::Protocol,
                    format!("{} answered with something that is not a list", self.http.host()),
                ));
            };
            for issue in issues {
                match parse(issue) {
                    Some(ticket) => listing.tickets.push(ticket),
                    None => listing.broken.push(format!("{} sent an invalid ticket", self.http.host())),
                }
            }
            seen += issues.len();
            token = value.get("nextPageToken").and_then(Value::as_str).map(str::to_owned);
            let total =
                value.get("total").and_then(Value::as_u64).and_then(|total| usize::try_from(total).ok());
            let more = if self.cloud {
                token.is_some() && value.get("isLast").and_then(Value::as_bool) != Some(true)
            } else {
                !issues.is_empty() && total.is_none_or(|total| seen < total)
            };
            if !more {
                // Some sites answer a token that has ended with an empty list.
                if seen == 0 {
                    self.see_project()?;
                }
                return Ok(listing);
            }
        }
        Err(Failure::new(Why::Protocol, format!("{} sends more than {PAGES} pages", self.http.host())))
    }

    pub(super) fn read_ticket(&self, key: &Key) -> Result<Ticket, Failure> {
        let value = self.get(&self.issue(key, &format!("?fields={FIELDS}")))?;
        match parse(&value) {
            Some(ticket) if ticket.key == *key => Ok(ticket),
            Some(ticket) => {
                Err(Failure::new(Why::NoTicket, format!("{key} was moved and is {} now", ticket.key)))
            }
            None => {
                Err(Failure::new(Why::Protocol, format!("ticket {key} was answered with something else")))
            }
        }
    }

    /// From the changelog: one entry may take labels off and put others on, and
    /// gives all of them its id. What a ticket was made with is not in it.
    pub(super) fn read_events(&self, key: &Key) -> Result<Vec<TicketEvent>, Failure> {
        let mut histories = Vec::new();
        if self.cloud {
            let path = self.issue(key, "/changelog");
            self.by_position(&path, "values", &mut histories)?;
        } else {
            let value = self.get(&self.issue(key, "?fields=labels&expand=changelog"))?;
            let list = value.pointer("/changelog/histories").and_then(Value::as_array);
            let list = list.ok_or_else(|| {
                Failure::new(Why::Protocol, format!("ticket {key} was answered without its changelog"))
            })?;
            histories.extend(list.iter().cloned());
        }
        let id = |history: &Value| history.get("id")?.as_str()?.parse::<u64>().ok();
        let mut numbered: Vec<(u64, Value)> =
            histories.into_iter().filter_map(|history| Some((id(&history)?, history))).collect();
        numbered.sort_by_key(|(id, _)| *id);
        numbered.dedup_by_key(|(id, _)| *id);
        Ok(numbered.iter().flat_map(|(id, history)| events_of(*id, history)).collect())
    }

    pub(super) fn read_comments(&self, key: &Key) -> Result<Vec<Comment>, Failure> {
        let mut found = Vec::new();
        self.by_position(&self.issue(key, "/comment"), "comments", &mut found)?;
        let comment = |comment: &Value| {
            Some(Comment {
                id: comment.get("id")?.as_str()?.parse().ok()?,
                author: person(comment.get("author")).unwrap_or_default(),
                at: comment.get("created").and_then(Value::as_str).and_then(zoned),
                body: text(comment.get("body")?),
            })
        };
        let mut comments: Vec<Comment> = found.iter().filter_map(comment).collect();
        comments.sort_by_key(|comment| comment.id);
        comments.dedup_by_key(|comment| comment.id);
        Ok(comments)
    }

    /// All pages of a list that is asked for by position.
    fn by_position(&self, path: &str, name: &str, into: &mut Vec<Value>) -> Result<(), Failure> {
        for _ in 0..PAGES {
            let value = self.get(&format!("{path}?startAt={}&maxResults={PAGE}", into.len()))?;
            let Some(page) = value.get(name).and_then(Value::as_array) else {
                return Err(Failure::new(
                    Why::Protocol,
                    format!("{} answered with something that is not a list", self.http.host()),
                ));
            };
            into.extend(page.iter().cloned());
            let total =
                value.get("total").and_then(Value::as_u64).and_then(|total| usize::try_from(total).ok());
            let last = value
                .get("isLast")
                .and_then(Value::as_bool)
                .unwrap_or_else(|| total.map_or(page.len() < PAGE, |total| into.len() >= total));
            if last || page.is_empty() {
                return Ok(());
            }
        }
        Err(Failure::new(Why::Protocol, format!("{} sends more than {PAGES} pages", self.http.host())))
    }
}

fn parse(issue: &Value) -> Option<Ticket> {
    let key = Key::new(issue.get("key")?.as_str()?)?;
    let fields = issue.get("fields")?;
    let field = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
    let labels = fields.get("labels")?.as_array()?;
    Some(Ticket {
        key,
        title: field("summary").unwrap_or_default(),
        // The category, not the status: its name is whatever the project calls it.
        closed: is_done(fields),
        labels: labels.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        priority: 0,
        link: None,
        revision: field("updated"),
        assignees: person(fields.get("assignee")).into_iter().collect(),
        blocked_by: Some(blockers(fields)),
    })
}

fn is_done(fields: &Value) -> bool {
    fields.pointer("/status/statusCategory/key").and_then(Value::as_str) == Some("done")
}

/// Cloud has ids for people, a server has names.
pub(super) fn person(person: Option<&Value>) -> Option<String> {
    let person = person?;
    let name = person.get("accountId").or_else(|| person.get("name"))?;
    name.as_str().map(str::to_owned)
}

/// Links that read "is blocked by" on this side, to tickets that are not done.
fn blockers(fields: &Value) -> Vec<String> {
    let links = fields.get("issuelinks").and_then(Value::as_array).into_iter().flatten();
    let open = |link: &Value| {
        let reads = link.pointer("/type/inward")?.as_str()?;
        let other = link.get("inwardIssue")?;
        let done = other.get("fields").is_some_and(is_done);
        let blocks = reads.eq_ignore_ascii_case("is blocked by") && !done;
        blocks.then(|| other.get("key")?.as_str().map(str::to_owned)).flatten()
    };
    links.filter_map(open).collect()
}

fn events_of(id: u64, history: &Value) -> Vec<TicketEvent> {
    let at = history.get("created").and_then(Value::as_str).and_then(zoned);
    let actor = person(history.get("author")).unwrap_or_default();
    let event = |what| TicketEvent { id: EventId(id.to_string()), what, at, actor: actor.clone() };
    let mut events = Vec::new();
    for item in history.get("items").and_then(Value::as_array).into_iter().flatten() {
        let words = |name: &str| -> Vec<String> {
            let text = item.get(name).and_then(Value::as_str).unwrap_or_default();
            text.split_whitespace().map(str::to_owned).collect()
        };
        if item.get("field").and_then(Value::as_str) != Some("labels") {
            continue;
        }
        let (from, to) = (words("fromString"), words("toString"));
        let off = from.iter().filter(|label| !to.contains(label)).cloned().map(TicketChange::Unlabeled);
        let on = to.iter().filter(|label| !from.contains(label)).cloned().map(TicketChange::Labeled);
        events.extend(off.chain(on).map(event));
    }
    events
}

/// A comment's words: plain in version 2, a tree in version 3.
fn text(body: &Value) -> String {
    fn collect(node: &Value, into: &mut String) {
        if let Some(text) = node.get("text").and_then(Value::as_str) {
            into.push_str(text);
        }
        for child in node.get("content").and_then(Value::as_array).into_iter().flatten() {
            collect(child, into);
        }
        if node.get("type").and_then(Value::as_str) == Some("paragraph") {
            into.push('\n');
        }
    }
    match body {
        Value::String(text) => text.clone(),
        document => {
            let mut text = String::new();
            collect(document, &mut text);
            text.trim_end().to_owned()
        }
    }
}

/// A value in JQL: always quoted.
fn quoted(text: &str) -> String {
    let text = escape(text.as_bytes(), 300);
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_in_a_query_is_quoted() {
        assert_eq!(quoted("a\" OR project = \"X"), "\"a\\\" OR project = \\\"X\"");
    }

    #[test]
    fn one_entry_of_the_changelog_is_several_events_with_one_id() {
        let items = serde_json::json!([
            {"field": "labels", "fromString": "bug orion-queue", "toString": "bug orion-working"},
            {"field": "status", "fromString": "A", "toString": "B"},
        ]);
        let events = events_of(7, &serde_json::json!({"created": "x", "items": items}));
        let whats: Vec<TicketChange> = events.into_iter().map(|event| event.what).collect();
        assert_eq!(
            whats,
            [TicketChange::Unlabeled("orion-queue".into()), TicketChange::Labeled("orion-working".into())]
        );
    }
}
