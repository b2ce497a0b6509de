//! The process that holds the role while a command works: passes signals on, stands
//! down when the lock file is replaced, and ends with the command's status.

use super::guardian::{GO, TERMINAL_STOP};
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::lease::Resident;
use crate::lease::observe::show;
use crate::model::lease::GUARDIAN;
use crate::os::child::{self, ChildChange};
use crate::os::inotify::Inotify;
use crate::os::mask::SignalMask;
use crate::os::proc;
use crate::os::process::wait_any;
use crate::os::signals::{self, FORWARDED, SignalQueue, signal_group_of_child, signal_own_group};
use crate::os::terminal::ControllingTerminal;
use crate::report::{Report, escape};
use nix::sys::signal::Signal;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

/// How long a command may take to end after the role was lost under it.
const STAND_DOWN: Duration = Duration::from_secs(5);
/// How often the lock file is looked at where nothing tells of its end.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The same where inotify watches: a renamed directory is not told.
const LOOK_RARELY: Duration = Duration::from_secs(10);
/// Between two attempts to go on after a stop in the background.
const BACKGROUND_PAUSE: Duration = Duration::from_millis(100);
/// How long killed processes may take to be gone.
const KILLED_GONE_WITHIN: Duration = Duration::from_secs(2);

struct Supervisor<'a> {
    resident: &'a Resident,
    report: &'a Report,
    guardian: Child,
    pipe: File,
    queue: SignalQueue,
    watch: Option<Inotify>,
    /// The terminal, when it was handed to the command.
    terminal: Option<ControllingTerminal>,
    mask: SignalMask,
    passed_int: bool,
    /// When the role was lost, the command is killed at this time.
    kill_at: Option<Instant>,
}

/// Runs `command` under the role and gives its status.
///
/// # Errors
/// [`Kind::System`] when no process can be started.
pub(super) fn supervise(resident: Resident, command: &[OsString], report: &Report) -> Result<Status, Error> {
    let system = |error: io::Error| Error::new(Kind::System, format!("cannot start the command: {error}"));
    if signals::children_are_reaped_unseen() {
        return Err(Error::new(Kind::System, "SIGCHLD is ignored here, so no command's end can be seen")
            .hint("env --default-signal=CHLD orion-lease run ..."));
    }
    // SIGTTOU: taking the terminal back happens from the background.
    let ours = FORWARDED.into_iter().chain([Signal::SIGCHLD, Signal::SIGTTOU]);
    let mask = SignalMask::block(ours).map_err(system)?;
    let queue = SignalQueue::new(FORWARDED.into_iter().chain([Signal::SIGCHLD])).map_err(system)?;
    let (read, pipe) = child::pipe_for_child().map_err(system)?;
    let guardian = Command::new("/proc/self/exe")
        .arg0(super::PROGRAM)
        .args([GUARDIAN, "--pipe", &child::number(&read).to_string(), "--mask", &mask.to_text()])
        .args(["--parent", &std::process::id().to_string(), "--"])
        .args(command)
        .process_group(0)
        .spawn()
        .map_err(system)?;
    drop(read);
    let terminal = ControllingTerminal::controlling()
        .filter(ControllingTerminal::is_ours)
        .filter(|terminal| terminal.give_to(guardian.id()).is_ok());
    // One watch tells of one file; several are looked at once a second.
    let watched = Some(resident.lock_path()).filter(|_| !resident.has_several_locks());
    let watch = watched.and_then(|path| Inotify::watch_file(&path).ok());
    let mut supervisor = Supervisor {
        resident: &resident,
        report,
        guardian,
        pipe,
        queue,
        watch,
        terminal,
        mask,
        passed_int: false,
        kill_at: None,
    };
    supervisor.send(GO);
    let status = supervisor.until_the_end().map_err(system)?;
    let interrupted = supervisor.interrupted_by_terminal(status);
    let lost = supervisor.kill_at.is_some();
    let mask = supervisor.mask;
    drop(supervisor);
    drop(resident);
    if interrupted {
        // The command alone had the terminal's Ctrl-C. A script that called us must
        // not go on as if nothing was: it, and we, get it now.
        drop(signal_own_group(Signal::SIGINT));
        drop(mask.give_back());
    }
    Ok(if lost { Exit::NoPerm.into() } else { status })
}

