//! One pass: list, judge, ask what is missing, look again, close, wait. Whatever
//! cannot be known in time is kept.

use super::output_file::OutputDir;
use crate::model::identity::ProcessIdentity;
use crate::model::terminal::{Again, Belongs, Processes, Terminal};
use crate::os::pins::{self, Pinned, Survivor};
use crate::os::session::{Sample, Table};
use crate::os::{clock, proc};
use crate::runner::{Budget, Closing, Runner};
use crate::verdict::reap::{Ask, Condition, Keep, ReapPolicy, Verdict, explain, judge, proves_busy};
use crate::verdict::reason::KeepReason;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// No single call of a runner gets more than this.
const CALL: Duration = Duration::from_secs(15);
/// How long processes are watched for work.
const SAMPLE: Duration = Duration::from_secs(1);

/// What was asked for.
#[derive(Clone, Debug)]
pub(crate) struct ReapSettings {
    pub(crate) automations: Vec<String>,
    pub(crate) idle: Duration,
    pub(crate) settle: Duration,
    pub(crate) end: Instant,
    pub(crate) close_newest: bool,
    pub(crate) residents: Vec<String>,
    pub(crate) dry_run: bool,
    /// In a precheck the runner's own time-out may come first.
    pub(crate) in_precheck: bool,
}

