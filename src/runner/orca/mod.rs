//! Orca, through its command line, by what public sources say about builds 1.4.16x
//! to 1.4.206: a missing or unknown field is unknown, and unknown keeps.

mod answers;
mod cli;
mod join;

use crate::model::terminal::{Again, Belongs, Idle, Output, Processes, Terminal, Viewer};
use crate::os::{proc, process, session};
use crate::runner::{Budget, Closing, Fault, Runner, TerminalListing};
use answers::{agents, looked, veto, waited, well_typed};
use cli::{Reply, ask, need};
use join::{Automation, OrcaRun, Pane, Pty, same_pane, text, time};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::time::Duration;

/// The default limit is 200, and a cut list proves nothing.
const LIMIT: &str = "100000";
/// A wait for an idle screen that is not idle lasts this long.
const IDLE_WAIT: Duration = Duration::from_secs(3);
/// Pages of runs: more is a runner that pages in circles.
const PAGES: usize = 100;
/// The command does not exist in this build.
const UNSUPPORTED: [&str; 3] = ["invalid_argument", "method_not_found", "unknown_command"];
/// The terminal went while we looked.
const GONE: [&str; 4] = ["terminal_gone", "terminal_not_found", "terminal_exited", "terminal_handle_stale"];

/// Where this process runs, as Orca's environment tells.
#[derive(Clone, Debug, Default)]
pub(crate) struct Around {
    /// Our own pane, if we run in one of its terminals.
    pub(crate) pane_key: Option<String>,
    /// The command line talks to another machine: /proc here is not about those terminals.
    pub(crate) elsewhere: bool,
}

/// One Orca runtime.
#[derive(Debug)]
pub(crate) struct Orca {
    program: OsString,
    around: Around,
    panes: HashMap<String, Listed>,
    /// Hosts the first list left out.
    omitted: HashSet<String>,
}

#[derive(Clone, Debug)]
struct Listed {
    pane: Pane,
    /// The pty of its run.
    run_pty: Option<String>,
    last_output: Option<f64>,
}

impl Orca {
    /// `program` is Orca's command line, never a bare `orca`: that is a screen reader.
    pub(crate) fn new(program: OsString, around: Around) -> Self {
        Self { program, around, panes: HashMap::new(), omitted: HashSet::new() }
    }

    fn runs(&self, automation: &Automation, budget: Budget) -> Result<Vec<OrcaRun>, Fault> {
        let mut runs = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES {
            let mut arguments = vec!["automations", "runs", "--id", &automation.id];
            if let Some(cursor) = &cursor {
                arguments.extend(["--cursor", cursor]);
            }
            let page = need(&self.program, &arguments, budget)?;
            let list = array(&page, "runs")?;
            runs.extend(list.iter().filter_map(|value| join::run(value, automation)));
            match text(&page, "nextCursor") {
                Some(next) => cursor = Some(next.to_owned()),
                None => return Ok(runs),
            }
        }
        Err(Fault::Unavailable("automations runs has no last page".to_owned()))
    }

    fn terminals(&self, budget: Budget) -> Result<(Vec<Value>, HashSet<String>), Fault> {
        let result = need(&self.program, &["terminal", "list", "--limit", LIMIT], budget)?;
        let list = array(&result, "terminals")?.clone();
        let total = result.get("totalCount").and_then(Value::as_u64);
        let cut = result.get("truncated").and_then(Value::as_bool) != Some(false)
            || total.is_some_and(|total| total > list.len() as u64);
        if cut {
            return Err(Fault::Unavailable("terminal list is truncated".to_owned()));
        }
        let omitted =
            result.get("hostScope").and_then(|scope| scope.get("omittedHostIds")).and_then(Value::as_array);
        let omitted = omitted.into_iter().flatten().map(|host| host.as_str().unwrap_or_default().to_owned());
        Ok((list, omitted.collect()))
    }

    /// What hooks say about each pane; empty where this build does not know the question.
    fn agents(&self, budget: Budget) -> Result<Vec<Value>, Fault> {
        match ask(&self.program, &["worktree", "ps", "--limit", LIMIT], budget)? {
            Reply::Refused(refusal) if refusal.is_any(&UNSUPPORTED) => Ok(Vec::new()),
            Reply::Refused(refusal) => Err(Fault::Unavailable(format!("worktree ps: {}", refusal.text()))),
            Reply::Done(result) => {
                if result.get("truncated").and_then(Value::as_bool) == Some(true) {
                    return Err(Fault::Unavailable("worktree ps is truncated".to_owned()));
                }
                agents(&result).map_err(Fault::Unavailable)
            }
        }
    }

