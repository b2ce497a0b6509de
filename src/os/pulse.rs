//! The pulse: an open-file-description read lock on one byte of `NAME.pulse`, at
//! the offset of the token. Everything a run starts inherits the descriptor, so
//! the byte stays locked while any of it lives (fcntl(2), F_OFD_SETLK).

use crate::model::observation::PulseFacts;
use crate::model::record::PulseFile;
use crate::os::dir::{Dir, Opened};
use crate::os::fdinfo::{self, OpenFile};
use crate::os::helper_thread::{self, Wakeup};
use crate::os::high_fd;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rustix::fs::{OFlags, Stat, fstat};
use rustix::io::{FdFlags, fcntl_setfd};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// A pulse that this process carries.
#[derive(Debug)]
pub(crate) struct Pulse {
    fd: OwnedFd,
    /// The file it is on.
    pub(crate) file: PulseFile,
}

/// A pulse file, open under a number that no shell uses.
#[derive(Debug)]
pub(crate) struct OpenPulse {
    fd: OwnedFd,
    file: PulseFile,
}

/// What asking for a pulse gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PulseAnswer {
    Said(PulseFacts),
    /// The file that was taken is not at its name any more: [`search`] is left.
    Removed,
}

/// What leaving a pulse gave.
#[derive(Debug)]
pub(crate) enum Left {
    Pulse(Pulse),
    /// The file system has no such locks.
    Unsupported,
}

fn file_name(name: &str) -> String {
    format!("{name}.pulse")
}

/// A lock of a range of bytes, as fcntl(2) takes it; `length` 0 is to the end of the file.
pub(crate) fn byte_lock(kind: libc::c_int, start: i64, length: i64) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: length,
        l_pid: 0,
    }
}

