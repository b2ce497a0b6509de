//! Who won a ticket, from nothing but what the tracker shows to everybody. Every
//! watcher comes to the same answer, whoever looks and whenever.

use crate::model::arbiter::{Arbiter, Capabilities};
use crate::model::marker::Marker;
use crate::model::ticket::{Comment, EventId, Ticket, TicketChange, TicketEvent};
use crate::model::time::WallTime;
use std::time::Duration;

/// How far the clocks of a tracker and of this machine may lie apart before a
/// time-based answer is given. Only used where no event id can answer.
const CLOCK_MARGIN: Duration = Duration::from_secs(600);

/// The arbiter in force: the one that was asked for, or the strongest that needs no service.
///
/// # Errors
/// Why it cannot decide here, and what to do.
pub(crate) fn choose(
    asked: Option<Arbiter>,
    can: Capabilities,
    single_machine: bool,
) -> Result<Arbiter, &'static str> {
    if !can.event_ids && !single_machine {
        return Err(
            "its events have no ids, so claims of several machines cannot be told apart; say --single-machine if only this one uses it",
        );
    }
    let arbiter = asked.unwrap_or(match can {
        Capabilities { conditional: true, .. } => Arbiter::Guard,
        Capabilities { gate: true, .. } => Arbiter::LabelGate,
        Capabilities { comments: true, .. } => Arbiter::CommentOrder,
        _ => Arbiter::None,
    });
    match arbiter {
        Arbiter::Guard if !can.conditional => {
            Err("it does not check and write in one step; use --arbiter label-gate, comment-order or git-ref")
        }
        Arbiter::LabelGate if !can.gate => {
            Err("it does not say who took a label off; use --arbiter comment-order or git-ref")
        }
        Arbiter::CommentOrder if !can.comments => Err("it has no comments in order; use --arbiter git-ref"),
        Arbiter::None if can.remote && !single_machine => Err(
            "nobody would decide between two machines; use --arbiter git-ref, or --single-machine if only this one uses it",
        ),
        arbiter => Ok(arbiter),
    }
}

/// The event that put the ticket into the queue, the beginning of its round.
/// `None`: it was queued before the tracker recorded events.
pub(crate) fn round(events: &[TicketEvent], queue: &str) -> Option<EventId> {
    crate::model::ticket::newest_labeled(events, queue).map(|event| event.id.clone())
}

/// What the events show about a gate that said "ours".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Takeoff {
    /// Not in the list yet: look again.
    NotYet,
    /// The one event that took the queue label off in this round: ours.
    Ours(EventId),
    /// So many took it off; nobody can say whose is whose. Stay, report, re-add nothing.
    Several(usize),
    /// Somebody queued it again in the meantime: another round.
    Requeued,
}

/// After [`GateTaken::Ours`](crate::model::ticket::GateTaken): which event was it?
/// `began` is the round the claim was made for.
pub(crate) fn takeoff(events: &[TicketEvent], queue: &str, began: Option<&EventId>) -> Takeoff {
    let start = position_labeled(events, queue);
    // A list that does not show the beginning lags; so did the one in which there was
    // none, if there is one now, and then it may as well be another round's.
    let shows = |began: &EventId| events.iter().any(|event| event.id == *began);
    if began.map_or(start.is_some(), |began| !shows(began)) {
        return Takeoff::NotYet;
    }
    if start.map(|start| &events[start].id) != began {
        return Takeoff::Requeued;
    }
    let since = &events[start.map_or(0, |start| start + 1)..];
    let mut off = since.iter().filter(|event| is_off(event, queue));
    match (off.next(), off.count()) {
        (None, _) => Takeoff::NotYet,
        (Some(event), 0) => Takeoff::Ours(event.id.clone()),
        (Some(_), more) => Takeoff::Several(more + 1),
    }
}

/// What the events show about a working label that we put on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorkingEvent {
    /// Not in the list yet: look again.
    NotYet,
    /// The only event that put it on since ours began: the claim's own.
    Ours(EventId),
    /// So many put it on; ours cannot be told from theirs.
    Several(usize),
    /// Somebody queued the ticket since: another round, and perhaps another winner.
    Requeued,
}

/// Under one login shared by everybody, ours is the only working event after what
/// we won by: our gate event, or the beginning of the round that our marker leads.
/// `since` `None`: from the first event on.
pub(crate) fn working_event(
    events: &[TicketEvent],
    queue: &str,
    working: &str,
    since: Option<&EventId>,
    arbiter: Arbiter,
) -> WorkingEvent {
    let start = match since {
        None => 0,
        // The last event with that id: one write may give one id to several.
        Some(id) => match events.iter().rposition(|event| event.id == *id) {
            Some(position) => position + 1,
            None => return WorkingEvent::NotYet,
        },
    };
    let since = &events[start..];
    if since.iter().any(|event| is_on(event, queue)) {
        return WorkingEvent::Requeued;
    }
    // Comments and refs have one winner until that one gives up: what came on and went off again is
    // over. Of two that passed a gate neither can say that.
    let over = since.iter().rposition(|event| is_off(event, working)).map_or(0, |off| off + 1);
    let since =
        if matches!(arbiter, Arbiter::CommentOrder | Arbiter::GitRef) { &since[over..] } else { since };
    let mut on = since.iter().filter(|event| is_on(event, working));
    match (on.next(), on.count()) {
        (None, _) => WorkingEvent::NotYet,
        (Some(event), 0) => WorkingEvent::Ours(event.id.clone()),
        (Some(_), more) => WorkingEvent::Several(more + 1),
    }
}

