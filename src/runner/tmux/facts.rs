//! What a row of tmux and /proc together say about one pane.

use super::list::{self, PaneRow, Said};
use super::own::Own;
use crate::model::mark::{AgentMark, MarkedBy};
use crate::model::terminal::{Belongs, Idle, Output, Viewer};
use crate::model::time::WallTime;
use crate::os::{proc, pty};
use std::cell::RefCell;
use std::collections::HashMap;

/// One list, and whose sessions are in it.
pub(super) struct Seen<'a> {
    pub(super) said: &'a Said,
    pub(super) own: Own,
    named: &'a [String],
    /// Sessions that were made for a run of a named automation.
    sessions: HashMap<&'a str, String>,
    starts: RefCell<HashMap<String, u64>>,
}

impl<'a> Seen<'a> {
    pub(super) fn new(said: &'a Said, named: &'a [String], own: Own) -> Self {
        let mut sessions = HashMap::new();
        for row in &said.rows {
            let Some(tag) = list::tag(&row.run).filter(|tag| named.contains(&tag.automation)) else {
                continue;
            };
            for (id, name) in &row.sessions {
                if is_made_for(name, &tag.automation) {
                    sessions.insert(id.as_str(), tag.automation.clone());
                }
            }
        }
        Self { said, own, named, sessions, starts: RefCell::default() }
    }

    /// The session a pane shares with a run.
    pub(super) fn session(&self, row: &PaneRow) -> Option<String> {
        row.sessions.iter().map(|(id, _)| id).find(|id| self.sessions.contains_key(id.as_str())).cloned()
    }

    /// Start ticks of the first process of each pane that was looked up.
    pub(super) fn starts(self) -> HashMap<String, u64> {
        self.starts.into_inner()
    }

    /// Whose run it is, by the tag and by what /proc shows now.
    pub(super) fn whose_run(&self, row: &PaneRow) -> (Option<proc::ProcStat>, Belongs) {
        let part = || {
            let session = row.sessions.iter().find_map(|(id, _)| self.sessions.get(id.as_str()));
            session.map_or(Belongs::NoRun, |automation| Belongs::Part(automation.clone()))
        };
        let (tag, belongs) = if row.run.is_empty() {
            match part() {
                Belongs::NoRun => return (None, Belongs::NoRun),
                part => (None, part),
            }
        } else {
            let Some(tag) = list::tag(&row.run) else {
                return (None, Belongs::NotItsOwn("its tag is not one of orion-mark's".to_owned()));
            };
            if tag.pane != row.pane || tag.pid != row.pane_pid {
                let text = format!("its tag is of pane {} with pid {}", tag.pane, tag.pid);
                return (None, Belongs::NotItsOwn(text));
            }
            if !self.named.contains(&tag.automation) {
                return (None, Belongs::Other(tag.automation));
            }
            let belongs = Belongs::Named(tag.automation.clone());
            (Some(tag), belongs)
        };
        // The old number of a dead pane may be anybody's by now.
        if row.dead {
            return (None, belongs);
        }
        match proc::stat(row.pane_pid) {
            Ok(stat) if tag.as_ref().is_none_or(|tag| stat.start_ticks == tag.start_ticks) => {
                self.starts.borrow_mut().insert(row.pane.clone(), stat.start_ticks);
                (Some(stat), belongs)
            }
            Ok(stat) => {
                (None, Belongs::NotItsOwn(format!("its tag is of another process with pid {}", stat.pid)))
            }
            Err(error) => {
                let why = format!("/proc/{}/stat: {}", row.pane_pid, crate::error::reason(&error));
                (None, Belongs::Unreadable(why))
            }
        }
    }
}

/// Is it the name that orion-fire gives to the session of a run: `orion-AUTOMATION-PID`?
fn is_made_for(session: &[u8], automation: &str) -> bool {
    let plain: String = automation
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' })
        .collect();
    let rest = session.strip_prefix(format!("orion-{plain}-").as_bytes());
    rest.is_some_and(|pid| !pid.is_empty() && pid.iter().all(u8::is_ascii_digit))
}

/// What its mark says. A screen is asked only where no hook ever spoke.
pub(super) fn idle(row: &PaneRow, screen: bool) -> Idle {
    if row.state.is_empty() {
        return if screen { Idle::NotAsked } else { Idle::Unmarked };
    }
    let Ok(state) = std::str::from_utf8(&row.state) else {
        return Idle::No("its mark is not understood: it is not UTF-8".to_owned());
    };
    match AgentMark::parse(state) {
        Err(why) => Idle::No(format!("its mark is not understood: {why}")),
        Ok(mark) if screen && mark.by == MarkedBy::Claim && !mark.is_hooked() => Idle::NotAsked,
        Ok(mark) => Idle::Marked(mark),
    }
}

/// Who looks at it.
pub(super) fn viewer(row: &PaneRow, clients: &[(String, u64)]) -> Viewer {
    let here = clients.iter().filter(|(session, _)| row.sessions.iter().any(|(id, _)| id == session));
    let second = |seconds: u64| WallTime(seconds.saturating_mul(1000));
    let active = here.map(|(_, active)| *active).max();
    Viewer {
        attached: active.is_some(),
        active: active.map(second),
        in_mode: !matches!(row.modes.as_str(), "" | "0"),
        came: row.came.map(second),
    }
}

/// The clocks of a pane. tmux counts in whole seconds: the end of the second is the bound.
pub(super) fn output(row: &PaneRow, tty: Option<i32>) -> Output {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_of_a_run_has_the_name_that_orion_fire_gave_it() {
        assert!(is_made_for(b"orion-nightly-4711", "nightly"));
        assert!(is_made_for(b"orion-my_nightly_run-1", "my nightly run"));
        for other in [
            &b"nightly"[..],
            b"orion-nightly-",
            b"orion-nightly-2-4711",
            b"orion-nightly-47x",
            b"orion-night-4711",
        ] {
            assert!(!is_made_for(other, "nightly"), "{}", String::from_utf8_lossy(other));
        }
    }

    #[test]
    fn a_screen_is_asked_only_where_no_hook_spoke() {
        let row = |state: &[u8]| PaneRow { state: state.to_vec(), ..PaneRow::default() };
        assert_eq!(idle(&row(b""), false), Idle::Unmarked);
        for silent in [&b""[..], b"busy 5 by=claim"] {
            assert_eq!(idle(&row(silent), true), Idle::NotAsked);
        }
        for spoken in [&b"busy 5 by=hook"[..], b"idle 5", b"busy 5", b"busy 5 by=claim idle=1"] {
            assert!(matches!(idle(&row(spoken), true), Idle::Marked(_)));
        }
        assert!(matches!(idle(&row(b"idle \xff"), false), Idle::No(_)));
    }

    #[test]
    fn only_clients_of_its_own_sessions_look_at_a_pane() {
        let row = PaneRow {
            sessions: vec![("$1".into(), vec![]), ("$3".into(), vec![])],
            modes: "1".into(),
            ..PaneRow::default()
        };
        let clients = [("$1".to_owned(), 5), ("$3".to_owned(), 7), ("$2".to_owned(), 9)];
        let seen = viewer(&row, &clients);
        assert_eq!((seen.attached, seen.active, seen.in_mode), (true, Some(WallTime(7000)), true));
        assert!(!viewer(&row, &clients[2..]).attached);
    }
}
