//! A runner we do not know, through a program of the user's: `PROG list`,
//! `PROG idle ID`, `PROG close ID`, JSON on stdout (orion-reap(1), RUNNERS).

use crate::model::terminal::{Again, Belongs, Idle, Output, Processes, Terminal};
use crate::model::time::WallTime;
use crate::os::{proc, process};
use crate::runner::{Budget, Closing, Fault, Runner, TerminalListing, first_line};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::process::Command;

/// A program that speaks for a runner.
#[derive(Debug)]
pub(crate) struct ProgramRunner {
    path: OsString,
    /// Each terminal as it was listed.
    listed: HashMap<String, Value>,
}

impl ProgramRunner {
    /// The program at `path`, or of that name in PATH.
    pub(crate) fn new(path: OsString) -> Self {
        Self { path, listed: HashMap::new() }
    }

    fn ask(&self, arguments: &[&str], budget: Budget) -> Result<Value, Fault> {
        let answer = budget.call(Command::new(&self.path).args(arguments))?;
        let what = format!("{} {}", self.path.to_string_lossy(), arguments[0]);
        if !answer.status.success() {
            let why = first_line(&answer.stderr);
            let colon = if why.is_empty() { "" } else { ": " };
            return Err(Fault::Unavailable(format!("{what} failed ({}){colon}{why}", answer.status)));
        }
        serde_json::from_slice(&answer.stdout)
            .map_err(|_| Fault::Unavailable(format!("{what} did not print one JSON document")))
    }

    fn items(&self, budget: Budget) -> Result<HashMap<String, Value>, Fault> {
        let answer = self.ask(&["list"], budget)?;
        let wrong =
            || Fault::Unavailable("list gave no array \"terminals\" with an \"id\" in each".to_owned());
        let items = answer.get("terminals").and_then(Value::as_array).ok_or_else(wrong)?;
        items
            .iter()
            .map(|item| {
                let id =
                    item.get("id").and_then(Value::as_str).filter(|id| !id.is_empty()).ok_or_else(wrong)?;
                Ok((id.to_owned(), item.clone()))
            })
            .collect()
    }
}

/// Seconds since 1970, with or without a fraction.
fn time(item: &Value, key: &str) -> Option<WallTime> {
    let seconds = item.get(key)?.as_f64().filter(|seconds| (0.0..1e12).contains(seconds))?;
    u64::try_from(std::time::Duration::from_secs_f64(seconds).as_millis()).ok().map(WallTime)
}

fn terminal(id: &str, item: &Value, named: &[String]) -> Terminal {
    let text = |key: &str| item.get(key).and_then(Value::as_str);
    let mut belongs = match text("automation") {
        None | Some("") => Belongs::NoRun,
        Some(name) if named.iter().any(|one| one == name) => Belongs::Named(name.to_owned()),
        Some(name) => Belongs::Other(name.to_owned()),
    };
    let mut leader = None;
    let mut dead = false;
    let pid = item.get("pid").and_then(Value::as_u64).and_then(|pid| u32::try_from(pid).ok());
    if let (Some(pid), Belongs::Named(_)) = (pid, &belongs) {
        match process::identify(pid) {
            Ok(identity) => {
                let start = item.get("start_ticks").and_then(Value::as_u64);
                if start.is_some_and(|start| start != identity.start_ticks) {
                    belongs = Belongs::NotItsOwn(format!("pid {pid} is another process by now"));
                }
                leader = Some(identity);
            }
            Err(error) if proc::is_gone(&error) => dead = true,
            Err(error) => {
                belongs = Belongs::Unreadable(format!("pid {pid}: {}", crate::error::reason(&error)));
            }
        }
    }
    let last = time(item, "last_output");
    let tty = leader.as_ref().and_then(|leader| proc::stat(leader.pid).ok()).map(|stat| stat.tty_nr);
    let source = if last.is_some() { "last_output" } else { "it lists no last_output" };
    Terminal {
        id: id.to_owned(),
        title: text("title").unwrap_or_default().to_owned(),
        belongs,
        own: item.get("own").and_then(Value::as_bool).unwrap_or(false),
        dead,
        started: time(item, "started"),
        output: Output { moved: last, printed_by: last, source: source.to_owned() },
        idle: Idle::NotAsked,
        newest_of_reuse: item.get("reused_next").and_then(Value::as_bool).unwrap_or(false),
        close_last: false,
        processes: if leader.is_some() { Processes::NotAsked } else { Processes::Unmapped },
        leader,
        tty,
        again: Again::NotAsked,
    }
}

