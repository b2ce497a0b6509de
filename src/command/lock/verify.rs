//! `verify`: the line before writing results. Still mine, and an owner lives?

use super::{LockCall, credential};
use crate::cli::lock::LockVerify;
use crate::command::local_time;
use crate::command::records::{Judged, Records, not_owner};
use crate::command::tell;
use crate::command::typed::name;
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::model::name::LockName;
use crate::model::observation::Found;
use crate::verdict::liveness::{State, Through};
use serde_json::json;

pub(super) fn verify(call: &LockCall, args: LockVerify) -> Result<Status, Error> {
    let name = name(&args.name)?;
    let right = credential(args.token, args.owner.as_deref(), &name)?;
    let store = call.holding(&name)?;
    let judged = store.look_for(&name, &right);
    if matches!(judged.found, Found::Nothing) && matches!(judged.state(), State::Live(_)) {
        return Err(not_owner(&name, "its record was removed; acquire it again before going on"));
    }
    store.owned(&name, &judged.found, None, &right)?;
    if let Some(at) = judged.record().and_then(|record| record.released_at.as_ref()) {
        return Err(not_owner(&name, &format!("it was released at {}", local_time::show_text(at))));
    }
    alive(&store, &name, judged, args.orphan_ok)?;
    if call.report.json {
        drop(call.report.object(&json!({"name": name.as_str(), "verified": true})));
    }
    Ok(Exit::Ok.into())
}

/// Identity alone counts here: work that an ended owner left behind is not the owner.
fn alive(store: &Records, name: &LockName, judged: Judged, orphan_ok: bool) -> Result<(), Error> {
    if orphan_ok && matches!(judged.state(), State::Live(Through::Descendant | Through::Carrier)) {
        return Ok(());
    }
    let identity = store.judge_identity(&judged.found);
    match identity.state {
        State::Live(_) => Ok(()),
        State::Unknown(_) => Err(tell::refusal(store, name, &Judged { judgement: identity, ..judged })),
        _ => Err(Error::new(
            Kind::OwnerEnded,
            format!("{name}: its owner has ended, so it is not yours any more"),
        )
        .hint("--orphan-ok accepts what the owner started")),
    }
}
