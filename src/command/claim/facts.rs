//! What a reconcile pass knows about one ticket: the tracker's side and ours, as
//! plain facts for the verdict.

use super::deaths::boot;
use super::{Claims, attrs, workers};
use crate::command::records::Judged;
use crate::model::arbiter::{Arbiter, ArbiterState};
use crate::model::claim::{Attrs, Phase};
use crate::model::record::{Record, VIA_RUN};
use crate::model::stage;
use crate::model::ticket::{EventId, Key, Ticket, TicketEvent, newest_labeled};
use crate::model::time::WallTime;
use crate::os::{clock, event_file};
use crate::report::escape;
use crate::tracker::Failure;
use crate::verdict::arbitrate::{self, Order, Takeoff};
use crate::verdict::gated::queued_over;
use crate::verdict::liveness::{self, Through};
use crate::verdict::reconcile::{
    ClaimStep, Facts, Finished, FinishedBy, NamedHost, OwnerState, RecordFacts, RecordedClaim, TicketFacts,
    TicketVerdict, WorkingLabel, judge,
};

/// A ticket, our record of it, and what the verdict says.
pub(super) struct View {
    pub(super) judgement: TicketVerdict,
    /// The record, where there is one that is not released.
    pub(super) record: Option<Record>,
    pub(super) attrs: Attrs,
    /// Our working event, recorded or found.
    pub(super) working_event: Option<EventId>,
    /// The newest event that put the working label on, whoever's.
    pub(super) newest_working: Option<EventId>,
    /// A person queued it again under the claim.
    pub(super) wished: bool,
}

/// Judges a ticket. Without `events` nothing is asked of the tracker.
///
/// # Errors
/// What stands between us and the comments or the ref that decide.
pub(super) fn view(
    claims: &Claims,
    key: &Key,
    judged: &Judged,
    ticket: &Ticket,
    events: Option<&[TicketEvent]>,
) -> Result<View, Failure> {
    let labels = &claims.settings.labels;
    let record = judged.record().filter(|record| record.released_at.is_none());
    let attrs = record.map(attrs).unwrap_or_default();
    let working = labels.in_flight(ticket);
    // A claim that was cut short may have left what should have gone with it.
    let settled = matches!(attrs.state, Phase::Held | Phase::Closed);
    let ticket_facts = TicketFacts {
        closed: ticket.closed,
        queue: ticket.has(&labels.queue),
        working,
        handed_on: labels.handed_on(ticket) && (settled || !working),
        host: host(claims, ticket),
    };
    let mut working_event = attrs.working_event();
    let facts = match judged.state() {
        liveness::State::Free => RecordFacts::None,
        liveness::State::Newer(_) => RecordFacts::Newer,
        liveness::State::Corrupt(_) => RecordFacts::Corrupt,
        state => match record {
            Some(record) if is_elsewhere(claims, record, state) => {
                RecordFacts::OtherHost { host: escape(record.host.hostname.as_bytes(), 60) }
            }
            _ => {
                let holder = holder(record, state);
                let (fact, found) = whose(claims, key, &attrs, ticket_facts.working, events)?;
                working_event = found;
                RecordFacts::Here(RecordedClaim {
                    state: phase(claims, &attrs, record, ticket, events),
                    holder,
                    working_label: fact,
                    finished: record.and_then(|record| finished(claims, key, &attrs, record, state)),
                    deaths: record.map_or(0, |record| attrs.deaths_before(&boot(record), record.token)),
                })
            }
        },
    };
    // Only the row of a ticket of somebody else can say more than its record.
    let ask = facts == RecordFacts::None && ticket_facts.working && !ticket_facts.closed;
    let row = claims.rows.as_ref().filter(|_| ask).and_then(|rows| rows.state(key));
    let judgement = judge(&Facts { key: key.as_str(), ticket: ticket_facts, record: facts, row });
    let wished = is_wished(claims, ticket, events.unwrap_or_default(), working_event.as_ref());
    let newest = newest_labeled(events.unwrap_or_default(), &labels.working);
    let newest_working = newest.map(|event| event.id.clone());
    Ok(View { judgement, record: record.cloned(), attrs, working_event, newest_working, wished })
}

/// Which machine does the ticket name?
fn host(claims: &Claims, ticket: &Ticket) -> NamedHost {
    let labels = &claims.settings.labels;
    let ours = labels.host(&claims.settings.host);
    let mut named = ticket.labels.iter().filter(|label| label.starts_with(&labels.host_prefix));
    match named.next() {
        None => NamedHost::None,
        Some(label) if *label == ours => NamedHost::Ours,
        Some(_) => NamedHost::Other,
    }
}

