//! RFC 3339 times as other programs write them: with nanoseconds, in any zone, and
//! Go's zero time, which stands for "none". Shown and compared with each other;
//! never the only reason for a decision.

use std::cmp::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A time and how finely it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    time: SystemTime,
    /// Digits behind the decimal point in its text, 0 to 9.
    digits: u32,
}

/// What stands where a time is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// No field, null, or Go's zero time: Go cannot leave out a struct.
    Absent,
    /// Something that is not a time.
    Unreadable,
    /// A time.
    At(Stamp),
}

impl Written {
    /// The time, if there is one.
    pub(crate) fn stamp(self) -> Option<Stamp> {
        match self {
            Self::At(stamp) => Some(stamp),
            Self::Absent | Self::Unreadable => None,
        }
    }
}

impl Stamp {
    /// A time of this machine, to the nanosecond.
    pub(crate) fn of(time: SystemTime) -> Self {
        Self { time, digits: 9 }
    }

    /// Reads the text of a field.
    pub(crate) fn read(text: &str) -> Written {
        if text.starts_with("0001-01-01T00:00:00") {
            return Written::Absent;
        }
        parse(text).map_or(Written::Unreadable, Written::At)
    }

    /// With all nine digits, so that one tick is as long as the next.
    pub(crate) fn rfc3339_nanos(self) -> String {
        humantime::format_rfc3339_nanos(self.time).to_string()
    }

    /// As Go prints it: no zeros at the end of the fraction. What a file system
    /// without nanoseconds stored then shows no resolution that it never had.
    pub(crate) fn rfc3339_trimmed(self) -> String {
        let text = self.rfc3339_nanos();
        let body = text.trim_end_matches('Z').trim_end_matches('0').trim_end_matches('.');
        format!("{body}Z")
    }

    /// The time.
    pub(crate) fn time(self) -> SystemTime {
        self.time
    }

    /// Compares at the resolution both texts kept: a copy that lost its nanoseconds
    /// is not older than the original.
    pub(crate) fn compare(self, other: Self) -> Ordering {
        let digits = self.digits.min(other.digits);
        self.cut(digits).cmp(&other.cut(digits))
    }

    fn cut(self, digits: u32) -> u128 {
        let nanos = self.time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_nanos();
        nanos / 10_u128.pow(9 - digits.min(9))
    }
}

/// `2026-11-29T09:12:04.113+01:00`, from 1970 on.
fn parse(text: &str) -> Option<Stamp> {
    if !text.is_ascii() || text.len() < 20 {
        return None;
    }
    let (local, rest) = text.split_at(19);
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count()),
        None => ("", rest),
    };
    if rest.starts_with('.') && fraction.is_empty() {
        return None;
    }
    let fraction = &fraction[..fraction.len().min(9)];
    let nanos = fraction.bytes().fold(0_u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    let digits = u32::try_from(fraction.len()).ok()?;
    let utc = humantime::parse_rfc3339(&format!("{local}Z")).ok()?;
    let utc = utc + Duration::from_nanos(nanos * 10_u64.pow(9 - digits));
    let time = match zone.as_bytes() {
        b"Z" | b"z" => utc,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let part = |tens: &u8, ones: &u8| {
                let digits = tens.is_ascii_digit() && ones.is_ascii_digit();
                digits.then(|| u64::from(tens - b'0') * 10 + u64::from(ones - b'0'))
            };
            let offset = Duration::from_secs(part(h1, h2)? * 3600 + part(m1, m2)? * 60);
            if *sign == b'+' { utc.checked_sub(offset)? } else { utc.checked_add(offset)? }
        }
        _ => return None,
    };
    Some(Stamp { time, digits })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Stamp {
        Stamp::read(text).stamp().expect("a time")
    }

    #[test]
    fn times_of_other_programs_are_read() {
        let utc = at("2026-11-29T09:12:04Z");
        assert_eq!(at("2026-11-29T10:12:04+01:00").time(), utc.time());
        assert_eq!(at("2026-11-29T04:12:04-05:00").time(), utc.time());
        assert_eq!(at("2026-11-29T14:57:04+05:45").time(), utc.time());
        let nanos = at("2026-11-29T09:12:04.123456789+00:00");
        assert_eq!(nanos.rfc3339_nanos(), "2026-11-29T09:12:04.123456789Z");
        assert_eq!(at("2026-11-29T09:12:04.1200Z").rfc3339_trimmed(), "2026-11-29T09:12:04.12Z");
        assert_eq!(utc.rfc3339_trimmed(), "2026-11-29T09:12:04Z");
    }

    #[test]
    fn no_time_and_nonsense_are_told_apart() {
        assert_eq!(Stamp::read("0001-01-01T00:00:00Z"), Written::Absent);
        for text in [
            "",
            "yesterday",
            "2026-11-29",
            "2026-11-29 09:12:04",
            "2026-11-29T09:12:04",
            "2026-11-29T09:12:04.Z",
            "2026-11-29T09:12:04+0100",
            "2026-13-29T09:12:04Z",
            "1796029924",
            "2026-11-29T09:12:04Zé",
            "1800-01-01T00:00:00Z",
        ] {
            assert_eq!(Stamp::read(text), Written::Unreadable, "{text}");
        }
    }

    #[test]
    fn comparison_stops_at_the_resolution_both_kept() {
        let (fine, coarse) = (at("2026-11-29T09:12:04.9Z"), at("2026-11-29T09:12:04Z"));
        assert_eq!(fine.compare(coarse), Ordering::Equal);
        assert_eq!(at("2026-11-29T09:12:05.000000001Z").compare(fine), Ordering::Greater);
        assert_eq!(at("2026-11-29T09:12:04.91Z").compare(at("2026-11-29T09:12:04.92Z")), Ordering::Less);
    }

    proptest::proptest! {
        #[test]
        fn no_text_crashes_the_reader(text in "\\PC{0,40}") {
            let _ = Stamp::read(&text);
        }

        #[test]
        fn a_time_survives_text(nanos in 0_u64..4_000_000_000_000_000_000) {
            let stamp = Stamp::of(UNIX_EPOCH + Duration::from_nanos(nanos));
            proptest::prop_assert_eq!(at(&stamp.rfc3339_nanos()), stamp);
            proptest::prop_assert_eq!(at(&stamp.rfc3339_trimmed()).time(), stamp.time());
        }
    }
}
