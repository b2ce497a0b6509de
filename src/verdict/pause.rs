//! Is something paused? For locks, for fires and for the tickets of one tracker: one rule for all of them.

use crate::model::event::Event;
use crate::model::pause::{Pause, PauseFound};
use crate::model::time::WallTime;
use crate::verdict::admission::Admission;
use std::time::Duration;

/// A pause that is older is said now and then, whatever else is silent: somebody may have forgotten it.
const FORGOTTEN: Duration = Duration::from_secs(24 * 3600);

/// What a person said of one thing, by its own pause and by the one for everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PauseState {
    NotPaused,
    Paused(CurrentPause),
    /// A file says something and nobody can read what: why.
    Unclear(String),
}

/// A pause that counts now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CurrentPause {
    pub(crate) pause: Pause,
    /// It is the one for everything.
    pub(crate) of_all: bool,
    /// When people were told of it last.
    pub(crate) told: WallTime,
}

/// Decides. A pause that can be read is a person's word, whatever stands in the other place; of two the
/// one counts that ends last.
pub(crate) fn paused(own: &PauseFound, of_all: &PauseFound, now: WallTime) -> PauseState {
    let current = |found: &PauseFound, of_all: bool| match found {
        PauseFound::Read(pause, told) if pause.end().is_none_or(|end| end > now) => {
            Some(CurrentPause { pause: (**pause).clone(), of_all, told: *told })
        }
        _ => None,
    };
    let ends = |it: &CurrentPause| it.pause.end().map_or(u64::MAX, |end| end.0);
    match current(own, false).into_iter().chain(current(of_all, true)).max_by_key(ends) {
        Some(pause) => PauseState::Paused(pause),
        None => [own, of_all]
            .into_iter()
            .find_map(|found| match found {
                PauseFound::Unreadable(why) => Some(PauseState::Unclear(why.clone())),
                _ => None,
            })
            .unwrap_or(PauseState::NotPaused),
    }
}

/// Is it to be said now that the pause still lasts, also where refusals are silent? Once a day, from the second
/// day on. A time in the future, after a clock was set back, proves nothing.
pub(crate) fn is_to_be_said(current: &CurrentPause, now: WallTime) -> bool {
    let lasts = current.pause.begun().age(now).is_some_and(|age| age >= FORGOTTEN);
    lasts && current.told.age(now).is_none_or(|age| age >= FORGOTTEN)
}

/// What the members of a name say, and what a person said. A holder that is proved to live comes first; a pause
/// stands before every doubt and before who waits.
pub(crate) fn under_pause(admission: Admission, pause: &PauseState) -> Admission {
    match (admission, pause) {
        (Admission::Held, _) | (_, PauseState::NotPaused) => admission,
        (_, PauseState::Paused(_)) => Admission::Paused,
        (Admission::Enter { .. } | Admission::ExclusiveWaits, PauseState::Unclear(_)) => {
            Admission::PauseUnclear
        }
        (admission, PauseState::Unclear(_)) => admission,
    }
}

