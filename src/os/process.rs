//! Processes through pidfds: open, look again, then act. A signal never goes to a bare pid.

use crate::model::ancestor::Ancestor;
use crate::model::identity::ProcessIdentity;
use crate::os::proc;
use nix::errno::Errno;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{fstat, fstatfs};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// `f_type` of pidfs, kernel 6.9 (linux/magic.h). Before that all pidfds share one inode.
const PIDFS_MAGIC: u64 = 0x5049_4446;

/// A descriptor for one process (pidfd_open(2), kernel 5.3). It can never come to
/// mean another process.
#[derive(Debug)]
pub(crate) struct PidFd {
    fd: OwnedFd,
    pid: u32,
}

impl PidFd {
    /// Opens the process that has this number now.
    ///
    /// # Errors
    /// `ESRCH` nobody has it; `EINVAL` or `ENOENT` it is a thread's; others say nothing about it.
    pub(crate) fn open(pid: u32) -> Result<Self, Errno> {
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::ESRCH)?;
        let fd = pidfd_open(raw, PidfdFlags::empty()).map_err(|e| Errno::from_raw(e.raw_os_error()))?;
        Ok(Self { fd, pid })
    }

    /// The inode that no other process of this boot has; `None` without pidfs.
    pub(crate) fn inode(&self) -> Option<u64> {
        let kind = fstatfs(&self.fd).ok()?.f_type;
        if u64::try_from(kind).ok()? != PIDFS_MAGIC {
            return None;
        }
        fstat(&self.fd).ok().map(|stat| stat.st_ino)
    }

    /// Has it ended? True for zombies, false for a dead leader whose threads still run (pidfd_open(2)).
    pub(crate) fn ended(&self) -> io::Result<bool> {
        wait_any(&[self.fd.as_fd()], Some(Duration::ZERO)).map(|ready| !ready.is_empty())
    }

    /// Waits until it has ended, or until `timeout` is over; says which.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> io::Result<bool> {
        wait_any(&[self.fd.as_fd()], timeout).map(|ready| !ready.is_empty())
    }

    /// Sends a signal to exactly this process.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.fd, signal)?)
    }

    /// The number it has in our pid namespace.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Waits until one of the descriptors is readable (a pidfd: has ended) and gives
