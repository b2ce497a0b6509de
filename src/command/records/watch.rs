//! Waiting for a name: everything that can wake us is set up before the record is
//! read, so that no change can fall between the look and the sleep.
//!
//! Only the first in the line watches. The others sleep until the line moves, and
//! look now and then all the same: a first one that is stopped delays them and blocks nobody.

use super::members::NameState;
use super::{Judged, PauseScope, Records};
use crate::error::{Error, Kind};
use crate::model::entry::EntryMode;
use crate::model::name::LockName;
use crate::model::observation::Found;
use crate::model::pause::PauseFound;
use crate::model::record::Record;
use crate::os::helper_thread::Wakeup;
use crate::os::inotify::Inotify;
use crate::os::process::{self, PidFd, Pin, wait_any};
use crate::os::pulse::Watched;
use crate::os::waiting_line::{CountedWaiter, Turn};
use crate::os::{clock, pause_file, record_file, waiting_line};
use crate::verdict::liveness::{Scope, State, Through, scope};
use crate::verdict::pause::PauseState;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the record is looked at where something that would wake us is missing.
const POLL: Duration = Duration::from_millis(20);

/// About how often it is looked at where nothing is: behind the first, and for what no event tells
/// (a mark set on the directory, a namespace that went away).
const LOOK: Duration = Duration::from_secs(1);

/// The end of a pause is not waited for in shorter steps.
const SOON: Duration = Duration::from_millis(1);

/// How many pulses are waited for at a time.
const MOST_PULSES: usize = 8;

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
    /// Counted in the line; `None` for who only watches.
    counted: Option<CountedWaiter>,
    /// Who wants the name alone came before us: we stand behind them, and outside the line until they are gone.
    behind: bool,
    /// Becomes true when they are.
    gone: Option<Arc<AtomicBool>>,
    inotify: Option<Inotify>,
    inotify_tried: bool,
    /// The directory of the other members is watched too.
    members_watched: bool,
    /// The file of the name's pause, and whether the directory is watched where the pause of everything is.
    pause: String,
    all_watched: bool,
    pulses: Vec<Watched>,
    /// Whom we wait for, where that is not this process.
    client: Option<PidFd>,
    /// Who started us, where we wait for that one: its end wakes us.
    caller: Option<&'a PidFd>,
    /// The token whose owners were LIVE in a look and ended right after it.
    ended_after_look: Option<u64>,
}

