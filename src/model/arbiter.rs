//! The ways to decide which of several watchers gets a ticket.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Who decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arbiter {
    /// The tracker itself: it checks and writes in one step.
    Guard,
    /// Whoever takes the queue label off.
    LabelGate,
    /// The lowest marker comment of the round.
    CommentOrder,
    /// Whoever creates a ref in a git remote.
    GitRef,
    /// The ticket's row in a PostgreSQL.
    Database,
    /// Nobody: one watcher on one machine.
    None,
}

impl Arbiter {
    /// Every one, in the order of the manual.
    pub(crate) const ALL: [Self; 6] =
        [Self::Guard, Self::LabelGate, Self::CommentOrder, Self::GitRef, Self::Database, Self::None];

    /// The word for `--arbiter`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Guard => "guard",
            Self::LabelGate => "label-gate",
            Self::CommentOrder => "comment-order",
            Self::GitRef => "git-ref",
            Self::Database => "database",
            Self::None => "none",
        }
    }

    /// Reads the word.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|arbiter| arbiter.as_str() == text)
    }
}

impl fmt::Display for Arbiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an onlooker may say of a ticket's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ArbiterState {
    /// Given back, or never taken.
    Free,
    /// Its holder has its session, or is known to live.
    Held,
    /// Its holder lost its session, and somebody waits for the end of its grace.
    Settling,
    /// Its holder lost its session; after its grace the row may be taken over.
    Cut,
    /// Nobody has a session for it, and nobody promised one: a claim by `acquire`.
    Kept,
    /// Its holder is known here to have ended.
    Ended,
    /// Of a newer version.
    Newer,
}

/// A row, as it was seen.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct ArbiterRow {
    /// The ticket's key.
    pub(crate) name: String,
    pub(crate) token: u64,
    pub(crate) nonce: Option<String>,
    pub(crate) state: ArbiterState,
}

/// What a tracker can promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capabilities {
    /// More than one machine may use it.
    pub(crate) remote: bool,
    /// Its events have ids: a claim can have a mark. Without, it is for a single machine.
    pub(crate) event_ids: bool,
    /// A swap checks its expectation and writes in one step: it arbitrates by itself.
    pub(crate) conditional: bool,
    /// Taking a label off tells exactly one caller that it was the one.
    pub(crate) gate: bool,
    /// Comments with ascending ids.
    pub(crate) comments: bool,
}
