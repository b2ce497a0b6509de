//! `tick`: the heartbeat. It renews the record's clock, which proves a restart, and
//! its silence after a promise is reported; it never frees anything.

use super::{ClaimCall, right, tell};
use crate::cli::claim::ClaimTick as Args;
use crate::command::records::not_owner;
use crate::error::Error;
use crate::exit::{Exit, Status};
use serde_json::json;

pub(super) fn tick(call: &ClaimCall, args: &Args) -> Result<Status, Error> {
    let claims = call.claims()?;
    let (key, name) = claims.key(&args.key)?;
    let right = right::of(&args.right, &key)?;
    if !claims.store.tick(&name, &right, args.every)? {
        return Err(not_owner(&name, "it was released"));
    }
    tell(&call.report, json!({"key": key.as_str(), "ticked": true}));
    Ok(Exit::Ok.into())
}
