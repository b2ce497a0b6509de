//! The processes of a terminal: its session, whoever has it as terminal, all that
//! descends from those, and whoever else carries the pulse of its run.

use crate::model::terminal::{Activity, Member, Storage};
use crate::model::time::WallTime;
use crate::os::{clock, proc, pty};
use nix::unistd::{SysconfVar, sysconf};
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Where the processes of a terminal are looked for.
#[derive(Clone, Debug)]
pub(crate) struct Roots {
    /// The first process.
    pub(crate) leader: u32,
    /// Device number of the terminal, where known.
    pub(crate) tty: Option<i32>,
    /// Processes that carry the pulse of the run, or its environment.
    pub(crate) carriers: Vec<u32>,
}

/// Every process of the machine at one moment.
#[derive(Debug)]
pub(crate) struct Table {
    stats: Vec<proc::ProcStat>,
    by_pid: HashMap<u32, usize>,
    children: HashMap<u32, Vec<usize>>,
}

impl Table {
    /// Reads /proc once.
    pub(crate) fn read() -> io::Result<Self> {
        if !proc::is_ours() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "/proc is of another pid namespace"));
        }
        let mut stats = Vec::new();
        for pid in proc::pids()? {
            match proc::stat(pid) {
                Ok(stat) => stats.push(stat),
                Err(error) if proc::is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let by_pid = stats.iter().enumerate().map(|(at, stat)| (stat.pid, at)).collect();
        let mut children: HashMap<u32, Vec<usize>> = HashMap::new();
        for (at, stat) in stats.iter().enumerate() {
            children.entry(stat.ppid).or_default().push(at);
        }
        Ok(Self { stats, by_pid, children })
    }

    /// Every process.
    pub(crate) fn all(&self) -> impl Iterator<Item = &proc::ProcStat> {
        self.stats.iter()
    }

    /// One process.
    pub(crate) fn get(&self, pid: u32) -> Option<&proc::ProcStat> {
        self.by_pid.get(&pid).map(|at| &self.stats[*at])
    }

    /// The processes of the terminal whose first process is the leader, that one first;
    /// empty when it is gone.
    pub(crate) fn members(&self, roots: &Roots) -> Vec<&proc::ProcStat> {
        let Some(first) = self.by_pid.get(&roots.leader) else { return Vec::new() };
        let session = i32::try_from(roots.leader).unwrap_or(-1);
        let belongs = |stat: &proc::ProcStat| {
            stat.session == session
                || roots.tty.is_some_and(|tty| tty != 0 && stat.tty_nr == tty)
                || roots.carriers.contains(&stat.pid)
        };
        let mut found = vec![*first];
        found.extend((0..self.stats.len()).filter(|at| at != first && belongs(&self.stats[*at])));
        let mut seen: HashSet<usize> = found.iter().copied().collect();
        let mut next = 0;
        while next < found.len() {
            let pid = self.stats[found[next]].pid;
            for child in self.children.get(&pid).into_iter().flatten() {
                if seen.insert(*child) {
                    found.push(*child);
                }
            }
            next += 1;
        }
        found.into_iter().map(|at| &self.stats[at]).collect()
    }
}

/// Counters of processes at the beginning of a sample.
#[derive(Debug)]
pub(crate) struct Sample {
    began: Instant,
    counters: HashMap<(u32, u64), Counters>,
    /// Does this kernel count what processes read and write?
    counts_io: bool,
}

#[derive(Clone, Copy, Debug)]
struct Counters {
    cpu_ticks: u64,
    /// Unknown without the right to look.
    storage: Option<u64>,
}

impl Sample {
    /// Notes where the processes of these terminals stand now.
    pub(crate) fn begin(table: &Table, terminals: &[Roots]) -> Self {
        let members = terminals.iter().flat_map(|roots| table.members(roots));
        let counters = members
            .map(|stat| {
                let storage = moved(stat.pid).map(|moved| moved.storage);
                ((stat.pid, stat.start_ticks), Counters { cpu_ticks: stat.cpu_ticks, storage })
            })
            .collect();
        Self { began: Instant::now(), counters, counts_io: Path::new("/proc/self/io").exists() }
    }

