//! tmux: one server. Ids only, `-u` always, a kill that the server itself guards.

mod facts;
mod list;
mod own;

pub(crate) use own::Inside;

use crate::model::terminal::{Again, Belongs, Idle, Output, Processes, Terminal};
use crate::os::process::{self, Pin};
use crate::os::session;
use crate::runner::{Budget, Closing, Fault, Runner, TerminalListing, first_line};
use facts::Seen;
use list::{CLIENTS, FORMAT, PaneRow, Said, literal};
use own::Own;
use regex_lite::Regex;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::Command;

/// Printed by the server when the pane is not what it was.
const REFUSED: &str = "orion-refused";
/// Lines of the screen an idle prompt is looked for in.
const PROMPT_LINES: usize = 10;

/// One tmux server.
#[derive(Debug)]
pub(crate) struct Tmux {
    /// `None` is the default socket, or the server we run in.
    socket: Option<OsString>,
    /// What an idle screen shows, where the person trusts screens.
    prompt: Option<Regex>,
    inside: Option<Inside>,
    rows: HashMap<String, PaneRow>,
    /// Start ticks of the first process of each pane that may be closed, as they were listed.
    starts: HashMap<String, u64>,
    server: Option<crate::model::identity::ProcessIdentity>,
}

impl Tmux {
    /// The server behind `socket`: a name, a path if there is a slash in it, or the default.
    pub(crate) fn new(socket: Option<OsString>, prompt: Option<Regex>, inside: Option<Inside>) -> Self {
        Self { socket, prompt, inside, rows: HashMap::new(), starts: HashMap::new(), server: None }
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

    /// Every pane and every client, in one round trip.
    fn rows(&self, budget: Budget) -> Result<Said, Fault> {
        let mut command = self.tmux();
        command.args(["list-panes", "-a", "-F", FORMAT, ";", "list-clients", "-F", CLIENTS]);
        let answer = budget.call(&mut command)?;
        if !answer.status.success() {
            return Err(refusal(&answer.stderr));
        }
        let said = list::read(&answer.stdout);
        if said.rows.is_empty() {
            // A server without a pane does not exist: this is some other answer ("access not allowed", with 0).
            let words = [first_line(&answer.stdout), first_line(&answer.stderr)];
            let words = words.into_iter().find(|line| !line.is_empty()).unwrap_or_default();
            return Err(Fault::Unavailable(format!("tmux did not answer with a list of panes: {words}")));
        }
        Ok(said)
    }

    fn terminal(&self, row: &PaneRow, seen: &Seen<'_>) -> Terminal {
        let (stat, belongs) = seen.whose_run(row);
        let mine = matches!(belongs, Belongs::Named(_) | Belongs::Part(_));
        let tty = stat.as_ref().map(|stat| stat.tty_nr);
        Terminal {
            id: row.pane.clone(),
            title: String::from_utf8_lossy(&row.title).into_owned(),
            own: seen.own.has(row, tty),
            dead: row.dead,
            started: stat.as_ref().map(|stat| session::started(stat.start_ticks)),
            output: if mine && !row.dead { facts::output(row, tty) } else { Output::default() },
            idle: facts::idle(row, self.prompt.is_some()),
            viewer: facts::viewer(row, &seen.said.clients),
            session: seen.session(row),
            leader: None,
            tty,
            belongs,
            newest_of_reuse: false,
            close_last: row.shown,
            processes: Processes::NotAsked,
            again: Again::NotAsked,
        }
    }
}

fn refusal(stderr: &[u8]) -> Fault {
    let text = first_line(stderr);
    // No file means no server; a refused connection is a file one has left behind.
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
        let said = self.rows(budget)?;
        let seen = Seen::new(&said, named, Own::find(self.inside.as_ref(), budget));
        let terminals = said.rows.iter().map(|row| self.terminal(row, &seen)).collect();
        self.starts = seen.starts();
        self.server = said.rows.first().and_then(|row| process::identify(row.server_pid).ok());
        let warnings = match said.unreadable {
            0 => Vec::new(),
            count => vec![format!("{count} lines of list-panes could not be read; those panes are kept")],
        };
        self.rows = said.rows.into_iter().map(|row| (row.pane.clone(), row)).collect();
        Ok(TerminalListing { terminals, warnings, precheck_limit: None })
    }

    fn ask_idle(&self, terminal: &mut Terminal, budget: Budget) {
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
    fn map_processes(&self, terminals: &mut [&mut Terminal]) {
        for terminal in terminals {
            let Some(row) = self.rows.get(&terminal.id) else { continue };
            let start = self.starts.get(&terminal.id).copied();
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
    fn look_again(&self, terminal: &mut Terminal, budget: Budget) {
        let Some(row) = self.rows.get(&terminal.id) else { return };
        let mut command = self.tmux();
        command.args(["show-options", "-p", "-q", "-v", "-t", &terminal.id, "@orion_state", ";"]);
        command.args(["list-clients", "-F", CLIENTS]);
        terminal.again = match budget.call(&mut command) {
            Ok(answer) if !answer.status.success() => Again::Changed(first_line(&answer.stderr)),
            Ok(answer) => {
                terminal.viewer = facts::viewer(row, &list::read(&answer.stdout).clients);
                // The first line only: hooks of the user may print more.
                let own = answer.stdout.split(|byte| *byte == b'\n').next().unwrap_or_default();
                let own = if own.starts_with(b"orion-client|") { &[][..] } else { own };
                if own == row.state.as_slice() {
                    Again::Same
                } else if own.is_empty() {
                    terminal.idle = Idle::No("its mark is inherited, not its own".to_owned());
                    Again::Same
                } else {
                    Again::Changed("its mark has changed".to_owned())
                }
            }
            Err(fault) => Again::Unreadable(fault.text()),
        };
    }

    fn text(&self, terminal: &Terminal, budget: Budget) -> Result<Option<Vec<u8>>, Fault> {
        let mut command = self.tmux();
        command.args(["capture-pane", "-p", "-J", "-S", "-", "-t", &terminal.id]);
        let answer = budget.call(&mut command)?;
        if answer.status.success() { Ok(Some(answer.stdout)) } else { Err(refusal(&answer.stderr)) }
    }

    fn close(&self, terminal: &Terminal, budget: Budget) -> Closing {
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

    fn present(&self, budget: Budget) -> Result<HashSet<String>, Fault> {
        match self.rows(budget) {
            // Ids begin again at %0 with each server: those of a new one are other panes.
            Ok(said)
                if said.rows.first().is_none_or(|row| !self.is_server(row.server_pid))
                    && self.server_ended() =>
            {
                Ok(HashSet::new())
            }
            Ok(said) if said.unreadable > 0 => {
                Err(Fault::Unavailable(format!("{} lines of list-panes could not be read", said.unreadable)))
            }
            Ok(said) => Ok(said.rows.into_iter().map(|row| row.pane).collect()),
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
        ("pane_dead", if row.dead { b"1".to_vec() } else { b"0".to_vec() }),
        ("pane_in_mode", row.modes.clone().into_bytes()),
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