/// the positions of all that are; empty when `timeout` ran out. EINTR is retried
/// with the time that is left.
pub(crate) fn wait_any(fds: &[BorrowedFd<'_>], timeout: Option<Duration>) -> io::Result<Vec<usize>> {
    let end = timeout.map(|timeout| std::time::Instant::now() + timeout);
    loop {
        let mut polled: Vec<PollFd<'_>> =
            fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        let left = end.map(|end| end.saturating_duration_since(std::time::Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut polled, left.as_ref()) {
            Ok(_) => {
                let ready = polled.iter().enumerate().filter(|(_, fd)| !fd.revents().is_empty());
                return Ok(ready.map(|(position, _)| position).collect());
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Would a short write to this descriptor go through at once (poll(2))?
pub(crate) fn accepts(fd: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&fd, PollFlags::OUT)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}

/// What to do where [`pidfds_are_allowed`] says no.
pub(crate) const PIDFD_HINT: &str =
    "a sandbox (seccomp) or a kernel before 5.3 forbids it; let it allow pidfd_open and pidfd_send_signal";

/// Can a process be opened here at all?
///
/// # Errors
/// The system call and why, in words.
pub(crate) fn pidfds_are_allowed() -> Result<(), String> {
    PidFd::open(std::process::id())
        .map(drop)
        .map_err(|errno| format!("pidfd_open: {}", errno.desc().to_lowercase()))
}

/// What opening a recorded process gave.
#[derive(Debug)]
pub(crate) enum Pin {
    /// It runs, and this descriptor is it.
    Running(PidFd),
    /// It has ended; its number may be somebody else's.
    Ended,
    /// Neither could be shown.
    Unknown(Errno),
}

/// Opens a recorded process for waiting or signalling and checks that it is the
/// recorded one: by pidfs inode where known, else by start ticks read while the
/// pidfd pins the number. For records of this boot and this pid namespace.
pub(crate) fn pin(identity: &ProcessIdentity) -> Pin {
    let fd = match PidFd::open(identity.pid) {
        Ok(fd) => fd,
        Err(Errno::ESRCH | Errno::EINVAL | Errno::ENOENT) => return Pin::Ended,
        Err(errno) => return Pin::Unknown(errno),
    };
    let same = match (identity.pidfs_ino, fd.inode()) {
        (Some(recorded), Some(now)) => recorded == now,
        _ => match proc::stat(identity.pid) {
            Ok(stat) => stat.start_ticks == identity.start_ticks,
            Err(error) if proc::is_gone(&error) => false,
            Err(error) => return Pin::Unknown(Errno::from_raw(error.raw_os_error().unwrap_or(0))),
        },
    };
    match (same, fd.ended()) {
        (false, _) | (true, Ok(true)) => Pin::Ended,
        (true, Ok(false)) => Pin::Running(fd),
        (true, Err(error)) => Pin::Unknown(Errno::from_raw(error.raw_os_error().unwrap_or(0))),
    }
}

/// As [`pin`] for a record of another pid namespace, seen from one above it: the process with
/// the recorded pidfs inode, wherever it is.
pub(crate) fn find(identity: &ProcessIdentity) -> Pin {
    let (Some(inode), Ok(pids)) = (identity.pidfs_ino, proc::pids()) else {
        return Pin::Unknown(Errno::ENOSYS);
    };
    let mut doubt = None;
    for pid in pids {
        match PidFd::open(pid) {
            Ok(fd) if fd.inode() == Some(inode) => {
                return match fd.ended() {
                    Ok(false) => Pin::Running(fd),
                    Ok(true) => Pin::Ended,
                    Err(error) => Pin::Unknown(Errno::from_raw(error.raw_os_error().unwrap_or(0))),
                };
            }
            Ok(_) | Err(Errno::ESRCH | Errno::EINVAL | Errno::ENOENT) => {}
            // It may have been this one.
            Err(errno) => doubt = Some(errno),
        }
    }
    doubt.map_or(Pin::Ended, Pin::Unknown)
}

/// The identity of the process that has this number now. A zombie is an error
/// (ESRCH): it cannot own anything.
///
/// # Errors
/// ESRCH or ENOENT when there is none, else what `/proc` answered.
pub(crate) fn identify(pid: u32) -> io::Result<ProcessIdentity> {
    let fd = match PidFd::open(pid) {
        Ok(fd) => Some(fd),
        // No pidfds here (old kernel, seccomp): pid and start remain.
        Err(Errno::ENOSYS | Errno::EPERM) => None,
        Err(errno) => return Err(errno.into()),
    };
    let stat = proc::stat(pid)?;
    let (_, uid) = proc::tgid_and_uid(pid)?;
    if let Some(fd) = &fd
        && fd.ended()?
    {
        return Err(Errno::ESRCH.into());
    }
    Ok(ProcessIdentity {
        pid,
        start_ticks: stat.start_ticks,
        pidfs_ino: fd.as_ref().and_then(PidFd::inode),
        comm: stat.comm,
        uid,
    })
}

/// The pids of the callers of this process, parent first.
///
/// # Errors
/// `/proc` cannot be read.
pub(crate) fn callers() -> io::Result<Vec<u32>> {
    let mut chain = Vec::new();
    let mut pid = proc::stat(std::process::id())?.ppid;
    while pid > 0 && chain.len() < DEPTH {
        chain.push(pid);
        if pid == 1 {
            break;
        }
        match proc::stat(pid) {
            Ok(stat) => pid = stat.ppid,
            Err(error) if proc::is_gone(&error) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(chain)
}

/// A process tree is a tree; the bound only guards against a chain re-parented while we climb.
const DEPTH: usize = 256;

/// The callers of this process as possible owners, parent first, up to the top of what `/proc` shows.
///
/// # Errors
/// `/proc` cannot be read.
pub(crate) fn ancestors() -> io::Result<Vec<Ancestor>> {
    let mut chain: Vec<Ancestor> = Vec::new();
    let mut pid = proc::stat(std::process::id())?.ppid;
    while pid > 0 && chain.len() < DEPTH {
        let stat = match proc::stat(pid) {
            Ok(stat) => stat,
            Err(error) if proc::is_gone(&error) => break,
            Err(error) => return Err(error),
        };
        let args = proc::cmdline(pid).unwrap_or_default();
        let is_manager = pid == 1 || (stat.comm == "systemd" && args.iter().any(|arg| arg == b"--user"));
        if let Some(child) = chain.last_mut() {
            child.under_manager = is_manager;
        }
        let exe = std::fs::read_link(proc::path(pid, "exe")).ok();
        chain.push(Ancestor {
            pid,
            comm: stat.comm,
            exe: exe.and_then(|exe| Some(exe.file_name()?.to_string_lossy().into_owned())),
            args,
            tty_nr: stat.tty_nr,
            under_manager: false,
        });
        pid = stat.ppid;
    }
    Ok(chain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_pinned_process_is_waited_for_and_never_mistaken() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat");
        let identity = identify(child.id()).expect("identity");
        let Pin::Running(fd) = pin(&identity) else { panic!("it runs") };
        assert!(!fd.ended().expect("poll"));
        if identity.pidfs_ino.is_some() {
            let Pin::Running(found) = find(&identity) else { panic!("it can be found") };
            assert_eq!(found.pid(), child.id());
        }
        let mut stranger = identity.clone();
        stranger.start_ticks += 1;
        stranger.pidfs_ino = stranger.pidfs_ino.map(|inode| inode + 1);
        assert!(matches!(pin(&stranger), Pin::Ended), "same number, other process");
        fd.signal(Signal::KILL).expect("signal");
        assert!(fd.wait(Some(Duration::from_secs(10))).expect("wait"));
        assert!(matches!(pin(&identity), Pin::Ended), "a zombie has ended");
        assert!(identify(child.id()).is_err(), "a zombie owns nothing");
        child.wait().expect("reaped");
        assert!(matches!(pin(&identity), Pin::Ended));
    }
}
