//! The processes of terminals over a short sample: one look, a wait, another look.

use super::memory::Memory;
use crate::env::name;
use crate::model::mark::MarkWord;
use crate::model::terminal::{Idle, Processes, Terminal};
use crate::os::run_pulse::{self, RunPulse};
use crate::os::session::{Roots, Sample, Table};
use crate::os::{connections, heirs};
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
    heirs: HashMap<RunPulse, Vec<u32>>,
}

impl Watch {
    /// Looks at the processes of these terminals and waits, at most `patience`. Without any: no wait.
    ///
    /// # Errors
    /// `/proc` cannot be read, or is not about us.
    pub(super) fn begin(terminals: &[&Terminal], patience: Duration) -> io::Result<Self> {
        let known =
            || terminals.iter().filter_map(|terminal| Some((terminal.leader.as_ref()?, terminal.tty)));
        let pulses: Pulses = known().map(|(leader, _)| (leader.pid, run_pulse::of(leader.pid))).collect();
        let wanted: HashSet<RunPulse> = pulses.values().flatten().cloned().collect();
        let carriers = run_pulse::carriers(&wanted);
        let table = Table::read()?;
        let since = known().map(|(leader, _)| leader.start_ticks).min().unwrap_or_default();
        let heirs = heirs::of(&wanted, name::LOCKS, &table, since);
        let mut watch = Self { sample: Sample::begin(&table, &[]), pulses, carriers, heirs };
        let roots: Vec<Roots> = known().map(|(leader, tty)| watch.roots(leader.pid, tty, true)).collect();
        watch.sample = Sample::begin(&table, &roots);
        if !roots.is_empty() {
            std::thread::sleep(SAMPLE.min(patience));
        }
        Ok(watch)
    }

    fn roots(&self, leader: u32, tty: Option<i32>, with_heirs: bool) -> Roots {
        let heirs = with_heirs.then_some(&self.heirs);
        let of =
            |pulse| [Some(&self.carriers), heirs].into_iter().flatten().filter_map(move |map| map.get(pulse));
        let carriers = self.pulses_of(leader).iter().flat_map(of).flatten().copied().collect();
        Roots { leader, tty, carriers }
    }

    /// The pulses that the run of this first process carries.
    pub(super) fn pulses_of(&self, leader: u32) -> &[RunPulse] {
        self.pulses.get(&leader).map(Vec::as_slice).unwrap_or_default()
    }

    /// Where the processes of a terminal are found that may be sent a signal if they outlive it: those with
    /// nothing but the environment of the run are not among them.
    pub(super) fn roots_of(&self, terminal: &Terminal) -> Option<Roots> {
        terminal.leader.as_ref().map(|leader| self.roots(leader.pid, terminal.tty, false))
    }

    /// Fills in what /proc says about a terminal now, against the beginning.
    pub(super) fn see(&self, terminal: &mut Terminal, table: &Table, memory: &Memory) {
        let Some(first) = &terminal.leader else {
            terminal.processes = Processes::Unmapped;
            return;
        };
        let roots = self.roots(first.pid, terminal.tty, true);
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
