//! `stage`: which actor is on a ticket. The event log proves; the label decorates.

use super::{ClaimCall, attrs, right, tell};
use crate::cli::claim::ClaimStage as Args;
use crate::command::records::not_owner;
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::model::name::LockName;
use crate::model::ticket::{Expect, Swap, Swapped};
use crate::report::escape;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

pub(super) fn stage(call: &ClaimCall, args: &Args) -> Result<Status, Error> {
    let stage = name(&args.name)?;
    let claims = call.claims()?;
    let (key, name) = claims.key(&args.key)?;
    let right = right::of(&args.right, &key)?;
    // Whoever begins another stage is not through with the ticket.
    let mut changes = vec![("handing", Value::Null)];
    changes.extend(args.work.branch.as_ref().map(|branch| ("branch", json!(branch))));
    changes.extend(args.work.worktree.as_ref().map(|worktree| ("worktree", json!(worktree))));
    let Some(stored) = claims.store.amend(&name, &right, &[], &changes)? else {
        return Err(not_owner(&name, "it was released"));
    };
    claims.log_stage(&key, &stage, stored.record.token);
    let labels = &claims.settings.labels;
    let ticket = claims.tracker.ticket(&key)?;
    let label = labels.stage(&stage);
    let old = |name: &&String| name.starts_with(&labels.stage_prefix) && **name != label;
    let swap = Swap {
        add: vec![label.clone()],
        remove: ticket.labels.iter().filter(old).cloned().collect(),
        expect: Expect {
            has: vec![labels.working.clone()],
            open: Some(true),
            mark: attrs(&stored.record).working_event().map(|mark| (labels.working.clone(), mark)),
            ..Expect::default()
        },
        signature: None,
    };
    match claims.tracker.swap(&key, &swap) {
        Ok(Swapped::Done(_)) => {}
        Ok(Swapped::Changed(why)) => {
            return Err(Error::new(
                Kind::NotOwner,
                format!("{key} is not yours any more, and nothing was written to it: {why}"),
            ));
        }
        Ok(Swapped::Unconfirmed(why)) => call.report.warning(&format!("{key}: its stage label: {why}")),
        Err(failure) => call.report.warning(&format!("{key}: its stage label: {failure}")),
    }
    tell(&call.report, json!({"key": key.as_str(), "stage": stage}));
    Ok(Exit::Ok.into())
}

/// An actor's id: it becomes part of a label, so it is as plain as a lock's name.
pub(super) fn name(text: &OsStr) -> Result<String, Error> {
    LockName::plain(text).map(|name| name.as_str().to_owned()).ok_or_else(|| {
        Error::usage(format!("'{}' is not an actor id", escape(text.as_bytes(), 60)))
            .hint("use A-Z a-z 0-9 . _ -, a letter or digit first, at most 100")
    })
}
