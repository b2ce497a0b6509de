//! Waiting for a name: everything that can wake us is set up before the record is
//! read, so that no change can fall between the look and the sleep.
//!
//! Only the first in the line watches. The others sleep until the line moves, and
//! look now and then all the same: a first one that is stopped delays them and blocks nobody.

use super::{Judged, Records};
use crate::model::name::LockName;
use crate::model::observation::Found;
use crate::model::record::Record;
use crate::os::clock;
use crate::os::helper_thread::Wakeup;
use crate::os::inotify::Inotify;
use crate::os::process::{self, PidFd, Pin, wait_any};
use crate::os::pulse::Watched;
use crate::os::waiting_line::Turn;
use crate::verdict::liveness::{Scope, State, Through, scope};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// How often the record is looked at where something that would wake us is missing.
const POLL: Duration = Duration::from_millis(20);

/// About how often it is looked at where nothing is: behind the first, and for what no event tells
/// (a mark set on the directory, a namespace that went away).
const LOOK: Duration = Duration::from_secs(1);

/// One who waits.
#[derive(Debug)]
pub(crate) struct HolderWatch<'a> {
    store: &'a Records,
    name: &'a LockName,
    /// The file whose changes matter.
    record: String,
    bell: Option<Wakeup>,
    /// The bell may ring. One that is not silenced only costs a look.
    rung: bool,
    /// `None`: there is no line, so we watch for ourselves.
    place: Option<Turn>,
    inotify: Option<Inotify>,
    inotify_tried: bool,
    pulse: Option<Watched>,
    /// Whom we wait for, where that is not this process.
    client: Option<PidFd>,
    /// Who started us, where we wait for that one: its end wakes us.
    caller: Option<&'a PidFd>,
    /// The token whose owners were LIVE in a look and ended right after it.
    ended_after_look: Option<u64>,
}

impl<'a> HolderWatch<'a> {
    /// Joins the line. The ends of `client` and `caller` end the waiting.
    pub(crate) fn start(
        store: &'a Records,
        name: &'a LockName,
        client: Option<PidFd>,
        caller: Option<&'a PidFd>,
    ) -> Self {
        let bell = Wakeup::new().ok();
        let place = bell.as_ref().and_then(|bell| Turn::join(store.folder(), name.as_str(), bell).ok());
        Self {
            store,
            name,
            record: format!("{name}.json"),
            bell,
            rung: false,
            place,
            inotify: None,
            inotify_tried: false,
            pulse: None,
            client,
            caller,
            ended_after_look: None,
        }
    }

    /// To be called before every look: what happens from now on ends the next [`HolderWatch::rest`].
    pub(crate) fn prepare(&mut self) {
        if std::mem::take(&mut self.rung)
            && let Some(bell) = &self.bell
        {
            bell.silence();
        }
        if self.pulse.as_ref().is_some_and(|pulse| !pulse.waits() && !pulse.failed()) {
            self.pulse = None;
        }
        if let Some(inotify) = &self.inotify {
            inotify.drain(&self.record);
        } else if self.is_first() && !self.inotify_tried {
            self.inotify_tried = true;
            self.inotify = Inotify::watch(self.store.folder()).ok();
        }
    }

    /// Has the process ended for which we wait?
    pub(crate) fn client_ended(&self) -> bool {
        self.client.as_ref().is_some_and(|client| client.ended().unwrap_or(false))
    }

    /// Sleeps until another look is worth it, at most until `end`. `judged` is what the last look gave.
    pub(crate) fn rest(&mut self, judged: &Judged, end: Option<Instant>) {
        let (pins, pause) = if self.is_first() { self.watch(judged) } else { (Vec::new(), jittered(LOOK)) };
        let look = Instant::now() + pause;
        let wake = end.map_or(look, |end| end.min(look));
        loop {
            let left = wake.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.sleep(&pins, left) {
                return;
            }
        }
    }

    fn is_first(&self) -> bool {
        self.place.as_ref().is_none_or(Turn::is_first)
    }

