//! A moment as people type it: a duration ago, a time of day, a date, or RFC 3339.

use super::duration;
use super::time::WallTime;
use std::time::Duration;

/// A moment as typed. Which instant a local time is, only a time zone can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// `90m`: so long ago.
    Ago(Duration),
    /// `09:45`, `2026-11-29`, `2026-11-29 09:45`: hour, minute, second in the reader's zone.
    Local(Day, [u16; 3]),
    /// `2026-11-29T09:45:00Z`.
    At(WallTime),
}

impl Moment {
    /// How long the moment lasts that was meant, milliseconds: `09:45` is that minute, `09:45:07` that second.
    pub(crate) fn length_ms(self) -> u64 {
        let whole_minute = match self {
            Self::Ago(_) => return 0,
            Self::Local(_, [_, _, second]) => second == 0,
            Self::At(time) => time.0.is_multiple_of(60_000),
        };
        if whole_minute { 59_999 } else { 999 }
    }
}

/// The day of a local time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Day {
    /// The last one on which that time was.
    Last,
    /// Year, month, day.
    Date([u16; 3]),
}

/// What is accepted, for a refusal.
pub(crate) const FORMS: &str =
    "a duration ago (90m), a time of day (09:45), a date (2026-11-29), both, or RFC 3339";

/// Reads a moment.
///
/// # Errors
/// [`FORMS`].
pub(crate) fn parse(text: &str) -> Result<Moment, String> {
    let text = text.trim();
    if let Ok(ago) = duration::parse(text) {
        return Ok(Moment::Ago(ago));
    }
    let forms = || format!("not a moment; a moment is {FORMS}");
    let (date, time) = match text.split_once(['T', ' ']) {
        Some((date, time)) => (Some(date), Some(time)),
        None if text.contains(':') => (None, Some(text)),
        None => (Some(text), None),
    };
    if let (Some(date), Some(time)) = (date, time)
        && let Some(offset) = offset(time)
    {
        let clock = &time[..time.len() - offset.0];
        let seconds = if clock.matches(':').count() == 1 { ":00" } else { "" };
        let utc = WallTime::parse(&format!("{date}T{clock}{seconds}Z")).ok_or_else(forms)?;
        let shifted = i64::try_from(utc.0).ok().and_then(|utc| u64::try_from(utc - offset.1 * 60_000).ok());
        return shifted.map(|time| Moment::At(WallTime(time))).ok_or_else(forms);
    }
    let day = match date {
        Some(date) => Day::Date(numbers(date, '-', [4, 2, 2]).ok_or_else(forms)?),
        None => Day::Last,
    };
    let time = match time {
        Some(time) if time.len() == 5 => numbers(&format!("{time}:00"), ':', [2, 2, 2]).ok_or_else(forms)?,
        Some(time) => numbers(time, ':', [2, 2, 2]).ok_or_else(forms)?,
        None => [0; 3],
    };
    Ok(Moment::Local(day, time))
}

/// How many bytes the zone at the end of a time takes, and its minutes ahead of UTC.
fn offset(time: &str) -> Option<(usize, i64)> {
    if time.ends_with(['Z', 'z']) {
        return Some((1, 0));
    }
    let at = time.rfind(['+', '-'])?;
    let (hours, minutes) = time[at + 1..].split_once(':')?;
    let [hours, minutes, _] = numbers(&format!("{hours}:{minutes}:00"), ':', [2, 2, 2])?;
    let minutes = i64::from(hours) * 60 + i64::from(minutes);
    Some((time.len() - at, if time[at..].starts_with('-') { -minutes } else { minutes }))
}

/// Three numbers of exactly so many digits.
fn numbers(text: &str, separator: char, digits: [usize; 3]) -> Option<[u16; 3]> {
    let mut found = [0; 3];
    let mut parts = text.split(separator);
    for (place, digits) in digits.into_iter().enumerate() {
        let part = parts.next()?;
        let plain = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        found[place] = part.parse().ok().filter(|_| plain)?;
    }
    parts.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_type_is_read() {
        let utc = |text| Ok(Moment::At(WallTime::parse(text).expect(text)));
        assert_eq!(parse("90m"), Ok(Moment::Ago(Duration::from_secs(5400))));
        assert_eq!(parse("09:45"), Ok(Moment::Local(Day::Last, [9, 45, 0])));
        assert_eq!(parse("09:45:07"), Ok(Moment::Local(Day::Last, [9, 45, 7])));
        let length = |text| parse(text).map(Moment::length_ms);
        assert_eq!((length("09:45"), length("09:45:07"), length("90m")), (Ok(59_999), Ok(999), Ok(0)));
        assert_eq!(parse("2026-11-29"), Ok(Moment::Local(Day::Date([2026, 11, 29]), [0; 3])));
        assert_eq!(parse("2026-11-29 09:45"), Ok(Moment::Local(Day::Date([2026, 11, 29]), [9, 45, 0])));
        assert_eq!(parse("2026-11-29T09:45:01.5Z"), utc("2026-11-29T09:45:01.5Z"));
        assert_eq!(parse("2026-11-29T09:45:01+01:30"), utc("2026-11-29T08:15:01Z"));
        assert_eq!(parse("2026-11-29T09:45-02:00"), utc("2026-11-29T11:45:00Z"));
        for wrong in [
            "",
            "yesterday",
            "9:45",
            "09:4",
            "2026-1-1",
            "2026-11-29T",
            "09:45:00:00",
            "1-2",
            "2026-11-29X09:00",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_crashes_it(text in "\\PC{0,40}") {
            drop(parse(&text));
        }
    }
}
