//! Turned away: say who holds it, count it, and end with the right code.

use super::status_file::StatusFile;
use crate::command::records::{Judged, Records};
use crate::command::{tell, turned_away};
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::model::identity::ProcessIdentity;
use crate::model::name::LockName;
use crate::report::Report;
use crate::verdict::liveness::{State, Through};
use serde_json::json;

/// How the holder stands to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::command) enum Relation {
    Stranger,
    /// The caller's own owner holds it.
    You,
    /// A caller of this command holds it, or this process by the pulse it was started with: waiting
    /// would be for ourselves.
    Ancestor,
}

/// Compares a live record's owners with the caller's owner and callers.
pub(super) fn relation(
    store: &Records,
    judged: &Judged,
    owner: &ProcessIdentity,
    callers: &[u32],
) -> Relation {
    let (State::Live(Through::Owner(_)), Some(record)) = (judged.state(), judged.record()) else {
        return Relation::Stranger;
    };
    if store.is_owned_by(record, owner) {
        Relation::You
    } else if store.is_owned_by_one_of(record, callers) {
        Relation::Ancestor
    } else {
        Relation::Stranger
    }
}

/// The refusal with its kind.
pub(in crate::command) fn error(
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
    let token = judged.token.unwrap_or(0);
    let owner = judged.record().map_or_else(String::new, |record| tell::first(store, record, tell::owner));
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
                State::Live(Through::Carrier) => format!(
                    "{name} is held by the run that this process belongs to; waiting would be for yourself; token {token}"
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
    let stopped = matches!(judged.state(), State::Live(holder) if tell::is_stopped(store, judged, *holder));
    let error = error(store, name, judged, relation, stopped);
    let exit = Exit::from(error.kind());
    report.error(&error, live && !stopped);
    for line in &judged.judgement.evidence {
        report.note(line);
    }
    status_file.fact_or_say(
        report,
        "refused",
        name.as_str(),
        &json!({
            "kind": error.kind().as_str(),
            "token": judged.token,
        }),
    );
    if live {
        turned_away::count(report, store, name, judged, "refused", None);
    }
    if exit == Exit::Skip { busy } else { exit.into() }
}