/// Did a person put the queue label on under the claim? One from before it, which a claim that was cut
/// short left there, nobody asked for.
pub(super) fn is_wished(
    claims: &Claims,
    ticket: &Ticket,
    events: &[TicketEvent],
    working_event: Option<&EventId>,
) -> bool {
    let queue = &claims.settings.labels.queue;
    let tells = claims.tracker.can().event_ids && working_event.is_some();
    ticket.has(queue) && (!tells || arbitrate::queued_since(events, queue, working_event))
}

/// Was it written for another state directory, or on another machine?
fn is_elsewhere(claims: &Claims, record: &Record, state: &liveness::State) -> bool {
    let ours = claims.store.state.state_id().ok();
    if record.host.state_id.is_some() && ours.is_some() && record.host.state_id != ours {
        return true;
    }
    let machine = crate::os::host::identity().machine_id;
    let other = record.host.machine_id.is_some() && machine.is_some() && record.host.machine_id != machine;
    other && matches!(state, liveness::State::Unknown(_))
}

fn holder(record: Option<&Record>, state: &liveness::State) -> OwnerState {
    match state {
        liveness::State::Live(_) => {
            let silent = record.is_some_and(|record| record.overdue(crate::os::host::awake_time).is_some());
            OwnerState::Live { silent }
        }
        liveness::State::Dead => OwnerState::Dead,
        _ => OwnerState::Unknown,
    }
}

fn phase(
    claims: &Claims,
    attrs: &Attrs,
    record: Option<&Record>,
    ticket: &Ticket,
    events: Option<&[TicketEvent]>,
) -> ClaimStep {
    let labels = &claims.settings.labels;
    match attrs.state {
        Phase::Held => ClaimStep::Held,
        Phase::Closed => ClaimStep::Closed,
        Phase::Gated => ClaimStep::Gated {
            may_undo: events.map(|events| {
                let gate = gate(claims, attrs, events);
                gate.is_some_and(|gate| arbitrate::may_undo(events, &labels.managed(), &gate))
            }),
        },
        // Only a gate takes the queue label off before our record says so.
        Phase::Intent if attrs.arbiter() != Some(Arbiter::LabelGate) => {
            ClaimStep::Intent { unused: Some(true) }
        }
        Phase::Intent => ClaimStep::Intent {
            unused: events.map(|events| {
                let at = record.and_then(Record::since).unwrap_or(WallTime(0));
                arbitrate::intent_unused(ticket, events, &labels.queue, attrs.round().as_ref(), at)
            }),
        },
    }
}

/// Our gate event: recorded, or the only one of its round (we were told that we took it).
fn gate(claims: &Claims, attrs: &Attrs, events: &[TicketEvent]) -> Option<EventId> {
    attrs.gate().or_else(|| {
        match arbitrate::takeoff(events, &claims.settings.labels.queue, attrs.round().as_ref()) {
            Takeoff::Ours(id) => Some(id),
            _ => None,
        }
    })
}

/// Whose working label it is, and by which event.
fn whose(
    claims: &Claims,
    key: &Key,
    attrs: &Attrs,
    working: bool,
    events: Option<&[TicketEvent]>,
) -> Result<(WorkingLabel, Option<EventId>), Failure> {
    if !claims.tracker.can().event_ids {
        let ours = attrs.state == Phase::Held || attrs.state == Phase::Intent;
        return Ok((if ours { WorkingLabel::Ours } else { WorkingLabel::Foreign }, None));
    }
    let Some(events) = events.filter(|_| working) else {
        return Ok((WorkingLabel::NotRead, attrs.working_event()));
    };
    let label = &claims.settings.labels.working;
    let found = match attrs.working_event() {
        Some(ours) => {
            newest_labeled(events, label).filter(|event| event.id == ours).map(|event| event.id.clone())
        }
        None => match arbitrate::signed(events, label, &attrs.nonce).filter(|_| !attrs.nonce.is_empty()) {
            Some(id) => Some(id),
            None => unrecorded(claims, key, attrs, events)?,
        },
    };
    Ok((if found.is_some() { WorkingLabel::Ours } else { WorkingLabel::Foreign }, found))
}