impl ReapSettings {
    fn policy(&self) -> ReapPolicy {
        ReapPolicy {
            now: clock::wall(),
            idle: self.idle,
            close_newest: self.close_newest,
            residents: self.residents.clone(),
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
    fn closing(&self, what: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }

    /// The terminals whose close was asked for.
    pub(crate) fn closed(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A terminal on its way through the pass.
struct ReapCase {
    runner: usize,
    terminal: Terminal,
    fate: Option<Fate>,
    pins: Vec<Pinned>,
    survivors: Vec<Survivor>,
}

impl ReapCase {
    fn keep(&mut self, reason: KeepReason, evidence: impl Into<String>) {
        self.fate = Some(Fate::Kept(Keep::new(reason, evidence)));
    }

    /// Judges it; gives the question that is left, if it is still open.
    fn judge(&mut self, settings: &ReapSettings) -> Option<Ask> {
        match judge(&self.terminal, &settings.policy()) {
            Verdict::Keep(keep) => self.fate = Some(Fate::Kept(keep)),
            Verdict::Ask(ask) => return Some(ask),
            Verdict::Close => {}
        }
        None
    }

    fn asked_to_close(&self) -> bool {
        self.fate == Some(Fate::Closed)
    }
}

/// Does all of it. Never longer than `settings.end` by more than a call that is being killed.
pub(crate) fn run(
    runners: &mut [Box<dyn Runner>],
    settings: &ReapSettings,
    output: Option<&OutputDir>,
    progress: &ReapProgress,
) -> ReapPass {
    let mut pass = ReapPass::default();
    let mut budget = Budget::new(settings.end, CALL);
    let mut cases = list(runners, settings, &mut budget, &mut pass);
    // What the last close needs: its own call, the wait, one more list.
    let settle = settings.settle.min(budget.left() / 3);
    let reserve = settle + Duration::from_secs(2).min(budget.left() / 10);
    let last_start = budget.end().checked_sub(reserve).unwrap_or(budget.end());
    let mut asking = Vec::new();
    for (at, case) in cases.iter_mut().enumerate() {
        if case.judge(settings) == Some(Ask::Idle) {
            asking.push(at);
        }
    }
    // The longest silent first: if time runs out, it has served those that wait longest.
    asking.sort_by_key(|at| cases[*at].terminal.output.moved);
    for at in asking {
        let case = &mut cases[at];
        if Instant::now() >= last_start {
            case.keep(KeepReason::Deadline, "no time was left to ask whether it is idle");
            continue;
        }
        runners[case.runner].ask_idle(&mut case.terminal, budget);
        case.judge(settings);
    }
    watch(runners, &mut cases, settings, budget);
    let mut order: Vec<usize> = (0..cases.len()).filter(|at| cases[*at].fate.is_none()).collect();
    order.sort_by_key(|at| (cases[*at].terminal.close_last, cases[*at].terminal.output.moved));
    if !order.is_empty() {
        pins::more_descriptors();
    }
    for at in order {
        let case = &mut cases[at];
        if Instant::now() >= last_start {
            case.keep(KeepReason::Deadline, "no time was left to close it and wait");
            continue;
        }
        close(runners[case.runner].as_mut(), case, settings, budget, output, progress);
    }
    wait(&mut cases, settle, budget, &mut pass);
    confirm(runners, &mut cases, budget, &mut pass);
    finish(runners, cases, settings, pass)
}

fn list(
    runners: &mut [Box<dyn Runner>],
    settings: &ReapSettings,
    budget: &mut Budget,
    pass: &mut ReapPass,
) -> Vec<ReapCase> {
    let begin = Instant::now();
    let mut cases = Vec::new();
    for (at, runner) in runners.iter_mut().enumerate() {
        match runner.list(&settings.automations, *budget) {
            Ok(listing) => {
                let label = runner.label();
                pass.warnings.extend(listing.warnings.into_iter().map(|text| format!("{label}: {text}")));
                if let Some(limit) = listing.precheck_limit.filter(|_| settings.in_precheck) {
                    // Its clock began before ours, and a precheck it ends counts as a skip.
                    let margin = Duration::from_secs(5).min(limit / 3);
                    *budget = budget.until(begin + limit.saturating_sub(margin));
                }
                cases.extend(listing.terminals.into_iter().map(|terminal| ReapCase {
                    runner: at,
                    terminal,
                    fate: None,
                    pins: Vec::new(),
                    survivors: Vec::new(),
                }));
            }
            Err(fault) => {
                pass.troubles += 1;
                pass.warnings.push(format!("{}: {}", runner.label(), fault.text()));
            }
        }
    }
    cases
}

/// Watches the processes of everything that could still be closed, all at once.
fn watch(runners: &mut [Box<dyn Runner>], cases: &mut [ReapCase], settings: &ReapSettings, budget: Budget) {
    let open = |case: &ReapCase| {
        case.fate.is_none()
            && matches!(judge(&case.terminal, &settings.policy()), Verdict::Ask(Ask::Processes))
    };
    for (at, runner) in runners.iter_mut().enumerate() {
        let mut theirs: Vec<&mut Terminal> = cases
            .iter_mut()
            .filter(|case| case.runner == at && open(case))
            .map(|case| &mut case.terminal)
            .collect();
        if !theirs.is_empty() {
            runner.map_processes(&mut theirs);
        }
    }
    let mut watched: Vec<&mut ReapCase> = cases.iter_mut().filter(|case| open(case)).collect();
    if watched.is_empty() {
        return;
    }
    let leaders: Vec<(u32, Option<i32>)> = watched.iter().filter_map(|case| leader(&case.terminal)).collect();
    let looks = || -> std::io::Result<(Sample, Table)> {
        let before = Table::read()?;
        let sample = Sample::begin(&before, &leaders);
        if !leaders.is_empty() {
            std::thread::sleep(SAMPLE.min(budget.left() / 4));
        }
        Ok((sample, Table::read()?))
    };
    let looks = looks();
    for case in &mut watched {
        match &looks {
            Ok((sample, table)) => see(&mut case.terminal, sample, table),
            Err(error) => case.terminal.processes = Processes::Unreadable(crate::error::reason(error)),
        }
        case.judge(settings);
    }
}

fn leader(terminal: &Terminal) -> Option<(u32, Option<i32>)> {
    terminal.leader.as_ref().map(|leader| (leader.pid, terminal.tty))
}

/// Fills in what /proc says about a terminal.
fn see(terminal: &mut Terminal, sample: &Sample, table: &Table) {
    let Some(first) = &terminal.leader else {
        terminal.processes = Processes::Unmapped;
        return;
    };
    let same = table.get(first.pid).is_some_and(|stat| stat.start_ticks == first.start_ticks);
    let activity = sample.end(table, first.pid, terminal.tty).filter(|_| same);
    terminal.processes = match activity {
        Some(activity) => {
            let me = std::process::id();
            terminal.own |= activity.members.iter().any(|member| member.pid == me);
            Processes::Seen(activity)
        }
        None => Processes::Unreadable("its first process went while we looked".to_owned()),
    };
}

/// Looks once more, pins, and closes.
fn close(
    runner: &mut dyn Runner,
    case: &mut ReapCase,
    settings: &ReapSettings,
    budget: Budget,
    output: Option<&OutputDir>,
    progress: &ReapProgress,
) {
    runner.look_again(&mut case.terminal, budget);
    let table = match Table::read() {
        Ok(table) => table,
        Err(error) => {
            return case.keep(KeepReason::Unreadable, format!("/proc: {}", crate::error::reason(&error)));
        }
    };
    see(&mut case.terminal, &Sample::none(), &table);
    case.judge(settings);
    if case.fate.is_some() {
        return;
    }
    if settings.dry_run {
        case.fate = Some(Fate::WouldClose);
        return;
    }
    let members: Vec<&proc::ProcStat> =
        leader(&case.terminal).map(|(pid, tty)| table.members(pid, tty)).unwrap_or_default();
    match pins::pin_all(&members) {
        Ok(pins) => case.pins = pins,
        Err(error) => {
            let why = format!("its processes could not be held: {}", crate::error::reason(&error));
            return case.keep(KeepReason::Unreadable, why);
        }
    }
    if let Some(output) = output {
        let saved = runner.text(&case.terminal, budget).map_err(|fault| fault.text());
        let saved = saved.and_then(|text| match text {
            Some(text) => output.save(&runner.label(), &case.terminal.id, &text),
            None => Err("this runner gives no text".to_owned()),
        });
        if let Err(why) = saved {
            return case.keep(KeepReason::Unreadable, format!("its text could not be saved: {why}"));
        }
    }
    let name = format!("{} {}", runner.label(), case.terminal.id);
    match runner.close(&case.terminal, budget) {
        Closing::Asked | Closing::Gone => {
            progress.closing(name);
            case.fate = Some(Fate::Closed);
        }
        Closing::Refused(why) => {
            case.terminal.again = Again::Changed(why.clone());
            case.keep(KeepReason::Changed, why);
        }
        Closing::Failed(why) => case.keep(KeepReason::CloseFailed, why),
    }
}

/// Waits for the pinned processes of all closed terminals together.
fn wait(cases: &mut [ReapCase], settle: Duration, budget: Budget, pass: &mut ReapPass) {
    let end = (Instant::now() + settle).min(budget.end());
    for case in cases.iter_mut().filter(|case| case.asked_to_close()) {
        // One end for all: each wait after the first takes only what is left of it.
        match pins::wait_all(&case.pins, end) {
            Ok(survivors) => case.survivors = survivors,
            Err(error) => pass.warnings.push(format!("waiting: {}", crate::error::reason(&error))),
        }
    }
}

/// Lists again: only a terminal that is not there any more was closed.
fn confirm(runners: &mut [Box<dyn Runner>], cases: &mut [ReapCase], budget: Budget, pass: &mut ReapPass) {
    for (at, runner) in runners.iter_mut().enumerate() {
        let theirs =
            (0..cases.len()).filter(|case| cases[*case].runner == at && cases[*case].asked_to_close());
        let closed: Vec<usize> = theirs.collect();
        if closed.is_empty() {
            continue;
        }
        let present = runner.present(budget);
        if let Err(fault) = &present {
            pass.warnings.push(format!("{}: after the closes: {}", runner.label(), fault.text()));
        }
        for at in closed {
            let case = &mut cases[at];
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

fn finish(
    runners: &[Box<dyn Runner>],
    cases: Vec<ReapCase>,
    settings: &ReapSettings,
    mut pass: ReapPass,
) -> ReapPass {
    let policy = settings.policy();
    pass.rows = cases
        .into_iter()
        .map(|case| ReapRow {
            runner: runners[case.runner].label(),
            conditions: explain(&case.terminal, &policy),
            proved_busy: proves_busy(&case.terminal, &policy),
            fate: case.fate.unwrap_or_else(|| Fate::Kept(Keep::new(KeepReason::Unreadable, "not judged"))),
            memory: case.pins.iter().map(|pin| pin.memory).sum(),
            processes: case.pins.into_iter().map(|pin| pin.identity).collect(),
            survivors: case.survivors,
            terminal: case.terminal,
        })
        .collect();
    let failed =
        |row: &&ReapRow| matches!(&row.fate, Fate::Kept(keep) if keep.reason == KeepReason::CloseFailed);
    pass.troubles += pass.rows.iter().filter(failed).count();
    pass
}

impl ReapRow {
    /// The automation it belongs to, where that is known.
    pub(crate) fn automation(&self) -> Option<&str> {
        match &self.terminal.belongs {
            Belongs::Named(name) | Belongs::Other(name) => Some(name),
            _ => None,
        }
    }
}
