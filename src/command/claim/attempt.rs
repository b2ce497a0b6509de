//! One try for a ticket whose record stands here: how it swaps the labels, finds the
//! event by which the working label came on, and becomes its owner's. Who may have the
//! ticket is decided one floor up, in `race`.

use super::facts::uncontested;
use super::{Claims, attrs};
use crate::error::{Error, Kind};
use crate::model::claim::{Attrs, Phase};
use crate::model::identity::ProcessIdentity;
use crate::model::name::LockName;
use crate::model::stage::CLAIMED;
use crate::model::ticket::{EventId, Expect, Key, Swap, Swapped, Ticket, TicketEvent};
use crate::tracker::Failure;
use crate::verdict::arbitrate;
use crate::verdict::gated::queued_over;
use crate::verdict::ownership::Credential;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Between two looks, at first.
const LOOK: Duration = Duration::from_millis(200);

/// How an attempt ended that did not win.
pub(super) enum NotWon {
    /// Somebody else has it, or it left the queue. Nothing of ours is on it.
    Lost(String),
    /// It failed, and nothing of ours is on the ticket.
    Undone(Error),
    /// It failed, and something of ours may be on the ticket: the record stays.
    Open(Error),
}

/// An attempt whose record stands.
pub(super) struct ClaimAttempt<'a> {
    pub(super) claims: &'a Claims,
    pub(super) key: &'a Key,
    pub(super) name: &'a LockName,
    pub(super) token: u64,
    pub(super) nonce: String,
    /// Whose the claim becomes.
    pub(super) owners: &'a [ProcessIdentity],
    pub(super) round: Option<EventId>,
    pub(super) stage: Option<&'a str>,
    /// Labels of the time before the ticket was queued again: they go with the claim.
    pub(super) left_over: Vec<String>,
}

