//! A runner we do not know, through a program of the user's: `PROG list`,
//! `PROG idle ID`, `PROG close ID`, JSON on stdout (orion-reap(1), RUNNERS).

use crate::model::terminal::{Again, Belongs, Idle, Output, Processes, Terminal, Viewer};
use crate::model::time::WallTime;
use crate::os::{proc, process};
use crate::runner::{Budget, Closing, Fault, Runner, TerminalListing, field, first_line};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::process::Command;

/// A program that speaks for a runner.
#[derive(Debug)]
pub(crate) struct ProgramRunner {
    path: OsString,
    /// Each terminal as it was listed.
    listed: Items,
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
        field::parse(&answer.stdout).map_err(|why| Fault::Unavailable(format!("{what}: {why}")))
    }

    /// What `list` says: the good rows, and what is wrong with the others.
    fn items(&self, budget: Budget) -> Result<(Items, Vec<String>), Fault> {
        let answer = self.ask(&["list"], budget)?;
        items(&answer).map_err(Fault::Unavailable)
    }
}

/// Rows of a list by their id; `Err` for an id that comes twice.
type Items = HashMap<String, Result<Value, String>>;

fn items(answer: &Value) -> Result<(Items, Vec<String>), String> {
    let rows = answer.get("terminals").and_then(Value::as_array);
    let rows = rows.ok_or("list gave no array \"terminals\"")?;
    let mut found = Items::new();
    let mut bad = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let id = match field::string(row, "id") {
            Ok(Some(id)) if !id.is_empty() => id,
            Ok(_) => {
                bad.push(format!("terminal {} of its list has no id; it is kept", at + 1));
                continue;
            }
            Err(why) => {
                bad.push(format!("terminal {} of its list: {why}; it is kept", at + 1));
                continue;
            }
        };
        found
            .entry(id.to_owned())
            .and_modify(|row| *row = Err("its id stands in the list twice".to_owned()))
            .or_insert_with(|| Ok(row.clone()));
    }
    Ok((found, bad))
}

/// Seconds since 1970, with or without a fraction.
fn time(item: &Value, key: &str) -> Result<Option<WallTime>, String> {
    let seconds = field::number(item, key, 0.0..1e12)?;
    let millis = seconds.map(|seconds| std::time::Duration::from_secs_f64(seconds).as_millis());
    Ok(millis.and_then(|millis| u64::try_from(millis).ok()).map(WallTime))
}

/// What one row says, where every field has the type that was promised.
struct ListedRow {
    automation: Option<String>,
    title: String,
    own: bool,
    reused_next: bool,
    pid: Option<u32>,
    start_ticks: Option<u64>,
    started: Option<WallTime>,
    last_output: Option<WallTime>,
}

fn read(item: &Value) -> Result<ListedRow, String> {
    let pid = field::whole(item, "pid")?;
    let pid = pid.map(|pid| u32::try_from(pid).ok().filter(|pid| *pid > 0).ok_or(pid)).transpose();
    Ok(ListedRow {
        automation: field::string(item, "automation")?.filter(|name| !name.is_empty()).map(str::to_owned),
        title: field::string(item, "title")?.unwrap_or_default().to_owned(),
        own: field::boolean(item, "own")?.unwrap_or(false),
        reused_next: field::boolean(item, "reused_next")?.unwrap_or(false),
        pid: pid.map_err(|number| format!("\"pid\" is {number}, which no process has"))?,
        start_ticks: field::whole(item, "start_ticks")?,
        started: time(item, "started")?,
        last_output: time(item, "last_output")?,
    })
}

