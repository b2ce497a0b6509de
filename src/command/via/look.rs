//! `status`, `list` and `wait`: what stands there, without taking anything.

use super::{SeenRows, ViaCall, exit_of, not_across, say};
use crate::cli::lock::{LockStatus, LockWait};
use crate::cli::shared::Patience;
use crate::cli::shared::Whose;
use crate::command::local_time;
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::model::duration;
use crate::model::via::ViaRow;
use crate::os::random;
use crate::report::escape;
use crate::verdict::via::ViaState;
use crate::via::session::{CONNECT, ViaSession};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// `status NAME`, or `list` without a name.
pub(super) fn status(call: &ViaCall, args: LockStatus) -> Result<Status, Error> {
    let LockStatus { whose, name } = args;
    let Some(name) = name else { return list(call, &whose) };
    only_here(&whose)?;
    let name = crate::command::typed::name(&name)?;
    let seen = call.look(Some(name.as_str()))?;
    let row = seen.row(name.as_str());
    let state = seen.state(row);
    let (exit, error) = exit_of(&call.place.shown, row, state);
    if call.report.json {
        let written = call.report.object(&object(call, name.as_str(), row, state));
        call.report.or_broken_pipe(written)?;
        return Ok(exit.into());
    }
    let line = match (&error, row) {
        (Some(error), _) => error.to_string(),
        (None, None) => format!("{name} was never held in {}", call.place.shown),
        (None, Some(row)) => free(row, state),
    };
    let written = call.report.data(&line);
    call.report.or_broken_pipe(written)?;
    if let Some(row) = row {
        evidence(call, row);
    }
    Ok(exit.into())
}

fn only_here(whose: &Whose) -> Result<(), Error> {
    if whose.user.is_some() || whose.all_users {
        return Err(not_across("--user").hint("the locks of a database are everybody's who may use it"));
    }
    Ok(())
}

fn free(row: &ViaRow, state: ViaState) -> String {
    let name = &row.name;
    if state == ViaState::EndedHere {
        return format!(
            "{name} is free: {} has ended, and the next run on this machine takes it at once",
            say::who(row)
        );
    }
    let released = say::time(row.released_at.as_ref())
        .map_or_else(String::new, |at| format!(" until {}", local_time::show_long(at)));
    if row.token == 0 {
        return format!("{name} is free; it was never held");
    }
    format!("{name} is free; {} held it{released}; token {}", say::who(row), row.token)
}

fn evidence(call: &ViaCall, row: &ViaRow) {
    let number = |pid: Option<i64>| pid.map_or_else(|| "none".to_owned(), |pid| pid.to_string());
    call.report.detail(&format!(
        "{}: session in the row {}, session with the lock {}, generation {}, grace {}",
        row.name,
        number(row.backend),
        number(row.locker),
        row.generation,
        row.grace().map_or_else(|| "never".to_owned(), duration::show)
    ));
}

fn word(state: ViaState) -> &'static str {
    match state {
        ViaState::Free => "free",
        ViaState::EndedHere => "dead",
        ViaState::Live | ViaState::LiveHere => "held",
        ViaState::Settling => "being_taken",
        ViaState::Cut => "cut",
        ViaState::Newer(_) => "newer",
    }
}

fn object(call: &ViaCall, name: &str, row: Option<&ViaRow>, state: ViaState) -> Value {
    let mut object = json!({"name": name, "state": word(state), "via": call.place.shown});
    let Some(row) = row else { return object };
    let time = |text: Option<&String>| say::time(text).map(|at| (at.rfc3339(), at.seconds()));
    object["token"] = json!(row.token);
    if let Some(holder) = &row.holder {
        object["holder"] =
            json!({"host": holder.host, "pid": holder.pid, "comm": holder.comm, "uid": holder.uid});
        object["note"] = json!(holder.note);
    }
    for (key, value) in
        [("acquired_at", &row.acquired_at), ("released_at", &row.released_at), ("ran_at", &row.ran_at)]
    {
        if let Some((text, seconds)) = time(value.as_ref()) {
            object[key] = json!(text);
            object[format!("{key}_s")] = json!(seconds);
        }
    }
    object["grace_s"] = json!(row.grace().map(|grace| grace.as_secs_f64()));
    object["ran_key"] = json!(row.ran_key);
    object["ran_status"] = json!(row.ran_status);
    object["stuck"] = json!(row.overdue().is_some());
    object["stop_asked"] = json!(row.stop_asked_at.is_some());
    object
}

