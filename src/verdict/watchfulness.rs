//! What about a lock needs a person: a pure function over what is known of it.

use crate::model::duration;
use std::time::Duration;

/// What is known of one name now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NameFacts {
    pub(crate) name: String,
    /// How many hold it now, with proof.
    pub(crate) holders: u64,
    /// It cannot be told whether it is held.
    pub(crate) unknown: bool,
    /// The holder promised to tick and fell silent.
    pub(crate) stuck: bool,
    /// For how long it has been held, seconds.
    pub(crate) held_s: Option<u64>,
    /// How many stand in line for it.
    pub(crate) waiting: u64,
    /// Refusals and skips in a row by the present holder.
    pub(crate) skips: u64,
    /// A person paused it.
    pub(crate) paused: bool,
    /// How long ago the last run began, seconds; absent if none is known.
    pub(crate) begun_ago_s: Option<u64>,
    /// Exit status of the last run, where somebody stood by.
    pub(crate) last_status: Option<u8>,
}

/// What a person said is too much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WatchLimits {
    pub(crate) held_longer: Option<Duration>,
    pub(crate) skips: Option<u64>,
    pub(crate) last_run_within: Option<Duration>,
}

/// What is wrong with it, one sentence each; none when all is well. Stuck and unknown are always wrong.
pub(crate) fn troubles(facts: &NameFacts, limits: &WatchLimits) -> Vec<String> {
    let show = |seconds: u64| duration::show(Duration::from_secs(seconds));
    let mut troubles = Vec::new();
    if facts.stuck {
        troubles.push("its holder promised to tick and fell silent".to_owned());
    }
    if facts.unknown {
        troubles.push("it cannot be told whether its owner still runs".to_owned());
    }
    if let (Some(most), Some(held)) = (limits.held_longer, facts.held_s)
        && Duration::from_secs(held) > most
    {
        troubles.push(format!("held for {}, longer than {}", show(held), duration::show(most)));
    }
    if let Some(most) = limits.skips
        && facts.skips >= most
    {
        troubles.push(format!("{} runs in a row were refused or skipped by the same holder", facts.skips));
    }
    if let Some(within) = limits.last_run_within {
        match facts.begun_ago_s {
            None => troubles
                .push(format!("no run is known, and one was expected within {}", duration::show(within))),
            Some(ago) if Duration::from_secs(ago) > within => troubles.push(format!(
                "the last run began {} ago, and one was expected within {}",
                show(ago),
                duration::show(within)
            )),
            Some(_) => {}
        }
    }
    troubles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_asked_for_or_is_always_wrong_is_a_trouble() {
        let hour = Some(Duration::from_secs(3600));
        let well = NameFacts {
            holders: 1,
            held_s: Some(600),
            begun_ago_s: Some(600),
            skips: 2,
            ..NameFacts::default()
        };
        let limits = WatchLimits { held_longer: hour, skips: Some(3), last_run_within: hour };
        assert_eq!(troubles(&well, &limits), [] as [&str; 0]);
        let count = |facts: &NameFacts, limits: &WatchLimits| troubles(facts, limits).len();
        let none = WatchLimits::default();
        let old = NameFacts { held_s: Some(3601), begun_ago_s: Some(3601), skips: 3, ..well.clone() };
        assert_eq!((count(&old, &limits), count(&old, &none)), (3, 0));
        assert_eq!(
            count(&NameFacts { held_s: Some(3600), begun_ago_s: Some(3600), ..well.clone() }, &limits),
            0
        );
        assert_eq!(count(&NameFacts { stuck: true, ..well.clone() }, &none), 1);
        assert_eq!(count(&NameFacts { unknown: true, ..well.clone() }, &none), 1);
        let never = NameFacts::default();
        assert!(troubles(&never, &limits)[0].contains("no run is known"));
        assert_eq!(count(&never, &none), 0);
    }
}
