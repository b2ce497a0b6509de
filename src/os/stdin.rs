//! Standard input that somebody may or may not have written to, read without waiting for ever.

use crate::os::process::wait_any;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Everything up to its end, if that comes within `patience` and it is not longer than `most` bytes. `None`
/// for a terminal, a closed descriptor, more than that, and an end that does not come.
///
/// What is too long is read to its end all the same, so that a writer is not hit by a closed pipe.
pub(crate) fn read_all(most: usize, patience: Duration) -> Option<Vec<u8>> {
    let stdin = io::stdin();
    if rustix::termios::isatty(&stdin) {
        return None;
    }
    let end = Instant::now() + patience;
    let mut bytes = Vec::new();
    let mut length = 0;
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        // A file and the end of a pipe are ready at once.
        if wait_any(&[stdin.as_fd()], Some(left)).ok()?.is_empty() {
            return None;
        }
        let read = match stdin.lock().read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return None,
        };
        length += read;
        if length <= most {
            bytes.extend_from_slice(&chunk[..read]);
        }
    }
    (length <= most).then_some(bytes)
}
