//! The tmux pane that this process runs in, and the marks on it.
//!
//! A mark belongs to the pane whose first process the marker descends from. The variables TMUX and TMUX_PANE are
//! only a hint where to look: a daemon that an agent left behind, or somebody's copied environment, carries those
//! of another pane.

use crate::os::lineage;
use crate::os::proc::ProcStat;
use crate::runner::tmux::Inside;
use crate::runner::{Budget, Fault, first_line};
use std::ffi::{OsStr, OsString};
use std::process::Command;

/// What the panes of a server are compared by.
const PANES: &str = "P #{pane_id} #{pane_pid} #{pid}";
/// Printed by the server when the mark is not what it was.
const CHANGED: &str = "orion-changed";
/// The name of a tmux server's process.
const SERVER: &str = "tmux: server";

/// A pane whose first process is one of our callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnPane {
    socket: OsString,
    /// `%3`.
    pub(crate) id: String,
    /// Its first process.
    pub(crate) leader: ProcStat,
    /// The callers between this process and the leader, parent first, the leader last.
    pub(crate) callers: Vec<ProcStat>,
}

/// Where this process is.
#[derive(Debug)]
pub(crate) enum Whereabouts {
    /// In this pane.
    Pane(OwnPane),
    /// In none, and nothing says that it should be.
    NotInTmux,
    /// A variable names a pane, but this process does not descend from any pane of that server. The text says
    /// which server and pane.
    Stranger(String),
}

fn tmux(socket: &OsStr) -> Command {
    let mut command = Command::new("tmux");
    // Named, so that a pane of another server never gets a mark that was meant for this one.
    command.arg("-u").arg("-S").arg(socket);
    command
}

/// Looks for the pane of this process; `hint` is what TMUX and TMUX_PANE say.
///
/// # Errors
/// [`Fault`] where a server does not answer, or /proc cannot be read.
pub(crate) fn find(hint: Option<&Inside>, budget: Budget) -> Result<Whereabouts, Fault> {
    let chain = lineage::callers().map_err(|error| Fault::Unavailable(format!("/proc: {error}")))?;
    let mut sockets: Vec<OsString> = hint.iter().map(|inside| OsString::from(&inside.socket)).collect();
    // The child of a server was started with a TMUX that is true.
    let below = chain.iter().zip(chain.iter().skip(1)).find(|(_, parent)| parent.comm == SERVER);
    let above = below.and_then(|(child, _)| lineage::variable(child.pid, "TMUX"));
    let above = above.and_then(|value| Inside::parse(value.to_str()?, ""));
    sockets.extend(above.map(|inside| OsString::from(inside.socket)));
    sockets.dedup();
    let mut fault = None;
    for socket in &sockets {
        match pane_on(socket, &chain, budget) {
            Ok(Some(pane)) => return Ok(Whereabouts::Pane(pane)),
            Ok(None) => {}
            Err(error) => fault = Some(error),
        }
    }
    match (fault, hint) {
        (Some(fault), _) => Err(fault),
        (None, Some(hint)) => {
            Ok(Whereabouts::Stranger(format!("TMUX and TMUX_PANE name {} of {}", hint.pane, hint.socket)))
        }
        (None, None) => Ok(Whereabouts::NotInTmux),
    }
}

/// The innermost pane of a server that one of the callers is the first process of.
fn pane_on(socket: &OsStr, chain: &[ProcStat], budget: Budget) -> Result<Option<OwnPane>, Fault> {
    let answer = budget.call(tmux(socket).args(["list-panes", "-a", "-F", PANES]))?;
    if !answer.status.success() {
        return Err(Fault::Unavailable(format!("tmux: {}", first_line(&answer.stderr))));
    }
    let text = String::from_utf8_lossy(&answer.stdout);
    let panes: Vec<(&str, u32, u32)> = text.lines().filter_map(pane).collect();
    Ok(chain.iter().enumerate().find_map(|(place, caller)| {
        // The parent is compared too: in a pid namespace of our own the numbers are other people's.
        let (id, ..) = panes.iter().find(|(_, pid, server)| (*pid, *server) == (caller.pid, caller.ppid))?;
        Some(OwnPane {
            socket: socket.to_owned(),
            id: (*id).to_owned(),
            leader: caller.clone(),
            callers: chain[..=place].to_vec(),
        })
    }))
}

fn pane(line: &str) -> Option<(&str, u32, u32)> {
    let mut words = line.strip_prefix("P ")?.split(' ');
    Some((words.next()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

impl OwnPane {
    /// The pane's own mark, not one that its window, session or server hands down; empty for none.
    ///
    /// # Errors
    /// [`Fault`].
    pub(crate) fn mark(&self, budget: Budget) -> Result<String, Fault> {
        let mut command = tmux(&self.socket);
        command.args(["show-options", "-p", "-q", "-v", "-t", &self.id, "@orion_state"]);
        let answer = budget.call(&mut command)?;
        if !answer.status.success() {
            return Err(Fault::Unavailable(format!("tmux: {}", first_line(&answer.stderr))));
        }
        Ok(first_line(&answer.stdout))
    }

    /// Sets the mark if it still is `before`, and says whether it was: hooks of tools that run side by side
    /// set marks side by side. With `None`, whatever stands there.
    ///
    /// # Errors
    /// [`Fault`].
    pub(crate) fn change(&self, before: Option<&str>, after: &str, budget: Budget) -> Result<bool, Fault> {
        let mut command = tmux(&self.socket);
        // Other bytes than those of a mark would have to be quoted, and are not worth keeping.
        let plain =
            |text: &&str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" =:".contains(&byte));
        if let Some(before) = before.filter(plain) {
            command.args(["if-shell", "-F", "-t", &self.id]);
            command.arg(format!("#{{==:#{{@orion_state}},{before}}}"));
            command.arg(format!("set-option -p -t {} @orion_state '{after}'", self.id));
            command.arg(format!("display-message -p {CHANGED}"));
        } else {
            command.args(["set-option", "-p", "-t", &self.id, "@orion_state", after]);
        }
        let answer = budget.call(&mut command)?;
        if !answer.status.success() {
            return Err(Fault::Unavailable(format!("tmux: {}", first_line(&answer.stderr))));
        }
        Ok(first_line(&answer.stdout) != CHANGED)
    }

    /// Says whose run it is, with a mark to begin with, in one call: a mark of whoever was here before must
    /// not stand under the new name.
    ///
    /// # Errors
    /// [`Fault`].
    pub(crate) fn claim(&self, automation: &str, mark: &str, budget: Budget) -> Result<(), Fault> {
        let run = format!("{automation} {} {} {}", self.id, self.leader.pid, self.leader.start_ticks);
        let mut command = tmux(&self.socket);
        command.args(["set-option", "-p", "-t", &self.id, "@orion_state", mark, ";"]);
        // A ; at the end of an argument would be tmux's own; the tag ends in a number.
        command.args(["set-option", "-p", "-t", &self.id, "@orion_run", &run]);
        let answer = budget.call(&mut command)?;
        if answer.status.success() {
            Ok(())
        } else {
            Err(Fault::Unavailable(format!("tmux: {}", first_line(&answer.stderr))))
        }
    }
}
