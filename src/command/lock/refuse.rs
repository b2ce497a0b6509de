//! Turned away: say who holds it, count it, and end with the right code.

use super::status_file::StatusFile;
use crate::command::records::{Judged, Records, event_of};
use crate::command::tell;
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::model::event::{Event, is_milestone};
use crate::model::identity::ProcessIdentity;
use crate::model::name::LockName;
use crate::model::record::Record;
use crate::model::time::WallTime;
use crate::os::clock;
use crate::report::{Report, escape};
use crate::verdict::liveness::{State, Through};
use serde_json::json;

/// How the holder stands to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Stranger,
    /// The caller's own owner holds it.
    You,
    /// A caller of this command holds it, or this process by the pulse it was started with: waiting
    /// would be for ourselves.
    Ancestor,
}

/// Compares a live record's owners with the caller's owner and callers.
pub(super) fn relation(judged: &Judged, owner: &ProcessIdentity, callers: &[u32]) -> Relation {
    let State::Live(Through::Owner(_)) = judged.state() else { return Relation::Stranger };
    let Some(record) = judged.record() else { return Relation::Stranger };
    if record.owners.iter().any(|held| held.same(owner)) {
        return Relation::You;
    }
    // LIVE was just proved for the recorded identity, so a caller with its number is it.
    if record.owners.iter().any(|held| callers.contains(&held.pid)) {
        Relation::Ancestor
    } else {
        Relation::Stranger
    }
}

/// The refusal with its kind.
pub(super) fn error(
    store: &Records,
    name: &LockName,
    judged: &Judged,
    relation: Relation,
    stopped: bool,
) -> Error {
    let refusal = match judged.state() {
        State::Live(holder) => Error::new(Kind::Held, tell::held(store, name, judged, *holder, stopped)),
        _ => tell::refusal(store, name, judged),
    };
    let token = judged.record().map_or(0, |record| record.token);
    let owner =
        judged.record().and_then(|record| record.owners.first()).map_or_else(String::new, tell::process);
    match relation {
        Relation::Stranger => refusal,
        Relation::You => {
            Error::new(Kind::HeldByYou, format!("{name}: you already hold it (token {token}, {owner})"))
                .hint("--reentrant goes ahead all the same")
        }
        Relation::Ancestor => Error::new(
            Kind::HeldByAncestor,
            match judged.state() {
                State::Live(Through::Descendant) => format!(
                    "{name} is held by what {owner} started before it ended, and so by this process; waiting would be for yourself; token {token}"
                ),
                _ => format!(
                    "{name} is held by your own caller, {owner}; waiting would be for yourself; token {token}"
                ),
            },
        )
        .hint("--reentrant goes ahead under its lock"),
    }
}

/// Reports a refusal and gives the status to end with. `busy` is the code for 75.
pub(super) fn turned_away(
    report: &Report,
    store: &Records,
    name: &LockName,
    judged: &Judged,
    relation: Relation,
    busy: Status,
    status_file: &StatusFile,
) -> Status {
    let live = matches!(judged.state(), State::Live(_));
    let stopped = matches!(judged.state(), State::Live(holder) if tell::is_stopped(judged, *holder));
    let error = error(store, name, judged, relation, stopped);
    let exit = Exit::from(error.kind());
    report.error(&error, live && !stopped);
    for line in &judged.judgement.evidence {
        report.note(line);
    }
    status_file.fact(
        "refused",
        name.as_str(),
        &json!({
            "kind": error.kind().as_str(),
            "token": judged.record().map(|record| record.token),
        }),
    );
    if live {
        count(report, store, name, judged, "refused", None);
    }
    if exit == Exit::Skip { busy } else { exit.into() }
}

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
        let since = WallTime::parse(&turned.since)
            .map_or_else(|| escape(turned.since.as_bytes(), 40), WallTime::show);
        report.warn(&again(name, judged, turned.in_a_row, &since));
    }
}

fn again(name: &LockName, judged: &Judged, times: u64, since: &str) -> String {
    let who = judged.record().and_then(|record| record.owners.first()).map_or_else(
        || "by the same run".to_owned(),
        |owner| format!("by the same run (pid {}, {})", owner.pid, escape(owner.comm.as_bytes(), 60)),
    );
    let advice = match (judged.state(), judged.record()) {
        (State::Live(Through::Descendant), Some(record)) => orphan_advice(name, record),
        _ => "If finished runs stay open here: man orion-reap".to_owned(),
    };
    format!("{name} skipped {times} times since {since} {who}. {advice}")
}

fn orphan_advice(name: &LockName, record: &Record) -> String {
    format!(
        "Meant to stay? orion-lock break --owner-is-alive --token {} {name}, and run with --owner-only",
        record.token
    )
}
