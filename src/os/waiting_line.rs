//! The line of waiters: a flock on `NAME.queue`. Who has it is first; the kernel
//! gives it to the next when the first leaves or dies.

use crate::os::dir::{Dir, Opened};
use crate::os::fdinfo::{self, LockHolders};
use crate::os::flock::{self, Mode};
use crate::os::helper_thread::{self, Wakeup};
use crate::os::pulse;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rustix::fs::OFlags;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Our place. Dropping it gives it up; a helper that still blocks closes the file when its turn comes.
#[derive(Debug)]
pub(crate) struct Turn(Arc<Mutex<Slot>>);

#[derive(Debug)]
enum Slot {
    /// Somebody is before us.
    Behind,
    /// First, by the lock on this file.
    First(#[expect(dead_code, reason = "held for its lock")] File),
    /// The flock cannot be had, so there is no line.
    Broken,
    /// We do not want it any more.
    Left,
}

impl Turn {
    /// Joins the line of `name`. The bell rings when we have become first.
    ///
    /// # Errors
    /// What opening or locking the file, or starting a thread answers.
    pub(crate) fn join(dir: &Dir, name: &str, bell: &Wakeup) -> io::Result<Self> {
        let file = match dir.open_or_create(&queue_name(name), OFlags::RDWR)? {
            Opened::File(file) => file,
            Opened::Missing => return Err(io::ErrorKind::NotFound.into()),
            Opened::NotAFile(_) => return Err(io::ErrorKind::InvalidData.into()),
        };
        if flock::try_lock(&file, Mode::Exclusive)? {
            return Ok(Self(Arc::new(Mutex::new(Slot::First(file)))));
        }
        let place = Arc::new(Mutex::new(Slot::Behind));
        let (theirs, bell) = (Arc::clone(&place), bell.clone());
        helper_thread::start("queue", move || {
            let locked = flock::lock(&file, Mode::Exclusive);
            let mut slot = lock(&theirs);
            if matches!(*slot, Slot::Behind) {
                *slot = locked.map_or(Slot::Broken, |()| Slot::First(file));
                bell.ring();
            }
        })?;
        Ok(Self(place))
    }

