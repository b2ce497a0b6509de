//! `next`: the ticket that would be claimed next.

use super::{ClaimCall, Claims, name_of};
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::model::ticket::{Key, Ticket};
use crate::report::escape;
use crate::tracker::{Failure, Why};
use crate::verdict::liveness::State;
use crate::verdict::offer::kept_back;
use serde_json::{Value, json};

pub(super) fn next(call: &ClaimCall) -> Result<Status, Error> {
    let claims = call.claims()?;
    let queue = free(&claims)?;
    for line in &queue.broken {
        call.report.warn(line);
    }
    for (key, why) in &queue.kept {
        call.report.note(&format!("{key} is not offered: {why}"));
    }
    let first = queue.tickets.first();
    if call.report.json {
        let kept: Vec<Value> =
            queue.kept.iter().map(|(key, why)| json!({"key": key.as_str(), "reason": why})).collect();
        let ticket = first.map(|ticket| {
            json!({"key": ticket.key.as_str(), "title": ticket.title, "priority": ticket.priority, "link": ticket.link})
        });
        drop(call.report.object(&json!({
            "tracker": claims.settings.address.canonical(),
            "next": ticket,
            "queued": queue.tickets.len(),
            "not_offered": kept,
        })));
    } else if let Some(ticket) = first {
        drop(call.report.data(ticket.key.as_str()));
        call.report.note(&escape(ticket.title.as_bytes(), 120));
    } else {
        call.report.say(&format!("nothing may be claimed in {}", claims.settings.address.canonical()));
    }
    Ok(if first.is_some() { Exit::Ok } else { Exit::Skip }.into())
}

/// What of the queue may be begun now.
#[derive(Debug, Default)]
pub(super) struct Offered {
    /// The next one first.
    pub(super) tickets: Vec<Ticket>,
    /// What could not be read, one line each.
    pub(super) broken: Vec<String>,
    /// Queued, and why it is not offered.
    pub(super) kept: Vec<(Key, String)>,
}

/// So many tickets are enough for one pass, where each costs a request.
const ENOUGH: usize = 20;

/// The queue without what a run of this machine still holds, what waits for another
/// ticket, and what somebody else is on.
///
/// # Errors
/// When there is no list.
pub(super) fn free(claims: &Claims) -> Result<Offered, Failure> {
    let listing = claims.tracker.queue()?;
    let names = claims.store.names().unwrap_or_default();
    let is_free = |ticket: &Ticket| {
        let Ok(name) = name_of(&ticket.key) else { return false };
        names.binary_search(&name).is_err()
            || !matches!(claims.store.look(&name).state(), State::Live(_) | State::Unknown(_))
    };
    let ignore = claims.settings.ignore_assignee;
    let mut me: Option<Option<String>> = None;
    let mut offered = Offered { broken: listing.broken, ..Offered::default() };
    for ticket in listing.tickets {
        if !is_free(&ticket) {
            continue;
        }
        if !claims.settings.labels.in_queue(&ticket) {
            let why = format!("queued again; it waits until {} is off", claims.settings.labels.ci_wait);
            offered.kept.push((ticket.key, why));
            continue;
        }
        if ticket.blocked_by.is_none() && offered.tickets.len() >= ENOUGH {
            break;
        }
        if me.is_none() && !ignore && !ticket.assignees.is_empty() {
            me = Some(claims.tracker.me()?);
        }
        let blockers = match claims.tracker.blockers(&ticket) {
            Ok(blockers) => blockers,
            // One ticket's trouble never hides the others.
            Err(failure) if matches!(failure.why(), Why::NoTicket | Why::Refused) => {
                offered.kept.push((ticket.key, format!("what it waits for cannot be read: {failure}")));
                continue;
            }
            Err(failure) => return Err(failure),
        };
        match kept_back(&ticket, &blockers, me.as_ref().and_then(Option::as_deref), ignore) {
            None => offered.tickets.push(ticket),
            Some(why) => offered.kept.push((ticket.key, escape(why.as_bytes(), 200))),
        }
    }
    Ok(offered)
}
