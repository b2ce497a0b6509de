//! tmux: one server. Ids only, `-u` always, a kill that the server itself guards.

mod list;

use crate::model::mark::{AgentMark, MarkWord};
use crate::model::terminal::{Again, Belongs, Idle, Output, Processes, Terminal};
use crate::model::time::WallTime;
use crate::os::process::{self, Pin};
use crate::os::{proc, pty, session};
use crate::runner::{Budget, Closing, Fault, Runner, TerminalListing, first_line};
use list::{FORMAT, PaneRow, literal};
use regex_lite::Regex;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::Command;
use std::str;

/// Printed by the server when the pane is not what it was.
const REFUSED: &str = "orion-refused";
/// Lines of the screen an idle prompt is looked for in.
const PROMPT_LINES: usize = 10;

/// The tmux pane this process was started in, from TMUX and TMUX_PANE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inside {
    pub(crate) socket: String,
    pub(crate) server_pid: u32,
    pub(crate) pane: String,
}

impl Inside {
    /// From the values of both variables: `SOCKET,SERVER_PID,SESSION` and `%N`.
    pub(crate) fn parse(tmux: &str, pane: &str) -> Option<Self> {
        let mut parts = tmux.rsplitn(3, ',');
        let (_, pid, socket) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?);
        Some(Self { socket: socket.to_owned(), server_pid: pid, pane: pane.to_owned() })
    }
}

/// One tmux server.
#[derive(Debug)]
pub(crate) struct Tmux {
    /// `None` is the default socket, or the server we run in.
    socket: Option<OsString>,
    /// What an idle screen shows, where the person trusts screens.
    prompt: Option<Regex>,
    inside: Option<Inside>,
    rows: HashMap<String, PaneRow>,
    server: Option<crate::model::identity::ProcessIdentity>,
}

impl Tmux {
    /// The server behind `socket`: a name, a path if there is a slash in it, or the default.
    pub(crate) fn new(socket: Option<OsString>, prompt: Option<Regex>, inside: Option<Inside>) -> Self {
        Self { socket, prompt, inside, rows: HashMap::new(), server: None }
    }

    fn tmux(&self) -> Command {
        let mut command = Command::new("tmux");
        // Without -u and a UTF-8 locale, tmux writes _ for everything but ASCII.
        command.arg("-u");
        if let Some(socket) = &self.socket {
            let path = socket.as_encoded_bytes().contains(&b'/');
            command.arg(if path { "-S" } else { "-L" }).arg(socket);
        }
        command
    }

    fn rows(&self, budget: Budget) -> Result<(Vec<PaneRow>, usize), Fault> {
        let answer = budget.call(self.tmux().args(["list-panes", "-a", "-F", FORMAT]))?;
        if !answer.status.success() {
            return Err(refusal(&answer.stderr));
        }
        Ok(list::rows(&answer.stdout))
    }

    fn terminal(&self, row: &PaneRow, named: &[String], own: &Own) -> Terminal {
        let (stat, belongs) = whose_run(row, named);
        let mine = matches!(belongs, Belongs::Named(_));
        let tty = stat.as_ref().map(|stat| stat.tty_nr);
        Terminal {
            id: row.pane.clone(),
            title: String::from_utf8_lossy(&row.title).into_owned(),
            own: own.has(row, tty),
            dead: row.dead,
            started: stat.as_ref().map(|stat| session::started(stat.start_ticks)),
            output: if mine { output(row, tty) } else { Output::default() },
            idle: self.idle(row),
            leader: None,
            tty,
            belongs,
            newest_of_reuse: false,
            close_last: row.shown,
            processes: Processes::NotAsked,
            again: Again::NotAsked,
        }
    }

