//! May the files of a name be swept away? Only where nobody has it, nobody could come back to it, and it was not
//! used for as long as a person said. Nothing becomes free by that: it is free before.

use crate::model::duration;
use crate::model::time::WallTime;
use crate::verdict::admission::Presence;
use std::time::Duration;

/// What is known of a name, under its guard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SweepFacts {
    /// Of each record of the name.
    pub(crate) members: Vec<Presence>,
    /// A record that no version of ours wrote stands there.
    pub(crate) corrupt: bool,
    /// Somebody carries a pulse of the name, whatever its token, or that cannot be told.
    pub(crate) pulse: bool,
    /// Somebody waits for it.
    pub(crate) waited_for: bool,
    /// A person paused it by its own name, or what was said cannot be read.
    pub(crate) paused: bool,
    /// The latest times at which it was used, as far as they are known.
    pub(crate) used: Vec<WallTime>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sweep {
    /// Unused for so long.
    Remove(Duration),
    /// Why not.
    Keep(String),
}

/// Decides; the first reason counts.
pub(crate) fn sweep(facts: &SweepFacts, older: Duration, now: WallTime) -> Sweep {
    let has = |presence| facts.members.contains(&presence);
    let reasons = [
        (has(Presence::Live), "it is held"),
        (has(Presence::Unknown), "it cannot be told whether its owner still runs"),
        (facts.corrupt, "its record is corrupt; the next acquire sets it aside"),
        (facts.pulse, "something that a run of it started still works"),
        (facts.waited_for, "somebody waits for it"),
        (facts.paused, "it is paused"),
    ];
    if let Some((_, why)) = reasons.into_iter().find(|(holds, _)| *holds) {
        return Sweep::Keep(why.to_owned());
    }
    match facts.used.iter().max().and_then(|used| used.age(now)) {
        None => Sweep::Keep("it is not known when it was used last (the clock may have moved)".to_owned()),
        Some(unused) if unused < older => Sweep::Keep(format!("it was used {} ago", duration::show(unused))),
        Some(unused) => Sweep::Remove(unused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_free_and_long_unused_goes() {
        let hour = Duration::from_secs(3600);
        let now = WallTime(10 * 3_600_000);
        let old = SweepFacts {
            members: vec![Presence::Gone, Presence::Gone],
            used: vec![WallTime(5), WallTime(2 * 3_600_000)],
            ..SweepFacts::default()
        };
        assert_eq!(sweep(&old, 8 * hour, now), Sweep::Remove(8 * hour), "the latest use counts");
        let kept = |facts: SweepFacts| matches!(sweep(&facts, 8 * hour, now), Sweep::Keep(_));
        assert!(matches!(sweep(&old, 8 * hour + Duration::from_millis(1), now), Sweep::Keep(_)));
        for presence in [Presence::Live, Presence::Unknown] {
            assert!(kept(SweepFacts { members: vec![Presence::Gone, presence], ..old.clone() }));
        }
        assert!(kept(SweepFacts { corrupt: true, ..old.clone() }));
        assert!(kept(SweepFacts { pulse: true, ..old.clone() }));
        assert!(kept(SweepFacts { waited_for: true, ..old.clone() }));
        assert!(kept(SweepFacts { paused: true, ..old.clone() }));
        assert!(kept(SweepFacts { used: Vec::new(), ..old.clone() }), "nothing is known of its use");
        assert!(kept(SweepFacts { used: vec![WallTime(now.0 + 1)], ..old.clone() }), "used in the future");
        let now_used = SweepFacts { used: vec![now], ..old };
        assert_eq!(sweep(&now_used, Duration::ZERO, now), Sweep::Remove(Duration::ZERO), "0s is allowed");
    }
}
