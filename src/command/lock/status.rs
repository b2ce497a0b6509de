//! `status`: who holds it, and why we think so.

use super::{LockCall, list, whose};
use crate::cli::lock::LockStatus as Args;
use crate::cli::lock_seeing::LockList;
use crate::command::local_time;
use crate::command::records::{Judged, LockMember, NameState, Records, Where};
use crate::command::typed::name;
use crate::command::{tell, tell_pause, tell_state};
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::model::duration;
use crate::model::name::LockName;
use crate::model::record::{BROKEN_BY, Record};
use crate::os::{host, proc};
use crate::report::escape;
use crate::verdict::liveness::{State, Through};
use crate::verdict::pause::PauseState;
use serde_json::{Value, json};

pub(super) fn status(call: &LockCall, args: Args) -> Result<Status, Error> {
    let Some(text) = &args.name else {
        return list::list(
            call,
            &LockList { whose: args.whose, all: false, names: false, wanted: Vec::new() },
        );
    };
    let name = name(text)?;
    let mut places = whose::places(call, &args.whose)?;
    if places.len() == 1 {
        return one(call, &places.remove(0), &name);
    }
    // Every user's: the worst answer is the answer.
    let mut worst = Exit::Ok;
    for place in &places {
        let status = one(call, place, &name)?;
        if status != Exit::Ok.into() {
            worst =
                if status == Exit::Skip.into() && worst == Exit::Ok { Exit::Skip } else { Exit::Unavailable };
        }
    }
    Ok(worst.into())
}

fn one(call: &LockCall, place: &Where, name: &LockName) -> Result<Status, Error> {
    let Some(store) = call.place_store(place, false)? else {
        let looked_in = place.place()?.path.join("locks");
        drop(if call.report.json {
            call.report.object(&json!({"name": name.as_str(), "state": "free", "directory": looked_in}))
        } else {
            call.report.data(&format!("{name}: free, never held in {}", looked_in.display()))
        });
        return Ok(Exit::Ok.into());
    };
    let state = store.state_of(name);
    let exit = tell_state::exit_of(&state);
    if call.report.json {
        let mut object = tell_state::object(&store, name, &state);
        object["directory"] = json!(store.path());
        if exit == Exit::Stuck {
            object["state"] = json!("stuck");
        }
        if call.report.verbose {
            object["evidence"] = state
                .members
                .iter()
                .flat_map(|it| it.judged.judgement.evidence.iter().map(String::as_str))
                .collect();
        }
        drop(call.report.object(&object));
    } else {
        drop(call.report.data(&text(call, &store, name, &state)));
    }
    Ok(exit.into())
}

fn text(call: &LockCall, store: &Records, name: &LockName, state: &NameState) -> String {
    let there: Vec<&LockMember> = state.there().collect();
    let mut lines = Vec::new();
    match &state.pause {
        PauseState::NotPaused => {}
        PauseState::Paused(current) => {
            lines.push(format!(
                "{}; to end the pause: {}",
                tell_pause::line(name, current),
                tell_pause::way_out(name, current)
            ));
        }
        PauseState::Unclear(_) => lines.push(tell_pause::refusal(name, &state.pause).to_string()),
    }
    if state.is_plain() || there.is_empty() {
        lines.extend(of_one(call, store, name, state.leading()));
    } else {
        lines.push(format!("{name} is held by {}", tell_state::occupancy(state)));
        for member in there {
            let record = member.judged.record();
            let place = match record.and_then(Record::slot) {
                Some(slot) => format!("slot {slot}: "),
                None if record.is_some_and(Record::is_member) => "share: ".to_owned(),
                None => String::new(),
            };
            let about = of_one(call, store, name, &member.judged);
            lines.extend(about.iter().enumerate().map(|(at, line)| {
                let place = if at == 0 { place.as_str() } else { "" };
                format!("  {place}{line}")
            }));
        }
    }
    match store.waiting(name) {
        0 => {}
        1 => lines.push("  one waits for it".to_owned()),
        waiting => lines.push(format!("  {waiting} wait for it")),
    }
    if call.report.verbose {
        lines.push(format!("  looked in {}", store.path().display()));
    }
    lines.join("\n")
}

