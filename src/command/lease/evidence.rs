//! What an answer about a holder rests on, for `-v`.

use super::say::{HolderReport, exact, process};
use crate::lease::observe::{self, show};
use crate::model::duration;
use crate::model::lease::Payload;
use crate::verdict::lease::HolderProof;
use std::time::Duration;

/// One line for each thing that was looked at.
pub(super) fn evidence(known: &HolderReport<'_>) -> Vec<String> {
    let observed = known.observed;
    let path = show(&observed.path);
    let size = observed.bytes.len();
    let read = match &observed.payload {
        Some(_) => format!("{path}: locked; its payload has {size} bytes"),
        None => format!("{path}: locked; no payload could be read from it ({size} bytes)"),
    };
    let number = observed.payload.as_ref().and_then(Payload::pid);
    let proof = match (&observed.proof, number) {
        (HolderProof::Holder(pid), Some(number)) if *pid != number => format!(
            "the lock is seen among the descriptors of pid {pid}; in its own pid namespace it has the \
             number in the payload"
        ),
        (HolderProof::Holder(pid), _) => {
            format!("the lock is seen among the descriptors of pid {pid}, the number in the payload")
        }
        (HolderProof::NoName, _) => "the payload names no process".to_owned(),
        (HolderProof::Hidden, _) => {
            "the descriptors of the process with the payload's number cannot be read here".to_owned()
        }
        (HolderProof::NotIt | HolderProof::Several(_), _) => {
            "the lock is not among the descriptors of the process with the payload's number here".to_owned()
        }
    };
    let rest = if known.holder.pid.is_none() {
        let found: Vec<String> = observed.found.pids.iter().map(|pid| process(*pid)).collect();
        let found = if found.is_empty() { "nobody".to_owned() } else { found.join(", ") };
        let blind = if observed.found.blind { "; some processes could not be looked into" } else { "" };
        Some(format!("a search of /proc for the lock found {found}{blind}"))
    } else {
        ticks(known)
    };
    [read, proof].into_iter().chain(rest).collect()
}

fn ticks(known: &HolderReport<'_>) -> Option<String> {
    let payload = known.observed.payload.as_ref()?;
    let now = observe::now();
    let run = known.observed.started_us().and_then(|started| now.boottime_us.checked_sub(started));
    let run = run.map_or_else(
        || "the start of its process cannot be read".to_owned(),
        |run| format!("its process has run for {}", duration::show(Duration::from_micros(run))),
    );
    let clock = match payload.tick_stamp() {
        None => "its ticks carry the wall clock only",
        Some(stamp) if stamp.boot_id != now.boot_id => "its last tick is from another boot",
        Some(stamp) if stamp.time_ns.is_none() || stamp.time_ns != now.time_ns => {
            "its last tick was written in another time namespace"
        }
        Some(_) => "its last tick is from this boot and this time namespace",
    };
    Some(format!("{run}; {clock}; stuck means silent for {} of time awake", exact(known.stuck_after)))
}
