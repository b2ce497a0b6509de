//! Gitea and Forgejo: their REST API, version 1.
//!
//! Labels are added by one request and taken off by one each. Taking off answers 204
//! whether or not the label was on, so it is not a gate: watchers decide by the order of
//! comments, or in a git remote. Labels go by their ids, because an unknown name is
//! dropped with a 200.

mod check;
mod read;

use super::http::{Http, HttpAnswer, HttpCall, Repeat, percent};
use super::token_supply::AuthScheme;
use super::{Options, TicketList, Tracker, TrackerFinding};
use crate::error::escape;
use crate::model::arbiter::Capabilities;
use crate::model::labels::Labels;
use crate::model::ticket::{Comment, GateTaken, Key, Ticket, TicketChange, TicketEvent};
use crate::tracker::failure::{Failure, Why};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use ureq::http::Method;

/// One repository.
pub(super) struct Gitea {
    http: Http,
    /// `/repos/OWNER/REPO`
    repo: String,
    owner: String,
    name: String,
    labels: Labels,
}

impl Gitea {
    /// # Errors
    /// [`Why::Setting`]: a label that the issue list cannot be filtered by, and what [`Http::new`] says.
    pub(super) fn open(base: &str, owner: &str, repo: &str, options: &Options) -> Result<Self, Failure> {
        if let Some(label) = options.labels.managed().into_iter().find(|label| label.contains(',')) {
            let label = escape(label.as_bytes(), 80);
            return Err(Failure::new(
                Why::Setting,
                format!("Gitea cannot list by the label {label} (a comma)"),
            ));
        }
        Ok(Self {
            http: Http::new(&format!("{base}/api/v1"), "application/json", AuthScheme::Token, options)?,
            repo: format!("/repos/{}/{}", percent(owner), percent(repo)),
            owner: owner.to_owned(),
            name: format!("{owner}/{repo}"),
            labels: options.labels.clone(),
        })
    }

    fn issue(&self, key: &Key, rest: &str) -> String {
        format!("{}/issues/{key}{rest}", self.repo)
    }

    fn get(&self, path: &str) -> Result<HttpAnswer, Failure> {
        self.http.call(&HttpCall { method: Method::GET, path, body: None, repeat: Repeat::Read })
    }

    fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<HttpAnswer, Failure> {
        let answer =
            self.http.call(&HttpCall { method: method.clone(), path, body, repeat: Repeat::Write })?;
        match answer.status {
            200..=299 => Ok(answer),
            _ => Err(self.refused(&method, path, &answer)),
        }
    }

    /// A 4xx answer as a failure. 404 may mean the issue, the repository, or a token
    /// that may not see it: the repository is asked which.
    fn refused(&self, method: &Method, path: &str, answer: &HttpAnswer) -> Failure {
        let call = HttpCall { method: method.clone(), path, body: None, repeat: Repeat::Read };
        let failure = self.http.answered(&call, answer);
        if answer.status != 404 {
            return failure;
        }
        super::what_is_missing(
            failure,
            self.get(&self.repo),
            path,
            self.http.host(),
            "repository",
            &self.name,
        )
    }

    /// The ids of labels by name; those that are missing are made.
    fn ids(&self, wanted: &[String]) -> Result<Vec<u64>, Failure> {
        let mut known = self.label_ids()?;
        for label in wanted {
            if !known.contains_key(label) {
                let id = self.create_label(label)?;
                known.insert(label.clone(), id);
            }
        }
        Ok(wanted.iter().filter_map(|label| known.get(label).copied()).collect())
    }

    /// The labels on an issue, with their ids.
    fn labels_on(&self, key: &Key) -> Result<BTreeMap<String, u64>, Failure> {
        let path = self.issue(key, "/labels");
        let answer = self.get(&path)?;
        if answer.status != 200 {
            return Err(self.refused(&Method::GET, &path, &answer));
        }
        let labels = answer.json("the labels of an issue")?;
        // Go writes an empty list as null; anything else is some other answer.
        if !labels.is_array() && !labels.is_null() {
            return Err(Failure::new(Why::Protocol, format!("{path} was answered with something else")));
        }
        Ok(ids_of(&labels))
    }

    fn put_on(&self, key: &Key, add: &[String]) -> Result<(), Failure> {
        let body = json!({ "labels": self.ids(add)? });
        self.send(Method::POST, &self.issue(key, "/labels"), Some(&body)).map(drop)
    }

    /// Takes labels off, by the ids that the issue itself showed.
    fn take_off(&self, key: &Key, on: &BTreeMap<String, u64>, remove: &[String]) -> Result<(), Failure> {
        for id in remove.iter().filter_map(|label| on.get(label)) {
            self.send(Method::DELETE, &self.issue(key, &format!("/labels/{id}")), None)?;
        }
        Ok(())
    }

