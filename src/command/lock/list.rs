//! `list`: every lock, one row each.

use super::LockCall;
use super::whose::places;
use crate::cli::lock_seeing::LockList;
use crate::cli::shared::Whose;
use crate::command::records::{NameState, PauseScope, Records, Where};
use crate::command::typed::name as typed_name;
use crate::command::{tell, tell_pause, tell_state};
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::model::duration;
use crate::model::name::LockName;
use crate::os::{clock, terminal};
use crate::report::escape;
use crate::verdict::liveness::{State, Through};
use crate::verdict::pause::PauseState;
use serde_json::{Value, json};
use std::os::unix::ffi::OsStrExt;

pub(super) fn list(call: &LockCall, args: &LockList) -> Result<Status, Error> {
    let whose = &args.whose;
    let wanted =
        args.wanted.iter().map(|typed| typed_name(typed)).collect::<Result<Vec<LockName>, Error>>()?;
    let places = places(call, whose)?;
    let several = places.len() > 1 || whose.all_users;
    let mut rows: Vec<(bool, [String; 6])> = Vec::new();
    let mut objects: Vec<Value> = Vec::new();
    let mut looked_in: Vec<String> = Vec::new();
    let (mut pauses, mut of_all): (Vec<String>, Vec<Value>) = (Vec::new(), Vec::new());
    for place in &places {
        let path = place.place()?.path.join("locks");
        looked_in.push(path.display().to_string());
        let Some(store) = call.place_store(place, false)? else { continue };
        if let PauseState::Paused(current) = store.pause_state(PauseScope::All) {
            let whose = if several { format!("{}: ", owner_of(place)) } else { String::new() };
            pauses.push(format!("{whose}everything is {}", tell_pause::about(&current)));
            of_all.push(json!({"directory": store.path(), "paused": tell_pause::object(&current)}));
        }
        let all = store.names_and_odd()?;
        for file in &all.odd {
            // Not a word of it is a lock's, and nothing of ours will touch it.
            call.report.warning(&format!(
                "{}/{} is the file of no lock: its name is not written as these tools write one",
                store.path().display(),
                escape(file.as_bytes(), 260)
            ));
        }
        let mut names = all.names;
        names.extend(store.names_of_removed()?);
        names.sort();
        names.dedup();
        if !wanted.is_empty() {
            names.clone_from(&wanted);
        }
        for name in names {
            let state = store.state_of(&name);
            let in_a_row = skips(&store, &name, &state);
            if call.report.json {
                let mut object = tell_state::object(&store, &name, &state);
                object["skips_in_a_row"] = json!(in_a_row);
                object["directory"] = json!(store.path());
                objects.push(object);
            } else {
                if let PauseState::Paused(current) = &state.pause
                    && !current.of_all
                {
                    pauses.push(tell_pause::line(&name, current));
                }
                let row = row(&name, &state, in_a_row, several.then(|| owner_of(place)));
                rows.push((is_worth_a_row(&state), row));
            }
        }
    }
    let written = if call.report.json {
        call.report.object(&json!({"looked_in": looked_in, "paused": of_all, "locks": objects}))
    } else {
        pauses.push(if rows.is_empty() {
            let looked_in =
                if looked_in.is_empty() { "any user's directory".into() } else { looked_in.join(", ") };
            format!("no locks in {looked_in}")
        } else {
            table(rows, args.all || !wanted.is_empty())
        });
        call.report.data(&pauses.join("\n"))
    };
    call.report.or_broken_pipe(written)?;
    Ok(Exit::Ok.into())
}

/// Only the names, as they are: none has a line break.
pub(super) fn names(call: &LockCall, whose: &Whose) -> Result<Status, Error> {
    let mut names: Vec<String> = Vec::new();
    for place in places(call, whose)? {
        if let Some(store) = call.place_store(&place, false)? {
            names.extend(store.names()?.iter().map(|name| name.as_str().to_owned()));
        }
    }
    if !names.is_empty() {
        call.report.or_broken_pipe(call.report.data(&names.join("\n")))?;
    }
    Ok(Exit::Ok.into())
}

/// Is it anything but free? Skips are counted only for who holds it.
fn is_worth_a_row(state: &NameState) -> bool {
    state.pause != PauseState::NotPaused
        || state.members.iter().any(|it| !matches!(it.judged.state(), State::Free | State::Dead))
}

/// All rows; on a terminal without room for them only those that say something, and how many more there are.
fn table(rows: Vec<(bool, [String; 6])>, all: bool) -> String {
    // The heading, the last line and the prompt.
    let too_many = terminal::height().is_some_and(|height| rows.len() + 3 > height);
    let count = rows.len();
    let shown: Vec<[String; 6]> =
        rows.into_iter().filter(|(worth, _)| all || !too_many || *worth).map(|(_, row)| row).collect();
    let free = count - shown.len();
    let heads = ["NAME", "STATE", "OWNER", "FOR", "TOKEN", "SKIPS"];
    let left_out = format!("{free} more are free; to see them: orion-lock list --all");
    match (shown.is_empty(), free) {
        (_, 0) => tell::table(heads, shown),
        (true, _) => left_out.replace("more are", "locks are"),
        (false, _) => format!("{}\n{left_out}", tell::table(heads, shown)),
    }
}

fn owner_of(place: &Where) -> String {
    place.user.clone().unwrap_or_default()
}

fn row(name: &LockName, all: &NameState, skips: u64, user: Option<String>) -> [String; 6] {
    let judged = all.leading();
    let state = match tell_state::exit_of(all) {
        Exit::Stuck => "stuck".to_owned(),
        _ if all.is_plain() || all.there().next().is_none() => tell::word(judged.state()).to_owned(),
        _ => format!("held {}", tell_state::occupancy(all)),
    };
    let state = match (&all.pause, all.there().next()) {
        (PauseState::Paused(_), None) => "paused".to_owned(),
        (PauseState::Paused(_), Some(_)) => format!("{state}, paused"),
        (PauseState::NotPaused | PauseState::Unclear(_), _) => state,
    };
    let record = judged.record();
    let held = !matches!(judged.state(), State::Free | State::Dead);
    let who = record.filter(|_| held).and_then(|record| record.owners.first()).map_or_else(
        || if held { "record removed".to_owned() } else { "-".to_owned() },
        |owner| {
            let owner = format!("{} ({})", owner.pid, escape(owner.comm.as_bytes(), 20));
            match judged.state() {
                // That one has ended: it is something else that holds it.
                State::Live(Through::Descendant) => format!("left by {owner}"),
                State::Live(Through::Carrier) => format!("run of {owner}"),
                _ => owner,
            }
        },
    );
    let age = record.and_then(|record| record.since()?.age(clock::wall()));
    let age = age.filter(|_| held).map_or_else(|| "-".to_owned(), duration::show);
    let token = record.map(|record| record.token).or(judged.token.filter(|_| held));
    let token = token.map_or_else(|| "-".to_owned(), |token| token.to_string());
    let shown = user.map_or_else(|| name.to_string(), |user| format!("{user}:{name}"));
    [shown, state, who, age, token, skips.to_string()]
}

/// Refusals and skips in a row because of those who hold it now; best effort, from the log.
pub(super) fn skips(store: &Records, name: &LockName, all: &NameState) -> u64 {
    let live = all.live_tokens();
    if live.is_empty() {
        return 0;
    }
    let events = store.read_log(name.file());
    events
        .iter()
        .rev()
        .take_while(|event| event.is_turned_away() && event.token.is_some_and(|token| live.contains(&token)))
        .fold(0, |sum, event| sum.saturating_add(event.times()))
}
