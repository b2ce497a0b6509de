//! Processes held by descriptor while their terminal is closed.

use crate::model::identity::ProcessIdentity;
use crate::os::proc::{self, ProcStat};
use crate::os::process::{self, PidFd, Pin};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

/// One process: what it was when it was pinned, and the descriptor that stays it.
#[derive(Debug)]
pub(crate) struct Pinned {
    pub(crate) identity: ProcessIdentity,
    /// Resident memory then, bytes.
    pub(crate) memory: u64,
    fd: PidFd,
}

/// A pinned process that did not go.
#[derive(Clone, Debug)]
pub(crate) struct Survivor {
    pub(crate) pid: u32,
    pub(crate) state: char,
    pub(crate) comm: String,
    pub(crate) memory: u64,
}

impl Pinned {
    /// For a signal to exactly this process.
    pub(crate) fn fd(&self) -> &PidFd {
        &self.fd
    }
}

impl Survivor {
    /// As /proc shows it now.
    pub(crate) fn of(stat: &ProcStat) -> Self {
        Self { pid: stat.pid, state: stat.state, comm: stat.comm.clone(), memory: bytes(stat.rss_pages) }
    }
}

/// Pins the processes a table showed; those that are gone since are left out.
///
/// # Errors
/// A living process that cannot be held.
pub(crate) fn pin_all(stats: &[&ProcStat]) -> io::Result<Vec<Pinned>> {
    let mut pins = Vec::new();
    for stat in stats {
        let identity = match process::identify(stat.pid) {
            Ok(identity) if identity.start_ticks == stat.start_ticks => identity,
            // The number was used again: the one that was meant is gone.
            Ok(_) => continue,
            Err(error) if proc::is_gone(&error) => continue,
            Err(error) => return Err(error),
        };
        match process::pin(&identity) {
            Pin::Running(fd) => pins.push(Pinned { identity, memory: bytes(stat.rss_pages), fd }),
            Pin::Ended => {}
            Pin::Unknown(errno) => return Err(errno.into()),
        }
    }
    Ok(pins)
}

/// Waits for all of them at once, at most until `end`; gives those that still run.
/// A zombie has ended.
pub(crate) fn wait_all(pins: &[Pinned], end: Instant) -> io::Result<Vec<Survivor>> {
    let mut left: Vec<&Pinned> = pins.iter().collect();
    // Waiting for nobody would take all of the time.
    while !left.is_empty() {
        let fds: Vec<_> = left.iter().map(|pin| pin.fd.as_fd()).collect();
        let patience = end.saturating_duration_since(Instant::now());
        let ended = process::wait_any(&fds, Some(patience))?;
        let mut at = 0;
        left.retain(|_| {
            at += 1;
            !ended.contains(&(at - 1))
        });
        if ended.is_empty() {
            break;
        }
    }
    let survivors = left.iter().filter_map(|pin| {
        let stat = proc::stat(pin.identity.pid).ok()?;
        (stat.start_ticks == pin.identity.start_ticks).then(|| Survivor::of(&stat))
    });
    Ok(survivors.collect())
}

/// Lets this process hold as many descriptors as it may: one per pinned process.
pub(crate) fn more_descriptors() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).ok();
    }
}

fn bytes(pages: u64) -> u64 {
    pages.saturating_mul(u64::try_from(rustix::param::page_size()).unwrap_or(4096))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    #[test]
    fn all_are_waited_for_at_once_and_survivors_are_named() {
        let spawn = || Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat");
        let (mut goes, mut stays) = (spawn(), spawn());
        let stats = [goes.id(), stays.id()].map(|pid| proc::stat(pid).expect("stat"));
        let mut stranger = stats[1].clone();
        stranger.start_ticks += 1;
        let pins = pin_all(&[&stats[0], &stats[1], &stranger]).expect("pins");
        assert_eq!(pins.len(), 2, "another process with that number is not pinned");
        let begin = Instant::now();
        assert!(wait_all(&[], begin + Duration::from_secs(60)).expect("nobody").is_empty());
        assert!(begin.elapsed() < Duration::from_secs(30), "nobody is waited for");
        goes.kill().expect("kill");
        let survivors = wait_all(&pins, Instant::now() + Duration::from_millis(300)).expect("wait");
        assert_eq!(survivors.iter().map(|one| one.pid).collect::<Vec<_>>(), [stays.id()]);
        stays.kill().expect("kill");
        let survivors = wait_all(&pins, Instant::now() + Duration::from_secs(20)).expect("wait");
        assert!(survivors.is_empty(), "zombies are gone: {survivors:?}");
        drop((goes.wait(), stays.wait()));
    }
}
