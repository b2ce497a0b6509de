//! How long somebody who wants a lock waits for it.

use std::time::{Duration, Instant};

/// When patience ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClaimEnd {
    /// `-w`, or `-n`; without either a lost holder's grace is waited for all the same.
    given: bool,
    /// `None`: never.
    end: Option<Instant>,
}

impl ClaimEnd {
    /// `wait`: `None` for ever; `given`: somebody typed it.
    pub(super) fn new(wait: Option<Duration>, given: bool) -> Self {
        Self { given, end: wait.and_then(|wait| Instant::now().checked_add(wait)) }
    }

    pub(super) fn is_over(self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }

    pub(super) fn was_given(self) -> bool {
        self.given
    }

    /// At most so long, and not longer than patience.
    pub(super) fn at_most(self, time: Duration) -> Duration {
        match self.end {
            Some(end) => time.min(end.saturating_duration_since(Instant::now())),
            None => time,
        }
    }
}
