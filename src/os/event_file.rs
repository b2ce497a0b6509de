//! Event logs of tickets, and the lock of whoever changes a ticket from this
//! machine: files beside a claim's record.

use crate::os::dir::{Dir, Opened};
use crate::os::flock::{self, Mode};
use crate::os::log_file::{tail, write_end};
use rustix::fs::OFlags;
use std::fs::File;
use std::io;
use std::time::Duration;

/// How much of the end of a log is looked at, bytes.
const END: u64 = 8 * 1024;
/// How long a writer waits for others before it appends anyway.
const PATIENCE: Duration = Duration::from_millis(100);

fn file_name(key: &str) -> String {
    format!("{key}.events")
}

/// Appends one line; a torn last line is closed first.
///
/// # Errors
/// What opening or writing answers; what is not a file is InvalidData.
pub(crate) fn append(dir: &Dir, key: &str, line: String) -> io::Result<()> {
    let Opened::File(file) = dir.open_or_create(&file_name(key), OFlags::RDWR | OFlags::APPEND)? else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let spare = file.try_clone()?;
    // Kept until the line is written: the lock ends with it.
    let locked = flock::lock_within(file, Mode::Exclusive, PATIENCE)?;
    let written = last_bytes(&spare).and_then(|end| write_end(&spare, &end, line));
    drop(locked);
    written
}

/// The end of a key's log, 8 KiB at most; empty when there is none or it cannot be read.
pub(crate) fn end(dir: &Dir, key: &str) -> Vec<u8> {
    match dir.open_file(&file_name(key), OFlags::RDONLY) {
        Ok(Opened::File(file)) => last_bytes(&file).unwrap_or_default(),
        _ => Vec::new(),
    }
}

fn last_bytes(file: &File) -> io::Result<Vec<u8>> {
    tail(file, file.metadata()?.len(), END)
}

/// The right to heal what a dead claim of `key` left on its ticket: one process at
/// a time on this machine, given back by closing. `None`: somebody else is at it.
///
/// # Errors
/// As [`append`].
pub(crate) fn healer(dir: &Dir, key: &str, patience: Duration) -> io::Result<Option<File>> {
    match dir.open_or_create(&format!("{key}.heal"), OFlags::RDWR)? {
        Opened::File(file) => flock::lock_within(file, Mode::Exclusive, patience),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_and_the_end_of_a_huge_log_is_enough() {
        let temp = tempfile::tempdir().expect("dir");
        let dir = Dir::open(temp.path()).expect("open");
        assert!(end(&dir, "1").is_empty());
        std::fs::write(temp.path().join("1.events"), "x".repeat(1 << 20)).expect("torn");
        append(&dir, "1", "last\n".into()).expect("append");
        let end = end(&dir, "1");
        assert!(end.ends_with(b"x\nlast\n") && end.len() == 8192);
        std::fs::create_dir(temp.path().join("2.events")).expect("a directory");
        assert!(append(&dir, "2", "x\n".into()).is_err() && super::end(&dir, "2").is_empty());
    }

    #[test]
    fn one_heals_at_a_time() {
        let temp = tempfile::tempdir().expect("dir");
        let dir = Dir::open(temp.path()).expect("open");
        let first = healer(&dir, "1", Duration::ZERO).expect("open").expect("free");
        assert!(healer(&dir, "1", Duration::ZERO).expect("open").is_none());
        assert!(healer(&dir, "2", Duration::ZERO).expect("open").is_some());
        drop(first);
        assert!(healer(&dir, "1", Duration::ZERO).expect("open").is_some());
    }
}
