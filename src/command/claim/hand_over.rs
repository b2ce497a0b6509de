//! Handing a ticket over: the decision into our record, then one write to the
//! ticket, which requires that the lock on it is still ours, then what arbiters need
//! taken back. The record ends last, so that whatever fails is tried again by each pass.

use super::{Claims, attrs, facts, undo};
use crate::command::records::RecordChange;
use crate::error::{Error, Kind};
use crate::model::claim::{ASIDE, Attrs, CommandResult, GivenBack, Goal, Handing, Phase};
use crate::model::name::LockName;
use crate::model::ticket::{EventId, Expect, Key, Swap, Swapped, Ticket, newest_labeled};
use crate::model::time::WallTime;
use crate::os::clock;
use crate::tracker::Failure;
use crate::verdict::breaker::back_off;
use crate::verdict::ownership::Credential;
use serde_json::{Value, json};
use std::time::Duration;

/// What became of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Handed {
    /// The ticket shows it. Where it is.
    Done(Goal),
    /// The ticket shows it, and something of the claim could not be taken back; the next pass tries again.
    Almost(Goal, String),
    /// The claim was given back before, under this token.
    Before,
    /// The ticket is not ours any more: nothing was written to it. Why.
    NotOurs(String),
}

/// A claim whose end is decided.
pub(super) struct Decided {
    pub(super) token: u64,
    pub(super) attrs: Attrs,
    pub(super) handing: Handing,
}

/// A decision, made now.
pub(super) fn now(to: Goal) -> Handing {
    Handing { to, at: clock::wall().rfc3339(), released: false, died: false }
}

/// Writes the decision down. One that a `release` made stands; `None`: the claim was given back before.
/// With `pause_from` its command said 75: the ticket is left alone, longer from time to time.
///
/// # Errors
/// NOPERM when the record is not the caller's, and what our own files answer.
pub(super) fn decide(
    claims: &Claims,
    name: &LockName,
    credential: &Credential,
    handing: &Handing,
    result: Option<&CommandResult>,
    pause_from: Option<Duration>,
) -> Result<Option<Decided>, Error> {
    let stands = |attrs: &Attrs| attrs.handing.clone().filter(|_| !handing.released);
    let change = |stored: &crate::model::record::Stored| {
        let mut map = stored.record.attrs.clone();
        let handing = stands(&attrs(&stored.record)).unwrap_or_else(|| handing.clone());
        map.insert("handing".into(), json!(handing));
        let before = attrs(&stored.record).given_back.map_or(0, |back| back.times);
        match pause_from {
            Some(every) => {
                let times = before.saturating_add(1);
                let pause = u64::try_from(back_off(times, every).as_millis()).unwrap_or(u64::MAX);
                let until = WallTime(clock::wall().0.saturating_add(pause)).rfc3339();
                map.insert("given_back".into(), json!(GivenBack { times, until }));
            }
            None => drop(map.remove("given_back")),
        }
        map.extend(result.map(|result| ("result".to_owned(), json!(result))));
        RecordChange::Write(stored.patched(&[("attrs", Value::Object(map))]))
    };
    let stored = match claims.store.change(name, credential, change) {
        Ok(Some(stored)) => stored,
        Ok(None) => return Ok(None),
        // A full disk must not keep the ticket from being handed over.
        Err(error) if error.kind() == Kind::CannotCreate => {
            claims.report.warning(&error.to_string());
            let judged = claims.store.look(name);
            claims.store.owned(name, &judged.found, None, credential)?;
            match judged.found.stored() {
                Some(stored) if stored.record.released_at.is_none() => stored.clone(),
                _ => return Ok(None),
            }
        }
        Err(error) => return Err(error),
    };
    let attrs = attrs(&stored.record);
    let handing = stands(&attrs).unwrap_or_else(|| handing.clone());
    Ok(Some(Decided { token: stored.record.token, attrs, handing }))
}

/// Decides and carries out at once.
///
/// # Errors
/// As [`decide`] and [`carry_out`].
pub(super) fn hand_over(
    claims: &Claims,
    key: &Key,
    name: &LockName,
    credential: &Credential,
    goal: Goal,
) -> Result<Handed, Error> {
    match decide(claims, name, credential, &now(goal), None, None)? {
        Some(decided) => carry_out(claims, key, name, &decided),
        None => Ok(Handed::Before),
    }
}

