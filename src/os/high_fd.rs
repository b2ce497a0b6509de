//! Descriptors that the command keeps: under numbers that no shell uses.

use rustix::io::fcntl_dupfd_cloexec;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Lowest numbers to try: shells use the low ones, and a soft limit may forbid the high ones.
const LOWEST: [i32; 3] = [220, 20, 10];

/// A duplicate under such a number. It ends at exec until that is taken back.
///
/// # Errors
/// EMFILE when no number is left.
pub(crate) fn duplicate(fd: impl AsFd) -> io::Result<OwnedFd> {
    let mut last = rustix::io::Errno::MFILE;
    for lowest in LOWEST {
        match fcntl_dupfd_cloexec(&fd, lowest) {
            Ok(copy) => return Ok(copy),
            // The limit is below that number: none is left, which is what is said in the end.
            Err(rustix::io::Errno::INVAL) => {}
            Err(error) => last = error,
        }
    }
    Err(last.into())
}
