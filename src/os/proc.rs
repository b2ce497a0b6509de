//! Readers for `/proc/PID`. Bytes in, plain facts out; a process that vanishes in
//! the middle is an `io::Error` (ENOENT or ESRCH), never a guess.

use crate::os::clock;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What `/proc/PID/stat` says, as far as anybody here needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProcStat {
    pub(crate) pid: u32,
    pub(crate) ppid: u32,
    /// Bytes that are not UTF-8 are replaced: for showing only.
    pub(crate) comm: String,
    /// `R`, `S`, `D`, `T`, `t`, `Z`, `X` … (proc_pid_stat(5)).
    pub(crate) state: char,
    pub(crate) pgrp: i32,
    pub(crate) session: i32,
    /// Controlling terminal as a device number, 0 for none.
    pub(crate) tty_nr: i32,
    /// Foreground process group of that terminal, -1 for none.
    pub(crate) tpgid: i32,
    /// A thread of the kernel's own: it opens no files of ours and never ends.
    pub(crate) kernel: bool,
    /// User plus system time, clock ticks.
    pub(crate) cpu_ticks: u64,
    /// Field 22, clock ticks since boot.
    pub(crate) start_ticks: u64,
    /// Resident memory, pages.
    pub(crate) rss_pages: u64,
}

/// Of the flags in field 9: a kernel thread (linux/sched.h).
const PF_KTHREAD: u64 = 0x0020_0000;