    fn idle(&self, row: &PaneRow) -> Idle {
        let state = String::from_utf8_lossy(&row.state);
        if state.is_empty() {
            return match self.prompt {
                Some(_) => Idle::NotAsked,
                None => Idle::No("its agent never said idle (orion-mark)".to_owned()),
            };
        }
        match AgentMark::parse(&state) {
            Err(why) => Idle::No(format!("its mark is not understood: {why}")),
            Ok(mark) => match mark.word {
                MarkWord::Idle | MarkWord::Ended => Idle::MarkedAt(mark.at),
                MarkWord::Busy | MarkWord::Working => Idle::Busy("marked busy by its agent".to_owned()),
                MarkWord::Question => {
                    Idle::Question("marked as waiting for a person by its agent".to_owned())
                }
                MarkWord::Ready => Idle::No("its agent has not begun a turn".to_owned()),
            },
        }
    }
}

/// Whose run it is, by the tag and by what /proc shows now.
fn whose_run(row: &PaneRow, named: &[String]) -> (Option<proc::ProcStat>, Belongs) {
    if row.run.is_empty() {
        return (None, Belongs::NoRun);
    }
    let Some(tag) = list::tag(&row.run) else {
        return (None, Belongs::NotItsOwn("its tag is not one of orion-mark's".to_owned()));
    };
    if tag.pane != row.pane || tag.pid != row.pane_pid {
        let text = format!("its tag is of pane {} with pid {}", tag.pane, tag.pid);
        return (None, Belongs::NotItsOwn(text));
    }
    if !named.contains(&tag.automation) {
        return (None, Belongs::Other(tag.automation));
    }
    // The old number of a dead pane may be anybody's by now.
    if row.dead {
        return (None, Belongs::Named(tag.automation));
    }
    match proc::stat(row.pane_pid) {
        Ok(stat) if stat.start_ticks == tag.start_ticks => (Some(stat), Belongs::Named(tag.automation)),
        Ok(_) => (None, Belongs::NotItsOwn(format!("its tag is of another process with pid {}", tag.pid))),
        Err(error) => {
            let why = format!("/proc/{}/stat: {}", row.pane_pid, crate::error::reason(&error));
            (None, Belongs::Unreadable(why))
        }
    }
}

/// The clocks of a pane. tmux counts in whole seconds: the end of the second is the bound.
fn output(row: &PaneRow, tty: Option<i32>) -> Output {
    let end_of = |seconds: u64| WallTime(seconds.saturating_mul(1000).saturating_add(999));
    let (tmux, which) = match row.last_output {
        Some(seconds) => (end_of(seconds), "pane_last_output_time"),
        None => (end_of(row.window_activity), "window_activity"),
    };
    match tty.ok_or(std::io::ErrorKind::NotFound.into()).and_then(|tty| pty::clocks(&row.tty, tty)) {
        Ok(clocks) => {
            let device = clocks.written_by.max(clocks.read_by);
            let source = if device > tmux { "the terminal device" } else { which };
            Output {
                moved: Some(tmux.max(device)),
                printed_by: Some(tmux.min(clocks.written_by)),
                source: source.to_owned(),
            }
        }
        Err(error) => Output {
            moved: None,
            printed_by: None,
            source: format!("{}: {}", row.tty, crate::error::reason(&error)),
        },
    }
}

/// Where this process itself runs.
struct Own {
    inside: Option<Inside>,
    /// Us and our callers.
    pids: HashSet<u32>,
    ttys: HashSet<i32>,
    /// Terminals that show the tmux we are in: we are nested there.
    outer: HashSet<String>,
}

impl Own {
    fn find(inside: Option<&Inside>, budget: Budget) -> Self {
        let chain = process::ancestors().unwrap_or_default();
        let me = proc::stat(std::process::id()).ok();
        let callers = || chain.iter().map(|one| (one.pid, one.tty_nr));
        let all = || callers().chain(me.iter().map(|one| (one.pid, one.tty_nr)));
        Self {
            inside: inside.cloned(),
            pids: all().map(|(pid, _)| pid).collect(),
            ttys: all().map(|(_, tty)| tty).filter(|tty| *tty != 0).collect(),
            outer: inside.map(|inside| clients(&inside.socket, budget)).unwrap_or_default(),
        }
    }

    fn has(&self, row: &PaneRow, tty: Option<i32>) -> bool {
        self.pids.contains(&row.pane_pid)
            || tty.is_some_and(|tty| self.ttys.contains(&tty))
            || self.outer.contains(&row.tty)
            || self.inside.as_ref().is_some_and(|i| i.pane == row.pane && i.server_pid == row.server_pid)
    }
}