/// The holder, or that there is none; what `/proc` knows of him; with `-v` the evidence.
fn of_one(call: &LockCall, store: &Records, name: &LockName, judged: &Judged) -> Vec<String> {
    let mut lines = vec![match judged.state() {
        State::Free | State::Dead => free(store, name, judged),
        State::Live(holder) => {
            tell::held(store, name, judged, *holder, tell::is_stopped(store, judged, *holder))
        }
        State::Corrupt(why) => {
            format!(
                "{name}: free; its record is corrupt ({why}) and will be set aside; {}",
                store.path().display()
            )
        }
        State::Unknown(_) | State::Newer(_) => tell::refusal(store, name, judged).to_string(),
    }];
    if let State::Live(holder) = judged.state() {
        lines.extend(now(store, name, judged, *holder));
    }
    if call.report.verbose {
        lines.extend(judged.judgement.evidence.iter().map(|line| format!("  {line}")));
    }
    lines
}

fn free(store: &Records, name: &LockName, judged: &Judged) -> String {
    let looked_in = store.path().display();
    let Some(record) = judged.record() else { return format!("{name}: free, never held in {looked_in}") };
    let who = tell::first(store, record, tell::owner);
    let broken_by = record.attrs.get(BROKEN_BY).map(|by| by["uid"].to_string());
    match (record.released_at.as_deref().map(local_time::show_text), broken_by) {
        (Some(at), Some(uid)) => format!(
            "{name}: free; uid {uid} broke the lock of {who} at {at} (token {}); {looked_in}",
            record.token
        ),
        (Some(at), None) => {
            format!("{name}: free; {who} released it at {at} (token {}); {looked_in}", record.token)
        }
        (None, _) => format!("{name}: free; {who} has ended (token {}); {looked_in}", record.token),
    }
}

/// What `/proc` knows of the holder at this moment.
fn now(store: &Records, name: &LockName, judged: &Judged, holder: Through) -> Vec<String> {
    let record = judged.record();
    let owner = match holder {
        Through::Owner(place) => record.and_then(|record| record.owners.get(place)),
        Through::Descendant | Through::Carrier => None,
    };
    let pid = match (record, owner) {
        (Some(record), Some(owner)) => store.number_here(record, owner),
        _ => store.carriers(name, judged).pids.first().copied(),
    };
    let mut lines: Vec<String> = Vec::new();
    if let Some(Value::Object(now)) = pid.map(tell::process_now) {
        let shown = |key: &str, label: &str| {
            now.get(key).and_then(Value::as_str).map(|value| format!("  {label}: {value}"))
        };
        lines.extend(
            [("command", "command"), ("cwd", "directory"), ("tty", "terminal"), ("unit", "unit")]
                .iter()
                .filter_map(|(key, label)| shown(key, label)),
        );
    }
    if let Some(silent) = record.and_then(|record| record.overdue(host::awake_time)) {
        let promised = record.and_then(|record| record.last_tick.as_ref()?.every_s).unwrap_or(0);
        let promised = duration::show(std::time::Duration::from_secs(promised));
        lines.push(format!(
            "  stuck: promised a tick every {promised} and has been silent for {}; to end it: orion-lock stop --token {} {name:#}",
            duration::show(silent),
            record.map_or(0, |record| record.token)
        ));
    }
    if let (Some(owner), Some(stat)) = (owner, pid.and_then(|pid| proc::stat(pid).ok()))
        && escape(stat.comm.as_bytes(), 40) != escape(owner.comm.as_bytes(), 40)
    {
        lines.push(format!("  now called: {} (it may change its name)", escape(stat.comm.as_bytes(), 40)));
    }
    lines
}
