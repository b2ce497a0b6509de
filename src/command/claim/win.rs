//! Claiming one ticket: our record first, then whoever decides, then the labels,
//! then the ticket itself read again. A kill between any two steps leaves a state
//! that the reconcile pass knows.

use super::facts::uncontested;
use super::{Claims, attrs, repair};
use crate::cli::claim::Work;
use crate::command::store::{Acquired, Judged, Outcome, PulseWish, Request, Terms, event_of};
use crate::command::tell;
use crate::error::{Error, Kind};
use crate::model::arbiter::Arbiter;
use crate::model::claim::{Attrs, LOST, Phase};
use crate::model::identity::ProcessIdentity;
use crate::model::name::LockName;
use crate::model::stage::CLAIMED;
use crate::model::ticket::{EventId, Expect, Key, Swap, Swapped, Ticket};
use crate::os::pulse::Pulse;
use crate::os::random;
use crate::tracker::Failure;
use crate::verdict::arbitrate;
use crate::verdict::liveness::State;
use crate::verdict::ownership::Right;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Between two looks, at first.
const LOOK: Duration = Duration::from_millis(200);

/// What is to be claimed, and for whom.
pub(super) struct Wish<'a> {
    pub(super) key: &'a Key,
    pub(super) name: &'a LockName,
    /// Whose the claim becomes once it is won. Until then it is this process's, so
    /// that a claim cut short is a dead one.
    pub(super) owners: Vec<ProcessIdentity>,
    pub(super) via: &'static str,
    pub(super) work: &'a Work,
    pub(super) pulse: bool,
    pub(super) stage: Option<&'a str>,
}

/// A ticket that is ours.
pub(super) struct Won {
    pub(super) token: u64,
    pub(super) attrs: Attrs,
    pub(super) pulse: Option<Pulse>,
}

/// How an attempt ended that did not win.
pub(super) enum End {
    /// Somebody else has it, or it left the queue. Nothing of ours is on it.
    Lost(String),
    /// It failed, and nothing of ours is on the ticket.
    Undone(Error),
    /// It failed, and something of ours may be on the ticket: the record stays.
    Open(Error),
}

/// An attempt whose record stands.
pub(super) struct Attempt<'a> {
    pub(super) claims: &'a Claims,
    pub(super) key: &'a Key,
    pub(super) name: &'a LockName,
    pub(super) token: u64,
    pub(super) nonce: String,
    pub(super) round: Option<EventId>,
    stage: Option<&'a str>,
}

/// Claims it, or says why not.
///
/// # Errors
/// SKIP kinds when somebody else has it or it is not in the queue, UNAVAILABLE kinds when nobody can tell.
pub(super) fn claim(claims: &Claims, wish: &Wish<'_>) -> Result<Won, Error> {
    let mut ticket = claims.tracker.ticket(wish.key)?;
    if !claims.settings.labels.in_queue(&ticket) && claims.store.look(wish.name).state() == &State::Dead {
        // A dead run of ours may be all that keeps it out of the queue.
        let healed = repair::heal(claims, wish.key, wish.name)?;
        claims.report.say(&healed.line(wish.key));
        ticket = claims.tracker.ticket(wish.key)?;
    }
    if !claims.settings.labels.in_queue(&ticket) {
        return Err(not_queued(claims, wish, &ticket));
    }
    let round = match claims.arbiter {
        // It checks and writes in one step: no round is needed.
        Arbiter::Guard => None,
        _ => arbitrate::round(&claims.tracker.events(wish.key)?, &claims.settings.labels.queue),
    };
    let nonce = random::id().map_err(|error| Error::io("/dev/urandom", &error))?;
    let acquired = take_record(claims, wish, &nonce, round.as_ref())?;
    for line in &acquired.said {
        claims.report.warn(line);
    }
    let attempt = Attempt {
        claims,
        key: wish.key,
        name: wish.name,
        token: acquired.record.token,
        nonce,
        round,
        stage: wish.stage,
    };
    match attempt.decide().and_then(|mark| attempt.keep(mark, &wish.owners)) {
        Ok(attrs) => {
            attempt.decorate(attrs.mark());
            Ok(Won { token: attempt.token, attrs, pulse: acquired.pulse })
        }
        Err(End::Lost(why)) => {
            claims.close(wish.name, attempt.token, LOST)?;
            Err(Error::new(Kind::Lost, format!("{} was not won: {why}", wish.key)))
        }
        Err(End::Undone(error)) => {
            claims.close(wish.name, attempt.token, LOST)?;
            Err(error)
        }
        Err(End::Open(error)) => Err(error),
    }
}

