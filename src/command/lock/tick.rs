//! `tick`: reports progress and may promise the next report. Only a run that ever promised can be called stuck.

use super::{LockCall, credential};
use crate::cli::lock_control::LockTick;
use crate::command::records::not_owner;
use crate::command::typed::name;
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::verdict::liveness::State;
use serde_json::json;

pub(super) fn tick(call: &LockCall, args: &LockTick) -> Result<Status, Error> {
    let name = name(&args.name)?;
    let right = credential(args.token, args.owner.as_deref(), &name)?;
    let store = call.holding(&name)?;
    let judged = store.look_for(&name, &right);
    store.owned(&name, &judged.found, None, &right)?;
    if judged.state() == &State::Dead {
        return Err(Error::new(
            Kind::OwnerEnded,
            format!("{name}: its owner has ended, so it is not yours any more"),
        )
        .hint("acquire it again before going on"));
    }
    if !store.tick(&name, &right, args.every)? {
        return Err(not_owner(
            &name,
            "it was released or broken, or its record was removed; acquire it again before going on",
        ));
    }
    if call.report.json {
        drop(call.report.object(&json!({"name": name.as_str(), "ticked": true})));
    }
    Ok(Exit::Ok.into())
}
