//! What the reconcile pass does with one ticket: the table of the design, first
//! match wins, and whatever is not in it is kept and reported.
//!
//! Facts that cost a request may be missing. The answer is then
//! [`Action::Look`]: read the ticket itself and its events, and ask again. No
//! write ever follows from a fact that was not read.

use crate::model::arbiter::ArbiterState;
use std::time::Duration;

/// A live owner whose log ends with the finished boundary gets this long for its own hand-over.
pub(crate) const FINISH_GRACE: Duration = Duration::from_secs(600);

/// So many deaths within one boot, and a person must look.
pub(crate) const DEATHS: u32 = 3;

/// What is known about one ticket. Its key is for the messages.
#[derive(Clone, Debug)]
pub(crate) struct Facts<'a> {
    /// The ticket's key.
    pub(crate) key: &'a str,
    /// As the tracker shows it.
    pub(crate) ticket: TicketFacts,
    /// What this machine has about it.
    pub(crate) record: RecordFacts,
    /// Its row, where a database decides, the database answered, and no record here says more.
    pub(crate) row: Option<ArbiterState>,
}

/// The ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TicketFacts {
    /// Closed, whatever its labels say.
    pub(crate) closed: bool,
    /// The queue label is on.
    pub(crate) queue: bool,
    /// The working label is on.
    pub(crate) working: bool,
    /// Ready, ci-wait or failed is on it, and not left over from before the claim.
    pub(crate) handed_on: bool,
    /// The machine that its host label names.
    pub(crate) host: NamedHost,
}

/// Whose host label is on a ticket?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamedHost {
    /// Nobody's.
    None,
    /// This machine's.
    Ours,
    /// Another machine's: it is nobody's trouble here.
    Other,
}

/// The record here, judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecordFacts {
    /// None, or released.
    None,
    /// Written by another machine.
    OtherHost {
        /// Its name, escaped.
        host: String,
    },
    /// Of a newer format.
    Newer,
    /// Not a record.
    Corrupt,
    /// A claim of this machine.
    Here(RecordedClaim),
}

/// A claim of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordedClaim {
    /// How far it came.
    pub(crate) state: ClaimStep,
    /// What became of its owner.
    pub(crate) holder: OwnerState,
    /// Is the newest working event the one this claim made? (Recorded as its working_label,
    /// or found: the only one since its gate, or signed with its nonce.)
    pub(crate) working_label: WorkingLabel,
    /// For how long it has been through with the ticket: by its own decision, or by the
    /// finished boundary at the end of its log, under its own token.
    pub(crate) finished: Option<Finished>,
    /// Deaths of this ticket's holders within this boot, before this one.
    pub(crate) deaths: u32,
}

/// The claim is through with the ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    /// Since when.
    pub(crate) since: Duration,
    /// How it said so.
    pub(crate) said: FinishedBy,
    /// Does anything but its owner (and the owner's callers) still work on it?
    pub(crate) others_work: bool,
}

/// How a claim said that it is through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FinishedBy {
    /// `release`: it waits for nobody but others that work on the ticket.
    Release,
    /// The command of `run` ended; `run` waits for what it left behind.
    Run,
    /// The finished boundary in the log of an `acquire`.
    Boundary,
}

impl Finished {
    /// May the ticket be moved although the owner lives?
    fn under_live_owner(self) -> bool {
        match self.said {
            _ if self.others_work => false,
            FinishedBy::Release => true,
            FinishedBy::Run => false,
            FinishedBy::Boundary => self.since >= FINISH_GRACE,
        }
    }
}

/// The claim's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimStep {
    /// Said, nothing written yet. Provably nothing?
    Intent {
        /// As [`intent_unused`](super::arbitrate::intent_unused) says; `None`: not looked.
        unused: Option<bool>,
    },
    /// The gate said yes. May it be undone?
    Gated {
        /// As [`may_undo`](super::arbitrate::may_undo) says; `None`: not looked.
        may_undo: Option<bool>,
    },
    /// Claimed.
    Held,
    /// The ticket was closed under its owner.
    Closed,
}

/// The owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnerState {
    /// Proved to run.
    Live {
        /// It promised to tick and fell silent.
        silent: bool,
    },
    /// Proved to be gone.
    Dead,
    /// Neither.
    Unknown,
}

