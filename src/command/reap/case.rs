//! What a pass works on: its settings, each terminal on its way, and what became of it.

use crate::model::identity::ProcessIdentity;
use crate::model::terminal::{AgentRules, Belongs, Terminal};
use crate::os::clock;
use crate::os::pins::{Pinned, Survivor};
use crate::os::run_pulse::RunPulse;
use crate::verdict::reap::{
    Ask, Condition, Keep, KeepReason, ReapPolicy, Verdict, judge, quiet_jobs, together,
};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What was asked for.
#[derive(Clone, Debug)]
pub(crate) struct ReapSettings {
    pub(crate) automations: Vec<String>,
    pub(crate) idle: Duration,
    pub(crate) settle: Duration,
    pub(crate) end: Instant,
    pub(crate) close_newest: bool,
    pub(crate) residents: Vec<String>,
    pub(crate) agents: Vec<AgentRules>,
    pub(crate) job_quiet: Duration,
    pub(crate) interrupted: Option<Duration>,
    /// TERM to what outlives its close; with a time, KILL after it.
    pub(crate) end_survivors: Option<Option<Duration>>,
    pub(crate) dry_run: bool,
    /// In a precheck the runner's own time-out may come first.
    pub(crate) in_precheck: bool,
}

impl ReapSettings {
    pub(super) fn policy(&self) -> ReapPolicy {
        ReapPolicy {
            now: clock::wall(),
            idle: self.idle,
            close_newest: self.close_newest,
            residents: self.residents.clone(),
            agents: self.agents.clone(),
            job_quiet: self.job_quiet,
            interrupted: self.interrupted,
        }
    }
}

/// What became of a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Kept(Keep),
    WouldClose,
    Closed,
}

/// One terminal at the end of the pass.
#[derive(Debug)]
pub(crate) struct ReapRow {
    pub(crate) runner: String,
    pub(crate) terminal: Terminal,
    pub(crate) fate: Fate,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) proved_busy: bool,
    pub(crate) processes: Vec<ProcessIdentity>,
    /// Bytes of resident memory before.
    pub(crate) memory: u64,
    pub(crate) survivors: Vec<Survivor>,
    /// Locks whose pulse the run carried, with their tokens.
    pub(crate) pulses: Vec<RunPulse>,
    /// Processes that carried one of them after the close.
    pub(crate) carriers: Vec<u32>,
    /// Processes that were sent TERM because they outlived the close.
    pub(crate) ended: Vec<Survivor>,
    /// Jobs that no longer kept it, for people.
    pub(crate) quiet_jobs: Vec<String>,
}

/// The end of a pass.
#[derive(Debug, Default)]
pub(crate) struct ReapPass {
    pub(crate) rows: Vec<ReapRow>,
    pub(crate) warnings: Vec<String>,
    /// Runners that did not answer, closes that did not work.
    pub(crate) troubles: usize,
}

/// What is known while the pass still runs, for the one who must end before it.
#[derive(Debug, Default)]
pub(crate) struct ReapProgress(Mutex<Vec<String>>);

impl ReapProgress {
    pub(super) fn closing(&self, what: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }

    /// The terminals whose close was asked for.
    pub(crate) fn closed(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A terminal on its way through the pass.
pub(super) struct ReapCase {
    /// Its place in the output.
    pub(super) place: usize,
    pub(super) runner: usize,
    pub(super) terminal: Terminal,
    pub(super) fate: Option<Fate>,
    pub(super) pins: Vec<Pinned>,
    pub(super) survivors: Vec<Survivor>,
    pub(super) pulses: Vec<RunPulse>,
    pub(super) carriers: Vec<u32>,
    pub(super) ended: Vec<Survivor>,
    pub(super) quiet_jobs: Vec<String>,
}

impl ReapCase {
    pub(super) fn new(place: usize, runner: usize, terminal: Terminal) -> Self {
        Self {
            place,
            runner,
            terminal,
            fate: None,
            pins: Vec::new(),
            survivors: Vec::new(),
            pulses: Vec::new(),
            carriers: Vec::new(),
            ended: Vec::new(),
            quiet_jobs: Vec::new(),
        }
    }

    pub(super) fn keep(&mut self, reason: KeepReason, evidence: impl Into<String>) {
        self.fate = Some(Fate::Kept(Keep::new(reason, evidence)));
    }

    /// Judges it; gives the question that is left, if it is still open.
    pub(super) fn judge(&mut self, settings: &ReapSettings) -> Option<Ask> {
        match judge(&self.terminal, &settings.policy()) {
            Verdict::Keep(keep) => self.fate = Some(Fate::Kept(keep)),
            Verdict::Ask(ask) => return Some(ask),
            Verdict::Close => self.quiet_jobs = quiet_jobs(&self.terminal, &settings.policy()),
        }
        None
    }

    pub(super) fn asked_to_close(&self) -> bool {
        self.fate == Some(Fate::Closed)
    }

    pub(super) fn close_failed(&self) -> bool {
        matches!(&self.fate, Some(Fate::Kept(keep)) if keep.reason == KeepReason::CloseFailed)
    }

    /// What it is remembered by between passes.
    pub(super) fn key(&self, label: &str) -> String {
        let first = self.terminal.leader.as_ref();
        let first = first.map(|first| format!(" {}:{}", first.pid, first.start_ticks)).unwrap_or_default();
        format!("{label} {}{first}", self.terminal.id)
    }
}

/// Terminals that close together or not at all: those of one session, else one alone.
pub(super) type Together = Vec<ReapCase>;

/// If one of them is kept, all are.
pub(super) fn keep_together(cases: &mut [ReapCase]) {
    let kept = cases.iter().filter_map(|case| match &case.fate {
        Some(Fate::Kept(keep)) => Some((case.terminal.id.as_str(), keep)),
        _ => None,
    });
    if let Some(keep) = together(kept) {
        for case in cases.iter_mut().filter(|case| case.fate.is_none()) {
            case.fate = Some(Fate::Kept(keep.clone()));
        }
    }
}

impl ReapRow {
    /// The automation it belongs to, where that is known.
    pub(crate) fn automation(&self) -> Option<&str> {
        match &self.terminal.belongs {
            Belongs::Named(name) | Belongs::Part(name) | Belongs::Other(name) => Some(name),
            _ => None,
        }
    }
}
