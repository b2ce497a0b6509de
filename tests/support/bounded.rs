//! A bound on every command that a test runs to its end.

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io::Write;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// As [`Command::output`]; a command that has not ended after `most` is killed, and the test fails.
/// Where something else keeps its output open even then, the whole test program ends: a fault must not hang.
#[track_caller]
pub(crate) fn output(command: &mut Command, most: Duration) -> Output {
    let what = format!("{command:?}");
    let task = rustix::thread::gettid();
    let before = children(task);
    let killed = AtomicBool::new(false);
    let (ended, wait) = channel::<()>();
    let out = std::thread::scope(|scope| {
        let (what, killed, before) = (&what, &killed, &before);
        scope.spawn(move || {
            if wait.recv_timeout(most) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            killed.store(true, Ordering::SeqCst);
            // More than once: it may be about to be started.
            for _ in 0..200 {
                children(task).iter().filter(|pid| !before.contains(pid)).for_each(|pid| kill(task, *pid));
                if wait.recv_timeout(Duration::from_millis(100)) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
            // Not println: what a test prints is lost with its program.
            let line = format!("{what} was killed after {most:?}, and its output stays open\n");
            drop(std::io::stderr().write_all(line.as_bytes()));
            std::process::abort();
        });
        // Not spawn(): what was set for its output stays, what was not is a pipe.
        let out = command.output();
        drop(ended);
        out
    });
    let out = out.unwrap_or_else(|error| panic!("{what}: {error}"));
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        !killed.load(Ordering::SeqCst),
        "{what} did not end in {most:?}; stdout: {}\nstderr: {}",
        said(&out.stdout),
        said(&out.stderr)
    );
    out
}

/// The children that a thread of ours started and nobody has waited for yet.
fn children(task: Pid) -> Vec<Pid> {
    let path = format!("/proc/self/task/{}/children", task.as_raw_nonzero());
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

/// Ends a child of ours; while it stands in the list, its number cannot be another's.
fn kill(task: Pid, pid: Pid) {
    if let Ok(child) = pidfd_open(pid, PidfdFlags::empty())
        && children(task).contains(&pid)
    {
        let _ = pidfd_send_signal(&child, Signal::KILL);
    }
}
