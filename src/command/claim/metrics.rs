//! `metrics`: the tickets of one tracker and this machine's claims of it, for programs that watch.

use super::{ClaimCall, Claims, watch_breaker};
use crate::command::open_metrics::{Exposition, SeriesLabels};
use crate::command::records::PauseScope;
use crate::command::tell;
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::model::ticket::{Ticket, TicketChange, TicketEvent};
use crate::model::time::WallTime;
use crate::os::clock;
use crate::tracker::{Failure, TicketList};
use crate::verdict::pause::PauseState;
use prometheus_client::registry::Unit;

/// Since when a ticket is queued costs a request each; of so many at the head of the queue it is asked.
const ASKED: usize = 3;

/// What the tracker says.
#[derive(Default)]
struct TrackerNumbers {
    /// May be claimed; queued again while its checks run; working.
    queue: u64,
    waits: u64,
    working: u64,
    unreadable: u64,
    oldest_s: Option<u64>,
}

pub(super) fn metrics(call: &ClaimCall) -> Result<Status, Error> {
    if call.report.json {
        return Err(Error::usage("metrics prints OpenMetrics, not JSON").hint("orion-claim --json list"));
    }
    let claims = call.claims()?;
    // A tracker that does not answer is a number too: the numbers of this machine are shown all the same.
    let seen = match look(&claims) {
        Ok(seen) => Some(seen),
        Err(failure) => {
            call.report.warning(&failure.to_string());
            None
        }
    };
    let [held, stuck, dead, unknown] = held_here(&claims)?;
    let breaker = watch_breaker::load(&claims);
    let tracker = ("tracker".to_owned(), claims.settings.address.canonical());
    let of = |state: &str| -> SeriesLabels { vec![tracker.clone(), ("state".to_owned(), state.to_owned())] };
    let plain = || vec![tracker.clone()];
    let mut out = Exposition::new("orion_claim");
    let mut one = |name, help, unit, value: Option<u64>| {
        out.gauges(name, help, unit, value.map(|value| (plain(), value)));
    };
    one("tracker_reachable", "The tracker answered", None, Some(seen.is_some().into()));
    one("unreadable", "Tickets that could not be read", None, seen.as_ref().map(|seen| seen.unreadable));
    let help = "How long the ticket that is first in the queue, or one of the two behind it, has been there";
    one("oldest_queued", help, Some(Unit::Seconds), seen.as_ref().and_then(|seen| seen.oldest_s));
    one(
        "breaker_open",
        "The watch claims nothing but one ticket to try",
        None,
        Some(breaker.open_since.is_some().into()),
    );
    let paused = matches!(claims.store.pause_state(PauseScope::Tracker), PauseState::Paused(_));
    one("paused", "A person paused the claiming", None, Some(paused.into()));
    one(
        "requests_left",
        "Requests that the tracker still answers to this token, where it says so",
        None,
        claims.tracker.requests_left(),
    );
    let tickets = seen.map(|seen| [("queue", seen.queue), ("waits", seen.waits), ("working", seen.working)]);
    out.gauges(
        "tickets",
        "Tickets by state; waits: queued again while its checks run",
        None,
        tickets.into_iter().flatten().map(|(state, count)| (of(state), count)),
    );
    let claimed = [("held", held), ("stuck", stuck), ("dead", dead), ("unknown", unknown)];
    out.gauges(
        "claims",
        "Claims of this machine by what is known of their owners",
        None,
        claimed.into_iter().map(|(state, count)| (of(state), count)),
    );
    out.print(&call.report)
}

fn look(claims: &Claims) -> Result<TrackerNumbers, Failure> {
    let (flight, queue) = (claims.tracker.in_flight()?, claims.tracker.queue()?);
    let labels = &claims.settings.labels;
    let (queued, waits): (Vec<&Ticket>, Vec<&Ticket>) =
        queue.tickets.iter().partition(|ticket| labels.in_queue(ticket));
    let count = |list: usize| u64::try_from(list).unwrap_or(u64::MAX);
    let broken = |list: &TicketList| count(list.broken.len());
    let costs = claims.tracker.requests() > 0;
    let mut oldest: Option<WallTime> = None;
    for ticket in queued.iter().take(if costs { ASKED } else { usize::MAX }) {
        // One that moved on meanwhile, or cannot be read, tells nothing.
        let Ok(events) = claims.tracker.events(&ticket.key) else { continue };
        oldest = queued_at(&events, &labels.queue).into_iter().chain(oldest).min();
    }
    let now = clock::wall();
    Ok(TrackerNumbers {
        queue: count(queued.len()),
        waits: count(waits.len()),
        working: count(flight.tickets.len()),
        unreadable: broken(&flight).saturating_add(broken(&queue)),
        oldest_s: oldest.and_then(|at| at.age(now)).map(|age| age.as_secs()),
    })
}

/// When the queue label was put on last.
fn queued_at(events: &[TicketEvent], label: &str) -> Option<WallTime> {
    let is = |event: &&TicketEvent| event.what == TicketChange::Labeled(label.to_owned());
    events.iter().rev().find(is).and_then(|event| event.at)
}

/// Held, stuck, dead and unknown claims.
fn held_here(claims: &Claims) -> Result<[u64; 4], Error> {
    let mut counts = [0; 4];
    for name in claims.store.names()? {
        let judged = claims.store.look(&name);
        let is_open = judged.record().is_some_and(|record| record.released_at.is_none());
        let place = match tell::exit_of(&judged) {
            Exit::Skip => 0,
            Exit::Stuck => 1,
            Exit::Ok if is_open => 2,
            Exit::Ok => continue,
            _ => 3,
        };
        counts[place] += 1;
    }
    Ok(counts)
}
