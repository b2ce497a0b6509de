//! Claiming one ticket: our record first, then whoever decides, then the labels,
//! then the ticket itself read again. A kill between any two steps leaves a state
//! that the reconcile pass knows.

use super::attempt::{ClaimAttempt, NotWon};
use super::{Claims, attrs, pausing, repair};
use crate::cli::claim_run::ClaimWork;
use crate::command::records::{
    AcquireOutcome, AcquireRequest, AcquireTerms, AcquiredLock, Judged, PulsePolicy, event_of,
};
use crate::command::tell;
use crate::error::{Error, Kind};
use crate::model::arbiter::Arbiter;
use crate::model::claim::{Attrs, LOST, Phase};
use crate::model::entry::EntryMode;
use crate::model::identity::ProcessIdentity;
use crate::model::last_run::RepeatTerms;
use crate::model::name::LockName;
use crate::model::ticket::{EventId, Key, Ticket};
use crate::os::pulse::Pulse;
use crate::os::random;
use crate::verdict::arbitrate;
use crate::verdict::liveness::State;

/// What is to be claimed, and for whom.
pub(super) struct ClaimRequest<'a> {
    pub(super) key: &'a Key,
    pub(super) name: &'a LockName,
    /// Whose the claim becomes once it is won. Until then it is this process's, so
    /// that a claim cut short is a dead one.
    pub(super) owners: Vec<ProcessIdentity>,
    pub(super) via: &'static str,
    pub(super) work: &'a ClaimWork,
    pub(super) pulse: PulsePolicy<'a>,
    pub(super) stage: Option<&'a str>,
}

/// A ticket that is ours.
pub(super) struct Won {
    pub(super) token: u64,
    pub(super) attrs: Attrs,
    pub(super) pulse: Option<Pulse>,
}

/// Claims it, or says why not.
///
/// # Errors
/// SKIP kinds when somebody else has it or it is not in the queue, UNAVAILABLE kinds when nobody can tell.
pub(super) fn claim(claims: &Claims, wanted: &ClaimRequest<'_>) -> Result<Won, Error> {
    let ticket = queued(claims, wanted)?;
    let round = match claims.arbiter {
        // It checks and writes in one step: no round is needed.
        Arbiter::Guard => None,
        _ => arbitrate::round(&claims.tracker.events(wanted.key)?, &claims.settings.labels.queue),
    };
    let (token, nonce) = match claims.rows.as_ref().and_then(|rows| rows.own(wanted.key)) {
        // The record is to be known by what the row is known by.
        Some((token, nonce)) => (Some(token), nonce.to_owned()),
        None => (None, random::id().map_err(|error| Error::io("/dev/urandom", &error))?),
    };
    let acquired = take_record(claims, wanted, token, &nonce, round.as_ref())?;
    for line in &acquired.said {
        claims.report.warning(line);
    }
    let attempt = ClaimAttempt {
        claims,
        key: wanted.key,
        name: wanted.name,
        token: acquired.record.token,
        nonce,
        owners: &wanted.owners,
        round,
        stage: wanted.stage,
        left_over: claims.settings.labels.left_over(&ticket),
    };
    match attempt.decide().and_then(|mark| attempt.keep(mark, &wanted.owners)) {
        Ok(attrs) => {
            attempt.decorate(attrs.working_event());
            Ok(Won { token: attempt.token, attrs, pulse: acquired.pulse })
        }
        Err(NotWon::Lost(why)) => {
            claims.close(wanted.name, attempt.token, LOST)?;
            Err(Error::new(Kind::Lost, format!("{} was not won: {why}", wanted.key)))
        }
        Err(NotWon::Undone(error)) => {
            claims.close(wanted.name, attempt.token, LOST)?;
            Err(error)
        }
        Err(NotWon::Open(error)) => Err(error),
    }
}

/// The ticket, if it may be claimed. What a dead run of this machine left is healed first.
///
/// # Errors
/// As [`claim`].
pub(super) fn queued(claims: &Claims, wanted: &ClaimRequest<'_>) -> Result<Ticket, Error> {
    let mut ticket = claims.tracker.ticket(wanted.key)?;
    if !claims.settings.labels.in_queue(&ticket) && claims.store.look(wanted.name).state() == &State::Dead {
        // A dead run of ours may be all that keeps it out of the queue.
        let healed = repair::heal(claims, wanted.key, wanted.name)?;
        claims.report.notice(&healed.line(wanted.key));
        ticket = claims.tracker.ticket(wanted.key)?;
    }
    if !claims.settings.labels.in_queue(&ticket) {
        return Err(not_queued(claims, wanted, &ticket));
    }
    pausing::not_paused(claims, wanted.key.as_str())?;
    Ok(ticket)
}

