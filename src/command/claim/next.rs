//! `next`: the ticket that would be claimed next.

use super::{ClaimCall, Claims, name_of};
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::model::ticket::Ticket;
use crate::report::escape;
use crate::tracker::{Failure, TicketList};
use crate::verdict::liveness::State;
use serde_json::json;

pub(super) fn next(call: &ClaimCall) -> Result<Status, Error> {
    let claims = call.claims()?;
    let queue = free(&claims)?;
    for line in &queue.broken {
        call.report.warn(line);
    }
    let first = queue.tickets.first();
    if call.report.json {
        let ticket = first.map(|ticket| {
            json!({"key": ticket.key.as_str(), "title": ticket.title, "priority": ticket.priority, "link": ticket.link})
        });
        drop(call.report.object(&json!({
            "tracker": claims.settings.address.canonical(),
            "next": ticket,
            "queued": queue.tickets.len(),
        })));
    } else if let Some(ticket) = first {
        drop(call.report.data(ticket.key.as_str()));
        call.report.note(&escape(ticket.title.as_bytes(), 120));
    } else {
        call.report.say(&format!("nothing may be claimed in {}", claims.settings.address.canonical()));
    }
    Ok(if first.is_some() { Exit::Ok } else { Exit::Skip }.into())
}

/// The queue without what a run of this machine still holds.
///
/// # Errors
/// When there is no list.
pub(super) fn free(claims: &Claims) -> Result<TicketList, Failure> {
    let mut listing = claims.tracker.queue()?;
    let names = claims.store.names().unwrap_or_default();
    let is_free = |ticket: &Ticket| {
        let Ok(name) = name_of(&ticket.key) else { return false };
        names.binary_search(&name).is_err()
            || !matches!(claims.store.look(&name).state(), State::Live(_) | State::Unknown(_))
    };
    listing.tickets.retain(is_free);
    Ok(listing)
}
