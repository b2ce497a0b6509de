//! The comments that watchers write to decide who takes a ticket (`comment-order`).
//!
//! A marker names the round it belongs to, the event that put the ticket into the
//! queue, so that no clock is needed to tell an old marker from a new one.

use crate::model::ticket::EventId;

/// Where a ticket was queued before its tracker began to record events.
const FIRST_ROUND: &str = "first";

/// What one comment says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Marker {
    /// Somebody wants the ticket.
    Claim {
        /// Random, one per try.
        nonce: String,
        /// The event that queued the ticket; `None`: it was queued from the start.
        round: Option<EventId>,
        /// The machine, for people.
        host: String,
    },
    /// That somebody does not want it any more.
    Void {
        /// Whose try.
        nonce: String,
    },
}

impl Marker {
    /// The comment to write.
    pub(crate) fn body(&self) -> String {
        match self {
            Self::Claim { nonce, round, host } => {
                let round = round.as_ref().map_or(FIRST_ROUND, |id| id.0.as_str());
                format!("orion-claim {nonce} round {round} host {host}")
            }
            Self::Void { nonce } => format!("void {nonce}"),
        }
    }

    /// Reads a comment; `None` when it is somebody's prose.
    pub(crate) fn parse(body: &str) -> Option<Self> {
        let words: Vec<&str> = body.split_whitespace().collect();
        match words[..] {
            ["orion-claim", nonce, "round", round, "host", host] => Some(Self::Claim {
                nonce: nonce.to_owned(),
                round: (round != FIRST_ROUND).then(|| EventId(round.to_owned())),
                host: host.to_owned(),
            }),
            ["void", nonce] => Some(Self::Void { nonce: nonce.to_owned() }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_read_back_and_prose_is_none() {
        for round in [None, Some(EventId("77".into()))] {
            let marker = Marker::Claim { nonce: "ab12".into(), round, host: "pi".into() };
            assert_eq!(Marker::parse(&marker.body()), Some(marker));
        }
        let void = Marker::Void { nonce: "ab12".into() };
        assert_eq!(Marker::parse("void ab12\n"), Some(void));
        assert_eq!(Marker::parse("the orion-claim ab12 round 7 host pi looks odd"), None);
        assert_eq!(Marker::parse(""), None);
    }
}
