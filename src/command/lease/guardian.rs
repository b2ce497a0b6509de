//! Between `run` and its command stand two processes of ours.
//!
//! The guardian is the command's parent and leads its process group. It waits at a
//! pipe: a byte is a signal to pass on, end of file means that the supervisor is
//! gone and the role with it; then it kills the group, itself included.
//!
//! The shim is what the guardian starts: it asks to die with the guardian, gives
//! back the signals that we blocked, and becomes the command.

use crate::cli::lease::{Become, LeaseGuardian};
use crate::command::exec;
use crate::error::{Error, Kind};
use crate::exit::Status;
use crate::model::lease::BECOME;
use crate::os::child::{self, ChildChange};
use crate::os::mask::{SignalMask, TERMINAL_STOPS};
use crate::os::process::{PidFd, wait_any};
use crate::os::signals::{self, SignalQueue};
use crate::os::terminal::ControllingTerminal;
use crate::report::Report;
use nix::sys::signal::{Signal, raise};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// The byte that lets the guardian start the command.
pub(super) const GO: u8 = 0;

/// What the guardian stops itself with when the terminal stopped the command, to
/// be told from a SIGSTOP that somebody sent it.
pub(super) const TERMINAL_STOP: Signal = Signal::SIGTTOU;

/// Starts the command and stays until it ends; its status is ours.
pub(super) fn guard(arguments: &LeaseGuardian) -> Result<Status, Error> {
    let system = |error: io::Error| Error::new(Kind::System, format!("guardian: {error}"));
    let mask = mask(&arguments.mask)?.and(SignalMask::block(TERMINAL_STOPS).map_err(system)?);
    SignalMask::of([TERMINAL_STOP]).give_back().map_err(system)?;
    let mut pipe = child::adopt_pipe(arguments.pipe).map_err(system)?;
    let queue = SignalQueue::new([Signal::SIGCHLD]).map_err(system)?;
    // A guardian that somebody stopped must wake up and act when the supervisor ends.
    let supervised = child::continue_with_parents_end(arguments.parent).map_err(system)?;
    if !supervised || !may_start(&mut pipe).map_err(system)? {
        return Err(Error::new(
            Kind::NotOwner,
            "the process that held the role ended before its command began",
        ));
    }
    let mut command = start(mask, arguments).map_err(system)?;
    // It is not reaped before it is looked at, so this is the command and nobody else.
    let process = PidFd::open(command.id()).map_err(|errno| system(errno.into()))?;
    loop {
        wait_any(&[pipe.as_fd(), queue.as_fd()], None).map_err(system)?;
        if !pass_on(&mut pipe, &process).map_err(system)? {
            end_everything(&mut command);
        }
        while queue.next().map_err(system)?.is_some() {}
        match child::change(&command).map_err(system)? {
            ChildChange::Exited | ChildChange::Killed(_) => {
                return command.wait().map(Status::of_child).map_err(system);
            }
            ChildChange::Stopped(signal) if TERMINAL_STOPS.contains(&signal) => stop_too(),
            ChildChange::Stopped(_) | ChildChange::Nothing => {}
        }
    }
}

fn mask(text: &str) -> Result<SignalMask, Error> {
    SignalMask::parse(text).ok_or_else(|| Error::usage("this is not a signal mask"))
}

/// Waits for the first byte. `false`: the supervisor is gone.
fn may_start(pipe: &mut File) -> io::Result<bool> {
    loop {
        match pipe.read(&mut [0]) {
            Ok(count) => return Ok(count > 0),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait_any(&[pipe.as_fd()], None)?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn start(mask: SignalMask, arguments: &LeaseGuardian) -> io::Result<Child> {
    Command::new("/proc/self/exe")
        .arg0(super::PROGRAM)
        .args([BECOME, "--mask", &mask.to_text(), "--parent", &std::process::id().to_string(), "--"])
        .args(&arguments.command)
        .spawn()
}

/// Passes signals on. `false`: the supervisor is gone.
fn pass_on(pipe: &mut File, command: &PidFd) -> io::Result<bool> {
    let mut bytes = [0; 64];
    loop {
        match pipe.read(&mut bytes) {
            Ok(0) => return Ok(false),
            Ok(count) => {
                for byte in &bytes[..count] {
                    if let Ok(signal) = Signal::try_from(i32::from(*byte)) {
                        forward(signal, command);
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// What means "end" goes to the whole group, as from a terminal: a shell that dies
/// of it must not leave its job working. What means "do something" is for the
/// command alone: a helper without a handler would die of it.
fn forward(signal: Signal, command: &PidFd) {
    match signal {
        Signal::SIGINT | Signal::SIGQUIT | Signal::SIGTERM => drop(signals::signal_own_group(signal)),
        _ => {
            if let Some(signal) = rustix::process::Signal::from_named_raw(signal as i32) {
                drop(command.signal(signal));
            }
        }
    }
}

/// The command first, should it have left the group; then the group, ourselves included.
fn end_everything(command: &mut Child) {
    drop(command.kill());
    drop(signals::signal_own_group(Signal::SIGKILL));
}

/// The terminal stopped the command: stop as well, so that the supervisor sees it
/// and its shell gets the terminal back. Without a terminal somebody else stopped
/// it, and whoever did continues it.
fn stop_too() {
    if ControllingTerminal::controlling().is_some() {
        let _ = raise(TERMINAL_STOP);
    }
}

/// Becomes the command.
pub(super) fn become_command(arguments: &Become, report: &Report) -> Result<Status, Error> {
    let system = |error: io::Error| Error::new(Kind::System, format!("shim: {error}"));
    let mask = mask(&arguments.mask)?;
    if !child::die_with_parent(arguments.parent).map_err(system)? {
        return Err(Error::new(Kind::NotOwner, "the guardian ended before the command began"));
    }
    mask.give_back().map_err(system)?;
    let error = exec::exec(&arguments.command);
    Ok(exec::cannot_run(report, &arguments.command, &error))
}
