//! `release`: hand a ticket over by hand.

use super::hand_over::{Handed, hand_over};
use super::{ClaimCall, tell};
use crate::cli::claim::{ClaimRelease, To};
use crate::command::owner;
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::model::claim::Goal;
use serde_json::json;

pub(super) fn release(call: &ClaimCall, args: &ClaimRelease) -> Result<Status, Error> {
    let right = owner::explicit(args.token, args.owner, "claim")?;
    let claims = call.claims()?;
    let (key, name) = claims.key(&args.key)?;
    let goal = match args.to {
        To::Ready => Goal::Ready,
        To::CiWait => Goal::CiWait,
        To::Queue => Goal::Queue,
        To::Failed => Goal::Failed,
    };
    match hand_over(&claims, &key, &name, &right, goal)? {
        Handed::Done => {
            tell(&call.report, json!({"key": key.as_str(), "to": goal.as_str(), "released": true}));
        }
        Handed::Before => {
            call.report.note(&format!("{key} was released before"));
            tell(&call.report, json!({"key": key.as_str(), "released": true, "before": true}));
        }
        Handed::NotOurs(why) => {
            return Err(Error::new(
                Kind::NotOwner,
                format!("{key} is not yours any more, and nothing was written to it: {why}"),
            )
            .hint("the claim here is set aside"));
        }
    }
    Ok(Exit::Ok.into())
}
