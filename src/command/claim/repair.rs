//! Acting on one ticket as the verdict says: one process at a time on this
//! machine, with everything read again right before the write.

use super::deaths;
use super::facts::{View, view};
use super::hand_over::{move_to, swap_to};
use super::undo;
use super::{Claims, name_of};
use crate::error::{Error, Kind};
use crate::model::claim::{ASIDE, DIED, Goal, Handing, LOST, Phase};
use crate::model::name::LockName;
use crate::model::ticket::{Key, Swapped, Ticket};
use crate::os::event_file;
use crate::tracker::Failure;
use crate::verdict::liveness;
use crate::verdict::ownership::Credential;
use crate::verdict::reconcile::{Action, TicketVerdict};
use serde_json::json;
use std::time::Duration;

/// How long another process may be at the same ticket.
const PATIENCE: Duration = Duration::from_secs(10);

/// What was made of a judgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Healing {
    /// Nothing was to be done.
    Kept,
    /// It would be done (`--dry-run`).
    Planned,
    /// Done, and seen.
    Done,
    /// A process of its own does it, and waits first.
    Begun,
    /// Refused or not confirmed; the next pass tries again. Why.
    Failed(String),
}

/// One ticket's row of a pass.
#[derive(Clone, Debug)]
pub(super) struct Healed {
    pub(super) action: Action,
    pub(super) report: bool,
    /// Nobody but a person can settle it.
    pub(super) stranded: bool,
    pub(super) reason: String,
    pub(super) outcome: Healing,
}

impl Healed {
    pub(super) fn of(judgement: &TicketVerdict, outcome: Healing) -> Self {
        Self {
            action: judgement.action,
            report: judgement.report,
            stranded: judgement.stranded,
            reason: judgement.reason.clone(),
            outcome,
        }
    }

    fn kept(reason: impl Into<String>) -> Self {
        Self {
            action: Action::Keep,
            report: true,
            stranded: false,
            reason: reason.into(),
            outcome: Healing::Kept,
        }
    }

    /// Was something done?
    pub(super) fn done(&self) -> bool {
        self.outcome == Healing::Done
    }

    /// For people.
    pub(super) fn line(&self, key: &Key) -> String {
        let what = word(self.action);
        match &self.outcome {
            Healing::Kept => format!("{key}: kept: {}", self.reason),
            Healing::Planned => format!("{key}: would be {what}: {}", self.reason),
            Healing::Done => format!("{key}: {what}: {}", self.reason),
            Healing::Begun => format!("{key}: is being {what}: {}", self.reason),
            Healing::Failed(why) => format!("{key}: not {what} ({}): {why}", self.reason),
        }
    }
}

/// What an action did, in the past tense.
fn word(action: Action) -> &'static str {
    match action {
        Action::Keep | Action::Look => "kept",
        Action::Unlock => "unlocked",
        Action::UnlockAndMark => "unlocked, its record marked closed",
        Action::MoveToReady | Action::FinishHandOver => "handed over",
        Action::Requeue => "put back into the queue",
        Action::Fail => "put on failed",
        Action::UndoGate => "put back into the queue (its claim was cut short)",
        Action::DropIntent => "forgotten here",
        Action::SetAside => "set aside here",
        Action::SetCorruptAside => "freed of its corrupt record",
        Action::TakeOver => "taken over, back into the queue",
    }
}

/// Heals one ticket, if there is something to heal.
///
/// # Errors
/// What stands between us and the ticket or our own files.
pub(super) fn heal(claims: &Claims, key: &Key, name: &LockName) -> Result<Healed, Error> {
    let healer = event_file::healer(claims.store.folder(), key.as_str(), PATIENCE)
        .map_err(|error| Error::io(&format!("{}/{key}.heal", claims.store.path().display()), &error))?;
    let Some(_healer) = healer else { return Ok(Healed::kept("another process is at it")) };
    let ticket = claims.tracker.ticket(key)?;
    let events = claims.tracker.events(key)?;
    // Last of all, so that "now" is later than the record.
    let judged = claims.store.look(name);
    let view = view(claims, key, &judged, &ticket, Some(&events))?;
    let outcome = act(claims, key, name, &ticket, &view)?;
    let mut healed = Healed::of(&view.judgement, outcome);
    if healed.action == Action::SetAside && half_written(claims, &ticket, &view) {
        healed.report = true;
        healed
            .reason
            .push_str("; it has no label of ours left; if it belongs in the queue: orion-claim free --yes ");
        healed.reason.push_str(key.as_str());
    }
    Ok(healed)
}

/// Did we begin to move it, and is it nowhere now? Only a tracker that acknowledges and
/// does nothing, twice, or a person comes to that.
fn half_written(claims: &Claims, ticket: &Ticket, view: &View) -> bool {
    let begun = view.attrs.handing.is_some()
        || view.attrs.deaths.as_ref().zip(view.record.as_ref()).is_some_and(|(d, r)| d.token == r.token);
    let nowhere = !claims.settings.labels.managed().iter().any(|label| ticket.has(label));
    begun && nowhere && !ticket.closed
}

