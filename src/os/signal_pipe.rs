//! Signals as something to wait for beside other descriptors, by handlers that end
//! at exec: for whoever starts programs that must get a clean signal mask.

use nix::sys::signal::Signal;
use signal_hook::low_level::pipe;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Readable once a signal has come.
#[derive(Debug)]
pub(crate) struct SignalPipe(UnixStream);

impl SignalPipe {
    /// Rings for each of `signals`.
    ///
    /// # Errors
    /// EMFILE and the like.
    pub(crate) fn new(signals: &[Signal]) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        for signal in signals {
            pipe::register(*signal as i32, theirs.try_clone()?)?;
        }
        Ok(Self(ours))
    }

    /// How often it rang since the last look.
    pub(crate) fn rings(&self) -> usize {
        let mut bytes = [0; 64];
        (&self.0).read(&mut bytes).unwrap_or(0)
    }
}

impl AsFd for SignalPipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
