//! Asking and closing, a few terminals at a time, and what outlives its close.

use super::case::{Fate, ReapCase, ReapPass, ReapProgress, ReapSettings, Together, keep_together};
use super::memory::Memory;
use super::output_file::OutputDir;
use super::watch::Watch;
use crate::env::name;
use crate::model::terminal::{Again, Processes};
use crate::os::heirs;
use crate::os::pins::{self, Survivor};
use crate::os::run_pulse::{self, RunPulse};
use crate::os::session::Table;
use crate::os::{proc, tree};
use crate::runner::{Budget, Closing, Runner};
use crate::verdict::reap::{Ask, KeepReason};
use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Runners answer a few questions at once; more would only make each answer later.
const AT_ONCE: usize = 4;
/// How long a process that was sent TERM may take before it is looked at again, where no KILL follows.
const AFTER_TERM: Duration = Duration::from_secs(2);

/// What every close needs.
pub(super) struct Closer<'a> {
    pub(super) runners: &'a [Box<dyn Runner>],
    pub(super) settings: &'a ReapSettings,
    pub(super) budget: Budget,
    pub(super) output: Option<&'a OutputDir>,
    pub(super) progress: &'a ReapProgress,
    pub(super) memory: &'a Memory,
    /// `None` where /proc could not be read; then nothing with known processes is closed.
    pub(super) watch: Option<&'a Watch>,
    /// No question and no close begins later.
    pub(super) last_start: Instant,
}

impl Closer<'_> {
    /// Takes them in this order, a few at once. Those whose close makes another one look active come last, one by one.
    pub(super) fn work(&self, groups: Vec<Together>) -> Vec<Together> {
        let (last, first): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|group| group.iter().any(|case| case.terminal.close_last));
        let mut done = self.side_by_side(first, AT_ONCE);
        done.extend(self.side_by_side(last, 1));
        done
    }

    fn side_by_side(&self, groups: Vec<Together>, at_once: usize) -> Vec<Together> {
        let at_once = at_once.min(groups.len());
        let queue: Mutex<VecDeque<Together>> = Mutex::new(groups.into());
        let done: Mutex<Vec<Together>> = Mutex::new(Vec::new());
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let worker = || {
            while let Some(mut group) = next() {
                self.serve(&mut group);
                done.lock().unwrap_or_else(PoisonError::into_inner).push(group);
            }
        };
        std::thread::scope(|scope| {
            // This thread works too, so that all is done where no other can be started.
            for _ in 1..at_once {
                drop(std::thread::Builder::new().spawn_scoped(scope, worker));
            }
            worker();
        });
        done.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.last_start
    }

    /// Asks what is still open about these, and closes them if all may go.
    fn serve(&self, group: &mut Together) {
        for case in group.iter_mut().filter(|case| case.fate.is_none()) {
            if self.is_late() {
                case.keep(KeepReason::Deadline, "no time was left to ask whether it is idle");
                break;
            }
            let runner = self.runners[case.runner].as_ref();
            self.memory.ask(case.key(&runner.label()));
            if case.judge(self.settings) == Some(Ask::Idle) {
                runner.ask_idle(&mut case.terminal, self.budget);
                case.judge(self.settings);
            }
            if case.fate.is_some() {
                break;
            }
        }
        keep_together(group);
        for case in group.iter_mut().filter(|case| case.fate.is_none()) {
            self.prepare(case);
            if case.fate.is_some() {
                break;
            }
        }
        keep_together(group);
        for case in group.iter_mut().filter(|case| case.fate.is_none()) {
            if self.settings.dry_run {
                case.fate = Some(Fate::WouldClose);
            } else if self.is_late() {
                // The answer, or the look after it, may have taken long.
                case.keep(KeepReason::Deadline, "no time was left to close it and wait");
            } else {
                self.close(case);
            }
        }
    }

    /// Looks once more, and pins.
    fn prepare(&self, case: &mut ReapCase) {
        let runner = self.runners[case.runner].as_ref();
        runner.look_again(&mut case.terminal, self.budget);
        let mut table = None;
        if !case.terminal.dead {
            case.terminal.processes = match (Table::read(), self.watch) {
                (Ok(read), Some(watch)) => {
                    watch.see(&mut case.terminal, &read, self.memory);
                    table = Some((read, watch));
                    case.terminal.processes.clone()
                }
                (Err(error), _) => Processes::Unreadable(format!("/proc: {}", crate::error::reason(&error))),
                (_, None) => Processes::Unreadable("its processes could not be watched".to_owned()),
            };
        }
        case.judge(self.settings);
        if case.fate.is_some() || self.settings.dry_run {
            return;
        }
        if let Some((table, watch)) = &table
            && let Err(why) = pin(case, watch, table)
        {
            return case.keep(KeepReason::Unreadable, why);
        }
        if let Some(output) = self.output {
            let saved = runner.text(&case.terminal, self.budget).map_err(|fault| fault.text());
            let saved = saved.and_then(|text| match text {
                Some(text) => output.save(&runner.label(), &case.terminal.id, &text),
                None => Err("this runner gives no text".to_owned()),
            });
            if let Err(why) = saved {
                case.keep(KeepReason::Unreadable, format!("its text could not be saved: {why}"));
            }
        }
    }

    fn close(&self, case: &mut ReapCase) {
        let runner = self.runners[case.runner].as_ref();
        match runner.close(&case.terminal, self.budget) {
            Closing::Asked | Closing::Gone => {
                self.progress.closing(format!("{} {}", runner.label(), case.terminal.id));
                case.fate = Some(Fate::Closed);
            }
            Closing::Refused(why) => {
                case.terminal.again = Again::Changed(why.clone());
                case.keep(KeepReason::Changed, why);
            }
            Closing::Failed(why) => case.keep(KeepReason::CloseFailed, why),
        }
    }
}

