//! Taking the role: the flock, the legacy lock beside it, and waiting for both.

use super::observe::{self, LeaseObservation, LockFile, LockState, show};
use crate::error::{Error, Kind};
use crate::model::lease::{Build, FirstPayload, MAX_PAYLOAD, Payload};
use crate::model::stamp::Stamp;
use crate::os::dir::Opened;
use crate::os::flock::{self, Mode};
use crate::os::store::{self, LEGACY, StorePlace};
use crate::os::{host, proc};
use std::fs::File;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// A probe holds the lock for an instant; a refusal that can name nobody looks again for so long.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How often a waiter looks whether it waits at the right file, and at the holder's ticks.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often a lock file may be replaced under us.
const ATTEMPTS: usize = 5;

/// The role: an exclusive flock on the store's lock file, and a shared one on the
/// legacy file where there is one. Dropping it closes both.
#[derive(Debug)]
pub(crate) struct HeldRole {
    pub(crate) file: File,
    pub(crate) legacy: Option<File>,
}

/// Who wants the role.
#[derive(Clone, Debug)]
pub(crate) struct OwnDescription {
    pub(crate) surface: String,
    pub(crate) build: Option<Build>,
}

enum TryOutcome {
    Won(HeldRole),
    Busy(LockFile),
}

/// What to do about a holder.
pub(crate) enum NextStep {
    /// Give up: it stays the holder.
    Refuse,
    /// Wait so long for the lock, then look again.
    Wait(Duration),
}

/// How taking the role ended.
#[derive(Debug)]
pub(crate) enum RoleOutcome {
    Won(HeldRole),
    Held(LeaseObservation),
}

fn lock_error(place: &StorePlace, error: &io::Error) -> Error {
    Error::io(&show(&place.lock_path()), error)
}

fn open(place: &StorePlace) -> Result<File, Error> {
    match store::open_or_create(&place.dir, &place.lock) {
        Ok(Opened::File(file)) => Ok(file),
        Ok(Opened::NotAFile(what)) => Err(Error::new(
            Kind::CannotCreate,
            format!("{} is {what}, not a lock file", show(&place.lock_path())),
        )
        .hint("move it out of the way")),
        Ok(Opened::Missing) => Err(lock_error(place, &io::ErrorKind::NotFound.into())),
        Err(error) => Err(lock_error(place, &error)),
    }
}

fn try_once(place: &StorePlace) -> Result<TryOutcome, Error> {
    for _ in 0..ATTEMPTS {
        let file = open(place)?;
        if !flock::try_lock(&file, Mode::Exclusive).map_err(|error| lock_error(place, &error))? {
            return Ok(TryOutcome::Busy(LockFile::Own));
        }
        if let Some(tried) = with_lock(place, file)? {
            return Ok(tried);
        }
    }
    Err(Error::new(
        Kind::System,
        format!("{} was replaced again and again while it was taken", show(&place.lock_path())),
    ))
}

/// With the flock won: is it the one of the file at the path, and is no legacy
/// resident there? `None`: it was the lock of a file that is gone.
fn with_lock(place: &StorePlace, file: File) -> Result<Option<TryOutcome>, Error> {
    if !place.dir.path_leads_to(&place.lock, &file).map_err(|error| lock_error(place, &error))? {
        return Ok(None);
    }
    let legacy = match store::open_to_read(&place.dir, LEGACY) {
        Ok(Opened::File(legacy)) => legacy,
        Ok(Opened::Missing | Opened::NotAFile(_)) => {
            return Ok(Some(TryOutcome::Won(HeldRole { file, legacy: None })));
        }
        Err(error) => {
            let path = show(&place.dir.path().join(LEGACY));
            let why = crate::error::reason(&error);
            return Err(Error::new(
                Kind::CannotTell,
                format!("{path} may be held by a resident of the whole directory and cannot be read: {why}"),
            ));
        }
    };
    let free = flock::try_lock(&legacy, Mode::Shared).map_err(|error| lock_error(place, &error))?;
    Ok(Some(if free {
        TryOutcome::Won(HeldRole { file, legacy: Some(legacy) })
    } else {
        TryOutcome::Busy(LockFile::Legacy)
    }))
}

impl HeldRole {
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
        });
        let bytes = payload.to_bytes();
        if bytes.len() > MAX_PAYLOAD {
            return Err(Error::usage(
                "surface, revision and path together are longer than a payload (16 KiB)",
            ));
        }
        store::write_payload(&self.file, &bytes).map_err(|error| lock_error(place, &error))
    }

    /// Is the lock file still the one at its path?
    pub(crate) fn is_current(&self, place: &StorePlace) -> io::Result<bool> {
        place.dir.path_leads_to(&place.lock, &self.file)
    }
}