/// `list`
pub(super) fn list(call: &ViaCall, whose: &Whose) -> Result<Status, Error> {
    only_here(whose)?;
    let seen = call.look(None)?;
    if let (_, Some(error)) = exit_of(&call.place.shown, None, seen.state(None)) {
        return Err(error);
    }
    if call.report.json {
        let rows: Vec<Value> = seen
            .look
            .rows
            .iter()
            .map(|row| object(call, &row.name, Some(row), seen.state(Some(row))))
            .collect();
        let written = call.report.object(&json!({"via": call.place.shown, "locks": rows}));
        return call.report.or_broken_pipe(written).map(|()| Exit::Ok.into());
    }
    if seen.look.rows.is_empty() {
        call.report.notice(&format!("no lock was ever held in {}", call.place.shown));
    }
    let lines: Vec<String> = seen.look.rows.iter().map(|row| line(&seen, row)).collect();
    if !lines.is_empty() {
        let written = call.report.data(&lines.join("\n"));
        call.report.or_broken_pipe(written)?;
    }
    Ok(Exit::Ok.into())
}

fn line(seen: &SeenRows, row: &ViaRow) -> String {
    let state = seen.state(Some(row));
    let who = if row.is_taken() { say::who(row) } else { String::new() };
    let age = row.held_s.filter(|_| row.is_taken()).and_then(|age| Duration::try_from_secs_f64(age).ok());
    let age = age.map_or_else(String::new, duration::show);
    format!("{:<24} {:<12} {:<8} {who}", escape(row.name.as_bytes(), 60), word(state), age)
        .trim_end()
        .to_owned()
}

/// `wait`: until it is free, without taking it.
pub(super) fn wait(call: &ViaCall, args: &LockWait) -> Result<Status, Error> {
    let name = crate::command::typed::name(&args.name)?;
    let end = match args.wait {
        Some(Patience::For(time)) => Instant::now().checked_add(time),
        _ => None,
    };
    let mut session: Option<ViaSession> = None;
    loop {
        let over = end.is_some_and(|end| Instant::now() >= end);
        let seen = match call.look(Some(name.as_str())) {
            Ok(seen) => seen,
            Err(error) if over || error.kind() != crate::error::Kind::Unreachable => return Err(error),
            Err(_) => {
                std::thread::sleep(Duration::from_secs_f64(2.0 + random::fraction()));
                continue;
            }
        };
        let row = seen.row(name.as_str());
        let state = seen.state(row);
        let (exit, error) = exit_of(&call.place.shown, row, state);
        if exit == Exit::Ok {
            if call.report.json {
                drop(call.report.object(&object(call, name.as_str(), row, state)));
            }
            call.report.detail(&format!("{name} is free in {}", call.place.shown));
            return Ok(Exit::Ok.into());
        }
        if over || exit == Exit::DataErr {
            if let Some(error) = &error {
                call.report.error(error, exit == Exit::Skip);
            }
            return Ok(exit.into());
        }
        if session.is_none() {
            session = ViaSession::open(&call.place, CONNECT).ok();
            if session.as_mut().is_some_and(|session| session.listen().is_err()) {
                session = None;
            }
            // What was given back before we listened is seen by the next look.
            if session.is_some() {
                continue;
            }
        }
        let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
        let time = left.min(Duration::from_secs(1));
        match &mut session {
            Some(open) => {
                if open.wait_for_news(time).is_err() {
                    session = None;
                }
            }
            None => std::thread::sleep(time),
        }
    }
}
