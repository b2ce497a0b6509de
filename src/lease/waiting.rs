//! Waiting for one lock file of a role.

use super::lock_files::{lock_error, open};
use crate::error::Error;
use crate::os::dir::Opened;
use crate::os::flock::{self, Mode};
use crate::os::store::{LockKind, StorePlace};
use std::fs::File;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// A blocked flock in a helper thread, and the file it blocks on. Nothing else is held
/// meanwhile: two that wait for each other's lock files would wait for ever.
pub(super) struct LockWaiter {
    /// The position of the lock file in the place.
    lock: usize,
    /// A duplicate of the thread's file, to see whether it is still the one at the path.
    file: File,
    won: Receiver<io::Result<File>>,
}

pub(super) enum WaitOutcome {
    /// The first lock file, locked.
    Won(File),
    /// Somebody still has the lock file at this position.
    StillBusy(usize),
    TryAgain,
    Failed(Error),
}

impl LockWaiter {
    /// `None` when the file is gone: try again.
    pub(super) fn start(place: &StorePlace, position: usize) -> Result<Option<Self>, Error> {
        let lock = &place.locks[position];
        let (file, mode) = match lock.kind {
            LockKind::Legacy => match lock.open_to_read() {
                Ok(Opened::File(file)) => (file, Mode::Shared),
                _ => return Ok(None),
            },
            LockKind::Own | LockKind::OtherMount => match open(lock)? {
                Some((file, _)) => (file, Mode::Exclusive),
                None => return Ok(None),
            },
        };
        let started = file.try_clone().and_then(|copy| flock::lock_in_background(copy, mode));
        let won = started.map_err(|error| lock_error(lock, &error))?;
        Ok(Some(Self { lock: position, file, won }))
    }

    /// Waits for `slice`.
    pub(super) fn wait(&mut self, place: &StorePlace, slice: Duration) -> WaitOutcome {
        let lock = &place.locks[self.lock];
        match self.won.recv_timeout(slice) {
            Ok(Ok(file)) if self.lock == 0 => WaitOutcome::Won(file),
            // Every other one is only passed: what counts is tried from the first one on.
            Ok(Ok(_)) | Err(RecvTimeoutError::Disconnected) => WaitOutcome::TryAgain,
            Ok(Err(error)) => WaitOutcome::Failed(lock_error(lock, &error)),
            Err(RecvTimeoutError::Timeout) => match lock.leads_to(&self.file) {
                Ok(true) => WaitOutcome::StillBusy(self.lock),
                Ok(false) => WaitOutcome::TryAgain,
                Err(error) => WaitOutcome::Failed(lock_error(lock, &error)),
            },
        }
    }
}