fn pin(case: &mut ReapCase, watch: &Watch, table: &Table) -> Result<(), String> {
    let Some(roots) = watch.roots_of(&case.terminal) else { return Ok(()) };
    case.pulses = watch.pulses_of(roots.leader).to_vec();
    case.pins = pins::pin_all(&table.members(&roots)).map_err(|error| crate::error::reason(&error))?;
    Ok(())
}

/// After the closes: waits for the processes of all closed terminals together, ends those that stay where that
/// was asked for, and looks whether the terminals are gone.
pub(super) fn after(closer: &Closer<'_>, groups: &mut [Together], settle: Duration, pass: &mut ReapPass) {
    for case in groups.iter_mut().flatten().filter(|case| !case.asked_to_close()) {
        not_closed(case, pass);
    }
    let mut closed: Vec<&mut ReapCase> =
        groups.iter_mut().flatten().filter(|case| case.asked_to_close()).collect();
    if closed.is_empty() {
        return;
    }
    let end = (Instant::now() + settle).min(closer.budget.end());
    wait(&mut closed, end, pass);
    carriers(&mut closed);
    if let Some(kill_after) = closer.settings.end_survivors {
        end_survivors(&mut closed, kill_after, closer.budget, pass);
    }
    name_heirs(&mut closed);
    confirm(closer, &mut closed, pass);
}

/// Of a close that failed the processes count as long as they live; where none was begun there is nothing to count.
fn not_closed(case: &mut ReapCase, pass: &mut ReapPass) {
    if case.close_failed() {
        wait(&mut [case], Instant::now(), pass);
    } else {
        case.pins.clear();
    }
}

fn wait(closed: &mut [&mut ReapCase], end: Instant, pass: &mut ReapPass) {
    for case in closed {
        // One end for all: each wait after the first takes only what is left of it.
        match pins::wait_all(&case.pins, end) {
            Ok(survivors) => case.survivors = survivors,
            Err(error) => pass.warnings.push(format!("waiting: {}", crate::error::reason(&error))),
        }
    }
}

