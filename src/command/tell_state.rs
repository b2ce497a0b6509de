//! What people are told about a name with all its members.

use super::records::{Judged, LockMember, NameState, Records};
use super::{tell, tell_pause};
use crate::error::{Error, Kind};
use crate::exit::Exit;
use crate::model::duration;
use crate::model::entry::EntryMode;
use crate::model::name::LockName;
use crate::os::clock;
use crate::report::escape;
use crate::verdict::admission::{Admission, Presence};
use crate::verdict::liveness::{State, Through};
use crate::verdict::pause::PauseState;
use serde_json::{Value, json};

/// How many members one line names.
const NAMED: usize = 5;

/// Why it was not taken, as the error of the command.
pub(crate) fn refusal(
    store: &Records,
    name: &LockName,
    state: &NameState,
    why: Admission,
    mode: EntryMode,
) -> Error {
    let unknown = state.members.iter().find(|member| member.presence() == Presence::Unknown);
    match why {
        Admission::ExclusiveWaits => Error::new(
            Kind::ExclusiveWaits,
            format!("{name}: a run that needs it alone waits for it and goes first"),
        )
        .hint("-w DUR stands in line behind it"),
        Admission::Paused | Admission::PauseUnclear => tell_pause::refusal(name, &state.pause),
        Admission::Unclear => {
            tell::refusal(store, name, unknown.map_or_else(|| state.leading(), |member| &member.judged))
        }
        Admission::Held | Admission::Enter { .. } => {
            let there: Vec<&LockMember> = state.there().collect();
            match there.as_slice() {
                [] | [_] if !matches!(mode, EntryMode::Slots(_)) || is_alone(state) => {
                    tell::refusal(store, name, state.leading())
                }
                _ => Error::new(Kind::Held, held(store, name, &there, mode)),
            }
        }
    }
}

fn is_alone(state: &NameState) -> bool {
    state.leading().record().is_none_or(|record| !record.is_member())
}

/// `agents: 3 of 3 slots are held: pid 812 (claude) 2h, pid 913 (claude) 14m`
fn held(store: &Records, name: &LockName, there: &[&LockMember], mode: EntryMode) -> String {
    let who = tell::some(there, NAMED, |member| short(store, name, &member.judged));
    match mode {
        EntryMode::Slots(1) => format!("{name}: its one slot is held: {who}"),
        EntryMode::Slots(slots) => format!("{name}: {} of {slots} slots are held: {who}", there.len()),
        EntryMode::Exclusive | EntryMode::Shared => format!("{name} is held by {}: {who}", there.len()),
    }
}

/// `pid 812 (claude) 2h`
fn short(store: &Records, name: &LockName, judged: &Judged) -> String {
    let Some(record) = judged.record() else { return "a record that cannot be read".to_owned() };
    let owner = match judged.state() {
        State::Live(Through::Owner(place)) => record.owners.get(*place).or(record.owners.first()),
        _ => record.owners.first(),
    };
    let who = match judged.state() {
        State::Live(Through::Descendant | Through::Carrier) => {
            let carriers = store.carriers(name, judged).pids;
            carriers.first().map_or_else(
                || "what a run left behind".to_owned(),
                |pid| format!("pid {}", tell::seen_now(*pid)),
            )
        }
        _ => owner.map_or_else(String::new, |owner| {
            format!("{} ({})", tell::number(store, record, owner), escape(owner.comm.as_bytes(), 40))
        }),
    };
    let age = record.since().and_then(|since| since.age(clock::wall())).map(duration::show);
    let stopped = match judged.state() {
        State::Live(holder) if tell::is_stopped(store, judged, *holder) => ", stopped (state T)",
        State::Unknown(_) => ", perhaps ended",
        _ => "",
    };
    format!("{who}{}{stopped}", age.map_or_else(String::new, |age| format!(" {age}")))
}

/// Is anybody who holds it stopped? Said also under `-q`.
pub(crate) fn is_any_stopped(store: &Records, state: &NameState) -> bool {
    state.there().any(|member| {
        matches!(member.judged.state(), State::Live(holder) if tell::is_stopped(store, &member.judged, *holder))
    })
}

/// `held 2 of 3`: members that are there, of the slots that the latest of them asked for.
pub(crate) fn occupancy(state: &NameState) -> String {
    let there: Vec<&LockMember> = state.there().collect();
    let slots = there.iter().filter_map(|member| member.judged.record()?.slots()).max();
    slots.map_or_else(|| there.len().to_string(), |slots| format!("{} of {slots}", there.len()))
}

/// 0 free, 75 held or paused, 76 if one of them is stuck, 69 unknown, 65 newer.
pub(crate) fn exit_of(state: &NameState) -> Exit {
    let all: Vec<Exit> = state.members.iter().map(|member| tell::exit_of(&member.judged)).collect();
    let worst = [Exit::DataErr, Exit::Stuck, Exit::Skip, Exit::Unavailable];
    let paused = match state.pause {
        PauseState::NotPaused => Exit::Ok,
        PauseState::Paused(_) => Exit::Skip,
        PauseState::Unclear(_) => Exit::Unavailable,
    };
    worst.into_iter().find(|exit| all.contains(exit) || paused == *exit).unwrap_or(Exit::Ok)
}

/// A name as a JSON object (without `schema`): with several members, each of them too.
pub(crate) fn object(store: &Records, name: &LockName, state: &NameState) -> Value {
    let mut object = tell::object(store, name, state.leading());
    if !state.is_plain() {
        let members = state.there().map(|member| member_object(store, name, member));
        object["members"] = members.collect();
    }
    object["waiting"] = json!(store.waiting(name));
    match &state.pause {
        PauseState::NotPaused => {}
        PauseState::Paused(current) => {
            object["paused"] = tell_pause::object(current);
            if state.there().next().is_none() {
                object["state"] = json!("paused");
            }
        }
        PauseState::Unclear(why) => object["pause_unreadable"] = json!(why),
    }
    object
}

fn member_object(store: &Records, name: &LockName, member: &LockMember) -> Value {
    let mut object = tell::object(store, name, &member.judged);
    if let Some(record) = member.judged.record() {
        object["slot"] = json!(record.slot());
        if let Some(slots) = record.slots() {
            object["slots"] = json!(slots);
        }
        object["exclusive"] = json!(!record.is_member());
    }
    if tell::exit_of(&member.judged) == Exit::Stuck {
        object["state"] = json!("stuck");
    }
    object
}
