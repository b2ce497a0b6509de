//! Calling another program and getting rid of it: each call in a process group of
//! its own, with a deadline, its output through pipes of ours that nobody else
//! keeps open for us. What a call leaves behind is killed.

use crate::os::proc;
use crate::os::process::{PidFd, wait_any};
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, set_child_subreaper, waitpid};
use signal_hook::consts::{SIGINT, SIGQUIT};
use signal_hook::low_level;
use std::collections::HashSet;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// More output than this is not an answer.
const MOST: usize = 64 << 20;
/// A launcher may end before the child that holds its pipe: what is written by then counts.
const LINGER: Duration = Duration::from_millis(200);
/// How long the dead may take to be collected.
const COLLECT: Duration = Duration::from_millis(300);

/// What a program said before it ended.
#[derive(Debug)]
pub(crate) struct CallAnswer {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    NotFound,
    TimedOut,
    TooMuch,
    Failed(io::Error),
}

/// Groups at work. A leader stays uncollected while it is listed, so its number cannot become anybody else's.
#[derive(Debug)]
struct Groups {
    leaders: Vec<u32>,
    /// Killed, and being collected by the thread that called them: nobody else's to collect.
    ending: Vec<u32>,
    closed: bool,
}

static GROUPS: Mutex<Groups> = Mutex::new(Groups { leaders: Vec::new(), ending: Vec::new(), closed: false });
/// Orphans of our calls come to us, and only to kill those we look.
static ADOPTS: AtomicBool = AtomicBool::new(false);

fn groups() -> MutexGuard<'static, Groups> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes this process the parent of what its calls orphan (PR_SET_CHILD_SUBREAPER), so that
/// a program which left its group is found as well. Not where children exist already: a shell
/// that became us may have started them, and they are not ours to end.
pub(crate) fn adopt_orphans() {
    if children().is_ok_and(|children| children.is_empty())
        && set_child_subreaper(Some(rustix::process::getpid())).is_ok()
    {
        ADOPTS.store(true, Ordering::Relaxed);
    }
}

/// From now on INT and QUIT end what was called, and then this process, as they would have by themselves.
/// A call has its own process group, so Ctrl-C does not reach it. Where a signal was ignored from the start
/// (nohup, a job in the background of sh) it stays so.
pub(crate) fn end_with_interrupts() {
    let mut ears = Vec::new();
    for signal in [SIGINT, SIGQUIT].into_iter().filter(|signal| !is_ignored(*signal)) {
        let Ok((ear, mouth)) = UnixStream::pair() else { return };
        ears.push((signal, ear, mouth));
    }
    // The thread first: a handler that nobody listens to would swallow the signal.
    let (send, heard) = mpsc::channel::<(i32, UnixStream)>();
    let thread = std::thread::Builder::new().spawn(move || {
        let ears: Vec<(i32, UnixStream)> = heard.iter().collect();
        let fds: Vec<_> = ears.iter().map(|(_, ear)| ear.as_fd()).collect();
        if let Ok(ready) = wait_any(&fds, None)
            && let Some((signal, _)) = ready.first().and_then(|at| ears.get(*at))
        {
            abandon();
            drop(low_level::emulate_default_handler(*signal));
        }
    });
    if thread.is_err() {
        return;
    }
    for (signal, ear, mouth) in ears {
        if send.send((signal, ear)).is_ok() {
            drop(low_level::pipe::register(signal, mouth));
        }
    }
}

/// `SigIgn` of proc_pid_status(5).
fn is_ignored(signal: i32) -> bool {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = text.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    u32::try_from(signal - 1).is_ok_and(|bit| mask & (1 << bit) != 0)
}

/// Ends every call at work and refuses new ones: for the last moment before this process ends.
pub(crate) fn abandon() {
    let mut groups = groups();
    groups.closed = true;
    for leader in &groups.leaders {
        kill_group(*leader);
    }
    let leaders = groups.leaders.clone();
    drop(groups);
    // What a leader leaves behind comes to us when the leader has ended, and not before (exit(2) of the
    // kernel hands children on first, then tells).
    let end = Instant::now() + COLLECT;
    for leader in leaders {
        if let Ok(fd) = PidFd::open(leader) {
            drop(fd.wait(Some(end.saturating_duration_since(Instant::now()))));
        }
    }
    sweep();
}

