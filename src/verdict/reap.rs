//! May this terminal be closed? One ladder for every runner, cheap rungs first;
//! the first one missed keeps the terminal and names the reason. Where a dearer
//! fact is needed the answer is a question, so that nothing is asked in vain.

pub(crate) use super::reason::KeepReason;
use crate::model::duration;
use crate::model::terminal::{Activity, Again, Belongs, Idle, Member, Processes, Terminal};
use crate::model::time::WallTime;
use std::time::Duration;

/// Output that comes this long after an idle mark ends the mark: a prompt is still
/// painted after the hook, a turn is longer (design 7).
const MARK_GRACE: Duration = Duration::from_secs(30);
/// Clocks of terminals round up to eight seconds (tty_io.c); more than that lies in the future.
const CLOCK_SLACK: Duration = Duration::from_secs(9);
/// A mark older than the process it stands on, beyond the rounding of both.
const START_SLACK: Duration = Duration::from_secs(2);
/// Processor time of an idle terminal UI in one second, clock ticks.
const IDLE_TICKS: u64 = 5;

/// A kept terminal's reason with what was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keep {
    pub(crate) reason: KeepReason,
    pub(crate) evidence: String,
}

impl Keep {
    pub(crate) fn new(reason: KeepReason, evidence: impl Into<String>) -> Self {
        Self { reason, evidence: evidence.into() }
    }
}

/// A fact the ladder needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Idle,
    Processes,
    Again,
}

/// What is to be done with a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Keep(Keep),
    Ask(Ask),
    Close,
}

/// What the person asked for, and the moment it is judged at.
#[derive(Clone, Debug)]
pub(crate) struct ReapPolicy {
    pub(crate) now: WallTime,
    /// The silence and the age a run must have.
    pub(crate) idle: Duration,
    pub(crate) close_newest: bool,
    /// Names of processes that belong to an idle agent (`--resident`).
    pub(crate) residents: Vec<String>,
}

/// Judges one terminal. Pure.
pub(crate) fn judge(terminal: &Terminal, policy: &ReapPolicy) -> Verdict {
    match ladder(terminal, policy) {
        Ok(()) => Verdict::Close,
        Err(Miss::Keep(keep)) => Verdict::Keep(keep),
        Err(Miss::Ask(ask)) => Verdict::Ask(ask),
    }
}

/// Is the runner's proof there that a run of a named automation is at work?
pub(crate) fn proves_busy(terminal: &Terminal, policy: &ReapPolicy) -> bool {
    belongs(terminal).is_ok()
        && !terminal.dead
        && (matches!(terminal.idle, Idle::Busy(_))
            || matches!(processes(terminal, policy), Err(Miss::Keep(Keep { reason: KeepReason::Busy, .. }))))
}

/// One rung of the ladder, for a person: does it hold, and what was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) name: &'static str,
    /// `None`: not asked, because a cheaper one was missed.
    pub(crate) holds: Option<bool>,
    pub(crate) evidence: String,
}

