//! Is a resident silent, which of two builds is newer, and may a resident be ended?

use crate::model::lease::{Build, Payload};
use crate::model::stamp::Written;
use std::cmp::Ordering;
use std::time::{Duration, SystemTime};

/// How far ahead a stamp may lie before it counts as "in the future": clocks are
/// stepped by this much every day.
const TOLERANCE: Duration = Duration::from_secs(2);

/// The clocks, read after the payload.
#[derive(Clone, Debug)]
pub(crate) struct ClockReadings {
    pub(crate) wall: SystemTime,
    /// Time awake since boot, microseconds.
    pub(crate) monotonic_us: u64,
    /// Time since boot, suspend included, microseconds.
    pub(crate) boottime_us: u64,
    pub(crate) boot_id: Option<String>,
}

/// What a resident's ticks say. Only [`Silence::Stuck`] is a finding; everything
/// else is a resident at work as far as anybody can tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Silence {
    /// It never promised anything.
    NeverTicked,
    /// It ticked within the limit.
    Fresh {
        /// Since then, in time awake as far as known.
        silent: Duration,
    },
    /// It ticked, and then not for the whole limit, counted in time awake.
    Stuck {
        /// For how long, awake.
        silent: Duration,
    },
    /// Silent by the wall clock, but that may be the machine's sleep or a clock that moved.
    Unproved {
        /// Why it is not called stuck, as a fragment.
        why: &'static str,
        /// When a second look would prove it: after this much more time awake with the same tick.
        second_look: Option<Duration>,
    },
}

/// The payload cannot be read as one with a usable tick.
const UNREADABLE: &str = "its last tick cannot be read as a time";
const FUTURE: &str = "clock moved: its last tick lies in the future";
const BEFORE_BOOT: &str = "clock moved: its last tick lies before this boot";
const OTHER_BOOT: &str = "its last tick is from another boot";
const SLEPT: &str = "this machine may have slept since its last tick";

/// Judges the ticks of a live resident. `same_tick_for`: how long, in time awake,
/// the caller itself has been seeing this very tick.
pub(crate) fn silence(
    payload: &Payload,
    now: &ClockReadings,
    limit: Duration,
    same_tick_for: Duration,
) -> Silence {
    let tick = match payload.last_tick() {
        Written::Absent => return Silence::NeverTicked,
        Written::Unreadable => return Silence::Unproved { why: UNREADABLE, second_look: None },
        Written::At(tick) => tick,
    };
    if let Some(stamp) = payload.tick_stamp() {
        if now.boot_id.as_deref() != Some(stamp.boot_id.as_str()) {
            return Silence::Unproved { why: OTHER_BOOT, second_look: None };
        }
        let Some(silent) = now.monotonic_us.checked_sub(stamp.monotonic_us) else {
            return Silence::Unproved { why: FUTURE, second_look: None };
        };
        return by_limit(Duration::from_micros(silent), limit);
    }
    // Another program's tick has the wall clock only. Seen with our own eyes for the whole limit it is proof.
    if same_tick_for >= limit {
        return Silence::Stuck { silent: same_tick_for };
    }
    let second_look = Some(limit.saturating_sub(same_tick_for));
    let age = match now.wall.duration_since(tick.time()) {
        Ok(age) => age,
        Err(ahead) if ahead.duration() <= TOLERANCE => Duration::ZERO,
        Err(_) => return Silence::Unproved { why: FUTURE, second_look },
    };
    if age < limit {
        return Silence::Fresh { silent: age };
    }
    if age > Duration::from_micros(now.boottime_us) + TOLERANCE {
        return Silence::Unproved { why: BEFORE_BOOT, second_look };
    }
    // Even if this machine slept all its sleep since that tick, so much of the silence was awake.
    let slept = Duration::from_micros(now.boottime_us.saturating_sub(now.monotonic_us));
    let awake = age.saturating_sub(slept);
    if awake >= limit {
        Silence::Stuck { silent: awake }
    } else {
        Silence::Unproved { why: SLEPT, second_look }
    }
}

fn by_limit(silent: Duration, limit: Duration) -> Silence {
    if silent >= limit { Silence::Stuck { silent } } else { Silence::Fresh { silent } }
}

/// Does a stamp of this payload lie in the future, as far as the wall clock goes?
pub(crate) fn clock_moved(payload: &Payload, now: &ClockReadings) -> bool {
    [payload.last_tick(), payload.acquired_at()]
        .into_iter()
        .filter_map(Written::stamp)
        .any(|stamp| stamp.time().duration_since(now.wall).is_ok_and(|ahead| ahead > TOLERANCE))
}

