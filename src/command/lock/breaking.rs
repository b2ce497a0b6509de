//! `break`: a person frees a lock whose owner nobody can judge. Ends nothing.

use super::LockCall;
use crate::cli::lock_control::LockBreak;
use crate::command::records::{Judged, Records, Released, newer};
use crate::command::tell;
use crate::command::typed::name;
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::model::name::LockName;
use crate::model::observation::Found;
use crate::verdict::liveness::State;
use crate::verdict::ownership::Credential;
use serde_json::json;
use std::io::{self, IsTerminal};

pub(super) fn break_open(call: &LockCall, args: &LockBreak) -> Result<Status, Error> {
    let name = name(&args.name)?;
    let store = call.holding(&name)?;
    let judged = store.look_for(&name, &Credential::Token(args.token));
    if let State::Newer(schema) = judged.state() {
        return Err(newer(&name, &store, *schema));
    }
    // A corrupt record names no token, so none can be meant; a removed one left its token in the guard.
    if let (State::Live(_), None, Found::Bad(_)) = (judged.state(), judged.record(), &judged.found) {
        return Err(tell::refusal(&store, &name, &judged));
    }
    store.owned(&name, &judged.found, store.last_token(&name), &Credential::Token(args.token))?;
    match judged.state() {
        State::Unknown(_) if judged.record().is_some() => {}
        State::Live(_) if args.owner_is_alive => {}
        State::Live(_) => {
            return Err(alive(&store, &name, &judged, args.token));
        }
        State::Unknown(_) => return Err(tell::refusal(&store, &name, &judged)),
        _ => {
            call.report.notice(&format!("{name} is free already; nothing was changed"));
            return done(call, &name, args.token, false);
        }
    }
    if !args.yes {
        confirm(call, args, &store, &name, &judged)?;
    }
    let released = store.break_open(&name, args.token)?;
    if released == Released::ByRemoving {
        call.report
            .warning(&format!("{name}: the disk is full, so its record was removed instead of marked"));
    }
    done(call, &name, args.token, released != Released::Before)
}

fn done(call: &LockCall, name: &LockName, token: u64, broken: bool) -> Result<Status, Error> {
    if call.report.json {
        drop(call.report.object(&json!({"name": name.as_str(), "token": token, "broken": broken})));
    }
    Ok(Exit::Ok.into())
}

/// Proved to live: not without being told so.
fn alive(store: &Records, name: &LockName, judged: &Judged, token: u64) -> Error {
    Error::new(Kind::Held, tell::refusal(store, name, judged).message()).hint(format!(
        "to end it: orion-lock stop --token {token} {name:#}; to free the lock under it: \
         orion-lock break --owner-is-alive --token {token} {name:#}"
    ))
}

/// Asks on the terminal.
fn confirm(
    call: &LockCall,
    args: &LockBreak,
    store: &Records,
    name: &LockName,
    judged: &Judged,
) -> Result<(), Error> {
    let refusal = tell::refusal(store, name, judged);
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        let alive = if args.owner_is_alive { " --owner-is-alive" } else { "" };
        return Err(Error::usage("break asks before it frees a lock, and there is no terminal to ask on")
            .hint(format!("orion-lock break --yes{alive} --token {} {name:#}", args.token)));
    }
    call.report.warning(refusal.message());
    call.report.warning(&format!(
        "break ends nothing: if it still runs, two will. Type yes to free {name} all the same:"
    ));
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(|error| Error::io("stdin", &error))?;
    if answer.trim() == "yes" {
        return Ok(());
    }
    Err(Error::new(refusal.kind(), format!("{name}: not broken; nothing was changed")))
}
