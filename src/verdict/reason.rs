//! Why a terminal stays: one word each, for the output, for JSON and for the manual.

/// Why a terminal stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KeepReason {
    NoRun,
    OtherAutomation,
    TagNotOurs,
    AmbiguousName,
    Starting,
    Resumed,
    OwnTerminal,
    DeadPane,
    Busy,
    Question,
    NotIdle,
    MarkStale,
    NewestReuse,
    Young,
    NoClock,
    NotSilent,
    Stopped,
    Unreadable,
    Changed,
    Deadline,
    CloseFailed,
}

impl KeepReason {
    /// Every reason, in the order of the ladder and of the manual.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 21] = [
        Self::NoRun,
        Self::OtherAutomation,
        Self::TagNotOurs,
        Self::AmbiguousName,
        Self::Starting,
        Self::Resumed,
        Self::OwnTerminal,
        Self::DeadPane,
        Self::Busy,
        Self::Question,
        Self::NotIdle,
        Self::MarkStale,
        Self::NewestReuse,
        Self::Young,
        Self::NoClock,
        Self::NotSilent,
        Self::Stopped,
        Self::Unreadable,
        Self::Changed,
        Self::Deadline,
        Self::CloseFailed,
    ];

    /// The word in the output, in JSON and in the manual.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::NoRun => "no-run",
            Self::OtherAutomation => "other-automation",
            Self::TagNotOurs => "tag-not-ours",
            Self::AmbiguousName => "ambiguous-name",
            Self::Starting => "starting",
            Self::Resumed => "resumed",
            Self::OwnTerminal => "own-terminal",
            Self::DeadPane => "dead-pane",
            Self::Busy => "busy",
            Self::Question => "question",
            Self::NotIdle => "not-idle",
            Self::MarkStale => "mark-stale",
            Self::NewestReuse => "newest-reuse",
            Self::Young => "young",
            Self::NoClock => "no-clock",
            Self::NotSilent => "not-silent",
            Self::Stopped => "stopped",
            Self::Unreadable => "unreadable",
            Self::Changed => "changed",
            Self::Deadline => "deadline",
            Self::CloseFailed => "close-failed",
        }
    }
}
