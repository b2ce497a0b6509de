//! The signal mask of this thread.

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Blocks signals until dropped; the mask that was there before comes back.
#[derive(Debug)]
pub(crate) struct Blocked {
    before: SigSet,
    /// Taken away before the mask comes back, where they are our own doing.
    swallowed: Option<SigSet>,
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
        Self::new(&[Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU])
    }

    /// While a helper thread is started, which then has them blocked for good.
    pub(crate) fn everything() -> Self {
        Self::swap(&SigSet::all())
    }

    /// From the start of a tool: a write over the file size limit is then EFBIG, not a death.
    pub(crate) fn file_size() -> Self {
        let mut blocked = Self::new(&[Signal::SIGXFSZ]);
        blocked.swallowed = Some(SigSet::from(Signal::SIGXFSZ));
        blocked
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // One that a write of ours earned stays pending, also over exec, and would kill the command.
        if let Some(signals) = &self.swallowed
            && let Ok(pending) = SignalFd::with_flags(signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
        {
            while let Ok(Some(_)) = pending.read_signal() {}
        }
        self.before.thread_set_mask().unwrap_or_default();
    }
}
