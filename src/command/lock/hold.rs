//! `hold`: keep a lock by hand until Ctrl-C, for maintenance.

use super::LockCall;
use super::refuse::{skip, turned_away};
use super::status_file::StatusFile;
use super::wait::{TakeResult, take};
use crate::cli::lock_control::LockHold;
use crate::command::records::{AcquireRequest, PulsePolicy, Released};
use crate::command::typed::{NOT_ACQUIRED, busy_code, name};
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::model::entry::EntryMode;
use crate::model::last_run::RepeatTerms;
use crate::model::record::{VIA_HOLD, note};
use crate::os::mask::{Blocked, SignalMask};
use crate::os::process::wait_any;
use crate::os::signals::{ENDING, SignalQueue};
use crate::verdict::ownership::Credential;
use nix::sys::signal::Signal;
use serde_json::{Map, json};
use std::os::fd::AsFd;

pub(super) fn hold(call: &LockCall, args: &LockHold) -> Result<Status, Error> {
    let name = name(&args.name)?;
    let busy = busy_code(args.busy.busy_code, Some(NOT_ACQUIRED))?;
    let note = note(args.note.as_deref()).map_err(Error::usage)?;
    let store = call.store()?;
    // A person's lock outlives the terminal it was taken in.
    let _hangup = Blocked::ignored(Signal::SIGHUP);
    let mut attrs = Map::new();
    attrs.insert("via".into(), json!(VIA_HOLD));
    let request = AcquireRequest {
        mode: EntryMode::Exclusive,
        repeat: RepeatTerms::default(),
        owners: vec![store.me()?],
        note,
        attrs,
        pulse: PulsePolicy::Nobody,
    };
    let acquired = match take(&call.report, &store, &name, &request, (&args.wait, args.line))? {
        TakeResult::Yes(acquired) => acquired,
        TakeResult::No(refused) => {
            return Ok(turned_away(&call.report, &store, &name, &refused, busy, &StatusFile::none()));
        }
        TakeResult::Skip(error) => return Ok(skip(&call.report, &name, &error, busy, &StatusFile::none())),
    };
    let token = acquired.record.token;
    let failed = |error: std::io::Error| Error::io("signals", &error);
    // A signal before this line ends us, and the lock with us; one after it ends the hold.
    SignalMask::block(ENDING).map_err(failed)?;
    let queue = SignalQueue::new(ENDING).map_err(failed)?;
    for line in &acquired.said {
        call.report.warning(line);
    }
    if call.report.json {
        drop(call.report.object(&json!({"name": name.as_str(), "token": token, "held": true})));
    }
    call.report.notice(&format!("{name} is yours until Ctrl-C; token {token}"));
    while queue.next().map_err(failed)?.is_none() {
        wait_any(&[queue.as_fd()], None).map_err(failed)?;
    }
    if store.release(&name, &Credential::Token(token))? == Released::Before {
        call.report.warning(&format!("{name} was not yours to the end: it was broken or released meanwhile"));
    }
    Ok(Exit::Ok.into())
}