impl ClaimAttempt<'_> {
    /// Takes the queue label off and puts the working label on, in one write where the tracker can.
    pub(super) fn swap(&self) -> Result<Option<EventId>, NotWon> {
        let labels = &self.claims.settings.labels;
        let [queue, working, ci_wait, ..] = labels.managed();
        let mut add = vec![working.to_owned()];
        if self.claims.tracker.can().conditional {
            // The same write: it cannot fail on its own.
            add.extend(self.stage_and_host());
        }
        let swap = Swap {
            add,
            remove: std::iter::once(queue.to_owned()).chain(self.left_over.clone()).collect(),
            expect: Expect {
                has: vec![queue.to_owned()],
                lacks: [working, ci_wait].map(str::to_owned).to_vec(),
                open: Some(true),
                mark: None,
            },
            signature: Some(self.nonce.clone()),
        };
        match self.claims.tracker.swap(self.key, &swap) {
            Ok(Swapped::Done(mark)) => self.working_event(mark, self.round.as_ref()),
            Ok(Swapped::Changed(why)) => Err(NotWon::Lost(why)),
            Ok(Swapped::Unconfirmed(why)) => Err(NotWon::Open(self.unclear(&why))),
            Err(failure) => Err(NotWon::Undone(failure.into())),
        }
    }

    /// The event by which we put the working label on.
    pub(super) fn working_event(
        &self,
        told: Option<EventId>,
        since: Option<&EventId>,
    ) -> Result<Option<EventId>, NotWon> {
        let can = self.claims.tracker.can();
        if told.is_some() || !can.event_ids {
            return Ok(told);
        }
        let labels = &self.claims.settings.labels;
        let working = &labels.working;
        let found = self.look(|| {
            let events = self.claims.tracker.events(self.key)?;
            if let Some(id) = arbitrate::signed(&events, working, &self.nonce) {
                return Ok(Some(Ok(id)));
            }
            Ok(match arbitrate::working_event(&events, &labels.queue, working, since, self.claims.arbiter) {
                arbitrate::WorkingEvent::NotYet => None,
                arbitrate::WorkingEvent::Ours(id) => Some(Ok(id)),
                arbitrate::WorkingEvent::Requeued => {
                    Some(match uncontested(self.claims, self.key, &events)? {
                        Some(id) => Ok(id),
                        None => Err(self.queued_over(&events, since)),
                    })
                }
                arbitrate::WorkingEvent::Several(times) => {
                    Some(Err(NotWon::Open(self.unclear(&format!("{working} was put on {times} times")))))
                }
            })
        });
        match found {
            Ok(Some(Ok(id))) => Ok(Some(id)),
            Ok(Some(Err(end))) => Err(end),
            Ok(None) => Err(NotWon::Open(self.unclear(&format!("its events do not show {working}")))),
            Err(failure) => Err(NotWon::Open(self.unclear(&failure.to_string()))),
        }
    }

    /// Won: the claim becomes its owner's.
    pub(super) fn keep(&self, mark: Option<EventId>, owners: &[ProcessIdentity]) -> Result<Attrs, NotWon> {
        self.claims.log_stage(self.key, CLAIMED, self.token);
        if let Some(stage) = self.stage {
            self.claims.log_stage(self.key, stage, self.token);
        }
        let mark = mark.map_or(Value::Null, |id| json!(id.0));
        let held = [("state", json!(Phase::Held.as_str())), ("mark", mark.clone())];
        match self.note(&[("owners", json!(owners))], &held) {
            Ok(Some(mut attrs)) => {
                attrs.state = Phase::Held;
                attrs.working_event = mark.as_str().map(str::to_owned);
                Ok(attrs)
            }
            Ok(None) => Err(NotWon::Open(self.unclear("its record here was released by somebody"))),
            Err(error) => Err(NotWon::Open(error)),
        }
    }

    /// Writes down how far we came; gives the attrs as they were before.
    pub(super) fn note(
        &self,
        fields: &[(&str, Value)],
        attrs: &[(&str, Value)],
    ) -> Result<Option<Attrs>, Error> {
        let stored = self.claims.store.amend(self.name, &Credential::Token(self.token), fields, attrs)?;
        Ok(stored.map(|stored| self::attrs(&stored.record)))
    }

    fn stage_and_host(&self) -> Vec<String> {
        let labels = &self.claims.settings.labels;
        let host = Some(&self.claims.settings.host).filter(|host| !host.is_empty());
        let host = host.map(|host| labels.host(host));
        host.into_iter().chain(self.stage.map(|stage| labels.stage(stage))).collect()
    }

    /// Host and stage labels. Their failure never fails a claim.
    pub(super) fn decorate(&self, mark: Option<EventId>) {
        let add = self.stage_and_host();
        if self.claims.tracker.can().conditional || add.is_empty() {
            return;
        }
        let working = &self.claims.settings.labels.working;
        let expect = Expect {
            has: vec![working.clone()],
            mark: mark.map(|id| (working.clone(), id)),
            ..Expect::default()
        };
        let swap = Swap { add, expect, ..Swap::default() };
        match self.claims.tracker.swap(self.key, &swap) {
            Ok(Swapped::Done(_)) => {}
            Ok(Swapped::Changed(why) | Swapped::Unconfirmed(why)) => {
                self.claims.report.detail(&format!("{}: host and stage labels: {why}", self.key));
            }
            Err(failure) => {
                self.claims.report.detail(&format!("{}: host and stage labels: {failure}", self.key));
            }
        }
    }

    /// Looks again and again until there is something, for as long as a tracker may take.
    pub(super) fn look<T>(
        &self,
        mut at: impl FnMut() -> Result<Option<T>, Failure>,
    ) -> Result<Option<T>, Failure> {
        let end = Instant::now() + self.claims.settings.settle;
        let mut pause = LOOK;
        loop {
            let found = match at() {
                Err(failure) if failure.is_passing() && Instant::now() < end => None,
                other => other?,
            };
            if found.is_some() || Instant::now() >= end {
                return Ok(found);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_secs(5));
        }
    }

    pub(super) fn unclear(&self, why: &str) -> Error {
        Error::new(Kind::CannotTell, format!("{}: cannot tell whether it was won: {why}", self.key))
            .hint("the next reconcile pass looks again")
    }

    /// The ticket as it is now.
    pub(super) fn now(&self) -> Result<Ticket, Failure> {
        self.claims.tracker.ticket(self.key)
    }

    /// A person queued the ticket again between our gate and our working label: that
    /// person is right, and our label goes.
    pub(super) fn queued_over(&self, events: &[TicketEvent], gate: Option<&EventId>) -> NotWon {
        let why = "somebody queued it again meanwhile";
        let labels = &self.claims.settings.labels;
        let ours = gate.and_then(|gate| queued_over(events, &labels.queue, &labels.working, gate));
        let Some(mark) = ours else { return NotWon::Open(self.unclear(why)) };
        let expect = Expect { mark: Some((labels.working.clone(), mark)), ..Expect::default() };
        let swap = Swap { remove: vec![labels.working.clone()], expect, ..Swap::default() };
        match self.claims.tracker.swap(self.key, &swap) {
            Ok(Swapped::Done(_) | Swapped::Changed(_)) => NotWon::Lost(why.to_owned()),
            _ => NotWon::Open(self.unclear(why)),
        }
    }

    /// Is the ticket where somebody else put it?
    pub(super) fn went_on(&self) -> bool {
        let labels = &self.claims.settings.labels;
        let moved = |label: &&str| !self.left_over.iter().any(|old| old == label);
        self.now().is_ok_and(|now| {
            now.closed || labels.managed().iter().filter(|label| moved(label)).any(|label| now.has(label))
        })
    }
}