/// A ticket that cannot be claimed now, and who has it if that is known here.
fn not_queued(claims: &Claims, wish: &Wish<'_>, ticket: &Ticket) -> Error {
    let judged = claims.store.look(wish.name);
    if matches!(judged.state(), State::Live(_)) {
        return held(claims, wish, &judged);
    }
    let why = if ticket.closed { "it is closed; labels" } else { "its labels are" };
    Error::new(Kind::Lost, format!("{} is not in the queue: {why} {}", wish.key, claims.labels_of(ticket)))
}

fn held(claims: &Claims, wish: &Wish<'_>, judged: &Judged) -> Error {
    if let Some(record) = judged.record() {
        claims.store.log_turned_away(wish.name, &event_of("refused", wish.name, record));
    }
    match judged.state() {
        State::Live(holder) => {
            let ours = |owner: &ProcessIdentity| wish.owners.iter().any(|wanted| wanted.same(owner));
            let by_you = judged.record().is_some_and(|record| record.owners.iter().any(ours));
            let kind = if by_you { Kind::HeldByYou } else { Kind::Held };
            Error::new(
                kind,
                tell::held(&claims.store, wish.name, judged, *holder, tell::is_stopped(judged, *holder)),
            )
        }
        State::Unknown(doubt) => Error::new(
            Kind::UnknownOwner,
            format!("{}: cannot tell whether its run goes on ({})", wish.key, doubt.reason()),
        )
        .hint(format!("if nobody works on it: orion-claim free --yes {}", wish.key)),
        _ => tell::refusal(&claims.store, wish.name, judged),
    }
}

/// The record, before anything is written to the ticket: one attempt at a time on
/// this machine. What a dead claim left behind is healed first.
fn take_record(
    claims: &Claims,
    wish: &Wish<'_>,
    nonce: &str,
    round: Option<&EventId>,
) -> Result<Acquired, Error> {
    let attrs = Attrs {
        tracker: claims.settings.address.canonical(),
        state: Phase::Intent,
        nonce: nonce.to_owned(),
        via: wish.via.to_owned(),
        arbiter: Some(claims.arbiter.as_str().to_owned()),
        round: round.map(|id| id.0.clone()),
        branch: wish.work.branch.clone(),
        worktree: wish.work.worktree.clone(),
        ..Attrs::default()
    };
    let request = Request {
        owners: vec![claims.store.me()?],
        note: None,
        attrs: attrs.to_map(),
        pulse: if wish.pulse { PulseWish::Us } else { PulseWish::Nobody },
    };
    let inherit = |ended: &crate::model::record::Record| self::attrs(ended).inherited(ended.token);
    let terms = Terms { over_dead: false, inherit: &inherit };
    for _ in 0..3 {
        match claims.store.acquire_on(wish.name, &request, &terms)? {
            Outcome::Acquired(acquired) => return Ok(*acquired),
            Outcome::NotTaken(judged) if judged.state() == &State::Dead => {
                let healed = repair::heal(claims, wish.key, wish.name)?;
                if !healed.done() {
                    return Err(Error::new(Kind::CannotTell, format!("{}: {}", wish.key, healed.reason)));
                }
                claims.report.say(&healed.line(wish.key));
            }
            Outcome::NotTaken(judged) => return Err(held(claims, wish, &judged)),
        }
    }
    Err(Error::new(Kind::CannotTell, format!("{}: its record here keeps changing", wish.key)))
}

