//! Looks at recorded owners: facts for the liveness verdict.

use crate::error::reason;
use crate::model::identity::ProcessIdentity;
use crate::model::observation::{KillFacts, OwnerFacts, PidFdFacts, ProcFacts, SearchFacts};
use crate::os::proc;
use crate::os::process::PidFd;
use nix::errno::Errno;
use rustix::process::{Pid, test_kill_process};

/// Looks an owner up by its number: through a pidfd when both sides know pidfs inodes.
pub(crate) fn by_number(owner: &ProcessIdentity, pidfs: bool) -> OwnerFacts {
    match owner.pidfs_ino {
        Some(inode) if pidfs => OwnerFacts::ByPidFd(by_pidfd(owner.pid, inode)),
        _ => OwnerFacts::ByProc(by_proc(owner.pid), by_kill(owner.pid)),
    }
}

fn by_pidfd(pid: u32, recorded: u64) -> PidFdFacts {
    let fd = match PidFd::open(pid) {
        Ok(fd) => fd,
        Err(Errno::ESRCH | Errno::EINVAL | Errno::ENOENT) => return PidFdFacts::Absent,
        Err(errno) => return PidFdFacts::Refused(reason(&errno.into())),
    };
    match (fd.inode(), fd.ended()) {
        (Some(inode), _) if inode != recorded => PidFdFacts::OtherInode,
        (Some(_), Ok(ended)) => PidFdFacts::SameInode { ended },
        (Some(_), Err(error)) => PidFdFacts::Refused(reason(&error)),
        (None, _) => PidFdFacts::Refused("its pidfd has no inode".into()),
    }
}

/// `/proc/PID`. A process that vanishes in the middle is looked at once more.
fn by_proc(pid: u32) -> ProcFacts {
    let look = || -> std::io::Result<ProcFacts> {
        let stat = proc::stat(pid)?;
        let (tgid, _) = proc::tgid_and_uid(pid)?;
        let dead = |states: &[char]| {
            !states.is_empty() && states.iter().all(|state| matches!(state, 'Z' | 'X' | 'x'))
        };
        let first = proc::thread_states(pid)?;
        let all_threads_dead = dead(&first) && proc::thread_states(pid)? == first;
        Ok(ProcFacts::Seen { start_ticks: stat.start_ticks, tgid, all_threads_dead })
    };
    let once = look();
    let result = match once {
        Err(error) if proc::is_gone(&error) => look(),
        other => other,
    };
    result.unwrap_or_else(|error| {
        if proc::is_gone(&error) { ProcFacts::Absent } else { ProcFacts::Unreadable(reason(&error)) }
    })
}

/// `kill(pid, 0)` sends nothing; it only says whether the number is taken.
fn by_kill(pid: u32) -> KillFacts {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return KillFacts::Unclear };
    match test_kill_process(pid) {
        Ok(()) | Err(rustix::io::Errno::PERM | rustix::io::Errno::ACCESS) => KillFacts::Present,
        Err(rustix::io::Errno::SRCH) => KillFacts::Absent,
        Err(_) => KillFacts::Unclear,
    }
}

/// Searches every process for the owners' pidfd inodes, seen from the initial pid
/// namespace. Missing is said only after two complete passes.
pub(crate) fn by_search(owners: &[ProcessIdentity]) -> Vec<OwnerFacts> {
    let mut facts = vec![SearchFacts::Missing; owners.len()];
    for _pass in 0..2 {
        let complete = one_pass(owners, &mut facts);
        for fact in facts.iter_mut().filter(|fact| **fact == SearchFacts::Missing) {
            if !complete {
                *fact = SearchFacts::Incomplete;
            }
        }
    }
    facts.into_iter().map(OwnerFacts::BySearch).collect()
}

/// `false` when somebody could not be looked at.
fn one_pass(owners: &[ProcessIdentity], facts: &mut [SearchFacts]) -> bool {
    let Ok(pids) = proc::pids() else { return false };
    let mut complete = true;
    for pid in pids {
        let fd = match PidFd::open(pid) {
            Ok(fd) => fd,
            Err(Errno::ESRCH | Errno::EINVAL | Errno::ENOENT) => continue,
            Err(_) => {
                complete = false;
                continue;
            }
        };
        let Some(inode) = fd.inode() else {
            complete = false;
            continue;
        };
        for (owner, fact) in owners.iter().zip(facts.iter_mut()) {
            if owner.pidfs_ino == Some(inode) {
                *fact = match fd.ended() {
                    Ok(true) => SearchFacts::Ended,
                    Ok(false) => SearchFacts::Running,
                    Err(_) => SearchFacts::Incomplete,
                };
            }
        }
    }
    complete
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::process::identify;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_is_seen_alike_by_number_by_proc_and_by_search() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat");
        let mut owner = identify(child.id()).expect("identity");
        let has_pidfs = owner.pidfs_ino.is_some();
        if has_pidfs {
            assert_eq!(by_number(&owner, true), OwnerFacts::ByPidFd(PidFdFacts::SameInode { ended: false }));
            assert_eq!(by_search(&[owner.clone()]), [OwnerFacts::BySearch(SearchFacts::Running)]);
        }
        let OwnerFacts::ByProc(
            ProcFacts::Seen { start_ticks, all_threads_dead: false, .. },
            KillFacts::Present,
        ) = by_number(&owner, false)
        else {
            panic!("it runs")
        };
        assert_eq!(start_ticks, owner.start_ticks);
        child.kill().expect("kill");
        let fd = PidFd::open(owner.pid).expect("a zombie has one");
        assert!(fd.wait(None).expect("wait"));
        assert!(matches!(by_proc(owner.pid), ProcFacts::Seen { all_threads_dead: true, .. }), "a zombie");
        child.wait().expect("reaped");
        assert_eq!(by_number(&owner, false), OwnerFacts::ByProc(ProcFacts::Absent, KillFacts::Absent));
        if has_pidfs {
            assert_eq!(by_search(&[owner.clone()]), [OwnerFacts::BySearch(SearchFacts::Missing)]);
            owner.pid = std::process::id();
            assert_eq!(by_number(&owner, true), OwnerFacts::ByPidFd(PidFdFacts::OtherInode));
        }
    }
}
