//! Locks on a database: the times a holder promises, what an onlooker may say of a row, and when a claimant may
//! take over. Pure.

use crate::model::via::{ViaLook, ViaRow};
use std::time::Duration;

/// Kernel clocks differ in rate by at most this much, in thousandths: 1 %.
const RATE: u32 = 10;
/// What the guardian needs at least to stop a tree: the difference that must be left between fence and grace.
const MARGIN: Duration = Duration::from_millis(500);
/// The shortest grace without `--fence`.
const SHORTEST: Duration = Duration::from_secs(15);
/// The shortest with it.
const SHORTEST_FENCED: Duration = Duration::from_secs(2);
/// What `init` allows at most, unless told otherwise; and what `run` promises.
pub(crate) const GRACE: Duration = Duration::from_secs(60);
/// How long a stopped tree is kept.
pub(crate) const FROZEN: Duration = Duration::from_secs(3600);

/// What a holder promises, and what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ViaTimes {
    /// So long after the last possible proof nobody else begins; `None`: nobody ever does.
    pub(crate) grace: Option<Duration>,
    /// So long without proof the tree works on, then it is stopped; `None`: it is never stopped.
    pub(crate) fence: Option<Duration>,
    /// Between two beats.
    pub(crate) beat: Duration,
    /// How long an answer to a beat may take.
    pub(crate) answer: Duration,
    /// How long a stopped tree waits for proof before it is killed.
    pub(crate) frozen: Duration,
}

impl ViaTimes {
    /// From the options. `grace` `None` is `--grace never`.
    ///
    /// # Errors
    /// Why two could act at once, or why it makes no sense.
    pub(crate) fn of(
        grace: Option<Duration>,
        fence: Option<Duration>,
        frozen: Duration,
    ) -> Result<Self, String> {
        let Some(grace) = grace else {
            if fence.is_some() {
                return Err(
                    "--fence says when to stop before a grace is over, and --grace never has no end".into()
                );
            }
            let five = Duration::from_secs(5);
            return Ok(Self { grace: None, fence: None, beat: five, answer: five, frozen });
        };
        let shortest = if fence.is_some() { SHORTEST_FENCED } else { SHORTEST };
        if grace < shortest {
            return Err(format!("--grace is at least {}", crate::model::duration::show(shortest)));
        }
        let fence = fence.unwrap_or_else(|| grace - (grace / 10).max(Duration::from_secs(3)));
        // F (1 + rate) + margin < G / (1 + rate)
        let needed = fence * (1000 + RATE) / 1000 + MARGIN;
        if fence < Duration::from_millis(500) || needed >= grace * 1000 / (1000 + RATE) {
            return Err(format!(
                "--fence {} leaves no time to stop a run before its grace of {} is over",
                crate::model::duration::show(fence),
                crate::model::duration::show(grace)
            ));
        }
        let five = Duration::from_secs(5);
        Ok(Self {
            grace: Some(grace),
            fence: Some(fence),
            beat: five.min(fence / 6),
            answer: five.min(fence / 4),
            frozen,
        })
    }
}

/// What this machine's own record says of the run that stands in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ViaHere {
    /// It is not a run of this machine and directory, or its record is gone.
    NotOurs,
    Live,
    /// Its owner is proved dead, or it was released: its tree is gone.
    Ended,
    Unclear,
}

/// What an onlooker may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ViaState {
    Free,
    /// The row's session has its lock.
    Live,
    /// The session is gone, and this machine knows that the run lives.
    LiveHere,
    /// The session is gone, and this machine knows that the run has ended.
    EndedHere,
    /// Somebody else's session has its lock: a claimant waits there.
    Settling,
    /// Nobody has its lock, and it was not given back.
    Cut,
    /// Written by a newer version.
    Newer(u64),
}

/// The verdict of somebody who only looks; first match wins.
pub(crate) fn onlooker(look: &ViaLook, row: Option<&ViaRow>, here: ViaHere) -> ViaState {
    if look.version > crate::model::via::VIA_PROTOCOL {
        return ViaState::Newer(look.version);
    }
    let Some(row) = row.filter(|row| row.is_taken()) else { return ViaState::Free };
    if row.backend.is_some() && row.locker == row.backend {
        return ViaState::Live;
    }
    match here {
        ViaHere::Live => ViaState::LiveHere,
        ViaHere::Ended => ViaState::EndedHere,
        ViaHere::NotOurs | ViaHere::Unclear if row.locker.is_some() => ViaState::Settling,
        ViaHere::NotOurs | ViaHere::Unclear => ViaState::Cut,
    }
}

/// How long a claimant must keep the lock of a row before it may take over; `None`: it may never.
///
/// `young`: the server was promoted or restored since the last take, so rows of living holders may be lost.
pub(crate) fn settle_time(row: &ViaRow, young: bool, max_grace: Duration, here: ViaHere) -> Option<Duration> {
    let of_row = match here {
        _ if !row.is_taken() => Duration::ZERO,
        ViaHere::Ended => Duration::ZERO,
        // Its tree works here, whatever the clock says.
        ViaHere::Live => return None,
        ViaHere::NotOurs | ViaHere::Unclear => row.grace()?,
    };
    Some(if young { of_row.max(max_grace) } else { of_row })
}

/// May a holder whose row is there again have been taken over all the same? On a server that was promoted or restored
/// the take of somebody who waited out its grace may be lost; only a holder whose last proof is younger than its
/// fence was surely waited for.
pub(crate) fn may_be_overtaken(young: bool, silent: Duration, fence: Option<Duration>) -> bool {
    young && fence.is_some_and(|fence| silent >= fence)
}

/// What a claimant sees while it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SettleFacts {
    /// Token and generation, when the lock was got and now.
    pub(crate) first: (u64, i64),
    pub(crate) now: (u64, i64),
    pub(crate) released: bool,
    pub(crate) was_released: bool,
    /// Do we still have the lock?
    pub(crate) ours: bool,
    /// Since the answer that said that we have it, awake time of this machine.
    pub(crate) waited: Duration,
    /// [`settle_time`]
    pub(crate) need: Duration,
}

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettleStep {
    Wait(Duration),
    /// It was given back: take it as a free one.
    TakeFree,
    /// Take it over.
    TakeOver,
    /// Its holder came back, or the lock is not ours any more: start over.
    StepBack,
}

/// One look of a claimant.
pub(crate) fn settle(facts: &SettleFacts) -> SettleStep {
    if !facts.ours || facts.first != facts.now {
        return SettleStep::StepBack;
    }
    if facts.released && !facts.was_released {
        return SettleStep::TakeFree;
    }
    if facts.waited >= facts.need {
        return SettleStep::TakeOver;
    }
    SettleStep::Wait(facts.need - facts.waited)
}

#[cfg(test)]
#[path = "via_tests.rs"]
mod tests;
