//! Turned away: say who holds it, count it, and end with the right code.

use super::status_file::StatusFile;
use crate::command::records::{Judged, NameState, Records};
use crate::command::{owner, tell, tell_state, turned_away};
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::model::entry::EntryMode;
use crate::model::identity::ProcessIdentity;
use crate::model::name::LockName;
use crate::report::Report;
use crate::verdict::admission::Admission;
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

/// Not taken: why, and who is there.
#[derive(Debug)]
pub(in crate::command) struct Refused {
    pub(super) why: Admission,
    pub(in crate::command) relation: Relation,
    pub(super) mode: EntryMode,
    pub(super) state: NameState,
}

/// Compares the owners of whoever is there with the caller's owner and callers, and its pulse with ours.
pub(super) fn relation(
    store: &Records,
    name: &LockName,
    state: &NameState,
    mode: EntryMode,
    owner: &ProcessIdentity,
    callers: &[u32],
) -> Relation {
    let to = |judged: &Judged| match (judged.state(), judged.record()) {
        (State::Live(Through::Owner(_)), Some(record)) if store.is_owned_by(record, owner) => Relation::You,
        (State::Live(Through::Owner(_)), Some(record)) if store.is_owned_by_one_of(record, callers) => {
            Relation::Ancestor
        }
        (State::Live(Through::Descendant | Through::Carrier), _)
            if store.carries(name, judged, std::process::id()) =>
        {
            Relation::Ancestor
        }
        _ => Relation::Stranger,
    };
    let all: Vec<Relation> = state.there().map(|member| to(&member.judged)).collect();
    let has = |wanted| all.contains(&wanted);
    if has(Relation::You) {
        Relation::You
    // Beside strangers one may wait for those.
    } else if has(Relation::Ancestor) && (mode == EntryMode::Exclusive || !has(Relation::Stranger)) {
        Relation::Ancestor
    } else {
        Relation::Stranger
    }
}

impl Refused {
    /// The refusal with its kind.
    pub(in crate::command) fn error(&self, store: &Records, name: &LockName) -> Error {
        let judged = self.judged();
        let refusal = tell_state::refusal(store, name, &self.state, self.why, self.mode);
        if self.is_by_pause() {
            return refusal;
        }
        let token = judged.token.unwrap_or(0);
        let owner =
            judged.record().map_or_else(String::new, |record| tell::first(store, record, tell::owner));
        match self.relation {
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

    /// Is it a person's word, readable or not, that keeps us out?
    fn is_by_pause(&self) -> bool {
        matches!(self.why, Admission::Paused | Admission::PauseUnclear)
    }

    /// The member that stands for all.
    pub(in crate::command) fn judged(&self) -> &Judged {
        self.state.leading()
    }

    /// Is one of those who hold it the caller's own owner, or the run that exported its token to us?
    pub(super) fn is_ours(&self, name: &LockName) -> bool {
        let exported = owner::exported_token(name);
        let has = |token| self.state.there().any(|it| it.judged.token == Some(token));
        self.relation == Relation::You || exported.is_some_and(has)
    }

    /// Is it proved that somebody is in the way, or that a person said so?
    fn is_proved(&self) -> bool {
        matches!(self.why, Admission::Held | Admission::ExclusiveWaits | Admission::Paused)
    }

    /// Is it a live holder, and nothing else, that keeps us out?
    fn is_plain(&self) -> bool {
        self.why == Admission::Held && matches!(self.judged().state(), State::Live(_))
    }

    /// A plain refusal; not one of which nothing is known, and not by a holder that is stopped.
    pub(super) fn may_be_silenced(&self, store: &Records) -> bool {
        self.is_proved() && !tell_state::is_any_stopped(store, &self.state)
    }

    /// Every line that led to it, for `-v`.
    pub(super) fn evidence(&self) -> impl Iterator<Item = &str> {
        self.state.members.iter().flat_map(|it| it.judged.judgement.evidence.iter().map(String::as_str))
    }

    /// A record that cannot be read will not get better; an owner that cannot be judged may end. For ourselves
    /// we do not wait.
    pub(super) fn is_worth_waiting(&self) -> bool {
        let may_end = |judged: &Judged| match judged.state() {
            State::Live(_) => true,
            State::Unknown(_) => judged.record().is_some(),
            _ => false,
        };
        let mut there = self.state.there();
        // A person may end a pause whoever we are.
        self.is_by_pause()
            || self.relation == Relation::Stranger
                && (self.why == Admission::ExclusiveWaits || there.any(|member| may_end(&member.judged)))
    }
}

/// Reports a refusal and gives the status to end with. `busy` is the code for 75.
pub(super) fn turned_away(
    report: &Report,
    store: &Records,
    name: &LockName,
    refused: &Refused,
    busy: Status,
    status_file: &StatusFile,
) -> Status {
    let judged = refused.judged();
    if report.hides_refusals()
        && !status_file.is_asked()
        && refused.is_plain()
        && refused.may_be_silenced(store)
    {
        // Nobody reads it, and naming the holder takes longer than all else.
        refused.evidence().for_each(|line| report.detail(line));
        turned_away::count(report, store, name, judged, "refused", None);
        return busy;
    }
    let error = refused.error(store, name);
    let exit = Exit::from(error.kind());
    let to_be_said =
        refused.why == Admission::Paused && turned_away::is_pause_to_be_said(store, name, &refused.state);
    report.error(&error, refused.may_be_silenced(store) && !to_be_said);
    refused.evidence().for_each(|line| report.detail(line));
    status_file.fact_or_say(
        report,
        "refused",
        name.as_str(),
        &json!({
            "kind": error.kind().as_str(),
            "token": judged.token,
        }),
    );
    if refused.why == Admission::Paused {
        turned_away::count_paused(store, name, &refused.state, "refused", None);
    } else if refused.is_proved() {
        turned_away::count(report, store, name, judged, "refused", None);
    }
    if exit == Exit::Skip { busy } else { exit.into() }
}

/// The same for a skip that nobody's hold is the reason for.
pub(super) fn skip(
    report: &Report,
    name: &LockName,
    error: &Error,
    busy: Status,
    status_file: &StatusFile,
) -> Status {
    report.error(error, true);
    status_file.fact_or_say(report, "refused", name.as_str(), &json!({"kind": error.kind().as_str()}));
    busy
}
