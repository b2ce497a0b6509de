//! Processes of a test that cannot outlive it, and whose every wait has a bound.

use super::{Done, LONG, eventually};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A child that has said its first line; killed and waited for at the end of the test. No wait for it
/// is without a bound: a fault fails the test instead of hanging it.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Heard<ChildStdout>,
    stderr: Heard<ChildStderr>,
    /// Its first line.
    pub(crate) line: String,
}

/// A pipe and what came out of it that nobody has taken yet.
#[derive(Debug)]
struct Heard<P> {
    pipe: P,
    bytes: Vec<u8>,
    ended: bool,
}

impl<P: Read + AsFd> Heard<P> {
    fn of(pipe: P) -> Self {
        Self { pipe, bytes: Vec::new(), ended: false }
    }

    /// Reads what is there; the pipe must be readable.
    fn read(&mut self) {
        let mut some = [0; 4096];
        let count = self.pipe.read(&mut some).unwrap();
        self.ended |= count == 0;
        self.bytes.extend_from_slice(&some[..count]);
    }
}

impl Running {
    /// Starts it with pipes and waits for its first line: the handshake.
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdin = child.stdin.take();
        let stdout = Heard::of(child.stdout.take().unwrap());
        let stderr = Heard::of(child.stderr.take().unwrap());
        let mut running = Self { child, stdin, stdout, stderr, line: String::new() };
        running.line = running.next_line();
        if running.line.is_empty() {
            let done = running.end();
            panic!("{command:?} said nothing: {done:?}");
        }
        running
    }

    /// Its pid, which is ours to signal until it was waited for.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its first line as a number.
    #[track_caller]
    pub(crate) fn number(&self) -> u32 {
        self.line.parse().unwrap_or_else(|_| panic!("not a number: {}", self.line))
    }

    /// Its next line; empty at the end of its output.
    #[track_caller]
    pub(crate) fn next_line(&mut self) -> String {
        let whole = |running: &Self| running.stdout.ended || running.stdout.bytes.contains(&b'\n');
        self.listen("its next line", whole);
        let bytes = &mut self.stdout.bytes;
        let length = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
        let line: Vec<u8> = bytes.drain(..length).collect();
        String::from_utf8(line).unwrap().trim_end().to_owned()
    }

    /// Reads both pipes, so that it never waits for us, until `enough`. What it said is in the failure.
    #[track_caller]
    fn listen(&mut self, what: &str, enough: impl Fn(&Self) -> bool) {
        let end = Instant::now() + LONG;
        while !enough(self) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(self.child.kill());
                let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let (out, err) = (said(&self.stdout.bytes), said(&self.stderr.bytes));
                panic!("{what} did not come in {}s; stdout: {out}\nstderr: {err}", LONG.as_secs());
            }
            let wait = rustix::event::Timespec::try_from(left).unwrap();
            let flags = rustix::event::PollFlags::IN;
            let mut open = Vec::new();
            for (at, pipe) in [(0, self.stdout.pipe.as_fd()), (1, self.stderr.pipe.as_fd())] {
                if !([self.stdout.ended, self.stderr.ended][at]) {
                    open.push((at, rustix::event::PollFd::from_borrowed_fd(pipe, flags)));
                }
            }
            let mut fds: Vec<_> = open.iter().map(|(_, fd)| fd.clone()).collect();
            rustix::event::poll(&mut fds, Some(&wait)).unwrap();
            let ready: Vec<usize> = open
                .iter()
                .zip(&fds)
                .filter(|(_, fd)| !fd.revents().is_empty())
                .map(|((at, _), _)| *at)
                .collect();
            for at in ready {
                if at == 0 { self.stdout.read() } else { self.stderr.read() }
            }
        }
    }

    /// Writes a line to its stdin.
    pub(crate) fn tell(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_raw(self.child.id().cast_signed()).unwrap(), signal).unwrap();
    }

    /// Kills it with SIGKILL and waits for it.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Closes its stdin, and waits for its end and for the end of its output.
    #[track_caller]
    pub(crate) fn end(&mut self) -> Done {
        drop(self.stdin.take());
        self.listen("the end of its output", |running| running.stdout.ended && running.stderr.ended);
        let end = Instant::now() + LONG;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < end, "pid {} closed its output and does not end", self.child.id());
            std::thread::sleep(Duration::from_millis(1));
        };
        Done::of(status, &std::mem::take(&mut self.stdout.bytes), &std::mem::take(&mut self.stderr.bytes))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A process that is not our child, told apart from any other by its pidfd; killed at the end of the test.
#[derive(Debug)]
pub(crate) struct KillOnDrop(OwnedFd, u32);

impl KillOnDrop {
    /// The process that has this number now, which the test must know to be its own.
    #[track_caller]
    pub(crate) fn of(pid: u32) -> Self {
        let raw = Pid::from_raw(pid.cast_signed()).unwrap();
        let fd = pidfd_open(raw, PidfdFlags::empty()).unwrap_or_else(|error| panic!("pid {pid}: {error}"));
        Self(fd, pid)
    }

    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.1
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        // Already gone is as good.
        pidfd_send_signal(&self.0, signal).unwrap_or_default();
    }

    /// Has it ended (a zombie has)?
    pub(crate) fn ended(&self) -> bool {
        let mut fds = [rustix::event::PollFd::new(&self.0, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut fds, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
    }

    /// Kills it and waits until it has ended.
    #[track_caller]
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
        eventually("the end of a killed process", || self.ended());
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
