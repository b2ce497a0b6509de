//! One pass: list, judge, watch, then ask and close in turn. Whatever cannot be known
//! in time is kept.

use super::case::{Fate, ReapCase, ReapPass, ReapProgress, ReapRow, ReapSettings, Together, keep_together};
use super::closing::{self, Closer};
use super::memory::Memory;
use super::output_file::OutputDir;
use super::watch::Watch;
use crate::model::terminal::{Processes, Terminal};
use crate::os::pins::{self};
use crate::os::session::Table;
use crate::runner::{Budget, Runner};
use crate::verdict::reap::{Ask, Keep, KeepReason, Verdict, explain, judge, proves_busy};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// No single call of a runner gets more than this.
const CALL: Duration = Duration::from_secs(15);
/// Kept back for the list after the closes.
const LAST_LIST: Duration = Duration::from_secs(2);

/// Does all of it. Never longer than `settings.end` by more than a call that is being killed.
pub(crate) fn run(
    runners: &mut [Box<dyn Runner>],
    settings: &ReapSettings,
    output: Option<&OutputDir>,
    memory: &Memory,
    progress: &ReapProgress,
) -> ReapPass {
    let mut pass = ReapPass::default();
    let mut budget = Budget::new(settings.end, CALL);
    let mut cases = list(runners, settings, &mut budget, &mut pass);
    let runners: &[Box<dyn Runner>] = runners;
    // What the last close needs: its own call, the wait, one more list.
    let settle = settings.settle.min(budget.left() / 3);
    let reserve = settle + LAST_LIST.min(budget.left() / 10);
    let last_start = budget.end().checked_sub(reserve).unwrap_or(budget.end());
    for case in &mut cases {
        case.judge(settings);
    }
    let mut groups = in_groups(cases);
    for group in &mut groups {
        keep_together(group);
    }
    let (open, mut done): (Vec<Together>, Vec<Together>) =
        groups.into_iter().partition(|group| group.iter().any(|case| case.fate.is_none()));
    if !open.is_empty() {
        pins::more_descriptors();
        let (watch, mut open) = watch(runners, open, settings, memory, budget);
        open.sort_by_key(|group| turn(group, runners, memory));
        let closer =
            Closer { runners, settings, budget, output, progress, memory, watch: watch.as_ref(), last_start };
        done.extend(closer.work(open));
        closing::after(&closer, &mut done, settle, &mut pass);
    }
    if !settings.dry_run {
        memory.keep();
    }
    let mut cases: Vec<ReapCase> = done.into_iter().flatten().collect();
    cases.sort_by_key(|case| case.place);
    finish(runners, cases, settings, pass)
}

/// Whose turn comes first: who waited longest for one, then who has been silent longest.
fn turn(
    group: &Together,
    runners: &[Box<dyn Runner>],
    memory: &Memory,
) -> (u64, Option<crate::model::time::WallTime>) {
    let asked = |case: &ReapCase| memory.asked(&case.key(&runners[case.runner].label()));
    (
        group.iter().map(asked).min().unwrap_or(0),
        group.iter().map(|case| case.terminal.output.moved).min().flatten(),
    )
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
                for terminal in listing.terminals {
                    cases.push(ReapCase::new(cases.len(), at, terminal));
                }
            }
            Err(fault) => {
                pass.troubles += 1;
                pass.warnings.push(format!("{}: {}", runner.label(), fault.text()));
            }
        }
    }
    cases
}

fn in_groups(cases: Vec<ReapCase>) -> Vec<Together> {
    let mut groups: Vec<Together> = Vec::new();
    let mut of_session: HashMap<(usize, String), usize> = HashMap::new();
    for case in cases {
        match &case.terminal.session {
            Some(session) => {
                let at = *of_session.entry((case.runner, session.clone())).or_insert(groups.len());
                match groups.get_mut(at) {
                    Some(group) => group.push(case),
                    None => groups.push(vec![case]),
                }
            }
            None => groups.push(vec![case]),
        }
    }
    groups
}

/// Watches the processes of everything that could still be closed, all at once.
fn watch(
    runners: &[Box<dyn Runner>],
    mut groups: Vec<Together>,
    settings: &ReapSettings,
    memory: &Memory,
    budget: Budget,
) -> (Option<Watch>, Vec<Together>) {
    let open = |case: &ReapCase| {
        case.fate.is_none()
            && matches!(judge(&case.terminal, &settings.policy()), Verdict::Ask(Ask::Processes))
    };
    for (at, runner) in runners.iter().enumerate() {
        let cases = groups.iter_mut().flatten().filter(|case| case.runner == at && open(case));
        let mut theirs: Vec<&mut Terminal> = cases.map(|case| &mut case.terminal).collect();
        if !theirs.is_empty() {
            runner.map_processes(&mut theirs);
        }
    }
    let watched: Vec<&Terminal> =
        groups.iter().flatten().filter(|case| open(case)).map(|case| &case.terminal).collect();
    let looks = Watch::begin(&watched, budget.left() / 4).and_then(|watch| Ok((watch, Table::read()?)));
    for case in groups.iter_mut().flatten().filter(|case| open(case)) {
        match &looks {
            Ok((watch, table)) => watch.see(&mut case.terminal, table, memory),
            Err(error) => case.terminal.processes = Processes::Unreadable(crate::error::reason(error)),
        }
        case.judge(settings);
    }
    for group in &mut groups {
        keep_together(group);
    }
    (looks.ok().map(|(watch, _)| watch), groups)
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
            pulses: case.pulses,
            carriers: case.carriers,
            ended: case.ended,
            quiet_jobs: case.quiet_jobs,
            terminal: case.terminal,
        })
        .collect();
    let failed =
        |row: &&ReapRow| matches!(&row.fate, Fate::Kept(keep) if keep.reason == KeepReason::CloseFailed);
    pass.troubles += pass.rows.iter().filter(failed).count();
    pass
}
