//! `list`: the queue and what is in flight, one row each.

use super::facts::view;
use super::{ClaimCall, Claims, name_of, watch_breaker};
use crate::command::records::Judged;
use crate::command::tell;
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::model::duration;
use crate::model::ticket::{Key, Ticket};
use crate::os::clock;
use crate::report::escape;
use crate::verdict::liveness::State;
use serde_json::{Value, json};

pub(super) fn list(call: &ClaimCall) -> Result<Status, Error> {
    let claims = call.claims()?;
    let (flight, queue) = (claims.tracker.in_flight()?, claims.tracker.queue()?);
    let recorded = claims.store.names()?;
    let mut rows: Vec<[String; 6]> = Vec::new();
    let mut objects: Vec<Value> = Vec::new();
    let mut broken: Vec<String> = flight.broken.iter().chain(&queue.broken).cloned().collect();
    let places = flight.tickets.into_iter().map(|ticket| (ticket, "working"));
    let mut all: Vec<(Ticket, &str)> = places
        .chain(queue.tickets.into_iter().map(|ticket| {
            // Queued again while its checks run.
            let place = if claims.settings.labels.in_queue(&ticket) { "queue" } else { "waits" };
            (ticket, place)
        }))
        .collect();
    // Claimed here, and in neither list: on its way, or stranded without any label.
    for name in &recorded {
        let listed = all.iter().any(|(ticket, _)| ticket.key.as_str() == name.as_str());
        let Some(key) = Key::new(name.as_str()).filter(|_| !listed) else { continue };
        if claims.store.look(name).state() == &State::Free {
            continue;
        }
        match claims.tracker.ticket(&key) {
            Ok(ticket) => all.push((ticket, "claimed")),
            Err(failure) => broken.push(failure.to_string()),
        }
    }
    for (ticket, place) in &all {
        let name = name_of(&ticket.key)?;
        let judged = claims.look_in(&recorded, &name);
        let reason = view(&claims, &ticket.key, &judged, ticket, None)?.judgement.reason;
        if call.report.json {
            objects.push(json!({
                "key": ticket.key.as_str(),
                "place": place,
                "title": ticket.title,
                "closed": ticket.closed,
                "priority": ticket.priority,
                "link": ticket.link,
                "labels": ticket.labels,
                "host": host(&claims, ticket),
                "claim": tell::object(&claims.store, &name, &judged),
                "reason": reason,
            }));
        } else {
            rows.push(row(&claims, ticket, place, &judged));
        }
    }
    broken.sort();
    broken.dedup();
    for line in &broken {
        call.report.warning(line);
    }
    let tracker = claims.settings.address.canonical();
    let breaker = watch_breaker::line(&watch_breaker::load(&claims));
    if let Some(line) = breaker.as_ref().filter(|_| !call.report.json) {
        call.report.warning(line);
    }
    drop(if call.report.json {
        call.report.object(&json!({
            "tracker": tracker,
            "looked_in": claims.store.path(),
            "tickets": objects,
            "unreadable": broken,
            "breaker": breaker,
        }))
    } else if rows.is_empty() {
        call.report.data(&format!("nothing queued and nothing in flight in {tracker}"))
    } else {
        call.report.data(&tell::table(["KEY", "STATE", "OWNER", "FOR", "HOST", "TITLE"], rows))
    });
    Ok(if broken.is_empty() { Exit::Ok } else { Exit::Unavailable }.into())
}

/// The machine that the ticket names.
fn host(claims: &Claims, ticket: &Ticket) -> Option<String> {
    let prefix = &claims.settings.labels.host_prefix;
    ticket.labels.iter().find_map(|label| label.strip_prefix(prefix.as_str()).map(str::to_owned))
}

fn row(claims: &Claims, ticket: &Ticket, place: &str, judged: &Judged) -> [String; 6] {
    let record = judged.record().filter(|record| record.released_at.is_none());
    let state = match (place, judged.state()) {
        (_, State::Live(_)) if tell::exit_of(judged) == Exit::Stuck => "stuck",
        (_, State::Live(_)) => "held",
        (_, State::Dead) => "dead",
        (_, State::Unknown(_) | State::Newer(_) | State::Corrupt(_)) => "unknown",
        ("queue", State::Free) => "queued",
        ("waits", State::Free) => "waits",
        (_, State::Free) => "elsewhere",
    };
    let who = record.and_then(|record| record.owners.first()).map_or_else(
        || "-".to_owned(),
        |owner| format!("{} ({})", owner.pid, escape(owner.comm.as_bytes(), 20)),
    );
    let age = record.and_then(|record| record.since()?.age(clock::wall()));
    let age = age.map_or_else(|| "-".to_owned(), duration::show);
    let host = host(claims, ticket).map_or_else(|| "-".to_owned(), |host| escape(host.as_bytes(), 30));
    [ticket.key.to_string(), state.to_owned(), who, age, host, escape(ticket.title.as_bytes(), 60)]
}