/// Whoever carries the pulse of a run that was closed is of that run, also when it was not seen before.
fn carriers(closed: &mut [&mut ReapCase]) {
    let wanted: HashSet<RunPulse> = closed.iter().flat_map(|case| case.pulses.iter().cloned()).collect();
    let found = run_pulse::carriers(&wanted);
    for case in closed {
        let pids = case.pulses.iter().filter_map(|pulse| found.get(pulse)).flatten();
        case.carriers = pids.copied().collect();
        for stat in case.carriers.iter().filter_map(|pid| proc::stat(*pid).ok()) {
            let known = case.survivors.iter().any(|survivor| survivor.pid == stat.pid);
            if !known && let Ok(pins) = pins::pin_all(&[&stat]) {
                case.survivors.extend(pins.iter().map(|_| Survivor::of(&stat)));
                case.pins.extend(pins);
            }
        }
    }
}

/// Whoever has only the environment of a run that was closed is named with what survived, and left alone.
fn name_heirs(closed: &mut [&mut ReapCase]) {
    let wanted: HashSet<RunPulse> = closed.iter().flat_map(|case| case.pulses.iter().cloned()).collect();
    let since = closed.iter().filter_map(|case| Some(case.terminal.leader.as_ref()?.start_ticks)).min();
    // What cannot be seen cannot be named.
    let Ok(table) = Table::read() else { return };
    let found = heirs::of(&wanted, name::LOCKS, &table, since.unwrap_or_default());
    for case in closed {
        let pids = case.pulses.iter().filter_map(|pulse| found.get(pulse)).flatten();
        for stat in pids.filter_map(|pid| table.get(*pid)) {
            if !case.survivors.iter().any(|survivor| survivor.pid == stat.pid) {
                case.survivors.push(Survivor::of(stat));
            }
        }
    }
}

/// TERM through the descriptors to exactly those that stayed; KILL later only where a time was given.
fn end_survivors(
    closed: &mut [&mut ReapCase],
    kill_after: Option<Duration>,
    budget: Budget,
    pass: &mut ReapPass,
) {
    let staying = |case: &ReapCase| -> HashSet<u32> { case.survivors.iter().map(|one| one.pid).collect() };
    for case in closed.iter_mut() {
        let pids = staying(case);
        for pin in case.pins.iter().filter(|pin| pids.contains(&pin.identity.pid)) {
            if let Err(error) = tree::ask_to_end(pin.fd()) {
                pass.warnings.push(format!(
                    "TERM to pid {}: {}",
                    pin.identity.pid,
                    crate::error::reason(&error)
                ));
            }
        }
        case.ended = case.survivors.clone();
    }
    let patience = kill_after.unwrap_or(AFTER_TERM).min(budget.left() / 2);
    wait(closed, Instant::now() + patience, pass);
    if kill_after.is_none() {
        return;
    }
    for case in closed.iter_mut() {
        let pids = staying(case);
        for pin in case.pins.iter().filter(|pin| pids.contains(&pin.identity.pid)) {
            if let Err(error) = tree::kill(pin.fd()) {
                pass.warnings.push(format!(
                    "KILL to pid {}: {}",
                    pin.identity.pid,
                    crate::error::reason(&error)
                ));
            }
        }
    }
    wait(closed, Instant::now() + Duration::from_secs(1).min(budget.left() / 2), pass);
}

/// Lists again: only a terminal that is not there any more was closed.
fn confirm(closer: &Closer<'_>, closed: &mut [&mut ReapCase], pass: &mut ReapPass) {
    for (at, runner) in closer.runners.iter().enumerate() {
        let mut theirs: Vec<&mut &mut ReapCase> =
            closed.iter_mut().filter(|case| case.runner == at).collect();
        if theirs.is_empty() {
            continue;
        }
        let present = runner.present(closer.budget);
        if let Err(fault) = &present {
            pass.warnings.push(format!("{}: after the closes: {}", runner.label(), fault.text()));
        }
        for case in &mut theirs {
            match &present {
                Ok(ids) if !ids.contains(&case.terminal.id) => {}
                Ok(_) => case.keep(KeepReason::CloseFailed, "still listed after its close"),
                // Its processes are proof enough.
                Err(_) if !case.pins.is_empty() && case.survivors.is_empty() => {}
                Err(_) => case.keep(KeepReason::CloseFailed, "its end could not be confirmed"),
            }
        }
    }
}