impl Runner for ProgramRunner {
    fn label(&self) -> String {
        format!("command {}", self.path.to_string_lossy())
    }

    fn list(&mut self, named: &[String], budget: Budget) -> Result<TerminalListing, Fault> {
        self.listed = self.items(budget)?;
        let mut terminals: Vec<Terminal> =
            self.listed.iter().map(|(id, item)| terminal(id, item, named)).collect();
        terminals.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(TerminalListing { terminals, ..TerminalListing::default() })
    }

    fn ask_idle(&mut self, terminal: &mut Terminal, budget: Budget) {
        terminal.idle = match self.ask(&["idle", &terminal.id], budget) {
            Err(fault) => Idle::Unreadable(fault.text()),
            Ok(answer) => {
                let yes = |key: &str| answer.get(key).and_then(Value::as_bool).unwrap_or(false);
                let question = answer.get("question").and_then(Value::as_str);
                match (yes("idle"), yes("busy"), question) {
                    (_, _, Some(question)) => Idle::Question(question.to_owned()),
                    (_, true, None) => Idle::Busy("says the runner".to_owned()),
                    (true, false, None) => Idle::Yes("says the runner".to_owned()),
                    (false, false, None) => Idle::No("says the runner".to_owned()),
                }
            }
        };
    }

    fn look_again(&mut self, terminal: &mut Terminal, budget: Budget) {
        terminal.again = match self.items(budget) {
            Err(fault) => Again::Unreadable(fault.text()),
            // The title is the agent's own text and no key.
            Ok(items) => match (items.get(&terminal.id), self.listed.get(&terminal.id)) {
                (Some(now), Some(then)) if same_but_for_title(now, then) => Again::Same,
                (Some(_), _) => Again::Changed("what list says about it changed".to_owned()),
                (None, _) => Again::Changed("it is no longer listed".to_owned()),
            },
        };
    }

    fn text(&mut self, _terminal: &Terminal, _budget: Budget) -> Result<Option<Vec<u8>>, Fault> {
        Ok(None)
    }

    fn close(&mut self, terminal: &Terminal, budget: Budget) -> Closing {
        match self.ask(&["close", &terminal.id], budget) {
            Err(fault) => Closing::Failed(fault.text()),
            Ok(answer) if answer.get("closed").and_then(Value::as_bool) == Some(true) => Closing::Asked,
            Ok(answer) => {
                let why = answer.get("why").and_then(Value::as_str).unwrap_or("it did not say closed");
                Closing::Failed(why.to_owned())
            }
        }
    }

    fn present(&mut self, budget: Budget) -> Result<HashSet<String>, Fault> {
        Ok(self.items(budget)?.into_keys().collect())
    }
}

fn same_but_for_title(now: &Value, then: &Value) -> bool {
    let strip = |value: &Value| {
        let mut value = value.clone();
        if let Some(object) = value.as_object_mut() {
            object.remove("title");
        }
        value
    };
    strip(now) == strip(then)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_program_leaves_out_is_unknown() {
        let named = ["nightly".to_owned()];
        let bare = terminal("7", &json!({"id": "7", "automation": "nightly"}), &named);
        assert_eq!(bare.belongs, Belongs::Named("nightly".into()));
        assert_eq!((bare.output.moved, bare.started), (None, None));
        let other = terminal("7", &json!({"id": "7", "automation": "nightly-2", "pid": 1}), &named);
        assert_eq!(other.belongs, Belongs::Other("nightly-2".into()));
        let wrong =
            json!({"id": "7", "automation": "nightly", "last_output": "soon", "started": -1, "pid": -3});
        let wrong = terminal("7", &wrong, &named);
        assert_eq!((wrong.output.moved, wrong.started, wrong.leader.is_none()), (None, None, true));
        let me = std::process::id();
        let stranger = json!({"id": "7", "automation": "nightly", "pid": me, "start_ticks": 1});
        assert!(matches!(terminal("7", &stranger, &named).belongs, Belongs::NotItsOwn(_)));
        let full = json!({"id": "7", "automation": "nightly", "pid": me, "last_output": 1700000000.5});
        let full = terminal("7", &full, &named);
        assert_eq!(full.output.moved, Some(WallTime(1_700_000_000_500)));
        assert!(full.leader.is_some() && !full.dead);
    }

    #[test]
    fn a_new_title_is_no_change() {
        let then = json!({"id": "1", "title": "a", "last_output": 5});
        assert!(same_but_for_title(&json!({"id": "1", "title": "b", "last_output": 5}), &then));
        assert!(!same_but_for_title(&json!({"id": "1", "title": "a", "last_output": 6}), &then));
    }
}