impl Attempt<'_> {
    /// Lets the arbiter decide and swaps the labels. Gives the mark, where the tracker has any.
    fn decide(&self) -> Result<Option<EventId>, End> {
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
                let id = self.take_ref()?;
                self.swap().map_err(|end| self.give_ref_back(&id, end))
            }
            Arbiter::Guard | Arbiter::None => self.swap(),
        }
    }

    /// Queue off and working on, in one write where the tracker has one.
    fn swap(&self) -> Result<Option<EventId>, End> {
        let labels = &self.claims.settings.labels;
        let [queue, working, rest @ ..] = labels.managed();
        let mut add = vec![working.to_owned()];
        if self.claims.tracker.can().conditional {
            // The same write: it cannot fail on its own.
            add.extend(self.decoration());
        }
        let swap = Swap {
            add,
            remove: vec![queue.to_owned()],
            expect: Expect {
                has: vec![queue.to_owned()],
                lacks: std::iter::once(working).chain(rest).map(str::to_owned).collect(),
                open: Some(true),
                mark: None,
            },
            signature: Some(self.nonce.clone()),
        };
        match self.claims.tracker.swap(self.key, &swap) {
            Ok(Swapped::Done(mark)) => self.mark(mark, self.round.as_ref()),
            Ok(Swapped::Changed(why)) => Err(End::Lost(why)),
            Ok(Swapped::Unconfirmed(why)) => Err(End::Open(self.unclear(&why))),
            Err(failure) => Err(End::Undone(failure.into())),
        }
    }

    /// The event by which we put the working label on.
    pub(super) fn mark(
        &self,
        told: Option<EventId>,
        since: Option<&EventId>,
    ) -> Result<Option<EventId>, End> {
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
            Ok(match arbitrate::mark(&events, &labels.queue, working, since) {
                arbitrate::Mark::NotYet => None,
                arbitrate::Mark::Ours(id) => Some(Ok(id)),
                arbitrate::Mark::Requeued => Some(match uncontested(self.claims, self.key, &events)? {
                    Some(id) => Ok(id),
                    None => Err(self.queued_over(&events, since)),
                }),
                arbitrate::Mark::Several(times) => {
                    Some(Err(End::Open(self.unclear(&format!("{working} was put on {times} times")))))
                }
            })
        });
        match found {
            Ok(Some(Ok(id))) => Ok(Some(id)),
            Ok(Some(Err(end))) => Err(end),
            Ok(None) => Err(End::Open(self.unclear(&format!("its events do not show {working}")))),
            Err(failure) => Err(End::Open(self.unclear(&failure.to_string()))),
        }
    }

    /// Won: the claim becomes its owner's.
    fn keep(&self, mark: Option<EventId>, owners: &[ProcessIdentity]) -> Result<Attrs, End> {
        self.claims.log_stage(self.key, CLAIMED, self.token);
        if let Some(stage) = self.stage {
            self.claims.log_stage(self.key, stage, self.token);
        }
        let mark = mark.map_or(Value::Null, |id| json!(id.0));
        let held = [("state", json!(Phase::Held.as_str())), ("mark", mark.clone())];
        match self.note(&[("owners", json!(owners))], &held) {
            Ok(Some(mut attrs)) => {
                attrs.state = Phase::Held;
                attrs.mark = mark.as_str().map(str::to_owned);
                Ok(attrs)
            }
            Ok(None) => Err(End::Open(self.unclear("its record here was released by somebody"))),
            Err(error) => Err(End::Open(error)),
        }
    }

    /// Writes down how far we came; gives the attrs as they were before.
    pub(super) fn note(
        &self,
        fields: &[(&str, Value)],
        attrs: &[(&str, Value)],
    ) -> Result<Option<Attrs>, Error> {
        let stored = self.claims.store.amend(self.name, &Right::Token(self.token), fields, attrs)?;
        Ok(stored.map(|stored| self::attrs(&stored.record)))
    }

    fn decoration(&self) -> Vec<String> {
        let labels = &self.claims.settings.labels;
        let host = Some(&self.claims.settings.host).filter(|host| !host.is_empty());
        let host = host.map(|host| labels.host(host));
        host.into_iter().chain(self.stage.map(|stage| labels.stage(stage))).collect()
    }

    /// Host and stage labels. Their failure never fails a claim.
    fn decorate(&self, mark: Option<EventId>) {
        let add = self.decoration();
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
                self.claims.report.note(&format!("{}: host and stage labels: {why}", self.key));
            }
            Err(failure) => {
                self.claims.report.note(&format!("{}: host and stage labels: {failure}", self.key));
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
}
