//! Which of two builds is newer, and may a resident be ended?

use crate::model::lease::{Build, Payload};
use crate::verdict::silence::Silence;
use std::cmp::Ordering;

/// How our build stands to the one that a resident runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BuildOrder {
    /// Both are stamped, and ours is later.
    Newer,
    /// Both are stamped, and ours is earlier.
    Older,
    /// The same file time, and the same size and revision as far as both are known.
    Same,
    /// The same file time, and another size or revision. Which was built later is not
    /// known: reproducible builds give every file one time.
    DifferentAtOneTime,
    /// A side does not say when its file was changed.
    Unknown,
}

/// Compares two builds. Equal times prove no order: two builds that both counted as newer
/// would evict each other for ever.
pub(crate) fn build_order(ours: &Build, theirs: &Build) -> BuildOrder {
    let (Some(our_time), Some(their_time)) = (ours.mod_time, theirs.mod_time) else {
        return BuildOrder::Unknown;
    };
    match our_time.compare(their_time) {
        Ordering::Greater => BuildOrder::Newer,
        Ordering::Less => BuildOrder::Older,
        Ordering::Equal
            if differ(ours.size.as_ref(), theirs.size.as_ref())
                || differ(ours.revision.as_ref(), theirs.revision.as_ref()) =>
        {
            BuildOrder::DifferentAtOneTime
        }
        Ordering::Equal => BuildOrder::Same,
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

/// How well is it known who holds the role? The number in a payload names nobody by
/// itself: it may be from another pid namespace, or of a process that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HolderProof {
    /// The flock on this very file is seen in the payload's process; the number is the one it has here.
    Holder(u32),
    /// The payload could not be read, or names nobody.
    NoName,
    /// The process that has the payload's number here has no such flock.
    NotIt,
    /// The descriptors of the process that has the payload's number here cannot be seen.
    Hidden,
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
    /// No: it is alive, and whether it is stuck has no second witness.
    Doubtful(String),
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
    let order = ours.zip(payload.build().as_ref()).map(|(ours, theirs)| build_order(ours, theirs));
    let reason = allowed.iter().copied().find(|reason| match reason {
        TakeoverReason::Stuck => matches!(silence, Silence::Stuck { .. }),
        TakeoverReason::Newer => order == Some(BuildOrder::Newer),
    });
    let Some(reason) = reason else {
        let why = why_kept(allowed, silence, ours, order);
        return match silence {
            Silence::Unproved { .. } if allowed.contains(&TakeoverReason::Stuck) => {
                TakeoverVerdict::Doubtful(why)
            }
            _ => TakeoverVerdict::Keep(why),
        };
    };
    match proof {
        HolderProof::Holder(pid) => TakeoverVerdict::End(*pid, reason),
        proof => TakeoverVerdict::CannotTell(doubt(proof)),
    }
}

/// Why it is not known who holds the role.
fn doubt(proof: &HolderProof) -> String {
    match proof {
        HolderProof::Holder(_) => "its payload cannot be read".into(),
        HolderProof::NoName => {
            "its payload cannot be read or names no process, so nobody knows whose it is".into()
        }
        HolderProof::NotIt => "the process that its payload names does not hold the lock file here".into(),
        HolderProof::Hidden => {
            "the descriptors of the process that its payload names cannot be seen (run this as its user, \
             in its pid namespace)"
                .into()
        }
        HolderProof::Several(pids) => {
            let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
            format!("several processes hold the lock file (pids {})", pids.join(", "))
        }
    }
}

fn why_kept(
    allowed: &[TakeoverReason],
    silence: &Silence,
    ours: Option<&Build>,
    order: Option<BuildOrder>,
) -> String {
    let mut reasons = Vec::new();
    if allowed.contains(&TakeoverReason::Stuck) {
        reasons.push(match silence {
            Silence::NeverTicked => "it never ticked, so it is not known to be stuck".to_owned(),
            Silence::Fresh { .. } => "it ticks".to_owned(),
            Silence::Unproved { why, .. } => format!("cannot tell whether it is stuck: {why}"),
            Silence::Stuck { .. } => "it is stuck".to_owned(),
        });
    }
    if allowed.contains(&TakeoverReason::Newer) {
        let why = match order {
            None | Some(BuildOrder::Unknown) if ours.is_none_or(|ours| ours.mod_time.is_none()) => {
                "our own build is not known"
            }
            None | Some(BuildOrder::Unknown) => "it does not say which build it runs",
            Some(BuildOrder::DifferentAtOneTime) => {
                "its build has the same file time as ours and another size or revision; \
                 equal times say nothing about which is newer"
            }
            Some(BuildOrder::Same) => "its build has the same file time as ours",
            Some(BuildOrder::Older) => "its build is newer than ours",
            // Not reached: a newer build of ours is a reason.
            Some(BuildOrder::Newer) => "its build is older than ours",
        };
        reasons.push(why.to_owned());
    }
    if reasons.is_empty() { "nothing was asked for that allows it".to_owned() } else { reasons.join(" and ") }
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
