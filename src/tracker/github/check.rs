//! What `init` looks at: rights, labels, clock.

use super::GitHub;
use crate::error::escape;
use crate::tracker::TrackerFinding;
use crate::tracker::failure::Failure;
use serde_json::{Value, json};
use ureq::http::Method;

/// Colours that say what a label is for, as GitHub wants them.
const COLOURS: [&str; 5] = ["c5def5", "fbca04", "d4c5f9", "0e8a16", "d93f0b"];

impl GitHub {
    pub(super) fn look(&self, create: bool) -> Result<Vec<TrackerFinding>, Failure> {
        let answer = self.get(&self.repo)?;
        if answer.status != 200 {
            return Err(self.refused(&Method::GET, &self.repo, &answer));
        }
        let repo = answer.json("the repository")?;
        let mut findings = vec![rights(&repo, answer.header("x-oauth-scopes"))];
        if repo.get("has_issues").and_then(Value::as_bool) == Some(false) {
            findings.push(TrackerFinding::bad("issues are switched off in this repository"));
        }
        if repo.get("archived").and_then(Value::as_bool) == Some(true) {
            findings.push(TrackerFinding::bad("the repository is archived: nothing in it can change"));
        }
        let queued = self.list(&self.labels.queue, "open")?.tickets.len();
        findings
            .push(TrackerFinding::good(format!("the issues can be listed: {queued} with the queue label")));
        if let Some(left) = answer.header("x-ratelimit-remaining") {
            let left = escape(left.as_bytes(), 20);
            findings.push(TrackerFinding::good(format!("requests left in this hour: {left}")));
        }
        findings.extend(TrackerFinding::clocks(answer.date()));
        findings.extend(self.look_at_labels(create)?);
        Ok(findings)
    }

    fn look_at_labels(&self, create: bool) -> Result<Vec<TrackerFinding>, Failure> {
        let there = self.label_names()?;
        let mut findings = Vec::new();
        for (label, colour) in self.labels.managed().into_iter().zip(COLOURS) {
            let twin = there.iter().find(|name| name.to_lowercase() == label.to_lowercase());
            findings.push(match twin {
                Some(name) if name == label => TrackerFinding::good(format!("label {label} is there")),
                Some(name) => TrackerFinding::good(format!(
                    "label {label} is there, spelled {}",
                    escape(name.as_bytes(), 60)
                )),
                None if create => {
                    self.create_label(label, colour)?;
                    TrackerFinding::good(format!("label {label} made"))
                }
                None => TrackerFinding::bad(format!("label {label} is missing (orion-claim init makes it)")),
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

/// May the token change labels? What the repository says is about the account; only
/// a classic token has its own rights in a header.
fn rights(repo: &Value, scopes: Option<&str>) -> TrackerFinding {
    let may = |right: &str| repo.pointer(&format!("/permissions/{right}")).and_then(Value::as_bool);
    let private = repo.get("private").and_then(Value::as_bool) == Some(true);
    let account = match (may("push"), may("triage")) {
        (None, None) => None,
        (push, triage) => Some(push == Some(true) || triage == Some(true)),
    };
    let scoped = scopes.map(|scopes| {
        let mut all = scopes.split(',').map(str::trim);
        all.any(|scope| scope == "repo" || (scope == "public_repo" && !private))
    });
    let shown = escape(scopes.unwrap_or_default().as_bytes(), 200);
    match (account, scoped) {
        (Some(false), _) => {
            TrackerFinding::bad("the account may not change labels here (it needs write or triage)")
        }
        (_, Some(false)) => TrackerFinding::bad(format!(
            "the token may not write issues: its scopes are '{shown}' (it needs repo, or public_repo for a public repository)"
        )),
        (Some(true), Some(true)) => {
            TrackerFinding::good(format!("the token may change labels (its scopes are {shown})"))
        }
        (Some(true), None) => TrackerFinding::unproved(
            "the account may change labels; whether this token may is not to be seen without writing",
        ),
        (None, _) => TrackerFinding::unproved(
            "whether the token may change labels: the server does not say, and only a write would show it",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_is_claimed_only_where_it_was_seen() {
        let repo = |push: bool, private: bool| json!({"permissions": {"push": push}, "private": private});
        let seen = |repo: &Value, scopes| {
            let finding = rights(repo, scopes);
            (finding.ok, finding.proved)
        };
        assert_eq!(seen(&repo(true, true), Some("gist, repo")), (true, true));
        assert_eq!(seen(&repo(true, false), Some("public_repo")), (true, true));
        assert_eq!(seen(&repo(true, true), Some("public_repo")), (false, true), "it is private");
        assert_eq!(seen(&repo(true, false), Some("")), (false, true), "a token without scopes");
        assert_eq!(seen(&repo(true, false), Some("read:repo_hook")), (false, true), "no part of a word");
        assert_eq!(seen(&repo(false, false), Some("repo")), (false, true), "the account may not");
        assert_eq!(seen(&repo(true, false), None), (true, false), "a fine-grained token");
        assert_eq!(seen(&json!({}), None), (true, false));
        assert_eq!(
            seen(&json!({"permissions": {"push": false, "triage": true}}), Some("repo")),
            (true, true)
        );
    }
}
