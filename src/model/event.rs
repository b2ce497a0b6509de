//! What happened to a lock, one JSON line each.

use serde::{Deserialize, Serialize};

/// Every word that [`Event::event`] may be.
pub(crate) const WORDS: [&str; 14] = [
    "acquired",
    "released",
    "ended",
    "reclaimed",
    "refused",
    "skipped",
    "misconfigured",
    "unguarded",
    "stopped",
    "broken",
    "set-aside",
    "closed",
    "paused",
    "resumed",
];

/// What a line of the log says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Event {
    /// RFC 3339, UTC. For a count: the first time.
    pub(crate) at: String,
    /// One of [`WORDS`].
    pub(crate) event: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<u64>,
    /// The holder's pid (for a refusal: who it was refused by).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pid: Option<u32>,
    /// The pid namespace that the number is of; absent: the initial one, or an older version wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pid_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) comm: Option<String>,
    /// Seconds held, where somebody stood by at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) held_s: Option<u64>,
    /// Where nobody stood by: held for at least so many seconds, which a tick proves …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) held_at_least_s: Option<u64>,
    /// … and at most for so many, after which it was found to have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) held_at_most_s: Option<u64>,
    /// Exit status, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<u8>,
    /// How many equal refusals or skips in a row this line stands for; absent is 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) count: Option<u64>,
    /// RFC 3339, UTC: the last time, where `count` is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last: Option<String>,
    /// How many by the same holder went directly before this line, of whatever kind, and since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<(u64, String)>,
    /// RFC 3339, UTC: when a pause ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<String>,
}

impl Event {
    /// An event at a time.
    pub(crate) fn new(event: &str, at: String, name: &str) -> Self {
        Self {
            at,
            event: event.into(),
            name: name.into(),
            token: None,
            pid: None,
            pid_ns: None,
            comm: None,
            held_s: None,
            held_at_least_s: None,
            held_at_most_s: None,
            status: None,
            count: None,
            last: None,
            before: None,
            until: None,
            detail: None,
        }
    }

    /// How many it stands for.
    pub(crate) fn times(&self) -> u64 {
        self.count.unwrap_or(1)
    }

    /// The line with its newline.
    pub(crate) fn line(&self) -> String {
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }

    /// Is it somebody turned away by a live holder?
    pub(crate) fn is_turned_away(&self) -> bool {
        matches!(self.event.as_str(), "refused" | "skipped")
    }
}

/// Reads a log's bytes; lines that do not parse (torn, from the future) are skipped.
pub(crate) fn parse(bytes: &[u8]) -> Vec<Event> {
    lines(bytes).filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

/// The lines of a log. Nothing stands behind the last newline, and reading nothing is dear: the parser looks for
/// the place of its error, with instructions that a virtual machine traps (30 microseconds, measured).
fn lines(bytes: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

/// What appending a refusal or skip means for the end of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Turned {
    /// Replace this many bytes at the end of the file, 0 to append.
    pub(crate) replace: usize,
    /// The line to write.
    pub(crate) line: String,
    /// How many in a row by this token, this one included.
    pub(crate) in_a_row: u64,
    /// Since when, RFC 3339.
    pub(crate) since: String,
}

/// Adds `event` to a log that ends in `tail`: equal ones in a row become one line with a
/// count and the last time. Lines of other turned-away kinds by the same token count too.
pub(crate) fn turn_away(tail: &[u8], event: &Event) -> Turned {
    let last_line = tail.strip_suffix(b"\n").map(|rest| {
        let start = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
        &tail[start..]
    });
    // The tail is short, so every line carries what went before it.
    let newest = lines(tail).rev().find_map(|line| serde_json::from_slice::<Event>(line).ok());
    let earlier = newest.filter(|last| last.is_turned_away() && last.token == event.token);
    let before = earlier.map(|last| {
        let times = last.times();
        let (before, since) = last.before.unwrap_or((0, last.at));
        (before.saturating_add(times), since)
    });
    let (times, since) = before.clone().unwrap_or((0, event.at.clone()));
    let in_a_row = times.saturating_add(1);
    if let Some(line) = last_line
        && let Ok(earlier) = serde_json::from_slice::<Event>(line)
        && earlier.event == event.event
        && earlier.token == event.token
        && earlier.detail == event.detail
    {
        let mut counted = earlier;
        counted.count = Some(counted.times().saturating_add(1));
        counted.last = Some(event.at.clone());
        let mut text = counted.line();
        // Written in place: never shorter than what it replaces, so that nothing of it is left behind.
        while text.len() < line.len() {
            text.insert(text.len() - 1, ' ');
        }
        return Turned { replace: line.len(), line: text, in_a_row, since };
    }
    let line = Event { before, ..event.clone() }.line();
    Turned { replace: 0, line, in_a_row, since }
}

/// The counts at which the same holder is named again, also under `-q`.
pub(crate) fn is_milestone(in_a_row: u64) -> bool {
    matches!(in_a_row, 3 | 10 | 30) || (in_a_row >= 100 && in_a_row.is_multiple_of(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(token: u64, at: &str) -> Event {
        Event { token: Some(token), pid: Some(812), ..Event::new("refused", at.into(), "sync") }
    }

    #[test]
    fn equal_refusals_in_a_row_are_one_line_with_a_count() {
        let mut log = Event::new("acquired", "t0".into(), "sync").line().into_bytes();
        for round in 1..=12 {
            let turned = turn_away(&log, &refused(5, &format!("t{round}")));
            assert_eq!(turned.in_a_row, round);
            log.truncate(log.len() - turned.replace);
            log.extend_from_slice(turned.line.as_bytes());
        }
        let events = parse(&log);
        assert_eq!(events.len(), 2);
        assert_eq!(
            (events[1].times(), events[1].at.as_str(), events[1].last.as_deref()),
            (12, "t1", Some("t12"))
        );
        let other = turn_away(&log, &refused(6, "t13"));
        assert_eq!((other.replace, other.in_a_row), (0, 1), "another holder starts anew");
    }

    #[test]
    fn refusals_and_skips_by_one_holder_count_together() {
        let mut log = refused(5, "t1").line().into_bytes();
        let skip = Event { event: "skipped".into(), ..refused(5, "t2") };
        let turned = turn_away(&log, &skip);
        assert_eq!((turned.replace, turned.in_a_row, turned.since.as_str()), (0, 2, "t1"));
        log.extend_from_slice(turned.line.as_bytes());
        log.extend_from_slice(turn_away(&log, &refused(5, "t3")).line.as_bytes());
        let start = log.iter().rposition(|byte| *byte == b'{').expect("a line");
        let turned = turn_away(&log[start..], &skip);
        assert_eq!((turned.in_a_row, turned.since.as_str()), (4, "t1"), "the last line alone is enough");
    }

    #[test]
    fn a_torn_line_is_not_replaced_and_not_read() {
        let mut log = refused(5, "t1").line().into_bytes();
        log.extend_from_slice(b"{\"at\":\"t2\",\"ev");
        let turned = turn_away(&log, &refused(5, "t3"));
        assert_eq!(turned.replace, 0);
        assert_eq!(parse(&log).len(), 1);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_crash_the_reader(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            let turned = turn_away(&bytes, &refused(1, "t"));
            proptest::prop_assert!(turned.replace <= bytes.len());
        }
    }
}