/// Is `ours` a newer build than `theirs`? Only when both are stamped and ours is
/// later; or at one time, when size and revision both differ.
pub(crate) fn newer_than(ours: &Build, theirs: &Build) -> bool {
    let (Some(our_time), Some(their_time)) = (ours.mod_time, theirs.mod_time) else { return false };
    match our_time.compare(their_time) {
        Ordering::Greater => true,
        Ordering::Less => false,
        Ordering::Equal => {
            differ(ours.size.as_ref(), theirs.size.as_ref())
                && differ(ours.revision.as_ref(), theirs.revision.as_ref())
        }
    }
}

/// Known on both sides and not the same.
fn differ<T: PartialEq>(a: Option<&T>, b: Option<&T>) -> bool {
    matches!((a, b), (Some(a), Some(b)) if a != b)
}

/// A reason for which a resident may be asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakeoverReason {
    /// It fell silent.
    Stuck,
    /// It runs an older build than ours.
    Newer,
}

/// How well is it known who holds the role?
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HolderProof {
    /// The flock on this very file is seen in the payload's process, and in no other.
    Holder(u32),
    /// The payload could not be read, or names nobody.
    NoName,
    /// The payload's process has no such flock.
    NotIt(u32),
    /// The descriptors of the payload's process cannot be seen.
    Hidden(u32),
    /// More processes share the flock: ending one frees nothing.
    Several(Vec<u32>),
}

/// May it be ended?
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TakeoverVerdict {
    /// Yes: this process, for this reason.
    End(u32, TakeoverReason),
    /// No: it is alive, and nothing that was asked for applies to it.
    Keep(String),
    /// No: who it is cannot be proved.
    CannotTell(String),
}

/// Decides a takeover. `payload` and `silence` are `None` when the holder's payload could not be read.
pub(crate) fn takeover(
    allowed: &[TakeoverReason],
    payload: Option<(&Payload, &Silence)>,
    ours: Option<&Build>,
    proof: &HolderProof,
) -> TakeoverVerdict {
    let Some((payload, silence)) = payload else { return TakeoverVerdict::CannotTell(doubt(proof)) };
    let stuck = matches!(silence, Silence::Stuck { .. });
    let newer = ours.zip(payload.build().as_ref()).is_some_and(|(ours, theirs)| newer_than(ours, theirs));
    let reason = allowed.iter().copied().find(|reason| match reason {
        TakeoverReason::Stuck => stuck,
        TakeoverReason::Newer => newer,
    });
    let Some(reason) = reason else { return TakeoverVerdict::Keep(refusal(allowed, payload, silence, ours)) };
    match proof {
        HolderProof::Holder(pid) => TakeoverVerdict::End(*pid, reason),
        proof => TakeoverVerdict::CannotTell(doubt(proof)),
    }
}

/// Why it is not known who holds the role.
fn doubt(proof: &HolderProof) -> String {
    match proof {
        HolderProof::Holder(pid) => format!("the payload of pid {pid} cannot be read"),
        HolderProof::NoName => {
            "its payload cannot be read or names no process, so nobody knows whose it is".into()
        }
        HolderProof::NotIt(pid) => format!("pid {pid} of its payload does not hold the lock file"),
        HolderProof::Hidden(pid) => {
            format!("the descriptors of pid {pid} cannot be seen (run this as its user)")
        }
        HolderProof::Several(pids) => {
            let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
            format!("several processes hold the lock file (pids {})", pids.join(", "))
        }
    }
}

fn refusal(allowed: &[TakeoverReason], payload: &Payload, silence: &Silence, ours: Option<&Build>) -> String {
    let mut reasons = Vec::new();
    if allowed.contains(&TakeoverReason::Stuck) {
        reasons.push(match silence {
            Silence::NeverTicked => "it never ticked, so it is not known to be stuck".to_owned(),
            Silence::Fresh { .. } => "it ticks".to_owned(),
            Silence::Unproved { why, .. } => (*why).to_owned(),
            Silence::Stuck { .. } => "it is stuck".to_owned(),
        });
    }
    if allowed.contains(&TakeoverReason::Newer) {
        reasons.push(match (payload.build(), ours) {
            (None, _) => "it does not say which build it runs".to_owned(),
            (_, None) => "our own build is not known".to_owned(),
            (Some(_), Some(_)) => "its build is not older than ours".to_owned(),
        });
    }
    if reasons.is_empty() { "nothing was asked for that allows it".to_owned() } else { reasons.join(" and ") }
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
