//! GitHub issues over REST; GitHub Enterprise and every base URL that speaks it.
//!
//! Adding and removing labels are two requests here; what makes one winner of many
//! is `DELETE …/labels/{name}`, which answers 200 once and 404 afterwards.

mod check;
mod read;

use super::http::{Http, HttpAnswer, HttpCall, Repeat, percent};
use super::token_supply::AuthScheme;
use super::{Options, TicketList, Tracker, TrackerFinding};
use crate::error::escape;
use crate::model::arbiter::Capabilities;
use crate::model::labels::Labels;
use crate::model::ticket::{Comment, GateTaken, Key, Ticket, TicketEvent};
use crate::tracker::failure::{Failure, Why};
use serde_json::{Value, json};
use ureq::http::Method;

/// One repository.
pub(super) struct GitHub {
    http: Http,
    /// `/repos/OWNER/REPO`
    repo: String,
    name: String,
    labels: Labels,
}

impl GitHub {
    /// # Errors
    /// [`Why::Setting`]: a label that the issue list cannot be filtered by, and what [`Http::new`] says.
    pub(super) fn open(base: &str, owner: &str, repo: &str, options: &Options) -> Result<Self, Failure> {
        for label in options.labels.managed() {
            if label.contains(',') || label.chars().count() > 50 {
                let label = escape(label.as_bytes(), 80);
                return Err(Failure::new(
                    Why::Setting,
                    format!("GitHub cannot list by the label {label} (a comma, or more than 50 characters)"),
                ));
            }
        }
        Ok(Self {
            http: Http::new(base, "application/vnd.github+json", AuthScheme::Bearer, options)?,
            repo: format!("/repos/{}/{}", percent(owner), percent(repo)),
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
        self.http.call(&HttpCall { method, path, body, repeat: Repeat::Write })
    }

    /// A 4xx answer as a failure. 404 may mean the issue, the repository, or a
    /// token that may not see it: the repository is asked which.
    fn refused(&self, method: &Method, path: &str, answer: &HttpAnswer) -> Failure {
        let call = HttpCall { method: method.clone(), path, body: None, repeat: Repeat::Read };
        let failure = self.http.answered(&call, answer);
        if !matches!(answer.status, 404 | 410) {
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

    /// Takes one label off: was it there?
    fn delete_label(&self, key: &Key, label: &str) -> Result<HttpAnswer, Failure> {
        let path = self.issue(key, &format!("/labels/{}", percent(label)));
        let answer = self.send(Method::DELETE, &path, None)?;
        match answer.status {
            200..=299 | 404 => Ok(answer),
            _ => Err(self.refused(&Method::DELETE, &path, &answer)),
        }
    }

    fn add_labels(&self, key: &Key, add: &[String]) -> Result<(), Failure> {
        let path = self.issue(key, "/labels");
        let body = json!({ "labels": add });
        let mut answer = self.send(Method::POST, &path, Some(&body))?;
        // Where a label must exist before it can be put on.
        if matches!(answer.status, 404 | 422) && self.create_missing(add)? {
            answer = self.send(Method::POST, &path, Some(&body))?;
        }
        match answer.status {
            200..=299 => Ok(()),
            _ => Err(self.refused(&Method::POST, &path, &answer)),
        }
    }
}

impl Tracker for GitHub {
    fn key(&self, text: &str) -> Result<Key, Failure> {
        super::issue_number(text)
    }

    fn can(&self) -> Capabilities {
        Capabilities { remote: true, event_ids: true, conditional: false, gate: true, comments: true }
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
            self.add_labels(key, add)?;
        }
        let mut begun = !add.is_empty();
        for label in remove {
            // Half of it has happened once the first request is through.
            self.delete_label(key, label).map_err(|failure| {
                let maybe = begun || failure.may_be_applied();
                failure.maybe_applied(maybe)
            })?;
            begun = true;
        }
        Ok(())
    }

    fn take(&self, key: &Key, label: &str) -> Result<GateTaken, Failure> {
        let answer = match self.delete_label(key, label) {
            Ok(answer) => answer,
            Err(failure) if failure.may_be_applied() => return Ok(GateTaken::Unclear(failure.to_string())),
            Err(failure) => return Err(failure),
        };
        if answer.status == 404 {
            // The same answer hides a missing right: then the label is still there.
            if self.read_ticket(key)?.has(label) {
                return Err(Failure::new(
                    Why::Refused,
                    format!("the label {label} cannot be taken off issue {key}"),
                )
                .hint("may the token write issues?"));
            }
            return Ok(GateTaken::Gone);
        }
        // A page of some proxy is a 200 as well: only the list of what remains says yes.
        let rest: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let still =
            |rest: &Vec<Value>| rest.iter().any(|other| self.spelled(other).as_deref() == Some(label));
        match rest.as_array() {
            Some(rest) if !still(rest) => Ok(GateTaken::Ours),
            _ => Ok(GateTaken::Unclear(format!(
                "{} did not answer with the list of the labels that remain",
                self.http.host()
            ))),
        }
    }

    fn comments(&self, key: &Key) -> Result<Vec<Comment>, Failure> {
        self.read_comments(key)
    }

    fn comment(&self, key: &Key, body: &str) -> Result<(), Failure> {
        let path = self.issue(key, "/comments");
        super::comment_once(self, key, body, || {
            let answer = self.send(Method::POST, &path, Some(&json!({ "body": body })))?;
            match answer.status {
                200..=299 => Ok(()),
                _ => Err(self.refused(&Method::POST, &path, &answer)),
            }
        })
    }

    fn void(&self, key: &Key, comment: u64, nonce: &str) -> Result<(), Failure> {
        let path = format!("{}/issues/comments/{comment}", self.repo);
        super::void_comment(self, &self.http, &path, key, nonce)
    }

    fn me(&self) -> Result<Option<String>, Failure> {
        // The token of a job or an app is nobody's.
        Ok(super::account(&self.get("/user")?, "login"))
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
mod emulator_tests;
#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod tests;