    /// Watches for the end of whoever holds it, and says for how long that can be relied on.
    fn watch(&mut self, judged: &Judged) -> (Vec<PidFd>, Duration) {
        let mut pins = Vec::new();
        // inotify tells nothing of what other machines do.
        let mut complete = self.bell.is_some() && self.inotify.is_some() && !self.store.state.network;
        match (judged.state(), judged.record()) {
            (State::Live(Through::Owner(_)), Some(record)) => {
                for pin in self.store.pins(record) {
                    match pin {
                        Pin::Running(pin) => pins.push(pin),
                        Pin::Ended => {}
                        Pin::Unknown(_) => complete = false,
                    }
                }
                if pins.is_empty() {
                    return self.none_to_watch(record.token);
                }
            }
            (State::Live(_), _) if self.store.asks_at_its_name(self.name, judged) => {
                complete &= judged.token.is_some_and(|token| self.watch_pulse(token));
            }
            // The pulse file was removed: there is no byte to wait for, but there are processes.
            (State::Live(_), Some(record)) => {
                pins = self.store.carrier_pins(self.name, judged);
                if pins.is_empty() {
                    return self.none_to_watch(record.token);
                }
            }
            // Corrupt, with a pulse on some byte: a lock on all of them would be in the way of the next owner.
            (State::Live(_), None) => complete = false,
            _ => {}
        }
        (pins, if complete { jittered(LOOK) } else { POLL })
    }

    /// Whoever was LIVE in the look ended right after it: one more look at once, then now and then.
    fn none_to_watch(&mut self, token: u64) -> (Vec<PidFd>, Duration) {
        let again = self.ended_after_look.replace(token) == Some(token);
        (Vec::new(), if again { POLL } else { Duration::ZERO })
    }

    fn watch_pulse(&mut self, token: u64) -> bool {
        let Some(bell) = &self.bell else { return false };
        if self.pulse.as_ref().is_none_or(|pulse| pulse.token != token) {
            self.pulse = Watched::start(self.store.folder(), self.name.as_str(), token, bell).ok();
        }
        self.pulse.as_ref().is_some_and(|pulse| !pulse.failed())
    }

    /// `true`: woken by something that does not concern us.
    fn sleep(&mut self, pins: &[PidFd], left: Duration) -> bool {
        let mut fds: Vec<BorrowedFd<'_>> = pins.iter().map(AsFd::as_fd).collect();
        fds.extend(self.client.as_ref().map(AsFd::as_fd));
        fds.extend(self.caller.map(AsFd::as_fd));
        fds.extend(self.bell.as_ref().map(AsFd::as_fd));
        let ours = fds.len();
        fds.extend(self.inotify.as_ref().and_then(Inotify::fd));
        match wait_any(&fds, Some(left)) {
            Ok(ready) if ready == [ours] => {
                self.inotify.as_ref().is_none_or(|inotify| !inotify.drain(&self.record))
            }
            Ok(ready) => {
                self.rung = !ready.is_empty();
                false
            }
            Err(_) => {
                std::thread::sleep(left.min(POLL));
                false
            }
        }
    }
}

impl Records {
    /// Is the pulse by which it is held asked at the file that stands at its name?
    fn asks_at_its_name(&self, name: &LockName, judged: &Judged) -> bool {
        match (judged.record(), &judged.found) {
            (Some(record), _) => record.pulse.is_none_or(|taken| self.is_there(name, taken)),
            (None, found) => matches!(found, Found::Nothing),
        }
    }

    /// Those who carry the pulse, opened, to be waited for.
    fn carrier_pins(&self, name: &LockName, judged: &Judged) -> Vec<PidFd> {
        let open = |pid: u32| PidFd::open(pid).ok().filter(|_| self.carries(name, judged, pid));
        self.carriers(name, judged).pids.into_iter().filter_map(open).collect()
    }

    /// The owners of a LIVE record, to be waited for.
    fn pins(&self, record: &Record) -> Vec<Pin> {
        match scope(record, &self.here(Some(record))) {
            Scope::ByNumber => record.owners.iter().map(process::pin).collect(),
            Scope::Search => record.owners.iter().map(process::find).collect(),
            Scope::Restarted(_) | Scope::Private | Scope::Unclear(_) => Vec::new(),
        }
    }
}

/// Up to a half more, so that many who came together do not look together.
fn jittered(pause: Duration) -> Duration {
    let salt = clock::monotonic_us().wrapping_add(u64::from(std::process::id()).wrapping_mul(7919));
    let part = u32::try_from(salt % 512).unwrap_or(0);
    pause + pause / 2 * part / 512
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_spread() {
        for _ in 0..1000 {
            let pause = jittered(LOOK);
            assert!((LOOK..=LOOK * 3 / 2).contains(&pause), "{pause:?}");
        }
    }
}