    fn terminal(
        &self,
        value: &Value,
        pane: &Pane,
        runs: &[OrcaRun],
        agents: &Result<Vec<Value>, Fault>,
    ) -> Terminal {
        let (mut belongs, run) = join::join(pane, runs);
        if matches!(belongs, Belongs::Named(_)) {
            if let Err(why) = well_typed(value) {
                belongs = Belongs::Unreadable(why);
            } else if value.get("connected").and_then(Value::as_bool) != Some(true) {
                belongs = Belongs::Unreadable("it is not connected".to_owned());
            }
        }
        let last = time(value, "lastOutputAt");
        let source = if last.is_some() { "lastOutputAt" } else { "lastOutputAt is null or missing" };
        Terminal {
            id: pane.handle.clone(),
            title: text(value, "title").unwrap_or_default().to_owned(),
            belongs,
            own: self.around.pane_key.as_ref().is_some_and(|key| same_pane(key, &pane.key)),
            dead: false,
            leader: None,
            tty: None,
            started: run.and_then(|run| run.started),
            output: Output { moved: last, printed_by: last, source: source.to_owned() },
            idle: match agents {
                Ok(agents) => veto(agents, &pane.key).unwrap_or(Idle::NotAsked),
                Err(fault) => Idle::Unreadable(fault.text()),
            },
            viewer: Viewer::default(),
            session: None,
            newest_of_reuse: false,
            close_last: false,
            processes: Processes::NotAsked,
            again: Again::NotAsked,
        }
    }

    fn show(&self, handle: &str, budget: Budget) -> Result<Reply, Fault> {
        let reply = ask(&self.program, &["terminal", "show", "--terminal", handle], budget)?;
        Ok(match reply {
            Reply::Done(result) => Reply::Done(result.get("terminal").unwrap_or(&result).clone()),
            refused => refused,
        })
    }

    /// Old builds list no pty: ask for the one terminal. Says why it is not the run's.
    fn confirm_pty(&self, terminal: &mut Terminal, budget: Budget) -> Option<Idle> {
        let listed = self.panes.get(&terminal.id)?;
        if listed.pane.pty != Pty::NotListed {
            return None;
        }
        match self.show(&terminal.id, budget) {
            Ok(Reply::Done(shown)) if text(&shown, "ptyId").map(str::to_owned) == listed.run_pty => None,
            Ok(Reply::Done(_)) => {
                terminal.belongs =
                    Belongs::Resumed("its pane had a run, its process is another one".to_owned());
                None
            }
            Ok(Reply::Refused(refusal)) => Some(Idle::Unreadable(refusal.text())),
            Err(fault) => Some(Idle::Unreadable(fault.text())),
        }
    }
}

fn array<'v>(value: &'v Value, key: &str) -> Result<&'v Vec<Value>, Fault> {
    let wrong = || Fault::Unavailable(format!("its answer has no list {key:?}"));
    value.get(key).and_then(Value::as_array).ok_or_else(wrong)
}

impl Runner for Orca {
    fn label(&self) -> String {
        "orca".to_owned()
    }

    fn list(&mut self, named: &[String], budget: Budget) -> Result<TerminalListing, Fault> {
        let mut listing = TerminalListing::default();
        let mut runs = Vec::new();
        if !named.is_empty() {
            let all = need(&self.program, &["automations", "list"], budget)?;
            let (automations, warnings) = join::automations(array(&all, "automations")?, named);
            listing.warnings = warnings;
            listing.precheck_limit =
                automations.iter().filter_map(|one| one.precheck_seconds).min().map(Duration::from_secs);
            for automation in &automations {
                runs.extend(self.runs(automation, budget)?);
            }
        }
        let (values, omitted) = self.terminals(budget)?;
        if !omitted.is_empty() {
            let hosts = omitted.iter().cloned().collect::<Vec<_>>().join(", ");
            listing.warnings.push(format!("the list leaves out the terminals of {hosts}"));
        }
        self.omitted = omitted;
        let agents = if runs.is_empty() { Ok(Vec::new()) } else { self.agents(budget) };
        let mut newest: HashMap<&str, (Option<crate::model::time::WallTime>, usize)> = HashMap::new();
        for value in &values {
            let Some(pane) = join::pane(value) else {
                listing.warnings.push("a terminal without handle, tab or leaf is kept".to_owned());
                continue;
            };
            if let Some(twin) = listing.terminals.iter_mut().find(|known| known.id == pane.handle) {
                twin.belongs = Belongs::Unreadable("its handle stands in the list twice".to_owned());
                continue;
            }
            let run = join::join(&pane, &runs).1;
            listing.terminals.push(self.terminal(value, &pane, &runs, &agents));
            if let Some(run) = run.filter(|run| run.reuse) {
                let this = (run.created, listing.terminals.len() - 1);
                let best = newest.entry(&run.automation_id).or_insert(this);
                if this.0 > best.0 {
                    *best = this;
                }
            }
            let run_pty = run.and_then(|run| run.pty.clone());
            let last_output = value.get("lastOutputAt").and_then(Value::as_f64);
            self.panes.insert(pane.handle.clone(), Listed { pane, run_pty, last_output });
        }
        for (_, position) in newest.values() {
            listing.terminals[*position].newest_of_reuse = true;
        }
        Ok(listing)
    }

