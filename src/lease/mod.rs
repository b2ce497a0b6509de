//! One resident per store, for programs that are residents themselves.
//!
//! A resident is the process that serves a durable store at the moment: a database
//! file, a journal. The lock file `<STORE>.resident.lock` only coordinates; the
//! store stays the truth. Whoever holds the flock on it has the role, and the JSON
//! in it says who that is.
//!
//! ```no_run
//! use orion_toolkit::lease::{self, Acquired, Build, Request};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let me = std::env::current_exe()?;
//! let request = Request::new("/srv/journal.db").surface("api").build(Build::of(&me)?.revision("4f1c"));
//! match lease::acquire(&request)? {
//!     Acquired::Serving(resident) => loop {
//!         // … one round of work …
//!         if resident.tick().is_err() && !resident.is_current() {
//!             break; // the lock file was replaced: the role is gone
//!         }
//!     },
//!     Acquired::Held(holder) => drop(holder), // somebody serves it already
//! }
//! # Ok(())
//! # }
//! ```
//!
//! What is not promised: exclusion over network file systems whose flock is local,
//! or between hard links of one store; and nothing stops a resident whose lock file
//! somebody deletes, unless it asks [`Resident::is_current`].

mod lock_files;
pub(crate) mod observe;
pub(crate) mod role;
pub(crate) mod takeover;
pub(crate) mod ticking;
mod waiting;

pub use crate::error::{Error, Kind};
pub use crate::model::lease::Build;
pub use crate::verdict::silence::Silence;

use crate::model::stamp::{Stamp, Written};
use crate::os::child::inheritable;
use crate::os::proc;
use crate::os::store::{self, LockPlace, StorePlace};
use crate::report::escape;
use observe::{LeaseObservation, LockState};
use role::{HeldRole, OwnDescription, RoleOutcome};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use takeover::{GRACE, LeasePolicy, RoleAttempt};

/// After how much silence, in time awake, a resident that has ticked is called stuck.
pub const STUCK_AFTER: Duration = Duration::from_secs(5 * 60);

/// What a process asks for when it wants to serve a store.
#[derive(Clone, Debug)]
pub struct Request {
    store: PathBuf,
    description: OwnDescription,
    wait: Duration,
}

impl Request {
    /// The store, however it is spelled; it need not exist, its directory must.
    pub fn new(store: impl Into<PathBuf>) -> Self {
        let description = OwnDescription { surface: "unknown".into(), build: None };
        Self { store: store.into(), description, wait: Duration::ZERO }
    }

    /// Where this process came from ("chat", "wake", "api"); shown to others.
    #[must_use]
    pub fn surface(mut self, surface: impl Into<String>) -> Self {
        self.description.surface = surface.into();
        self
    }

    /// Which build this is, so that a newer one may take over.
    #[must_use]
    pub fn build(mut self, build: Build) -> Self {
        self.description.build = Some(build);
        self
    }

    /// How long to wait for the role; not at all by default.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }
}

/// How an acquire ended. Being refused is not an error.
#[derive(Debug)]
pub enum Acquired {
    /// This process serves the store until the value is dropped.
    Serving(Resident),
    /// Somebody else does.
    Held(Holder),
}

/// The role. Dropping it closes the lock file, which frees the role unless a child
/// was given the descriptor on purpose: it is close-on-exec.
#[derive(Debug)]
#[must_use = "dropping it gives the role up"]
pub struct Resident {
    pub(crate) place: StorePlace,
    pub(crate) role: HeldRole,
}

impl Resident {
    /// Reports progress. To be called from the work loop, not from a timer.
    ///
    /// # Errors
    /// [`Kind::NotOwner`] when the lock file is not ours any more: stop working.
    /// [`Kind::CannotCreate`] or [`Kind::Io`] when the tick could not be written
    /// (full disk, read-only): worth a log line, never a reason to stop.
    pub fn tick(&self) -> Result<(), Error> {
        if let Some(lost) = self.lost() {
            let path = observe::show(&lost);
            return Err(Error::new(
                Kind::NotOwner,
                format!("{path} was removed or replaced; the role is gone"),
            ));
        }
        for (lock, held) in self.role.written(&self.place) {
            ticking::write_tick(&held.file, &observe::show(&lock.path()))?;
        }
        Ok(())
    }

    /// Is the lock file still the one this process holds? When it was deleted or
    /// replaced, somebody else can take the role.
    pub fn is_current(&self) -> bool {
        self.lost().is_none()
    }

    /// Does the role hang on more than one lock file?
    pub(crate) fn has_several_locks(&self) -> bool {
        self.role.own(&self.place).count() > 1
    }

    /// The lock file that was removed or replaced, if one was.
    pub(crate) fn lost(&self) -> Option<PathBuf> {
        self.role.lost(&self.place).map(LockPlace::path)
    }

    /// Puts the role where exec does not close it, on high numbers: shells use the low ones.
    pub(crate) fn hand_on(self) -> Result<Vec<OwnedFd>, Error> {
        let files = self.role.files.iter();
        let kept: std::io::Result<Vec<OwnedFd>> = files.map(|held| inheritable(&held.file)).collect();
        kept.map_err(|error| Error::io("the lock file's descriptor", &error))
    }

    /// The lock file; of a store with several names, the first of its lock files.
    pub fn lock_path(&self) -> PathBuf {
        self.place.lock_path()
    }
}