fn terminal(id: &str, item: &Result<Value, String>, named: &[String]) -> Terminal {
    let row = item.as_ref().map_err(Clone::clone).and_then(read);
    let row = match row {
        Ok(row) => row,
        Err(why) => return unreadable(id, why),
    };
    let mut belongs = match row.automation {
        None => Belongs::NoRun,
        Some(name) if named.contains(&name) => Belongs::Named(name),
        Some(name) => Belongs::Other(name),
    };
    let mut leader = None;
    let mut dead = false;
    if let (Some(pid), Belongs::Named(_)) = (row.pid, &belongs) {
        match process::identify(pid) {
            Ok(identity) => {
                if row.start_ticks.is_some_and(|start| start != identity.start_ticks) {
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
    let tty = leader.as_ref().and_then(|leader| proc::stat(leader.pid).ok()).map(|stat| stat.tty_nr);
    let source = if row.last_output.is_some() { "last_output" } else { "it lists no last_output" };
    Terminal {
        title: row.title,
        belongs,
        own: row.own,
        dead,
        started: row.started,
        output: Output { moved: row.last_output, printed_by: row.last_output, source: source.to_owned() },
        newest_of_reuse: row.reused_next,
        processes: if leader.is_some() { Processes::NotAsked } else { Processes::Unmapped },
        leader,
        tty,
        ..unreadable(id, String::new())
    }
}

/// A row that is not understood keeps its terminal.
fn unreadable(id: &str, why: String) -> Terminal {
    Terminal {
        id: id.to_owned(),
        title: String::new(),
        belongs: Belongs::Unreadable(why),
        own: false,
        dead: false,
        leader: None,
        tty: None,
        started: None,
        output: Output::default(),
        idle: Idle::NotAsked,
        viewer: Viewer::default(),
        session: None,
        newest_of_reuse: false,
        close_last: false,
        processes: Processes::Unmapped,
        again: Again::NotAsked,
    }
}

/// What `idle` says. A question or work is a veto, whatever else stands there.
fn idle(answer: &Value) -> Idle {
    let read = || -> Result<Idle, String> {
        let question = field::string(answer, "question")?;
        let busy = field::boolean(answer, "busy")?.unwrap_or(false);
        let idle = field::boolean(answer, "idle")?.unwrap_or(false);
        Ok(match (idle, busy, question) {
            (_, _, Some(question)) => Idle::Question(question.to_owned()),
            (_, true, None) => Idle::Busy("says the runner".to_owned()),
            (true, false, None) => Idle::Yes("says the runner".to_owned()),
            (false, false, None) => Idle::No("says the runner".to_owned()),
        })
    };
    read().unwrap_or_else(Idle::Unreadable)
}

/// What `close` says.
fn closing(answer: &Value) -> Closing {
    let read = || -> Result<Closing, String> {
        let why = field::string(answer, "why")?.unwrap_or("it did not say closed");
        Ok(match field::boolean(answer, "closed")? {
            Some(true) => Closing::Asked,
            _ => Closing::Failed(why.to_owned()),
        })
    };
    read().unwrap_or_else(Closing::Failed)
}

impl Runner for ProgramRunner {
    fn label(&self) -> String {
        format!("command {}", self.path.to_string_lossy())
    }

    fn list(&mut self, named: &[String], budget: Budget) -> Result<TerminalListing, Fault> {
        let (listed, warnings) = self.items(budget)?;
        self.listed = listed;
        let mut terminals: Vec<Terminal> =
            self.listed.iter().map(|(id, item)| terminal(id, item, named)).collect();
        terminals.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(TerminalListing { terminals, warnings, precheck_limit: None })
    }

    fn ask_idle(&self, terminal: &mut Terminal, budget: Budget) {
        terminal.idle = match self.ask(&["idle", &terminal.id], budget) {
            Err(fault) => Idle::Unreadable(fault.text()),
            Ok(answer) => idle(&answer),
        };
    }

    fn look_again(&self, terminal: &mut Terminal, budget: Budget) {
        terminal.again = match self.items(budget) {
            Err(fault) => Again::Unreadable(fault.text()),
            // The title is the agent's own text and no key.
            Ok((items, _)) => match (items.get(&terminal.id), self.listed.get(&terminal.id)) {
                (Some(Ok(now)), Some(Ok(then))) if same_but_for_title(now, then) => Again::Same,
                (Some(_), _) => Again::Changed("what list says about it changed".to_owned()),
                (None, _) => Again::Changed("it is no longer listed".to_owned()),
            },
        };
    }

    fn text(&self, _terminal: &Terminal, _budget: Budget) -> Result<Option<Vec<u8>>, Fault> {
        Ok(None)
    }

    fn close(&self, terminal: &Terminal, budget: Budget) -> Closing {
        match self.ask(&["close", &terminal.id], budget) {
            Err(fault) => Closing::Failed(fault.text()),
            Ok(answer) => closing(&answer),
        }
    }

    /// A list with a row that cannot be told says nothing about who is gone.
    fn present(&self, budget: Budget) -> Result<HashSet<String>, Fault> {
        match self.items(budget)? {
            (items, bad) if bad.is_empty() => Ok(items.into_keys().collect()),
            (_, bad) => Err(Fault::Unavailable(bad.join("; "))),
        }
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

    fn of(item: Value) -> Terminal {
        terminal("7", &Ok(item), &["nightly".to_owned()])
    }

    /// One value of every JSON type.
    fn every_type() -> Vec<Value> {
        vec![
            json!(true),
            json!(1),
            json!(0),
            json!(-1),
            json!(1.5),
            json!("true"),
            json!(""),
            json!([]),
            json!({}),
        ]
    }

    #[test]
    fn what_a_program_leaves_out_is_unknown() {
        let bare = of(json!({"id": "7", "automation": "nightly"}));
        assert_eq!(bare.belongs, Belongs::Named("nightly".into()));
        assert_eq!((bare.output.moved, bare.started), (None, None));
        let nulls = of(json!({"id": "7", "automation": "nightly", "title": null, "own": null, "pid": null,
            "reused_next": null, "start_ticks": null, "started": null, "last_output": null}));
        assert_eq!(nulls.belongs, Belongs::Named("nightly".into()), "null is absent");
        let other = of(json!({"id": "7", "automation": "nightly-2", "pid": 1}));
        assert_eq!(other.belongs, Belongs::Other("nightly-2".into()));
        let me = std::process::id();
        let stranger = json!({"id": "7", "automation": "nightly", "pid": me, "start_ticks": 1});
        assert!(matches!(of(stranger).belongs, Belongs::NotItsOwn(_)));
        let full = of(json!({"id": "7", "automation": "nightly", "pid": me, "last_output": 1700000000.5}));
        assert_eq!(full.output.moved, Some(WallTime(1_700_000_000_500)));
        assert!(full.leader.is_some() && !full.dead);
    }

    #[test]
    fn a_value_of_another_type_in_any_field_of_a_row_keeps_it() {
        type Fits = fn(&Value) -> bool;
        let right: [(&str, Fits); 8] = [
            ("automation", Value::is_string),
            ("title", Value::is_string),
            ("own", Value::is_boolean),
            ("reused_next", Value::is_boolean),
            ("pid", |value| value.as_u64().is_some_and(|pid| pid > 0)),
            ("start_ticks", Value::is_u64),
            ("started", |value| value.as_f64().is_some_and(|time| time >= 0.0)),
            ("last_output", |value| value.as_f64().is_some_and(|time| time >= 0.0)),
        ];
        for (key, fits) in right {
            for value in every_type() {
                let mut row = json!({"id": "7", "automation": "nightly"});
                row[key] = value.clone();
                let kept = matches!(of(row).belongs, Belongs::Unreadable(_));
                assert_eq!(kept, !fits(&value), "{key}: {value}");
            }
        }
        for number in [json!(4294967296u64), json!(1e13)] {
            let key = if number.is_f64() { "started" } else { "pid" };
            assert!(matches!(of(json!({"id": "7", key: number})).belongs, Belongs::Unreadable(_)));
        }
        assert!(matches!(of(json!([])).belongs, Belongs::Unreadable(_)));
    }

    #[test]
    fn a_bad_row_and_an_id_that_comes_twice_keep_those_rows_and_no_others() {
        let list = json!({"terminals": [
            {"id": "1", "automation": "nightly"}, {"id": 2}, {"id": "3"}, {}, {"id": ""}, {"id": "3"}, 5, null
        ]});
        let (found, bad) = items(&list).expect("a list");
        assert_eq!((found.len(), bad.len()), (2, 5), "{bad:?}");
        assert!(found["1"].is_ok() && found["3"].is_err());
        let twice = terminal("3", &found["3"], &["nightly".to_owned()]);
        assert!(matches!(twice.belongs, Belongs::Unreadable(_)));
        for answer in
            [json!(null), json!([]), json!({}), json!({"terminals": {}}), json!({"terminals": null})]
        {
            assert!(items(&answer).is_err(), "{answer}");
        }
    }

    #[test]
    fn an_answer_of_another_type_is_never_idle_and_never_closed() {
        assert_eq!(idle(&json!({"idle": true})), Idle::Yes("says the runner".into()));
        assert_eq!(
            idle(&json!({"idle": true, "busy": null, "question": null})),
            Idle::Yes("says the runner".into())
        );
        for (key, right) in [("idle", "a bool"), ("busy", "a bool"), ("question", "a string")] {
            for value in every_type() {
                let mut answer = json!({"idle": true});
                answer[key] = value.clone();
                let fits = if right == "a bool" { value.is_boolean() } else { value.is_string() };
                let said = idle(&answer);
                assert_eq!(matches!(said, Idle::Unreadable(_)), !fits, "{key}: {value}");
                assert!(key == "idle" || !matches!(said, Idle::Yes(_)), "{key}: {value}");
            }
        }
        for answer in
            [json!({}), json!({"idle": false}), json!({"idle": null}), json!([]), json!(true), json!("idle")]
        {
            assert!(!matches!(idle(&answer), Idle::Yes(_)), "{answer}");
        }
        assert_eq!(closing(&json!({"closed": true})), Closing::Asked);
        for value in every_type().into_iter().filter(|value| *value != json!(true)) {
            assert!(matches!(closing(&json!({"closed": value})), Closing::Failed(_)));
            if !value.is_string() {
                assert!(matches!(closing(&json!({"closed": true, "why": value})), Closing::Failed(_)));
            }
        }
        assert_eq!(closing(&json!({"closed": false, "why": "no"})), Closing::Failed("no".into()));
    }

    #[test]
    fn a_new_title_is_no_change() {
        let then = json!({"id": "1", "title": "a", "last_output": 5});
        assert!(same_but_for_title(&json!({"id": "1", "title": "b", "last_output": 5}), &then));
        assert!(!same_but_for_title(&json!({"id": "1", "title": "a", "last_output": 6}), &then));
    }
}
