//! `run`: take the lock and become the command. Same pid, same start: the command
//! is the owner, and the lock ends when it does.

use super::LockCall;
use super::exports::exports;
use super::refuse::{skip, turned_away};
use super::replace::replace;
use super::status_file::StatusFile;
use super::tree::{TreeOptions, supervise};
use super::wait::{TakeResult, take, take_unread};
use crate::cli::lock::LockRun;
use crate::command::elsewhere;
use crate::command::exec;
use crate::command::records::{AcquireRequest, AcquiredLock, PulsePolicy, Records};
use crate::command::typed::{busy_code, name};
use crate::error::{Error, reason};
use crate::exit::Status;
use crate::model::name::LockName;
use crate::model::record::{SUPERVISOR, VIA_RUN, note};
use crate::report::Report;
use crate::verdict::limits::Limits;
use serde_json::{Map, json};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Does not return when all goes well.
pub(super) fn run(call: LockCall, mut args: LockRun) -> Result<Status, Error> {
    let name = name(&args.name)?;
    let busy = busy_code(args.busy.busy_code, None)?;
    let note = note(args.note.as_deref()).map_err(Error::usage)?;
    args.command = exec::words(std::mem::take(&mut args.command), "orion-lock run -w 10m NAME CMD [ARG...]")?;
    if let Some(option) = args.via.typed() {
        return Err(elsewhere::only_with_via(option));
    }
    let status_file = StatusFile::open(args.status_file.as_deref())?;
    let store = call.store()?;
    let mut me = store.me()?;
    me.comm = exec::comm_of(&args.command);
    let mut attrs = Map::new();
    attrs.insert("via".into(), json!(VIA_RUN));
    let limits = Limits { max_run: args.limits.max_run, kill_after: args.limits.kill_after };
    let repeat = args.again.terms();
    let asked = args.limits.tree || limits.max_run.is_some() || repeat.needs_status();
    // Nobody outside can see the end of a process in a container, so we stay and write it down.
    let tree = asked || !store.ends_are_seen();
    if tree {
        attrs.insert(SUPERVISOR.into(), json!(me.pid));
    }
    let request = AcquireRequest {
        mode: args.entry.mode(),
        repeat,
        owners: vec![me],
        note,
        attrs,
        pulse: if args.owner_only { PulsePolicy::Nobody } else { PulsePolicy::Us },
    };
    let taken = if args.replace {
        replace(&call.report, &store, &name, &request, &args.wait)?
    } else if call.report.hides_refusals() && !args.reentrant && args.status_file.is_none() {
        take_unread(&call.report, &store, &name, &request, (&args.wait, args.line))?
    } else {
        take(&call.report, &store, &name, &request, (&args.wait, args.line))?
    };
    match taken {
        TakeResult::Yes(acquired) => {
            say_before(&call.report, &acquired, &args.command, args.owner_only);
            if tree {
                let tree = TreeOptions { limits, command_only: !asked && args.owner_only };
                supervise(call, &args.command, &store, &name, *acquired, &status_file, tree)
            } else {
                become_command(call, &args.command, &store, &name, *acquired, &status_file)
            }
        }
        TakeResult::No(refused) => {
            if args.reentrant && refused.is_ours(&name) {
                return pass_through(call, &args.command);
            }
            Ok(turned_away(&call.report, &store, &name, &refused, busy, &status_file))
        }
        TakeResult::Skip(error) => Ok(skip(&call.report, &name, &error, busy, &status_file)),
    }
}

/// What a person should know before the command speaks.
fn say_before(report: &Report, acquired: &AcquiredLock, words: &[OsString], owner_only: bool) {
    for line in &acquired.said {
        report.warning(line);
    }
    if let Some(line) = leaves_at_once(words, owner_only) {
        report.notice(&line);
    }
}