    fn ask_idle(&self, terminal: &mut Terminal, budget: Budget) {
        if let Some(unreadable) = self.confirm_pty(terminal, budget) {
            terminal.idle = unreadable;
            return;
        }
        let millis = IDLE_WAIT.min(budget.left()).as_millis().to_string();
        let arguments =
            ["terminal", "wait", "--terminal", &terminal.id, "--for", "tui-idle", "--timeout-ms", &millis];
        terminal.idle = match ask(&self.program, &arguments, budget) {
            Ok(Reply::Done(result)) => waited(&result),
            Ok(Reply::Refused(refusal)) if refusal.is_any(&["timeout", "runtime_timeout"]) => {
                Idle::No("tui-idle was not satisfied in time".to_owned())
            }
            Ok(Reply::Refused(refusal)) => Idle::Unreadable(refusal.text()),
            Err(fault) => Idle::Unreadable(fault.text()),
        };
    }

    /// The pane key is in the environment of the agent; the rest of that holds secrets.
    fn map_processes(&self, terminals: &mut [&mut Terminal]) {
        if self.around.elsewhere {
            return;
        }
        let mut by_key: HashMap<Vec<u8>, proc::ProcStat> = HashMap::new();
        for stat in proc::pids().unwrap_or_default().into_iter().filter_map(|pid| proc::stat(pid).ok()) {
            // Only the first process of a session on a terminal: the variable is inherited far and wide.
            if stat.tty_nr == 0 || u32::try_from(stat.session) != Ok(stat.pid) {
                continue;
            }
            let Some(key) = session::variable(stat.pid, "ORCA_PANE_KEY") else { continue };
            let known = by_key.entry(key).or_insert_with(|| stat.clone());
            if stat.start_ticks < known.start_ticks {
                *known = stat;
            }
        }
        for terminal in terminals {
            let Some(listed) = self.panes.get(&terminal.id) else { continue };
            if let Some(stat) = by_key.get(listed.pane.key.as_bytes()) {
                terminal.leader = process::identify(stat.pid).ok();
                terminal.tty = Some(stat.tty_nr);
            }
        }
    }

    fn look_again(&self, terminal: &mut Terminal, budget: Budget) {
        let Some(listed) = self.panes.get(&terminal.id) else { return };
        terminal.again = match self.show(&terminal.id, budget) {
            Err(fault) => Again::Unreadable(fault.text()),
            Ok(Reply::Refused(refusal)) if refusal.is_any(&GONE) => Again::Changed(refusal.text()),
            Ok(Reply::Refused(refusal)) => Again::Unreadable(refusal.text()),
            Ok(Reply::Done(shown)) => match looked(&shown, listed.run_pty.as_deref(), listed.last_output) {
                Ok((again, waits)) => {
                    terminal.idle = waits.unwrap_or_else(|| terminal.idle.clone());
                    again
                }
                Err(why) => Again::Unreadable(why),
            },
        };
    }

    fn text(&self, terminal: &Terminal, budget: Budget) -> Result<Option<Vec<u8>>, Fault> {
        let read = ["terminal", "read", "--terminal", &terminal.id];
        let result = need(&self.program, &read, budget)?;
        Ok(Some(serde_json::to_vec_pretty(&result).unwrap_or_default()))
    }

    /// One pane, by its handle: never the tab (it takes neighbours along), never without a handle
    /// (that is the active terminal).
    fn close(&self, terminal: &Terminal, budget: Budget) -> Closing {
        match ask(&self.program, &["terminal", "close", "--terminal", &terminal.id], budget) {
            Ok(Reply::Done(_)) => Closing::Asked,
            // The stop is under way or not confirmed: what became of it is looked at afterwards.
            Ok(Reply::Refused(r)) if r.is_any(&["terminal_stop_live", "terminal_stop_unverifiable"]) => {
                Closing::Asked
            }
            Ok(Reply::Refused(refusal)) if refusal.is_any(&GONE) => Closing::Gone,
            Ok(Reply::Refused(refusal)) => Closing::Failed(refusal.text()),
            Err(fault) => Closing::Failed(fault.text()),
        }
    }

    fn present(&self, budget: Budget) -> Result<HashSet<String>, Fault> {
        let (values, omitted) = self.terminals(budget)?;
        // Not in a list that leaves its host out is not gone.
        if !omitted.is_subset(&self.omitted) {
            return Err(Fault::Unavailable(
                "terminals of some hosts are not in the list any more".to_owned(),
            ));
        }
        Ok(values.iter().filter_map(|value| text(value, "handle").map(str::to_owned)).collect())
    }
}
