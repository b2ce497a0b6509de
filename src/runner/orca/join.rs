//! Which run a terminal belongs to. Orca keeps no handle in a run and no automation
//! in a terminal: the pane key and the pty together are the only proof (runners A.4).

use crate::model::terminal::Belongs;
use crate::model::time::WallTime;
use serde_json::Value;
use std::time::Duration;

/// A run of an automation that was named.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OrcaRun {
    pub(super) automation_id: String,
    pub(super) automation: String,
    pub(super) ambiguous: bool,
    /// Its terminal is the next run's.
    pub(super) reuse: bool,
    pub(super) status: String,
    pub(super) pane_key: Option<String>,
    pub(super) pty: Option<String>,
    pub(super) workspace: Option<String>,
    pub(super) created: Option<WallTime>,
    pub(super) started: Option<WallTime>,
}

/// An automation that was named.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Automation {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) ambiguous: bool,
    pub(super) reuse: bool,
    /// Seconds its precheck may take.
    pub(super) precheck_seconds: Option<u64>,
}

/// A terminal as the list gives it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pane {
    pub(super) handle: String,
    /// `TAB:LEAF`
    pub(super) key: String,
    pub(super) pty: Pty,
    pub(super) worktree: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Pty {
    Id(String),
    /// Null: no process of its own.
    None,
    /// The list of old builds does not say; `terminal show` does.
    NotListed,
}

/// A string that is there and not empty.
pub(super) fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Milliseconds since 1970.
pub(super) fn time(value: &Value, key: &str) -> Option<WallTime> {
    let millis = value.get(key)?.as_f64().filter(|millis| (1.0..1e15).contains(millis))?;
    u64::try_from(Duration::from_secs_f64(millis / 1000.0).as_millis()).ok().map(WallTime)
}

/// The automations meant by ids or exact names, and what could not be found.
/// A name that several bear means none of them, unless each was also named by its id.
pub(super) fn automations(list: &[Value], named: &[String]) -> (Vec<Automation>, Vec<String>) {
    let mut found: Vec<Automation> = Vec::new();
    let mut warnings = Vec::new();
    for wanted in named {
        let by_id: Vec<&Value> = list.iter().filter(|a| text(a, "id") == Some(wanted)).collect();
        let by_name: Vec<&Value> = list.iter().filter(|a| text(a, "name") == Some(wanted)).collect();
        let meant = if by_id.is_empty() { by_name } else { by_id };
        let all_by_id =
            || meant.iter().all(|a| text(a, "id").is_some_and(|id| named.iter().any(|name| name == id)));
        let ambiguous = meant.len() > 1 && !all_by_id();
        if meant.is_empty() {
            warnings.push(format!("no automation has the id or the exact name {wanted}"));
        }
        for value in meant {
            let Some(id) = text(value, "id") else { continue };
            if found.iter().any(|known| known.id == id && !known.ambiguous) {
                continue;
            }
            found.retain(|known| known.id != id);
            found.push(Automation {
                id: id.to_owned(),
                name: text(value, "name").unwrap_or(id).to_owned(),
                ambiguous: ambiguous && !named.iter().any(|name| name == id),
                reuse: value.get("reuseSession").and_then(Value::as_bool).unwrap_or(false),
                precheck_seconds: value
                    .get("precheck")
                    .filter(|precheck| precheck.is_object())
                    .map(|precheck| precheck.get("timeoutSeconds").and_then(Value::as_u64).unwrap_or(60)),
            });
        }
    }
    (found, warnings)
}

/// One run of the list; `None` for those of another automation.
pub(super) fn run(value: &Value, automation: &Automation) -> Option<OrcaRun> {
    if text(value, "automationId") != Some(&automation.id) {
        return None;
    }
    let owned = |key: &str| text(value, key).map(str::to_owned);
    Some(OrcaRun {
        automation_id: automation.id.clone(),
        automation: automation.name.clone(),
        ambiguous: automation.ambiguous,
        reuse: automation.reuse || value.get("reuseSession").and_then(Value::as_bool).unwrap_or(false),
        status: owned("status").unwrap_or_default(),
        pane_key: owned("terminalPaneKey"),
        pty: owned("terminalPtyId"),
        workspace: owned("workspaceId"),
        created: time(value, "createdAt"),
        started: time(value, "startedAt").or(time(value, "dispatchedAt")).or(time(value, "createdAt")),
    })
}

/// One terminal of the list; `None` without what identifies it.
pub(super) fn pane(value: &Value) -> Option<Pane> {
    Some(Pane {
        handle: text(value, "handle")?.to_owned(),
        key: format!("{}:{}", text(value, "tabId")?, text(value, "leafId")?),
        pty: match value.get("ptyId") {
            None => Pty::NotListed,
            Some(_) => text(value, "ptyId").map_or(Pty::None, |id| Pty::Id(id.to_owned())),
        },
        worktree: text(value, "worktreeId").map(str::to_owned),
    })
}

/// Two pane keys with one leaf are one pane: a tab can be moved, a leaf is its own.
pub(super) fn same_pane(a: &str, b: &str) -> bool {
    let leaf =
        |key: &str| key.rsplit_once(':').map(|(_, leaf)| leaf.to_owned()).filter(|leaf| !leaf.is_empty());
    a == b || leaf(a).is_some_and(|one| leaf(b) == Some(one))
}

/// Whose terminal it is; with the newest run in it.
pub(super) fn join<'r>(pane: &Pane, runs: &'r [OrcaRun]) -> (Belongs, Option<&'r OrcaRun>) {
    let here: Vec<&OrcaRun> = runs
        .iter()
        .filter(|run| run.pane_key.as_deref().is_some_and(|key| same_pane(key, &pane.key)))
        .collect();
    if here.is_empty() {
        return (Belongs::NoRun, None);
    }
    // A run that is about to begin here is younger than any silence.
    if let Some(run) = here.iter().find(|run| matches!(run.status.as_str(), "pending" | "dispatching")) {
        return (Belongs::Starting(format!("a run of {} is {}", run.automation, run.status)), Some(run));
    }
    let exact: Vec<&&OrcaRun> = match &pane.pty {
        Pty::Id(pty) => here.iter().filter(|run| run.pty.as_ref() == Some(pty)).collect(),
        Pty::NotListed => here.iter().filter(|run| run.pty.is_some()).collect(),
        Pty::None => Vec::new(),
    };
    let newest = exact.iter().copied().max_by_key(|run| run.created);
    let Some(run) = newest else {
        let why = "its pane had a run, its process is another one".to_owned();
        return (Belongs::Resumed(why), None);
    };
    let belongs = match run.status.as_str() {
        "dispatched" | "completed" | "dispatch_failed" => Belongs::Named(run.automation.clone()),
        other => Belongs::Starting(format!("its run is {other}, which owns no terminal")),
    };
    if run.ambiguous {
        return (Belongs::Ambiguous(format!("several automations are called {}", run.automation)), Some(run));
    }
    if let (Some(of_run), Some(of_pane)) = (&run.workspace, &pane.worktree)
        && of_run != of_pane
    {
        return (Belongs::NotItsOwn("its run is of another workspace".to_owned()), Some(run));
    }
    (belongs, Some(run))
}

#[cfg(test)]
#[path = "join_tests.rs"]
mod tests;