fn offset(token: u64) -> io::Result<i64> {
    i64::try_from(token).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Opens the pulse file on a high descriptor, making the file when missing.
///
/// # Errors
/// EMFILE when no number is left, ENOSPC, EACCES …; what is not a file is InvalidData.
pub(crate) fn open(dir: &Dir, name: &str) -> io::Result<OpenPulse> {
    let name = file_name(name);
    // Read-only, so that nothing that inherits it can write there; so also after it was made.
    let (opened, stat) = match dir.open_and_stat(&name, OFlags::RDONLY)? {
        (Opened::Missing, _) => {
            match dir.create(&name) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            dir.open_and_stat(&name, OFlags::RDONLY)?
        }
        other => other,
    };
    let (Opened::File(file), Some(stat)) = (opened, stat) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    Ok(OpenPulse { fd: high_fd::duplicate(&file)?, file: file_of(&stat) })
}

fn file_of(stat: &Stat) -> PulseFile {
    PulseFile { dev: stat.st_dev, ino: stat.st_ino }
}

/// Locks the token's byte for reading.
///
/// # Errors
/// ENOLCK and the like.
pub(crate) fn lock(pulse: OpenPulse, token: u64) -> io::Result<Left> {
    let OpenPulse { fd, file } = pulse;
    Ok(if lock_through(&fd, token)? { Left::Pulse(Pulse { fd, file }) } else { Left::Unsupported })
}

/// As [`lock`], on a description that the caller's shell has open; `false` where unsupported.
pub(crate) fn lock_through(fd: impl AsFd, token: u64) -> io::Result<bool> {
    let wanted = byte_lock(libc::F_RDLCK, offset(token)?, 1);
    loop {
        return match fcntl(fd.as_fd(), FcntlArg::F_OFD_SETLK(&wanted)) {
            Ok(_) => Ok(true),
            Err(Errno::EINVAL | Errno::EOPNOTSUPP) => Ok(false),
            Err(Errno::EINTR) => continue,
            Err(error) => Err(error.into()),
        };
    }
}

/// Gives the token's byte back, for everybody who has this description.
pub(crate) fn unlock_through(fd: impl AsFd, token: u64) {
    let Ok(start) = offset(token) else { return };
    // What cannot be given back ends with the description.
    fcntl(fd.as_fd(), FcntlArg::F_OFD_SETLK(&byte_lock(libc::F_UNLCK, start, 1))).ok();
}

/// The file behind a description of the caller's shell.
///
/// # Errors
/// EBADF.
pub(crate) fn file_behind(fd: impl AsFd) -> io::Result<PulseFile> {
    Ok(file_of(&fstat(fd)?))
}

/// Is `fd` this very pulse file?
pub(crate) fn is_pulse_of(dir: &Dir, name: &str, fd: impl AsFd) -> bool {
    dir.leads_to(&file_name(name), fd).unwrap_or(false)
}

impl Pulse {
    /// Hands it on to what this process becomes or starts.
    pub(crate) fn inherit(&self) -> io::Result<()> {
        Ok(fcntl_setfd(&self.fd, FdFlags::empty())?)
    }

    /// Gives it up in this process only, by closing: a child that has it keeps the lock.
    pub(crate) fn close(self) {
        drop(self.fd);
    }
}

/// Asks for the token's byte, or with `None` for any byte, without taking anything. `taken` is the file
/// that the record says it was taken on.
pub(crate) fn ask(dir: &Dir, name: &str, token: Option<u64>, taken: Option<PulseFile>) -> PulseAnswer {
    let (file, stat) = match dir.open_and_stat(&file_name(name), OFlags::RDONLY) {
        Ok((Opened::File(file), Some(stat))) => (file, stat),
        Ok((Opened::Missing, _)) if taken.is_none() => return PulseAnswer::Said(PulseFacts::Free),
        // Whatever stands there now, it is not what was taken.
        Ok(_) if taken.is_some() => return PulseAnswer::Removed,
        Ok(_) | Err(_) => return PulseAnswer::Said(PulseFacts::Unclear),
    };
    let said = match token {
        Some(token) => offset(token).map_or(PulseFacts::Unclear, |start| ask_byte(&file, start)),
        None => match any_carried(&file, &[]) {
            Ok(Some(_)) => PulseFacts::Held,
            Ok(None) => PulseFacts::Free,
            Err(facts) => facts,
        },
    };
    let moved = taken.is_some_and(|taken| taken != file_of(&stat));
    if moved && said != PulseFacts::Held { PulseAnswer::Removed } else { PulseAnswer::Said(said) }
}

/// A token whose pulse is carried, by the file at its name, and that is none of these.
pub(crate) fn another(dir: &Dir, name: &str, known: &[u64]) -> Option<u64> {
    let Ok(Opened::File(file)) = dir.open_file(&file_name(name), OFlags::RDONLY) else { return None };
    any_carried(&file, known).ok().flatten()
}

/// The pulse file that stands at its name.
pub(crate) fn at_name(dir: &Dir, name: &str) -> Option<PulseFile> {
    dir.stat(&file_name(name)).ok().map(|stat| file_of(&stat))
}

/// Who carries a pulse whose file is not at its name any more: its own (dev, inode), or, where the record
/// is gone too, an unlinked one that was called so. `since` as in [`fdinfo::search`].
pub(crate) fn search(
    name: &str,
    token: u64,
    taken: Option<PulseFile>,
    since: Option<u64>,
) -> fdinfo::LockHolders {
    let called = file_name(name);
    let file =
        taken.map_or(OpenFile::Unlinked(&called), |PulseFile { dev, ino }| OpenFile::Inode { dev, ino });
    let look = || {
        fdinfo::search(file, since, |lock| is_pulse(lock, Some(token)))
            .unwrap_or(fdinfo::LockHolders { pids: Vec::new(), blind: true })
    };
    // One look may miss who begins behind it while its parent ends before it: nobody is said after two.
    let first = look();
    if !first.pids.is_empty() {
        return first;
    }
    let second = look();
    fdinfo::LockHolders { blind: first.blind || second.blind, ..second }
}

fn ask_byte(file: &File, start: i64) -> PulseFacts {
    match first_lock(file, start, start.saturating_add(1)) {
        // A write lock is a waiter.
        Ok(answer) if i32::from(answer.l_type) == libc::F_RDLCK => PulseFacts::Held,
        Ok(_) => PulseFacts::Free,
        Err(facts) => facts,
    }
}

/// A byte that is locked for reading and is none of these. A write lock is a waiter, and there may be read
/// locks on both sides of it: what is told is any lock of a range, not the first one.
fn any_carried(file: &File, known: &[u64]) -> Result<Option<u64>, PulseFacts> {
    let mut ranges = vec![(0, i64::MAX)];
    while let Some((start, end)) = ranges.pop() {
        if start >= end {
            continue;
        }
        let answer = first_lock(file, start, end)?;
        let token = u64::try_from(answer.l_start).unwrap_or(0);
        match i32::from(answer.l_type) {
            libc::F_UNLCK => continue,
            libc::F_RDLCK if answer.l_len != 1 || !known.contains(&token) => return Ok(Some(token)),
            _ => {}
        }
        let behind = if answer.l_len == 0 { end } else { answer.l_start.saturating_add(answer.l_len) };
        ranges.extend([(start, answer.l_start), (behind, end)]);
    }
    Ok(None)
}

/// A lock from `start` to before `end`; what to say where it cannot be asked.
fn first_lock(file: &File, start: i64, end: i64) -> Result<libc::flock, PulseFacts> {
    loop {
        let mut answer = byte_lock(libc::F_WRLCK, start, end.saturating_sub(start));
        return match fcntl(file, FcntlArg::F_OFD_GETLK(&mut answer)) {
            Ok(_) => Ok(answer),
            Err(Errno::EINTR) => continue,
            // No such locks here, so nobody can have left one.
            Err(Errno::EINVAL | Errno::EOPNOTSUPP) => Err(PulseFacts::Free),
            Err(_) => Err(PulseFacts::Unclear),
        };
    }
}

/// A token's pulse that is waited for.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) token: u64,
    /// 0 held, 1 free, 2 the lock call failed.
    state: Arc<AtomicU8>,
}

