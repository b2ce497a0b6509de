//! What a guardian needs of the system: a timer that counts sleep, a name, memory that stays, and stopping a tree.

use crate::os::proc::ProcStat;
use crate::os::process::PidFd;
use crate::os::tree;
use nix::libc;
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::Signal;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A timer on CLOCK_BOOTTIME (timerfd_create(2)): a machine that slept past its time rings on waking.
#[derive(Debug)]
pub(crate) struct BootTimer(OwnedFd);

impl BootTimer {
    /// A timer that is not set.
    ///
    /// # Errors
    /// EMFILE and the like.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self(timerfd_create(TimerfdClockId::Boottime, flags)?))
    }

    /// Becomes readable at this time, microseconds of CLOCK_BOOTTIME; 0: never.
    ///
    /// # Errors
    /// EINVAL, which no kernel answers to a valid time.
    pub(crate) fn set(&self, boottime_us: u64) -> io::Result<()> {
        let seconds = i64::try_from(boottime_us / 1_000_000).unwrap_or(i64::MAX);
        let value = Timespec { tv_sec: seconds, tv_nsec: (boottime_us % 1_000_000 * 1000).cast_signed() };
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let times = Itimerspec { it_interval: none, it_value: value };
        timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &times)?;
        Ok(())
    }
}

impl AsFd for BootTimer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The name under which ps(1) shows this process.
pub(crate) fn be_called(name: &CStr) {
    // It is for people; nothing depends on it.
    nix::sys::prctl::set_name(name).unwrap_or_default();
}

/// Keeps our pages in memory (mlockall(2)): a machine that swaps must not delay a guardian. Best effort: a small
/// RLIMIT_MEMLOCK forbids it.
pub(crate) fn stay_in_memory() {
    let privileged = rustix::process::geteuid().is_root();
    // With a limit, MCL_FUTURE would make later allocations fail.
    let flags =
        if privileged { MlockAllFlags::CURRENT | MlockAllFlags::FUTURE } else { MlockAllFlags::CURRENT };
    mlockall(flags).unwrap_or_default();
}

/// The processes of a tree that we stopped, and must let go on again: by number and start.
#[derive(Debug, Default)]
pub(crate) struct StoppedTree(BTreeMap<(u32, u64), PidFd>);

/// After so many passes the rest is left to the next call: who forks faster than that is stopped later.
const PASSES: usize = 200;

impl StoppedTree {
    /// Stops everything below `root` until two passes in a row find nothing that runs. Who was stopped by somebody
    /// else is left to them. `false`: something still runs.
    ///
    /// # Errors
    /// `/proc` cannot be listed.
    pub(crate) fn stop(&mut self, root: u32) -> io::Result<bool> {
        let mut quiet = 0;
        for _ in 0..PASSES {
            let running: Vec<(ProcStat, PidFd)> = tree::open_below(root, &[])?
                .into_iter()
                .filter(|(member, _)| !matches!(member.state, 'T' | 't'))
                .collect();
            if running.is_empty() {
                quiet += 1;
                if quiet == 2 {
                    return Ok(true);
                }
                continue;
            }
            quiet = 0;
            for (member, fd) in running {
                match fd.signal(Signal::STOP) {
                    Err(error) if error.raw_os_error() == Some(libc::EPERM) => {}
                    _ => drop(self.0.insert((member.pid, member.start_ticks), fd)),
                }
            }
        }
        Ok(false)
    }

    /// Lets go on what we stopped.
    pub(crate) fn go_on(&mut self) {
        for (_, fd) in std::mem::take(&mut self.0) {
            drop(tree::resume(&fd));
        }
    }
}
