//! Processes that have the environment of a run and nothing else of it. Some agents close the descriptors of
//! what they start; a tool of theirs that leaves its session has then neither the pulse nor a parent of the run.
//!
//! A weaker sign than the pulse, because an environment can be copied: such a process keeps a terminal and is
//! named, and it is never sent a signal.

use crate::os::run_pulse::RunPulse;
use crate::os::session::{Table, variable};
use std::collections::{HashMap, HashSet};

/// Who has the environment of the runs of these pulses, among processes that began at `since` (clock ticks
/// since boot) or later and have no terminal: in a terminal of its own it is somebody's, not the run's.
/// `locks` is the variable that names the locks of a run.
pub(crate) fn of(
    wanted: &HashSet<RunPulse>,
    locks: &str,
    table: &Table,
    since: u64,
) -> HashMap<RunPulse, Vec<u32>> {
    let mut found: HashMap<RunPulse, Vec<u32>> = HashMap::new();
    if wanted.is_empty() {
        return found;
    }
    for stat in table.all().filter(|stat| stat.tty_nr == 0 && stat.start_ticks >= since && !stat.kernel) {
        let Some(held) = variable(stat.pid, locks) else { continue };
        for pulse in wanted.iter().filter(|pulse| names(&held, pulse)) {
            found.entry(pulse.clone()).or_default().push(stat.pid);
        }
    }
    found
}

/// `a:1 b:2`, as `orion-lock run` exports it.
fn names(locks: &[u8], pulse: &RunPulse) -> bool {
    let Some(lock) = &pulse.lock else { return false };
    let wanted = format!("{lock}:{}", pulse.token);
    locks.split(|byte| *byte == b' ').any(|word| word == wanted.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::proc;
    use std::process::{Command, Stdio};

    #[test]
    fn only_the_very_lock_and_token_count() {
        let pulse = RunPulse::of_lock("a.b", 12);
        assert!(names(b"a.b:12", &pulse) && names(b"x:1 a.b:12 y:2", &pulse));
        for other in [&b"a.b:1"[..], b"a.b:123", b"aa.b:12", b"a.b", b"", b"A.B:12"] {
            assert!(!names(other, &pulse), "{}", String::from_utf8_lossy(other));
        }
        let mut ticket = pulse;
        ticket.lock = None;
        assert!(!names(b"a.b:12", &ticket), "no lock of ours");
    }

    #[test]
    fn a_process_without_a_terminal_that_has_the_environment_is_found() {
        let start = |locks: &str| {
            let mut command = Command::new("setsid");
            command.args(["sh", "-c", "echo; exec cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.env("ORION_LOCKS", locks).spawn().expect("setsid");
            // It has its environment and its session by the time that it speaks.
            let mut line = [0];
            std::io::Read::read_exact(child.stdout.as_mut().expect("stdout"), &mut line).expect("a line");
            child
        };
        let (mut heir, mut stranger) = (start("outer:5 sync:77"), start("sync:78"));
        let pulse = RunPulse::of_lock("sync", 77);
        let wanted = HashSet::from([pulse.clone()]);
        let table = Table::read().expect("table");
        let began = proc::stat(heir.id()).expect("stat").start_ticks;
        let found = |since| of(&wanted, "ORION_LOCKS", &table, since).remove(&pulse).unwrap_or_default();
        assert_eq!(found(began), [heir.id()]);
        assert!(found(began + 1).is_empty(), "it began before the run");
        assert!(of(&HashSet::new(), "ORION_LOCKS", &table, 0).is_empty());
        for child in [&mut heir, &mut stranger] {
            child.kill().expect("kill");
            child.wait().expect("wait");
        }
    }
}