/// Did somebody put the queue label on after this event? Without the event, anything counts.
pub(crate) fn queued_since(events: &[TicketEvent], queue: &str, since: Option<&EventId>) -> bool {
    let start = since.and_then(|id| events.iter().rposition(|event| event.id == *id)).map_or(0, |at| at + 1);
    events[start..].iter().any(|event| is_on(event, queue))
}

/// The newest working event, where its actor is the one that only our claim signs
/// with (trackers that record who writes as we say it).
pub(crate) fn signed(events: &[TicketEvent], working: &str, actor: &str) -> Option<EventId> {
    let newest = crate::model::ticket::newest_labeled(events, working)?;
    (newest.actor == actor).then(|| newest.id.clone())
}

/// May a gate of ours be undone: is our event still the newest of the queue label,
/// and did nobody put another label of ours on since? `managed` has the queue label first.
pub(crate) fn may_undo(events: &[TicketEvent], managed: &[&str], ours: &EventId) -> bool {
    let [queue, others @ ..] = managed else { return false };
    let of_queue = |event: &TicketEvent| is_on(event, queue) || is_off(event, queue);
    let Some(newest) = events.iter().rposition(of_queue) else { return false };
    let unlabelled = is_off(&events[newest], queue) && events[newest].id == *ours;
    let moved = |event: &TicketEvent| others.iter().any(|label| is_on(event, label));
    unlabelled && !events[newest + 1..].iter().any(moved)
}

/// Is an intent that was left over provably unused: the ticket is still queued, or
/// the last time somebody took the queue label off was before it? `began` is the
/// round at the intent, where it was recorded; times decide only without it.
pub(crate) fn intent_unused(
    ticket: &Ticket,
    events: &[TicketEvent],
    queue: &str,
    began: Option<&EventId>,
    intent_at: WallTime,
) -> bool {
    if ticket.has(queue) {
        return true;
    }
    let Some(off) = events.iter().rposition(|event| is_off(event, queue)) else { return false };
    if let Some(began) = began {
        return events.iter().rposition(|event| event.id == *began).is_some_and(|began| off < began);
    }
    // Clearly before, because two clocks are compared.
    let before = events[off].at.and_then(|off| off.age(intent_at));
    before.is_some_and(|before| before > CLOCK_MARGIN)
}

/// What the comments of a round say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Our marker is the lowest.
    Won,
    /// Another one is lower.
    Lost {
        /// Its nonce.
        nonce: String,
        /// Its machine, for people; escape before printing.
        host: String,
        /// When it was written, by the tracker's clock.
        at: Option<WallTime>,
    },
    /// Our marker is not in the list (yet), or it is void.
    Missing,
}

/// Who leads the round. A marker counts when it names the round and is not void;
/// void is what its own author declared so. A loser makes its own marker void
/// after it has looked, so that one that stays never leads a round nobody works on.
pub(crate) fn order(comments: &[Comment], round: Option<&EventId>, nonce: &str) -> Order {
    let mut standing = markers(comments, round);
    if !standing.iter().any(|(_, own, _)| own == nonce) {
        return Order::Missing;
    }
    let (comment, lowest, host) = standing.swap_remove(0);
    if lowest == nonce { Order::Won } else { Order::Lost { nonce: lowest, host, at: comment.at } }
}

/// Does any marker stand in this round?
pub(crate) fn is_contested(comments: &[Comment], round: Option<&EventId>) -> bool {
    !markers(comments, round).is_empty()
}

/// The standing markers of a round, lowest first: comment, nonce.
pub(crate) fn standing(comments: &[Comment], round: Option<&EventId>) -> Vec<(u64, String)> {
    markers(comments, round).into_iter().map(|(comment, nonce, _)| (comment.id, nonce)).collect()
}

/// The comments that hold this nonce's marker, in any round: one, or more when an
/// answer was lost.
pub(crate) fn own_markers(comments: &[Comment], nonce: &str) -> Vec<u64> {
    let own = |comment: &&Comment| matches!(Marker::parse(&comment.body), Some(Marker::Claim { nonce: own, .. }) if own == nonce);
    comments.iter().filter(own).map(|comment| comment.id).collect()
}

/// The standing markers of a round, lowest first: comment, nonce, host.
fn markers<'a>(comments: &'a [Comment], wanted: Option<&EventId>) -> Vec<(&'a Comment, String, String)> {
    let parsed: Vec<(&Comment, Marker)> =
        comments.iter().filter_map(|comment| Some((comment, Marker::parse(&comment.body)?))).collect();
    let is_void = |author: &str, nonce: &str| {
        parsed.iter().any(|(comment, marker)| {
            matches!(marker, Marker::Void { nonce: void } if void == nonce) && comment.author == author
        })
    };
    let standing = parsed.iter().filter_map(|(comment, marker)| match marker {
        Marker::Claim { nonce, round, host }
            if round.as_ref() == wanted && !is_void(&comment.author, nonce) =>
        {
            Some((*comment, nonce.clone(), host.clone()))
        }
        _ => None,
    });
    let mut standing: Vec<_> = standing.collect();
    standing.sort_by_key(|(comment, ..)| comment.id);
    standing
}

fn position_labeled(events: &[TicketEvent], label: &str) -> Option<usize> {
    events.iter().rposition(|event| is_on(event, label))
}

fn is_on(event: &TicketEvent, label: &str) -> bool {
    matches!(&event.what, TicketChange::Labeled(on) if on == label)
}

fn is_off(event: &TicketEvent, label: &str) -> bool {
    matches!(&event.what, TicketChange::Unlabeled(off) if off == label)
}

#[cfg(test)]
#[path = "arbitrate_tests.rs"]
mod tests;
