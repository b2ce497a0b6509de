//! Stage events of a ticket, one JSON line each in its event log.

use serde::{Deserialize, Serialize};

/// "The actor of this ticket changed."
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StageEvent {
    pub(crate) key: String,
    /// RFC 3339, UTC.
    pub(crate) at: String,
    /// `stage`.
    pub(crate) event: String,
    pub(crate) from: String,
    pub(crate) to: String,
    /// The claim's.
    pub(crate) token: u64,
}

/// Before a ticket is claimed, and what a claim begins with.
pub(crate) const QUEUE: &str = "queue";
/// As [`QUEUE`].
pub(crate) const CLAIMED: &str = "claimed";

impl StageEvent {
    /// The line with its newline.
    pub(crate) fn line(&self) -> String {
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }
}

/// The last event of `key` in the end of a log. Other keys' events never count. A
/// log that does not end in a whole line proves nothing: its last event is not known.
pub(crate) fn last(log: &[u8], key: &str) -> Option<StageEvent> {
    let whole = log.strip_suffix(b"\n")?;
    for line in whole.rsplit(|byte| *byte == b'\n') {
        let event: StageEvent = serde_json::from_slice(line).ok()?;
        if event.key == key && event.event == "stage" {
            return Some(event);
        }
    }
    None
}

/// The change of stage after which the work is done: `push -> ready`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Boundary {
    pub(crate) from: String,
    pub(crate) to: String,
}

impl Boundary {
    /// Reads `FROM -> TO`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (from, to) = text.split_once("->")?;
        let word = |text: &str| {
            let text = text.trim();
            (!text.is_empty() && !text.contains(char::is_whitespace)).then(|| text.to_owned())
        };
        Some(Self { from: word(from)?, to: word(to)? })
    }

    /// Is it this event, of this claim?
    pub(crate) fn is(&self, event: &StageEvent, token: u64) -> bool {
        event.token == token && event.from == self.from && event.to == self.to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(key: &str, from: &str, to: &str, token: u64) -> String {
        let (key, from, to) = (key.to_owned(), from.to_owned(), to.to_owned());
        StageEvent { key, at: "2026-11-29T09:12:04Z".into(), event: "stage".into(), from, to, token }.line()
    }

    #[test]
    fn only_a_whole_last_event_of_this_key_counts() {
        let log = event("1", "push", "ready", 5) + &event("2", "a", "b", 6);
        assert_eq!(last(log.as_bytes(), "1").map(|event| event.token), Some(5), "another key's is skipped");
        assert_eq!(last(log.as_bytes(), "3"), None);
        let torn = log.clone() + "{\"key\":\"1\",\"at";
        assert_eq!(last(torn.as_bytes(), "1"), None, "torn");
        assert_eq!(last((torn + "\n").as_bytes(), "1"), None, "a torn line that was closed");
        assert_eq!(last(b"", "1"), None);
        assert_eq!(last(b"\xff\n", "1"), None);
    }

    #[test]
    fn the_boundary_needs_the_token() {
        let boundary = Boundary::parse("push -> ready").expect("boundary");
        let of = |text: &str| last(text.as_bytes(), "1").expect("event");
        assert!(boundary.is(&of(&event("1", "push", "ready", 5)), 5));
        assert!(!boundary.is(&of(&event("1", "push", "ready", 4)), 5), "an older claim's");
        assert!(!boundary.is(&of(&event("1", "build", "ready", 5)), 5));
        for bad in ["", "ready", "a b -> c", "-> x"] {
            assert_eq!(Boundary::parse(bad), None, "{bad:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_log_crashes_the_reader(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            drop(last(&bytes, "1"));
        }
    }
}
