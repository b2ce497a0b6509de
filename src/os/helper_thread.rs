//! Helper threads for system calls that block and cannot be polled: flock(2) and
//! F_OFD_SETLKW (fcntl(2)). They die with the process, and with its exec.

use crate::os::mask::Blocked;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread;

/// A helper only waits; it needs next to no stack.
const STACK: usize = 64 * 1024;

/// Starts a helper.
///
/// # Errors
/// EAGAIN when the system has no thread left.
pub(crate) fn start(name: &str, wait: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // A signal meant for the process must reach the thread that knows what to do with it.
    let _blocked = Blocked::everything();
    thread::Builder::new().name(name.into()).stack_size(STACK).spawn(wait).map(drop)
}

/// What a helper rings when its call came back; can be polled beside other descriptors.
#[derive(Clone, Debug)]
pub(crate) struct Wakeup(Arc<OwnedFd>);

impl Wakeup {
    /// A silent one.
    ///
    /// # Errors
    /// EMFILE and the like.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// Makes it readable.
    pub(crate) fn ring(&self) {
        // Fails only when it rings already, 2^64 - 2 times.
        rustix::io::write(&*self.0, &1_u64.to_ne_bytes()).ok();
    }

    /// Silences it.
    pub(crate) fn silence(&self) {
        // Fails only when it is silent.
        rustix::io::read(&*self.0, &mut [0; 8]).ok();
    }
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::process::wait_any;
    use std::time::Duration;

    #[test]
    fn a_bell_rung_by_a_helper_is_heard_until_it_is_silenced() {
        let bell = Wakeup::new().expect("bell");
        let rung = |bell: &Wakeup| !wait_any(&[bell.as_fd()], Some(Duration::ZERO)).expect("poll").is_empty();
        assert!(!rung(&bell));
        let theirs = bell.clone();
        start("test", move || theirs.ring()).expect("thread");
        wait_any(&[bell.as_fd()], Some(Duration::from_secs(20))).expect("poll");
        assert!(rung(&bell));
        bell.silence();
        assert!(!rung(&bell));
        bell.silence();
    }
}
