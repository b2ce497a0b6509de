//! What Orca's answers say about one terminal, read strictly: an unknown word or a value of
//! another type is unknown, and unknown keeps.

use super::join::same_pane;
use crate::model::terminal::{Again, Idle};
use crate::runner::field;
use serde_json::Value;
use std::ops::Range;

/// Milliseconds since 1970.
const TIMES: Range<f64> = 1.0..1e15;

/// Every field of a terminal has the type that was promised.
pub(super) fn well_typed(value: &Value) -> Result<(), String> {
    for key in ["handle", "tabId", "leafId", "ptyId", "worktreeId", "title"] {
        field::string(value, key)?;
    }
    field::boolean(value, "connected")?;
    field::number(value, "lastOutputAt", TIMES)?;
    Ok(())
}

/// The rows of `worktree ps` about agents.
pub(super) fn agents(result: &Value) -> Result<Vec<Value>, String> {
    let mut found = Vec::new();
    let worktrees = result.get("worktrees").and_then(Value::as_array);
    for tree in worktrees.ok_or("worktree ps gave no list \"worktrees\"")? {
        match tree.get("agents") {
            None | Some(Value::Null) => {}
            Some(Value::Array(agents)) => found.extend(agents.iter().cloned()),
            Some(_) => return Err("worktree ps: \"agents\" is not a list".to_owned()),
        }
    }
    Ok(found)
}

/// Hook states veto and never prove: what they say about a pane and its children. What is not
/// understood may be about any pane.
pub(super) fn veto(agents: &[Value], key: &str) -> Option<Idle> {
    agents.iter().find_map(|agent| veto_of(agent, key).unwrap_or_else(|why| Some(Idle::Unreadable(why))))
}

fn veto_of(agent: &Value, key: &str) -> Result<Option<Idle>, String> {
    let is = |field: Option<&str>| field.is_some_and(|other| same_pane(other, key));
    let (own, child) = (is(field::string(agent, "paneKey")?), is(field::string(agent, "parentPaneKey")?));
    if !own && !child {
        return Ok(None);
    }
    let state = field::string(agent, "state")?.unwrap_or_default();
    let unconfirmed = field::boolean(agent, "restoredUnconfirmed")?.unwrap_or(false);
    Ok(match state {
        "working" if own => Some(Idle::Busy("its agent is working, say its hooks".to_owned())),
        "blocked" | "waiting" if own => Some(Idle::Question(format!("its agent is {state}"))),
        "done" if own && unconfirmed => Some(Idle::No("its state is restored and not confirmed".to_owned())),
        "done" => None,
        "working" | "blocked" | "waiting" => Some(Idle::Busy("an agent it started is not done".to_owned())),
        other => Some(Idle::Unreadable(format!("its agent is {other:?}, which is not known here"))),
    })
}

/// The answer to a wait for an idle screen.
pub(super) fn waited(result: &Value) -> Idle {
    let read = || -> Result<Idle, String> {
        let wait = result.get("wait").ok_or("terminal wait said nothing")?;
        Ok(match (field::string(wait, "blockedReason")?, field::boolean(wait, "satisfied")?) {
            (Some(reason), _) if !reason.is_empty() => Idle::Question(reason.to_owned()),
            (_, Some(true)) => Idle::Yes("tui-idle".to_owned()),
            (_, Some(false)) => Idle::No("tui-idle was not satisfied".to_owned()),
            (_, None) => Idle::Unreadable("terminal wait said neither".to_owned()),
        })
    };
    read().unwrap_or_else(Idle::Unreadable)
}

/// What the second look found: still the same, or what changed; and whether its agent waits.
pub(super) fn looked(
    shown: &Value,
    run_pty: Option<&str>,
    last_output: Option<f64>,
) -> Result<(Again, Option<Idle>), String> {
    let waits = match shown.get("agentWait") {
        None | Some(Value::Null) => None,
        Some(Value::Object(_)) => Some(Idle::Question("its agent waits, says Orca".to_owned())),
        Some(_) => return Err("\"agentWait\" is not an object".to_owned()),
    };
    let last = field::number(shown, "lastOutputAt", TIMES)?;
    let pty = field::string(shown, "ptyId")?.filter(|pty| !pty.is_empty());
    let connected = field::boolean(shown, "connected")?;
    let again = if pty != run_pty {
        Again::Changed("its process is another one".to_owned())
    } else if last.is_none() || last != last_output {
        Again::Changed("it printed since the list".to_owned())
    } else if connected == Some(false) {
        Again::Changed("it is no longer connected".to_owned())
    } else {
        Again::Same
    };
    Ok((again, waits))
}

#[cfg(test)]
#[path = "answers_tests.rs"]
mod tests;
