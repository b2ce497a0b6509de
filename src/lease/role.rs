//! Taking the role: the flocks on all its lock files, and waiting for them.

use super::lock_files::{lock_error, open};
use super::observe::{self, LeaseObservation, LockState, show};
use super::waiting::{LockWaiter, WaitOutcome};
use crate::error::{Error, Kind};
use crate::model::lease::{Build, FirstPayload, MAX_PAYLOAD, Payload};
use crate::model::stamp::Stamp;
use crate::os::dir::Opened;
use crate::os::flock::{self, Mode};
use crate::os::payload_file::{PayloadReading, read_payload, write_payload};
use crate::os::store::{LockKind, LockPlace, StorePlace};
use crate::os::{fdinfo, host, proc};
use std::fs::File;
use std::io;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// A probe holds the lock for an instant; a refusal that can name nobody looks again for so long.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How often a waiter looks whether it waits at the right file, and at the holder's ticks.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often a lock file may be replaced under us.
const ATTEMPTS: usize = 5;

/// The role: exclusive flocks on the store's lock files, and shared ones on the legacy
/// files where there are any. Dropping it closes them all.
#[derive(Debug)]
pub(crate) struct HeldRole {
    pub(crate) files: Vec<HeldLock>,
}

/// One locked file.
#[derive(Debug)]
pub(crate) struct HeldLock {
    /// Its position in the place.
    pub(crate) lock: usize,
    pub(crate) file: File,
    /// It could be opened for locking only.
    read_only: bool,
}

/// What a process says about itself when it takes the role.
#[derive(Clone, Debug)]
pub(crate) struct OwnDescription {
    pub(crate) surface: String,
    pub(crate) build: Option<Build>,
}

enum TryOutcome {
    Won(HeldRole),
    /// Somebody has the lock file at this position.
    Busy(usize),
}

/// What to do about a holder.
pub(crate) enum NextStep {
    /// Give up: it stays the holder.
    Refuse,
    /// Wait so long for the lock, then look again.
    Wait(Duration),
    /// It changed while it was judged.
    LookAgain,
}

/// How taking the role ended.
#[derive(Debug)]
pub(crate) enum RoleOutcome {
    Won(HeldRole),
    Held(LeaseObservation),
}

/// Takes all lock files, one after the other; `won` is the first, which a waiter has locked already.
fn try_once(place: &StorePlace, mut won: Option<File>) -> Result<TryOutcome, Error> {
    let mut files = Vec::new();
    for (position, lock) in place.locks.iter().enumerate() {
        let taken = match lock.kind {
            LockKind::Legacy => share_legacy(lock)?,
            LockKind::Own | LockKind::OtherMount => take_own(lock, won.take())?,
        };
        match taken {
            OneLock::Taken(file, read_only) => files.push(HeldLock { lock: position, file, read_only }),
            OneLock::NotThere => {}
            OneLock::Busy => return Ok(TryOutcome::Busy(position)),
        }
    }
    Ok(TryOutcome::Won(HeldRole { files }))
}

enum OneLock {
    Taken(File, bool),
    NotThere,
    Busy,
}

/// An exclusive flock, and proof that it is on the file at the path.
fn take_own(lock: &LockPlace, mut won: Option<File>) -> Result<OneLock, Error> {
    for _ in 0..ATTEMPTS {
        let (file, read_only) = match won.take() {
            Some(file) => (file, false),
            None => {
                let Some((file, read_only)) = open(lock)? else { return Ok(OneLock::NotThere) };
                if !flock::try_lock(&file, Mode::Exclusive).map_err(|error| lock_error(lock, &error))? {
                    return Ok(OneLock::Busy);
                }
                (file, read_only)
            }
        };
        if lock.leads_to(&file).map_err(|error| lock_error(lock, &error))? {
            return Ok(OneLock::Taken(file, read_only));
        }
    }
    Err(Error::new(
        Kind::System,
        format!("{} was replaced again and again while it was taken", show(&lock.path())),
    ))
}

