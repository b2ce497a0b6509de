//! One tick, seen again and again by one attempt: the witness that needs no clock of others.

use std::time::{Duration, Instant};

/// Who has not looked for so long was paused, and the holder perhaps with it.
const PAUSED: Duration = Duration::from_secs(10);

/// Which process holds the role: its number here and its start.
pub(crate) type SeenHolder = (Option<u32>, Option<u64>);

/// A tick that was seen more than once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SameTick {
    payload: Vec<u8>,
    holder: SeenHolder,
    /// Since when, and when last, on the awake clock.
    since: Instant,
    last: Instant,
    /// Since when the holder counts as stuck by it.
    pub(crate) stuck_since: Option<Instant>,
}

impl SameTick {
    /// What is seen at `now`. Any change starts anew: another tick, another holder, a pause
    /// of our own.
    pub(crate) fn seen(before: Option<Self>, payload: &[u8], holder: SeenHolder, now: Instant) -> Self {
        match before {
            Some(before)
                if before.payload == payload
                    && before.holder == holder
                    && now.saturating_duration_since(before.last) < PAUSED =>
            {
                Self { last: now, ..before }
            }
            _ => Self { payload: payload.to_vec(), holder, since: now, last: now, stuck_since: None },
        }
    }

    /// How long it has been the same.
    pub(crate) fn same_for(&self) -> Duration {
        self.last.saturating_duration_since(self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_tick_of_the_same_process_counts_and_only_while_we_look() {
        let began = Instant::now();
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        let holder = (Some(812), Some(7));
        let first = SameTick::seen(None, b"tick", holder, at(0));
        assert_eq!(first.same_for(), Duration::ZERO);
        let stuck = SameTick { stuck_since: Some(at(0)), ..first };
        let again = SameTick::seen(Some(stuck.clone()), b"tick", holder, at(9));
        assert_eq!((again.same_for(), again.stuck_since), (Duration::from_secs(9), Some(at(0))));
        let longer = SameTick::seen(Some(again), b"tick", holder, at(18));
        assert_eq!(longer.same_for(), Duration::from_secs(18));
        for (what, payload, holder, now) in [
            ("it ticked", &b"tock"[..], holder, 1),
            ("another process", b"tick", (Some(813), Some(7)), 1),
            ("the same number again", b"tick", (Some(812), Some(8)), 1),
            ("we were paused", b"tick", holder, 10),
        ] {
            let anew = SameTick::seen(Some(stuck.clone()), payload, holder, at(now));
            assert_eq!((anew.same_for(), anew.stuck_since), (Duration::ZERO, None), "{what}");
        }
    }
}