/// Takes the role, waiting as long as `judge` says, which sees whoever stands in the way.
///
/// # Errors
/// [`Kind::CannotCreate`] when the lock file cannot be made or is none,
/// [`Kind::CannotTell`] when a legacy lock cannot be read, what `judge` returns.
pub(crate) fn take(
    place: &StorePlace,
    mut judge: impl FnMut(&LeaseObservation) -> Result<NextStep, Error>,
) -> Result<RoleOutcome, Error> {
    let mut waiting: Option<LockWaiter> = None;
    let mut nameless_since: Option<Instant> = None;
    let mut slice = LOOK_EVERY;
    loop {
        let tried = match waiting.as_mut().map(|waiting| waiting.wait(place, slice)) {
            None => match try_once(place) {
                Ok(tried) => tried,
                // Not for us to write, but whoever holds it can be seen all the same.
                Err(error) if error.kind() == Kind::CannotCreate => match observe::observe(place) {
                    Ok(LockState::Held(observed)) => TryOutcome::Busy(observed.which),
                    _ => return Err(error),
                },
                Err(error) => return Err(error),
            },
            Some(WaitOutcome::Won(file)) => {
                waiting = None;
                match with_lock(place, file)? {
                    Some(tried) => tried,
                    None => continue,
                }
            }
            Some(WaitOutcome::TryAgain) => {
                waiting = None;
                continue;
            }
            Some(WaitOutcome::Failed(error)) => return Err(lock_error(place, &error)),
            Some(WaitOutcome::StillBusy(which)) => TryOutcome::Busy(which),
        };
        let which = match tried {
            TryOutcome::Won(role) => return Ok(RoleOutcome::Won(role)),
            TryOutcome::Busy(which) => which,
        };
        let since = *nameless_since.get_or_insert_with(Instant::now);
        let state = match observe::observe(place)? {
            // Busy for us and free for a look, and that for long: somebody has it shared.
            LockState::Free if since.elapsed() >= LOOK_AGAIN => observe::nameless(place, which)?,
            state => state,
        };
        if let LockState::Held(observed) = state
            && (waiting.is_some() || observed.pid().is_some() || since.elapsed() >= LOOK_AGAIN)
        {
            match judge(&observed)? {
                NextStep::Refuse => return Ok(RoleOutcome::Held(observed)),
                NextStep::Wait(time) => slice = time.min(LOOK_EVERY),
            }
            if waiting.is_none() {
                match LockWaiter::start(place, which) {
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

/// A blocked flock in a helper thread, and the file it blocks on.
struct LockWaiter {
    which: LockFile,
    /// A duplicate of the thread's file, to see whether it is still the one at the path.
    file: File,
    won: Receiver<io::Result<File>>,
}

enum WaitOutcome {
    Won(File),
    StillBusy(LockFile),
    TryAgain,
    Failed(io::Error),
}

impl LockWaiter {
    /// `None` when the file is gone: try again.
    fn start(place: &StorePlace, which: LockFile) -> Result<Option<Self>, Error> {
        let (file, mode) = match which {
            LockFile::Own => (open(place)?, Mode::Exclusive),
            LockFile::Legacy => match store::open_to_read(&place.dir, LEGACY) {
                Ok(Opened::File(file)) => (file, Mode::Shared),
                _ => return Ok(None),
            },
        };
        let started = file.try_clone().and_then(|copy| flock::lock_in_background(copy, mode));
        let won = started.map_err(|error| lock_error(place, &error))?;
        Ok(Some(Self { which, file, won }))
    }

    /// Waits for `slice`.
    fn wait(&mut self, place: &StorePlace, slice: Duration) -> WaitOutcome {
        match self.won.recv_timeout(slice) {
            // The legacy lock is only passed: what counts is tried from the start.
            Ok(Ok(_)) if self.which == LockFile::Legacy => WaitOutcome::TryAgain,
            Ok(Ok(file)) => WaitOutcome::Won(file),
            Ok(Err(error)) => WaitOutcome::Failed(error),
            Err(RecvTimeoutError::Disconnected) => WaitOutcome::TryAgain,
            Err(RecvTimeoutError::Timeout) => {
                match place.dir.path_leads_to(observe::name(place, self.which), &self.file) {
                    Ok(true) => WaitOutcome::StillBusy(self.which),
                    Ok(false) => WaitOutcome::TryAgain,
                    Err(error) => WaitOutcome::Failed(error),
                }
            }
        }
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
