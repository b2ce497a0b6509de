//! `release`: hand a ticket over by hand.

use super::hand_over::{self, Handed, almost, carry_out};
use super::{ClaimCall, tell, workers};
use crate::cli::claim::{ClaimRelease, To};
use crate::command::owner;
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::model::claim::{Goal, Handing};
use serde_json::json;

pub(super) fn release(call: &ClaimCall, args: &ClaimRelease) -> Result<Status, Error> {
    let credential = owner::explicit(args.token, args.owner, "claim")?;
    let claims = call.claims()?;
    let (key, name) = claims.key(&args.key)?;
    let goal = match args.to {
        To::Ready => Goal::Ready,
        To::CiWait => Goal::CiWait,
        To::Queue => Goal::Queue,
        To::Failed => Goal::Failed,
    };
    let handing = Handing { released: true, ..hand_over::now(goal) };
    let handed = match hand_over::decide(&claims, &name, &credential, &handing, None, None)? {
        None => Handed::Before,
        Some(decided) => {
            let workers = workers::besides(&claims, &name, decided.token, &[std::process::id()]);
            if !workers.is_empty() {
                let who = workers::named(&workers);
                call.report.warning(&format!(
                    "{key} goes to {} when what still works on it has ended: {who}",
                    goal.as_str()
                ));
                let told =
                    json!({"key": key.as_str(), "to": goal.as_str(), "released": true, "waits_for": workers});
                tell(&call.report, told);
                return Ok(Exit::Ok.into());
            }
            carry_out(&claims, &key, &name, &decided)?
        }
    };
    match handed {
        Handed::Almost(goal, why) => {
            call.report.warning(&almost(&key, goal, &why));
            tell(&call.report, json!({"key": key.as_str(), "to": goal.as_str(), "released": true}));
        }
        Handed::Done(goal) => {
            tell(&call.report, json!({"key": key.as_str(), "to": goal.as_str(), "released": true}));
        }
        Handed::Before => {
            call.report.detail(&format!("{key} was released before"));
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