    /// Is it our turn to watch? Also where there is no line at all.
    pub(crate) fn is_first(&self) -> bool {
        !matches!(*lock(&self.0), Slot::Behind)
    }
}

/// Where the bytes of those who want the name alone are, and of those who come beside others.
const ALONE: i64 = 0;
const BESIDE: i64 = 1 << 20;

/// One waiter, counted: a lock on a byte of the queue file that ends with us. It says nothing of whose turn it is.
#[derive(Debug)]
pub(crate) struct CountedWaiter(#[expect(dead_code, reason = "held for its lock")] File);

impl CountedWaiter {
    /// Takes the lowest free byte. To be called under the guard, where the count must be exact.
    ///
    /// # Errors
    /// The file cannot be had, or its file system has no such locks.
    pub(crate) fn join(dir: &Dir, name: &str, alone: bool) -> io::Result<Self> {
        let file = match dir.open_or_create(&queue_name(name), OFlags::RDWR)? {
            Opened::File(file) => file,
            Opened::Missing => return Err(io::ErrorKind::NotFound.into()),
            Opened::NotAFile(_) => return Err(io::ErrorKind::InvalidData.into()),
        };
        let start = if alone { ALONE } else { BESIDE };
        for byte in start..start + BESIDE {
            let wanted = pulse::byte_lock(libc::F_WRLCK, byte, 1);
            match fcntl(&file, FcntlArg::F_OFD_SETLK(&wanted)) {
                Ok(_) => return Ok(Self(file)),
                Err(Errno::EAGAIN | Errno::EACCES | Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }
}

/// Rings once nobody waits any more who wants the name alone; `true` in the cell then. A helper blocks
/// on a read lock of all their bytes and gives it back at once.
///
/// # Errors
/// The file cannot be had, or what starting a thread answers.
pub(crate) fn when_no_exclusive_waits(dir: &Dir, name: &str, bell: &Wakeup) -> io::Result<Arc<AtomicBool>> {
    let Opened::File(file) = dir.open_file(&queue_name(name), OFlags::RDONLY)? else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let over = Arc::new(AtomicBool::new(false));
    let (theirs, bell) = (Arc::clone(&over), bell.clone());
    helper_thread::start("queue", move || {
        let wanted = pulse::byte_lock(libc::F_RDLCK, ALONE, BESIDE);
        while fcntl(&file, FcntlArg::F_OFD_SETLKW(&wanted)) == Err(Errno::EINTR) {}
        drop(file);
        theirs.store(true, Ordering::Release);
        bell.ring();
    })?;
    Ok(over)
}

/// How many wait for the name. What cannot be seen counts as nobody.
pub(crate) fn count(dir: &Dir, name: &str) -> u64 {
    bytes_locked(dir, name, ALONE, 2 * BESIDE, u64::MAX)
}

/// The processes that wait for the name, as far as they can be seen; looks at every process.
///
/// # Errors
/// The file cannot be had, or `/proc` cannot be listed.
pub(crate) fn who(dir: &Dir, name: &str) -> io::Result<LockHolders> {
    let Opened::File(file) = dir.open_file(&queue_name(name), OFlags::RDONLY)? else {
        return Ok(LockHolders::default());
    };
    // One byte each; the look for the end of all of them is longer.
    fdinfo::holders(&file, |lock| lock.kind == "OFDLCK" && lock.write && lock.end == Some(lock.start))
}

/// Does anybody stand in line, also one who only watches? What cannot be seen counts as somebody.
pub(crate) fn is_used(dir: &Dir, name: &str) -> bool {
    match dir.open_file(&queue_name(name), OFlags::RDONLY) {
        Ok(Opened::Missing) => false,
        Ok(Opened::File(file)) => {
            !flock::try_lock(&file, Mode::Shared).unwrap_or(false) || count(dir, name) > 0
        }
        Ok(Opened::NotAFile(_)) | Err(_) => true,
    }
}

/// Does anybody wait who wants the name alone?
pub(crate) fn exclusive_waits(dir: &Dir, name: &str) -> bool {
    bytes_locked(dir, name, ALONE, BESIDE, 1) > 0
}

fn bytes_locked(dir: &Dir, name: &str, start: i64, end: i64, enough: u64) -> u64 {
    let Ok(Opened::File(file)) = dir.open_file(&queue_name(name), OFlags::RDONLY) else { return 0 };
    let (mut found, mut ranges) = (0, vec![(start, end)]);
    while let Some((start, end)) = ranges.pop() {
        if start >= end || found >= enough {
            continue;
        }
        let mut answer = pulse::byte_lock(libc::F_WRLCK, start, end - start);
        match fcntl(&file, FcntlArg::F_OFD_GETLK(&mut answer)) {
            Ok(_) if i32::from(answer.l_type) != libc::F_UNLCK => {
                // A longer one is nobody's byte: a look for the end of all of them, or a flock that a network
                // file system made a lock of the whole file.
                found += u64::from(answer.l_len == 1);
                // It is any lock of the range, not the first one.
                let behind = if answer.l_len == 0 { end } else { answer.l_start + answer.l_len };
                ranges.extend([(start, answer.l_start), (behind, end)]);
            }
            Err(Errno::EINTR) => ranges.push((start, end)),
            _ => {}
        }
    }
    found
}

fn queue_name(name: &str) -> String {
    format!("{name}.queue")
}

impl Drop for Turn {
    fn drop(&mut self) {
        *lock(&self.0) = Slot::Left;
    }
}

/// Nothing here panics while it has the slot.
fn lock(slot: &Mutex<Slot>) -> MutexGuard<'_, Slot> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::process::wait_any;
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant};

    fn heard(bell: &Wakeup) -> bool {
        !wait_any(&[bell.as_fd()], Some(Duration::from_secs(20))).expect("poll").is_empty()
    }

    #[test]
    fn the_next_becomes_first_and_who_left_is_skipped() {
        let temp = tempfile::tempdir().expect("dir");
        let dir = Dir::open(temp.path()).expect("open");
        let bells: Vec<Wakeup> = (0..3).map(|_| Wakeup::new().expect("bell")).collect();
        let first = Turn::join(&dir, "x", &bells[0]).expect("join");
        assert!(first.is_first());
        let second = Turn::join(&dir, "x", &bells[1]).expect("join");
        let third = Turn::join(&dir, "x", &bells[2]).expect("join");
        assert!(!second.is_first() && !third.is_first());
        drop(second);
        drop(first);
        assert!(heard(&bells[2]), "the one that left gave its turn on");
        assert!(third.is_first());
        drop(third);
        let end = Instant::now() + Duration::from_secs(20);
        while !Turn::join(&dir, "x", &bells[0]).expect("join").is_first() {
            assert!(Instant::now() < end, "somebody who left keeps the line");
            std::thread::yield_now();
        }
    }
}
