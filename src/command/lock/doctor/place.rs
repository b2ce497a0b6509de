//! The state directory: which, whose, and the same from everywhere?

use super::around::{ask, ourselves};
use super::machine::fail;
use super::{Checks, DoctorFinding, LockCall};
use crate::error::Error;
use crate::model::place::{Rule, StatePlace};
use crate::os::proc;
use crate::os::state_dir::StateDir;
use rustix::fs::{fstat, fstatvfs};
use serde_json::Value;
use std::process::Command;

/// Below this a log line or a record may not fit soon.
const ROOM: u64 = 16 << 20;
const INODES: u64 = 200;

/// `None`: there is no directory to try anything in.
pub(super) fn check(checks: &mut Checks, call: &LockCall) -> Option<StateDir> {
    let place = match call.place().place() {
        Ok(place) => place,
        Err(error) => {
            checks.add("directory", Err(of(&error)));
            return None;
        }
    };
    checks.add("directory", Ok(format!("{} ({})", place.path.display(), place.rule.as_str())));
    bare(checks, &place);
    let existed = place.path.exists();
    let opened = StateDir::open(place, true);
    let state = match opened {
        Ok(Some(state)) => state,
        Ok(None) => return None,
        Err(error) => {
            checks.add("open", Err(of(&error)));
            return None;
        }
    };
    checks.add("open", Ok(if existed { "it exists" } else { "it did not exist and was made" }.into()));
    let marked = if state.network { ", marked as shared between machines" } else { "" };
    checks.add("file-system", Ok(format!("{}{marked}", state.file_system)));
    checks.add("modes", modes(&state));
    checks.add("state-id", state.state_id().map_err(|error| io(&error, "may this user write there?")));
    checks.advise("room", room(&state));
    Some(state)
}

/// An error of ours as what fails and what to do.
pub(super) fn of(error: &Error) -> (String, String) {
    fail(error.message(), error.advice().unwrap_or("see orion-lock where"))
}

pub(super) fn io(error: &std::io::Error, advice: &str) -> (String, String) {
    fail(&crate::error::reason(error), advice)
}

/// What cron sees: nothing of the environment.
fn bare(checks: &mut Checks, place: &StatePlace) {
    let found = in_bare_environment();
    let shown = place.path.display();
    match found {
        Ok(path) if path == place.path.display().to_string() => {
            checks.add("bare-environment", Ok("the same directory from an empty environment".into()));
        }
        Ok(path) if place.rule == Rule::Option => {
            let advice = format!("give --dir {shown} in every line");
            checks
                .advise("bare-environment", Err(fail(&format!("without --dir it would be {path}"), &advice)));
        }
        Ok(path) => elsewhere(checks, place, &format!("from an empty environment it is {path}")),
        Err(why) => elsewhere(checks, place, &why),
    }
}

/// A variable of a terminal's shell is none of cron's. Without a terminal we may be under cron or
/// systemd, where somebody wrote it down.
fn elsewhere(checks: &mut Checks, place: &StatePlace, what: &str) {
    let shown = place.path.display();
    let advice = match place.rule {
        Rule::Variable => {
            format!("write ORION_DIR={shown} into the crontab or unit, or {shown} into /etc/orion/dir")
        }
        _ => "is this program readable for this user?".to_owned(),
    };
    let finding = Err(fail(what, &advice));
    let terminal = proc::stat(std::process::id()).is_ok_and(|stat| stat.tty_nr != 0);
    if place.rule == Rule::Variable && !terminal {
        checks.advise("bare-environment", finding);
    } else {
        checks.add("bare-environment", finding);
    }
}

fn in_bare_environment() -> Result<String, String> {
    let ours = ourselves().ok_or("our own path is unknown")?;
    let answer = ask(Command::new(ours).env_clear().current_dir("/").args(["where", "--json"]))?;
    let object: Value = serde_json::from_slice(&answer.stdout).unwrap_or_default();
    match object["directory"].as_str() {
        Some(path) => Ok(path.to_owned()),
        None => {
            let message = object["error"]["message"].as_str().unwrap_or("'where' said nothing");
            Err(format!("from an empty environment: {message}"))
        }
    }
}

fn modes(state: &StateDir) -> DoctorFinding {
    let stat = fstat(state.dir.fd()).map_err(|error| io(&error.into(), "see orion-lock where"))?;
    let mode = stat.st_mode & 0o7777;
    let shared = if state.dir.shared { ", shared with its group" } else { "" };
    let shown = format!("mode {mode:04o}, of uid {}{shared}", stat.st_uid);
    if !state.dir.shared && mode & 0o022 != 0 {
        return Err(fail(&shown, &format!("chmod go-w {}", state.place.path.display())));
    }
    for folder in ["locks", "log"] {
        match state.dir.sub(folder, true) {
            Ok(_) => {}
            Err(error) => {
                return Err(fail(
                    &format!("{folder}: {}", crate::error::reason(&error)),
                    "it must be a directory of ours, not a link",
                ));
            }
        }
    }
    Ok(shown)
}

fn room(state: &StateDir) -> DoctorFinding {
    let stat = fstatvfs(state.dir.fd()).map_err(|error| io(&error.into(), "see df"))?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    // Some file systems have no fixed number of inodes, and say 0 of 0.
    let inodes = if stat.f_files == 0 { u64::MAX } else { stat.f_favail };
    if free < ROOM || inodes < INODES {
        return Err(fail(
            &format!("{} KiB and {inodes} inodes are left", free >> 10),
            "make room: a lock that cannot be written is not taken",
        ));
    }
    Ok(format!("{} MiB are left", free >> 20))
}