    /// A claim cut short between its two requests left working beside the queue label.
    /// When working goes and the ticket stays queued, it is queued anew, as it would be
    /// anywhere else: in the old round working was put on already, and whoever puts it on
    /// again could not be told from that. Working is still on meanwhile, so that a kill
    /// here leaves what a claim cut short leaves.
    fn begin_a_round(
        &self,
        key: &Key,
        on: &BTreeMap<String, u64>,
        add: &[String],
        remove: &[String],
    ) -> Result<(), Failure> {
        let Labels { queue, working, .. } = &self.labels;
        let stays = remove.contains(working) && !remove.contains(queue) && !add.contains(queue);
        let Some(id) = on.get(queue).filter(|_| stays && on.contains_key(working)) else { return Ok(()) };
        self.send(Method::DELETE, &self.issue(key, &format!("/labels/{id}")), None)?;
        self.put_on(key, std::slice::from_ref(queue))
    }

    /// A claim is two requests here. Where somebody took working off between them, and
    /// it was we who then took the ticket out of the queue, it goes back: that person is right.
    fn undo_half_a_claim(&self, key: &Key, add: &[String], remove: &[String]) -> Result<(), Failure> {
        let Labels { queue, working, .. } = &self.labels;
        if !add.contains(working) || !remove.contains(queue) || self.labels_on(key)?.contains_key(working) {
            return Ok(());
        }
        let events = self.read_events(key)?;
        let newest = events.iter().rev().find(|event| match &event.what {
            TicketChange::Labeled(label) | TicketChange::Unlabeled(label) => label == queue,
            _ => false,
        });
        let off = newest.filter(|event| matches!(event.what, TicketChange::Unlabeled(_)));
        match (off, self.me()?) {
            (Some(event), Some(me)) if event.actor == me => self.put_on(key, std::slice::from_ref(queue)),
            _ => Ok(()),
        }
    }
}

/// Label ids by name.
fn ids_of(labels: &Value) -> BTreeMap<String, u64> {
    let pair = |label: &Value| Some((label.get("name")?.as_str()?.to_owned(), label.get("id")?.as_u64()?));
    labels.as_array().into_iter().flatten().filter_map(pair).collect()
}

impl Tracker for Gitea {
    fn key(&self, text: &str) -> Result<Key, Failure> {
        super::issue_number(text)
    }

    fn can(&self) -> Capabilities {
        Capabilities { remote: true, event_ids: true, conditional: false, gate: false, comments: true }
    }

    fn queue(&self) -> Result<TicketList, Failure> {
        Ok(self.list(&self.labels.queue, "open")?.queued(&self.labels))
    }

    fn in_flight(&self) -> Result<TicketList, Failure> {
        Ok(self.list(&self.labels.working, "all")?.in_flight(&self.labels))
    }

    fn ticket(&self, key: &Key) -> Result<Ticket, Failure> {
        self.read_ticket(key)
    }

    fn events(&self, key: &Key) -> Result<Vec<TicketEvent>, Failure> {
        self.read_events(key)
    }

    fn write(&self, key: &Key, add: &[String], remove: &[String]) -> Result<(), Failure> {
        if !add.is_empty() {
            self.put_on(key, add)?;
        }
        if remove.is_empty() {
            return Ok(());
        }
        // Half of it has happened once the first request is through.
        let begun = !add.is_empty() || remove.len() > 1;
        let half = |failure: Failure| {
            let maybe = begun || failure.may_be_applied();
            failure.maybe_applied(maybe)
        };
        let on = self.labels_on(key).map_err(half)?;
        if let Some(missing) = add.iter().find(|label| !on.contains_key(*label)) {
            // Acknowledged and not applied, or taken off by somebody: an issue must not be
            // left bare, and what that somebody took off is not put on a second time.
            let message = format!("issue {key} does not show the label {missing} that was put on");
            return Err(Failure::new(Why::Protocol, message));
        }
        self.begin_a_round(key, &on, add, remove).map_err(half)?;
        self.take_off(key, &on, remove).and_then(|()| self.undo_half_a_claim(key, add, remove)).map_err(half)
    }

    fn take(&self, _key: &Key, _label: &str) -> Result<GateTaken, Failure> {
        Err(Failure::new(Why::Setting, "Gitea does not say who took a label off")
            .hint("use --arbiter comment-order or git-ref"))
    }

    fn comments(&self, key: &Key) -> Result<Vec<Comment>, Failure> {
        self.read_comments(key)
    }

    fn comment(&self, key: &Key, body: &str) -> Result<(), Failure> {
        let path = self.issue(key, "/comments");
        super::comment_once(self, key, body, || {
            self.send(Method::POST, &path, Some(&json!({ "body": body }))).map(drop)
        })
    }

    fn void(&self, key: &Key, comment: u64, nonce: &str) -> Result<(), Failure> {
        let path = format!("{}/issues/comments/{comment}", self.repo);
        super::void_comment(self, &self.http, &path, key, nonce)
    }

    fn me(&self) -> Result<Option<String>, Failure> {
        // A token may be kept from telling whose it is.
        Ok(super::account(&self.get("/user")?, "login"))
    }

    fn blockers(&self, ticket: &Ticket) -> Result<Vec<String>, Failure> {
        self.read_blockers(&ticket.key)
    }

    fn check(&self, create: bool) -> Result<Vec<TrackerFinding>, Failure> {
        self.look(create)
    }

    fn requests(&self) -> u64 {
        self.http.sent()
    }

    fn requests_left(&self) -> Option<u64> {
        self.http.left()
    }
}

#[cfg(test)]
mod tests;
