//! `pause` and `resume` of one tracker: a person's word that no ticket is taken. What runs goes on.

use super::{ClaimCall, Claims, tell};
use crate::cli::shared::PauseTerms;
use crate::command::records::PauseScope;
use crate::command::tell_pause::{self, new_pause};
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::verdict::pause::PauseState;
use serde_json::json;

/// Fails where a person keeps us from taking tickets: by this tracker's own pause, or by the one for everything.
///
/// # Errors
/// SKIP, kind `paused`; UNAVAILABLE where nobody can read what was said.
pub(super) fn not_paused(claims: &Claims, what: &str) -> Result<(), Error> {
    match claims.store.pause_state(PauseScope::Tracker) {
        PauseState::NotPaused => Ok(()),
        PauseState::Paused(current) => {
            let (whom, way_out) = if current.of_all {
                ("everything".to_owned(), "orion-lock resume --all")
            } else {
                (claims.settings.address.canonical(), "orion-claim resume")
            };
            Err(Error::new(Kind::Paused, format!("{what}: {whom} is {}", tell_pause::about(&current)))
                .hint(format!("to end the pause: {way_out}")))
        }
        PauseState::Unclear(why) => Err(Error::new(
            Kind::CannotTell,
            format!("{what}: cannot tell whether tickets are paused: {why}"),
        )
        .hint("if it is not meant, 'orion-claim resume' or 'orion-lock resume --all' removes that file")),
    }
}

pub(super) fn pause(call: &ClaimCall, terms: &PauseTerms) -> Result<Status, Error> {
    let pause = new_pause(terms)?;
    let claims = call.claims()?;
    claims.store.pause(PauseScope::Tracker, &pause)?;
    let tracker = claims.settings.address.canonical();
    if let PauseState::Paused(current) = claims.store.pause_state(PauseScope::Tracker) {
        tell(&call.report, json!({"tracker": tracker, "paused": tell_pause::object(&current)}));
        call.report.detail(&format!(
            "{tracker} is {}; to end the pause: orion-claim resume; what runs now goes on",
            tell_pause::about(&current)
        ));
    }
    Ok(Exit::Ok.into())
}

pub(super) fn resume(call: &ClaimCall) -> Result<Status, Error> {
    let claims = call.claims()?;
    let tracker = claims.settings.address.canonical();
    let removed = claims.store.resume(PauseScope::Tracker)?;
    tell(&call.report, json!({"tracker": tracker, "resumed": removed}));
    if !removed {
        call.report.notice(&format!("{tracker} was not paused in {}", claims.store.path().display()));
    }
    if let Err(error) = not_paused(&claims, &tracker) {
        call.report.warning(&error.to_string());
    }
    Ok(Exit::Ok.into())
}