/// A shared flock on a legacy lock file, so that no legacy resident starts beside us. A flock
/// makes the payload in it look live to programs of the first version, so it is emptied
/// before; an empty one is read rightly by them.
fn share_legacy(lock: &LockPlace) -> Result<OneLock, Error> {
    let io = |error: &io::Error| lock_error(lock, error);
    let path = || show(&lock.path());
    let (file, writable) = match lock.open_to_write() {
        Ok(Opened::File(file)) => (file, Ok(())),
        Ok(Opened::Missing | Opened::NotAFile(_)) => return Ok(OneLock::NotThere),
        Err(denied) => match lock.open_to_read() {
            Ok(Opened::File(file)) => (file, Err(denied)),
            Ok(Opened::Missing | Opened::NotAFile(_)) => return Ok(OneLock::NotThere),
            Err(error) => {
                let why = crate::error::reason(&error);
                let what = "may be held by a resident of the whole directory and cannot be read";
                return Err(Error::new(Kind::CannotTell, format!("{} {what}: {why}", path())));
            }
        },
    };
    let is_empty = || file.metadata().map(|metadata| metadata.len() == 0);
    for _ in 0..ATTEMPTS {
        if !is_empty().map_err(|error| io(&error))? {
            if flock::try_lock(&file, Mode::Exclusive).map_err(|error| io(&error))? {
                // Nobody has it, so nobody is named by it.
                writable.as_ref().map_err(|error| {
                    let why = crate::error::reason(error);
                    let what = "names a resident that is gone and cannot be emptied";
                    Error::new(Kind::CannotCreate, format!("{} {what}: {why}", path()))
                })?;
                file.set_len(0).map_err(|error| io(&error))?;
            } else if !flock::try_lock(&file, Mode::Shared).map_err(|error| io(&error))? {
                return Ok(OneLock::Busy);
            } else if !is_empty().map_err(|error| io(&error))? {
                return if names_a_sharer(&file) {
                    Ok(OneLock::Taken(file, true))
                } else {
                    let what = "holds a payload that nobody can vouch for, and its lock is shared";
                    Err(Error::new(Kind::CannotTell, format!("{} {what}", path()))
                        .hint("end the resident that shares it, or empty the file"))
                };
            }
        }
        if !flock::try_lock(&file, Mode::Shared).map_err(|error| io(&error))? {
            return Ok(OneLock::Busy);
        }
        if is_empty().map_err(|error| io(&error))? {
            return Ok(OneLock::Taken(file, true));
        }
    }
    Ok(OneLock::Busy)
}

/// Does the payload name a process that has a flock on this very file?
fn names_a_sharer(file: &File) -> bool {
    let Ok(PayloadReading::Stable(bytes)) = read_payload(file, LOOK_AGAIN) else { return false };
    let named = Payload::parse(&bytes).and_then(|payload| payload.pid());
    proc::is_ours()
        && named.is_some_and(|pid| fdinfo::holds(pid, file, fdinfo::any_flock).is_ok_and(|holds| holds))
}

impl HeldRole {
    /// The locked files of the store itself.
    pub(crate) fn own<'a>(
        &'a self,
        place: &'a StorePlace,
    ) -> impl Iterator<Item = (&'a LockPlace, &'a HeldLock)> {
        let all = self.files.iter().map(|held| (&place.locks[held.lock], held));
        all.filter(|(lock, _)| lock.kind != LockKind::Legacy)
    }

    /// Those of them that a payload can be written to.
    pub(crate) fn written<'a>(
        &'a self,
        place: &'a StorePlace,
    ) -> impl Iterator<Item = (&'a LockPlace, &'a HeldLock)> {
        self.own(place).filter(|(_, held)| !held.read_only)
    }

    /// Writes who we are. A payload that cannot be written ends the role at once.
    ///
    /// # Errors
    /// [`Kind::CannotCreate`] on a full or read-only disk.
    pub(crate) fn write_first_payload(&self, place: &StorePlace, by: &OwnDescription) -> Result<(), Error> {
        let payload = Payload::new(&FirstPayload {
            pid: std::process::id(),
            host: &host::hostname(),
            surface: &by.surface,
            acquired_at: Stamp::of(SystemTime::now()),
            store: place.store.to_str(),
            build: by.build.as_ref(),
            locks: self
                .written(place)
                .filter_map(|(lock, _)| Some(lock.path().to_str()?.to_owned()))
                .collect(),
        });
        let bytes = payload.to_bytes();
        if bytes.len() > MAX_PAYLOAD {
            return Err(Error::usage(
                "surface, revision and path together are longer than a payload (16 KiB)",
            ));
        }
        for (lock, held) in self.written(place) {
            write_payload(&held.file, &bytes).map_err(|error| lock_error(lock, &error))?;
        }
        Ok(())
    }

    /// The lock file of the store that is not at its path any more, if one is.
    pub(crate) fn lost<'a>(&'a self, place: &'a StorePlace) -> Option<&'a LockPlace> {
        // A file that cannot be looked at (EACCES, EIO) proves nothing: then the role stays.
        self.own(place).find(|(lock, held)| !lock.leads_to(&held.file).unwrap_or(true)).map(|(lock, _)| lock)
    }
}

