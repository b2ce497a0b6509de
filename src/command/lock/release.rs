//! `release`: give the lock back, by token or as its owner.

use super::LockCall;
use crate::cli::lock::LockRelease;
use crate::command::owner;
use crate::command::records::Released;
use crate::command::typed::name;
use crate::error::Error;
use crate::exit::{Exit, Status};
use serde_json::json;

pub(super) fn release(call: &LockCall, args: LockRelease) -> Result<Status, Error> {
    let name = name(&args.name)?;
    let right = owner::explicit(args.token, args.owner, "lock")?;
    let store = call.holding(&name)?;
    let released = store.release(&name, &right)?;
    if released == Released::ByRemoving {
        call.report.warning(&format!(
            "{name}: the disk is full, so its record was removed instead of marked as released"
        ));
    }
    if call.report.json {
        drop(call.report.object(&json!({"name": name.as_str(), "released": released != Released::Before})));
    }
    Ok(Exit::Ok.into())
}
