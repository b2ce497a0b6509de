//! Durations as people write them: `90s`, `10m`, `1h30m`; a bare number is seconds.

use std::time::Duration;

/// Reads a duration; a bare number is seconds.
///
/// # Errors
/// A sentence fragment that says what is accepted.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(Duration::from_secs(seconds));
    }
    // As lines of flock(1) have it.
    if let Some((seconds, part)) = text.split_once('.')
        && [seconds, part].iter().all(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()))
        && let Ok(all) = text.parse::<f64>()
    {
        return Duration::try_from_secs_f64(all).map_err(|_| "longer than can be waited for".to_owned());
    }
    humantime::parse_duration(text)
        .map_err(|_| "not a duration (write 90s, 10m, 1h30m, or seconds)".to_owned())
}

/// Does a lock's name read as a duration? A number with a unit does, a bare number does not.
pub(crate) fn looks_like(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().any(|byte| byte.is_ascii_alphabetic())
        && humantime::parse_duration(text).is_ok()
}

/// Prints a duration in its two largest units: `45s`, `14m`, `1h30m`, `3d4h`;
/// below a second in milliseconds.
pub(crate) fn show(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds == 0 {
        return match duration.as_millis() {
            0 => "0s".to_owned(),
            millis => format!("{millis}ms"),
        };
    }
    let units = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
    let first = units.iter().position(|(_, size)| seconds >= *size).unwrap_or(units.len() - 1);
    let (unit, size) = units[first];
    let mut text = format!("{}{unit}", seconds / size);
    // Seconds beside minutes are noise from ten minutes on.
    if let Some((unit, smaller)) = units.get(first + 1) {
        let rest = seconds % size / smaller;
        if rest > 0 && (*unit != "s" || seconds < 600) {
            text.push_str(&format!("{rest}{unit}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_and_print_the_same_way() {
        for (text, seconds) in [("90s", 90), ("10m", 600), ("1h30m", 5400), ("7", 7)] {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for (seconds, text) in [
            (0, "0s"),
            (45, "45s"),
            (90, "1m30s"),
            (840, "14m"),
            (853, "14m"),
            (5400, "1h30m"),
            (273_600, "3d4h"),
        ] {
            assert_eq!(show(Duration::from_secs(seconds)), text);
        }
        assert_eq!(parse("0.25"), Ok(Duration::from_millis(250)));
        assert_eq!(parse("1.5m"), Ok(Duration::from_secs(90)));
        for text in [".5", "5.", "1.5e3", "1..5"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse("soon").is_err());
        assert!(parse("-1").is_err());
    }

    #[test]
    fn a_name_with_a_unit_reads_as_a_duration() {
        assert!(looks_like("10m") && looks_like("1h30m") && looks_like("5s"));
        assert!(!looks_like("10") && !looks_like("sync") && !looks_like("10x") && !looks_like("m10"));
    }
}
