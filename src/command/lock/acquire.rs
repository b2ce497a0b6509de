//! `acquire`: take the lock for a process that lives on.

use super::LockCall;
use super::refuse::{skip, turned_away};
use super::status_file::StatusFile;
use super::wait::{Caller, TakeResult, take_for};
use crate::cli::lock::LockAcquire;
use crate::command::records::{AcquireRequest, AcquiredLock, ON_BEHALF, PulsePolicy, Records};
use crate::command::typed::{NOT_ACQUIRED, busy_code, name};
use crate::command::{owner, tell};
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::model::identity::ProcessIdentity;
use crate::model::name::LockName;
use crate::model::record::{VIA_ACQUIRE, note};
use crate::os::pulse::is_pulse_of;
use serde_json::{Map, Value, json};
use std::os::fd::AsFd;

/// Takes it, or says who holds it.
pub(super) fn acquire(call: &LockCall, args: LockAcquire) -> Result<Status, Error> {
    let name = name(&args.name)?;
    let busy = busy_code(args.busy.busy_code, Some(NOT_ACQUIRED))?;
    let note = note(args.note.as_deref()).map_err(Error::usage)?;
    if args.again.once_ok.is_some() {
        return Err(Error::usage("--once-ok: how the work ends is not known to acquire")
            .hint(format!("orion-lock run --once-ok KEY {name:#} CMD [ARG...], or acquire --once KEY")));
    }
    let caller = Caller::of_this_process();
    let owner = owner::chosen(args.owner.owner.as_deref(), args.owner.for_pid, args.short_lived)?;
    if args.dry_run {
        let line = format!("{name} would be owned by {}", tell::process(&owner));
        drop(if call.report.json {
            call.report.object(&json!({"name": name.as_str(), "owner": owner}))
        } else {
            call.report.data(&line)
        });
        return Ok(Exit::Ok.into());
    }
    let store = call.store()?;
    let mut attrs = Map::new();
    attrs.insert("via".into(), json!(VIA_ACQUIRE));
    if args.owner.for_pid.is_some() {
        attrs.insert(ON_BEHALF.into(), json!(true));
    }
    let stdin = std::io::stdin();
    let pulse = if args.pulse_stdin {
        if !is_pulse_of(store.folder(), name.file(), &stdin) {
            return Err(Error::usage("--pulse-stdin: standard input is not the pulse of this lock").hint(
                format!("open it first: exec {{P}}<{}/{}.pulse", store.path().display(), name.file()),
            ));
        }
        PulsePolicy::Descriptor(stdin.as_fd())
    } else {
        PulsePolicy::Nobody
    };
    let repeat = args.again.terms();
    let request =
        AcquireRequest { mode: args.entry.mode(), repeat, owners: vec![owner.clone()], note, attrs, pulse };
    match take_for(&call.report, &store, &name, &request, (&args.wait, args.line), Some(&caller))? {
        TakeResult::Yes(acquired) => say(call, &store, &name, &acquired, &owner, args.print_token),
        TakeResult::No(refused) => {
            if args.reentrant && refused.is_ours(&name) {
                return Ok(Exit::Ok.into());
            }
            Ok(turned_away(&call.report, &store, &name, &refused, busy, &StatusFile::none()))
        }
        TakeResult::Skip(error) => Ok(skip(&call.report, &name, &error, busy, &StatusFile::none())),
    }
}

/// A token that was asked for and cannot be printed must not leave a lock that nobody can release.
fn say(
    call: &LockCall,
    store: &Records,
    name: &LockName,
    acquired: &AcquiredLock,
    owner: &ProcessIdentity,
    print_token: bool,
) -> Result<Status, Error> {
    let token = acquired.record.token;
    for line in &acquired.said {
        call.report.warning(line);
    }
    if let Some(ended) = &acquired.reclaimed {
        let who = ended.owners.first().map_or_else(String::new, tell::process);
        call.report.detail(&format!("{name}: reclaimed; {who} has ended"));
    }
    call.report.detail(&format!("{name}: acquired for {}; token {token}", tell::process(owner)));
    let printed = if call.report.json {
        let mut value: Value = json!({"name": name.as_str(), "token": token, "owner": owner});
        if let Some(slot) = acquired.record.slot() {
            value["slot"] = json!(slot);
        }
        call.report.object(&value)
    } else if print_token {
        let slot = acquired.record.slot().map_or_else(String::new, |slot| format!(" {slot}"));
        call.report.data(&format!("{token}{slot}"))
    } else {
        Ok(())
    };
    if let Err(error) = printed {
        store.undo(name, token, acquired.before.as_ref())?;
        return Err(Error::new(
            Kind::Io,
            format!(
                "{name}: the token could not be printed: {}; the lock was released again",
                crate::error::reason(&error)
            ),
        ));
    }
    Ok(Exit::Ok.into())
}
