//! Who serves a store: facts about its lock file, gathered without taking part.

use crate::error::{Error, Kind};
use crate::model::lease::Payload;
use crate::os::dir::Opened;
use crate::os::flock::{self, Mode};
use crate::os::store::{self, LEGACY, PayloadReading, StorePlace};
use crate::os::{clock, fdinfo, host, proc};
use crate::report::escape;
use crate::verdict::lease::{ClockReadings, HolderProof, Silence, silence};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// How long a payload may go on changing, or fit nobody, before nobody is named.
const PATIENCE: Duration = Duration::from_millis(20);
/// How often a lock file may be replaced while we look at it.
const ATTEMPTS: usize = 5;

/// Which lock file the role hangs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockFile {
    /// The store's own.
    Own,
    /// The directory's, of the first version.
    Legacy,
}

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
    pub(crate) which: LockFile,
    /// The lock file that was looked at.
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    /// The payload's text, to see whether it changed since.
    pub(crate) bytes: Vec<u8>,
    /// `None` when it could not be read as one.
    pub(crate) payload: Option<Payload>,
    /// How well the payload's process is known to be the holder.
    pub(crate) proof: HolderProof,
}

/// Finds the place of a store.
///
/// # Errors
/// [`Kind::Usage`] for a path that names no file, [`Kind::CannotCreate`] when its
/// directory is missing or closed to us.
pub(crate) fn find(store: &Path) -> Result<StorePlace, Error> {
    StorePlace::find(store).map_err(|error| {
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

/// Looks at the store's own lock file, then at the legacy one beside it.
///
/// # Errors
/// [`Kind::CannotTell`] when a lock file is no regular file or may not be read;
/// [`Kind::System`] when the kernel refuses to lock.
pub(crate) fn observe(place: &StorePlace) -> Result<LockState, Error> {
    match observe_lock(place, LockFile::Own)? {
        LockState::Free => observe_lock(place, LockFile::Legacy),
        held @ LockState::Held(_) => Ok(held),
    }
}

/// A lock that nobody holds as a resident does, and that cannot be had: held, by nobody that can be named.
///
/// # Errors
/// As [`observe()`].
pub(crate) fn nameless(place: &StorePlace, which: LockFile) -> Result<LockState, Error> {
    let name = name(place, which);
    let path = place.dir.path().join(name);
    match store::open_to_read(&place.dir, name) {
        Ok(Opened::File(file)) => {
            let (bytes, payload, proof) = (Vec::new(), None, HolderProof::NoName);
            Ok(LockState::Held(LeaseObservation { which, path, file, bytes, payload, proof }))
        }
        _ => Ok(LockState::Free),
    }
}

/// The name of the lock file in the store's directory.
pub(crate) fn name(place: &StorePlace, which: LockFile) -> &str {
    match which {
        LockFile::Own => &place.lock,
        LockFile::Legacy => LEGACY,
    }
}

fn observe_lock(place: &StorePlace, which: LockFile) -> Result<LockState, Error> {
    let name = name(place, which);
    let path = place.dir.path().join(name);
    for _ in 0..ATTEMPTS {
        let file = match store::open_to_read(&place.dir, name) {
            Ok(Opened::File(file)) => file,
            Ok(Opened::Missing) => return Ok(LockState::Free),
            // Nobody ever locked a directory or a link of that name as a legacy resident does.
            Ok(Opened::NotAFile(_)) if which == LockFile::Legacy => return Ok(LockState::Free),
            Ok(Opened::NotAFile(what)) => {
                return Err(
                    cannot_tell(&path, &format!("is {what}, not a lock file")).hint("move it out of the way")
                );
            }
            Err(error) => {
                return Err(cannot_tell(&path, &format!("cannot be read: {}", crate::error::reason(&error))));
            }
        };
        if let Some(state) = observe_file(place, name, &path, file, which)? {
            return Ok(state);
        }
    }
    Err(cannot_tell(&path, "was replaced again and again"))
}

/// `None` when the file is not the one at its path any more.
fn observe_file(
    place: &StorePlace,
    name: &str,
    path: &Path,
    file: File,
    which: LockFile,
) -> Result<Option<LockState>, Error> {
    let io = |error: &std::io::Error| Error::io(&show(path), error);
    let end = Instant::now() + PATIENCE;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let bytes = match store::read_payload(&file, left).map_err(|error| io(&error))? {
            PayloadReading::Stable(bytes) => bytes,
            PayloadReading::Torn | PayloadReading::TooLong => Vec::new(),
        };
        let payload = Payload::parse(&bytes);
        let proof = proof(&file, payload.as_ref());
        // The descriptor in the payload's process is proof, and asks nothing of the lock.
        if !matches!(proof, HolderProof::Holder(_)) {
            // A lock held for an instant, given back at once: the only proof that a role is free.
            if flock::try_lock(&file, Mode::Shared).map_err(|error| io(&error))? {
                flock::unlock(&file).map_err(|error| io(&error))?;
                let still = place.dir.path_leads_to(name, &file).map_err(|error| io(&error))?;
                return Ok(still.then_some(LockState::Free));
            }
            let settled = matches!(proof, HolderProof::Hidden(_));
            if !settled && Instant::now() < end {
                // Between taking the lock and writing its payload.
                thread::sleep(Duration::from_millis(1));
                continue;
            }
        }
        return Ok(Some(LockState::Held(LeaseObservation {
            which,
            path: path.to_owned(),
            file,
            bytes,
            payload,
            proof,
        })));
    }
}

fn cannot_tell(path: &Path, what: &str) -> Error {
    Error::new(Kind::CannotTell, format!("{} {what}", show(path)))
}

/// Is the payload's process seen to hold the lock?
fn proof(file: &File, payload: Option<&Payload>) -> HolderProof {
    let Some(pid) = payload.and_then(Payload::pid) else { return HolderProof::NoName };
    match fdinfo::holds(pid, file, fdinfo::exclusive_flock) {
        Ok(true) => HolderProof::Holder(pid),
        Ok(false) => HolderProof::NotIt(pid),
        Err(error) if proc::is_gone(&error) => HolderProof::NotIt(pid),
        Err(_) => HolderProof::Hidden(pid),
    }
}

/// The clocks, read now: after the payload.
pub(crate) fn now() -> ClockReadings {
    ClockReadings {
        wall: SystemTime::now(),
        monotonic_us: clock::monotonic_us(),
        boottime_us: clock::boottime_us(),
        boot_id: host::boot_id(),
    }
}

impl LeaseObservation {
    /// The holder's process, as far as it may be named.
    pub(crate) fn pid(&self) -> Option<u32> {
        match self.proof {
            HolderProof::Holder(pid) | HolderProof::Hidden(pid) => Some(pid),
            HolderProof::NoName | HolderProof::NotIt(_) | HolderProof::Several(_) => None,
        }
    }

    /// The payload, if it is the holder's. A payload whose process does not hold the
    /// lock is somebody else's: of the last holder, or from another pid namespace.
    pub(crate) fn believed(&self) -> Option<&Payload> {
        self.pid().and(self.payload.as_ref())
    }

    /// What its ticks say; `None` when it has no payload to believe.
    pub(crate) fn silence(
        &self,
        now: &ClockReadings,
        limit: Duration,
        same_tick_for: Duration,
    ) -> Option<Silence> {
        self.believed().map(|payload| silence(payload, now, limit, same_tick_for))
    }

    /// The processes that do hold it where the payload's does not; for people.
    pub(crate) fn others(&self) -> Vec<u32> {
        match self.proof {
            HolderProof::NotIt(_) => {
                fdinfo::holders(&self.file, fdinfo::exclusive_flock).map_or(Vec::new(), |found| found.pids)
            }
            _ => Vec::new(),
        }
    }
}
