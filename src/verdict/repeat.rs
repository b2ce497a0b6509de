//! Is it too early to run a name again, by what the caller asked? Answered from the last run of the name,
//! and nobody has to hold it for that.

use crate::model::last_run::{EndStamp, RepeatTerms};
use crate::model::time::WallTime;
use std::time::Duration;

/// What counts of the last run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RanFacts<'a> {
    /// The key it was run for.
    pub(crate) key: Option<&'a str>,
    /// Its exit status, where somebody stood by.
    pub(crate) status: Option<i64>,
    /// How long ago it ended; `None`: it runs, or that cannot be told.
    pub(crate) ended_ago: Option<Duration>,
}

/// Why not again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotNow {
    /// It has run for this key.
    RanAlready,
    /// It ended too short ago; so long it is to wait still.
    TooSoon(Duration),
}

/// Decides; `None`: nothing speaks against it.
pub(crate) fn repeat(asked: &RepeatTerms, last: &RanFacts<'_>) -> Option<NotNow> {
    let same = asked
        .once
        .as_ref()
        .is_some_and(|once| last.key == Some(once.key.as_str()) && (!once.only_ok || last.status == Some(0)));
    if same {
        return Some(NotNow::RanAlready);
    }
    let left = asked.cooldown?.checked_sub(last.ended_ago?)?;
    (!left.is_zero()).then_some(NotNow::TooSoon(left))
}

/// How long ago an end was: by the boot clock within one boot and one time namespace, else by the wall clock.
/// `None`: it lies ahead of us, so a clock was set or the machine rolled back, and nothing can be told.
pub(crate) fn ended_ago(end: &EndStamp, now: &EndStamp) -> Option<Duration> {
    let one_clock = end.boot_id.is_some() && end.boot_id == now.boot_id && end.time_ns == now.time_ns;
    if one_clock && let Some(ago) = now.boottime_us.checked_sub(end.boottime_us) {
        return Some(Duration::from_micros(ago));
    }
    WallTime::parse(&end.utc)?.age(WallTime::parse(&now.utc)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::last_run::OnceKey;

    fn asked(once: Option<(&str, bool)>, cooldown: Option<u64>) -> RepeatTerms {
        RepeatTerms {
            once: once.map(|(key, only_ok)| OnceKey { key: key.to_owned(), only_ok }),
            cooldown: cooldown.map(Duration::from_secs),
        }
    }

    #[test]
    fn what_speaks_against_another_run() {
        use NotNow::{RanAlready, TooSoon};
        let secs = Duration::from_secs;
        let (k, ok) = (Some(("k", false)), Some(("k", true)));
        let rows = [
            // Nothing was asked.
            (None, None, Some("k"), Some(0), Some(1), None),
            (k, None, Some("k"), Some(0), Some(1), Some(RanAlready)),
            (k, None, Some("k"), Some(1), Some(1), Some(RanAlready)),
            (k, None, Some("k"), None, None, Some(RanAlready)),
            (k, None, Some("l"), Some(0), Some(1), None),
            (k, None, None, Some(0), Some(1), None),
            (ok, None, Some("k"), Some(0), Some(1), Some(RanAlready)),
            (ok, None, Some("k"), Some(1), Some(1), None),
            (ok, None, Some("k"), None, Some(1), None),
            (ok, None, Some("l"), Some(0), Some(1), None),
            (None, Some(10), None, None, Some(9), Some(TooSoon(secs(1)))),
            (None, Some(10), None, None, Some(10), None),
            (None, Some(10), None, None, Some(11), None),
            (None, Some(10), None, None, None, None),
            (None, Some(0), None, None, Some(0), None),
            // Both: the key first.
            (k, Some(10), Some("k"), None, Some(1), Some(RanAlready)),
            (k, Some(10), Some("l"), None, Some(1), Some(TooSoon(secs(9)))),
        ];
        for (once, cooldown, key, status, ended, expected) in rows {
            let last = RanFacts { key, status, ended_ago: ended.map(secs) };
            assert_eq!(repeat(&asked(once, cooldown), &last), expected, "{once:?} {cooldown:?} {last:?}");
        }
    }

    fn stamp(utc: &str, boottime_s: u64, boot: Option<&str>, time_ns: Option<u64>) -> EndStamp {
        EndStamp {
            utc: format!("2026-11-29T{utc}Z"),
            boottime_us: boottime_s * 1_000_000,
            boot_id: boot.map(str::to_owned),
            time_ns,
            ..EndStamp::default()
        }
    }

    #[test]
    fn the_boot_clock_decides_within_one_boot_and_the_wall_clock_elsewhere() {
        let now = stamp("10:00:00", 5000, Some("b"), Some(1));
        let ago = |end: &EndStamp| ended_ago(end, &now).map(|ago| ago.as_secs());
        // The wall clock was set meanwhile.
        assert_eq!(ago(&stamp("03:00:00", 4990, Some("b"), Some(1))), Some(10));
        assert_eq!(ago(&stamp("23:00:00", 4990, Some("b"), Some(1))), Some(10));
        // Another boot, another time namespace, none known, and a machine that rolled back.
        assert_eq!(ago(&stamp("09:59:00", 4990, Some("c"), Some(1))), Some(60));
        assert_eq!(ago(&stamp("09:59:00", 4990, Some("b"), Some(2))), Some(60));
        assert_eq!(ago(&stamp("09:59:00", 4990, None, Some(1))), Some(60));
        assert_eq!(ago(&stamp("09:59:00", 5001, Some("b"), Some(1))), Some(60));
        let unbooted = stamp("10:00:00", 5000, None, Some(1));
        let end = stamp("09:59:00", 4990, None, Some(1));
        assert_eq!(
            ended_ago(&end, &unbooted),
            Some(Duration::from_secs(60)),
            "two that are absent are not one boot"
        );
        // Ahead of us: nothing can be told.
        assert_eq!(ago(&stamp("10:00:01", 4990, Some("c"), Some(1))), None);
        assert_eq!(ago(&EndStamp { utc: "soon".into(), ..EndStamp::default() }), None);
    }
}
