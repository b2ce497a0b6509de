//! `hold`: keep a lock by hand until Ctrl-C, for maintenance.

use super::refuse::turned_away;
use super::status_file::StatusFile;
use super::wait::{Taken, take};
use super::{Call, busy_code, name};
use crate::cli::ending::Hold;
use crate::command::store::{PulseWish, Released, Request};
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::model::record::VIA_HOLD;
use crate::os::process::wait_any;
use crate::os::signals::{ENDING, Mask, Queue};
use crate::verdict::ownership::Right;
use serde_json::{Map, json};
use std::os::fd::AsFd;

pub(super) fn hold(call: &Call, args: &Hold) -> Result<Status, Error> {
    let name = name(&args.name)?;
    let busy = busy_code(&args.busy, false)?;
    let store = call.store()?;
    let mut attrs = Map::new();
    attrs.insert("via".into(), json!(VIA_HOLD));
    let request =
        Request { owners: vec![store.me()?], note: args.note.clone(), attrs, pulse: PulseWish::Nobody };
    let acquired = match take(&store, &name, &request, &args.wait)? {
        Taken::Yes(acquired) => acquired,
        Taken::No(judged, relation) => {
            let none = StatusFile::open(None)?;
            return Ok(turned_away(&call.report, &store, &name, &judged, relation, busy, &none));
        }
    };
    let token = acquired.record.token;
    let failed = |error: std::io::Error| Error::io("signals", &error);
    // A signal before this line ends us, and the lock with us; one after it ends the hold.
    Mask::block(ENDING).map_err(failed)?;
    let queue = Queue::new(ENDING).map_err(failed)?;
    for line in &acquired.said {
        call.report.warn(line);
    }
    if call.report.json {
        drop(call.report.object(&json!({"name": name.as_str(), "token": token, "held": true})));
    }
    call.report.say(&format!("{name} is yours until Ctrl-C; token {token}"));
    while queue.next().map_err(failed)?.is_none() {
        wait_any(&[queue.as_fd()], None).map_err(failed)?;
    }
    if store.release(&name, &Right::Token(token))? == Released::Before {
        call.report.warn(&format!("{name} was not yours to the end: it was broken or released meanwhile"));
    }
    Ok(Exit::Ok.into())
}
