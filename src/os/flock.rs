//! flock(2), the whole of it. The lock belongs to the open file description: it
//! ends when the last duplicate is closed, or when any duplicate is unlocked.
//!
//! fs2's methods are called by their full path because std has methods of the
//! same names now, and a plain `file.unlock()` would silently be std's.

use crate::os::helper_thread;
use std::fs::File;
use std::io;
use std::sync::mpsc;
use std::time::Duration;

/// Shared or exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// LOCK_SH
    Shared,
    /// LOCK_EX
    Exclusive,
}

/// Takes the lock if it is free; `false` when somebody else has it.
///
/// # Errors
/// ENOLCK, EBADF, and whatever a file system without flock answers.
pub(crate) fn try_lock(file: &File, mode: Mode) -> io::Result<bool> {
    loop {
        let outcome = match mode {
            Mode::Shared => fs2::FileExt::try_lock_shared(file),
            Mode::Exclusive => fs2::FileExt::try_lock_exclusive(file),
        };
        match outcome {
            Ok(()) => return Ok(true),
            Err(error) if error.raw_os_error() == fs2::lock_contended_error().raw_os_error() => {
                return Ok(false);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Waits for the lock without a limit.
///
/// # Errors
/// As [`try_lock`].
pub(crate) fn lock(file: &File, mode: Mode) -> io::Result<()> {
    loop {
        let outcome = match mode {
            Mode::Shared => fs2::FileExt::lock_shared(file),
            Mode::Exclusive => fs2::FileExt::lock_exclusive(file),
        };
        match outcome {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Waits for the lock, at most `timeout`. flock(2) has no time-out of its own, so
/// a helper thread blocks and hands the locked file back.
///
/// `None`: time is over and the file is gone with the helper, which closes it, and
/// so frees the lock, at the very moment it would win it.
///
/// # Errors
/// As [`try_lock`], and what starting a thread answers.
pub(crate) fn lock_within(file: File, mode: Mode, timeout: Duration) -> io::Result<Option<File>> {
    if try_lock(&file, mode)? {
        return Ok(Some(file));
    }
    if timeout.is_zero() {
        return Ok(None);
    }
    match lock_in_background(file, mode)?.recv_timeout(timeout) {
        Ok(outcome) => outcome.map(Some),
        Err(_) => Ok(None),
    }
}

/// Blocks on the lock in a helper thread; the receiver gets the locked file.
/// Dropping the receiver gives the lock back as soon as it is won.
///
/// # Errors
/// What starting a thread answers.
pub(crate) fn lock_in_background(file: File, mode: Mode) -> io::Result<mpsc::Receiver<io::Result<File>>> {
    // No room in the channel: handing over succeeds only while somebody waits for
    // it. With room, a lock won just after the time-out would sit there, held.
    let (sender, receiver) = mpsc::sync_channel(0);
    helper_thread::start("flock", move || {
        let outcome = lock(&file, mode).map(|()| file);
        drop(sender.send(outcome));
    })?;
    Ok(receiver)
}

/// Frees the lock for every duplicate of the description. Only where that is
/// meant; a lock that a child may share is released by closing.
///
/// # Errors
/// EBADF and the like.
pub(crate) fn unlock(file: &File) -> io::Result<()> {
    fs2::FileExt::unlock(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Instant;

    fn open(path: &std::path::Path) -> File {
        File::options().read(true).write(true).open(path).expect("open")
    }

    #[test]
    fn busy_is_a_value_and_closing_frees() {
        let file = tempfile::NamedTempFile::new().expect("file");
        let (first, second) = (open(file.path()), open(file.path()));
        assert!(try_lock(&first, Mode::Exclusive).expect("lock"));
        assert!(!try_lock(&second, Mode::Exclusive).expect("busy"));
        assert!(!try_lock(&second, Mode::Shared).expect("busy"));
        drop(first);
        assert!(try_lock(&second, Mode::Shared).expect("lock"));
        assert!(try_lock(&open(file.path()), Mode::Shared).expect("shared twice"));
        unlock(&second).expect("unlock");
        assert!(try_lock(&open(file.path()), Mode::Exclusive).expect("lock"));
    }

    #[test]
    fn a_wait_that_timed_out_never_keeps_the_lock() {
        let file = tempfile::NamedTempFile::new().expect("file");
        let holder = open(file.path());
        assert!(try_lock(&holder, Mode::Exclusive).expect("lock"));
        let waited =
            lock_within(open(file.path()), Mode::Exclusive, Duration::from_millis(30)).expect("wait");
        assert!(waited.is_none());
        drop(holder);
        let end = Instant::now() + Duration::from_secs(20);
        // The helper wins now, closes, and the lock is free again.
        while !try_lock(&open(file.path()), Mode::Exclusive).expect("lock") {
            assert!(Instant::now() < end, "the helper kept the lock");
            thread::yield_now();
        }
    }

    #[test]
    fn a_waiter_gets_the_lock_when_it_comes_free() {
        let file = tempfile::NamedTempFile::new().expect("file");
        let holder = open(file.path());
        assert!(try_lock(&holder, Mode::Exclusive).expect("lock"));
        let waiting = lock_in_background(open(file.path()), Mode::Exclusive).expect("thread");
        assert!(waiting.try_recv().is_err());
        drop(holder);
        let won = waiting.recv_timeout(Duration::from_secs(20)).expect("in time").expect("lock");
        assert!(!try_lock(&open(file.path()), Mode::Exclusive).expect("busy"));
        drop(won);
    }
}
