//! `verify`, `tick`, `stop` and `break`: by token, from any machine.

use super::{ViaCall, exit_of, not_across, say};
use crate::cli::lock::LockVerify;
use crate::cli::lock_control::{LockBreak, LockStop, LockTick};
use crate::command::owner::exported_token;
use crate::command::records::not_owner;
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::model::name::LockName;
use crate::os::host;
use crate::verdict::via::ViaState;
use crate::via::fault::ViaFault;
use serde_json::{Value, json};
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// How long `stop` waits, where nothing was said.
const PATIENCE: Duration = Duration::from_secs(30);

fn token_of(typed: Option<u64>, owner: Option<&str>, name: &LockName) -> Result<u64, Error> {
    if owner.is_some() {
        return Err(not_across("--owner").hint("--token N; 'run' exports it as ORION_LOCK_TOKEN"));
    }
    typed
        .or_else(|| exported_token(name))
        .ok_or_else(|| Error::usage(format!("whose {name}? No token was exported for it")).hint("--token N"))
}

fn by() -> Value {
    let uid = rustix::process::geteuid().as_raw();
    json!({"host": host::hostname(), "pid": std::process::id(), "uid": uid, "how": "by hand"})
}

/// The line before writing results: 0 only under this token with the lock of its session.
pub(super) fn verify(call: &ViaCall, args: LockVerify) -> Result<Status, Error> {
    let LockVerify { token, owner, orphan_ok, name } = args;
    if orphan_ok {
        return Err(not_across("--orphan-ok")
            .hint("leave it out: what a run leaves behind holds the lock here anyway"));
    }
    let name = crate::command::typed::name(&name)?;
    let token = token_of(token, owner.as_deref(), &name)?;
    let seen = call.look(Some(name.as_str()))?;
    let row = seen.row(name.as_str());
    let whose = match row {
        None => Some(format!("never held in {}", call.place.shown)),
        Some(row) if row.token != token => Some(format!("token {} holds it, not {token}", row.token)),
        Some(row) if !row.is_taken() => Some("it was released".to_owned()),
        Some(_) => None,
    };
    if let Some(whose) = whose {
        return Err(not_owner(&name, &whose));
    }
    // Of a session that is gone nobody knows here until when the run may work.
    match seen.state(row) {
        ViaState::Live => {}
        state => {
            let (_, error) = exit_of(&call.place.shown, row, state);
            let line = error
                .map_or_else(|| format!("{name}: its run has ended"), |error| error.message().to_owned());
            return Err(Error::new(Kind::CannotTell, line));
        }
    }
    if call.report.json {
        drop(call.report.object(&json!({"name": name.as_str(), "verified": true})));
    }
    Ok(Exit::Ok.into())
}

/// What a change came to; a session that ends in the middle leaves that open.
fn answer(
    call: &ViaCall,
    ask: impl FnOnce(&mut crate::via::session::ViaSession) -> Result<String, ViaFault>,
) -> Result<String, Error> {
    let mut session = call.session()?;
    let said = ask(&mut session).map_err(|fault| fault.at(&call.place.shown))?;
    session.close();
    Ok(said)
}

pub(super) fn tick(call: &ViaCall, args: LockTick) -> Result<Status, Error> {
    let LockTick { token, owner, every, name } = args;
    let name = crate::command::typed::name(&name)?;
    let token = token_of(token, owner.as_deref(), &name)?;
    // Rounded up: a promise is never made stricter than it was given.
    let every = every.map(|every| every.as_secs() + u64::from(every.subsec_nanos() > 0));
    match answer(call, |session| session.tick(name.as_str(), token, every))?.as_str() {
        "ok" => Ok(Exit::Ok.into()),
        "before" => Err(not_owner(&name, "it was released")),
        _ => Err(not_owner(&name, &format!("token {token} does not hold it"))),
    }
}