/// Whose working label it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkingLabel {
    /// The events were not read.
    NotRead,
    /// Ours.
    Ours,
    /// Somebody else's.
    Foreign,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Nothing.
    Keep,
    /// Read the ticket and its events, and ask again.
    Look,
    /// Closed: working, stage and host labels off; the record goes.
    Unlock,
    /// Closed under a run: labels off, the record stays as `closed`.
    UnlockAndMark,
    /// Finished, label never moved: working, stage and host off, ready on.
    MoveToReady,
    /// Died between the two writes of its hand-over: working, stage and host off.
    FinishHandOver,
    /// Working, stage and host off, queue on; the record aside with its count of deaths.
    Requeue,
    /// The same with failed instead of queue.
    Fail,
    /// The queue label back on, the record away.
    UndoGate,
    /// The record away, and its marker void; the ticket untouched.
    DropIntent,
    /// The record aside, the ticket untouched.
    SetAside,
    /// The unreadable record aside; then as with none.
    SetCorruptAside,
    /// Its machine lost the database that decides: wait for its grace, take the row, then as [`Action::Requeue`].
    TakeOver,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TicketVerdict {
    /// What to do.
    pub(crate) action: Action,
    /// A person should hear of it even when nothing is done.
    pub(crate) report: bool,
    /// A claim of this machine that nobody can settle but a person.
    pub(crate) stranded: bool,
    /// Why, one line, lower case.
    pub(crate) reason: String,
}

/// Judges one ticket.
pub(crate) fn judge(facts: &Facts<'_>) -> TicketVerdict {
    let ticket = facts.ticket;
    match &facts.record {
        RecordFacts::Newer => keep("its record here has a newer format").reported(),
        RecordFacts::Corrupt => act(Action::SetCorruptAside, "its record here is unreadable"),
        RecordFacts::Here(claim) if ticket.closed && ticket.working => closed(claim),
        RecordFacts::Here(claim) if ticket.working => working(facts.key, ticket, claim),
        RecordFacts::Here(claim) => not_working(facts.key, ticket, claim),
        _ if ticket.closed && ticket.working => {
            act(Action::Unlock, "closed by hand, and still carried the lock")
        }
        RecordFacts::None if ticket.working && facts.row == Some(ArbiterState::Cut) => act(
            Action::TakeOver,
            "its machine lost the database; when its grace is over, its run must have stopped",
        ),
        RecordFacts::None
            if ticket.working && matches!(facts.row, Some(ArbiterState::Held | ArbiterState::Settling)) =>
        {
            keep("another machine has it; the database sees its session, or somebody who takes it over")
        }
        RecordFacts::None if ticket.working && facts.row == Some(ArbiterState::Ended) => {
            act(Action::TakeOver, "its run is known here to have ended")
        }
        RecordFacts::OtherHost { .. } | RecordFacts::None
            if ticket.working && ticket.host == NamedHost::Other =>
        {
            keep("another machine has it")
        }
        RecordFacts::OtherHost { host } if ticket.working => {
            keep(format!("its record is of machine {host}; that it is not known here proves no death"))
                .with_free(facts.key)
        }
        RecordFacts::None if ticket.working => {
            keep("no record of it here, which proves no death").with_free(facts.key)
        }
        RecordFacts::OtherHost { .. } | RecordFacts::None => keep("not claimed here"),
    }
}

/// Closed by hand, and it still carries the lock.
fn closed(claim: &RecordedClaim) -> TicketVerdict {
    match claim.holder {
        OwnerState::Dead => act(Action::Unlock, "closed by hand; its run has ended"),
        OwnerState::Live { .. } => {
            act(Action::UnlockAndMark, "closed by hand while its run goes on").reported()
        }
        OwnerState::Unknown => {
            act(Action::UnlockAndMark, "closed by hand; whether its run goes on cannot be told").reported()
        }
    }
}

/// Open, the working label is on, a claim of ours exists.
fn working(key: &str, ticket: TicketFacts, claim: &RecordedClaim) -> TicketVerdict {
    let live = matches!(claim.holder, OwnerState::Live { .. });
    let finished = claim.finished.is_some_and(|finished| !live || finished.under_live_owner());
    // A reading of the events is only worth its request where something would be written.
    let would_write = finished || claim.holder == OwnerState::Dead;
    match claim.working_label {
        WorkingLabel::NotRead if would_write => return act(Action::Look, "the events decide"),
        WorkingLabel::Ours if finished => {
            return act(Action::MoveToReady, "finished, and the label was never moved");
        }
        WorkingLabel::Foreign if matches!(claim.state, ClaimStep::Intent { .. }) => {
            return match claim.holder {
                OwnerState::Dead => act(Action::DropIntent, "somebody else won it, and the claim here ended"),
                _ => keep("somebody else won it"),
            };
        }
        WorkingLabel::Foreign if claim.holder == OwnerState::Dead => {
            return act(
                Action::SetAside,
                "somebody else claimed it since; our record is of a run that ended",
            )
            .reported();
        }
        WorkingLabel::Foreign => {
            return keep("somebody else's claim by now; our run must stop (its verify says 77)").reported();
        }
        WorkingLabel::NotRead | WorkingLabel::Ours => {}
    }
    match claim.holder {
        OwnerState::Live { silent: true } => {
            keep("stuck: alive, promised to tick and fell silent; it is not taken").reported()
        }
        OwnerState::Live { .. } if claim.finished.is_some_and(|finished| finished.others_work) => {
            keep("it is handed over when what still works on it has ended")
        }
        OwnerState::Live { silent: false } => keep("its run goes on"),
        OwnerState::Unknown => keep("whether its run goes on cannot be told").with_free(key),
        OwnerState::Dead if ticket.handed_on => {
            act(Action::FinishHandOver, "its run ended in the middle of the hand-over")
        }
        OwnerState::Dead if claim.deaths + 1 >= DEATHS => {
            act(Action::Fail, format!("its run ended without a hand-over, {} times now", claim.deaths + 1))
                .reported()
        }
        OwnerState::Dead => act(Action::Requeue, "its run ended without a hand-over"),
    }
}