/// Runs a program with nothing on stdin for at most `cap` and gives what it wrote.
///
/// # Errors
/// [`NoAnswer`]; nothing of the program runs on after that either.
pub(crate) fn call(command: &mut Command, cap: Duration) -> Result<CallAnswer, NoAnswer> {
    call_with(command, Stdio::null(), cap)
}

/// The same with something on stdin: a file, because a pipe would have to be fed.
///
/// # Errors
/// As [`call`].
pub(crate) fn call_with(command: &mut Command, input: Stdio, cap: Duration) -> Result<CallAnswer, NoAnswer> {
    let end = Instant::now() + cap;
    let mut running = RunningCall::start(command, input)?;
    let result = running.collect(end);
    running.finish();
    stay_if_abandoned();
    let (stdout, stderr) = result?;
    let status = running.child.try_wait().map_err(NoAnswer::Failed)?.ok_or(NoAnswer::TimedOut)?;
    Ok(CallAnswer { status, stdout, stderr })
}

/// This process is about to end, and whoever called has nothing true to say any more.
fn stay_if_abandoned() {
    while groups().closed {
        std::thread::park();
    }
}

struct RunningCall {
    child: Child,
    finished: bool,
}

impl RunningCall {
    fn start(command: &mut Command, input: Stdio) -> Result<Self, NoAnswer> {
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut groups = groups();
        if groups.closed {
            drop(groups);
            stay_if_abandoned();
            return Err(NoAnswer::TimedOut);
        }
        let child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => NoAnswer::NotFound,
            _ => NoAnswer::Failed(error),
        })?;
        groups.leaders.push(child.id());
        Ok(Self { child, finished: false })
    }

    fn collect(&mut self, end: Instant) -> Result<(Vec<u8>, Vec<u8>), NoAnswer> {
        let leader = PidFd::open(self.child.id()).map_err(|errno| NoAnswer::Failed(errno.into()))?;
        let (mut out, mut err) = (self.child.stdout.take(), self.child.stderr.take());
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let mut linger: Option<Instant> = None;
        while out.is_some() || err.is_some() || linger.is_none() {
            let until = linger.map_or(end, |linger| linger.min(end));
            let mut fds = Vec::new();
            let mut whose = Vec::new();
            if let Some(out) = &out {
                fds.push(out.as_fd());
                whose.push(0);
            }
            if let Some(err) = &err {
                fds.push(err.as_fd());
                whose.push(1);
            }
            if linger.is_none() {
                fds.push(leader.as_fd());
                whose.push(2);
            }
            let left = until.saturating_duration_since(Instant::now());
            let ready = wait_any(&fds, Some(left)).map_err(NoAnswer::Failed)?;
            if ready.is_empty() {
                return if linger.is_some() { Ok((stdout, stderr)) } else { Err(NoAnswer::TimedOut) };
            }
            let ready: HashSet<i32> = ready.iter().map(|at| whose[*at]).collect();
            if ready.contains(&0) && drain(&mut out, &mut stdout)? {
                out = None;
            }
            if ready.contains(&1) && drain(&mut err, &mut stderr)? {
                err = None;
            }
            if ready.contains(&2) {
                linger = Some(Instant::now() + LINGER);
            }
            if stdout.len() + stderr.len() > MOST {
                return Err(NoAnswer::TooMuch);
            }
            // One that writes for ever keeps its pipe ready for ever.
            if Instant::now() >= end {
                return Err(NoAnswer::TimedOut);
            }
        }
        Ok((stdout, stderr))
    }

    /// Kills the group while its leader still holds the number, then collects everybody.
    fn finish(&mut self) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        let pid = self.child.id();
        let mut list = groups();
        kill_group(pid);
        list.leaders.retain(|leader| *leader != pid);
        list.ending.push(pid);
        drop(list);
        let patience = Instant::now() + COLLECT;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < patience {
            if let Ok(fd) = PidFd::open(pid) {
                drop(fd.wait(Some(patience.saturating_duration_since(Instant::now()))));
            }
        }
        let mut list = groups();
        list.ending.retain(|leader| *leader != pid);
        let last = list.leaders.is_empty();
        drop(list);
        // What other calls orphaned meanwhile may still be at work for them: the last one cleans up.
        if last {
            sweep();
        }
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.finish();
    }
}

