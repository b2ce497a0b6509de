//! A process that waits for its child: what became of it, and what a shim between
//! the two needs.

use crate::os::high_fd;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Child;

/// What became of a child since the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildChange {
    /// It runs.
    Nothing,
    /// It ended by itself; it is not reaped yet, so its number is still its own.
    Exited,
    /// A signal ended it; not reaped yet.
    Killed(Signal),
    /// It was stopped.
    Stopped(Signal),
}

/// Looks at a child without reaping it (waitid(2), WNOWAIT).
///
/// # Errors
/// ECHILD when it has been reaped.
pub(crate) fn change(child: &Child) -> io::Result<ChildChange> {
    let raw = i32::try_from(child.id()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let id = Id::Pid(Pid::from_raw(raw));
    let ended = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    match waitid(id, ended)? {
        WaitStatus::Exited(..) => return Ok(ChildChange::Exited),
        WaitStatus::Signaled(_, signal, _) => return Ok(ChildChange::Killed(signal)),
        _ => {}
    }
    match waitid(Id::Pid(Pid::from_raw(raw)), WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG)? {
        WaitStatus::Stopped(_, signal) => Ok(ChildChange::Stopped(signal)),
        _ => Ok(ChildChange::Nothing),
    }
}

/// KILL for this process as soon as its parent ends (prctl(2), PR_SET_PDEATHSIG);
/// it survives exec. `false`: the parent has ended already.
///
/// # Errors
/// EINVAL, which no kernel answers to SIGKILL.
pub(crate) fn die_with_parent(parent: u32) -> io::Result<bool> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    Ok(std::os::unix::process::parent_id() == parent)
}

/// CONT for this process as soon as its parent ends, so that it acts on that also while it
/// is stopped. The kernel does as much only for a process group that becomes an orphan
/// (_exit(2)), which under a child subreaper it does not. `false`: the parent has ended already.
///
/// # Errors
/// EINVAL, which no kernel answers to SIGCONT.
pub(crate) fn continue_with_parents_end(parent: u32) -> io::Result<bool> {
    prctl::set_pdeathsig(Signal::SIGCONT)?;
    Ok(std::os::unix::process::parent_id() == parent)
}

/// A pipe whose read end children inherit and whose write end they do not.
///
/// # Errors
/// EMFILE.
pub(crate) fn pipe_for_child() -> io::Result<(OwnedFd, File)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    fcntl_setfd(&read, FdFlags::empty())?;
    Ok((read, File::from(write)))
}

/// The number under which a child finds an inherited descriptor.
pub(crate) fn number(fd: &impl AsFd) -> i32 {
    fd.as_fd().as_raw_fd()
}

/// The other side of [`pipe_for_child`]: a descriptor of our own for the pipe, and
/// the inherited number closed, so that nothing we start has it.
///
/// # Errors
/// What opening `/proc/self/fd/N` answers.
pub(crate) fn adopt_pipe(number: i32) -> io::Result<File> {
    // Without O_NONBLOCK the open would wait for a writer that may have ended (fifo(7)).
    let flags = nix::libc::O_NONBLOCK;
    let pipe = File::options().read(true).custom_flags(flags).open(format!("/proc/self/fd/{number}"))?;
    nix::unistd::close(number)?;
    Ok(pipe)
}

/// The other direction: a pipe whose write end children inherit and whose read end they do not.
///
/// # Errors
/// EMFILE.
#[cfg(feature = "postgres")]
pub(crate) fn pipe_from_child() -> io::Result<(File, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&read, true)?;
    fcntl_setfd(&write, FdFlags::empty())?;
    Ok((File::from(read), write))
}

/// The other side of [`pipe_from_child`], as [`adopt_pipe`].
///
/// # Errors
/// As [`adopt_pipe`].
#[cfg(feature = "postgres")]
pub(crate) fn adopt_writer(number: i32) -> io::Result<File> {
    let pipe = File::options().write(true).open(format!("/proc/self/fd/{number}"))?;
    nix::unistd::close(number)?;
    Ok(pipe)
}

/// A duplicate that exec keeps, under a number that no shell uses.
///
/// # Errors
/// EMFILE when no number is left.
pub(crate) fn inheritable(fd: &impl AsFd) -> io::Result<OwnedFd> {
    let copy = high_fd::duplicate(fd)?;
    fcntl_setfd(&copy, FdFlags::empty())?;
    Ok(copy)
}
