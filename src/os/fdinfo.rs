//! Who has a lock on a file: the `lock:` lines of `/proc/PID/fdinfo/N`
//! (proc_pid_fdinfo(5)), which name the locks of that very open file description.
//!
//! The file is recognised by the descriptor's device and inode, not by the numbers
//! in the line: those are the kernel's inner ones and differ on btrfs and overlay.
//! `/proc/locks` is not used: it keeps naming a dead process whose child inherited
//! the lock.

use crate::os::proc;
use rustix::fs::{Stat, fstat, stat};
use std::fs;
use std::io;
use std::os::fd::AsFd;

/// One `lock:` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockLine {
    /// `FLOCK`, `OFDLCK`, `POSIX`, `LEASE`.
    pub(crate) kind: String,
    /// `WRITE` or `READ`.
    pub(crate) write: bool,
    /// First byte; 0 for flocks.
    pub(crate) start: u64,
    /// Last byte; `None` is the end of the file.
    pub(crate) end: Option<u64>,
}

/// Parses the text after `lock:`: `1: FLOCK  ADVISORY  WRITE 812 fd:01:77 0 EOF`.
fn parse_line(line: &str) -> Option<LockLine> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let kind = words.next()?.to_owned();
    let write = match words.nth(1)? {
        "WRITE" => true,
        "READ" => false,
        _ => return None,
    };
    let start = words.nth(2)?.parse().ok()?;
    let end = match words.next()? {
        "EOF" => None,
        last => Some(last.parse().ok()?),
    };
    Some(LockLine { kind, write, start, end })
}

/// The locks in the text of one fdinfo file.
fn parse(text: &[u8]) -> Vec<LockLine> {
    let lines = text.split(|byte| *byte == b'\n');
    let locks = lines.filter_map(|line| std::str::from_utf8(line.strip_prefix(b"lock:")?).ok());
    locks.filter_map(parse_line).collect()
}

/// What a search gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LockHolders {
    /// Processes with a matching lock, ascending, each once.
    pub(crate) pids: Vec<u32>,
    /// A process could not be looked into: there may be more.
    pub(crate) blind: bool,
}

/// Which processes have a lock on `file` that `matches`. Looks at every process.
///
/// # Errors
/// `/proc` cannot be listed, or `file` cannot be examined.
pub(crate) fn holders(file: impl AsFd, matches: impl Fn(&LockLine) -> bool) -> io::Result<LockHolders> {
    let wanted = fstat(file)?;
    let mut found = LockHolders { pids: Vec::new(), blind: !proc::is_ours() };
    for pid in proc::pids()? {
        match has_lock_on(pid, &wanted, &matches) {
            Ok(true) => found.pids.push(pid),
            Ok(false) => {}
            Err(error) if proc::is_gone(&error) => {}
            Err(_) => found.blind = true,
        }
    }
    found.pids.sort_unstable();
    Ok(found)
}

/// Has this process a lock on `file` that `matches`?
///
/// # Errors
/// EACCES when it is somebody else's, ENOENT or ESRCH when it is gone.
pub(crate) fn holds(pid: u32, file: impl AsFd, matches: impl Fn(&LockLine) -> bool) -> io::Result<bool> {
    has_lock_on(pid, &fstat(file)?, &matches)
}

fn has_lock_on(pid: u32, wanted: &Stat, matches: &impl Fn(&LockLine) -> bool) -> io::Result<bool> {
    for entry in fs::read_dir(proc::path(pid, "fdinfo"))? {
        let name = entry?.file_name();
        let text = match proc::read_file(proc::path(pid, "fdinfo").join(&name)) {
            Ok(text) => text,
            // A descriptor closed since the listing holds nothing.
            Err(error) if proc::is_gone(&error) => continue,
            Err(error) => return Err(error),
        };
        if !parse(&text).iter().any(matches) {
            continue;
        }
        // Only now a look at the file itself, which may sit on a server that does not answer.
        match stat(proc::path(pid, "fd").join(&name)) {
            Ok(found) if found.st_dev == wanted.st_dev && found.st_ino == wanted.st_ino => return Ok(true),
            Ok(_) => {}
            Err(error) if proc::is_gone(&error.into()) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

/// A flock, shared or exclusive.
pub(crate) fn any_flock(lock: &LockLine) -> bool {
    lock.kind == "FLOCK"
}

/// Every lock that a process has through descriptors numbered at least `least`, with the descriptor's name.
///
/// # Errors
/// EACCES when it is somebody else's, ENOENT or ESRCH when it is gone.
pub(crate) fn locks_of(pid: u32, least: u32) -> io::Result<Vec<(String, LockLine)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(proc::path(pid, "fdinfo"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.parse::<u32>().is_ok_and(|number| number < least) {
            continue;
        }
        match proc::read_file(proc::path(pid, "fdinfo").join(&name)) {
            Ok(text) => found.extend(parse(&text).into_iter().map(|lock| (name.clone(), lock))),
            Err(error) if proc::is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// An exclusive flock.
pub(crate) fn exclusive_flock(lock: &LockLine) -> bool {
    lock.kind == "FLOCK" && lock.write
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::flock::{Mode, try_lock};

    #[test]
    fn lines_of_the_kernel_are_read() {
        let text = b"pos:\t0\nflags:\t02100002\nmnt_id:\t24\nino:\t77\n\
            lock:\t1: FLOCK  ADVISORY  WRITE 812 fd:01:77 0 EOF\n\
            lock:\t2: OFDLCK ADVISORY  READ -1 fd:01:77 1796 1796\nlock:\tnonsense\n";
        let locks = parse(text);
        assert_eq!(locks.len(), 2);
        assert_eq!(locks[0], LockLine { kind: "FLOCK".into(), write: true, start: 0, end: None });
        assert_eq!(locks[1], LockLine { kind: "OFDLCK".into(), write: false, start: 1796, end: Some(1796) });
    }

    #[test]
    fn the_holder_is_found_by_its_descriptor() {
        let file = tempfile::NamedTempFile::new().expect("file");
        let other = tempfile::NamedTempFile::new().expect("file");
        assert!(!holds(std::process::id(), &file, exclusive_flock).expect("look"));
        assert!(try_lock(file.as_file(), Mode::Exclusive).expect("lock"));
        let me = std::process::id();
        assert!(holds(me, &file, exclusive_flock).expect("look"));
        assert!(!holds(me, &other, exclusive_flock).expect("look"), "another file");
        assert_eq!(holders(&file, exclusive_flock).expect("search").pids, [me]);
        let reopened = fs::File::open(file.path()).expect("open");
        assert!(holds(me, &reopened, exclusive_flock).expect("look"), "told by device and inode");
    }
}
