//! Who serves a store: facts about its lock files, gathered without taking part.

use crate::env;
use crate::error::{Error, Kind};
use crate::model::lease::Payload;
use crate::os::dir::Opened;
use crate::os::fdinfo::{self, LockHolders};
use crate::os::flock::{self, Mode};
use crate::os::payload_file::{PayloadReading, read_payload};
use crate::os::store::{LockKind, LockPlace, StorePlace};
use crate::os::{clock, host, proc};
use crate::report::escape;
use crate::verdict::lease::HolderProof;
use crate::verdict::silence::{ClockReadings, HolderSeen, Silence, silence};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// How long a payload may go on changing, or fit nobody, before nobody is named.
const PATIENCE: Duration = Duration::from_millis(20);
/// How often a lock file may be replaced while we look at it.
const ATTEMPTS: usize = 5;

/// What was found out about a role.
#[derive(Debug)]
pub(crate) enum LockState {
    /// Nobody holds it, proved.
    Free,
    /// Somebody holds it.
    Held(LeaseObservation),
}

/// A held role.
#[derive(Debug)]
pub(crate) struct LeaseObservation {
    /// Which of the lock files is held: its position in the place.
    pub(crate) lock: usize,
    /// It stands for every store of its directory.
    pub(crate) legacy: bool,
    /// The lock file that was looked at.
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    /// The payload's text, to see whether it changed since.
    pub(crate) bytes: Vec<u8>,
    /// `None` when it could not be read as one.
    pub(crate) payload: Option<Payload>,
    /// How well the payload's process is known to be the holder.
    pub(crate) proof: HolderProof,
    /// Who holds the lock, as a search of `/proc` found; only where the payload does not tell.
    pub(crate) found: LockHolders,
}

/// Finds the place of a store.
///
/// # Errors
/// [`Kind::Usage`] for a path that names no file, [`Kind::CannotCreate`] when its
/// directory is missing or closed to us.
pub(crate) fn find(store: &Path) -> Result<StorePlace, Error> {
    let working_dir = env::value(env::name::PWD).map(PathBuf::from);
    StorePlace::find(store, working_dir.as_deref()).map_err(|error| {
        let name = show(store);
        match error.kind() {
            std::io::ErrorKind::InvalidInput => {
                Error::usage(format!("{name} names no file (with a name in UTF-8) that could be a store"))
            }
            std::io::ErrorKind::NotFound => {
                Error::new(Kind::CannotCreate, format!("{name}: its directory does not exist"))
            }
            _ => Error::io(&name, &error),
        }
    })
}

/// A path for people: nothing in it drives a terminal.
pub(crate) fn show(path: &Path) -> String {
    escape(path.as_os_str().as_encoded_bytes(), 400)
}

/// Looks at the store's own lock files, then at the legacy ones beside them.
///
/// # Errors
/// [`Kind::CannotTell`] when a lock file is not a regular file or may not be read;
/// [`Kind::System`] when the kernel refuses to lock.
pub(crate) fn observe(place: &StorePlace) -> Result<LockState, Error> {
    for (position, lock) in place.locks.iter().enumerate() {
        if let held @ LockState::Held(_) = observe_lock(position, lock)? {
            return Ok(held);
        }
    }
    Ok(LockState::Free)
}

/// A lock that nobody holds as a resident does, and that cannot be had: somebody shares it.
///
/// # Errors
/// As [`observe()`].
pub(crate) fn shared(place: &StorePlace, position: usize) -> Result<LockState, Error> {
    let lock = &place.locks[position];
    match lock.open_to_read() {
        Ok(Opened::File(file)) => Ok(LockState::Held(LeaseObservation {
            lock: position,
            legacy: lock.kind == LockKind::Legacy,
            path: lock.path(),
            found: search(&file, fdinfo::any_flock),
            file,
            bytes: Vec::new(),
            payload: None,
            proof: HolderProof::NoName,
        })),
        _ => Ok(LockState::Free),
    }
}

fn observe_lock(position: usize, lock: &LockPlace) -> Result<LockState, Error> {
    let path = lock.path();
    for _ in 0..ATTEMPTS {
        let file = match lock.open_to_read() {
            Ok(Opened::File(file)) => file,
            Ok(Opened::Missing) => return Ok(LockState::Free),
            // Nobody ever locked a directory or a link of that name as a legacy resident does.
            Ok(Opened::NotAFile(_)) if lock.kind == LockKind::Legacy => return Ok(LockState::Free),
            Ok(Opened::NotAFile(what)) => {
                return Err(
                    cannot_tell(&path, &format!("is {what}, not a lock file")).hint("move it out of the way")
                );
            }
            Err(error) => {
                return Err(cannot_tell(&path, &format!("cannot be read: {}", crate::error::reason(&error))));
            }
        };
        if let Some(state) = observe_file(position, lock, file)? {
            return Ok(state);
        }
    }
    Err(cannot_tell(&path, "was replaced again and again"))
}

