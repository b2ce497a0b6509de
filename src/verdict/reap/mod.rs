//! May this terminal be closed? One ladder for every runner, cheap rungs first;
//! the first one missed keeps the terminal and names the reason. Where a dearer
//! fact is needed the answer is a question, so that nothing is asked in vain.

mod explain;
mod finished;
mod work;

pub(crate) use super::reason::KeepReason;
pub(crate) use explain::{Condition, explain};
pub(crate) use work::quiet_jobs;

use crate::model::duration;
use crate::model::terminal::{Again, AgentRules, Belongs, Idle, Processes, Terminal};
use crate::model::time::WallTime;
use finished::HowFinished;
use std::time::Duration;

/// Clocks of terminals round up to eight seconds (tty_io.c); more than that lies in the future.
const CLOCK_SLACK: Duration = Duration::from_secs(9);

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
    Processes,
    Idle,
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
    /// What is known about kinds of agents.
    pub(crate) agents: Vec<AgentRules>,
    /// A job that was quiet for so long keeps nothing any more (`--job-quiet`).
    pub(crate) job_quiet: Duration,
    /// Close also runs whose turn never ended and that have been silent for so long (`--interrupted`).
    pub(crate) interrupted: Option<Duration>,
}

/// Judges one terminal. Pure.
pub(crate) fn judge(terminal: &Terminal, policy: &ReapPolicy) -> Verdict {
    match ladder(terminal, policy) {
        Ok(()) => Verdict::Close,
        Err(Miss::Keep(keep)) => Verdict::Keep(keep),
        Err(Miss::Ask(ask)) => Verdict::Ask(ask),
    }
}

/// A session that was made for one run closes as a whole or not at all: why none of its terminals may be
/// closed, if one of them is kept.
pub(crate) fn together<'v>(verdicts: impl IntoIterator<Item = (&'v str, &'v Keep)>) -> Option<Keep> {
    let (id, keep) = verdicts.into_iter().find(|(_, keep)| keep.reason != KeepReason::Session)?;
    let evidence = format!("{id} of its session is kept, {}: {}", keep.reason.word(), keep.evidence);
    Some(Keep::new(KeepReason::Session, evidence))
}

/// Is there proof that a run of a named automation is at work? Only what its own hook or the runner said,
/// or processor time: never silence, writing or a stopped process.
pub(crate) fn proves_busy(terminal: &Terminal, policy: &ReapPolicy) -> bool {
    if belongs(terminal).is_err() || terminal.dead {
        return false;
    }
    let said = match &terminal.idle {
        Idle::Busy(_) => true,
        // A mark that nothing else speaks for any more is doubt, not proof.
        Idle::Marked(mark) => {
            finished::is_proof(mark)
                && !matches!(
                    judge(terminal, &ReapPolicy { interrupted: None, ..policy.clone() }),
                    Verdict::Keep(Keep { reason: KeepReason::Interrupted, .. })
                )
        }
        _ => false,
    };
    let used = match &terminal.processes {
        Processes::Seen(activity) => work::processor(activity).is_err(),
        _ => false,
    };
    said || used
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
    if alive(terminal)? == Alive::No {
        return same_again(terminal);
    }
    unwatched(terminal, policy)?;
    // What the list already tells about its turn comes before what costs a look at /proc.
    let said = match &terminal.idle {
        Idle::NotAsked => None,
        _ => Some(finished::finished(terminal, policy)?),
    };
    not_next(terminal, policy)?;
    old_enough(terminal, policy)?;
    silent(terminal, policy)?;
    work::processes(terminal, policy)?;
    let said = match said {
        Some(said) => said,
        None => finished::finished(terminal, policy)?,
    };
    if said == HowFinished::Interrupted {
        finished::interrupted(terminal, policy)?;
    }
    same_again(terminal)
}

fn not_own(terminal: &Terminal) -> Result<(), Miss> {
    if terminal.own { keep(KeepReason::OwnTerminal, "this reaper runs in it") } else { Ok(()) }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Alive {
    Yes,
    No,
}

fn alive(terminal: &Terminal) -> Result<Alive, Miss> {
    match (terminal.dead, &terminal.belongs) {
        (false, _) => Ok(Alive::Yes),
        // It goes with the run whose session it stands in; nothing runs in it.
        (true, Belongs::Part(_)) => Ok(Alive::No),
        (true, _) => keep(KeepReason::DeadPane, "its process has ended, so nothing proves whose it was"),
    }
}

/// A person is there: close nothing under his hands.
fn unwatched(terminal: &Terminal, policy: &ReapPolicy) -> Result<(), Miss> {
    let viewer = &terminal.viewer;
    if viewer.attached && viewer.in_mode {
        return keep(KeepReason::Watched, "somebody is attached, and scrolls or selects in it");
    }
    match viewer.active.map(|active| active.age(policy.now).unwrap_or_default()) {
        Some(age) if viewer.attached && age < policy.idle => keep(
            KeepReason::Watched,
            format!("somebody is attached, last active {} ago", duration::show(age)),
        ),
        None if viewer.attached => {
            keep(KeepReason::Watched, "somebody is attached, active since when is not known")
        }
        _ => Ok(()),
    }
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
        Belongs::Named(_) | Belongs::Part(_) => Ok(()),
        Belongs::Other(name) => keep(KeepReason::OtherAutomation, name),
        Belongs::NoRun => keep(KeepReason::NoRun, "no run of an automation is known for it"),
        Belongs::NotItsOwn(why) => keep(KeepReason::TagNotOurs, why),
        Belongs::Ambiguous(why) => keep(KeepReason::AmbiguousName, why),
        Belongs::Starting(why) => keep(KeepReason::Starting, why),
        Belongs::Resumed(why) => keep(KeepReason::Resumed, why),
        Belongs::Unreadable(why) => keep(KeepReason::Unreadable, why),
    }
}

fn old_enough(terminal: &Terminal, policy: &ReapPolicy) -> Result<(), Miss> {
    let Some(started) = terminal.started else {
        return keep(KeepReason::Unreadable, "the start of its run is not known");
    };
    let age = started.age(policy.now).unwrap_or_default();
    if age < policy.idle {
        let (age, idle) = (duration::show(age), duration::show(policy.idle));
        return keep(KeepReason::Young, format!("began {age} ago, and --idle is {idle}"));
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
            format!(
                "silent for {}, and --idle is {} ({})",
                duration::show(age),
                duration::show(policy.idle),
                terminal.output.source
            ),
        );
    }
    Ok(())
}

/// How much later `a` is than `b`; zero if it is not.
fn later(a: WallTime, b: WallTime) -> Duration {
    b.age(a).unwrap_or_default()
}

#[cfg(test)]
mod edge_tests;
#[cfg(test)]
mod evidence_tests;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod histories;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod turn_tests;
