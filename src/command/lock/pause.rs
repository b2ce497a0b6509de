//! `pause` and `resume`: a person's word that nothing new begins.

use super::LockCall;
use crate::cli::lock_control::{LockPause, LockResume};
use crate::command::records::{PauseScope, Records};
use crate::command::tell_pause::{self, new_pause};
use crate::command::{tell, typed};
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::model::duration::looks_like;
use crate::model::name::LockName;
use crate::model::pause::PauseFound;
use crate::os::clock;
use crate::verdict::pause::{CurrentPause, PauseState, paused};
use serde_json::{Value, json};
use std::ffi::OsString;

/// How many names one line tells.
const NAMED: usize = 8;

pub(super) fn pause(call: &LockCall, args: &LockPause) -> Result<Status, Error> {
    let name = wanted(args.name.as_ref(), "orion-lock pause --for DUR NAME")?;
    let pause = new_pause(&args.terms)?;
    let store = call.store()?;
    let scope = scope(name.as_ref());
    store.pause(scope, &pause)?;
    // Two may say it at once: what is told is what stands there.
    let PauseState::Paused(current) = store.pause_state(scope) else {
        return Ok(Exit::Ok.into());
    };
    if call.report.json {
        drop(call.report.object(
            &json!({"name": name.as_ref().map(LockName::as_str), "paused": tell_pause::object(&current)}),
        ));
        return Ok(Exit::Ok.into());
    }
    match &name {
        Some(name) => {
            let way_out = tell_pause::way_out(name, &current);
            call.report.detail(&format!("{}; to end the pause: {way_out}", tell_pause::line(name, &current)));
        }
        None => call.report.detail(&format!(
            "everything in {} is {}; to end the pause: orion-lock resume --all",
            store.state.place.path.display(),
            tell_pause::about(&current)
        )),
    }
    going_on(call, &store, name.as_ref())?;
    Ok(Exit::Ok.into())
}

/// Who holds what was paused goes on: a person should know that it is not quiet yet.
fn going_on(call: &LockCall, store: &Records, name: Option<&LockName>) -> Result<(), Error> {
    let names = name.map_or_else(|| store.names(), |name| Ok(vec![name.clone()]))?;
    let held: Vec<LockName> =
        names.into_iter().filter(|name| store.state_of(name).there().next().is_some()).collect();
    if !held.is_empty() {
        call.report
            .notice(&format!("what runs now goes on: {}", tell::some(&held, NAMED, LockName::to_string)));
    }
    Ok(())
}

pub(super) fn resume(call: &LockCall, args: &LockResume) -> Result<Status, Error> {
    let name = wanted(args.name.as_ref(), "orion-lock resume NAME")?;
    let scope = scope(name.as_ref());
    let shown = name.as_ref().map_or_else(|| "everything".to_owned(), LockName::to_string);
    let Some(store) = call.existing()? else {
        told(call, name.as_ref(), false, None);
        call.report.notice(&format!("{shown} was not paused in {}", call.looked_in()?.display()));
        return Ok(Exit::Ok.into());
    };
    let before = paused(&store.read_pause(scope), &PauseFound::Nothing, clock::wall());
    let removed = store.resume(scope)?;
    let still = match store.pause_state(scope) {
        PauseState::Paused(current) => Some(current),
        _ => None,
    };
    told(call, name.as_ref(), removed, still.as_ref());
    match before {
        _ if !removed => call.report.notice(&format!("{shown} was not paused in {}", store.path().display())),
        PauseState::Paused(current) => {
            call.report.detail(&format!("{shown} is not {} any more", tell_pause::about(&current)));
        }
        PauseState::Unclear(why) => call.report.notice(&format!("removed what nobody could read: {why}")),
        PauseState::NotPaused => call.report.detail(&format!("the pause of {shown} was over already")),
    }
    match (&name, &still) {
        (Some(name), Some(current)) => call.report.warning(&format!(
            "{}; to end that pause: {}",
            tell_pause::line(name, current),
            tell_pause::way_out(name, current)
        )),
        (None, _) => {
            let names = store.paused_names()?;
            if !names.is_empty() {
                call.report.notice(&format!(
                    "still paused one by one: {}; to end that: orion-lock resume NAME",
                    tell::some(&names, NAMED, LockName::to_string)
                ));
            }
        }
        _ => {}
    }
    Ok(Exit::Ok.into())
}

fn told(call: &LockCall, name: Option<&LockName>, removed: bool, still: Option<&CurrentPause>) {
    if call.report.json {
        let mut object = json!({"name": name.map(LockName::as_str), "resumed": removed});
        object["paused"] = still.map_or(Value::Null, tell_pause::object);
        drop(call.report.object(&object));
    }
}

fn scope(name: Option<&LockName>) -> PauseScope<'_> {
    name.map_or(PauseScope::All, PauseScope::Lock)
}

/// `pause 2h` means a time, and the name was forgotten.
fn wanted(typed: Option<&OsString>, line: &str) -> Result<Option<LockName>, Error> {
    if let Some(text) = typed.and_then(|typed| typed.to_str()).filter(|text| looks_like(text)) {
        return Err(Error::usage(format!("'{text}' reads as a duration, not as a lock name")).hint(line));
    }
    typed.map(|typed| typed::name(typed)).transpose()
}
