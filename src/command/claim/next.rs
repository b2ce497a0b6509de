//! `next`: the ticket that would be claimed next.

use super::{ClaimCall, Claims, attrs, name_of};
use crate::command::local_time;
use crate::command::records::Judged;
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::model::claim::{Attrs, DIED, Goal};
use crate::model::name::LockName;
use crate::model::ticket::{Key, Ticket};
use crate::model::time::WallTime;
use crate::os::clock;
use crate::report::escape;
use crate::tracker::{Failure, Why};
use crate::verdict::liveness::State;
use crate::verdict::offer::kept_back;
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub(super) fn next(call: &ClaimCall) -> Result<Status, Error> {
    let claims = call.claims()?;
    let queue = free(&claims, |_| false)?;
    for line in &queue.broken {
        call.report.warning(line);
    }
    for (key, why) in &queue.kept {
        call.report.detail(&format!("{key} is not offered: {why}"));
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
        call.report.detail(&escape(ticket.title.as_bytes(), 120));
    } else {
        call.report.notice(&format!("nothing may be claimed in {}", claims.settings.address.canonical()));
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
pub(super) fn free(claims: &Claims, touched: impl Fn(&Ticket) -> bool) -> Result<Offered, Failure> {
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
    let mut behind: BTreeSet<Key> = BTreeSet::new();
    for ticket in listing.tickets {
        if !is_free(&ticket) {
            continue;
        }
        let last = last_claim(claims, &names, &ticket.key);
        if last.ended.as_deref().is_some_and(|ended| [DIED, Goal::Queue.as_str()].contains(&ended)) {
            behind.insert(ticket.key.clone());
            let pause = last.given_back.and_then(|back| Some((back.times, WallTime::parse(&back.until)?)));
            if let Some((times, until)) = pause.filter(|(_, until)| *until > clock::wall())
                && !touched(&ticket)
            {
                let why = format!("given back with 75, {times} times; again at {}", local_time::show(until));
                offered.kept.push((ticket.key, why));
                continue;
            }
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
    // What died or was given back lets the others of its priority go first.
    offered.tickets.sort_by_key(|ticket| (std::cmp::Reverse(ticket.priority), behind.contains(&ticket.key)));
    Ok(offered)
}

/// What the last claim of a ticket here came to.
fn last_claim(claims: &Claims, names: &[LockName], key: &Key) -> Attrs {
    let recorded = name_of(key).ok().filter(|name| names.binary_search(name).is_ok());
    let judged = recorded.map(|name| claims.store.look(&name));
    let record = judged.as_ref().and_then(Judged::record).filter(|record| record.released_at.is_some());
    record.map(attrs).unwrap_or_default()
}