/// Takes the role of resident, waiting as long as the request says.
///
/// # Errors
/// [`Kind::Usage`] for a path that names no file, [`Kind::CannotCreate`] when the
/// lock file cannot be made or written (missing directory, full or read-only disk,
/// a FIFO in its place), [`Kind::CannotTell`] when a legacy lock cannot be read,
/// [`Kind::System`] when the kernel refuses to lock (ENOLCK).
pub fn acquire(request: &Request) -> Result<Acquired, Error> {
    let policy = LeasePolicy {
        wait: Some(request.wait),
        allowed: Vec::new(),
        ours: None,
        stuck_after: STUCK_AFTER,
        kill_after: None,
        grace: GRACE,
        second_look: Duration::ZERO,
        dry_run: false,
    };
    let place = observe::find(&request.store)?;
    let mut attempt = RoleAttempt::new(&policy);
    match role::take(&place, |observed| attempt.judge(observed))? {
        RoleOutcome::Won(role) => {
            role.write_first_payload(&place, &request.description)?;
            Ok(Acquired::Serving(Resident { place, role }))
        }
        RoleOutcome::Held(observed) => Ok(Acquired::Held(Holder::of(&observed, STUCK_AFTER))),
    }
}

/// Who serves a store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Holder {
    /// Its process; `None` when its payload cannot be read or is not its own.
    pub pid: Option<u32>,
    /// Its name, escaped.
    pub comm: Option<String>,
    /// Its state as `/proc` has it: `R`, `S`, `D`, `T` …
    pub state: Option<char>,
    /// Where it came from.
    pub surface: Option<String>,
    /// The store it named.
    pub store: Option<String>,
    /// The machine it named.
    pub host: Option<String>,
    /// When it took the role.
    pub acquired_at: Option<SystemTime>,
    /// When it last ticked.
    pub last_tick: Option<SystemTime>,
    /// Which build it runs.
    pub build: Option<Build>,
    /// What its ticks say; `None` when there is no payload to believe.
    pub silence: Option<Silence>,
    /// A stamp of its payload lies in the future.
    pub clock_moved: bool,
    /// It holds the directory-wide lock of the first version.
    pub legacy: bool,
}

impl Holder {
    /// Reads what can be known about the holder now.
    pub(crate) fn of(observed: &LeaseObservation, stuck_after: Duration) -> Self {
        let now = observe::now();
        let stat = observed.pid().and_then(|pid| proc::stat(pid).ok());
        let payload = observed.believed();
        let time = |written: Written| written.stamp().map(Stamp::time);
        let escaped = |text: String| escape(text.as_bytes(), 80);
        Self {
            pid: observed.pid(),
            comm: stat.as_ref().map(|stat| escape(stat.comm.as_bytes(), 64)),
            state: stat.as_ref().map(|stat| stat.state),
            surface: payload.and_then(|payload| payload.surface()).map(escaped),
            store: payload.and_then(|payload| payload.store()).map(|text| escape(text.as_bytes(), 400)),
            host: payload.and_then(|payload| payload.host()).map(escaped),
            acquired_at: payload.and_then(|payload| time(payload.acquired_at())),
            last_tick: payload.and_then(|payload| time(payload.last_tick())),
            build: payload.and_then(|payload| payload.build()),
            silence: observed.silence(&now, stuck_after, Duration::ZERO),
            clock_moved: payload.is_some_and(|payload| crate::verdict::silence::clock_moved(payload, &now)),
            legacy: observed.legacy,
        }
    }

    /// It ticked, and then fell silent for [`STUCK_AFTER`] of time awake.
    pub fn is_stuck(&self) -> bool {
        matches!(self.silence, Some(Silence::Stuck { .. }))
    }
}

/// Who serves this store now? `None`: nobody, proved. Takes no part: however often
/// it is called, no acquire of this toolkit fails because of it.
///
/// # Errors
/// [`Kind::CannotTell`] when the lock file is not a regular file or may not be read; others as [`acquire`].
pub fn probe(store: &Path) -> Result<Option<Holder>, Error> {
    let place = observe::find(store)?;
    Ok(match observe::observe(&place)? {
        LockState::Free => None,
        LockState::Held(observed) => Some(Holder::of(&observed, STUCK_AFTER)),
    })
}

/// Ticks from a process that has no [`Resident`] in its hands: it was started by
/// `orion-lease run`, with or without `--exec`.
///
/// # Errors
/// As [`Resident::tick`]; [`Kind::NotOwner`] also when this process is neither the
/// holder nor the command it was started for.
pub fn tick(store: &Path) -> Result<(), Error> {
    ticking::tick_for(&observe::find(store)?, &[std::process::id()])
}

impl Build {
    /// The build identity of a program: when its file was changed, and its size.
    ///
    /// # Errors
    /// [`Kind::Config`] when the file cannot be examined.
    pub fn of(program: &Path) -> Result<Self, Error> {
        let (time, size) = store::time_and_size(program).map_err(|error| {
            Error::config(format!("{}: {}", observe::show(program), crate::error::reason(&error)))
        })?;
        // At the resolution the file system kept, as its text will show it.
        let mod_time = Stamp::read(&Stamp::of(time).rfc3339_trimmed()).stamp();
        Ok(Self { mod_time, size: Some(size), revision: None })
    }

    /// With a revision: a commit, a version.
    #[must_use]
    pub fn revision(mut self, revision: impl Into<String>) -> Self {
        self.revision = Some(revision.into()).filter(|revision: &String| !revision.is_empty());
        self
    }

    /// Is this build newer than `other`? Only when both are stamped and this one is
    /// later. Equal times prove no order, whatever size and revision say. An unstamped
    /// side is never outranked and outranks nobody.
    pub fn newer_than(&self, other: &Self) -> bool {
        crate::verdict::lease::build_order(self, other) == crate::verdict::lease::BuildOrder::Newer
    }
}
