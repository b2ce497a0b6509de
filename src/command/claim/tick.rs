//! `tick`: the heartbeat. It renews the record's clock, which proves a restart, and
//! its silence after a promise is reported; it never frees anything.

use super::{Call, right, tell};
use crate::cli::claim::Tick as Args;
use crate::command::store::{Store, not_owner};
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::model::name::LockName;
use crate::model::record::Tick;
use crate::os::clock;
use crate::verdict::ownership::Right;
use serde_json::json;
use std::time::Duration;

pub(super) fn tick(call: &Call, args: &Args) -> Result<Status, Error> {
    let claims = call.claims()?;
    let (key, name) = claims.key(&args.key)?;
    let right = right::of(&args.right, &key)?;
    beat(&claims.store, &name, &right, args.every)?;
    tell(&call.report, json!({"key": key.as_str(), "ticked": true}));
    Ok(Exit::Ok.into())
}

/// One beat, with the promise of the next one.
///
/// # Errors
/// NOPERM when the claim is not the caller's, or was given back.
pub(super) fn beat(
    store: &Store,
    name: &LockName,
    right: &Right,
    every: Option<Duration>,
) -> Result<(), Error> {
    let tick = Tick {
        utc: clock::wall().rfc3339(),
        boottime_us: clock::boottime_us(),
        monotonic_us: clock::monotonic_us(),
        every_s: every.map(|every| every.as_secs().max(1)),
    };
    match store.amend(name, right, &[("last_tick", json!(tick))], &[])? {
        Some(_) => Ok(()),
        None => Err(not_owner(name, "it was released")),
    }
}