impl<'a> HolderWatch<'a> {
    /// Joins the line. The ends of `client` and `caller` end the waiting. `mode`: what is waited for, where that is to be
    /// counted; it is not for who only watches.
    ///
    /// # Errors
    /// QUEUE FULL: as many as `max_waiting` wait already.
    pub(crate) fn start(
        store: &'a Records,
        name: &'a LockName,
        mode: Option<EntryMode>,
        max_waiting: Option<u64>,
        (client, caller): (Option<PidFd>, Option<&'a PidFd>),
    ) -> Result<Self, Error> {
        let (behind, counted) = match mode {
            None => (false, None),
            Some(mode) => {
                // Where it is counted, counting and joining are one step.
                let _guard = max_waiting.and_then(|_| store.guard(name).ok());
                let waiting = max_waiting.map(|_| store.waiting(name));
                if waiting.zip(max_waiting).is_some_and(|(waiting, most)| waiting >= most) {
                    return Err(queue_full(name, waiting.unwrap_or(0)));
                }
                let alone = mode == EntryMode::Exclusive;
                let behind = !alone && waiting_line::exclusive_waits(store.folder(), name.file());
                (behind, CountedWaiter::join(store.folder(), name.file(), alone).ok())
            }
        };
        let mut watch = Self {
            store,
            name,
            record: format!("{}.json", name.file()),
            bell: Wakeup::new().ok(),
            rung: false,
            place: None,
            counted,
            behind,
            gone: None,
            inotify: None,
            inotify_tried: false,
            members_watched: false,
            pause: pause_file::file_name(name.file()),
            all_watched: false,
            pulses: Vec::new(),
            client,
            caller,
            ended_after_look: None,
        };
        watch.join_line();
        Ok(watch)
    }

    /// Did we come before everybody who wants the name alone?
    pub(crate) fn is_in_turn(&self) -> bool {
        self.counted.is_some() && !self.behind
    }

    fn join_line(&mut self) {
        let Some(bell) = self.bell.as_ref().filter(|_| self.place.is_none()) else { return };
        if self.behind {
            if self.gone.as_ref().is_none_or(|gone| gone.load(Ordering::Acquire)) {
                self.behind = waiting_line::exclusive_waits(self.store.folder(), self.name.file());
            }
            if self.behind {
                if self.gone.as_ref().is_none_or(|gone| gone.load(Ordering::Acquire)) {
                    let folder = self.store.folder();
                    self.gone = waiting_line::when_no_exclusive_waits(folder, self.name.file(), bell).ok();
                }
                return;
            }
        }
        self.place = Turn::join(self.store.folder(), self.name.file(), bell).ok();
    }

    /// To be called before every look: what happens from now on ends the next [`HolderWatch::rest`].
    pub(crate) fn prepare(&mut self) {
        if std::mem::take(&mut self.rung)
            && let Some(bell) = &self.bell
        {
            bell.silence();
        }
        self.join_line();
        self.pulses.retain(|pulse| pulse.waits() || pulse.failed());
        if let Some(inotify) = &self.inotify {
            inotify.drain(|file| self.is_ours(file));
        } else if self.is_first() && !self.inotify_tried {
            self.inotify_tried = true;
            self.inotify = Inotify::watch(self.store.folder()).ok();
        }
        self.watch_members();
        self.watch_pause_of_all();
    }

    /// Only where everything is paused: then that file may go away.
    fn watch_pause_of_all(&mut self) {
        if let (Some(inotify), false) = (&self.inotify, self.all_watched)
            && self.store.read_pause(PauseScope::All) != PauseFound::Nothing
        {
            self.all_watched = inotify.also(&self.store.state.dir).is_ok();
        }
    }

    /// The other members have a directory of their own, which may come later than we do.
    fn watch_members(&mut self) {
        if let (Some(inotify), false) = (&self.inotify, self.members_watched)
            && let Ok(Some(dir)) = record_file::members(self.store.folder(), self.name.file(), false)
        {
            self.members_watched = inotify.also(&dir).is_ok();
        }
    }

    /// The record of this name, or a member's, which has a number for a name; or what a person says of it.
    fn is_ours(&self, file: &[u8]) -> bool {
        let numbered = || file.strip_suffix(b".json").is_some_and(|stem| stem.iter().all(u8::is_ascii_digit));
        let pause = || file == self.pause.as_bytes() || file == pause_file::file_name("").as_bytes();
        file == self.record.as_bytes() || (self.members_watched && numbered()) || pause()
    }

    /// Has the process ended for which we wait?
    pub(crate) fn client_ended(&self) -> bool {
        self.client.as_ref().is_some_and(|client| client.ended().unwrap_or(false))
    }

    /// Sleeps until another look is worth it, at most until `end`. `state` is what the last look gave.
    pub(crate) fn rest(&mut self, state: &NameState, end: Option<Instant>) {
        let (pins, pause) = if self.is_first() { self.watch(state) } else { (Vec::new(), jittered(LOOK)) };
        // A pause ends by the clock, and nothing tells of that.
        let over = match &state.pause {
            PauseState::Paused(current) => current.pause.end(),
            _ => None,
        };
        let over = over.map(|end| end.age(clock::wall()).unwrap_or_default());
        let look = Instant::now() + over.map_or(pause, |over| over.clamp(SOON, pause.max(SOON)));
        let wake = end.map_or(look, |end| end.min(look));
        loop {
            let left = wake.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.sleep(&pins, left) {
                return;
            }
        }
    }

    fn is_first(&self) -> bool {
        !self.behind && self.place.as_ref().is_none_or(Turn::is_first)
    }

    /// Watches for the end of everybody who holds it, and says for how long that can be relied on.
    fn watch(&mut self, state: &NameState) -> (Vec<PidFd>, Duration) {
        let mut pins = Vec::new();
        // inotify tells nothing of what other machines do.
        let mut complete = self.bell.is_some() && self.inotify.is_some() && !self.store.state.network;
        if state.has_others() && !self.members_watched {
            // Its members came after we were ready: once more, with them.
            return (pins, if self.inotify.is_some() { Duration::ZERO } else { POLL });
        }
        for member in state.there() {
            let judged = &member.judged;
            match (judged.state(), judged.record()) {
                (State::Live(Through::Owner(_)), Some(record)) => {
                    let before = pins.len();
                    for pin in self.store.pins(record) {
                        match pin {
                            Pin::Running(pin) => pins.push(pin),
                            Pin::Ended => {}
                            Pin::Unknown(_) => complete = false,
                        }
                    }
                    if pins.len() == before {
                        return self.none_to_watch(record.token);
                    }
                }
                (State::Live(_), _) if self.store.asks_at_its_name(self.name, judged) => {
                    complete &= judged.token.is_some_and(|token| self.watch_pulse(token));
                }
                // The pulse file was removed: there is no byte to wait for, but there are processes.
                (State::Live(_), Some(record)) => {
                    let carriers = self.store.carrier_pins(self.name, judged);
                    if carriers.is_empty() {
                        return self.none_to_watch(record.token);
                    }
                    pins.extend(carriers);
                }
                // Corrupt, with a pulse on some byte: a lock on all of them would be in the way of the next owner.
                (State::Live(_), None) => complete = false,
                _ => {}
            }
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
        if !self.pulses.iter().any(|pulse| pulse.token == token) {
            // Each is a thread that waits; beyond so many we look instead.
            if self.pulses.len() >= MOST_PULSES {
                return false;
            }
            self.pulses.extend(Watched::start(self.store.folder(), self.name.file(), token, bell));
        }
        self.pulses.iter().any(|pulse| pulse.token == token && !pulse.failed())
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
                self.inotify.as_ref().is_none_or(|inotify| !inotify.drain(|file| self.is_ours(file)))
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

/// Nobody waits beyond that, who asked for it.
fn queue_full(name: &LockName, waiting: u64) -> Error {
    let who = if waiting == 1 { "one waits".to_owned() } else { format!("{waiting} wait") };
    Error::new(Kind::QueueFull, format!("{name}: {who} for it already, and --max-waiting allows no more"))
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
