//! What people are told about a pause: one line, the error of whoever is refused for it, the object for `--json`.

use super::local_time;
use crate::cli::shared::PauseTerms;
use crate::error::{Error, Kind};
use crate::model::account::AccountKey;
use crate::model::duration;
use crate::model::name::LockName;
use crate::model::pause::Pause;
use crate::model::record::note;
use crate::model::time::WallTime;
use crate::os::{clock, users};
use crate::report::escape;
use crate::verdict::pause::{CurrentPause, PauseState};
use serde_json::{Value, json};
use std::time::Duration;

/// A pause that this user says now.
///
/// # Errors
/// USAGE: the note is too long.
pub(crate) fn new_pause(terms: &PauseTerms) -> Result<Pause, Error> {
    let note = note(terms.note.as_deref()).map_err(Error::usage)?;
    let now = clock::wall();
    let millis = |lasting: Duration| u64::try_from(lasting.as_millis()).unwrap_or(u64::MAX);
    let until = terms.lasting.map(|lasting| WallTime(now.0.saturating_add(millis(lasting))));
    let uid = rustix::process::geteuid().as_raw();
    let user = users::find(AccountKey::Uid(uid)).ok().flatten().map(|account| account.name);
    Ok(Pause::new((uid, user), now, until, note))
}

/// How much of a note is shown, characters.
const SHOWN: usize = 200;

/// `paused by anna (uid 1000) since 2026-11-29 09:12:04 CET, 14m, until 2026-11-29 12:00:00 CET; note: new disk`
pub(crate) fn about(current: &CurrentPause) -> String {
    let pause = &current.pause;
    let by = match &pause.user {
        Some(user) => format!("{} (uid {})", escape(user.as_bytes(), 40), pause.uid),
        None => format!("uid {}", pause.uid),
    };
    let begun = pause.begun();
    let age = begun.age(clock::wall());
    let age = age.map_or_else(String::new, |age| format!(", {}", duration::show(age)));
    let until = pause.end().map_or_else(String::new, |end| format!(", until {}", local_time::show(end)));
    let note = pause.note.as_ref();
    let note = note.map_or_else(String::new, |note| format!("; note: {}", escape(note.as_bytes(), SHOWN)));
    format!("paused by {by} since {}{age}{until}{note}", local_time::show(begun))
}

/// The line about a lock.
pub(crate) fn line(name: &LockName, current: &CurrentPause) -> String {
    if current.of_all {
        format!("{name}: everything is {}", about(current))
    } else {
        format!("{name} is {}", about(current))
    }
}

/// What ends a pause.
pub(crate) fn way_out(name: &LockName, current: &CurrentPause) -> String {
    if current.of_all { "orion-lock resume --all".to_owned() } else { format!("orion-lock resume {name:#}") }
}

/// Why a lock is not taken that nobody holds.
pub(crate) fn refusal(name: &LockName, state: &PauseState) -> Error {
    match state {
        PauseState::Paused(current) => Error::new(Kind::Paused, line(name, current))
            .hint(format!("to end the pause: {}", way_out(name, current))),
        PauseState::Unclear(why) => unclear(&format!("{name}: "), why),
        PauseState::NotPaused => Error::new(Kind::Bug, format!("{name} is not paused")),
    }
}

/// A file of a pause that says nothing.
pub(crate) fn unclear(whom: &str, why: &str) -> Error {
    Error::new(Kind::CannotTell, format!("{whom}cannot tell whether it is paused: {why}"))
        .hint("if it is not meant, 'orion-lock resume NAME' or '--all' removes that file")
}

/// For `--json`.
pub(crate) fn object(current: &CurrentPause) -> Value {
    let pause = &current.pause;
    json!({
        "uid": pause.uid,
        "user": pause.user,
        "since": pause.since,
        "since_s": pause.begun().seconds(),
        "until": pause.until,
        "until_s": pause.end().map(WallTime::seconds),
        "note": pause.note,
        "all": current.of_all,
    })
}
