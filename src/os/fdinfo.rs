//! Who has a lock on a file: the `lock:` lines of `/proc/PID/fdinfo/N`
//! (proc_pid_fdinfo(5)), which name the locks of that very open file description.
//!
//! The file is recognised by the descriptor's device and inode, not by the numbers
//! in the line: those are the kernel's inner ones and differ on btrfs and overlay.
//! `/proc/locks` is not used: it keeps naming a dead process whose child inherited
//! the lock.

use crate::os::proc;
use rustix::fs::{fstat, stat};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

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

/// Which open file is meant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OpenFile<'a> {
    Inode {
        dev: u64,
        ino: u64,
    },
    /// One that was called so, in whatever directory, and has no name any more.
    Unlinked(&'a str),
}

impl OpenFile<'_> {
    fn of(file: impl AsFd) -> io::Result<Self> {
        let stat = fstat(file)?;
        Ok(Self::Inode { dev: stat.st_dev, ino: stat.st_ino })
    }

    /// Is the descriptor `name` of the process this file?
    fn is(self, pid: u32, name: &OsStr) -> io::Result<bool> {
        let link = proc::path(pid, "fd").join(name);
        let stat = stat(&link)?;
        match self {
            Self::Inode { dev, ino } => Ok(stat.st_dev == dev && stat.st_ino == ino),
            Self::Unlinked(called) => {
                let target = fs::read_link(&link)?;
                let target = target.as_os_str().as_bytes().strip_suffix(b" (deleted)");
                let last = target.and_then(|path| path.rsplit(|byte| *byte == b'/').next());
                Ok(stat.st_nlink == 0 && last == Some(called.as_bytes()))
            }
        }
    }
}

/// Which processes have a lock on `file` that `matches`. Looks at every process.
///
/// # Errors
/// `/proc` cannot be listed, or `file` cannot be examined.
pub(crate) fn holders(file: impl AsFd, matches: impl Fn(&LockLine) -> bool) -> io::Result<LockHolders> {
    search(OpenFile::of(file)?, None, matches)
}

/// As [`holders`]. Whoever began before `since` (clock ticks since boot) is known to have nothing, so
/// that it need not be looked into.
///
/// # Errors
/// `/proc` cannot be listed.
pub(crate) fn search(
    file: OpenFile<'_>,
    since: Option<u64>,
    matches: impl Fn(&LockLine) -> bool,
) -> io::Result<LockHolders> {
    let mut found = LockHolders { pids: Vec::new(), blind: !proc::is_ours() };
    for pid in proc::pids()? {
        match has_lock_on(pid, file, &matches) {
            Ok(true) => found.pids.push(pid),
            Ok(false) => {}
            Err(error) if proc::is_gone(&error) => {}
            Err(_) => found.blind |= !has_no_files_of(pid, since),
        }
    }
    found.pids.sort_unstable();
    Ok(found)
}

/// Can a process that may not be looked into have nothing that somebody handed down since then?
fn has_no_files_of(pid: u32, since: Option<u64>) -> bool {
    match proc::stat(pid) {
        Ok(stat) => stat.kernel || since.is_some_and(|since| stat.start_ticks < since),
        Err(error) => proc::is_gone(&error),
    }
}

/// Has this process a lock on `file` that `matches`?
///
/// # Errors
/// EACCES when it is somebody else's, ENOENT or ESRCH when it is gone.
pub(crate) fn holds(pid: u32, file: impl AsFd, matches: impl Fn(&LockLine) -> bool) -> io::Result<bool> {
    has_lock_on(pid, OpenFile::of(file)?, &matches)
}

/// As [`holds`], for a file that need not be there any more.
///
/// # Errors
/// As [`holds`].
pub(crate) fn has_lock_on(
    pid: u32,
    file: OpenFile<'_>,
    matches: &impl Fn(&LockLine) -> bool,
) -> io::Result<bool> {
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
        match file.is(pid, &name) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(error) if proc::is_gone(&error) => {}
            Err(error) => return Err(error),
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
        let key = OpenFile::of(&file).expect("stat");
        let flocked = |key| search(key, None, exclusive_flock).expect("search").pids;
        assert_eq!(flocked(key), [me]);
        let OpenFile::Inode { dev, ino } = key else { panic!("by inode") };
        assert!(flocked(OpenFile::Inode { dev: dev + 1, ino }).is_empty(), "the device is compared");
        assert!(flocked(OpenFile::Inode { dev, ino: ino + 1 }).is_empty(), "the inode is compared");
        let reopened = fs::File::open(file.path()).expect("open");
        assert!(holds(me, &reopened, exclusive_flock).expect("look"), "told by device and inode");
    }

    #[test]
    fn a_file_without_a_name_is_found_by_the_name_it_had() {
        let temp = tempfile::tempdir().expect("dir");
        let path = temp.path().join("own.test.pulse");
        let file = fs::File::create(&path).expect("file");
        assert!(try_lock(&file, Mode::Exclusive).expect("lock"));
        let found = |called| search(OpenFile::Unlinked(called), None, exclusive_flock).expect("search").pids;
        assert!(found("own.test.pulse").is_empty(), "it has its name");
        fs::remove_file(&path).expect("unlink");
        assert_eq!(found("own.test.pulse"), [std::process::id()]);
        assert!(found("test.pulse").is_empty() && found("own.test.puls").is_empty());
        drop(file);
        assert!(found("own.test.pulse").is_empty());
    }
}