impl Watched {
    /// Rings when nobody carries the token's pulse any more. A helper blocks on a write lock of
    /// that byte, which excludes no later token and counts for nobody as life, and gives it back at once.
    ///
    /// # Errors
    /// EACCES when the file may not be opened for writing, and what starting a thread answers.
    pub(crate) fn start(dir: &Dir, name: &str, token: u64, bell: &Wakeup) -> io::Result<Self> {
        let file = match dir.open_file(&file_name(name), OFlags::WRONLY)? {
            Opened::File(file) => file,
            Opened::Missing | Opened::NotAFile(_) => return Err(io::ErrorKind::InvalidData.into()),
        };
        let wanted = byte_lock(libc::F_WRLCK, offset(token)?, 1);
        let state = Arc::new(AtomicU8::new(0));
        let (theirs, bell) = (Arc::clone(&state), bell.clone());
        helper_thread::start("pulse", move || {
            let outcome = loop {
                match fcntl(&file, FcntlArg::F_OFD_SETLKW(&wanted)) {
                    Err(Errno::EINTR) => {}
                    other => break other,
                }
            };
            drop(file);
            theirs.store(if outcome.is_ok() { 1 } else { 2 }, Ordering::Release);
            bell.ring();
        })?;
        Ok(Self { token, state })
    }

    /// Is it still being waited for?
    pub(crate) fn waits(&self) -> bool {
        self.state.load(Ordering::Acquire) == 0
    }

    /// Could it not be waited for?
    pub(crate) fn failed(&self) -> bool {
        self.state.load(Ordering::Acquire) == 2
    }
}

/// The read lock of this token, or with `None` of any.
fn is_pulse(lock: &fdinfo::LockLine, token: Option<u64>) -> bool {
    lock.kind == "OFDLCK" && !lock.write && token.is_none_or(|token| lock.start == token)
}

/// The processes seen to carry the token's pulse, ascending; for messages and for `stop`.
pub(crate) fn carriers(dir: &Dir, name: &str, token: Option<u64>) -> fdinfo::LockHolders {
    let Ok(Opened::File(file)) = dir.open_file(&file_name(name), OFlags::RDONLY) else {
        return fdinfo::LockHolders { pids: Vec::new(), blind: true };
    };
    fdinfo::holders(&file, |lock| is_pulse(lock, token))
        .unwrap_or(fdinfo::LockHolders { pids: Vec::new(), blind: true })
}

/// Does this process carry the token's pulse? `false` also when that cannot be seen.
pub(crate) fn carries(dir: &Dir, name: &str, token: u64, taken: Option<PulseFile>, pid: u32) -> bool {
    let matches = |lock: &fdinfo::LockLine| is_pulse(lock, Some(token));
    let at_its_name = match dir.open_file(&file_name(name), OFlags::RDONLY) {
        Ok(Opened::File(file)) => fdinfo::holds(pid, &file, matches).unwrap_or(false),
        _ => false,
    };
    let elsewhere = |PulseFile { dev, ino }| {
        fdinfo::has_lock_on(pid, OpenFile::Inode { dev, ino }, &matches).unwrap_or(false)
    };
    at_its_name || taken.is_some_and(elsewhere)
}

#[cfg(test)]
#[path = "pulse_tests.rs"]
mod tests;