/// The working label is off, a claim of ours exists.
fn not_working(key: &str, ticket: TicketFacts, claim: &RecordedClaim) -> TicketVerdict {
    // Its `release` was carried out, and something that it should have taken back is still there.
    let released = claim.finished.is_some_and(|it| it.said == FinishedBy::Release && it.under_live_owner());
    match (claim.state, claim.holder) {
        (ClaimStep::Held, OwnerState::Live { .. }) if released => {
            act(Action::SetAside, "it was released; the ticket has moved on")
        }
        (ClaimStep::Intent { .. } | ClaimStep::Gated { .. }, OwnerState::Live { .. }) => keep("being claimed"),
        (ClaimStep::Closed, OwnerState::Live { .. }) => keep("closed by hand while its run goes on"),
        (ClaimStep::Held, OwnerState::Live { .. }) if ticket.closed => {
            keep("closed by hand, and the lock taken off, while its run goes on").reported()
        }
        (ClaimStep::Held, OwnerState::Live { .. }) if ticket.handed_on => keep("handed over while its run goes on"),
        (ClaimStep::Held, OwnerState::Live { .. }) => keep(
            "somebody took the working label off while its run goes on; it is not handed out (verify says 77)",
        )
        .reported(),
        (_, OwnerState::Unknown) => {
            keep("not working, and whether its run goes on cannot be told").with_free(key)
        }
        (ClaimStep::Held | ClaimStep::Closed, OwnerState::Dead) => {
            act(Action::SetAside, "its run ended; the ticket has moved on")
        }
        (ClaimStep::Gated { .. }, OwnerState::Dead) if ticket.queue || ticket.closed => {
            act(Action::SetAside, "its claim ended half way; the ticket has moved on")
        }
        (ClaimStep::Gated { may_undo: None } | ClaimStep::Intent { unused: None }, OwnerState::Dead) => {
            act(Action::Look, "the events decide")
        }
        (ClaimStep::Gated { may_undo: Some(true) }, OwnerState::Dead) => {
            act(Action::UndoGate, "its claim ended between taking the queue label and putting working on")
        }
        (ClaimStep::Gated { may_undo: Some(false) }, OwnerState::Dead) if ticket.handed_on => {
            act(Action::SetAside, "its claim ended half way; the ticket has moved on")
        }
        (ClaimStep::Gated { may_undo: Some(false) }, OwnerState::Dead) => {
            keep("its claim ended half way, and others changed the queue label since")
                .with_free(key)
                .stranded()
        }
        (ClaimStep::Intent { unused: Some(true) }, OwnerState::Dead) => {
            act(Action::DropIntent, "its claim ended before it changed anything")
        }
        (ClaimStep::Intent { unused: Some(false) }, OwnerState::Dead) => keep(
            "it has no label, and a claim here ended while it may have been taking the queue label off; \
             nothing is put back, because another machine or a person may be in the middle of it",
        )
        .with_free(key)
        .stranded(),
    }
}

fn act(action: Action, reason: impl Into<String>) -> TicketVerdict {
    TicketVerdict { action, report: false, stranded: false, reason: reason.into() }
}

fn keep(reason: impl Into<String>) -> TicketVerdict {
    act(Action::Keep, reason)
}

impl TicketVerdict {
    fn reported(self) -> Self {
        Self { report: true, ..self }
    }

    fn stranded(self) -> Self {
        Self { stranded: true, ..self }
    }

    /// Reported, with what a person types who knows that nobody works on it.
    fn with_free(self, key: &str) -> Self {
        let reason = format!("{}; if nobody works on it: orion-claim free --yes {key}", self.reason);
        Self { report: true, reason, ..self }
    }
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;
