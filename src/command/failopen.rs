//! The frame of the tools that are advice: whatever happens inside, the caller
//! gets an outcome back in time and decides what to end with.
//!
//! The body runs in a thread; this one waits for it, for TERM or HUP, and for the
//! deadline. Handlers write to a socket instead of a blocked mask with a signalfd:
//! exec resets handlers, but a mask would reach every program the body calls, and
//! `timeout 3 …` in there could not end anything any more. PIPE is ignored by the
//! runtime already; INT and QUIT keep their default action.

use crate::os::process;
use signal_hook::consts::{SIGHUP, SIGTERM};
use signal_hook::{flag, low_level};
use std::any::Any;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// How the body ended, or why it was not waited for.
#[derive(Debug)]
pub(crate) enum FailOpenOutcome<T> {
    /// It ended by itself.
    Done(T),
    /// It panicked, with this payload.
    Panicked(Box<dyn Any + Send>),
    /// It still ran when the deadline came; it is left behind and ends with the process.
    Deadline,
    /// TERM or HUP came first; the body is left behind too.
    Signalled,
}

/// Longer deadlines are this long: times that far ahead overflow.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// What the body gives back through its thread.
type BodyResult<T> = Result<T, Box<dyn Any + Send>>;

/// Runs `body` for at most `deadline`. Call it once per process, early, from the main thread.
///
/// Where descriptors or threads are exhausted the body runs right here: without a
/// deadline, and TERM and HUP then end the process with 0 at once.
pub(crate) fn run<T: Send + 'static>(
    deadline: Duration,
    body: impl FnOnce() -> T + Send + 'static,
) -> FailOpenOutcome<T> {
    let body = Arc::new(Mutex::new(Some(body)));
    match start(&body) {
        Ok(running) => running.wait(deadline.min(LONGEST)),
        Err(_) => {
            for signal in [SIGTERM, SIGHUP] {
                // Without the handler a signal kills us, which callers of fail-open tools read as an error of ours.
                drop(flag::register_conditional_shutdown(signal, 0, Arc::new(AtomicBool::new(true))));
            }
            match take(&body).map(|body| catch_unwind(AssertUnwindSafe(body))) {
                Some(Ok(value)) => FailOpenOutcome::Done(value),
                Some(Err(payload)) => FailOpenOutcome::Panicked(payload),
                // Only a thread that runs takes the body, and then there is no error.
                None => FailOpenOutcome::Deadline,
            }
        }
    }
}

/// The moment a deadline means.
pub(crate) fn end(begin: Instant, deadline: Duration) -> Instant {
    begin + deadline.min(LONGEST)
}

/// Can a line be written to stderr now, without waiting for whoever reads it? After a deadline
/// nobody may be waited for any more.
pub(crate) fn can_speak() -> bool {
    process::accepts(io::stderr())
}

fn take<F>(slot: &Mutex<Option<F>>) -> Option<F> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// A body at work: one byte on `wake` for its end and for each signal.
struct RunningBody<T> {
    wake: UnixStream,
    ended: mpsc::Receiver<BodyResult<T>>,
}

fn start<T, F>(body: &Arc<Mutex<Option<F>>>) -> io::Result<RunningBody<T>>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let (wake, mut done) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGHUP] {
        low_level::pipe::register(signal, done.try_clone()?)?;
    }
    let (send, ended) = mpsc::sync_channel(1);
    let slot = Arc::clone(body);
    thread::Builder::new().spawn(move || {
        if let Some(body) = take(&slot) {
            drop(send.send(catch_unwind(AssertUnwindSafe(body))));
            drop(done.write(b"."));
        }
    })?;
    Ok(RunningBody { wake, ended })
}

impl<T> RunningBody<T> {
    fn wait(self, deadline: Duration) -> FailOpenOutcome<T> {
        let woken = process::wait_any(&[self.wake.as_fd()], Some(deadline));
        let ended = match woken {
            Ok(_) => self.ended.try_recv().ok(),
            // No poll: signals go unheard, the deadline still holds.
            Err(_) => self.ended.recv_timeout(deadline).ok(),
        };
        // A body that is done wins over everything that came at the same moment.
        match ended {
            Some(Ok(value)) => FailOpenOutcome::Done(value),
            Some(Err(payload)) => FailOpenOutcome::Panicked(payload),
            None if woken.is_ok_and(|ready| !ready.is_empty()) => FailOpenOutcome::Signalled,
            None => FailOpenOutcome::Deadline,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // One test: handlers belong to the whole process, and so does a signal.
    #[test]
    fn every_way_a_body_can_end_has_its_outcome() {
        let long = Duration::from_secs(60);
        assert!(matches!(run(long, || 7), FailOpenOutcome::Done(7)));
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let outcome = run(long, || -> u8 { panic!("on purpose") });
        std::panic::set_hook(hook);
        let FailOpenOutcome::Panicked(payload) = outcome else { panic!("a panic is caught") };
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"on purpose"));

        let (hold, held) = mpsc::channel::<()>();
        let outcome = run(Duration::from_millis(30), move || held.recv().ok());
        assert!(matches!(outcome, FailOpenOutcome::Deadline));
        drop(hold);

        for signal in [SIGTERM, SIGHUP] {
            let (hold, held) = mpsc::channel::<()>();
            let outcome = run(long, move || {
                low_level::raise(signal).expect("raise");
                held.recv().ok();
            });
            assert!(matches!(outcome, FailOpenOutcome::Signalled));
            drop(hold);
        }
    }
}
