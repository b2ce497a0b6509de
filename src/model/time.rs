//! Wall-clock times, for people and records. Never for a decision.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A wall-clock time as milliseconds since 1970, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WallTime(pub(crate) u64);

impl WallTime {
    /// From the system's clock; before 1970 is 1970.
    pub(crate) fn of(time: SystemTime) -> Self {
        let millis = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self(u64::try_from(millis.as_millis()).unwrap_or(u64::MAX))
    }

    /// RFC 3339 in UTC with milliseconds: `2026-11-29T09:12:04.113Z`.
    pub(crate) fn rfc3339(self) -> String {
        humantime::format_rfc3339_millis(self.system()).to_string()
    }

    /// Reads RFC 3339 in UTC; anything else is `None`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        humantime::parse_rfc3339(text).ok().map(Self::of)
    }

    /// Seconds since 1970, for JSON.
    pub(crate) fn seconds(self) -> u64 {
        self.0 / 1000
    }

    /// How long ago it was at `now`; `None` when it lies in the future (the clock moved).
    pub(crate) fn age(self, now: Self) -> Option<Duration> {
        now.0.checked_sub(self.0).map(Duration::from_millis)
    }

    fn system(self) -> SystemTime {
        // 9999-12-31T23:59:59Z is the last time humantime prints.
        UNIX_EPOCH + Duration::from_millis(self.0.min(253_402_300_799_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_survives_text() {
        let time = WallTime(1_796_029_924_113);
        assert_eq!(time.rfc3339(), "2026-11-30T09:12:04.113Z");
        assert_eq!(WallTime::parse(&time.rfc3339()), Some(time));
        assert_eq!(WallTime::parse("yesterday"), None);
    }
}
