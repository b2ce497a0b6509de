//! What one pass tells the next: which terminal was asked when, and since when each job has been quiet.
//! One small file in the state directory. Without it every pass begins anew, and nothing is closed earlier.

use crate::model::terminal::Member;
use crate::os::dir::{Dir, Opened};
use crate::os::flock::{self, Mode};
use crate::os::{clock, host, session};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const FILE: &str = "passes.json";
const LOCK_FILE: &str = "passes.lock";
/// More than this no pass of ours writes.
const MOST: u64 = 4 << 20;
/// How long another pass may stay in the middle of writing.
const PATIENCE: Duration = Duration::from_millis(200);
/// A terminal that was not asked for so long, seconds, is forgotten.
const FORGET: u64 = 30 * 86_400;

/// A process with the counters that showed no change since a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct QuietJob {
    pid: u32,
    start_ticks: u64,
    cpu_ticks: u64,
    /// Bytes moved by any system call and from and to storage, in its whole life.
    bytes: u64,
    /// Microseconds since boot at the first look that found these counters.
    since_us: u64,
}

/// The file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Remembered {
    schema: u32,
    #[serde(default)]
    boot_id: Option<String>,
    /// Seconds since 1970 of the last question or close, by terminal.
    #[serde(default)]
    asked: BTreeMap<String, u64>,
    #[serde(default)]
    jobs: Vec<QuietJob>,
}

/// What earlier passes knew, and what this one adds.
#[derive(Debug, Default)]
pub(super) struct Memory {
    dir: Option<Dir>,
    before: Remembered,
    now: Mutex<Remembered>,
}

impl Memory {
    /// Reads what is there. Without a directory, or in a dry run, nothing will be remembered.
    pub(super) fn open(dir: Option<Dir>) -> Self {
        let before = dir.as_ref().map(read).unwrap_or_default();
        let now = Remembered { schema: 1, boot_id: host::boot_id(), ..Remembered::default() };
        Self { dir, before, now: Mutex::new(now) }
    }

    fn now(&self) -> MutexGuard<'_, Remembered> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When this terminal had its last turn, seconds since 1970; 0 is never.
    pub(super) fn asked(&self, key: &str) -> u64 {
        self.before.asked.get(key).copied().unwrap_or(0)
    }

    /// It has its turn now.
    pub(super) fn ask(&self, key: String) {
        self.now().asked.insert(key, clock::wall().seconds());
    }

    /// How long this process has been seen to do nothing at all; `None` where that cannot be told.
    pub(super) fn quiet(&self, member: &Member, start_ticks: u64, cpu_ticks: u64) -> Option<Duration> {
        let moved = session::moved(member.pid)?;
        let us = clock::boottime_us();
        let seen = QuietJob {
            pid: member.pid,
            start_ticks,
            cpu_ticks,
            bytes: moved.any.saturating_add(moved.storage),
            since_us: us,
        };
        let same_boot = self.before.boot_id.is_some() && self.before.boot_id == self.now().boot_id;
        let since = quiet_since(if same_boot { &self.before.jobs } else { &[] }, &seen);
        let job = QuietJob { since_us: since, ..seen };
        let mut now = self.now();
        now.jobs.retain(|known| known.pid != job.pid || known.start_ticks != job.start_ticks);
        now.jobs.push(job);
        Some(Duration::from_micros(us.saturating_sub(since)))
    }

    /// Writes it down for the next pass. Best effort.
    pub(super) fn keep(&self) {
        let now = self.now().clone();
        if now.asked.is_empty() && now.jobs.is_empty() {
            return;
        }
        if let Some(dir) = &self.dir {
            drop(write(dir, &now));
        }
    }
}

/// The moment from which these counters have not changed.
fn quiet_since(before: &[QuietJob], seen: &QuietJob) -> u64 {
    before
        .iter()
        .find(|job| QuietJob { since_us: seen.since_us, ..(*job).clone() } == *seen)
        .map_or(seen.since_us, |job| job.since_us.min(seen.since_us))
}

/// A file that cannot be read, or is not ours, is as if there were none.
fn read(dir: &Dir) -> Remembered {
    let Ok(Opened::File(file)) = dir.open_file(FILE, OFlags::RDONLY) else { return Remembered::default() };
    let mut bytes = Vec::new();
    if file.take(MOST + 1).read_to_end(&mut bytes).is_err() || bytes.len() as u64 > MOST {
        return Remembered::default();
    }
    serde_json::from_slice(&bytes).ok().filter(|it: &Remembered| it.schema == 1).unwrap_or_default()
}

