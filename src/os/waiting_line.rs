//! The line of waiters: a flock on `NAME.queue`. Who has it is first; the kernel
//! gives it to the next when the first leaves or dies.

use crate::os::dir::{Dir, Opened};
use crate::os::flock::{self, Mode};
use crate::os::helper_thread::{self, Wakeup};
use rustix::fs::OFlags;
use std::fs::File;
use std::io;
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
        let file = match dir.open_or_create(&format!("{name}.queue"), OFlags::RDWR)? {
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
