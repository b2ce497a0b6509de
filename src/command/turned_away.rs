//! Counting who was turned away, and naming a holder that makes us skip again and again.

use super::local_time;
use super::records::{Judged, NameState, PauseScope, Records, event_of};
use super::tell;
use crate::model::event::{Event, is_milestone};
use crate::model::name::LockName;
use crate::model::record::Record;
use crate::os::clock;
use crate::report::{Report, escape};
use crate::verdict::liveness::{State, Through};
use crate::verdict::pause::PauseState;

/// Logs a refusal or skip, and names a holder that makes us skip again and again.
pub(crate) fn count(
    report: &Report,
    store: &Records,
    name: &LockName,
    judged: &Judged,
    word: &str,
    detail: Option<&str>,
) {
    let mut event = match judged.record() {
        Some(record) => event_of(word, name, record),
        None => Event::new(word, clock::wall().rfc3339(), name.as_str()),
    };
    event.detail = detail.map(str::to_owned);
    let Some(turned) = store.log_turned_away(name, &event) else { return };
    if is_milestone(turned.in_a_row) {
        let since = local_time::show_text(&turned.since);
        report.warning(&again(store, name, judged, turned.in_a_row, &since));
    }
}

/// Logs a refusal or skip that nobody's hold is the reason for.
pub(crate) fn count_unheld(store: &Records, name: &LockName, word: &str, detail: String) {
    let event = Event::new(word, clock::wall().rfc3339(), name.as_str());
    store.log_turned_away(name, &Event { detail: Some(detail), ..event });
}

/// Is the pause that keeps somebody out to be said, although refusals are silent?
pub(crate) fn is_pause_to_be_said(store: &Records, name: &LockName, state: &NameState) -> bool {
    matches!(&state.pause, PauseState::Paused(current) if store.is_pause_to_be_said(PauseScope::Lock(name), current))
}

/// Logs a refusal or skip for a pause: by no holder, so nobody is counted.
pub(crate) fn count_paused(
    store: &Records,
    name: &LockName,
    state: &NameState,
    word: &str,
    observed: Option<&str>,
) {
    let PauseState::Paused(current) = &state.pause else { return };
    let by = format!("paused by uid {} since {}", current.pause.uid, current.pause.since);
    let detail = observed.map_or(by.clone(), |observed| format!("{by}; {observed}"));
    count_unheld(store, name, word, detail);
}

fn again(store: &Records, name: &LockName, judged: &Judged, times: u64, since: &str) -> String {
    let who = judged.record().and_then(|record| Some((record, record.owners.first()?))).map_or_else(
        || "because of the same run".to_owned(),
        |(record, owner)| {
            let number = tell::number(store, record, owner);
            format!("because of the same run ({number}, {})", escape(owner.comm.as_bytes(), 60))
        },
    );
    let advice = match (judged.state(), judged.record()) {
        (State::Live(Through::Descendant), Some(record)) => orphan_advice(name, record),
        _ => "If finished runs stay open here: man orion-reap".to_owned(),
    };
    format!("{name} was skipped {times} times since {since} {who}. {advice}")
}

fn orphan_advice(name: &LockName, record: &Record) -> String {
    format!(
        "Meant to stay? orion-lock break --owner-is-alive --token {} {name:#}, and run with --owner-only",
        record.token
    )
}
