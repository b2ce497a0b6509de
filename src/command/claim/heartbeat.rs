//! The heartbeat of a run: a thread of the process that holds the claim, so that it
//! stops when that does.

use crate::command::records::Records;
use crate::error::{Error, Kind};
use crate::model::name::LockName;
use crate::report::Report;
use crate::verdict::ownership::Credential;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// So many beats may be late before a holder counts as silent.
const PROMISE: u32 = 5;

/// A heart that beats until it is stopped.
#[derive(Debug)]
pub(super) struct Heartbeat {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl Heartbeat {
    /// Beats at once, and then every `every`.
    ///
    /// # Errors
    /// What starting a thread answers.
    pub(super) fn start(
        store: Records,
        name: LockName,
        token: u64,
        every: Duration,
        report: Report,
    ) -> Result<Self, Error> {
        let (stop, stopped) = mpsc::channel();
        let beats = move || {
            loop {
                match store.tick(&name, &Credential::Token(token), Some(every * PROMISE)) {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(error) if error.kind() == Kind::NotOwner => return report.detail(&error.to_string()),
                    // A full disk: the next beat may pass.
                    Err(error) => report.detail(&format!("{name}: no tick: {error}")),
                }
                match stopped.recv_timeout(every) {
                    Err(RecvTimeoutError::Timeout) => {}
                    _ => return,
                }
            }
        };
        let thread = thread::Builder::new().name("tick".into()).spawn(beats);
        let thread = thread.map_err(|error| Error::io("starting a thread", &error))?;
        Ok(Self { stop, thread })
    }

    /// The last beat is over when this returns.
    pub(super) fn stop(self) {
        drop(self.stop);
        drop(self.thread.join());
    }
}