/// Asks through the row: the holder's next beat sends TERM to its tree.
pub(super) fn stop(call: &ViaCall, args: LockStop) -> Result<Status, Error> {
    let LockStop { token, wait, kill_after, name } = args;
    let name = crate::command::typed::name(&name)?;
    let patience = match (wait, kill_after) {
        (Some(wait), Some(kill)) if kill >= wait => {
            return Err(Error::usage("--kill-after would come when -w is over")
                .hint("give -w a longer time, or leave it out"));
        }
        (Some(wait), _) => wait,
        (None, kill) => PATIENCE.saturating_add(kill.unwrap_or_default()),
    };
    let begin = Instant::now();
    let ended = |call: &ViaCall| {
        if call.report.json {
            drop(call.report.object(&json!({"name": name.as_str(), "token": token, "ended": true})));
        }
        Ok(Exit::Ok.into())
    };
    match answer(call, |session| session.stop(name.as_str(), token, false, &by()))?.as_str() {
        "asked" => {}
        "before" => return ended(call),
        _ => return Err(not_owner(&name, &format!("token {token} does not hold it"))),
    }
    let mut killed = false;
    loop {
        let seen = call.look(Some(name.as_str()))?;
        match seen.row(name.as_str()) {
            Some(row) if row.token == token && row.is_taken() => {
                if begin.elapsed() >= patience {
                    let advice = match kill_after {
                        None => format!(
                            "to kill it: orion-lock --via {} stop --kill-after 10s --token {token} {name:#}",
                            call.place.shown
                        ),
                        Some(_) => {
                            "it hears that with its next beat, which a host without the database does not get"
                                .to_owned()
                        }
                    };
                    return Err(Error::new(Kind::StillRunning, say::held(row)).hint(advice));
                }
            }
            _ => return ended(call),
        }
        if !killed && kill_after.is_some_and(|after| begin.elapsed() >= after) {
            killed = true;
            answer(call, |session| session.stop(name.as_str(), token, true, &by()))?;
        }
        std::thread::sleep(Duration::from_millis(200).min(patience.saturating_sub(begin.elapsed())));
    }
}

/// A person's word. Ends nothing by itself; the holder, should it live, is ended by its next beat.
pub(super) fn break_open(call: &ViaCall, args: LockBreak) -> Result<Status, Error> {
    let LockBreak { token, owner_is_alive, yes, name } = args;
    let name = crate::command::typed::name(&name)?;
    let seen = call.look(Some(name.as_str()))?;
    let done = |broken: bool| {
        if call.report.json {
            drop(call.report.object(&json!({"name": name.as_str(), "token": token, "broken": broken})));
        }
        Ok(Exit::Ok.into())
    };
    let row = match seen.row(name.as_str()) {
        None => return Err(not_owner(&name, &format!("never held in {}", call.place.shown))),
        Some(row) if row.token != token => {
            return Err(not_owner(&name, &format!("token {} holds it, not {token}", row.token)));
        }
        Some(row) if !row.is_taken() => {
            call.report.notice(&format!("{name} is free already; nothing was changed"));
            return done(false);
        }
        Some(row) => row,
    };
    let state = seen.state(Some(row));
    let (_, error) = exit_of(&call.place.shown, Some(row), state);
    let line = error.map_or_else(|| say::cut(row), |error| error.message().to_owned());
    if matches!(state, ViaState::Live | ViaState::LiveHere) && !owner_is_alive {
        return Err(alive(call, &name, token, line));
    }
    if !yes {
        confirm(call, &name, &line, owner_is_alive, token)?;
    }
    match answer(call, |session| session.break_open(name.as_str(), token, owner_is_alive, &by()))?.as_str() {
        "broken" => done(true),
        "before" => done(false),
        "alive" => Err(alive(call, &name, token, line)),
        _ => Err(not_owner(&name, &format!("token {token} does not hold it any more"))),
    }
}

fn alive(call: &ViaCall, name: &LockName, token: u64, line: String) -> Error {
    let place = &call.place.shown;
    Error::new(Kind::Held, line).hint(format!(
        "to end it: orion-lock --via {place} stop --token {token} {name:#}; to take the lock from it, which kills it: \
         orion-lock --via {place} break --owner-is-alive --token {token} {name:#}"
    ))
}

/// Asks on the terminal.
fn confirm(call: &ViaCall, name: &LockName, line: &str, alive: bool, token: u64) -> Result<(), Error> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        let alive = if alive { " --owner-is-alive" } else { "" };
        return Err(Error::usage("break asks before it frees a lock, and there is no terminal to ask on")
            .hint(format!(
                "orion-lock --via {} break --yes{alive} --token {token} {name:#}",
                call.place.shown
            )));
    }
    call.report.warning(line);
    call.report.warning(&format!(
        "a run on a host without the database works on until its fence: two would. Type yes to free {name} all the same:"
    ));
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(|error| Error::io("stdin", &error))?;
    if answer.trim() == "yes" {
        return Ok(());
    }
    Err(Error::new(Kind::UnknownOwner, format!("{name}: not broken; nothing was changed")))
}