/// Does what was decided.
///
/// # Errors
/// UNAVAILABLE kinds when the tracker does not confirm: the decision stands in the record
/// and the next pass carries it out.
pub(super) fn carry_out(
    claims: &Claims,
    key: &Key,
    name: &LockName,
    decided: &Decided,
) -> Result<Handed, Error> {
    let Decided { token, attrs, handing } = decided;
    let token = *token;
    let not_ours = |why: String| {
        claims.close(name, token, ASIDE)?;
        Ok(Handed::NotOurs(why))
    };
    match attrs.state {
        Phase::Closed => return not_ours("the ticket was closed".to_owned()),
        Phase::Intent | Phase::Gated => {
            return Err(Error::new(Kind::CannotTell, format!("{key}: its claim is not settled"))
                .hint("the next reconcile pass settles it"));
        }
        Phase::Held => {}
    }
    let ticket = claims.tracker.ticket(key)?;
    let goal = if is_wished(claims, key, &ticket, attrs)? { Goal::Queue } else { handing.to };
    claims.log_stage(key, goal.as_str(), token);
    match move_to(claims, key, &ticket, goal, attrs.working_event())? {
        Swapped::Done(_) => {}
        Swapped::Changed(why) if !is_there(claims, key, goal, attrs)? => return not_ours(why),
        Swapped::Changed(_) => {}
        Swapped::Unconfirmed(why) => {
            return Err(Error::new(
                Kind::CannotTell,
                format!("{key}: cannot tell whether it is {}: {why}", goal.as_str()),
            )
            .hint("it stays claimed; the next reconcile pass hands it over"));
        }
    }
    if let Err(failure) = undo::traces(claims, key, attrs, &ticket) {
        return Ok(Handed::Almost(goal, failure.to_string()));
    }
    let ended = if goal == handing.to { handing.ended() } else { goal.as_str() };
    claims.close(name, token, ended)?;
    if goal != handing.to {
        let decided = handing.to.as_str();
        claims
            .report
            .notice(&format!("{key}: back in the queue instead of {decided}: it was queued again meanwhile"));
    }
    Ok(Handed::Done(goal))
}

/// Did a person queue it again under the claim? Costs a request only where the label is on.
fn is_wished(claims: &Claims, key: &Key, ticket: &Ticket, attrs: &Attrs) -> Result<bool, Failure> {
    if !ticket.has(&claims.settings.labels.queue) {
        return Ok(false);
    }
    let events = if claims.tracker.can().event_ids { claims.tracker.events(key)? } else { Vec::new() };
    Ok(facts::is_wished(claims, ticket, &events, attrs.working_event().as_ref()))
}

/// As [`swap_to`] with a goal. Where a tracker needs two writes and acknowledged the
/// first one without doing it, the ticket is left without any label: then the goal's
/// is put on again, as long as nobody else's is there.
pub(super) fn move_to(
    claims: &Claims,
    key: &Key,
    ticket: &Ticket,
    goal: Goal,
    mark: Option<EventId>,
) -> Result<Swapped, Failure> {
    let swapped = swap_to(claims, key, ticket, Some(goal), mark.clone())?;
    let Swapped::Unconfirmed(why) = swapped else { return Ok(swapped) };
    let labels = &claims.settings.labels;
    let expect = Expect {
        lacks: labels.managed().map(str::to_owned).to_vec(),
        open: Some(true),
        mark: mark.map(|id| (labels.working.clone(), id)),
        ..Expect::default()
    };
    match claims.tracker.swap(key, &Swap { add: vec![label(claims, goal)], expect, ..Swap::default() }) {
        Ok(Swapped::Done(mark)) => Ok(Swapped::Done(mark)),
        _ => Ok(Swapped::Unconfirmed(why)),
    }
}

/// Takes the working, stage and host labels off and adds that of the goal, while the lock is still ours.
/// Without a goal only the first half.
pub(super) fn swap_to(
    claims: &Claims,
    key: &Key,
    ticket: &Ticket,
    goal: Option<Goal>,
    mark: Option<EventId>,
) -> Result<Swapped, Failure> {
    let labels = &claims.settings.labels;
    let mut remove = vec![labels.working.clone()];
    remove.extend(labels.stage_and_host(ticket));
    let on_it = |label: &&&String| ticket.has(label);
    if goal == Some(Goal::Failed) {
        remove.extend([&labels.ready, &labels.ci_wait].iter().filter(on_it).map(|label| (*label).clone()));
    }
    if goal.is_some_and(|goal| goal != Goal::Queue) {
        // Left by a claim that was cut short: a person who asked for it would have changed the goal.
        remove.extend([&labels.queue].iter().filter(on_it).map(|label| (*label).clone()));
    }
    let swap = Swap {
        add: goal.map(|goal| label(claims, goal)).into_iter().collect(),
        remove,
        expect: Expect {
            has: vec![labels.working.clone()],
            open: Some(true),
            mark: mark.map(|id| (labels.working.clone(), id)),
            ..Expect::default()
        },
        signature: None,
    };
    claims.tracker.swap(key, &swap)
}

fn label(claims: &Claims, goal: Goal) -> String {
    let labels = &claims.settings.labels;
    match goal {
        Goal::Ready => &labels.ready,
        Goal::CiWait => &labels.ci_wait,
        Goal::Queue => &labels.queue,
        Goal::Failed => &labels.failed,
    }
    .clone()
}

/// Did an earlier try of ours, whose answer was lost, do it already?
fn is_there(claims: &Claims, key: &Key, goal: Goal, attrs: &Attrs) -> Result<bool, Failure> {
    let labels = &claims.settings.labels;
    let ticket = claims.tracker.ticket(key)?;
    if ticket.closed || ticket.has(&labels.working) || !ticket.has(&label(claims, goal)) {
        return Ok(false);
    }
    let Some(mark) = attrs.working_event() else { return Ok(true) };
    let events = claims.tracker.events(key)?;
    Ok(newest_labeled(&events, &labels.working).is_some_and(|event| event.id == mark))
}

/// What is said of a ticket that moved while something of its claim could not be taken back.
pub(super) fn almost(key: &Key, goal: Goal, why: &str) -> String {
    format!(
        "{key} is {}, but what decided the claim is not given back yet, so that nobody can claim it again: \
         {why}; each reconcile pass tries again",
        goal.as_str()
    )
}
