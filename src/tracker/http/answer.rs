//! What a server answered: status, when its headers say to come back, JSON, its own words.

use crate::model::time::WallTime;
use crate::tracker::failure::{Failure, Why};
use serde_json::Value;
use std::time::Duration;
use ureq::http::HeaderMap;

/// What came back, whatever its status.
pub(in crate::tracker) struct HttpAnswer {
    pub(in crate::tracker) status: u16,
    pub(super) headers: HeaderMap,
    pub(in crate::tracker) body: Vec<u8>,
}

impl HttpAnswer {
    /// A header as text.
    pub(in crate::tracker) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Seconds since 1970, or an HTTP date, or a number of seconds from now.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let now = std::time::SystemTime::now();
        let until = |time: std::time::SystemTime| time.duration_since(now).unwrap_or(Duration::ZERO);
        if let Some(text) = self.header("retry-after") {
            return match text.trim().parse() {
                Ok(seconds) => Some(Duration::from_secs(seconds)),
                Err(_) => http_date(text).map(until),
            };
        }
        if self.header("x-ratelimit-remaining") != Some("0") {
            // GitHub's secondary limits may come without a number; it asks for a minute then.
            let limited = self.status == 403 && contains(&self.body, b"rate limit");
            return limited.then_some(Duration::from_secs(60));
        }
        let reset: u64 = self.header("x-ratelimit-reset")?.parse().ok()?;
        Some(until(std::time::UNIX_EPOCH + Duration::from_secs(reset)))
    }

    /// The server's clock.
    pub(in crate::tracker) fn date(&self) -> Option<WallTime> {
        self.header("date").and_then(http_date).map(WallTime::of)
    }

    /// "Later": nothing was done.
    pub(super) fn is_throttled(&self) -> bool {
        match self.status {
            429 => true,
            403 => self.retry_after().is_some(),
            _ => false,
        }
    }

    /// A gateway's answer: what is behind it may have done everything or nothing.
    pub(super) fn is_gateway(&self) -> bool {
        matches!(self.status, 502..=504)
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// [`Why::Protocol`] for half a body, HTML, and whatever else is not JSON.
    pub(in crate::tracker) fn json(&self, what: &str) -> Result<Value, Failure> {
        serde_json::from_slice(&self.body).map_err(|_| {
            Failure::new(Why::Protocol, format!("{what} was answered with something that is not JSON"))
        })
    }
}

fn contains(text: &[u8], words: &[u8]) -> bool {
    text.windows(words.len()).any(|window| window.eq_ignore_ascii_case(words))
}

/// What servers call their explanations.
pub(super) fn words(value: &Value) -> Option<String> {
    if let Some(said) = value.get("message").and_then(Value::as_str) {
        return Some(said.to_owned());
    }
    let list = value.get("errorMessages").and_then(Value::as_array);
    let list = list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    let fields = value.get("errors").and_then(Value::as_object);
    let fields = fields.into_iter().flatten().map(|(field, said)| format!("{field}: {said}"));
    let all: Vec<String> = list.chain(fields).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// A time with the server's own offset from UTC: `…Z`, `…+01:00`, `…-0530`.
pub(in crate::tracker) fn zoned(text: &str) -> Option<WallTime> {
    if let Some(time) = WallTime::parse(text) {
        return Some(time);
    }
    let at = text.rfind(['+', '-'])?;
    let (local, offset) = text.split_at(at);
    let (sign, digits) = (offset.starts_with('+'), offset[1..].replace(':', ""));
    if digits.len() != 4 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (hours, minutes): (u64, u64) = (digits[..2].parse().ok()?, digits[2..].parse().ok()?);
    let offset = (hours * 60 + minutes) * 60_000;
    let local = WallTime::parse(&format!("{local}Z"))?.0;
    if sign { local.checked_sub(offset).map(WallTime) } else { Some(WallTime(local + offset)) }
}

/// One text of every object of a list: the logins of assignees, the names of labels.
pub(in crate::tracker) fn names(list: Option<&Value>, field: &str) -> Vec<String> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|one| one.get(field)?.as_str().map(str::to_owned)).collect()
}

/// `Sun, 29 Nov 2026 22:25:35 GMT`, the one form servers send (RFC 9110, 5.6.7).
pub(super) fn http_date(text: &str) -> Option<std::time::SystemTime> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let [_, day, month, year, time, "GMT"] = words[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    humantime::parse_rfc3339(&format!("{year}-{month:02}-{day:0>2}T{time}Z")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_offset() {
        let utc = WallTime::parse("2026-11-29T09:12:04.113Z");
        assert_eq!(zoned("2026-11-29T09:12:04.113+0000"), utc);
        assert_eq!(zoned("2026-11-29T10:12:04.113+0100"), utc);
        assert_eq!(zoned("2026-11-29T03:42:04.113-0530"), utc);
        assert_eq!(zoned("2026-11-29T10:12:04.113+01:00"), utc);
        for bad in [
            "",
            "x",
            "+0100",
            "2026-11-29T10:12:04.113*0100",
            "\u{e9}\u{e9}\u{e9}",
            "2026-11-29T10:12+\u{e9}00",
            "2026-11-29",
        ] {
            assert_eq!(zoned(bad), None, "{bad:?}");
        }
    }
}
