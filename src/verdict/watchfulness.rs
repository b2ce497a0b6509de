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
    /// For how long it has been held, seconds; by several: the longest.
    pub(crate) held_s: Option<u64>,
    /// The most holders that one of those who hold it let in beside himself (`--slots`).
    pub(crate) slots: Option<u64>,
    /// How many stand in line for it.
    pub(crate) waiting: u64,
    /// For how long the first of them has waited, seconds; absent if that was not asked or cannot be seen.
    pub(crate) waiting_s: Option<u64>,
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
    pub(crate) waiting_longer: Option<Duration>,
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
        troubles.push(format!(
            "{} runs in a row were refused or skipped because of the same holder",
            facts.skips
        ));
    }
    if let Some(most) = limits.waiting_longer
        && facts.waiting > 0
    {
        let who = if facts.waiting == 1 { "one waits".to_owned() } else { format!("{} wait", facts.waiting) };
        match facts.waiting_s {
            // Said, because silence would mean that all is well.
            None => troubles.push(format!("{who}, and it cannot be seen since when")),
            Some(waited) if Duration::from_secs(waited) > most => {
                let first = if facts.waiting == 1 { "" } else { "the first " };
                troubles.push(format!(
                    "{who}, {first}for {}, longer than {}",
                    show(waited),
                    duration::show(most)
                ));
            }
            Some(_) => {}
        }
    }
    if let Some(within) = limits.last_run_within {
        let expected = format!("one was expected within {}", duration::show(within));
        let paused = if facts.paused { "; a person paused it" } else { "" };
        match facts.begun_ago_s {
            None => troubles.push(format!("no run is known, and {expected}{paused}")),
            Some(ago) if Duration::from_secs(ago) > within => {
                troubles.push(format!("the last run began {} ago, and {expected}{paused}", show(ago)));
            }
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
        let limits =
            WatchLimits { held_longer: hour, skips: Some(3), last_run_within: hour, waiting_longer: hour };
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
        let line = |waiting, waiting_s| NameFacts { waiting, waiting_s, ..well.clone() };
        let said = |facts: &NameFacts| troubles(facts, &limits).join("\n");
        assert_eq!(said(&line(1, Some(3600))), "");
        assert_eq!(said(&line(1, Some(3660))), "one waits, for 1h1m, longer than 1h");
        assert_eq!(said(&line(2, Some(7200))), "2 wait, the first for 2h, longer than 1h");
        assert_eq!(said(&line(2, None)), "2 wait, and it cannot be seen since when");
        assert_eq!(said(&line(0, None)), "");
        assert_eq!(count(&line(2, Some(7200)), &none), 0);
        let late = NameFacts { begun_ago_s: Some(7200), paused: true, ..well.clone() };
        assert_eq!(
            said(&late),
            "the last run began 2h ago, and one was expected within 1h; a person paused it"
        );
        let never = NameFacts::default();
        assert!(troubles(&never, &limits)[0].contains("no run is known"));
        assert_eq!(count(&never, &none), 0);
    }
}