    /// What one terminal's processes did since. A process that came in between counts in full.
    pub(crate) fn end(&self, table: &Table, roots: &Roots) -> Option<Activity> {
        let members = table.members(roots);
        let first = *members.first()?;
        let reads = roots.tty.and_then(pty::name);
        let of = |stat: &&proc::ProcStat| {
            let before = self.counters.get(&(stat.pid, stat.start_ticks)).copied();
            let before = before.unwrap_or(Counters { cpu_ticks: 0, storage: Some(0) });
            let storage = match before.storage.zip(moved(stat.pid).map(|moved| moved.storage)) {
                _ if !self.counts_io => Storage::NotCounted,
                Some((was, is)) => Storage::Moved(is.saturating_sub(was)),
                None => Storage::Unreadable,
            };
            Member {
                pid: stat.pid,
                parent: stat.ppid,
                comm: stat.comm.clone(),
                state: stat.state,
                leader: stat.pid == roots.leader,
                group: stat.pgrp,
                started: started(stat.start_ticks),
                cpu: ticks(stat.cpu_ticks.saturating_sub(before.cpu_ticks)),
                storage,
                on_terminal: reads.is_some()
                    && reads == std::fs::read_link(proc::path(stat.pid, "fd/0")).ok(),
                quiet: None,
            }
        };
        Some(Activity {
            sample: self.began.elapsed(),
            foreground: first.tpgid,
            members: members.iter().map(of).collect(),
            connections: None,
        })
    }
}

fn per_second() -> u64 {
    let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten().and_then(|ticks| u64::try_from(ticks).ok());
    ticks.unwrap_or(100).max(1)
}

fn ticks(count: u64) -> Duration {
    Duration::from_millis(count.saturating_mul(1000) / per_second())
}

/// When a process began, by the wall clock of now; good to a clock tick and to what the wall clock was set.
pub(crate) fn started(start_ticks: u64) -> WallTime {
    let begin_ms = u128::from(start_ticks) * 1000 / u128::from(per_second());
    let up = Duration::from_micros(clock::boottime_us());
    let age = up.as_millis().saturating_sub(begin_ms);
    WallTime(clock::wall().0.saturating_sub(u64::try_from(age).unwrap_or(u64::MAX)))
}

/// Bytes a process has moved in its life (proc_pid_io(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    /// From and to storage.
    pub(crate) storage: u64,
    /// By any system call: files, pipes, sockets, event counters.
    pub(crate) any: u64,
}

/// What a process has moved; unknown without the right to look.
pub(crate) fn moved(pid: u32) -> Option<Moved> {
    let bytes = proc::read_file(proc::path(pid, "io")).ok()?;
    let text = std::str::from_utf8(&bytes).ok()?;
    let count = |name: &str| -> Option<u64> {
        text.lines().find_map(|line| line.strip_prefix(name)).and_then(|count| count.trim().parse().ok())
    };
    Some(Moved {
        storage: count("read_bytes: ")?.saturating_add(count("write_bytes: ")?),
        any: count("rchar: ")?.saturating_add(count("wchar: ")?),
    })
}

/// The value of one variable in a process's environment as it began. The rest of it
/// may hold secrets and goes nowhere.
pub(crate) fn variable(pid: u32, name: &str) -> Option<Vec<u8>> {
    let bytes = std::fs::read(proc::path(pid, "environ")).ok()?;
    let entry = bytes.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(name.as_bytes()));
    entry.and_then(|rest| rest.strip_prefix(b"=")).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn descendants_belong_and_their_activity_is_seen() {
        let mut child =
            Command::new("sh").args(["-c", "sleep 600 & wait"]).stdin(Stdio::piped()).spawn().expect("sh");
        let roots = Roots { leader: child.id(), tty: None, carriers: vec![] };
        let table = loop {
            let table = Table::read().expect("table");
            if table.members(&roots).iter().any(|stat| stat.comm == "sleep") {
                break table;
            }
        };
        let sample = Sample::begin(&table, std::slice::from_ref(&roots));
        let activity = sample.end(&table, &roots).expect("alive");
        assert!(activity.members[0].leader && activity.members.len() == 2, "{activity:?}");
        assert!(activity.members.iter().all(|member| member.storage == Storage::Moved(0)), "{activity:?}");
        assert_eq!(activity.members[1].parent, child.id());
        let age = activity.members[0].started.age(clock::wall()).unwrap_or_default();
        assert!(age < Duration::from_secs(60), "{age:?}");
        let sleeper = activity.members[1].pid;
        let me = Roots { carriers: vec![std::process::id()], ..roots.clone() };
        let with = table.members(&me);
        assert!(with.iter().any(|stat| stat.pid == std::process::id()), "a carrier belongs to it");
        child.kill().expect("kill");
        child.wait().expect("wait");
        let fd = crate::os::process::PidFd::open(sleeper).expect("pidfd");
        fd.signal(rustix::process::Signal::KILL).expect("kill");
        assert!(table.get(std::process::id()).is_some());
        assert!(Table::read().expect("table").members(&roots).is_empty());
    }
}
