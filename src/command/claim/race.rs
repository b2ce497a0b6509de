//! The arbiters that need more than the swap itself: the gate, the comments, the
//! ref. TicketChange a loser put on the ticket it takes off again.

use super::win::{Attempt, End};
use crate::error::{Error, Kind};
use crate::model::claim::Phase;
use crate::model::duration;
use crate::model::marker::Marker;
use crate::model::ticket::{EventId, Expect, GateTaken, Swap, Swapped, TicketEvent};
use crate::os::clock;
use crate::report::escape;
use crate::tracker::git_ref::Pushed;
use crate::verdict::arbitrate::{self, Gate, Order};
use crate::verdict::gated::queued_over;
use serde_json::json;
use std::time::Duration;

/// A winner that has not put working on by then is reported.
const SLOW_WINNER: Duration = Duration::from_secs(600);

impl Attempt<'_> {
    /// Takes the queue label off: whoever is told "ours" goes on. Gives the event.
    pub(super) fn pass_gate(&self) -> Result<EventId, End> {
        let queue = &self.claims.settings.labels.queue;
        match self.claims.tracker.take(self.key, queue) {
            Ok(GateTaken::Ours) => {}
            Ok(GateTaken::Gone) => return Err(End::Lost(format!("somebody else took {queue} off"))),
            Ok(GateTaken::Unclear(why)) => return Err(End::Open(self.unclear(&why))),
            Err(failure) => return Err(End::Undone(failure.into())),
        }
        // At once, before the event is known: a kill before this line strands the ticket, and says so.
        self.note(&[], &[("state", json!(Phase::Gated.as_str()))]).map_err(End::Open)?;
        let found = self.look(|| {
            let events = self.claims.tracker.events(self.key)?;
            Ok(match arbitrate::gate(&events, queue, self.round.as_ref()) {
                Gate::NotYet => None,
                gate => Some(gate),
            })
        });
        match found {
            Ok(Some(Gate::Ours(id))) => {
                self.note(&[], &[("gate", json!(id.0))]).map_err(End::Open)?;
                Ok(id)
            }
            // A list that lags may say so too: a label that we took off is not forgotten for that.
            Ok(Some(Gate::Requeued)) if self.went_on() => {
                Err(End::Lost("somebody queued it again in the meantime".into()))
            }
            Ok(Some(Gate::Requeued)) => Err(End::Open(self.unclear("somebody queued it again meanwhile"))),
            Ok(Some(Gate::Several(times))) => {
                Err(End::Open(self.unclear(&format!("{queue} was taken off {times} times in this round"))))
            }
            Ok(Some(Gate::NotYet) | None) => {
                Err(End::Open(self.unclear(&format!("its events do not show who took {queue} off"))))
            }
            Err(failure) => Err(End::Open(self.unclear(&failure.to_string()))),
        }
    }

    /// Working on, after the gate.
    pub(super) fn swap_behind_gate(&self, gate: &EventId) -> Result<Option<EventId>, End> {
        let labels = &self.claims.settings.labels;
        let swap = Swap {
            add: vec![labels.working.clone()],
            remove: Vec::new(),
            expect: Expect {
                lacks: labels.managed().map(str::to_owned).to_vec(),
                open: Some(true),
                ..Expect::default()
            },
            signature: Some(self.nonce.clone()),
        };
        match self.claims.tracker.swap(self.key, &swap) {
            Ok(Swapped::Done(mark)) => self.mark(mark, Some(gate)),
            Ok(Swapped::Unconfirmed(why)) => Err(End::Open(self.unclear(&why))),
            Ok(Swapped::Changed(why)) => Err(self.undo_gate(gate, Error::new(Kind::Lost, self.lost(&why)))),
            Err(failure) => Err(self.undo_gate(gate, failure.into())),
        }
    }

    /// Is the ticket where somebody else put it?
    fn went_on(&self) -> bool {
        let labels = &self.claims.settings.labels;
        self.now().is_ok_and(|now| now.closed || labels.managed().iter().any(|label| now.has(label)))
    }

    /// A person queued the ticket again between our gate and our working label: that
    /// person is right, and our label goes.
    pub(super) fn queued_over(&self, events: &[TicketEvent], gate: Option<&EventId>) -> End {
        let why = "somebody queued it again meanwhile";
        let labels = &self.claims.settings.labels;
        let ours = gate.and_then(|gate| queued_over(events, &labels.queue, &labels.working, gate));
        let Some(mark) = ours else { return End::Open(self.unclear(why)) };
        let expect = Expect { mark: Some((labels.working.clone(), mark)), ..Expect::default() };
        let swap = Swap { remove: vec![labels.working.clone()], expect, ..Swap::default() };
        match self.claims.tracker.swap(self.key, &swap) {
            Ok(Swapped::Done(_) | Swapped::Changed(_)) => End::Lost(why.to_owned()),
            _ => End::Open(self.unclear(why)),
        }
    }

    /// Puts the queue label back, if nobody touched it since.
    fn undo_gate(&self, gate: &EventId, error: Error) -> End {
        let labels = &self.claims.settings.labels;
        let Ok(events) = self.claims.tracker.events(self.key) else { return End::Open(error) };
        if !arbitrate::may_undo(&events, &labels.queue, &labels.working, gate) {
            // Somebody else's turn: then nothing of ours is on it. Otherwise nobody may put it back by himself.
            return if self.went_on() { End::Undone(error) } else { End::Open(error) };
        }
        let [_, others @ ..] = labels.managed();
        let swap = Swap {
            add: vec![labels.queue.clone()],
            expect: Expect { lacks: others.map(str::to_owned).to_vec(), ..Expect::default() },
            ..Swap::default()
        };
        match self.claims.tracker.swap(self.key, &swap) {
            Ok(Swapped::Done(_)) => End::Undone(error),
            _ => End::Open(error),
        }
    }

    /// Writes a marker and waits until the comments say whose is the lowest.
    pub(super) fn lead_comments(&self) -> Result<(), End> {
        let tracker = &self.claims.tracker;
        let host = self.claims.settings.host.split_whitespace().collect::<Vec<_>>().join("-");
        let host = if host.is_empty() { "?".to_owned() } else { host };
        let marker = Marker::Claim { nonce: self.nonce.clone(), round: self.round.clone(), host };
        if let Err(failure) = tracker.comment(self.key, &marker.body()) {
            let open = failure.may_be_applied();
            let error = Error::from(failure);
            return Err(if open { End::Open(error) } else { End::Undone(error) });
        }
        let found = self.look(|| {
            let order = arbitrate::order(&tracker.comments(self.key)?, self.round.as_ref(), &self.nonce);
            Ok(Some(order).filter(|order| order != &Order::Missing))
        });
        match found {
            Ok(Some(Order::Won)) => Ok(()),
            Ok(Some(Order::Lost { host, at, .. })) => {
                let host = escape(host.as_bytes(), 60);
                let age = at.and_then(|at| at.age(clock::wall())).unwrap_or_default();
                let slow = age > SLOW_WINNER
                    && self.now().is_ok_and(|ticket| self.claims.settings.labels.in_queue(&ticket));
                let end = if slow {
                    let age = duration::show(age);
                    let message = format!("{}: {host} won it {age} ago and has not taken it since", self.key);
                    End::Undone(Error::new(Kind::CannotTell, message).hint(
                        "its own reconcile pass heals that; if the machine is gone, delete its comment",
                    ))
                } else {
                    End::Lost(format!("{host} was first"))
                };
                Err(self.void_marker(end))
            }
            Ok(Some(Order::Missing) | None) => Err(End::Open(self.unclear("its comments do not show ours"))),
            Err(failure) => Err(End::Open(self.unclear(&failure.to_string()))),
        }
    }

    /// Whoever does not work on it must not lead the round.
    pub(super) fn void_marker(&self, end: End) -> End {
        if matches!(end, End::Open(_)) {
            return end;
        }
        match self.void_own_marker() {
            Ok(()) => end,
            // The record stays, so that the next pass makes it void.
            Err(failure) => End::Open(Error::new(
                Kind::CannotTell,
                format!("{}: lost, and our marker could not be made void: {failure}", self.key),
            )),
        }
    }

    fn void_own_marker(&self) -> Result<(), crate::tracker::Failure> {
        let comments = self.claims.tracker.comments(self.key)?;
        for comment in arbitrate::own_markers(&comments, &self.nonce) {
            self.claims.tracker.void(self.key, comment, &self.nonce)?;
        }
        Ok(())
    }

    /// Creates the ref of the ticket.
    pub(super) fn take_ref(&self) -> Result<String, End> {
        let Some(git) = &self.claims.git else {
            return Err(End::Undone(Error::config("the arbiter git-ref needs a remote")));
        };
        let record = json!({
            "key": self.key.as_str(),
            "nonce": self.nonce,
            "host": self.claims.settings.host,
            "token": self.token,
            "at": clock::wall().rfc3339(),
        });
        match git.create(self.key, record.to_string().as_bytes()) {
            Ok(Pushed::Ours(id)) => Ok(id),
            Ok(Pushed::Theirs(_)) => {
                Err(End::Lost("somebody else has its ref; if nobody does: orion-claim free".into()))
            }
            Err(failure) if failure.may_be_applied() => Err(End::Open(self.unclear(&failure.to_string()))),
            Err(failure) => Err(End::Undone(failure.into())),
        }
    }

    /// Gives the ref back after a swap that did not come.
    pub(super) fn give_ref_back(&self, id: &str, end: End) -> End {
        let Some(git) = &self.claims.git else { return end };
        if matches!(end, End::Open(_)) {
            return end;
        }
        match git.delete(self.key, id) {
            Ok(_) => end,
            Err(failure) => End::Open(Error::from(failure)),
        }
    }

    fn lost(&self, why: &str) -> String {
        format!("{} was not won: {why}", self.key)
    }
}