impl Supervisor<'_> {
    fn until_the_end(&mut self) -> io::Result<Status> {
        loop {
            self.stand_down_if_lost();
            self.wait()?;
            while let Some(caught) = self.queue.next()? {
                match caught.signal {
                    Signal::SIGCHLD => {}
                    // Came to the terminal's foreground group, which is the command's. A hang-up
                    // comes to the leader of the session alone.
                    signal if caught.from_terminal && self.terminal.is_some() && signal != Signal::SIGHUP => {
                    }
                    signal => {
                        self.passed_int |= signal == Signal::SIGINT;
                        self.send(signal as u8);
                    }
                }
            }
            match child::change(&self.guardian)? {
                ChildChange::Exited => return self.ended(),
                ChildChange::Killed(signal) => return self.guardian_was_killed(signal),
                ChildChange::Stopped(TERMINAL_STOP) => self.stopped(),
                ChildChange::Stopped(_) | ChildChange::Nothing => {}
            }
        }
    }

    fn wait(&self) -> io::Result<()> {
        let look_every = if self.watch.is_some() { LOOK_RARELY } else { LOOK_EVERY };
        let timeout = match self.kill_at {
            Some(at) => at.saturating_duration_since(Instant::now()).max(Duration::from_millis(10)),
            None => look_every,
        };
        let mut fds = vec![self.queue.as_fd()];
        fds.extend(self.watch.as_ref().filter(|_| self.kill_at.is_none()).and_then(Inotify::fd));
        wait_any(&fds, Some(timeout))?;
        if let Some(watch) = &self.watch {
            watch.drain(|_| true);
        }
        Ok(())
    }

    /// A guardian that has just ended takes no more orders, and needs none.
    fn send(&mut self, byte: u8) {
        drop(self.pipe.write_all(&[byte]));
    }

    /// A file that cannot be looked at (EACCES, EIO) proves nothing: then the role stays.
    fn stand_down_if_lost(&mut self) {
        match self.kill_at {
            None => {
                let Some(lost) = self.resident.lost() else { return };
                self.report.warning(&format!(
                    "{} was removed or replaced, so the role can be taken by others: ending the command",
                    show(&lost)
                ));
                self.send(Signal::SIGTERM as u8);
                self.kill_at = Some(Instant::now() + STAND_DOWN);
            }
            Some(at) if Instant::now() >= at => self.kill_group(),
            _ => {}
        }
    }

    /// The guardian leads the command's group and is not reaped: the number is its own.
    fn kill_group(&self) {
        drop(signal_group_of_child(self.guardian.id(), Signal::SIGKILL));
    }

    fn ended(&mut self) -> io::Result<Status> {
        let status = self.guardian.wait()?;
        self.take_terminal();
        let left = group_members(self.guardian.id());
        if !left.is_empty() {
            self.report.warning(&format!(
                "the command has ended and the role with it; still at work without it: {}",
                left.join(", ")
            ));
        }
        Ok(Status::of_child(status))
    }

    /// Nobody watches the command any more: it must not work on.
    fn guardian_was_killed(&mut self, signal: Signal) -> io::Result<Status> {
        self.kill_group();
        let status = self.guardian.wait()?;
        self.take_terminal();
        let end = Instant::now() + KILLED_GONE_WITHIN;
        while !group_members(self.guardian.id()).is_empty() && Instant::now() < end {
            thread::sleep(Duration::from_millis(2));
        }
        if self.kill_at.is_none() {
            self.report.warning(&format!(
                "the guardian of the command was killed ({}); the command was ended, because nothing may run without the role",
                signal.as_str()
            ));
        }
        Ok(Status::of_child(status))
    }

    fn take_terminal(&self) {
        if let Some(terminal) = &self.terminal {
            drop(terminal.take_back());
        }
    }

    /// The terminal stopped the command (Ctrl-Z, or reading in the background). Our
    /// own group stops too, as the shell that started us expects; when that
    /// continues us, the command goes on where we are.
    fn stopped(&mut self) {
        let handed = self.terminal.take();
        if let Some(terminal) = &handed {
            drop(terminal.take_back());
        }
        let Some(terminal) = handed.or_else(ControllingTerminal::controlling) else { return };
        drop(signal_own_group(Signal::SIGTSTP));
        if terminal.is_ours() {
            drop(terminal.give_to(self.guardian.id()));
            self.terminal = Some(terminal);
        } else {
            thread::sleep(BACKGROUND_PAUSE);
        }
        drop(signal_group_of_child(self.guardian.id(), Signal::SIGCONT));
    }

    /// Did Ctrl-C at the terminal, which only the command's group got, end it?
    fn interrupted_by_terminal(&self, status: Status) -> bool {
        self.terminal.is_some() && !self.passed_int && status.code() == 128 + Signal::SIGINT as u8
    }
}

/// Who is in a process group and has not ended; for people.
fn group_members(group: u32) -> Vec<String> {
    if !signals::group_exists(group) {
        return Vec::new();
    }
    let stats = proc::pids().unwrap_or_default().into_iter().filter_map(|pid| proc::stat(pid).ok());
    let members =
        stats.filter(|stat| u32::try_from(stat.pgrp) == Ok(group) && !matches!(stat.state, 'Z' | 'X'));
    members.map(|stat| format!("pid {} ({})", stat.pid, escape(stat.comm.as_bytes(), 64))).collect()
}
