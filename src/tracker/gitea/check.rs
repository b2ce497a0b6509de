//! What `init` looks at: rights, labels, clock. And the labels themselves, which must
//! exist before an issue can carry them.

use super::{Gitea, ids_of, read::PAGE};
use crate::tracker::TrackerFinding;
use crate::tracker::failure::{Failure, Why};
use crate::tracker::http::{HttpAnswer, MorePages, percent};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use ureq::http::Method;

/// Colours that say what a label is for; any other label is grey.
const COLOURS: [&str; 5] = ["#c5def5", "#fbca04", "#d4c5f9", "#0e8a16", "#d93f0b"];

impl Gitea {
    pub(super) fn look(&self, create: bool) -> Result<Vec<TrackerFinding>, Failure> {
        let answer = self.get(&self.repo)?;
        if answer.status != 200 {
            return Err(self.refused(&Method::GET, &self.repo, &answer));
        }
        let repo = answer.json("the repository")?;
        let flag = |path: &str| repo.pointer(path).and_then(Value::as_bool);
        let mut findings = vec![TrackerFinding::good(format!("repository {} is there", self.name))];
        findings.push(match flag("/permissions/push") {
            // Whether its token has a scope for issues is told nowhere.
            Some(true) => TrackerFinding::unproved(
                "the account may change labels; whether this token may is not to be seen without writing",
            ),
            Some(false) => TrackerFinding::bad("the account may not change labels (it needs write)"),
            None => TrackerFinding::unproved(
                "whether the token may change labels: the server does not say, and only a write would show it",
            ),
        });
        if flag("/has_issues") == Some(false) {
            findings.push(TrackerFinding::bad("issues are switched off in this repository"));
        }
        if flag("/archived") == Some(true) {
            findings.push(TrackerFinding::bad("the repository is archived: nothing in it can change"));
        }
        let queued = self.list(&self.labels.queue, "open")?.tickets;
        let queued = queued.iter().filter(|ticket| ticket.has(&self.labels.queue)).count();
        findings
            .push(TrackerFinding::good(format!("the issues can be listed: {queued} with the queue label")));
        findings.extend(TrackerFinding::clocks(answer.date()));
        let there = self.label_ids()?;
        for label in self.labels.managed() {
            findings.push(if there.contains_key(label) {
                TrackerFinding::good(format!("label {label} is there"))
            } else if create {
                self.create_label(label)?;
                TrackerFinding::good(format!("label {label} made"))
            } else {
                TrackerFinding::bad(format!("label {label} is missing (orion-claim init makes it)"))
            });
        }
        Ok(findings)
    }

    /// Every label of the repository, and of its organisation where it has one.
    pub(super) fn label_ids(&self) -> Result<BTreeMap<String, u64>, Failure> {
        let more = MorePages::Told(PAGE);
        let own = self.pages(&format!("{}/labels?limit={PAGE}", self.repo), more)?;
        let first = format!("/orgs/{}/labels?limit={PAGE}", percent(&self.owner));
        // A person is not an organisation, and a token may be kept from one.
        let refused = |_: &str, _: &HttpAnswer| Failure::new(Why::Refused, "no organisation");
        let shared = match self.http.pages(&first, more, refused) {
            Err(failure) if failure.why() == Why::Refused => Vec::new(),
            other => other?,
        };
        let mut ids = ids_of(&Value::Array(shared));
        ids.extend(ids_of(&Value::Array(own)));
        Ok(ids)
    }

    pub(super) fn create_label(&self, label: &str) -> Result<u64, Failure> {
        let managed = self.labels.managed().iter().position(|own| *own == label);
        let colour = managed.map_or("#ededed", |position| COLOURS[position]);
        let body = json!({"name": label, "color": colour, "description": "orion-claim"});
        let answer = self.send(Method::POST, &format!("{}/labels", self.repo), Some(&body))?;
        let made = answer.json("a new label")?;
        made.get("id").and_then(Value::as_u64).ok_or_else(|| {
            Failure::new(Why::Protocol, "a new label was answered without its id").maybe_applied(true)
        })
    }
}