/// Parses the bytes of a stat file. The name may hold anything, `)` and newlines
/// too, so the numbers begin behind the last `)` of the bytes.
pub(crate) fn parse_stat(bytes: &[u8]) -> io::Result<ProcStat> {
    split_stat(bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn split_stat(bytes: &[u8]) -> Option<ProcStat> {
    let open = bytes.iter().position(|byte| *byte == b'(')?;
    let close = bytes.iter().rposition(|byte| *byte == b')').filter(|close| *close > open)?;
    let pid = std::str::from_utf8(&bytes[..open]).ok()?.strip_suffix(' ')?.parse().ok()?;
    let rest = std::str::from_utf8(&bytes[close + 1..]).ok()?;
    // Field 3 of proc_pid_stat(5) is the first one behind the name.
    let fields: Vec<&str> = rest.split_ascii_whitespace().take(22).collect();
    let field = |number: usize| fields.get(number - 3).copied();
    let number = |at: usize| field(at)?.parse::<u64>().ok();
    let signed = |at: usize| field(at)?.parse::<i32>().ok();
    Some(ProcStat {
        pid,
        ppid: field(4)?.parse().ok()?,
        comm: String::from_utf8_lossy(&bytes[open + 1..close]).into_owned(),
        state: field(3)?.chars().next()?,
        pgrp: signed(5)?,
        session: signed(6)?,
        tty_nr: signed(7)?,
        tpgid: signed(8)?,
        kernel: number(9)? & PF_KTHREAD != 0,
        cpu_ticks: number(14)?.saturating_add(number(15)?),
        start_ticks: number(22)?,
        rss_pages: number(24)?,
    })
}

/// Reads a small file in one or two reads: `/proc` files have no size that could be asked for first.
pub(crate) fn read_file(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(1024);
    // Through `take`, or std asks for the size all the same.
    File::open(path)?.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// `/proc/PID/FILE`.
pub(crate) fn path(pid: u32, file: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{file}"))
}

/// Reads and parses `/proc/PID/stat`.
pub(crate) fn stat(pid: u32) -> io::Result<ProcStat> {
    parse_stat(&read_file(path(pid, "stat"))?)
}

/// The thread group a task belongs to and its effective uid, from `/proc/PID/status`.
/// A thread's id opens `/proc/TID` too; only `Tgid` gives it away.
pub(crate) fn tgid_and_uid(pid: u32) -> io::Result<(u32, u32)> {
    let text = read_file(path(pid, "status"))?;
    let field = |name: &[u8], column: usize| {
        let line = text.split(|byte| *byte == b'\n').find(|line| line.starts_with(name))?;
        let line = std::str::from_utf8(line).ok()?;
        line.split_ascii_whitespace().nth(column)?.parse().ok()
    };
    match (field(b"Tgid:", 1), field(b"Uid:", 2)) {
        (Some(tgid), Some(uid)) => Ok((tgid, uid)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The numbers of a process in its pid namespaces, from that of `/proc` down to its own
/// (`NSpid` of proc_pid_status(5), kernel 4.1).
pub(crate) fn namespace_pids(pid: u32) -> io::Result<Vec<u32>> {
    let text = read_file(path(pid, "status"))?;
    let line = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"NSpid:"));
    let numbers = line.and_then(|line| std::str::from_utf8(line).ok()).unwrap_or_default();
    Ok(numbers.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect())
}

/// CLOCK_BOOTTIME at the start of a process, microseconds, on the clock of our own time
/// namespace. Too early by up to one clock tick.
pub(crate) fn started_us(stat: &ProcStat) -> Option<u64> {
    let per_second = rustix::param::clock_ticks_per_second();
    stat.start_ticks.checked_mul(1_000_000)?.checked_div(per_second)
}

/// For how long a process has been there, suspend included; `None` for one that is gone.
pub(crate) fn age(pid: u32) -> Option<Duration> {
    let started = started_us(&stat(pid).ok()?)?;
    clock::boottime_us().checked_sub(started).map(Duration::from_micros)
}

/// The states of every thread of a process, sorted.
pub(crate) fn thread_states(pid: u32) -> io::Result<Vec<char>> {
    let mut states = Vec::new();
    for entry in fs::read_dir(path(pid, "task"))? {
        match read_file(entry?.path().join("stat")).and_then(|bytes| parse_stat(&bytes)) {
            Ok(stat) => states.push(stat.state),
            // A thread that ended between the listing and the look says nothing.
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    states.sort_unstable();
    Ok(states)
}

/// Arguments of a process, one item each; empty for kernel threads and zombies.
pub(crate) fn cmdline(pid: u32) -> io::Result<Vec<Vec<u8>>> {
    let bytes = read_file(path(pid, "cmdline"))?;
    let trimmed = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
    if trimmed.is_empty() {
        return Ok(Vec::new());
    }
    Ok(trimmed.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect())
}

/// Every process number in `/proc` now.
pub(crate) fn pids() -> io::Result<Vec<u32>> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        if let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
            pids.push(pid);
        }
    }
    Ok(pids)
}

/// Does an error mean that the process is not there?
pub(crate) fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(nix::libc::ENOENT | nix::libc::ESRCH))
}

/// Is our `/proc` about our own pid namespace? It is not in a sandbox that
/// unshares pids without a new `/proc`, and then it describes strangers.
pub(crate) fn is_ours() -> bool {
    fs::read_link("/proc/self").is_ok_and(|link| link.as_os_str() == std::process::id().to_string().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: &str = "1 2 3 34820 5 6 7 8 9 10 11 12 13 14 20 0 1 0 4242 100 200 18446744073709551615 \
        1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0";

    #[test]
    fn the_name_may_hold_anything() {
        for comm in [&b"sh"[..], b") R 0 0 (", b"nl\nname", b"x) S 1 1", b"", b"\xc3\xa9\xc3"] {
            let mut bytes = b"77 (".to_vec();
            bytes.extend_from_slice(comm);
            bytes.extend_from_slice(b") S ");
            bytes.extend_from_slice(REST.as_bytes());
            let stat = parse_stat(&bytes).expect("a stat line");
            assert_eq!(
                (stat.pid, stat.ppid, stat.start_ticks, stat.tty_nr),
                (77, 1, 4242, 34820),
                "{comm:?}"
            );
        }
        assert!(parse_stat(b"").is_err());
        for torn in [&b"77 (sh"[..], b"77 )(", b"(", b"77 (sh) S 1 2", b"x (sh) S 1", b"77 (sh)\xff"] {
            assert!(parse_stat(torn).is_err(), "{torn:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_stat_line_crashes_the_parser(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = parse_stat(&bytes).is_ok();
        }

        #[test]
        fn no_damaged_stat_line_crashes_the_parser(at in 0usize..200, byte in proptest::num::u8::ANY) {
            let mut bytes = format!("77 (sh) S {REST}").into_bytes();
            let place = at % bytes.len();
            bytes[place] = byte;
            let _ = parse_stat(&bytes).is_ok();
        }
    }

    #[test]
    fn this_process_is_readable() {
        let pid = std::process::id();
        assert!(is_ours());
        assert_eq!(stat(pid).expect("stat").pid, pid);
        assert_eq!(tgid_and_uid(pid).expect("status").0, pid);
        assert!(!thread_states(pid).expect("threads").is_empty());
        assert!(!cmdline(pid).expect("arguments").is_empty());
        assert!(pids().expect("pids").contains(&pid));
    }
}
