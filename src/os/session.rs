//! The processes of a terminal: its session, whoever has it as terminal, and all
//! that descends from those.

use crate::model::terminal::{Activity, Member};
use crate::model::time::WallTime;
use crate::os::{clock, proc};
use nix::unistd::{SysconfVar, sysconf};
use std::collections::{HashMap, HashSet};
use std::io;
use std::time::Duration;

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

    /// One process.
    pub(crate) fn get(&self, pid: u32) -> Option<&proc::ProcStat> {
        self.by_pid.get(&pid).map(|at| &self.stats[*at])
    }

    /// The processes of the terminal whose first process is `leader`, that one first;
    /// empty when it is gone.
    pub(crate) fn members(&self, leader: u32, tty: Option<i32>) -> Vec<&proc::ProcStat> {
        let Some(first) = self.by_pid.get(&leader) else { return Vec::new() };
        let session = i32::try_from(leader).unwrap_or(-1);
        let belongs = |stat: &proc::ProcStat| {
            stat.session == session || tty.is_some_and(|tty| tty != 0 && stat.tty_nr == tty)
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
    counters: HashMap<(u32, u64), (u64, Option<u64>)>,
}

impl Sample {
    /// Notes where the processes of these terminals stand now.
    pub(crate) fn begin(table: &Table, leaders: &[(u32, Option<i32>)]) -> Self {
        let members = leaders.iter().flat_map(|(pid, tty)| table.members(*pid, *tty));
        let counters =
            members.map(|stat| ((stat.pid, stat.start_ticks), (stat.cpu_ticks, written(stat.pid)))).collect();
        Self { counters }
    }

    /// Nothing noted: for a look that only asks who is there and in which state.
    pub(crate) fn none() -> Self {
        Self { counters: HashMap::new() }
    }

    /// What one terminal's processes did since. A process that came in between counts in
    /// full, unless nothing was noted at all.
    pub(crate) fn end(&self, table: &Table, leader: u32, tty: Option<i32>) -> Option<Activity> {
        let members = table.members(leader, tty);
        let first = *members.first()?;
        let counted = !self.counters.is_empty();
        let of = |stat: &&proc::ProcStat| {
            let before = self.counters.get(&(stat.pid, stat.start_ticks)).copied();
            let (cpu, bytes) = before.unwrap_or((0, Some(0)));
            Member {
                pid: stat.pid,
                comm: stat.comm.clone(),
                state: stat.state,
                leader: stat.pid == leader,
                started: started(stat.start_ticks),
                cpu_ticks: if counted { stat.cpu_ticks.saturating_sub(cpu) } else { 0 },
                wrote: counted
                    .then(|| bytes.zip(written(stat.pid)).map(|(was, is)| is.saturating_sub(was)))
                    .flatten(),
            }
        };
        Some(Activity {
            own_group: first.pgrp,
            foreground: first.tpgid,
            members: members.iter().map(of).collect(),
        })
    }
}

/// When a process began, by the wall clock of now; good to a clock tick and to what the wall clock was set.
pub(crate) fn started(start_ticks: u64) -> WallTime {
    let per_second = sysconf(SysconfVar::CLK_TCK).ok().flatten().and_then(|ticks| u64::try_from(ticks).ok());
    let begin_ms = u128::from(start_ticks) * 1000 / u128::from(per_second.unwrap_or(100).max(1));
    let up = Duration::from_micros(clock::boottime_us());
    let age = up.as_millis().saturating_sub(begin_ms);
    WallTime(clock::wall().0.saturating_sub(u64::try_from(age).unwrap_or(u64::MAX)))
}

/// Bytes a process has written in its life; unknown without the right to look.
fn written(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(proc::path(pid, "io")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("wchar: ")).and_then(|count| count.trim().parse().ok())
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
        let table = loop {
            let table = Table::read().expect("table");
            if table.members(child.id(), None).iter().any(|stat| stat.comm == "sleep") {
                break table;
            }
        };
        let sample = Sample::begin(&table, &[(child.id(), None)]);
        let activity = sample.end(&table, child.id(), None).expect("alive");
        assert!(activity.members[0].leader && activity.members.len() == 2, "{activity:?}");
        assert!(activity.members.iter().all(|member| member.wrote == Some(0)), "{activity:?}");
        let age = activity.members[0].started.age(clock::wall()).unwrap_or_default();
        assert!(age < Duration::from_secs(60), "{age:?}");
        let sleeper = activity.members[1].pid;
        child.kill().expect("kill");
        child.wait().expect("wait");
        let fd = crate::os::process::PidFd::open(sleeper).expect("pidfd");
        fd.signal(rustix::process::Signal::KILL).expect("kill");
        assert!(table.get(std::process::id()).is_some());
        assert!(Table::read().expect("table").members(child.id(), None).is_empty());
    }
}
