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
    /// Not ours, or out of range; counts as absent and is said.
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
            Some(token) if token <= TOKEN_MAX => Self::Last(token),
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
/// since 1970, so that it rises as long as one of the three survives. `None` at the end of the range.
pub(crate) fn next(guard: GuardToken, record: Option<u64>, now: WallTime) -> Option<u64> {
    let clock = if now.0 < TOKEN_MAX { now.0 } else { 0 };
    let last = guard.number().unwrap_or(0).max(record.unwrap_or(0)).max(clock);
    Some(last + 1).filter(|token| *token <= TOKEN_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_rises_while_anything_survives() {
        let now = WallTime(1_000);
        assert_eq!(next(GuardToken::Empty, None, now), Some(1_001));
        assert_eq!(next(GuardToken::Last(5_000), Some(7), now), Some(5_001));
        assert_eq!(next(GuardToken::Garbage, Some(6_000), now), Some(6_001));
        assert_eq!(next(GuardToken::Last(TOKEN_MAX), None, now), None, "never wraps");
    }

    #[test]
    fn a_guard_holds_twenty_digits_or_nothing() {
        assert_eq!(GuardToken::parse(guard_line(42).as_bytes()), GuardToken::Last(42));
        assert_eq!(guard_line(42).len(), 21);
        assert_eq!(GuardToken::parse(b""), GuardToken::Empty);
        for garbage in
            [&b"x"[..], b"-1\n", b"\0\0\0", b"99999999999999999999\n", b"\n", b"9007199254740991\n"]
        {
            assert_eq!(GuardToken::parse(garbage), GuardToken::Garbage, "{garbage:?}");
        }
    }
}