/// One read of what is there; true at the end of the stream.
fn drain<R: Read>(source: &mut Option<R>, into: &mut Vec<u8>) -> Result<bool, NoAnswer> {
    let Some(source) = source else { return Ok(true) };
    let mut chunk = [0; 1 << 16];
    match source.read(&mut chunk) {
        Ok(0) => Ok(true),
        Ok(count) => {
            into.extend_from_slice(&chunk[..count]);
            Ok(false)
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(error) => Err(NoAnswer::Failed(error)),
    }
}

fn kill_group(leader: u32) {
    if let Some(group) = i32::try_from(leader).ok().and_then(Pid::from_raw)
        // 1 as a group would be kill(-1): everybody.
        && leader > 1
    {
        kill_process_group(group, Signal::KILL).ok();
    }
}

/// Kills and collects what our calls orphaned, generation by generation.
fn sweep() {
    if !ADOPTS.load(Ordering::Relaxed) {
        return;
    }
    let end = Instant::now() + COLLECT;
    while Instant::now() < end {
        let Ok(children) = children() else { return };
        let list = groups();
        let called = |pid: &u32| list.leaders.contains(pid) || list.ending.contains(pid);
        // An orphan in the group of a call that began meanwhile belongs to that call.
        let in_a_group = |pid: u32| {
            let group = proc::stat(pid).ok().and_then(|stat| u32::try_from(stat.pgrp).ok());
            group.is_some_and(|group| !list.closed && list.leaders.contains(&group))
        };
        let strangers: Vec<u32> =
            children.into_iter().filter(|pid| !called(pid) && !in_a_group(*pid)).collect();
        drop(list);
        if strangers.is_empty() {
            return;
        }
        for pid in strangers {
            // A child of ours keeps its number until we collect it.
            let Ok(fd) = PidFd::open(pid) else { continue };
            drop(fd.signal(Signal::KILL));
            drop(fd.wait(Some(end.saturating_duration_since(Instant::now()))));
            waitpid(i32::try_from(pid).ok().and_then(Pid::from_raw), WaitOptions::NOHANG).ok();
        }
    }
}

/// Our children, of whichever thread; from the whole of /proc where the kernel lists none.
fn children() -> io::Result<Vec<u32>> {
    let mut found = Vec::new();
    for task in std::fs::read_dir("/proc/self/task")? {
        match std::fs::read_to_string(task?.path().join("children")) {
            Ok(text) => found.extend(text.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok())),
            Err(_) => return children_by_search(),
        }
    }
    Ok(found)
}

fn children_by_search() -> io::Result<Vec<u32>> {
    let me = std::process::id();
    let pids = proc::pids()?.into_iter();
    Ok(pids.filter(|pid| proc::stat(*pid).is_ok_and(|stat| stat.ppid == me)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn pid_in(text: &[u8]) -> u32 {
        String::from_utf8_lossy(text).trim().parse().expect("a pid")
    }

    fn gone(pid: u32) -> bool {
        PidFd::open(pid).is_ok_and(|fd| fd.wait(Some(Duration::from_secs(20))).unwrap_or(false))
            || PidFd::open(pid).is_err()
    }

    #[test]
    fn output_and_status_come_back() {
        let answer =
            call(&mut sh("echo out; echo err >&2; exit 3"), Duration::from_secs(60)).expect("answer");
        assert_eq!(answer.stdout, b"out\n");
        assert_eq!(answer.stderr, b"err\n");
        assert_eq!(answer.status.code(), Some(3));
        let none = call(&mut Command::new("/nonexistent/program"), Duration::from_secs(60));
        assert!(matches!(none, Err(NoAnswer::NotFound)));
    }

    #[test]
    fn a_child_that_keeps_the_pipe_does_not_keep_us() {
        let begin = Instant::now();
        let answer = call(&mut sh("sleep 600 & echo $!"), Duration::from_secs(60)).expect("answer");
        assert!(begin.elapsed() < Duration::from_secs(30));
        assert!(gone(pid_in(&answer.stdout)), "the whole group is gone");
    }

    #[test]
    fn a_hang_that_ignores_term_ends_at_the_cap() {
        let begin = Instant::now();
        let mut command = sh("trap '' TERM HUP INT; while :; do sleep 1; done");
        assert!(matches!(call(&mut command, Duration::from_millis(300)), Err(NoAnswer::TimedOut)));
        let mut command = sh("yes");
        assert!(matches!(
            call(&mut command, Duration::from_millis(300)),
            Err(NoAnswer::TimedOut | NoAnswer::TooMuch)
        ));
        assert!(begin.elapsed() < Duration::from_secs(30));
    }
}