fn become_command(
    call: LockCall,
    words: &[OsString],
    store: &Records,
    name: &LockName,
    acquired: AcquiredLock,
    status_file: &StatusFile,
) -> Result<Status, Error> {
    let (report, token) = (call.report, acquired.record.token);
    let facts = json!({"token": token, "pid": std::process::id()});
    if let Err(error) = status_file.try_fact("acquired", name.as_str(), &facts) {
        // Whoever asked for it would not know that it runs.
        store.undo(name, token, acquired.before.as_ref())?;
        return Err(error);
    }
    let mut command = exec::command(words);
    exec::export(&mut command, exports(store, name, &acquired.record));
    let failed = match acquired.pulse.as_ref().map_or(Ok(()), |pulse| pulse.inherit()) {
        Ok(()) => exec(call, &mut command),
        Err(error) => error,
    };
    // Nothing runs, so nothing holds the lock.
    store.undo(name, token, acquired.before.as_ref())?;
    let facts = json!({"token": token, "reason": reason(&failed)});
    status_file.fact_or_say(&report, "exec-failed", name.as_str(), &facts);
    Ok(exec::cannot_run(&report, words, &failed))
}

fn pass_through(call: LockCall, words: &[OsString]) -> Result<Status, Error> {
    let report = call.report;
    let failed = exec(call, &mut exec::command(words));
    Ok(exec::cannot_run(&report, words, &failed))
}

/// Becomes the command; comes back only when that failed. Gives back the signal mask first.
fn exec(call: LockCall, command: &mut Command) -> io::Error {
    drop(call.file_size);
    command.exec()
}

/// Commands that hand the work to somebody else and end: what that means for the lock.
fn leaves_at_once(words: &[OsString], owner_only: bool) -> Option<String> {
    let text: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let program = text.first()?.rsplit('/').next()?.to_owned();
    let has = |wanted: &dyn Fn(&str) -> bool| text.iter().skip(1).any(|word| wanted(word));
    let leaves = match program.as_str() {
        "tmux" => has(&|word| word == "-d"),
        "screen" => has(&|word| word.starts_with("-d")),
        "docker" | "podman" => has(&|word| word == "-d" || word == "--detach"),
        "systemd-run" => {
            !has(&|word| matches!(word, "--scope" | "--wait" | "--pipe" | "-P" | "--pty" | "-t"))
        }
        "ssh" => has(&|word| word.starts_with("-f")),
        "nohup" | "at" | "batch" => true,
        _ => false,
    };
    // These keep what they inherit open in a server of their own, if they have to start one.
    let starts_server = matches!(program.as_str(), "tmux" | "screen" | "podman");
    leaves.then(|| {
        if starts_server && !owner_only {
            format!(
                "note: a server that this {program} command starts keeps the lock as long as it lives; what it hands to one \
                 that runs already, the lock does not cover; with --owner-only the lock ends with the command"
            )
        } else {
            format!("note: the lock ends with this {program} command, not with what it hands to somebody else")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_leave_at_once_are_recognised() {
        let leaves = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            leaves_at_once(&words, false).is_some()
        };
        for line in [
            "tmux new -d x",
            "/usr/bin/screen -dmS a b",
            "docker run -d x",
            "systemd-run x",
            "ssh -f h x",
            "nohup x",
        ] {
            assert!(leaves(line), "{line}");
        }
        for line in ["tmux attach", "docker run x", "systemd-run --wait x", "ssh h x", "agent -d"] {
            assert!(!leaves(line), "{line}");
        }
        let said = |line: &str, owner_only| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            leaves_at_once(&words, owner_only).expect(line)
        };
        for line in ["tmux new -d x", "screen -dmS a b", "podman run -d x"] {
            assert!(said(line, false).contains("keeps the lock as long as it lives"), "{line}");
            assert!(said(line, true).contains("the lock ends with this"), "{line}");
        }
        assert!(said("systemd-run x", false).contains("the lock ends with this systemd-run"));
    }
}