/// A ticket that cannot be claimed now, and who has it if that is known here.
fn not_queued(claims: &Claims, wanted: &ClaimRequest<'_>, ticket: &Ticket) -> Error {
    let judged = claims.store.look(wanted.name);
    if matches!(judged.state(), State::Live(_)) {
        return held(claims, wanted, &judged);
    }
    let why = if ticket.closed { "it is closed; labels" } else { "its labels are" };
    Error::new(Kind::Lost, format!("{} is not in the queue: {why} {}", wanted.key, claims.labels_of(ticket)))
}

fn held(claims: &Claims, wanted: &ClaimRequest<'_>, judged: &Judged) -> Error {
    if let Some(record) = judged.record() {
        claims.store.log_turned_away(wanted.name, &event_of("refused", wanted.name, record));
    }
    match judged.state() {
        State::Live(holder) => {
            let ours = |owner: &ProcessIdentity| wanted.owners.iter().any(|wanted| wanted.same(owner));
            let by_you = judged.record().is_some_and(|record| record.owners.iter().any(ours));
            let kind = if by_you { Kind::HeldByYou } else { Kind::Held };
            Error::new(
                kind,
                tell::held(
                    &claims.store,
                    wanted.name,
                    judged,
                    *holder,
                    tell::is_stopped(&claims.store, judged, *holder),
                ),
            )
        }
        State::Unknown(doubt) => Error::new(
            Kind::UnknownOwner,
            format!("{}: cannot tell whether its run goes on ({})", wanted.key, doubt.reason()),
        )
        .hint(format!("if nobody works on it: orion-claim free --yes {}", wanted.key)),
        _ => tell::refusal(&claims.store, wanted.name, judged),
    }
}

/// The record, before anything is written to the ticket: one attempt at a time on
/// this machine. What a dead claim left behind is healed first.
fn take_record(
    claims: &Claims,
    wanted: &ClaimRequest<'_>,
    token: Option<u64>,
    nonce: &str,
    round: Option<&EventId>,
) -> Result<AcquiredLock, Error> {
    let attrs = Attrs {
        tracker: claims.settings.address.canonical(),
        state: Phase::Intent,
        nonce: nonce.to_owned(),
        via: wanted.via.to_owned(),
        arbiter: Some(claims.arbiter.as_str().to_owned()),
        round: round.map(|id| id.0.clone()),
        branch: wanted.work.branch.clone(),
        worktree: wanted.work.worktree.clone(),
        ..Attrs::default()
    };
    let request = AcquireRequest {
        mode: EntryMode::Exclusive,
        repeat: RepeatTerms::default(),
        owners: vec![claims.store.me()?],
        note: None,
        attrs: attrs.to_map(),
        pulse: wanted.pulse,
    };
    let inherit = |ended: &crate::model::record::Record| self::attrs(ended).inherited(ended.token);
    let terms = AcquireTerms { over_dead: false, in_turn: true, token, inherit: &inherit };
    for _ in 0..3 {
        match claims.store.acquire_on(wanted.name, &request, &terms)? {
            AcquireOutcome::Acquired(acquired) => return Ok(*acquired),
            AcquireOutcome::NotTaken(_, state) if state.leading().state() == &State::Dead => {
                let healed = repair::heal(claims, wanted.key, wanted.name)?;
                if !healed.done() {
                    return Err(Error::new(Kind::CannotTell, format!("{}: {}", wanted.key, healed.reason)));
                }
                claims.report.notice(&healed.line(wanted.key));
            }
            AcquireOutcome::NotTaken(_, state) => return Err(held(claims, wanted, state.leading())),
            AcquireOutcome::NotAgain(_) => {
                return Err(Error::new(Kind::Bug, "nothing was asked of the last run"));
            }
        }
    }
    Err(Error::new(Kind::CannotTell, format!("{}: its record here keeps changing", wanted.key)))
}