/// A ticket that is in no list and cannot be found either: the record of a dead run of
/// it is set aside.
///
/// # Errors
/// What our own files answer.
pub(super) fn forget(claims: &Claims, key: &Key, failure: &Failure) -> Result<Healed, Error> {
    let name = name_of(key)?;
    let judged = claims.store.look(&name);
    match (judged.state(), judged.record()) {
        (liveness::State::Dead, Some(record)) => {
            claims.close(&name, record.token, ASIDE)?;
            let reason = format!("its run ended, and {failure}");
            Ok(Healed {
                action: Action::SetAside,
                report: true,
                stranded: false,
                reason,
                outcome: Healing::Done,
            })
        }
        _ => Ok(Healed::kept(failure.to_string())),
    }
}

fn act(claims: &Claims, key: &Key, name: &LockName, ticket: &Ticket, view: &View) -> Result<Healing, Error> {
    let end = |word: &str| match &view.record {
        Some(record) => claims.close(name, record.token, word),
        None => Ok(()),
    };
    let swapped = match view.judgement.action {
        Action::Keep | Action::Look => return Ok(Healing::Kept),
        Action::Unlock => undo::unlock(claims, key, ticket)?,
        Action::UnlockAndMark => {
            let swapped = undo::unlock(claims, key, ticket)?;
            if let (Swapped::Done(_), Some(record)) = (&swapped, &view.record) {
                let closed = [("state", json!(Phase::Closed.as_str()))];
                claims.store.amend(name, &Credential::Token(record.token), &[], &closed)?;
            }
            return Ok(outcome(swapped));
        }
        Action::MoveToReady => {
            let handing = view.attrs.handing.as_ref();
            let decided = handing.map_or(Goal::Ready, |handing| handing.to);
            let goal = if view.wished { Goal::Queue } else { decided };
            let swapped = move_to(claims, key, ticket, goal, view.working_event.clone())?;
            let word = handing.filter(|_| goal == decided).map_or(goal.as_str(), Handing::ended);
            return settle(claims, key, ticket, view, swapped, || end(word));
        }
        Action::FinishHandOver => swap_to(claims, key, ticket, None, view.working_event.clone())?,
        Action::Requeue | Action::Fail => {
            count_death(claims, name, view)?;
            let fails = view.judgement.action == Action::Fail && !view.wished;
            let goal = if fails { Goal::Failed } else { Goal::Queue };
            let swapped = move_to(claims, key, ticket, goal, view.working_event.clone())?;
            return settle(claims, key, ticket, view, swapped, || end(DIED));
        }
        Action::UndoGate => undo::queue_back(claims, key)?,
        Action::TakeOver => {
            let Some(rows) = &claims.rows else { return Ok(Healing::Kept) };
            rows.take_over(key, view.newest_working.as_ref())?;
            return Ok(Healing::Begun);
        }
        Action::DropIntent => {
            undo::marker(claims, key, &view.attrs)?;
            undo::give_ref_back(claims, key, &view.attrs.nonce)?;
            end(LOST)?;
            return Ok(Healing::Done);
        }
        Action::SetAside => {
            undo::marker(claims, key, &view.attrs)?;
            undo::give_ref_back(claims, key, &view.attrs.nonce)?;
            end(view.attrs.handing.as_ref().map_or(ASIDE, Handing::ended))?;
            return Ok(Healing::Done);
        }
        Action::SetCorruptAside => {
            let line = claims.store.set_corrupt_aside(name)?;
            claims.report.warning(&line);
            return Ok(Healing::Done);
        }
    };
    settle(claims, key, ticket, view, swapped, || end(ASIDE))
}

/// The record ends once the ticket shows what was to be done.
fn settle(
    claims: &Claims,
    key: &Key,
    ticket: &Ticket,
    view: &View,
    swapped: Swapped,
    end: impl FnOnce() -> Result<(), Error>,
) -> Result<Healing, Error> {
    if matches!(swapped, Swapped::Done(_)) {
        undo::traces(claims, key, &view.attrs, ticket)?;
        end()?;
    }
    Ok(outcome(swapped))
}

fn outcome(swapped: Swapped) -> Healing {
    match swapped {
        Swapped::Done(_) => Healing::Done,
        Swapped::Changed(why) => Healing::Failed(format!("it changed meanwhile: {why}")),
        Swapped::Unconfirmed(why) => Healing::Failed(why),
    }
}

/// Before the ticket is written, so that a kill in between does not forget it.
fn count_death(claims: &Claims, name: &LockName, view: &View) -> Result<(), Error> {
    let Some(record) = &view.record else { return Ok(()) };
    // With the working event, where it was only found: half a write of ours would hide it from the next pass.
    let found = view.working_event.as_ref().map(|id| ("mark", json!(id.0)));
    deaths::count(claims, name, record, &view.attrs, found.into_iter().collect()).map(drop)
}

/// As [`heal`], by the key alone.
///
/// # Errors
/// As [`heal`].
pub(super) fn heal_key(claims: &Claims, key: &Key) -> Result<Healed, Error> {
    heal(claims, key, &name_of(key)?)
}

/// A failed ticket's row: one ticket's failure never stops the pass.
pub(super) fn failed(judgement: &TicketVerdict, error: &Error) -> Healed {
    let kind = error.kind();
    let why =
        if kind == Kind::NotOwner { "its record changed meanwhile".to_owned() } else { error.to_string() };
    Healed::of(judgement, Healing::Failed(why))
}
