//! GitLab, gitlab.com and self-managed: REST version 4.
//!
//! One PUT adds and removes labels. Nothing here is conditional, so watchers decide by
//! the order of comments (notes), or in a git remote.

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

/// Who may label issues: a Planner, or a Reporter where there are no Planners.
const LABELS_FROM: u64 = 15;

/// One project.
pub(super) struct GitLab {
    http: Http,
    /// `/projects/GROUP%2FPROJECT`
    project: String,
    name: String,
    labels: Labels,
}

impl GitLab {
    /// # Errors
    /// [`Why::Setting`]: a label with a comma (lists of labels are joined by it), and what [`Http::new`] says.
    pub(super) fn open(base: &str, project: &str, options: &Options) -> Result<Self, Failure> {
        let Labels { stage_prefix, host_prefix, .. } = &options.labels;
        let labels = options.labels.managed().into_iter().chain([stage_prefix.as_str(), host_prefix]);
        if let Some(label) = labels.into_iter().find(|label| label.contains(',')) {
            let label = escape(label.as_bytes(), 80);
            return Err(Failure::new(
                Why::Setting,
                format!("a label in GitLab cannot hold a comma, as {label:?} does"),
            ));
        }
        Ok(Self {
            http: Http::new(&format!("{base}/api/v4"), "application/json", AuthScheme::Bearer, options)?,
            project: format!("/projects/{}", percent(project)),
            name: project.to_owned(),
            labels: options.labels.clone(),
        })
    }

    fn issue(&self, key: &Key, rest: &str) -> String {
        format!("{}/issues/{key}{rest}", self.project)
    }

    fn get(&self, path: &str) -> Result<HttpAnswer, Failure> {
        self.http.call(&HttpCall { method: Method::GET, path, body: None, repeat: Repeat::Read })
    }

    /// A GET that must be answered with one object.
    fn object(&self, path: &str, what: &str) -> Result<Value, Failure> {
        let answer = self.get(path)?;
        if answer.status != 200 {
            return Err(self.refused(&Method::GET, path, &answer));
        }
        let value = answer.json(what)?;
        if value.is_object() {
            return Ok(value);
        }
        Err(Failure::new(Why::Protocol, format!("{what} was answered with something else")))
    }

    fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<HttpAnswer, Failure> {
        let answer =
            self.http.call(&HttpCall { method: method.clone(), path, body, repeat: Repeat::Write })?;
        match answer.status {
            200..=299 => Ok(answer),
            _ => Err(self.refused(&method, path, &answer)),
        }
    }

    /// A 4xx answer as a failure. 404 may mean the issue, the project, or a token that
    /// may not see it: the project is asked which.
    fn refused(&self, method: &Method, path: &str, answer: &HttpAnswer) -> Failure {
        let call = HttpCall { method: method.clone(), path, body: None, repeat: Repeat::Read };
        let failure = self.http.answered(&call, answer);
        if answer.status != 404 {
            return failure;
        }
        super::what_is_missing(
            failure,
            self.get(&self.project),
            path,
            self.http.host(),
            "project",
            &self.name,
        )
    }

    fn look_at_rights(&self) -> Result<Vec<TrackerFinding>, Failure> {
        let project = self.object(&self.project, "the project")?;
        let mut findings = vec![TrackerFinding::good(format!("project {} is there", self.name))];
        let level =
            |who: &str| project.pointer(&format!("/permissions/{who}/access_level")).and_then(Value::as_u64);
        findings.push(match level("project_access").max(level("group_access")) {
            Some(level) if level >= LABELS_FROM => TrackerFinding::good("the account may change labels"),
            Some(_) => TrackerFinding::bad("the account may not change labels (it needs Planner or Reporter)"),
            None => TrackerFinding::unproved(
                "whether the account may change labels: the server does not say, and only a write would show it",
            ),
        });
        if project.get("issues_access_level").and_then(Value::as_str) == Some("disabled") {
            findings.push(TrackerFinding::bad("issues are switched off in this project"));
        }
        if project.get("archived").and_then(Value::as_bool) == Some(true) {
            findings.push(TrackerFinding::bad("the project is archived: nothing in it can change"));
        }
        findings.push(self.look_at_token()?);
        Ok(findings)
    }

    /// A personal, project or group token tells its own scopes; others do not.
    fn look_at_token(&self) -> Result<TrackerFinding, Failure> {
        let unproved = TrackerFinding::unproved(
            "whether the token may write: it does not tell its scopes, and only a write would show it",
        );
        let answer = match self.get("/personal_access_tokens/self") {
            Err(failure) if failure.why() == Why::Unauthorised => return Ok(unproved),
            other => other?,
        };
        let token: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let Some(scopes) = token.get("scopes").and_then(Value::as_array).filter(|_| answer.status == 200)
        else {
            return Ok(unproved);
        };
        let scopes: Vec<&str> = scopes.iter().filter_map(Value::as_str).collect();
        let shown = escape(scopes.join(", ").as_bytes(), 200);
        Ok(if scopes.contains(&"api") {
            TrackerFinding::good(format!("the token may write (its scopes are {shown})"))
        } else {
            TrackerFinding::bad(format!("the token may not write: its scopes are '{shown}' (it needs api)"))
        })
    }
}

impl Tracker for GitLab {
    fn key(&self, text: &str) -> Result<Key, Failure> {
        super::issue_number(text)
    }

    fn can(&self) -> Capabilities {
        Capabilities { remote: true, event_ids: true, conditional: false, gate: false, comments: true }
    }

    fn queue(&self) -> Result<TicketList, Failure> {
        Ok(self.list(&self.labels.queue, "opened")?.queued(&self.labels))
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
        let mut body = json!({});
        for (field, labels) in [("add_labels", add), ("remove_labels", remove)] {
            if !labels.is_empty() {
                body[field] = json!(labels.join(","));
            }
        }
        self.send(Method::PUT, &self.issue(key, ""), Some(&body)).map(drop)
    }

    fn take(&self, _key: &Key, _label: &str) -> Result<GateTaken, Failure> {
        Err(Failure::new(Why::Setting, "GitLab does not say who took a label off")
            .hint("use --arbiter comment-order or git-ref"))
    }

    fn comments(&self, key: &Key) -> Result<Vec<Comment>, Failure> {
        self.read_comments(key)
    }

    fn comment(&self, key: &Key, body: &str) -> Result<(), Failure> {
        let path = self.issue(key, "/notes");
        super::comment_once(self, key, body, || {
            self.send(Method::POST, &path, Some(&json!({ "body": body }))).map(drop)
        })
    }

    fn void(&self, key: &Key, comment: u64, nonce: &str) -> Result<(), Failure> {
        let path = self.issue(key, &format!("/notes/{comment}"));
        super::void_comment(self, &self.http, &path, key, nonce)
    }

    fn me(&self) -> Result<Option<String>, Failure> {
        Ok(super::account(&self.get("/user")?, "username"))
    }

    fn blockers(&self, ticket: &Ticket) -> Result<Vec<String>, Failure> {
        self.read_blockers(&ticket.key)
    }

    fn check(&self, _create: bool) -> Result<Vec<TrackerFinding>, Failure> {
        let mut findings = self.look_at_rights()?;
        let queued = self.list(&self.labels.queue, "opened")?.tickets.len();
        findings
            .push(TrackerFinding::good(format!("the issues can be listed: {queued} with the queue label")));
        findings.extend(TrackerFinding::clocks(self.get(&self.project)?.date()));
        // Labels need no making here: one exists as soon as an issue carries it.
        Ok(findings)
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
