//! Times as people read and type them: in their own zone, or in UTC where that was asked for. The zone is
//! read only when a time is printed or a moment was typed, and is the same for the whole call.

use crate::env;
use crate::model::moment::{Day, Moment};
use crate::model::time::WallTime;
use crate::os::zone;
use crate::report::escape;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ZonedDateTime, civil};
use std::io::IsTerminal;
use std::sync::OnceLock;

static ZONE: OnceLock<TimeZone> = OnceLock::new();

/// From now on every time is shown and read in UTC (`--utc`). Said before the first one.
pub(crate) fn use_utc() {
    ZONE.get_or_init(|| TimeZone::UTC);
}

fn local_zone() -> &'static TimeZone {
    ZONE.get_or_init(|| zone::load(env::text(env::name::TZ).as_deref()))
}

fn local(time: WallTime) -> Option<ZonedDateTime> {
    Some(
        Timestamp::from_millisecond(i64::try_from(time.0).ok()?)
            .ok()?
            .to_zoned_datetime(local_zone().clone()),
    )
}

/// For people: `2026-11-29 09:12:04 CET`.
pub(crate) fn show_long(time: WallTime) -> String {
    local(time).map_or_else(|| time.rfc3339(), |local| local.strftime("%Y-%m-%d %H:%M:%S %Z").to_string())
}

/// For people: as [`show_long`], and on a terminal without the date when it is today.
pub(crate) fn show(time: WallTime) -> String {
    let Some(local) = local(time) else { return time.rfc3339() };
    let on_terminal = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
    let today =
        on_terminal && local.date() == Timestamp::now().to_zoned_datetime(local_zone().clone()).date();
    local.strftime(if today { "%H:%M:%S %Z" } else { "%Y-%m-%d %H:%M:%S %Z" }).to_string()
}

/// [`show`] of a time as records and logs have it; what is not one is shown as it stands.
pub(crate) fn show_text(time: &str) -> String {
    WallTime::parse(time).map_or_else(|| escape(time.as_bytes(), 40), show)
}

/// `09:45`, for the scale of a picture.
pub(crate) fn show_minute(time: WallTime) -> String {
    local(time).map_or_else(String::new, |local| local.strftime("%H:%M").to_string())
}

/// `Sun 29`, where a picture is longer than a day.
pub(crate) fn show_day(time: WallTime) -> String {
    local(time).map_or_else(String::new, |local| local.strftime("%a %d").to_string())
}

/// How far the local clock is ahead of UTC at a time, milliseconds.
pub(crate) fn offset_ms(time: WallTime) -> i64 {
    local(time).map_or(0, |local| i64::from(local.offset().seconds()) * 1000)
}

/// The instant that was meant, seen from `now`. A time of day is the last one that was; a time that a
/// change of the clocks left out is the instant of that change.
///
/// # Errors
/// What is wrong with it, for a person.
pub(crate) fn resolve(moment: Moment, now: WallTime) -> Result<WallTime, String> {
    let (day, time) = match moment {
        Moment::At(time) => return Ok(time),
        Moment::Ago(age) => {
            let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
            return Ok(WallTime(now.0.saturating_sub(age)));
        }
        Moment::Local(day, time) => (day, time),
    };
    let odd = || "there is no such date or time".to_owned();
    let [hour, minute, second] = time.map(|part| i8::try_from(part).unwrap_or(i8::MAX));
    let time = civil::Time::new(hour, minute, second, 0).map_err(|_| odd())?;
    let instant = |date: civil::Date| -> Result<WallTime, String> {
        let zoned = date.to_datetime(time).to_zoned_datetime(local_zone().clone()).map_err(|_| odd())?;
        u64::try_from(zoned.timestamp().as_millisecond()).map(WallTime).map_err(|_| odd())
    };
    match day {
        Day::Date([year, month, day]) => {
            let part = |number: u16| i8::try_from(number).map_err(|_| odd());
            let year = i16::try_from(year).map_err(|_| odd())?;
            instant(civil::Date::new(year, part(month)?, part(day)?).map_err(|_| odd())?)
        }
        Day::Last => {
            let today = local(now).ok_or_else(odd)?.date();
            match instant(today)? {
                time if time <= now => Ok(time),
                _ => instant(today.yesterday().map_err(|_| odd())?),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::moment;

    /// Sunday noon in Berlin, the day the clocks went back at three.
    const NOON: WallTime = WallTime(1_792_926_000_000);

    fn in_berlin() {
        ZONE.get_or_init(|| zone::load(Some("CET-1CEST,M3.5.0,M10.5.0/3")));
    }

    fn at(text: &str) -> String {
        resolve(moment::parse(text).expect(text), NOON).map_or_else(|why| why, WallTime::rfc3339)
    }

    #[test]
    fn moments_are_what_a_person_means() {
        in_berlin();
        assert_eq!(show_long(NOON), "2026-10-25 12:00:00 CET");
        assert_eq!(show_long(WallTime(NOON.0 - 12 * 3_600_000)), "2026-10-25 01:00:00 CEST");
        assert_eq!(at("90m"), "2026-10-25T09:30:00.000Z");
        assert_eq!(at("09:45"), "2026-10-25T08:45:00.000Z");
        assert_eq!(at("12:00:00"), "2026-10-25T11:00:00.000Z");
        assert_eq!(at("12:00:01"), "2026-10-24T10:00:01.000Z", "the last one that was, in summer time");
        assert_eq!(at("2026-10-24"), "2026-10-23T22:00:00.000Z");
        assert_eq!(at("2026-10-24 09:45"), "2026-10-24T07:45:00.000Z");
        assert_eq!(at("2026-10-24T09:45Z"), "2026-10-24T09:45:00.000Z");
        assert_eq!(at("2026-03-29 02:30"), "2026-03-29T01:30:00.000Z", "left out by the change");
        assert!(at("2026-02-30").contains("no such date"));
    }
}
