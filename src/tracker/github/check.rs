//! What `init` looks at: rights, labels, clock.

use super::GitHub;
use crate::error::escape;
use crate::os::clock;
use crate::tracker::TrackerFinding;
use crate::tracker::failure::Failure;
use serde_json::{Value, json};
use std::time::Duration;
use ureq::http::Method;

/// Colours that say what a label is for, as GitHub wants them.
const COLOURS: [&str; 5] = ["c5def5", "fbca04", "d4c5f9", "0e8a16", "d93f0b"];

impl GitHub {
    pub(super) fn look(&self, create: bool) -> Result<Vec<TrackerFinding>, Failure> {
        let answer = self.get(&self.repo)?;
        if answer.status != 200 {
            return Err(self.refused(&Method::GET, &self.repo, &answer));
        }
        let mut findings = Vec::new();
        let repo = answer.json("the repository")?;
        let may = |right: &str| repo.pointer(&format!("/permissions/{right}")).and_then(Value::as_bool);
        let writes = match (may("push"), may("triage")) {
            (None, None) => None,
            (push, triage) => Some(push == Some(true) || triage == Some(true)),
        };
        findings.push(match writes {
            Some(true) => good("the token may change labels"),
            Some(false) => bad("the token may not change labels (it needs write or triage)"),
            // Not told: a fine-grained token, or a server without the field.
            None => good("the server does not say whether the token may change labels"),
        });
        if repo.get("has_issues").and_then(Value::as_bool) == Some(false) {
            findings.push(bad("issues are switched off in this repository"));
        }
        if repo.get("archived").and_then(Value::as_bool) == Some(true) {
            findings.push(bad("the repository is archived: nothing in it can change"));
        }
        if let Some(scopes) = answer.header("x-oauth-scopes") {
            findings.push(good(&format!("token scopes: {}", escape(scopes.as_bytes(), 200))));
        }
        if let Some(left) = answer.header("x-ratelimit-remaining") {
            findings.push(good(&format!("requests left in this hour: {}", escape(left.as_bytes(), 20))));
        }
        if let Some(theirs) = answer.date() {
            let ours = clock::wall();
            let apart = ours.age(theirs).or_else(|| theirs.age(ours)).unwrap_or(Duration::ZERO);
            let text = format!("the clocks are {} apart", crate::model::duration::show(apart));
            findings.push(if apart < Duration::from_secs(60) { good(&text) } else { bad(&text) });
        }
        findings.extend(self.look_at_labels(create)?);
        Ok(findings)
    }

    fn look_at_labels(&self, create: bool) -> Result<Vec<TrackerFinding>, Failure> {
        let there = self.label_names()?;
        let mut findings = Vec::new();
        for (label, colour) in self.labels.managed().into_iter().zip(COLOURS) {
            let twin = there.iter().find(|name| name.to_lowercase() == label.to_lowercase());
            findings.push(match twin {
                Some(name) if name == label => good(&format!("label {label} is there")),
                Some(name) => {
                    good(&format!("label {label} is there, spelled {}", escape(name.as_bytes(), 60)))
                }
                None if create => {
                    self.create_label(label, colour)?;
                    good(&format!("label {label} made"))
                }
                None => bad(&format!("label {label} is missing (orion-claim init makes it)")),
            });
        }
        Ok(findings)
    }

    /// Makes the labels that do not exist; says whether it made any.
    pub(super) fn create_missing(&self, wanted: &[String]) -> Result<bool, Failure> {
        let there: Vec<String> = self.label_names()?.iter().map(|name| name.to_lowercase()).collect();
        let missing: Vec<&String> =
            wanted.iter().filter(|label| !there.contains(&label.to_lowercase())).collect();
        for label in &missing {
            let managed = self.labels.managed().iter().position(|own| own == label);
            self.create_label(label, managed.map_or("ededed", |position| COLOURS[position]))?;
        }
        Ok(!missing.is_empty())
    }

    fn create_label(&self, label: &str, colour: &str) -> Result<(), Failure> {
        let path = format!("{}/labels", self.repo);
        let body = json!({"name": label, "color": colour, "description": "orion-claim"});
        let answer = self.send(Method::POST, &path, Some(&body))?;
        match answer.status {
            // 422: somebody made it just now.
            200..=299 | 422 => Ok(()),
            _ => Err(self.refused(&Method::POST, &path, &answer)),
        }
    }

    fn label_names(&self) -> Result<Vec<String>, Failure> {
        let labels = self.pages(&format!("{}/labels?per_page=100", self.repo))?;
        let name = |label: &Value| label.get("name").and_then(Value::as_str).map(str::to_owned);
        Ok(labels.iter().filter_map(name).collect())
    }
}

fn good(what: &str) -> TrackerFinding {
    TrackerFinding { ok: true, what: what.to_owned() }
}

fn bad(what: &str) -> TrackerFinding {
    TrackerFinding { ok: false, what: what.to_owned() }
}
