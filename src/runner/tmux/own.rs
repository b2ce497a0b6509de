//! Where this process itself runs: the pane that is never closed.

use super::list::PaneRow;
use crate::os::{proc, process};
use crate::runner::Budget;
use std::collections::HashSet;
use std::process::Command;

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

/// Where this process itself runs.
pub(super) struct Own {
    inside: Option<Inside>,
    /// Us and our callers.
    pids: HashSet<u32>,
    ttys: HashSet<i32>,
    /// Terminals that show the tmux we are in: we are nested there.
    outer: HashSet<String>,
}

impl Own {
    pub(super) fn find(inside: Option<&Inside>, budget: Budget) -> Self {
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

    pub(super) fn has(&self, row: &PaneRow, tty: Option<i32>) -> bool {
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
