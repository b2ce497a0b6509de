//! Fencing tokens: a number that only rises, one per acquire of a name.

use crate::model::time::WallTime;

/// Above this a number does not survive JSON readers that use doubles (2^53 - 2).
pub(crate) const TOKEN_MAX: u64 = (1 << 53) - 2;

/// What a guard file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GuardToken {
    /// New or emptied: nobody has taken a token through this file.
    Empty,
    /// The last token.
    Last(u64),
    /// Not ours, or nothing could follow it; counts as absent and is said.
    Garbage,
}

impl GuardToken {
    /// Reads the bytes of a guard: 20 digits and a newline.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        if bytes.is_empty() {
            return Self::Empty;
        }
        let digits = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let number = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
        match number.and_then(|text| text.parse().ok()) {
            // Nothing could follow the last one: a guard with it would refuse everybody for ever.
            Some(token) if token < TOKEN_MAX => Self::Last(token),
            _ => Self::Garbage,
        }
    }

    /// The number, if there is one.
    pub(crate) fn number(self) -> Option<u64> {
        match self {
            Self::Last(token) => Some(token),
            Self::Empty | Self::Garbage => None,
        }
    }
}

/// The guard's content for a token.
pub(crate) fn guard_line(token: u64) -> String {
    format!("{token:020}\n")
}

/// The next token: above the guard's, above the record's, and above the milliseconds
/// since 1970, so that it rises as long as one of the three survives. What nothing can follow counts as absent.
pub(crate) fn next(guard: GuardToken, record: Option<u64>, now: WallTime) -> u64 {
    let known = [guard.number(), record, Some(now.0)];
    known.into_iter().flatten().filter(|token| *token < TOKEN_MAX).max().unwrap_or(0) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_rises_while_anything_survives() {
        let now = WallTime(1_000);
        assert_eq!(next(GuardToken::Empty, None, now), 1_001);
        assert_eq!(next(GuardToken::Last(5_000), Some(7), now), 5_001);
        assert_eq!(next(GuardToken::Garbage, Some(6_000), now), 6_001);
        assert_eq!(next(GuardToken::Last(TOKEN_MAX - 1), None, now), TOKEN_MAX, "the last one");
    }

    #[test]
    fn what_nothing_can_follow_counts_as_absent() {
        let now = WallTime(1_000);
        assert_eq!(next(GuardToken::Garbage, Some(TOKEN_MAX), now), 1_001);
        assert_eq!(next(GuardToken::Last(7), Some(u64::MAX), now), 1_001);
        assert_eq!(next(GuardToken::Empty, None, WallTime(u64::MAX)), 1);
    }

    proptest::proptest! {
        #[test]
        fn every_token_is_in_range_and_above_what_counts(guard in 0..=u64::MAX, record in 0..=u64::MAX, now in 0..=u64::MAX) {
            let line = GuardToken::parse(format!("{guard}\n").as_bytes());
            let token = next(line, Some(record), WallTime(now));
            proptest::prop_assert!((1..=TOKEN_MAX).contains(&token));
            for known in [guard, record, now] {
                proptest::prop_assert!(known >= TOKEN_MAX || token > known);
            }
        }
    }

    #[test]
    fn a_guard_holds_twenty_digits_or_nothing() {
        assert_eq!(GuardToken::parse(guard_line(42).as_bytes()), GuardToken::Last(42));
        assert_eq!(guard_line(42).len(), 21);
        assert_eq!(GuardToken::parse(b""), GuardToken::Empty);
        for garbage in [
            &b"x"[..],
            b"-1\n",
            b"\0\0\0",
            b"99999999999999999999\n",
            b"\n",
            b"9007199254740991\n",
            b"9007199254740990\n",
        ] {
            assert_eq!(GuardToken::parse(garbage), GuardToken::Garbage, "{garbage:?}");
        }
    }
}