/// The terminals of everybody attached to a server.
fn clients(socket: &str, budget: Budget) -> HashSet<String> {
    let mut command = Command::new("tmux");
    command.args(["-u", "-S", socket, "list-clients", "-F", "#{client_tty}"]);
    let answer = budget.call(&mut command).ok().filter(|answer| answer.status.success());
    let text = answer.map(|answer| String::from_utf8_lossy(&answer.stdout).into_owned()).unwrap_or_default();
    text.lines().filter(|line| line.starts_with("/dev/")).map(str::to_owned).collect()
}

fn refusal(stderr: &[u8]) -> Fault {
    let text = first_line(stderr);
    // No file is no server; a refused connection is a file one has left behind.
    let nobody = text.contains("no server running")
        || (text.contains("error connecting")
            && (text.contains("No such file") || text.contains("Connection refused")));
    if nobody { Fault::NoServer(text) } else { Fault::Unavailable(format!("tmux: {text}")) }
}

impl Runner for Tmux {
    fn label(&self) -> String {
        match &self.socket {
            Some(socket) => format!("tmux {}", socket.to_string_lossy()),
            None => "tmux".to_owned(),
        }
    }

    fn list(&mut self, named: &[String], budget: Budget) -> Result<TerminalListing, Fault> {
        let (rows, unreadable) = self.rows(budget)?;
        let own = Own::find(self.inside.as_ref(), budget);
        let terminals = rows.iter().map(|row| self.terminal(row, named, &own)).collect();
        self.server = rows.first().and_then(|row| process::identify(row.server_pid).ok());
        self.rows = rows.into_iter().map(|row| (row.pane.clone(), row)).collect();
        let warnings = match unreadable {
            0 => Vec::new(),
            count => vec![format!("{count} lines of list-panes could not be read; those panes are kept")],
        };
        Ok(TerminalListing { terminals, warnings, precheck_limit: None })
    }

    fn ask_idle(&mut self, terminal: &mut Terminal, budget: Budget) {
        let Some(prompt) = &self.prompt else { return };
        let mut command = self.tmux();
        command.args(["capture-pane", "-p", "-t", &terminal.id]);
        terminal.idle = match budget.call(&mut command) {
            Ok(answer) if answer.status.success() => {
                let text = String::from_utf8_lossy(&answer.stdout).into_owned();
                let mut last = text.lines().rev().filter(|line| !line.trim().is_empty()).take(PROMPT_LINES);
                match last.find(|line| prompt.is_match(line)) {
                    Some(line) => Idle::Yes(format!("its screen shows {}", line.trim())),
                    None => Idle::No("no line at the end of its screen matches --idle-match".to_owned()),
                }
            }
            Ok(answer) => Idle::Unreadable(first_line(&answer.stderr)),
            Err(fault) => Idle::Unreadable(fault.text()),
        };
    }

    /// Only for those that could be closed: identifying a process is most of what a pane costs.
    fn map_processes(&mut self, terminals: &mut [&mut Terminal]) {
        for terminal in terminals {
            let Some(row) = self.rows.get(&terminal.id) else { continue };
            let start = list::tag(&row.run).map(|tag| tag.start_ticks);
            match process::identify(row.pane_pid) {
                Ok(identity) if Some(identity.start_ticks) == start => terminal.leader = Some(identity),
                _ => {
                    terminal.belongs =
                        Belongs::NotItsOwn("its first process went while we looked".to_owned());
                }
            }
        }
    }

    /// The kill itself compares everything else; what a format cannot tell is whether
    /// the mark is the pane's own or comes down from its window, session or server.
    fn look_again(&mut self, terminal: &mut Terminal, budget: Budget) {
        let Some(row) = self.rows.get(&terminal.id) else { return };
        let mut command = self.tmux();
        command.args(["show-options", "-p", "-q", "-v", "-t", &terminal.id, "@orion_state"]);
        terminal.again = match budget.call(&mut command) {
            Ok(answer) if !answer.status.success() => Again::Changed(first_line(&answer.stderr)),
            // The first line only: hooks of the user may print more.
            Ok(answer) if answer.stdout.split(|byte| *byte == b'\n').next() == Some(&row.state) => {
                Again::Same
            }
            Ok(answer) if answer.stdout.is_empty() => {
                terminal.idle = Idle::No("its mark is inherited, not its own".to_owned());
                Again::Same
            }
            Ok(_) => Again::Changed("its mark has changed".to_owned()),
            Err(fault) => Again::Unreadable(fault.text()),
        };
    }