/// From when to when something was paused, as the lines of a log tell, oldest first; what lasts, lasts until `now`.
pub(crate) fn told_pauses(events: &[Event], now: WallTime) -> Vec<(WallTime, WallTime)> {
    let mut pauses: Vec<(WallTime, WallTime)> = Vec::new();
    let mut open: Option<(WallTime, Option<WallTime>)> = None;
    let lines = events.iter().filter(|event| matches!(event.event.as_str(), "paused" | "resumed"));
    for event in lines {
        let Some(at) = WallTime::parse(&event.at) else { continue };
        if let Some((from, until)) = open.take() {
            pauses.push((from, until.map_or(at, |until| until.min(at)).max(from)));
        }
        if event.event == "paused" {
            open = Some((at, event.until.as_deref().and_then(WallTime::parse)));
        }
    }
    pauses.extend(open.map(|(from, until)| (from, until.map_or(now, |until| until.min(now)).max(from))));
    pauses
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 3_600_000;

    fn read(since: u64, until: Option<u64>) -> PauseFound {
        let pause = Pause::new((7, None), WallTime(since), until.map(WallTime), None);
        PauseFound::Read(Box::new(pause), WallTime(since))
    }

    #[test]
    fn a_pause_ends_by_the_clock_and_the_one_that_ends_last_counts() {
        let now = WallTime(10 * DAY);
        let nothing = PauseFound::Nothing;
        let unreadable = PauseFound::Unreadable("why".to_owned());
        let later = now.0 + 1;
        let of_all = |own: &PauseFound, all: &PauseFound| match paused(own, all, now) {
            PauseState::Paused(current) => Some(current.of_all),
            _ => None,
        };
        assert_eq!(paused(&nothing, &nothing, now), PauseState::NotPaused);
        assert_eq!(of_all(&read(5, None), &nothing), Some(false));
        assert_eq!(of_all(&nothing, &read(5, Some(later))), Some(true));
        assert_eq!(of_all(&read(5, Some(now.0)), &nothing), None, "over at its end");
        assert_eq!(of_all(&read(5, Some(later)), &read(5, None)), Some(true));
        assert_eq!(of_all(&read(5, None), &read(5, Some(later))), Some(false));
        assert_eq!(of_all(&read(5, Some(now.0)), &read(5, Some(later))), Some(true));
        assert_eq!(of_all(&unreadable, &read(5, None)), Some(true), "a word that can be read counts");
        for (own, all) in [(&unreadable, &nothing), (&nothing, &unreadable), (&unreadable, &read(5, Some(7)))]
        {
            assert_eq!(paused(own, all, now), PauseState::Unclear("why".to_owned()));
        }
        assert_eq!(
            of_all(&read(now.0 + DAY, None), &nothing),
            Some(false),
            "also when the clock was set back"
        );
    }

    #[test]
    fn a_long_pause_is_said_once_a_day() {
        let due = |told: u64, now: u64| {
            let current = CurrentPause {
                pause: Pause::new((7, None), WallTime(DAY), None, None),
                of_all: false,
                told: WallTime(told),
            };
            is_to_be_said(&current, WallTime(now))
        };
        assert!(!due(DAY, 2 * DAY - 1) && due(DAY, 2 * DAY));
        assert!(!due(2 * DAY, 3 * DAY - 1) && due(2 * DAY, 3 * DAY));
        assert!(due(9 * DAY, 3 * DAY), "told in the future is not told");
        assert!(!due(0, DAY / 2), "begun in the future is not long");
    }

    #[test]
    fn a_log_tells_from_when_to_when() {
        let line = |at: u64, word: &str, until: Option<u64>| Event {
            until: until.map(|until| WallTime(until).rfc3339()),
            ..Event::new(word, WallTime(at).rfc3339(), "sync")
        };
        let told = |events: &[Event]| -> Vec<(u64, u64)> {
            told_pauses(events, WallTime(100)).iter().map(|(from, to)| (from.0, to.0)).collect()
        };
        assert_eq!(
            told(&[line(1, "paused", None), line(5, "acquired", None), line(9, "resumed", None)]),
            [(1, 9)]
        );
        assert_eq!(told(&[line(1, "paused", Some(4)), line(9, "resumed", None)]), [(1, 4)]);
        assert_eq!(told(&[line(1, "paused", None), line(3, "paused", Some(200))]), [(1, 3), (3, 100)]);
        assert_eq!(told(&[line(1, "paused", Some(7))]), [(1, 7)]);
        assert_eq!(told(&[line(9, "resumed", None), line(50, "paused", None)]), [(50, 100)]);
    }

    #[test]
    fn a_live_holder_comes_before_a_pause_and_a_pause_before_a_doubt() {
        use Admission::{Enter, ExclusiveWaits, Held, PauseUnclear, Paused, Unclear};
        let enter = Enter { slot: Some(1) };
        let current = paused(&read(5, None), &PauseFound::Nothing, WallTime(6));
        let unclear = PauseState::Unclear(String::new());
        for (admission, by_pause, by_doubt) in [
            (Held, Held, Held),
            (Unclear, Paused, Unclear),
            (ExclusiveWaits, Paused, PauseUnclear),
            (enter, Paused, PauseUnclear),
        ] {
            assert_eq!(under_pause(admission, &PauseState::NotPaused), admission);
            assert_eq!(under_pause(admission, &current), by_pause);
            assert_eq!(under_pause(admission, &unclear), by_doubt);
        }
    }
}
