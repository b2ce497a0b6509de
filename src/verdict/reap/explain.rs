//! The ladder for a person: every rung with what was seen.

use super::{
    Miss, ReapPolicy, alive, belongs, finished, not_next, not_own, old_enough, same_again, silent, unwatched,
    work,
};
use crate::model::duration;
use crate::model::terminal::{Belongs, Idle, Processes, Terminal};
use crate::model::time::WallTime;

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
    let finished_text = match &terminal.idle {
        Idle::Marked(mark) => {
            format!("marked {} {} ago", mark.word.as_str(), duration::show(since(Some(mark.at))))
        }
        Idle::Yes(text) => text.clone(),
        _ => String::new(),
    };
    let silent_text =
        format!("for {} ({})", duration::show(since(terminal.output.moved)), terminal.output.source);
    let processes_text = match &terminal.processes {
        Processes::Seen(activity) => {
            let mut parts = vec![format!("{}, none at work", activity.members.len())];
            parts.extend(work::quiet_jobs(terminal, policy));
            parts.join("; ")
        }
        _ => "none is known for it".to_owned(),
    };
    let belongs_text = match &terminal.belongs {
        Belongs::Named(name) => format!("a run of {name}"),
        Belongs::Part(name) => format!("in the session of a run of {name}"),
        _ => String::new(),
    };
    let turn = || -> Result<(), Miss> {
        alive(terminal)?;
        match finished::finished(terminal, policy)? {
            finished::HowFinished::Said => Ok(()),
            finished::HowFinished::Interrupted => {
                work::processes(terminal, policy)?;
                finished::interrupted(terminal, policy)
            }
        }
    };
    let rungs: [(&'static str, Result<(), Miss>, String); 9] = [
        ("belongs", belongs(terminal), belongs_text),
        ("not our own", not_own(terminal), String::new()),
        ("nobody there", unwatched(terminal, policy), String::new()),
        ("finished", turn(), finished_text),
        ("not next", not_next(terminal, policy), String::new()),
        (
            "old enough",
            old_enough(terminal, policy),
            format!("began {} ago", duration::show(since(terminal.started))),
        ),
        ("silent", silent(terminal, policy), silent_text),
        ("processes", work::processes(terminal, policy), processes_text),
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
