//! Jira: Cloud (REST version 3) and Server or Data Center (version 2).
//!
//! Labels change by add and remove in one request. Nothing here is conditional, so
//! watchers decide by the order of comments, or in a git remote.

mod read;

use super::http::{Http, HttpAnswer, HttpCall, Repeat, percent};
use super::token_supply::AuthScheme;
use super::{Options, TicketList, Tracker, TrackerFinding};
use crate::error::escape;
use crate::model::address;
use crate::model::arbiter::Capabilities;
use crate::model::labels::Labels;
use crate::model::ticket::{Comment, GateTaken, Key, Ticket, TicketEvent};
use crate::tracker::failure::{Failure, Why};
use serde_json::{Value, json};
use ureq::http::Method;

/// One project.
pub(super) struct Jira {
    http: Http,
    /// `/rest/api/3`
    api: &'static str,
    /// Version 3: rich comments, search by tokens, the changelog on its own.
    cloud: bool,
    project: String,
    labels: Labels,
}

impl Jira {
    /// # Errors
    /// [`Why::Setting`]: a label with a blank (Jira has none), and what [`Http::new`] says.
    pub(super) fn open(base: &str, project: &str, options: &Options) -> Result<Self, Failure> {
        let Labels { stage_prefix, host_prefix, .. } = &options.labels;
        let labels = options.labels.managed().into_iter().chain([stage_prefix.as_str(), host_prefix]);
        if let Some(label) = labels.into_iter().find(|label| label.contains(char::is_whitespace)) {
            let label = escape(label.as_bytes(), 80);
            return Err(Failure::new(
                Why::Setting,
                format!("a label in Jira cannot hold a blank, as {label:?} does"),
            ));
        }
        let host = address::host(base);
        let cloud = match options.jira_version {
            Some(version) => version == 3,
            None => host.split(':').next().is_some_and(|name| name.ends_with(".atlassian.net")),
        };
        let scheme = options.user.clone().map_or(AuthScheme::Bearer, AuthScheme::Basic);
        Ok(Self {
            http: Http::new(base, "application/json", scheme, options)?,
            api: if cloud { "/rest/api/3" } else { "/rest/api/2" },
            cloud,
            project: project.to_owned(),
            labels: options.labels.clone(),
        })
    }

    fn issue(&self, key: &Key, rest: &str) -> String {
        format!("{}/issue/{key}{rest}", self.api)
    }

    fn get(&self, path: &str) -> Result<Value, Failure> {
        let answer =
            self.http.call(&HttpCall { method: Method::GET, path, body: None, repeat: Repeat::Read })?;
        if answer.status != 200 {
            return Err(self.refused(&Method::GET, path, &answer));
        }
        let value = answer.json("a question")?;
        // Some proxies and plugins put their errors into a 200.
        if !value.is_object() || value.get("errorMessages").is_some() {
            return Err(Failure::new(Why::Protocol, self.words(&Method::GET, path, &answer).to_string()));
        }
        Ok(value)
    }

    fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<HttpAnswer, Failure> {
        let answer =
            self.http.call(&HttpCall { method: method.clone(), path, body, repeat: Repeat::Write })?;
        match answer.status {
            200..=299 => Ok(answer),
            _ => Err(self.refused(&method, path, &answer)),
        }
    }

    fn words(&self, method: &Method, path: &str, answer: &HttpAnswer) -> Failure {
        let call = HttpCall { method: method.clone(), path, body: None, repeat: Repeat::Read };
        self.http.answered(&call, answer)
    }

    /// A 4xx answer as a failure: is it the ticket, or the whole project?
    fn refused(&self, method: &Method, path: &str, answer: &HttpAnswer) -> Failure {
        let failure = self.words(method, path, answer);
        if !matches!(answer.status, 400 | 404) || path.contains("/project/") {
            return failure;
        }
        match self.see_project() {
            Err(other) => other,
            Ok(()) if answer.status == 404 && path.contains("/issue/") => {
                let key = path.split("/issue/").nth(1).and_then(|rest| rest.split(['/', '?']).next());
                let key = key.unwrap_or_default();
                Failure::new(Why::NoTicket, format!("{} has no ticket {key}", self.http.host()))
            }
            Ok(()) => failure,
        }
    }

    /// The project is there and we may see it.
    fn see_project(&self) -> Result<(), Failure> {
        let path = format!("{}/project/{}", self.api, percent(&self.project));
        let call = HttpCall { method: Method::GET, path: &path, body: None, repeat: Repeat::Read };
        match self.http.call(&call)?.status {
            200..=299 => Ok(()),
            403 => Err(Failure::new(
                Why::NoTracker,
                format!("{} does not show us the project {} (403)", self.http.host(), self.project),
            )
            .hint("has the token the rights it needs?")),
            404 => Err(Failure::new(
                Why::NoTracker,
                format!("{} has no project {}", self.http.host(), self.project),
            )
            .hint("or the token may not see it")),
            status => Err(Failure::new(
                Why::Unreachable,
                format!("{} answered {status} about the project {}", self.http.host(), self.project),
            )),
        }
    }

