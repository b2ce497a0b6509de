//! What GitHub shows: issues, their events and comments, all pages.

use super::GitHub;
use crate::model::ticket::{Comment, EventId, Key, Ticket, TicketChange, TicketEvent};
use crate::model::time::WallTime;
use crate::tracker::TicketList;
use crate::tracker::failure::{Failure, Why};
use crate::tracker::http::{names, percent};
use serde_json::Value;
use ureq::http::Method;

const PAGE: usize = 100;
/// Ten thousand tickets, or as many events of one: beyond that something is wrong.
const PAGES: usize = 200;

impl GitHub {
    pub(super) fn list(&self, label: &str, state: &str) -> Result<TicketList, Failure> {
        let query = format!(
            "/issues?labels={}&state={state}&sort=created&direction=asc&per_page={PAGE}",
            percent(label)
        );
        let mut listing = TicketList::default();
        for issue in self.pages(&format!("{}{query}", self.repo))? {
            if issue.get("pull_request").is_some_and(|pull| !pull.is_null()) {
                continue;
            }
            match self.parse(&issue) {
                Some(ticket) => listing.tickets.push(ticket),
                None => listing.broken.push(format!("{} sent an issue without a number", self.http.host())),
            }
        }
        Ok(listing.by_number())
    }

    pub(super) fn read_ticket(&self, key: &Key) -> Result<Ticket, Failure> {
        let path = self.issue(key, "");
        let answer = match self.get(&path) {
            // A redirect of one issue while its repository stays: it was transferred.
            Err(failure) if failure.why() == Why::Setting && self.get(&self.repo).is_ok() => {
                return Err(Failure::new(
                    Why::NoTicket,
                    format!("issue {key} was moved to another repository"),
                ));
            }
            other => other?,
        };
        if answer.status != 200 {
            return Err(self.refused(&Method::GET, &path, &answer));
        }
        let issue = answer.json(&format!("issue {key}"))?;
        if issue.get("pull_request").is_some_and(|pull| !pull.is_null()) {
            return Err(Failure::new(Why::NoTicket, format!("{key} is a pull request, not an issue")));
        }
        match self.parse(&issue) {
            Some(ticket) if ticket.key == *key => Ok(ticket),
            _ => Err(Failure::new(Why::Protocol, format!("issue {key} was answered with something else"))),
        }
    }

    pub(super) fn read_events(&self, key: &Key) -> Result<Vec<TicketEvent>, Failure> {
        let path = self.issue(key, &format!("/events?per_page={PAGE}"));
        let mut events: Vec<(Option<WallTime>, u64, TicketEvent)> = Vec::new();
        for event in self.pages(&path)? {
            let label = || event.get("label").and_then(|label| self.spelled(label));
            let what = match event.get("event").and_then(Value::as_str) {
                Some("labeled") => label().map(TicketChange::Labeled),
                Some("unlabeled") => label().map(TicketChange::Unlabeled),
                Some("closed") => Some(TicketChange::Closed),
                Some("reopened") => Some(TicketChange::Reopened),
                _ => None,
            };
            let (Some(what), Some(id)) = (what, event.get("id").and_then(Value::as_u64)) else { continue };
            let at = time(&event, "created_at");
            let actor = login(event.get("actor"));
            events.push((at, id, TicketEvent { id: EventId(id.to_string()), what, at, actor }));
        }
        // Documented as oldest first; the order is what a gate is judged by.
        events.sort_by_key(|(at, id, _)| (*at, *id));
        Ok(events.into_iter().map(|(.., event)| event).collect())
    }

    pub(super) fn read_comments(&self, key: &Key) -> Result<Vec<Comment>, Failure> {
        let path = self.issue(key, &format!("/comments?per_page={PAGE}"));
        let comment = |comment: Value| {
            Some(Comment {
                id: comment.get("id")?.as_u64()?,
                author: login(comment.get("user")),
                at: time(&comment, "created_at"),
                body: comment.get("body")?.as_str()?.to_owned(),
            })
        };
        let mut comments: Vec<Comment> = self.pages(&path)?.into_iter().filter_map(comment).collect();
        comments.sort_by_key(|comment| comment.id);
        Ok(comments)
    }

