//! Is the turn over? The agent's own hook, the runner, or a trusted screen must say so.

use super::{Ask, ReapPolicy};
use super::{Keep, KeepReason, Miss, keep, later, old_enough, silent};
use crate::model::duration;
use crate::model::mark::{AgentMark, MarkWord, MarkedBy};
use crate::model::terminal::{Idle, Processes, Terminal};
use crate::model::time::WallTime;
use std::time::Duration;

/// Where only ends of turns are told, output that comes this long after the mark may be a turn (agents 2).
const MARK_GRACE: Duration = Duration::from_secs(120);
/// A mark older than the process it stands on, beyond the rounding of both.
const START_SLACK: Duration = Duration::from_secs(2);
/// Programs repaint when a client comes. A second for tmux's whole seconds, eight for the terminal's clock, and one more.
const REPAINT: Duration = Duration::from_secs(10);

/// How a run came to be finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HowFinished {
    /// It was said.
    Said,
    /// A turn was begun and nothing has been heard of it for longer than `--idle`.
    Interrupted,
}

/// Second condition: the runner, or the agent's own mark, says that the turn is over.
pub(super) fn finished(terminal: &Terminal, policy: &ReapPolicy) -> Result<HowFinished, Miss> {
    match &terminal.idle {
        Idle::Yes(_) => Ok(HowFinished::Said),
        Idle::Marked(mark) => marked(terminal, mark, policy),
        Idle::Unmarked => no_hooks("it has no mark"),
        Idle::Busy(why) => keep(KeepReason::Busy, why),
        Idle::Question(why) => keep(KeepReason::Question, why),
        Idle::No(why) => keep(KeepReason::NotIdle, why),
        Idle::Unreadable(why) => keep(KeepReason::Unreadable, why),
        Idle::NotAsked => Err(Miss::Ask(Ask::Idle)),
    }
}

/// A busy or working mark of the agent's own hook.
pub(super) fn is_proof(mark: &AgentMark) -> bool {
    mark.by == MarkedBy::Hook && matches!(mark.word, MarkWord::Busy | MarkWord::Working)
}

fn no_hooks<T>(what: &str) -> Result<T, Miss> {
    keep(
        KeepReason::NoHooks,
        format!(
            "{what}: no hook of its agent ever said that a turn ended; for Claude Code: orion-mark install claude"
        ),
    )
}

fn marked(terminal: &Terminal, mark: &AgentMark, policy: &ReapPolicy) -> Result<HowFinished, Miss> {
    if mark.by == MarkedBy::Claim && !mark.is_hooked() {
        return no_hooks("it was only claimed");
    }
    if let MarkedBy::Other(who) = &mark.by {
        return keep(KeepReason::NotIdle, format!("its mark was set by {who}, which is not known here"));
    }
    match mark.word {
        MarkWord::Idle | MarkWord::Ended => holds(terminal, mark, policy),
        MarkWord::Busy => busy(terminal, mark, policy),
        MarkWord::Working => working(mark),
        MarkWord::Question => keep(KeepReason::Question, "its agent waits for a person"),
        MarkWord::Ready => keep(KeepReason::NotIdle, "its agent has started and no turn has ended yet"),
    }
}

fn working<T>(mark: &AgentMark) -> Result<T, Miss> {
    let tasks = match mark.tasks {
        Some(1) => "1 piece of work goes on".to_owned(),
        Some(tasks) => format!("{tasks} pieces of work go on"),
        None => "work goes on".to_owned(),
    };
    keep(KeepReason::Working, format!("its agent said at the end of a turn that {tasks} in the background"))
}

/// A turn that never ended is at work, unless nothing else speaks for that any more.
fn busy(terminal: &Terminal, mark: &AgentMark, policy: &ReapPolicy) -> Result<HowFinished, Miss> {
    let age = mark.at.age(policy.now).unwrap_or_default();
    let who = match mark.by {
        MarkedBy::Hook => "a hook of its agent said",
        _ => "its mark says",
    };
    let evidence = format!("{who} {} ago that a turn runs", duration::show(age));
    let quiet = old_enough(terminal, policy).and_then(|()| silent(terminal, policy)).is_ok();
    if mark.by != MarkedBy::Hook || age < policy.idle || !quiet {
        return keep(KeepReason::Busy, evidence);
    }
    if mark.tasks.is_some() {
        return working(mark);
    }
    Ok(HowFinished::Interrupted)
}

/// What is left of a turn that was begun and never ended, as after Esc: no process at work, no job, no connection.
pub(super) fn interrupted(terminal: &Terminal, policy: &ReapPolicy) -> Result<(), Miss> {
    let Idle::Marked(mark) = &terminal.idle else { return Ok(()) };
    let connections = match &terminal.processes {
        Processes::Seen(activity) => activity.connections,
        _ => None,
    };
    match connections {
        Some(0) => {}
        Some(count) => {
            let text = format!("a turn runs, says its mark, and it has {count} open network connections");
            return keep(KeepReason::Busy, text);
        }
        None => {
            return keep(KeepReason::Busy, "a turn runs, says its mark, and its connections cannot be seen");
        }
    }
    let since = |at: Option<WallTime>| at.and_then(|at| at.age(policy.now)).unwrap_or_default();
    let quiet = since(Some(mark.at)).min(since(terminal.output.moved));
    match policy.interrupted {
        Some(limit) if quiet >= limit => Ok(()),
        _ => {
            let text = format!(
                "its turn began, never ended, and has shown no sign for {}; --interrupted DUR closes such runs",
                duration::show(quiet)
            );
            Err(Miss::Keep(Keep::new(KeepReason::Interrupted, text)))
        }
    }
}

/// An idle mark stands for one process. Where beginnings of turns are told too, nothing but another mark
/// ends it; where only ends are told, later output may be the next turn.
fn holds(terminal: &Terminal, mark: &AgentMark, policy: &ReapPolicy) -> Result<HowFinished, Miss> {
    if later(mark.at, policy.now) > START_SLACK {
        return keep(KeepReason::MarkStale, "its idle mark lies in the future");
    }
    if terminal.started.is_some_and(|started| later(started, mark.at) > START_SLACK) {
        return keep(KeepReason::MarkStale, "marked idle before this process began");
    }
    if mark.busy.count > 0 {
        return Ok(HowFinished::Said);
    }
    let Some(printed) = terminal.output.printed_by else {
        return keep(KeepReason::NoClock, &terminal.output.source);
    };
    let late = later(printed, mark.at);
    let repaint = terminal
        .viewer
        .came
        .is_some_and(|came| later(printed, came) <= REPAINT && later(came, printed).is_zero());
    if late > MARK_GRACE && !repaint {
        let late = duration::show(late);
        return keep(
            KeepReason::MarkStale,
            format!("something was printed up to {late} after its idle mark"),
        );
    }
    Ok(HowFinished::Said)
}
