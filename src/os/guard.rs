//! The guard of a name: a file flock'd for the microseconds of a change, holding
//! the last token. It is never unlinked and never truncated by us; a cleaner may
//! unlink it, which [`Guard::is_current`] notices.

use crate::model::token::{GuardToken, guard_line};
use crate::os::dir::{Dir, Opened};
use crate::os::flock::{self, Mode};
use crate::os::mask::Blocked;
use rustix::fs::OFlags;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// A held guard. Dropping it unlocks at once, also for a child forked beside it.
#[derive(Debug)]
pub(crate) struct Guard<'dir> {
    dir: &'dir Dir,
    name: String,
    file: File,
    _stops: Blocked,
}

/// What trying to take a guard gave.
#[derive(Debug)]
pub(crate) enum Taking<'dir> {
    Won(Guard<'dir>),
    /// Somebody stays in the middle of a change; who, if that could be seen.
    Stuck(Vec<u32>),
    /// Not a regular file.
    NotAFile(&'static str),
}

impl<'dir> Guard<'dir> {
    /// Takes the guard of `name`, waiting at most `patience` for others.
    ///
    /// # Errors
    /// ENOSPC, EROFS, EACCES on creating it, ENOLCK on locking it.
    pub(crate) fn take(dir: &'dir Dir, name: &str, patience: Duration) -> io::Result<Taking<'dir>> {
        let end = Instant::now() + patience;
        let name = format!("{name}.guard");
        loop {
            let stops = Blocked::terminal_stops();
            let file = match dir.open_or_create(&name, OFlags::RDWR)? {
                Opened::File(file) => file,
                Opened::Missing => return Err(rustix::io::Errno::NOENT.into()),
                Opened::NotAFile(what) => return Ok(Taking::NotAFile(what)),
            };
            let left = end.saturating_duration_since(Instant::now());
            let Some(file) = flock::lock_within(file, Mode::Exclusive, left)? else {
                return Ok(Taking::Stuck(holders_of(dir, &name)));
            };
            if dir.leads_to(&name, &file)? {
                return Ok(Taking::Won(Self { dir, name, file, _stops: stops }));
            }
            // Locked a file that is not there any more: the lock of the new one is what counts.
            if Instant::now() >= end {
                return Ok(Taking::Stuck(Vec::new()));
            }
        }
    }

    /// The last token taken through it.
    pub(crate) fn token(&self) -> io::Result<GuardToken> {
        token_in(&self.file)
    }

    /// Stores a token, by one write at offset 0.
    ///
    /// # Errors
    /// ENOSPC and the like; a short write is WriteZero.
    pub(crate) fn write_token(&self, token: u64) -> io::Result<()> {
        let line = guard_line(token);
        let written = loop {
            match self.file.write_at(line.as_bytes(), 0) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        if written == line.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    /// Is it still the file that everybody else would lock, seen by the full path?
    pub(crate) fn is_current(&self) -> io::Result<bool> {
        self.dir.path_leads_to(&self.name, &self.file)
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        drop(flock::unlock(&self.file));
    }
}

/// The last token of a name, without taking its guard. `None`: there is no guard; one that cannot be read
/// says nothing.
pub(crate) fn peek(dir: &Dir, name: &str) -> Option<GuardToken> {
    match dir.open_file(&format!("{name}.guard"), OFlags::RDONLY) {
        Ok(Opened::File(file)) => Some(token_in(&file).unwrap_or(GuardToken::Garbage)),
        Ok(Opened::Missing) => None,
        Ok(Opened::NotAFile(_)) | Err(_) => Some(GuardToken::Garbage),
    }
}

fn token_in(file: &File) -> io::Result<GuardToken> {
    let mut bytes = [0; 21];
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], length as u64) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(GuardToken::parse(&bytes[..length]))
}

/// Who has the guard, for the message.
fn holders_of(dir: &Dir, name: &str) -> Vec<u32> {
    let Ok(Opened::File(file)) = dir.open_file(name, OFlags::RDONLY) else { return Vec::new() };
    crate::os::fdinfo::holders(&file, |lock| lock.kind == "FLOCK" && lock.write)
        .map_or_else(|_| Vec::new(), |holders| holders.pids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_unlinked_by_a_cleaner_is_noticed() {
        let temp = tempfile::tempdir().expect("dir");
        let dir = Dir::open(temp.path()).expect("open");
        let Ok(Taking::Won(guard)) = Guard::take(&dir, "x", Duration::ZERO) else { panic!("free") };
        guard.write_token(7).expect("write");
        assert_eq!(guard.token().expect("read"), GuardToken::Last(7));
        assert!(guard.is_current().expect("stat"));
        std::fs::remove_file(temp.path().join("x.guard")).expect("unlink");
        assert!(!guard.is_current().expect("stat"));
        drop(guard);
        assert!(
            matches!(Guard::take(&dir, "x", Duration::ZERO), Ok(Taking::Won(_))),
            "a new file, a new lock"
        );
    }

    #[test]
    fn a_held_guard_names_its_holder_and_a_directory_is_none() {
        let temp = tempfile::tempdir().expect("dir");
        let dir = Dir::open(temp.path()).expect("open");
        let Ok(Taking::Won(_guard)) = Guard::take(&dir, "x", Duration::ZERO) else { panic!("free") };
        let Ok(Taking::Stuck(pids)) = Guard::take(&dir, "x", Duration::from_millis(20)) else {
            panic!("held")
        };
        assert_eq!(pids, [std::process::id()]);
        std::fs::create_dir(temp.path().join("y.guard")).expect("mkdir");
        assert!(matches!(Guard::take(&dir, "y", Duration::ZERO), Ok(Taking::NotAFile("a directory"))));
    }
}