/// Takes the role, waiting as long as `judge` says, which sees whoever stands in the way.
///
/// # Errors
/// [`Kind::CannotCreate`] when a lock file cannot be made or is not a file,
/// [`Kind::CannotTell`] when a legacy lock cannot be read, what `judge` returns.
pub(crate) fn take(
    place: &StorePlace,
    mut judge: impl FnMut(&LeaseObservation) -> Result<NextStep, Error>,
) -> Result<RoleOutcome, Error> {
    let mut waiting: Option<LockWaiter> = None;
    let mut nameless_since: Option<Instant> = None;
    let mut slice = LOOK_EVERY;
    loop {
        let waited = waiting.as_mut().map(|waiting| waiting.wait(place, slice));
        if !matches!(waited, Some(WaitOutcome::StillBusy(_))) {
            waiting = None;
            if waited.is_some() {
                nameless_since = None;
            }
        }
        let tried = match waited {
            Some(WaitOutcome::StillBusy(position)) => TryOutcome::Busy(position),
            Some(WaitOutcome::Failed(error)) => return Err(error),
            Some(WaitOutcome::Won(file)) => try_or_see(place, Some(file))?,
            Some(WaitOutcome::TryAgain) | None => try_or_see(place, None)?,
        };
        let position = match tried {
            TryOutcome::Won(role) => return Ok(RoleOutcome::Won(role)),
            TryOutcome::Busy(position) => position,
        };
        let since = *nameless_since.get_or_insert_with(Instant::now);
        let state = match observe::observe(place)? {
            // Busy for us and free for a look, and that for long: somebody has it shared.
            LockState::Free if since.elapsed() >= LOOK_AGAIN => observe::shared(place, position)?,
            state => state,
        };
        if let LockState::Held(observed) = state
            && (waiting.is_some() || observed.pid().is_some() || since.elapsed() >= LOOK_AGAIN)
        {
            match judge(&observed)? {
                NextStep::Refuse => return Ok(RoleOutcome::Held(observed)),
                NextStep::Wait(time) => slice = time.min(LOOK_EVERY),
                NextStep::LookAgain => slice = Duration::from_millis(1),
            }
            if waiting.is_none() {
                match LockWaiter::start(place, position) {
                    Ok(started) => waiting = started,
                    Err(error) if error.kind() == Kind::CannotCreate => thread::sleep(slice),
                    Err(error) => return Err(error),
                }
            }
            continue;
        }
        // Free by now, or held by nobody who has a name: a probe's instant, or a holder still writing.
        thread::sleep(Duration::from_millis(1));
    }
}

/// Tries to take the role. A lock file that is not for us to write still shows its holder.
fn try_or_see(place: &StorePlace, won: Option<File>) -> Result<TryOutcome, Error> {
    match try_once(place, won) {
        Err(error) if error.kind() == Kind::CannotCreate => match observe::observe(place) {
            Ok(LockState::Held(observed)) => Ok(TryOutcome::Busy(observed.lock)),
            _ => Err(error),
        },
        tried => tried,
    }
}

/// Is the holder one of our own ancestors? Waiting for it would be waiting for ourselves.
pub(crate) fn is_ancestor(pid: u32) -> bool {
    let mut climber = std::process::id();
    // A process tree is a tree; the bound only guards against a chain re-parented while we climb.
    for _ in 0..256 {
        match (climber, proc::stat(climber)) {
            _ if climber == pid => return true,
            (2.., Ok(stat)) => climber = stat.ppid,
            _ => return false,
        }
    }
    false
}
