//! What a process started. A child subreaper (prctl(2), `PR_SET_CHILD_SUBREAPER`)
//! inherits every orphan below it, so whatever a command leaves behind stays below
//! its supervisor, with or without a session of its own.

use crate::os::proc::{self, ProcStat};
use crate::os::process::PidFd;
use crate::os::signals::Caught;
use nix::libc;
use rustix::process::{
    Signal, WaitId, WaitIdOptions, WaitOptions, getpid, set_child_subreaper, wait, waitid,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// From now on orphans below this process become its children.
///
/// # Errors
/// EINVAL before kernel 3.4.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// What waiting for children gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collected {
    /// This child has ended, and its number is free again.
    One(u32, ExitStatus),
    /// Children live; none has ended.
    Nobody,
    /// There are no children.
    Childless,
}

/// Takes note of one ended child.
pub(crate) fn reap() -> Collected {
    loop {
        return match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => Collected::One(
                u32::try_from(pid.as_raw_nonzero().get()).unwrap_or(0),
                ExitStatus::from_raw(status.as_raw()),
            ),
            Ok(None) => Collected::Nobody,
            Err(rustix::io::Errno::CHILD) => Collected::Childless,
            // EINTR. Whatever else it might be, it is not proof that nobody is left.
            Err(_) => continue,
        };
    }
}

/// Was this child stopped since the last look (waitid(2), WSTOPPED)?
pub(crate) fn has_stopped(child: &PidFd) -> bool {
    let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
    waitid(WaitId::PidFd(child.as_fd()), options).is_ok_and(|status| status.is_some_and(|it| it.stopped()))
}

/// Everything that runs below `root` now, parents before their children. Whatever `except`
/// names among the children of `root` is left out with all below it.
///
/// One look: a process whose parent ends in the middle of it is seen by the next one.
///
/// # Errors
/// `/proc` cannot be listed.
pub(crate) fn below(root: u32, except: &[u32]) -> io::Result<Vec<ProcStat>> {
    let mut children: BTreeMap<u32, Vec<ProcStat>> = BTreeMap::new();
    for pid in proc::pids()? {
        if let Ok(stat) = proc::stat(pid) {
            children.entry(stat.ppid).or_default().push(stat);
        }
    }
    let mut found: Vec<ProcStat> = Vec::new();
    let mut heads = vec![root];
    while let Some(head) = heads.pop() {
        for child in children.remove(&head).unwrap_or_default() {
            if head == root && except.contains(&child.pid) {
                continue;
            }
            heads.push(child.pid);
            if runs(&child) {
                found.push(child);
            }
        }
    }
    Ok(found)
}

/// A zombie has ended, unless it is a leader that left its threads behind.
fn runs(stat: &ProcStat) -> bool {
    let dead = |state: char| matches!(state, 'Z' | 'X' | 'x');
    !dead(stat.state)
        || proc::thread_states(stat.pid).is_ok_and(|states| states.into_iter().any(|state| !dead(state)))
}

/// A process below `root`, opened for a signal. `None`: it has ended, or the number is somebody else's now.
fn open(member: &ProcStat, members: &BTreeSet<u32>, root: u32) -> Option<PidFd> {
    let fd = PidFd::open(member.pid).ok()?;
    let now = proc::stat(member.pid).ok()?;
    // Equal start ticks alone would not tell a number that was handed out again within the tick.
    let same = now.start_ticks == member.start_ticks && (now.ppid == root || members.contains(&now.ppid));
    (same && !fd.ended().ok()?).then_some(fd)
}

/// Opens everything that runs below `root`, parents first.
///
/// # Errors
/// `/proc` cannot be listed.
pub(crate) fn open_below(root: u32, except: &[u32]) -> io::Result<Vec<(ProcStat, PidFd)>> {
    let members = below(root, except)?;
    let pids: BTreeSet<u32> = members.iter().map(|member| member.pid).collect();
    Ok(members
        .into_iter()
        .filter_map(|member| {
            let fd = open(&member, &pids, root)?;
            Some((member, fd))
        })
        .collect())
}

/// Sends TERM; a stopped process gets it when it goes on.
///
/// # Errors
/// EPERM; one that has ended is not an error.
pub(crate) fn ask(fd: &PidFd) -> io::Result<()> {
    signal(fd, Signal::TERM)
}

/// Sends TERM and then CONT, so that a stopped process gets it too.
///
/// # Errors
/// EPERM; one that has ended is not an error.
pub(crate) fn ask_to_end(fd: &PidFd) -> io::Result<()> {
    ask(fd)?;
    resume(fd)
}

/// Sends KILL.
///
/// # Errors
/// EPERM; one that has ended is not an error.
pub(crate) fn kill(fd: &PidFd) -> io::Result<()> {
    signal(fd, Signal::KILL)
}

/// Lets a stopped process go on.
///
/// # Errors
/// EPERM; one that has ended is not an error.
pub(crate) fn resume(fd: &PidFd) -> io::Result<()> {
    signal(fd, Signal::CONT)
}

/// Passes a signal on.
///
/// # Errors
/// EPERM; one that has ended is not an error.
pub(crate) fn pass_on(fd: &PidFd, caught: Caught) -> io::Result<()> {
    Signal::from_named_raw(caught.signal as i32).map_or(Ok(()), |same| signal(fd, same))
}

fn signal(fd: &PidFd, signal: Signal) -> io::Result<()> {
    match fd.signal(signal) {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    #[test]
    fn children_and_their_children_are_found_and_strangers_are_left_out() {
        // A job in the background finds /dev/null at 0.
        let script = "exec 3<&0; setsid sh -c 'echo ready; read x <&3' & read x";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("stdout")).read_line(&mut line).expect("ready");
        let me = std::process::id();
        let members = below(me, &[]).expect("members");
        let first = members.iter().position(|member| member.pid == child.id()).expect("the child");
        let second = members.iter().position(|member| member.ppid == child.id()).expect("its child");
        assert!(first < second, "parents first");
        assert!(members[second].session != members[first].session, "a session of its own hides nothing");
        let opened = open_below(child.id(), &[]).expect("members");
        assert_eq!(opened.len(), 1);
        let without = below(me, &[child.id()]).expect("members");
        assert!(without.iter().all(|member| member.pid != child.id() && member.ppid != child.id()));
        drop(child.stdin.take());
        child.wait().expect("end");
    }
}