/// `None` when the file is not the one at its path any more.
fn observe_file(position: usize, lock: &LockPlace, file: File) -> Result<Option<LockState>, Error> {
    let path = lock.path();
    let io = |error: &std::io::Error| Error::io(&show(&path), error);
    let end = Instant::now() + PATIENCE;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let bytes = match read_payload(&file, left).map_err(|error| io(&error))? {
            PayloadReading::Stable(bytes) => bytes,
            PayloadReading::Torn | PayloadReading::TooLong => Vec::new(),
        };
        let payload = Payload::parse(&bytes);
        let mut proof = proof(&file, payload.as_ref());
        let mut found = LockHolders::default();
        // The descriptor in the payload's process is proof, and asks nothing of the lock.
        if !matches!(proof, HolderProof::Holder(_)) {
            // A lock held for an instant, given back at once: the only proof that a role is free.
            if flock::try_lock(&file, Mode::Shared).map_err(|error| io(&error))? {
                flock::unlock(&file).map_err(|error| io(&error))?;
                let still = lock.leads_to(&file).map_err(|error| io(&error))?;
                return Ok(still.then_some(LockState::Free));
            }
            let settled = matches!(proof, HolderProof::Hidden);
            if !settled && Instant::now() < end {
                // Between taking the lock and writing its payload.
                thread::sleep(Duration::from_millis(1));
                continue;
            }
            found = search(&file, fdinfo::exclusive_flock);
            if let Some(pid) = payload.as_ref().and_then(Payload::pid).and_then(|pid| renumbered(pid, &found))
            {
                proof = HolderProof::Holder(pid);
            }
        }
        let legacy = lock.kind == LockKind::Legacy;
        let observed = LeaseObservation { lock: position, legacy, path, file, bytes, payload, proof, found };
        return Ok(Some(LockState::Held(observed)));
    }
}

fn cannot_tell(path: &Path, what: &str) -> Error {
    Error::new(Kind::CannotTell, format!("{} {what}", show(path)))
}

/// Is the process that has the payload's number here seen to hold the lock?
fn proof(file: &File, payload: Option<&Payload>) -> HolderProof {
    let Some(pid) = payload.and_then(Payload::pid) else { return HolderProof::NoName };
    if !proc::is_ours() {
        // The numbers of this /proc are not those that we could signal.
        return HolderProof::Hidden;
    }
    match fdinfo::holds(pid, file, fdinfo::exclusive_flock) {
        Ok(true) => HolderProof::Holder(pid),
        Ok(false) => HolderProof::NotIt,
        Err(error) if proc::is_gone(&error) => HolderProof::NotIt,
        Err(_) => HolderProof::Hidden,
    }
}

/// Who has such a lock on the file. Nobody, and blind, where `/proc` is not about our processes.
fn search(file: &File, matches: impl Fn(&fdinfo::LockLine) -> bool) -> LockHolders {
    let blind = LockHolders { pids: Vec::new(), blind: true };
    if !proc::is_ours() {
        return blind;
    }
    fdinfo::holders(file, matches).unwrap_or(blind)
}

/// The holder whose number in its own pid namespace, below ours, is the payload's.
fn renumbered(own_number: u32, found: &LockHolders) -> Option<u32> {
    found.pids.iter().copied().find(|pid| {
        proc::namespace_pids(*pid)
            .is_ok_and(|numbers| numbers.len() > 1 && numbers.last() == Some(&own_number))
    })
}

/// The clocks, read now: after the payload.
pub(crate) fn now() -> ClockReadings {
    ClockReadings {
        wall: SystemTime::now(),
        monotonic_us: clock::monotonic_us(),
        boottime_us: clock::boottime_us(),
        boot_id: host::boot_id(),
        time_ns: host::time_namespace(),
    }
}

impl LeaseObservation {
    /// The holder's process, proved, by the number it has here.
    pub(crate) fn pid(&self) -> Option<u32> {
        match self.proof {
            HolderProof::Holder(pid) => Some(pid),
            HolderProof::NoName | HolderProof::NotIt | HolderProof::Hidden | HolderProof::Several(_) => None,
        }
    }

    /// The payload, if it is the holder's. A payload whose process is not seen to hold the
    /// lock is somebody else's: of the holder before, or from another pid namespace.
    pub(crate) fn believed(&self) -> Option<&Payload> {
        self.pid().and(self.payload.as_ref())
    }

    /// CLOCK_BOOTTIME at the start of the holder's process, microseconds.
    pub(crate) fn started_us(&self) -> Option<u64> {
        proc::started_us(&proc::stat(self.pid()?).ok()?)
    }

    /// What its ticks say; `None` when it has no payload to believe.
    pub(crate) fn silence(
        &self,
        now: &ClockReadings,
        limit: Duration,
        same_tick_for: Duration,
    ) -> Option<Silence> {
        let seen = HolderSeen { started_us: self.started_us(), same_tick_for };
        self.believed().map(|payload| silence(payload, now, &seen, limit))
    }

    /// Does the lock file say something else by now?
    pub(crate) fn changed(&self) -> bool {
        let reading = read_payload(&self.file, PATIENCE);
        !matches!(reading, Ok(PayloadReading::Stable(bytes)) if bytes == self.bytes)
    }
}
