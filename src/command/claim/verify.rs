//! `verify`: the line before pushing or writing to a ticket. Is it still ours, here
//! and on the ticket, and does an owner live?

use super::{ClaimCall, attrs, right, tell};
use crate::cli::claim::ClaimVerify as Args;
use crate::command::local_time;
use crate::command::records::not_owner;
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::model::arbiter::ArbiterState;
use crate::model::claim::Phase;
use crate::model::ticket::Expect;
use crate::verdict::liveness::State;
use serde_json::json;

pub(super) fn verify(call: &ClaimCall, args: &Args) -> Result<Status, Error> {
    let claims = call.claims()?;
    let (key, name) = claims.key(&args.key)?;
    let right = right::of(&args.right, &key)?;
    let judged = claims.store.look(&name);
    claims.store.owned(&name, &judged.found, None, &right)?;
    let Some(record) = judged.record() else { return Err(not_owner(&name, "it has no record here")) };
    if let Some(at) = &record.released_at {
        return Err(not_owner(&name, &format!("it was released at {}", local_time::show_text(at))));
    }
    match claims.store.judge_identity(&judged.found).state {
        State::Live(_) => {}
        State::Unknown(doubt) => {
            let why = format!("{key}: cannot tell whether its owner lives ({})", doubt.reason());
            return Err(Error::new(Kind::UnknownOwner, why));
        }
        _ => return Err(Error::new(Kind::OwnerEnded, format!("{key}: its owner has ended"))),
    }
    let attrs = attrs(record);
    if attrs.state != Phase::Held {
        return Err(not_owner(&name, &format!("its claim is {}", attrs.state.as_str())));
    }
    let ticket = claims.tracker.ticket(&key)?;
    let working = &claims.settings.labels.working;
    let expect = Expect {
        has: vec![working.clone()],
        open: Some(true),
        mark: attrs.working_event().map(|mark| (working.clone(), mark)),
        ..Expect::default()
    };
    let events = if expect.mark.is_some() { claims.tracker.events(&key)? } else { Vec::new() };
    if let Some(why) = expect.broken(&ticket, &events) {
        return Err(Error::new(Kind::NotOwner, format!("{key} is not yours any more: {why}"))
            .hint("stop, and write nothing to it"));
    }
    if let Some(rows) = &claims.rows {
        let row = rows.row_now(&key)?.filter(|row| row.nonce.as_deref() == Some(attrs.nonce.as_str()));
        match row.map(|row| row.state) {
            Some(ArbiterState::Held | ArbiterState::Kept) => {}
            None | Some(ArbiterState::Free) => {
                let why = format!(
                    "{key} is not yours any more: its row in the database is somebody else's, or free"
                );
                return Err(Error::new(Kind::NotOwner, why).hint("stop, and write nothing to it"));
            }
            Some(_) => {
                let why = format!("{key}: its run has no session with the database that decides");
                return Err(Error::new(Kind::CannotTell, why).hint("ask again when it has one"));
            }
        }
    }
    tell(&call.report, json!({"key": key.as_str(), "verified": true}));
    Ok(Exit::Ok.into())
}
