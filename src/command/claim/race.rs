//! Who gets the ticket: the swap itself, or before it the gate, the comments or the
//! ref. What a loser put on the ticket it takes off again.

use super::attempt::{ClaimAttempt, NotWon};
use super::undo;
use crate::error::{Error, Kind};
use crate::model::arbiter::Arbiter;
use crate::model::claim::Phase;
use crate::model::duration;
use crate::model::marker::Marker;
use crate::model::ticket::{EventId, Expect, GateTaken, Swap, Swapped};
use crate::os::clock;
use crate::report::escape;
use crate::tracker::git_ref::Pushed;
use crate::verdict::arbitrate::{self, Order, Takeoff};
use serde_json::json;
use std::time::Duration;

/// A winner that has not put working on by then is reported.
const SLOW_WINNER: Duration = Duration::from_secs(600);

impl ClaimAttempt<'_> {
    /// Lets the arbiter decide and swaps the labels. Gives the event that put working on, where the tracker has any.
    pub(super) fn decide(&self) -> Result<Option<EventId>, NotWon> {
        match self.claims.arbiter {
            Arbiter::LabelGate => {
                let gate = self.pass_gate()?;
                self.swap_behind_gate(&gate)
            }
            Arbiter::CommentOrder => {
                self.lead_comments()?;
                self.swap().map_err(|end| self.void_marker(end))
            }
            Arbiter::GitRef => {
                self.take_ref()?;
                self.swap().map_err(|end| self.give_ref_back(end))
            }
            Arbiter::Database => {
                self.take_row()?;
                self.swap().map_err(|end| self.give_ref_back(end))
            }
            Arbiter::Guard | Arbiter::None => self.swap(),
        }
    }

    /// Takes the queue label off: whoever is told "ours" goes on. Gives the event.
    fn pass_gate(&self) -> Result<EventId, NotWon> {
        let queue = &self.claims.settings.labels.queue;
        match self.claims.tracker.take(self.key, queue) {
            Ok(GateTaken::Ours) => {}
            Ok(GateTaken::Gone) => return Err(NotWon::Lost(format!("somebody else took {queue} off"))),
            Ok(GateTaken::Unclear(why)) => return Err(NotWon::Open(self.unclear(&why))),
            Err(failure) => return Err(NotWon::Undone(failure.into())),
        }
        // At once, before the event is known: a kill before this line strands the ticket, and says so.
        self.note(&[], &[("state", json!(Phase::Gated.as_str()))]).map_err(NotWon::Open)?;
        let found = self.look(|| {
            let events = self.claims.tracker.events(self.key)?;
            Ok(match arbitrate::takeoff(&events, queue, self.round.as_ref()) {
                Takeoff::NotYet => None,
                gate => Some(gate),
            })
        });
        match found {
            Ok(Some(Takeoff::Ours(id))) => {
                self.note(&[], &[("gate", json!(id.0))]).map_err(NotWon::Open)?;
                Ok(id)
            }
            // A list that lags may say so too: a label that we took off is not forgotten for that.
            Ok(Some(Takeoff::Requeued)) if self.went_on() => {
                Err(NotWon::Lost("somebody queued it again in the meantime".into()))
            }
            Ok(Some(Takeoff::Requeued)) => {
                Err(NotWon::Open(self.unclear("somebody queued it again meanwhile")))
            }
            Ok(Some(Takeoff::Several(times))) => {
                Err(NotWon::Open(self.unclear(&format!("{queue} was taken off {times} times in this round"))))
            }
            Ok(Some(Takeoff::NotYet) | None) => {
                Err(NotWon::Open(self.unclear(&format!("its events do not show who took {queue} off"))))
            }
            Err(failure) => Err(NotWon::Open(self.unclear(&failure.to_string()))),
        }
    }

    /// Puts the working label on, after the gate.
    fn swap_behind_gate(&self, gate: &EventId) -> Result<Option<EventId>, NotWon> {
        let labels = &self.claims.settings.labels;
        let swap = Swap {
            add: vec![labels.working.clone()],
            remove: self.left_over.clone(),
            expect: Expect {
                lacks: [&labels.queue, &labels.working, &labels.ci_wait].map(Clone::clone).to_vec(),
                open: Some(true),
                ..Expect::default()
            },
            signature: Some(self.nonce.clone()),
        };
        match self.claims.tracker.swap(self.key, &swap) {
            Ok(Swapped::Done(mark)) => self.working_event(mark, Some(gate)),
            Ok(Swapped::Unconfirmed(why)) => Err(NotWon::Open(self.unclear(&why))),
            Ok(Swapped::Changed(why)) => {
                Err(self.undo_gate(gate, Error::new(Kind::Lost, format!("{} was not won: {why}", self.key))))
            }
            Err(failure) => Err(self.undo_gate(gate, failure.into())),
        }
    }

    /// Puts the queue label back, if nobody touched it since.
    fn undo_gate(&self, gate: &EventId, error: Error) -> NotWon {
        let labels = &self.claims.settings.labels;
        let Ok(events) = self.claims.tracker.events(self.key) else { return NotWon::Open(error) };
        if !arbitrate::may_undo(&events, &labels.managed(), gate) {
            // Somebody else's turn: then nothing of ours is on it. Otherwise nobody may put it back by himself.
            return if self.went_on() { NotWon::Undone(error) } else { NotWon::Open(error) };
        }
        match undo::queue_back(self.claims, self.key) {
            Ok(Swapped::Done(_)) => NotWon::Undone(error),
            _ => NotWon::Open(error),
        }
    }

    /// Writes a marker and waits until the comments say whose is the lowest.
    fn lead_comments(&self) -> Result<(), NotWon> {
        let tracker = &self.claims.tracker;
        let host = self.claims.settings.host.split_whitespace().collect::<Vec<_>>().join("-");
        let host = if host.is_empty() { "?".to_owned() } else { host };
        let marker = Marker::Claim { nonce: self.nonce.clone(), round: self.round.clone(), host };
        if let Err(failure) = tracker.comment(self.key, &marker.body()) {
            let open = failure.may_be_applied();
            let error = Error::from(failure);
            return Err(if open { NotWon::Open(error) } else { NotWon::Undone(error) });
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
                    NotWon::Undone(Error::new(Kind::CannotTell, message).hint(
                        "its own reconcile pass heals that; if the machine is gone, delete its comment",
                    ))
                } else {
                    NotWon::Lost(format!("{host} was first"))
                };
                Err(self.void_marker(end))
            }
            Ok(Some(Order::Missing) | None) => {
                Err(NotWon::Open(self.unclear("its comments do not show ours")))
            }
            Err(failure) => Err(NotWon::Open(self.unclear(&failure.to_string()))),
        }
    }

    /// Whoever does not work on it must not lead the round.
    fn void_marker(&self, end: NotWon) -> NotWon {
        if matches!(end, NotWon::Open(_)) {
            return end;
        }
        match undo::void_markers(self.claims, self.key, &self.nonce) {
            Ok(()) => end,
            // The record stays, so that the next pass makes it void.
            Err(failure) => NotWon::Open(Error::new(
                Kind::CannotTell,
                format!("{}: lost, and our marker could not be made void: {failure}", self.key),
            )),
        }
    }

    /// Creates the ref of the ticket.
    fn take_ref(&self) -> Result<(), NotWon> {
        let Some(git) = &self.claims.git else {
            return Err(NotWon::Undone(Error::config("the arbiter git-ref needs a remote")));
        };
        let record = json!({
            "key": self.key.as_str(),
            "nonce": self.nonce,
            "host": self.claims.settings.host,
            "token": self.token,
            "at": clock::wall().rfc3339(),
        });
        match git.create(self.key, record.to_string().as_bytes()) {
            Ok(Pushed::Ours(_)) => Ok(()),
            Ok(Pushed::Theirs(_)) => {
                Err(NotWon::Lost("somebody else has its ref; if nobody does: orion-claim free".into()))
            }
            Err(failure) if failure.may_be_applied() => Err(NotWon::Open(self.unclear(&failure.to_string()))),
            Err(failure) => Err(NotWon::Undone(failure.into())),
        }
    }

    /// Takes the ticket's row, where nobody took it for us.
    fn take_row(&self) -> Result<(), NotWon> {
        let Some(rows) = &self.claims.rows else {
            return Err(NotWon::Undone(Error::config("the arbiter needs a database")));
        };
        if rows.own(self.key).is_some() {
            return Ok(());
        }
        let owner =
            self.owners.first().ok_or_else(|| NotWon::Undone(Error::usage("a claim needs an owner")))?;
        match rows.take(self.key, &self.nonce, self.token, owner) {
            Ok(()) => Ok(()),
            Err(error) if matches!(error.kind(), Kind::Held | Kind::BeingTaken) => {
                Err(NotWon::Lost(error.message().to_owned()))
            }
            // It may have been taken, and the answer was lost: the next pass gives it back.
            Err(error) if error.kind() == Kind::Unreachable => Err(NotWon::Open(error)),
            Err(error) => Err(NotWon::Undone(error)),
        }
    }

    /// Gives the ref or the row back after a swap that did not come.
    fn give_ref_back(&self, end: NotWon) -> NotWon {
        if matches!(end, NotWon::Open(_)) {
            return end;
        }
        match undo::give_ref_back(self.claims, self.key, &self.nonce) {
            Ok(()) => end,
            Err(failure) => NotWon::Open(Error::from(failure)),
        }
    }
}