    /// Every item of a list, page by page: by the server's own links, or until a
    /// page is not full where it gives none.
    pub(super) fn pages(&self, first: &str) -> Result<Vec<Value>, Failure> {
        let mut items = Vec::new();
        let mut path = first.to_owned();
        for page in 1..=PAGES {
            let answer = self.get(&path)?;
            if answer.status != 200 {
                return Err(self.refused(&Method::GET, &path, &answer));
            }
            let Value::Array(mut found) = answer.json("a list")? else {
                return Err(Failure::new(
                    Why::Protocol,
                    format!("{} answered with something that is not a list", self.http.host()),
                ));
            };
            let full = found.len() >= PAGE;
            items.append(&mut found);
            match answer.header("link") {
                Some(links) => match next(links) {
                    // A token follows only to where it belongs.
                    Some(url) => match self.http.own(url) {
                        Some(own) => own.clone_into(&mut path),
                        None => {
                            let message = format!("{} links to another host for more", self.http.host());
                            return Err(Failure::new(Why::Protocol, message));
                        }
                    },
                    None => return Ok(items),
                },
                None if full => path = format!("{first}&page={}", page + 1),
                None => return Ok(items),
            }
        }
        Err(Failure::new(Why::Protocol, format!("{} sends more than {PAGES} pages", self.http.host())))
    }

    fn parse(&self, issue: &Value) -> Option<Ticket> {
        let number = issue.get("number")?.as_u64()?;
        let labels = issue.get("labels")?.as_array()?;
        Some(Ticket {
            key: Key::new(&number.to_string())?,
            title: issue.get("title").and_then(Value::as_str).unwrap_or_default().to_owned(),
            closed: issue.get("state").and_then(Value::as_str) == Some("closed"),
            labels: labels.iter().filter_map(|label| self.spelled(label)).collect(),
            priority: 0,
            link: issue.get("html_url").and_then(Value::as_str).map(str::to_owned),
            revision: issue.get("updated_at").and_then(Value::as_str).map(str::to_owned),
            assignees: names(issue.get("assignees"), "login"),
            blocked_by: Some(blockers(issue)),
        })
    }

    /// A label's name; one of ours in our spelling, because GitHub tells no two
    /// labels apart by case: its `Orion-Queue` is our `orion-queue`.
    pub(super) fn spelled(&self, label: &Value) -> Option<String> {
        let name = label.as_str().or_else(|| label.get("name")?.as_str())?;
        let lower = name.to_lowercase();
        let ours = self.labels.managed().into_iter().find(|own| own.to_lowercase() == lower);
        Some(ours.unwrap_or(name).to_owned())
    }
}

/// Open dependencies and open sub-issues: GitHub counts them with every issue, and
/// an older server does not have them.
fn blockers(issue: &Value) -> Vec<String> {
    let number = |path: &str| issue.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    let waits_for = number("/issue_dependencies_summary/blocked_by");
    let parts = number("/sub_issues_summary/total").saturating_sub(number("/sub_issues_summary/completed"));
    let say = |count: u64, what: &str| match count {
        0 => None,
        1 => Some(format!("1 open {what}")),
        _ => Some(format!("{count} open {what}s")),
    };
    [say(waits_for, "issue"), say(parts, "sub-issue")].into_iter().flatten().collect()
}

fn login(user: Option<&Value>) -> String {
    let login = user.and_then(|user| user.get("login")).and_then(Value::as_str);
    login.unwrap_or_default().to_owned()
}

fn time(value: &Value, field: &str) -> Option<WallTime> {
    value.get(field)?.as_str().and_then(WallTime::parse)
}

/// The URL with rel="next" of a Link header (RFC 8288).
fn next(links: &str) -> Option<&str> {
    links.split(',').find_map(|link| {
        let (url, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
        parameters.split(';').any(|one| matches!(one.trim(), "rel=\"next\"" | "rel=next")).then_some(url)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_found_among_the_links() {
        let links = "<https://a/x?page=1>; rel=\"prev\", <https://a/x?page=3>; rel=\"next\"";
        assert_eq!(next(links), Some("https://a/x?page=3"));
        assert_eq!(next("<https://a/x?page=1>; rel=\"first\""), None);
        assert_eq!(next("nonsense"), None);
    }
}
