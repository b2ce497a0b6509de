//! `release`: give the lock back, by token or as its owner.

use super::owner::{among, ancestors};
use super::{LockCall, name};
use crate::cli::lock::LockRelease;
use crate::command::records::{Released, not_owner};
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::verdict::owner::OwnerSpec;
use crate::verdict::ownership::Credential;
use serde_json::json;

pub(super) fn release(call: &LockCall, args: LockRelease) -> Result<Status, Error> {
    let name = name(&args.name)?;
    let right = match (args.token, args.owner) {
        (Some(token), _) => Credential::Token(token),
        // Only a number: a name or the environment would be inherited by whoever must not release.
        (None, Some(pid)) => Credential::Owner(among(&ancestors()?, &OwnerSpec::Pid(pid), true)?),
        (None, None) => return Err(Error::usage("whose lock?").hint("--token N, or --owner $$")),
    };
    let Some(store) = call.existing()? else {
        return Err(not_owner(&name, &format!("never held in {}", call.looked_in()?.display())));
    };
    let released = store.release(&name, &right)?;
    if released == Released::ByRemoving {
        call.report.warn(&format!(
            "{name}: the disk is full, so its record was removed instead of marked as released"
        ));
    }
    if call.report.json {
        drop(call.report.object(&json!({"name": name.as_str(), "released": released != Released::Before})));
    }
    Ok(Exit::Ok.into())
}
