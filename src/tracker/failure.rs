//! What can go wrong between us and a tracker, sorted by what a caller does about it.

use crate::error::{Error, Kind};
use std::fmt;
use std::time::Duration;

/// What kind of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The token is missing, wrong or expired: a setting.
    Unauthorised,
    /// A clear no to this call (no right, a rule of the server). Say so, keep, next pass.
    Refused,
    /// The project, repository or directory does not exist, or we may not see it: a setting.
    NoTracker,
    /// The ticket does not exist.
    NoTicket,
    /// No answer, or one that says "later". Slows a watcher, does not stop it.
    Unreachable,
    /// An answer that is not valid: half a body, HTML, an error inside a 200.
    Protocol,
    /// A setting this tracker cannot work with.
    Setting,
    /// A local file of a tracker could not be read or written.
    Local(Kind),
}

/// A failed call. Never carries a secret.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    why: Why,
    message: String,
    hint: Option<String>,
    retry_after: Option<Duration>,
    maybe_applied: bool,
}

impl Failure {
    /// `message` is one line of ours; text from a server in it is escaped already.
    pub(crate) fn new(why: Why, message: impl Into<String>) -> Self {
        Self { why, message: message.into(), hint: None, retry_after: None, maybe_applied: false }
    }

    /// A failed system call on a file of a tracker.
    pub(crate) fn local(what: &str, error: &std::io::Error) -> Self {
        let error = Error::io(what, error);
        Self::new(Why::Local(error.kind()), error.message())
    }

    /// Adds what to do.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The server said when to come back.
    #[must_use]
    pub(crate) fn retry_after(mut self, wait: Option<Duration>) -> Self {
        self.retry_after = wait;
        self
    }

    /// The server may have done what was asked.
    #[must_use]
    pub(crate) fn maybe_applied(mut self, maybe: bool) -> Self {
        self.maybe_applied = maybe;
        self
    }

    /// What kind it is.
    pub(crate) fn why(&self) -> Why {
        self.why
    }

    /// When the server wants to be asked again.
    pub(crate) fn wait(&self) -> Option<Duration> {
        self.retry_after
    }

    /// May the write have happened all the same? Look at the ticket before saying anything.
    pub(crate) fn may_be_applied(&self) -> bool {
        self.maybe_applied
    }

    /// Does waiting help, so that a watcher goes on more slowly?
    pub(crate) fn is_passing(&self) -> bool {
        !matches!(self.why, Why::Unauthorised | Why::NoTracker | Why::Setting)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let kind = match failure.why {
            Why::Unauthorised | Why::NoTracker | Why::Setting => Kind::Config,
            Why::Refused => Kind::Refused,
            Why::NoTicket => Kind::Usage,
            Why::Unreachable | Why::Protocol => Kind::Unreachable,
            Why::Local(kind) => kind,
        };
        let error = Self::new(kind, failure.message);
        match failure.hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}