/// The working event of a claim that was cut short before it wrote its working event down:
/// the only one since what it won by.
fn unrecorded(
    claims: &Claims,
    key: &Key,
    attrs: &Attrs,
    events: &[TicketEvent],
) -> Result<Option<EventId>, Failure> {
    let labels = &claims.settings.labels;
    let arbiter = attrs.arbiter().unwrap_or(Arbiter::None);
    let since = match attrs.arbiter() {
        Some(Arbiter::LabelGate) => match gate(claims, attrs, events).filter(|_| attrs.state == Phase::Gated)
        {
            Some(gate) => Some(gate),
            None => return Ok(None),
        },
        Some(Arbiter::CommentOrder) => {
            let comments = claims.tracker.comments(key)?;
            if arbitrate::order(&comments, attrs.round().as_ref(), &attrs.nonce) != Order::Won {
                return Ok(None);
            }
            attrs.round()
        }
        Some(Arbiter::GitRef) => {
            if own_ref(claims, key, &attrs.nonce)?.is_none() {
                return Ok(None);
            }
            attrs.round()
        }
        Some(Arbiter::Database) => {
            if !own_row(claims, key, &attrs.nonce)? {
                return Ok(None);
            }
            attrs.round()
        }
        Some(Arbiter::None) => attrs.round(),
        // Its working event comes with the write and is signed.
        Some(Arbiter::Guard) | None => return Ok(None),
    };
    Ok(match arbitrate::working_event(events, &labels.queue, &labels.working, since.as_ref(), arbiter) {
        arbitrate::WorkingEvent::Ours(id) => Some(id),
        arbitrate::WorkingEvent::Requeued if attrs.arbiter() == Some(Arbiter::CommentOrder) => {
            uncontested(claims, key, events)?
        }
        arbitrate::WorkingEvent::Requeued if attrs.arbiter() == Some(Arbiter::LabelGate) => {
            since.and_then(|gate| queued_over(events, &labels.queue, &labels.working, &gate))
        }
        _ => None,
    })
}

/// Somebody queued the ticket again just before the swap of a claim that leads its
/// round took it out of the queue. Whoever could have won the new round wrote a marker
/// for it before; where there is none, nobody did, and the ticket is that claim's.
pub(super) fn uncontested(
    claims: &Claims,
    key: &Key,
    events: &[TicketEvent],
) -> Result<Option<EventId>, Failure> {
    if claims.arbiter != Arbiter::CommentOrder {
        return Ok(None);
    }
    let labels = &claims.settings.labels;
    let round = arbitrate::round(events, &labels.queue);
    if arbitrate::is_contested(&claims.tracker.comments(key)?, round.as_ref()) {
        return Ok(None);
    }
    Ok(
        match arbitrate::working_event(events, &labels.queue, &labels.working, round.as_ref(), claims.arbiter)
        {
            arbitrate::WorkingEvent::Ours(id) => Some(id),
            _ => None,
        },
    )
}

/// The object id of the ticket's ref, if it holds our nonce.
pub(super) fn own_ref(claims: &Claims, key: &Key, nonce: &str) -> Result<Option<String>, Failure> {
    let Some(git) = &claims.git else { return Ok(None) };
    let Some((id, blob)) = git.read(key)? else { return Ok(None) };
    let record: serde_json::Value = serde_json::from_slice(&blob).unwrap_or_default();
    Ok((record["nonce"].as_str() == Some(nonce)).then_some(id))
}

/// Does the ticket's row hold our nonce?
fn own_row(claims: &Claims, key: &Key, nonce: &str) -> Result<bool, Failure> {
    let Some(rows) = &claims.rows else { return Ok(false) };
    let row = rows.row_now(key)?;
    Ok(row.is_some_and(|row| row.state != ArbiterState::Free && row.nonce.as_deref() == Some(nonce)))
}

/// Is it through with the ticket: by its own decision, or by the last event of its log?
fn finished(
    claims: &Claims,
    key: &Key,
    attrs: &Attrs,
    record: &Record,
    state: &liveness::State,
) -> Option<Finished> {
    let (at, said) = match &attrs.handing {
        Some(handing) => {
            (handing.at.clone(), if handing.released { FinishedBy::Release } else { FinishedBy::Run })
        }
        None => {
            let log = event_file::end(claims.store.folder(), key.as_str());
            let last = stage::last(&log, key.as_str())?;
            let by = if record.via() == Some(VIA_RUN) { FinishedBy::Run } else { FinishedBy::Boundary };
            (claims.settings.finished.is(&last, record.token).then_some(last.at)?, by)
        }
    };
    let since = WallTime::parse(&at).and_then(|at| at.age(clock::wall())).unwrap_or_default();
    let others_work = match state {
        liveness::State::Live(Through::Owner(_)) => {
            let name = super::name_of(key).ok()?;
            !workers::besides(claims, &name, record.token, &workers::owners(record)).is_empty()
        }
        liveness::State::Live(Through::Descendant) => true,
        // The pulse was asked before: somebody who carried it would be life.
        _ => false,
    };
    Some(Finished { since, said, others_work })
}
