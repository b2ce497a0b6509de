//! The time zone of whoever reads, from the system's files and never through libc, which in a static
//! program may load more than those.

use jiff::tz::TimeZone;
use std::fs;

/// The zone that a value of `TZ` means, or that of the system without one. A zone that cannot be read is
/// UTC, and every time says so. Forms as in tzset(3): a name of the database, `:name`, or a POSIX rule.
pub(crate) fn load(tz: Option<&str>) -> TimeZone {
    let Some(tz) = tz.map(|tz| tz.strip_prefix(':').unwrap_or(tz)) else {
        return file("/etc/localtime").unwrap_or(TimeZone::UTC);
    };
    let is_name = tz.starts_with(|c: char| c.is_ascii_alphabetic())
        && !tz.contains("..")
        && tz.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/_+-".contains(&byte));
    let named = || is_name.then(|| file(&format!("/usr/share/zoneinfo/{tz}"))).flatten();
    // UTC needs no file, and is what a person who wants UTC types.
    let utc = matches!(tz, "UTC" | "UTC0" | "Etc/UTC").then_some(TimeZone::UTC);
    utc.or_else(named).or_else(|| TimeZone::posix(tz).ok()).unwrap_or(TimeZone::UTC)
}

/// A compiled zone, tzfile(5).
fn file(path: &str) -> Option<TimeZone> {
    TimeZone::tzif(path, &fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn noon_in(tz: &str) -> String {
        let noon = Timestamp::from_second(1_792_926_000).expect("a time");
        noon.to_zoned_datetime(load(Some(tz))).strftime("%H:%M %Z").to_string()
    }

    #[test]
    fn a_zone_is_read_as_libc_reads_it() {
        assert_eq!(noon_in("UTC"), "11:00 UTC");
        assert_eq!(noon_in("CET-1CEST,M3.5.0,M10.5.0/3"), "12:00 CET", "the clocks went back that night");
        assert_eq!(noon_in("../../etc/shadow"), "11:00 UTC");
        if fs::exists("/usr/share/zoneinfo/Asia/Tokyo").unwrap_or(false) {
            assert_eq!(noon_in("Asia/Tokyo"), "20:00 JST");
            assert_eq!(noon_in(":Asia/Tokyo"), "20:00 JST");
        }
    }
}