    fn text(&mut self, terminal: &Terminal, budget: Budget) -> Result<Option<Vec<u8>>, Fault> {
        let mut command = self.tmux();
        command.args(["capture-pane", "-p", "-J", "-S", "-", "-t", &terminal.id]);
        let answer = budget.call(&mut command)?;
        if answer.status.success() { Ok(Some(answer.stdout)) } else { Err(refusal(&answer.stderr)) }
    }

    fn close(&mut self, terminal: &Terminal, budget: Budget) -> Closing {
        let Some(row) = self.rows.get(&terminal.id) else {
            return Closing::Failed("not in the list".to_owned());
        };
        let mut command = self.tmux();
        command.args(["if-shell", "-F", "-t", &row.pane]);
        command.arg(OsString::from_vec(unchanged_condition(row)));
        command.arg(format!("kill-pane -t {}", row.pane));
        command.arg(format!("display-message -p {REFUSED}"));
        match budget.call(&mut command) {
            Err(fault) => Closing::Failed(fault.text()),
            Ok(answer)
                if answer.stdout.split(|byte| *byte == b'\n').any(|line| line == REFUSED.as_bytes()) =>
            {
                Closing::Refused("its process, marks or activity changed since the list".to_owned())
            }
            Ok(answer) if first_line(&answer.stderr).contains("can't find pane") => Closing::Gone,
            // The last pane takes the server along, and then the client's own words mean nothing.
            Ok(_) => Closing::Asked,
        }
    }

    fn present(&mut self, budget: Budget) -> Result<HashSet<String>, Fault> {
        match self.rows(budget) {
            // Ids begin again at %0 with each server: those of a new one are other panes.
            Ok((rows, _))
                if rows.first().is_none_or(|row| !self.is_server(row.server_pid)) && self.server_ended() =>
            {
                Ok(HashSet::new())
            }
            Ok((_, unreadable)) if unreadable > 0 => {
                Err(Fault::Unavailable(format!("{unreadable} lines of list-panes could not be read")))
            }
            Ok((rows, _)) => Ok(rows.into_iter().map(|row| row.pane).collect()),
            Err(_) if self.server_ended() => Ok(HashSet::new()),
            Err(fault) => Err(fault),
        }
    }
}

impl Tmux {
    fn is_server(&self, pid: u32) -> bool {
        self.server.as_ref().is_some_and(|server| server.pid == pid)
    }

    fn server_ended(&self) -> bool {
        self.server.as_ref().is_some_and(|server| matches!(process::pin(server), Pin::Ended))
    }
}

/// The condition under which the server closes a pane: nothing is other than it was listed.
fn unchanged_condition(row: &PaneRow) -> Vec<u8> {
    let mut equal: Vec<(&str, Vec<u8>)> = vec![
        ("pid", row.server_pid.to_string().into_bytes()),
        ("start_time", row.server_start.clone().into_bytes()),
        ("pane_pid", row.pane_pid.to_string().into_bytes()),
        ("pane_dead", b"0".to_vec()),
        ("window_activity", row.window_activity.to_string().into_bytes()),
        ("@orion_run", literal(&row.run)),
        ("@orion_state", literal(&row.state)),
    ];
    if let Some(seconds) = row.last_output {
        equal.push(("pane_last_output_time", seconds.to_string().into_bytes()));
    }
    let mut condition = b"1".to_vec();
    for (field, value) in equal {
        let one = [b"#{==:#{", field.as_bytes(), b"},", &value, b"}"].concat();
        condition = [b"#{&&:", one.as_slice(), b",", &condition, b"}"].concat();
    }
    condition
}
