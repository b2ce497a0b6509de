//! The signal mask of this thread: blocked for a while, or given back by what we start.

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::io;

/// Sent to whoever writes past a limit; blocked while we write ourselves.
pub(crate) const FILE_SIZE: Signal = Signal::SIGXFSZ;

/// What a terminal stops background processes with.
pub(crate) const TERMINAL_STOPS: [Signal; 3] = [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU];

/// Blocks signals until dropped; the mask that was there before comes back.
#[derive(Debug)]
pub(crate) struct Blocked {
    before: SigSet,
    /// Taken away before the mask comes back, where they are our own doing.
    swallowed: Option<Signal>,
}

impl Blocked {
    /// Blocks `signals` in this thread and in those it starts.
    pub(crate) fn new(signals: &[Signal]) -> Self {
        Self::swap(&signals.iter().copied().collect())
    }

    fn swap(set: &SigSet) -> Self {
        // pthread_sigmask(3) fails only on a bad `how`; then nothing is blocked and nothing to restore.
        let before = set.thread_swap_mask(SigmaskHow::SIG_BLOCK).unwrap_or_else(|_| SigSet::empty());
        Self { before, swallowed: None }
    }

    /// While a guard is held: a terminal must not stop us in the middle of a change.
    pub(crate) fn terminal_stops() -> Self {
        Self::new(&TERMINAL_STOPS)
    }

    /// While a helper thread is started, which then has them blocked for good.
    pub(crate) fn everything() -> Self {
        Self::swap(&SigSet::all())
    }

    /// Ignored until dropped: what arrives meanwhile does nothing then either.
    pub(crate) fn ignored(signal: Signal) -> Self {
        let mut blocked = Self::new(&[signal]);
        blocked.swallowed = Some(signal);
        blocked
    }

    /// From the start of a tool: a write over the file size limit is then EFBIG, not a death.
    pub(crate) fn file_size() -> Self {
        Self::ignored(FILE_SIZE)
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // One that a write of ours earned stays pending, also over exec, and would kill the command.
        if let Some(signal) = self.swallowed {
            forget(signal);
        }
        self.before.thread_set_mask().unwrap_or_default();
    }
}

/// Takes a blocked signal that is pending for this thread off its queue, so that unblocking it does nothing.
pub(crate) fn forget(signal: Signal) {
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    if let Ok(pending) = SignalFd::with_flags(&SigSet::from(signal), flags) {
        while let Ok(Some(_)) = pending.read_signal() {}
    }
}

/// Signals that this process blocked and its children must get back, those that
/// were blocked before not among them. Travels as text in a shim's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SignalMask(u64);

impl SignalMask {
    /// A mask of these, to be given back though another process blocked them.
    pub(crate) fn of(signals: impl IntoIterator<Item = Signal>) -> Self {
        Self(signals.into_iter().fold(0, |bits, signal| bits | bit(signal)))
    }

    /// Blocks `signals`; in the result are those that were not blocked before.
    ///
    /// # Errors
    /// EINVAL, which no kernel answers to a valid set.
    pub(crate) fn block(signals: impl IntoIterator<Item = Signal>) -> io::Result<Self> {
        let wanted: SigSet = signals.into_iter().collect();
        let before = wanted.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        Ok(Self::of(wanted.iter().filter(|signal| !before.contains(*signal))))
    }

    /// The two together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Unblocks them in this thread.
    ///
    /// # Errors
    /// As [`SignalMask::block`].
    pub(crate) fn give_back(self) -> io::Result<()> {
        let set: SigSet = Signal::iterator().filter(|signal| self.0 & bit(*signal) != 0).collect();
        Ok(set.thread_unblock()?)
    }

    /// For a shim's arguments.
    pub(crate) fn to_text(self) -> String {
        format!("{:x}", self.0)
    }

    /// Reads what [`SignalMask::to_text`] wrote.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        u64::from_str_radix(text, 16).ok().map(Self)
    }
}

fn bit(signal: Signal) -> u64 {
    1 << (signal as u32)
}