/// Every condition and veto with its evidence, those behind a missed one too.
pub(crate) fn explain(terminal: &Terminal, policy: &ReapPolicy) -> Vec<Condition> {
    let since = |at: Option<WallTime>| at.and_then(|at| at.age(policy.now)).unwrap_or_default();
    let idle_text = match &terminal.idle {
        Idle::MarkedAt(at) => format!("marked idle {} ago", duration::show(since(Some(*at)))),
        Idle::Yes(text) => text.clone(),
        _ => String::new(),
    };
    let silent_text =
        format!("for {} ({})", duration::show(since(terminal.output.moved)), terminal.output.source);
    let processes_text = match &terminal.processes {
        Processes::Seen(activity) => format!("{}, all quiet", activity.members.len()),
        _ => "none is known for it".to_owned(),
    };
    let belongs_text = match &terminal.belongs {
        Belongs::Named(name) => format!("a run of {name}"),
        _ => String::new(),
    };
    let rungs: [(&'static str, Result<(), Miss>, String); 8] = [
        ("belongs", belongs(terminal), belongs_text),
        ("not our own", not_own(terminal), String::new()),
        ("idle", alive(terminal).and_then(|()| idle(terminal, policy)), idle_text),
        ("not next", not_next(terminal, policy), String::new()),
        (
            "old enough",
            old_enough(terminal, policy),
            format!("began {} ago", duration::show(since(terminal.started))),
        ),
        ("silent", silent(terminal, policy), silent_text),
        ("processes", processes(terminal, policy), processes_text),
        ("second look", same_again(terminal), "unchanged".to_owned()),
    ];
    rungs
        .into_iter()
        .map(|(name, result, text)| match result {
            Ok(()) => Condition { name, holds: Some(true), evidence: text },
            Err(Miss::Ask(_)) => Condition { name, holds: None, evidence: "not asked".to_owned() },
            Err(Miss::Keep(keep)) => Condition { name, holds: Some(false), evidence: keep.evidence },
        })
        .collect()
}

enum Miss {
    Keep(Keep),
    Ask(Ask),
}

fn keep<T>(reason: KeepReason, evidence: impl Into<String>) -> Result<T, Miss> {
    Err(Miss::Keep(Keep::new(reason, evidence)))
}

fn ladder(terminal: &Terminal, policy: &ReapPolicy) -> Result<(), Miss> {
    belongs(terminal)?;
    not_own(terminal)?;
    alive(terminal)?;
    let idle_is_known = terminal.idle != Idle::NotAsked;
    if idle_is_known {
        idle(terminal, policy)?;
    }
    not_next(terminal, policy)?;
    old_enough(terminal, policy)?;
    silent(terminal, policy)?;
    if !idle_is_known {
        return Err(Miss::Ask(Ask::Idle));
    }
    processes(terminal, policy)?;
    same_again(terminal)
}

fn not_own(terminal: &Terminal) -> Result<(), Miss> {
    if terminal.own { keep(KeepReason::OwnTerminal, "this reaper runs in it") } else { Ok(()) }
}

fn alive(terminal: &Terminal) -> Result<(), Miss> {
    if terminal.dead {
        return keep(KeepReason::DeadPane, "its process has ended, so nothing proves whose it was");
    }
    Ok(())
}

fn not_next(terminal: &Terminal, policy: &ReapPolicy) -> Result<(), Miss> {
    if terminal.newest_of_reuse && !policy.close_newest {
        return keep(
            KeepReason::NewestReuse,
            "the next run of its automation uses it; --close-newest closes it",
        );
    }
    Ok(())
}

/// The look immediately before the close.
fn same_again(terminal: &Terminal) -> Result<(), Miss> {
    match &terminal.again {
        Again::NotAsked => Err(Miss::Ask(Ask::Again)),
        Again::Same => Ok(()),
        Again::Changed(what) => keep(KeepReason::Changed, what),
        Again::Unreadable(why) => keep(KeepReason::Unreadable, why),
    }
}

/// First condition: a run of a named automation, by an exact join.
fn belongs(terminal: &Terminal) -> Result<(), Miss> {
    match &terminal.belongs {
        Belongs::Named(_) => Ok(()),
        Belongs::Other(name) => keep(KeepReason::OtherAutomation, name),
        Belongs::NoRun => keep(KeepReason::NoRun, "no run of an automation is known for it"),
        Belongs::NotItsOwn(why) => keep(KeepReason::TagNotOurs, why),
        Belongs::Ambiguous(why) => keep(KeepReason::AmbiguousName, why),
        Belongs::Starting(why) => keep(KeepReason::Starting, why),
        Belongs::Resumed(why) => keep(KeepReason::Resumed, why),
        Belongs::Unreadable(why) => keep(KeepReason::Unreadable, why),
    }
}

/// Second condition: the runner, or the agent's own mark, says idle.
fn idle(terminal: &Terminal, policy: &ReapPolicy) -> Result<(), Miss> {
    match &terminal.idle {
        Idle::Yes(_) => Ok(()),
        Idle::MarkedAt(at) => mark_holds(terminal, *at, policy),
        Idle::Busy(why) => keep(KeepReason::Busy, why),
        Idle::Question(why) => keep(KeepReason::Question, why),
        Idle::No(why) => keep(KeepReason::NotIdle, why),
        Idle::Unreadable(why) => keep(KeepReason::Unreadable, why),
        Idle::NotAsked => Err(Miss::Ask(Ask::Idle)),
    }
}

/// A mark stands for one process and for the silence after it.
fn mark_holds(terminal: &Terminal, at: WallTime, policy: &ReapPolicy) -> Result<(), Miss> {
    if later(at, policy.now) > START_SLACK {
        return keep(KeepReason::MarkStale, "its idle mark lies in the future");
    }
    if terminal.started.is_some_and(|started| later(started, at) > START_SLACK) {
        return keep(KeepReason::MarkStale, "marked idle before this process began");
    }
    let Some(printed) = terminal.output.printed_by else {
        return keep(KeepReason::NoClock, &terminal.output.source);
    };
    let late = later(printed, at);
    if late > MARK_GRACE {
        let late = duration::show(late);
        return keep(
            KeepReason::MarkStale,
            format!("something was printed up to {late} after its idle mark"),
        );
    }
    Ok(())
}

fn old_enough(terminal: &Terminal, policy: &ReapPolicy) -> Result<(), Miss> {
    let Some(started) = terminal.started else {
        return keep(KeepReason::Unreadable, "the start of its run is not known");
    };
    let age = started.age(policy.now).unwrap_or_default();
    if age < policy.idle {
        return keep(KeepReason::Young, format!("began {} ago", duration::show(age)));
    }
    Ok(())
}

/// Third condition: nothing printed, and nobody typing, for the whole time.
fn silent(terminal: &Terminal, policy: &ReapPolicy) -> Result<(), Miss> {
    let Some(moved) = terminal.output.moved else {
        return keep(KeepReason::NoClock, &terminal.output.source);
    };
    if later(moved, policy.now) > CLOCK_SLACK {
        return keep(KeepReason::NoClock, format!("{} lies in the future", terminal.output.source));
    }
    let age = moved.age(policy.now).unwrap_or_default();
    if age < policy.idle {
        return keep(
            KeepReason::NotSilent,
            format!("silent for {} ({})", duration::show(age), terminal.output.source),
        );
    }
    Ok(())
}

fn processes(terminal: &Terminal, policy: &ReapPolicy) -> Result<(), Miss> {
    match &terminal.processes {
        Processes::NotAsked => Err(Miss::Ask(Ask::Processes)),
        Processes::Unmapped => Ok(()),
        Processes::Unreadable(why) => keep(KeepReason::Unreadable, why),
        Processes::Seen(activity) => quiet(activity, terminal, policy),
    }
}

/// /proc can prove busy, never idle (runners 5.2): every rung here is a veto.
fn quiet(activity: &Activity, terminal: &Terminal, policy: &ReapPolicy) -> Result<(), Miss> {
    let alive = || activity.members.iter().filter(|member| !matches!(member.state, 'Z' | 'X' | 'x'));
    if let Some(member) = alive().find(|member| matches!(member.state, 'T' | 't')) {
        return keep(KeepReason::Stopped, format!("{} is stopped", name(member)));
    }
    if let Some(member) = alive().find(|member| member.state == 'D') {
        return keep(KeepReason::Busy, format!("{} is in the middle of input or output", name(member)));
    }
    // No terminal, or one that nobody has in the foreground: its processes are going or gone elsewhere. Not
    // proof of work, so it keeps without being called busy.
    if activity.foreground < 0 {
        return keep(KeepReason::Unreadable, "no process group has the terminal");
    }
    if activity.foreground != activity.own_group {
        return keep(
            KeepReason::Busy,
            format!("process group {} has the terminal, not the agent's own", activity.foreground),
        );
    }
    let spent: u64 = alive().map(|member| member.cpu_ticks).sum();
    if spent > IDLE_TICKS {
        let most = alive().max_by_key(|member| member.cpu_ticks).map(name).unwrap_or_default();
        return keep(
            KeepReason::Busy,
            format!("uses the processor ({spent} ticks in the sample, most by {most})"),
        );
    }
    if let Some(member) = alive().find(|member| member.wrote.is_some_and(|bytes| bytes > 0)) {
        return keep(KeepReason::Busy, format!("{} is writing", name(member)));
    }
    let young = |member: &&Member| !member.leader && !resident(member, terminal, policy);
    if let Some(member) = alive().find(young) {
        return keep(
            KeepReason::Busy,
            format!(
                "{} still runs, begun less than {} before the last output (a helper that always runs: --resident {})",
                name(member),
                duration::show(policy.idle),
                member.comm
            ),
        );
    }
    Ok(())
}

/// Was this descendant there long before the agent fell silent, or declared to belong to it?
fn resident(member: &Member, terminal: &Terminal, policy: &ReapPolicy) -> bool {
    let threshold = u64::try_from(policy.idle.as_millis()).unwrap_or(u64::MAX);
    let last = terminal.output.printed_by.map_or(0, |at| at.0.saturating_sub(threshold));
    policy.residents.contains(&member.comm) || member.started.0 < last
}

fn name(member: &Member) -> String {
    format!("pid {} ({})", member.pid, member.comm)
}

/// How much later `a` is than `b`; zero if it is not.
fn later(a: WallTime, b: WallTime) -> Duration {
    b.age(a).unwrap_or_default()
}

#[cfg(test)]
#[path = "reap_tests.rs"]
mod tests;
