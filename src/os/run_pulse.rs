//! The pulse of a run, found from its first process: which lock it stands for, and who else carries it.

use crate::os::{fdinfo, proc};
use rustix::fs::stat;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

/// `orion-lock run` and the bash library put the pulse on a number that is not lower.
const LEAST: u32 = 10;

/// One pulse: a read lock on the byte of a token in the pulse file of a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RunPulse {
    device: u64,
    inode: u64,
    /// The token of the run.
    pub(crate) token: u64,
    /// The name of the lock, where the file is one of `locks/`; a ticket has none.
    pub(crate) lock: Option<String>,
}

/// The pulses that a process carries. What cannot be seen is left out: descent still tells.
pub(crate) fn of(pid: u32) -> Vec<RunPulse> {
    let mut found: Vec<RunPulse> = Vec::new();
    for (name, lock) in fdinfo::locks_of(pid, LEAST).unwrap_or_default() {
        if lock.kind != "OFDLCK" || lock.write || lock.end != Some(lock.start) {
            continue;
        }
        let path = proc::path(pid, "fd").join(&name);
        let (Ok(target), Ok(file)) = (fs::read_link(&path), stat(&path)) else { continue };
        let Some(stem) = pulse_name(&target) else { continue };
        let in_locks = target.parent().and_then(Path::file_name).is_some_and(|folder| folder == "locks");
        let pulse = RunPulse {
            device: file.st_dev,
            inode: file.st_ino,
            token: lock.start,
            lock: in_locks.then_some(stem),
        };
        if !found.contains(&pulse) {
            found.push(pulse);
        }
    }
    found
}

/// `…/NAME.pulse`, also after a cleaner removed it.
fn pulse_name(target: &Path) -> Option<String> {
    let name = target.file_name()?.to_str()?;
    let name = name.strip_suffix(" (deleted)").unwrap_or(name);
    name.strip_suffix(".pulse").map(str::to_owned)
}

/// Who carries each of these pulses now, among the processes that can be seen.
pub(crate) fn carriers(wanted: &HashSet<RunPulse>) -> HashMap<RunPulse, Vec<u32>> {
    let mut found: HashMap<RunPulse, Vec<u32>> = HashMap::new();
    if wanted.is_empty() {
        return found;
    }
    let tokens: HashSet<u64> = wanted.iter().map(|pulse| pulse.token).collect();
    for pid in proc::pids().unwrap_or_default() {
        let locks = fdinfo::locks_of(pid, LEAST).unwrap_or_default();
        // Most processes carry none: the files themselves are looked at only for a token that is meant.
        if !locks.iter().any(|(_, lock)| lock.kind == "OFDLCK" && !lock.write && tokens.contains(&lock.start))
        {
            continue;
        }
        for pulse in of(pid).into_iter().filter(|pulse| wanted.contains(pulse)) {
            found.entry(pulse).or_default().push(pid);
        }
    }
    found
}

#[cfg(test)]
impl RunPulse {
    /// The pulse of a run of this lock, in no file.
    pub(crate) fn of_lock(lock: &str, token: u64) -> Self {
        Self { device: 0, inode: 0, token, lock: Some(lock.to_owned()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::dir::Dir;
    use crate::os::pulse;

    #[test]
    fn a_pulse_tells_its_lock_and_its_carriers() {
        let temp = tempfile::tempdir().expect("dir");
        fs::create_dir(temp.path().join("locks")).expect("locks");
        let dir = Dir::open(&temp.path().join("locks")).expect("open");
        let me = std::process::id();
        let kept = pulse::lock(pulse::open(&dir, "sync").expect("open"), 77).expect("lock");
        let found = of(me);
        let pulse = found.iter().find(|pulse| pulse.token == 77).expect("ours");
        assert_eq!(pulse.lock.as_deref(), Some("sync"));
        let carriers = carriers(&HashSet::from([pulse.clone()]));
        assert_eq!(carriers[pulse], [me]);
        drop(kept);
        assert!(of(me).iter().all(|pulse| pulse.token != 77));
    }

    #[test]
    fn only_pulse_files_count() {
        assert_eq!(pulse_name(Path::new("/x/locks/a.b.pulse")).as_deref(), Some("a.b"));
        assert_eq!(pulse_name(Path::new("/x/locks/a.pulse (deleted)")).as_deref(), Some("a"));
        assert_eq!(pulse_name(Path::new("/x/locks/a.guard")), None);
    }
}
