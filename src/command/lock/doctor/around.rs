//! Programs around us: our own, and the runners that keep terminals.

use super::machine::fail;
use super::{Checks, DoctorFinding};
use crate::env;
use crate::os::call::{CallAnswer, NoAnswer, call};
use crate::os::process;
use crate::report::escape;
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How long another program may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// PATH as cron(8) and a bare environment have it.
const CRON_PATH: [&str; 2] = ["/usr/bin", "/bin"];

pub(super) fn check(checks: &mut Checks) {
    // Without pidfds no process can be stood by, and the check of them has said so.
    if process::pidfds_are_allowed().is_ok() {
        checks.add("version", siblings());
        checks.advise("tmux", tmux());
    }
    checks.advise("cron-path", cron_path());
    checks.advise("orca", orca());
}

/// Our own program, also when PATH is empty.
pub(super) fn ourselves() -> Option<PathBuf> {
    std::env::current_exe().ok()
}

/// Another of our programs, beside this one.
pub(super) fn sibling(name: &str) -> Option<PathBuf> {
    ourselves().map(|path| path.with_file_name(name)).filter(|path| path.is_file())
}

fn siblings() -> DoctorFinding {
    let ours = env!("CARGO_PKG_VERSION");
    let Some(path) = sibling("orion-precheck") else {
        return Err(fail(
            "orion-precheck is not beside orion-lock",
            "install the whole toolkit into one directory",
        ));
    };
    let said = ask(Command::new(&path).arg("--version"))
        .map_err(|why| fail(&format!("{}: {why}", path.display()), "install the toolkit again"))?;
    let text = String::from_utf8_lossy(&said.stdout).trim().to_owned();
    if text == format!("orion-precheck {ours}") {
        return Ok(format!("orion-lock and orion-precheck {ours} in {}", directory(&path)));
    }
    Err(fail(
        &format!("orion-lock is {ours}, and beside it is {}", escape(text.as_bytes(), 60)),
        "install both of one version",
    ))
}

fn directory(path: &Path) -> String {
    path.parent().map_or_else(String::new, |path| path.display().to_string())
}

/// Cron finds commands in two directories only.
fn cron_path() -> DoctorFinding {
    let Some(ours) = ourselves() else {
        return Err(fail("our own path is unknown", "is /proc mounted?"));
    };
    let found = CRON_PATH.iter().map(|path| Path::new(path).join("orion-lock")).find(|path| path.is_file());
    match found {
        Some(path) if std::fs::canonicalize(&path).is_ok_and(|path| path == ours) => {
            Ok(format!("cron finds us as {}", path.display()))
        }
        Some(path) => Err(fail(
            &format!("cron finds {}, which is not this one", path.display()),
            &format!("write {} in the crontab", ours.display()),
        )),
        None => Err(fail(
            "cron does not find us in /usr/bin:/bin",
            &format!("write {} in the crontab, or set PATH there", ours.display()),
        )),
    }
}

fn tmux() -> DoctorFinding {
    let none = "only 'orion-reap' needs one";
    match ask(Command::new("tmux").args(["list-sessions", "-F", "x"])) {
        Ok(answer) if answer.status.success() => {
            let sessions = answer.stdout.iter().filter(|byte| **byte == b'\n').count();
            Ok(format!("its server answers this user, {sessions} sessions"))
        }
        Ok(answer) => {
            let why = escape(answer.stderr.trim_ascii(), 100);
            Err(fail(&format!("no server answers this user ({why})"), none))
        }
        Err(why) => Err(fail(&why, none)),
    }
}

/// Never a bare `orca`: that is a screen reader.
fn orca() -> DoctorFinding {
    let program = env::value(env::name::ORCA_CLI_COMMAND).unwrap_or_else(|| OsString::from("orca-ide"));
    let none = "only 'orion-reap' needs one; from cron set ORCA_CLI_COMMAND to its full path";
    let answer = ask(Command::new(program).args(["status", "--json"])).map_err(|why| fail(&why, none))?;
    let object: Value = serde_json::from_slice(&answer.stdout).unwrap_or_default();
    if object["result"]["runtime"]["reachable"] == true {
        return Ok("its runtime answers this user".into());
    }
    Err(fail("its runtime is not reachable for this user", none))
}

/// One call with an end.
pub(super) fn ask(command: &mut Command) -> Result<CallAnswer, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let shown = escape(program.as_bytes(), 120);
    call(command, PATIENCE).map_err(|no| match no {
        NoAnswer::NotFound => format!("{shown} is not installed"),
        NoAnswer::TimedOut => format!("{shown} gave no answer within {}s", PATIENCE.as_secs()),
        NoAnswer::TooMuch => format!("{shown} printed too much"),
        NoAnswer::Failed(error) => format!("{shown}: {}", crate::error::reason(&error)),
    })
}
