//! The pulse: an open-file-description read lock on one byte of `NAME.pulse`, at
//! the offset of the token. Everything a run starts inherits the descriptor, so
//! the byte stays locked while any of it lives (fcntl(2), F_OFD_SETLK).

use crate::model::observation::PulseFacts;
use crate::os::dir::{Dir, Opened};
use crate::os::fdinfo;
use crate::os::helper_thread::{self, Wakeup};
use crate::os::high_fd;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rustix::fs::OFlags;
use rustix::io::{FdFlags, fcntl_setfd};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// A pulse that this process carries.
#[derive(Debug)]
pub(crate) struct Pulse(OwnedFd);

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

fn byte_lock(kind: libc::c_int, start: i64, length: i64) -> libc::flock {
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
pub(crate) fn open(dir: &Dir, name: &str) -> io::Result<OwnedFd> {
    let file = match dir.open_file(&file_name(name), OFlags::RDONLY)? {
        Opened::Missing => match dir.create(&file_name(name)) {
            Ok(_) => reopen(dir, name)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => reopen(dir, name)?,
            Err(error) => return Err(error),
        },
        Opened::File(file) => file,
        Opened::NotAFile(_) => return Err(io::ErrorKind::InvalidData.into()),
    };
    high_fd::duplicate(&file)
}

/// Read-only, so that nothing that inherits it can write there.
fn reopen(dir: &Dir, name: &str) -> io::Result<File> {
    match dir.open_file(&file_name(name), OFlags::RDONLY)? {
        Opened::File(file) => Ok(file),
        Opened::Missing | Opened::NotAFile(_) => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Locks the token's byte for reading through `fd`.
///
/// # Errors
/// ENOLCK and the like.
pub(crate) fn lock(fd: OwnedFd, token: u64) -> io::Result<Left> {
    Ok(if lock_through(&fd, token)? { Left::Pulse(Pulse(fd)) } else { Left::Unsupported })
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

/// Is `fd` this very pulse file?
pub(crate) fn is_pulse_of(dir: &Dir, name: &str, fd: impl AsFd) -> bool {
    dir.leads_to(&file_name(name), fd).unwrap_or(false)
}

impl Pulse {
    /// Hands it on to what this process becomes or starts.
    pub(crate) fn inherit(&self) -> io::Result<()> {
        Ok(fcntl_setfd(&self.0, FdFlags::empty())?)
    }

    /// Gives it up in this process only, by closing: a child that has it keeps the lock.
    pub(crate) fn close(self) {
        drop(self.0);
    }
}

/// Asks for the token's byte, or with `None` for any byte, without taking anything.
pub(crate) fn ask(dir: &Dir, name: &str, token: Option<u64>) -> PulseFacts {
    match dir.open_file(&file_name(name), OFlags::RDONLY) {
        Ok(Opened::File(file)) => match token {
            Some(token) => offset(token).map_or(PulseFacts::Unclear, |start| ask_range(&file, start, 1)),
            None => ask_range(&file, 0, 0),
        },
        Ok(Opened::Missing) => PulseFacts::Free,
        Ok(Opened::NotAFile(_)) | Err(_) => PulseFacts::Unclear,
    }
}

/// `length` 0 is to the end of the file, as in fcntl(2).
fn ask_range(file: &File, mut start: i64, length: i64) -> PulseFacts {
    loop {
        let mut answer = byte_lock(libc::F_WRLCK, start, length);
        match fcntl(file, FcntlArg::F_OFD_GETLK(&mut answer)) {
            Ok(_) => {}
            Err(Errno::EINTR) => continue,
            // No such locks here, so nobody can have left one.
            Err(Errno::EINVAL | Errno::EOPNOTSUPP) => return PulseFacts::Free,
            Err(_) => return PulseFacts::Unclear,
        }
        match i32::from(answer.l_type) {
            libc::F_UNLCK => return PulseFacts::Free,
            libc::F_RDLCK => return PulseFacts::Held,
            // A write lock is a waiter. In a range there may be a read lock behind it.
            _ if length == 1 || answer.l_len == 0 => return PulseFacts::Free,
            _ => start = answer.l_start.saturating_add(answer.l_len),
        }
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
pub(crate) fn carries(dir: &Dir, name: &str, token: u64, pid: u32) -> bool {
    let Ok(Opened::File(file)) = dir.open_file(&file_name(name), OFlags::RDONLY) else { return false };
    fdinfo::holds(pid, &file, |lock| is_pulse(lock, Some(token))).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pulse_stands_for_its_token_only_and_asking_takes_nothing() {
        let temp = tempfile::tempdir().expect("dir");
        let dir = Dir::open(temp.path()).expect("open");
        assert_eq!(ask(&dir, "x", Some(7)), PulseFacts::Free, "no file");
        let Left::Pulse(pulse) = lock(open(&dir, "x").expect("open"), 7).expect("lock") else {
            panic!("this file system has such locks")
        };
        for _ in 0..3 {
            assert_eq!(ask(&dir, "x", Some(7)), PulseFacts::Held);
            assert_eq!(ask(&dir, "x", Some(8)), PulseFacts::Free);
            assert_eq!(ask(&dir, "x", None), PulseFacts::Held);
        }
        assert_eq!(carriers(&dir, "x", Some(7)).pids, [std::process::id()]);
        assert!(carries(&dir, "x", 7, std::process::id()));
        assert!(!carries(&dir, "x", 8, std::process::id()));
        assert!(carriers(&dir, "x", Some(8)).pids.is_empty());
        pulse.close();
        assert_eq!(ask(&dir, "x", None), PulseFacts::Free);
    }

    #[test]
    fn a_waiters_write_lock_is_not_life_but_hides_no_reader() {
        let temp = tempfile::tempdir().expect("dir");
        let dir = Dir::open(temp.path()).expect("open");
        drop(open(&dir, "x").expect("made"));
        let waiter = File::options().write(true).open(temp.path().join("x.pulse")).expect("open");
        fcntl(&waiter, FcntlArg::F_OFD_SETLK(&byte_lock(libc::F_WRLCK, 5, 1))).expect("write lock");
        assert_eq!(ask(&dir, "x", Some(5)), PulseFacts::Free);
        assert_eq!(ask(&dir, "x", None), PulseFacts::Free);
        let pulse = lock(open(&dir, "x").expect("open"), 9).expect("lock");
        assert_eq!(ask(&dir, "x", None), PulseFacts::Held);
        drop(pulse);
    }

    #[test]
    fn the_end_of_a_pulse_rings_and_waiting_for_it_is_not_life() {
        let temp = tempfile::tempdir().expect("dir");
        let dir = Dir::open(temp.path()).expect("open");
        let pulse = lock(open(&dir, "x").expect("open"), 7).expect("lock");
        let (first, second) = (Wakeup::new().expect("bell"), Wakeup::new().expect("bell"));
        let waits = [&first, &second].map(|bell| Watched::start(&dir, "x", 7, bell).expect("thread"));
        assert!(waits.iter().all(Watched::waits));
        assert_eq!(ask(&dir, "x", Some(7)), PulseFacts::Held);
        drop(pulse);
        for (bell, wait) in [&first, &second].iter().zip(&waits) {
            let timeout = Some(std::time::Duration::from_secs(20));
            assert!(!crate::os::process::wait_any(&[bell.as_fd()], timeout).expect("poll").is_empty());
            assert!(!wait.waits() && !wait.failed());
        }
        assert_eq!(ask(&dir, "x", None), PulseFacts::Free);
    }
}