/// Adds to what other passes wrote meanwhile, and replaces the file whole.
fn write(dir: &Dir, now: &Remembered) -> io::Result<()> {
    let Opened::File(lock) = dir.open_or_create(LOCK_FILE, OFlags::RDWR)? else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let Some(_lock) = flock::lock_within(lock, Mode::Exclusive, PATIENCE)? else {
        return Err(io::ErrorKind::WouldBlock.into());
    };
    let merged = merge(read(dir), now, clock::wall().seconds());
    let temporary = format!("{FILE}.new");
    dir.unlink(&temporary)?;
    let mut file = dir.create(&temporary)?;
    file.write_all(&serde_json::to_vec(&merged)?)?;
    dir.rename(&temporary, FILE)
}

fn merge(there: Remembered, now: &Remembered, seconds: u64) -> Remembered {
    let mut merged = now.clone();
    for (key, at) in there.asked {
        if seconds.saturating_sub(at) < FORGET {
            merged.asked.entry(key).or_insert(at);
        }
    }
    if there.boot_id == now.boot_id {
        let known = |job: &QuietJob| {
            now.jobs.iter().any(|one| one.pid == job.pid && one.start_ticks == job.start_ticks)
        };
        // A job of another automation's pass stays while its process does.
        let lives = |job: &QuietJob| {
            crate::os::proc::stat(job.pid).is_ok_and(|stat| stat.start_ticks == job.start_ticks)
        };
        merged.jobs.extend(there.jobs.into_iter().filter(|job| !known(job) && lives(job)));
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(cpu_ticks: u64, bytes: u64, since_us: u64) -> QuietJob {
        QuietJob { pid: std::process::id(), start_ticks: 5, cpu_ticks, bytes, since_us }
    }

    #[test]
    fn a_job_is_quiet_since_its_counters_last_changed() {
        let seen = job(3, 100, 900);
        assert_eq!(quiet_since(&[], &seen), 900, "first seen now");
        assert_eq!(quiet_since(&[job(3, 100, 200)], &seen), 200);
        assert_eq!(quiet_since(&[job(2, 100, 200)], &seen), 900, "it used the processor");
        assert_eq!(quiet_since(&[job(3, 99, 200)], &seen), 900, "it moved a byte");
        let other = QuietJob { start_ticks: 6, ..job(3, 100, 200) };
        assert_eq!(quiet_since(&[other], &seen), 900, "another process with its number");
        assert_eq!(quiet_since(&[job(3, 100, 2000)], &seen), 900, "never in the future");
    }

    #[test]
    fn what_was_written_is_there_for_the_next_pass() {
        let temp = tempfile::tempdir().expect("dir");
        let open = || Memory::open(Some(Dir::open(temp.path()).expect("open")));
        let first = open();
        assert_eq!(first.asked("a"), 0);
        first.ask("a".to_owned());
        first.keep();
        let second = open();
        assert!(second.asked("a") > 0);
        second.ask("b".to_owned());
        second.keep();
        assert!(open().asked("a") > 0 && open().asked("b") > 0, "passes add to each other");
        for damaged in [&b""[..], b"{", b"[]", b"{\"schema\":2,\"asked\":{\"a\":5}}"] {
            std::fs::write(temp.path().join(FILE), damaged).expect("written");
            assert_eq!(open().asked("a"), 0);
        }
        let nowhere = Memory::open(None);
        nowhere.ask("a".to_owned());
        nowhere.keep();
    }

    #[test]
    fn what_is_over_is_forgotten() {
        let me = crate::os::proc::stat(std::process::id()).expect("stat").start_ticks;
        let there = Remembered {
            schema: 1,
            boot_id: Some("b".into()),
            asked: BTreeMap::from([("old".to_owned(), 5), ("new".to_owned(), FORGET)]),
            jobs: vec![QuietJob { start_ticks: me, ..job(1, 1, 1) }, job(1, 1, 1)],
        };
        let now = Remembered { schema: 1, boot_id: Some("b".into()), ..Remembered::default() };
        let merged = merge(there.clone(), &now, FORGET + 6);
        assert_eq!(merged.asked.keys().collect::<Vec<_>>(), ["new"]);
        assert_eq!(merged.jobs.len(), 1, "only of a process that is still there");
        let rebooted = merge(there, &Remembered { boot_id: Some("c".into()), ..now }, FORGET + 6);
        assert!(rebooted.jobs.is_empty());
    }
}