    /// What the server says we may do in the project.
    fn rights(&self) -> Result<Vec<TrackerFinding>, Failure> {
        const NEEDED: [(&str, &str); 2] = [("EDIT_ISSUES", "change labels"), ("ADD_COMMENTS", "comment")];
        let project = percent(&self.project);
        let names = NEEDED.map(|(name, _)| name).join(",");
        let path = format!("{}/mypermissions?projectKey={project}&permissions={names}", self.api);
        let call = HttpCall { method: Method::GET, path: &path, body: None, repeat: Repeat::Read };
        let answer = self.http.call(&call)?;
        let told: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        Ok(NEEDED
            .map(|(name, what)| {
                let have =
                    told.pointer(&format!("/permissions/{name}/havePermission")).and_then(Value::as_bool);
                match have {
                    Some(true) => TrackerFinding::good(format!("we may {what} in {}", self.project)),
                    Some(false) => {
                        TrackerFinding::bad(format!("we may not {what} in {} ({name})", self.project))
                    }
                    None => TrackerFinding::unproved(format!(
                        "whether we may {what}: the server does not say, and only a write would show it"
                    )),
                }
            })
            .to_vec())
    }

    /// Version 3 takes comments as documents only.
    fn text(&self, text: &str) -> Value {
        if !self.cloud {
            return json!(text);
        }
        let text = json!({"type": "text", "text": text});
        json!({"type": "doc", "version": 1, "content": [{"type": "paragraph", "content": [text]}]})
    }
}

impl Tracker for Jira {
    /// Jira finds `ab-12` as AB-12: there is one key, the upper one.
    fn key(&self, text: &str) -> Result<Key, Failure> {
        let upper = text.to_ascii_uppercase();
        let number = upper.strip_prefix(&self.project).and_then(|rest| rest.strip_prefix('-'));
        let legal = number.is_some_and(|number| {
            !number.is_empty()
                && number.len() <= 18
                && !number.starts_with('0')
                && number.bytes().all(|byte| byte.is_ascii_digit())
        });
        legal.then(|| Key::new(&upper)).flatten().ok_or_else(|| {
            let text = escape(text.as_bytes(), 120);
            Failure::new(Why::NoTicket, format!("{text} is not a ticket of project {}", self.project))
        })
    }

    fn can(&self) -> Capabilities {
        Capabilities { remote: true, event_ids: true, conditional: false, gate: false, comments: true }
    }

    fn queue(&self) -> Result<TicketList, Failure> {
        Ok(self.list_queue()?.queued(&self.labels))
    }

    fn in_flight(&self) -> Result<TicketList, Failure> {
        Ok(self.list_in_flight()?.in_flight(&self.labels))
    }

    fn ticket(&self, key: &Key) -> Result<Ticket, Failure> {
        self.read_ticket(key)
    }

    fn events(&self, key: &Key) -> Result<Vec<TicketEvent>, Failure> {
        self.read_events(key)
    }

    fn write(&self, key: &Key, add: &[String], remove: &[String]) -> Result<(), Failure> {
        let add = add.iter().map(|label| json!({ "add": label }));
        let changes: Vec<Value> = add.chain(remove.iter().map(|label| json!({ "remove": label }))).collect();
        let body = json!({"update": {"labels": changes}});
        self.send(Method::PUT, &self.issue(key, ""), Some(&body)).map(drop)
    }

    fn take(&self, _key: &Key, _label: &str) -> Result<GateTaken, Failure> {
        Err(Failure::new(Why::Setting, "Jira does not say who took a label off")
            .hint("use --arbiter comment-order or git-ref"))
    }

    fn comments(&self, key: &Key) -> Result<Vec<Comment>, Failure> {
        self.read_comments(key)
    }

    fn comment(&self, key: &Key, body: &str) -> Result<(), Failure> {
        let path = self.issue(key, "/comment");
        let document = json!({ "body": self.text(body) });
        super::comment_once(self, key, body, || self.send(Method::POST, &path, Some(&document)).map(drop))
    }

    fn void(&self, key: &Key, comment: u64, nonce: &str) -> Result<(), Failure> {
        let path = self.issue(key, &format!("/comment/{comment}"));
        super::void_comment(self, &self.http, &path, key, nonce)
    }

    fn me(&self) -> Result<Option<String>, Failure> {
        let path = format!("{}/myself", self.api);
        Ok(read::person(Some(&self.get(&path)?)))
    }

    fn check(&self, _create: bool) -> Result<Vec<TrackerFinding>, Failure> {
        self.see_project()?;
        let mut findings = vec![TrackerFinding::good(format!("project {} is there", self.project))];
        let path = format!("{}/myself", self.api);
        let call = HttpCall { method: Method::GET, path: &path, body: None, repeat: Repeat::Read };
        let answer = self.http.call(&call)?;
        let me: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let name = me.get("displayName").and_then(Value::as_str);
        findings.push(match name {
            Some(name) => TrackerFinding::good(format!("we are {}", escape(name.as_bytes(), 80))),
            None => TrackerFinding::bad("the server does not know who we are; is the token right?"),
        });
        findings.extend(self.rights()?);
        let queued = self.list_queue()?.tickets.len();
        findings.push(TrackerFinding::good(format!("the tickets can be listed: {queued} queued")));
        findings.extend(TrackerFinding::clocks(answer.date()));
        // Labels need no making here: one exists as soon as a ticket carries it.
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
