//! The processes of terminals over a short sample: one look, a wait, another look.

use super::memory::Memory;
use crate::model::mark::MarkWord;
use crate::model::terminal::{Idle, Processes, Terminal};
use crate::os::connections;
use crate::os::run_pulse::{self, RunPulse};
use crate::os::session::{Roots, Sample, Table};
use std::collections::{HashMap, HashSet};
use std::io;
use std::time::Duration;

/// How long processes are watched for work.
const SAMPLE: Duration = Duration::from_secs(1);

/// The pulses of runs, by their first process.
pub(super) type Pulses = HashMap<u32, Vec<RunPulse>>;

/// The beginning of a sample, for every later look.
#[derive(Debug)]
pub(super) struct Watch {
    sample: Sample,
    pulses: Pulses,
    carriers: HashMap<RunPulse, Vec<u32>>,
}

impl Watch {
    /// Looks at the processes of these terminals and waits, at most `patience`. Without any: no wait.
    ///
    /// # Errors
    /// `/proc` cannot be read, or is not about us.
    pub(super) fn begin(terminals: &[&Terminal], patience: Duration) -> io::Result<Self> {
        let leaders: Vec<(u32, Option<i32>)> = terminals
            .iter()
            .filter_map(|terminal| Some((terminal.leader.as_ref()?.pid, terminal.tty)))
            .collect();
        let pulses: Pulses = leaders.iter().map(|(pid, _)| (*pid, run_pulse::of(*pid))).collect();
        let wanted: HashSet<RunPulse> = pulses.values().flatten().cloned().collect();
        let carriers = run_pulse::carriers(&wanted);
        let mut watch = Self { sample: Sample::begin(&Table::read()?, &[]), pulses, carriers };
        let roots: Vec<Roots> = leaders.iter().map(|(leader, tty)| watch.roots(*leader, *tty)).collect();
        watch.sample = Sample::begin(&Table::read()?, &roots);
        if !roots.is_empty() {
            std::thread::sleep(SAMPLE.min(patience));
        }
        Ok(watch)
    }

    fn roots(&self, leader: u32, tty: Option<i32>) -> Roots {
        let of = |pulse: &RunPulse| self.carriers.get(pulse).cloned().unwrap_or_default();
        let carriers = self.pulses_of(leader).iter().flat_map(of).collect();
        Roots { leader, tty, carriers }
    }

    /// The pulses that the run of this first process carries.
    pub(super) fn pulses_of(&self, leader: u32) -> &[RunPulse] {
        self.pulses.get(&leader).map(Vec::as_slice).unwrap_or_default()
    }

    /// Where the processes of a terminal are found.
    pub(super) fn roots_of(&self, terminal: &Terminal) -> Option<Roots> {
        terminal.leader.as_ref().map(|leader| self.roots(leader.pid, terminal.tty))
    }

    /// Fills in what /proc says about a terminal now, against the beginning.
    pub(super) fn see(&self, terminal: &mut Terminal, table: &Table, memory: &Memory) {
        let (Some(first), Some(roots)) = (&terminal.leader, self.roots_of(terminal)) else {
            terminal.processes = Processes::Unmapped;
            return;
        };
        let same = table.get(first.pid).is_some_and(|stat| stat.start_ticks == first.start_ticks);
        let Some(mut activity) = self.sample.end(table, &roots).filter(|_| same) else {
            let why = "its first process went while we looked".to_owned();
            terminal.processes = Processes::Unreadable(why);
            return;
        };
        for member in activity.members.iter_mut().filter(|member| !member.leader) {
            let stat = table.get(member.pid);
            member.quiet = stat.and_then(|stat| memory.quiet(member, stat.start_ticks, stat.cpu_ticks));
        }
        // Only a turn that was begun and never ended depends on it.
        if matches!(&terminal.idle, Idle::Marked(mark) if mark.word == MarkWord::Busy) {
            let pids: Vec<u32> = activity.members.iter().map(|member| member.pid).collect();
            activity.connections = connections::established(&pids);
        }
        let me = std::process::id();
        terminal.own |= activity.members.iter().any(|member| member.pid == me);
        terminal.processes = Processes::Seen(activity);
    }
}
