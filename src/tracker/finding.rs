//! What `init` looked at.

use crate::model::duration;
use crate::model::time::WallTime;
use crate::os::clock;
use std::time::Duration;

/// Beyond this two clocks are not the same time: a margin of minutes depends on it.
const APART: Duration = Duration::from_secs(60);

/// One thing `init` looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TrackerFinding {
    /// Nothing is wrong with it, as far as can be seen.
    pub(crate) ok: bool,
    /// A look that changes nothing showed it. Otherwise only a write would.
    pub(crate) proved: bool,
    /// What was found or done, one line.
    pub(crate) what: String,
}

impl TrackerFinding {
    /// Seen, and as it must be.
    pub(crate) fn good(what: impl Into<String>) -> Self {
        Self { ok: true, proved: true, what: what.into() }
    }

    /// Seen, and wrong.
    pub(crate) fn bad(what: impl Into<String>) -> Self {
        Self { ok: false, proved: true, what: what.into() }
    }

    /// Not to be seen without writing.
    pub(crate) fn unproved(what: impl Into<String>) -> Self {
        Self { ok: true, proved: false, what: what.into() }
    }

    /// The server's clock beside ours, where it told its own.
    pub(super) fn clocks(theirs: Option<WallTime>) -> Option<Self> {
        let (theirs, ours) = (theirs?, clock::wall());
        let apart = ours.age(theirs).or_else(|| theirs.age(ours)).unwrap_or(Duration::ZERO);
        let what = format!("the clocks are {} apart", duration::show(apart));
        Some(if apart < APART { Self::good(what) } else { Self::bad(what) })
    }
}
