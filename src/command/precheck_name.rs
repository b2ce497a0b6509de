//! What `orion-precheck` makes of one name: skip, go, or that it cannot be relied on.

use super::records::{NameState, Records};
use super::{tell_again, tell_state, turned_away};
use crate::cli::precheck::Precheck;
use crate::error::{Error, Kind};
use crate::model::event::Event;
use crate::model::name::LockName;
use crate::os::clock;
use crate::report::Report;
use crate::verdict::admission::Admission;
use crate::verdict::liveness::State;
use crate::verdict::repeat::NotNow;

/// In the log beside a skip that was only observed.
const OBSERVED: &str = "observed only: the run went ahead";

/// What the check came to.
#[derive(Debug, Default)]
pub(super) struct PrecheckAnswer {
    pub(super) skip: bool,
    /// Why it cannot be relied on, said after every name was judged.
    pub(super) problems: Vec<Error>,
    /// The reaper's summary.
    pub(super) reaped: Option<String>,
}

/// What one name says: skip, go, or that it cannot be relied on; gives the kind of a skip that nobody's hold is
/// the reason for. Who only waits for it holds nothing.
pub(super) fn check_one(
    report: &Report,
    args: &Precheck,
    store: &Records,
    name: &LockName,
    state: &NameState,
    answer: &mut PrecheckAnswer,
) -> Option<Kind> {
    let mut kind = None;
    let mode = args.entry.mode();
    let why = store.may_enter(name, state, mode, true);
    match why {
        Admission::Held if report.hides_refusals() && !tell_state::is_any_stopped(store, state) => {
            // Nobody reads who it is, and naming the holder takes longer than all else.
            answer.skip = true;
            if !args.dry_run {
                let detail = args.observe.then_some(OBSERVED);
                turned_away::count(report, store, name, state.leading(), "skipped", detail);
            }
        }
        Admission::Held | Admission::ExclusiveWaits | Admission::Paused => {
            answer.skip = true;
            let error = tell_state::refusal(store, name, state, why, mode);
            skip(report, args, store, name, state, &error);
            kind = (why == Admission::Paused).then(|| error.kind());
        }
        Admission::Unclear | Admission::PauseUnclear => {
            let error = tell_state::refusal(store, name, state, why, mode);
            if !args.dry_run {
                let event = Event::new("unguarded", clock::wall().rfc3339(), name.as_str());
                store.log(name, &[Event { detail: Some(error.to_string()), ..event }]);
            }
            answer.problems.push(error);
        }
        Admission::Enter { .. } => {
            let corrupt = state.members.iter().find_map(|member| match member.judged.state() {
                State::Corrupt(why) => Some(why),
                _ => None,
            });
            if let Some(why) = corrupt {
                let line =
                    format!("{name}: {}/{}.json is corrupt ({why})", store.path().display(), name.file());
                answer.problems.push(Error::new(Kind::Io, line).hint("the next acquire sets it aside"));
            } else if state.leading().record().is_none() {
                report.detail(&format!("{name} was never held in {}", store.path().display()));
            }
            kind = not_again(report, args, store, name, state, answer);
        }
    }
    for line in state.members.iter().flat_map(|member| &member.judged.judgement.evidence) {
        report.detail(&format!("{name}: {line}"));
    }
    kind
}

/// Nobody is in the way: does what was asked of the last run speak against another one?
fn not_again(
    report: &Report,
    args: &Precheck,
    store: &Records,
    name: &LockName,
    state: &NameState,
    answer: &mut PrecheckAnswer,
) -> Option<Kind> {
    let asked = args.again.terms();
    let refused = store.not_again(state, &asked)?;
    if refused.is_first_look
        && !args.dry_run
        && let Err(error) = store.note_end(name, &refused.last)
    {
        // An end that nobody writes down would be a first look each time, and a skip for ever.
        let line = format!("{name}: the end of its last run cannot be written down: {}", error.message());
        answer.problems.push(Error::new(error.kind(), line));
        if matches!(refused.why, NotNow::TooSoon(_)) {
            return None;
        }
    }
    answer.skip = true;
    let error = tell_again::refusal(name, &refused);
    let would = if args.observe { "would skip: " } else { "" };
    report.notice(&format!("{would}{}", error.message()));
    if !args.dry_run {
        turned_away::count_unheld(store, name, "skipped", tell_again::detail(&refused, &asked));
    }
    Some(error.kind())
}

/// Says and counts a skip.
fn skip(
    report: &Report,
    args: &Precheck,
    store: &Records,
    name: &LockName,
    state: &NameState,
    error: &Error,
) {
    let by_pause = error.kind() == Kind::Paused;
    let line = error.message();
    let line = if args.observe { format!("would skip: {line}") } else { line.to_owned() };
    let loud = if by_pause {
        !args.dry_run && turned_away::is_pause_to_be_said(store, name, state)
    } else {
        tell_state::is_any_stopped(store, state)
    };
    if loud {
        report.warning(&line);
    } else {
        report.notice(&line);
    }
    if args.dry_run {
        return;
    }
    let detail = args.observe.then_some(OBSERVED);
    if by_pause {
        turned_away::count_paused(store, name, state, "skipped", detail);
    } else {
        turned_away::count(report, store, name, state.leading(), "skipped", detail);
    }
}
