//! The store of owner records on this machine: what stands there, judged; taking,
//! giving back, changing. The seam for an engine beyond one machine lies here:
//! commands speak to a [`Records`] and never to files.

mod acquire;
mod again;
mod change;
mod enter;
mod hold;
mod judging;
mod members;
mod pausing;
mod request;
mod set_aside;
mod sweeping;
mod watch;

pub(crate) use again::RefusedAgain;
pub(crate) use change::{RecordChange, Released, not_owner};
pub(crate) use hold::RunEnd;
pub(crate) use judging::Judged;
pub(crate) use members::{LockMember, NameState};
pub(crate) use pausing::{ALL_LOG, PauseScope};
pub(crate) use request::{
    AcquireOutcome, AcquireRequest, AcquireTerms, AcquiredLock, ON_BEHALF, PulsePolicy,
};
pub(crate) use watch::HolderWatch;

use crate::env;
use crate::error::{Error, Kind};
use crate::model::event::Event;
use crate::model::host::{HostIdentity, INITIAL_PID_NS};
use crate::model::identity::ProcessIdentity;
use crate::model::name::{LockName, is_hashed};
use crate::model::record::{MEMBER_SCHEMA, Record};
use crate::os::dir::Dir;
use crate::os::guard::{Guard, Taking};
use crate::os::pulse;
use crate::os::record_file::RecordNames;
use crate::os::state_dir::{self, StateDir};
use crate::os::{clock, host, log_file, proc, record_file};
use std::cell::OnceCell;
use std::path::PathBuf;
use std::time::Duration;

/// How long others may stay in the middle of a change.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where to find the state directory, as typed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Where {
    /// `--dir`.
    pub(crate) dir: Option<PathBuf>,
    /// `--user`: read another user's locks.
    pub(crate) user: Option<String>,
}

impl Where {
    /// Resolves it with the environment and the system.
    pub(crate) fn place(&self) -> Result<crate::model::place::StatePlace, Error> {
        state_dir::place(
            self.dir.clone(),
            env::value(env::name::DIR).map(PathBuf::from),
            self.user.as_deref(),
        )
    }
}

/// One folder of records: `locks`, or `claims/<tracker>`.
#[derive(Debug)]
pub(crate) struct Records {
    pub(crate) state: StateDir,
    folder: Dir,
    log: Option<Dir>,
    /// `kind` of its records.
    kind: &'static str,
    fixed: OnceCell<Fixed>,
}

/// What does not change while we run.
#[derive(Debug)]
struct Fixed {
    host: HostIdentity,
    /// Why something of `host` is missing that is there.
    unread: Option<std::io::Error>,
    proc_is_ours: bool,
    /// An error where `/proc` does not let us see ourselves.
    me: std::io::Result<ProcessIdentity>,
}

impl Records {
    /// Opens the folder `path` (`["locks"]`, `["claims", tracker]`) of the state directory.
    /// `None`: it does not exist, so nothing was ever held there (only without `create`).
    pub(crate) fn open(
        wanted: &Where,
        path: &[&str],
        kind: &'static str,
        create: bool,
    ) -> Result<Option<Self>, Error> {
        let place = wanted.place()?;
        let Some(state) = StateDir::open(place, create).map_err(|error| for_a_look(error, create))? else {
            return Ok(None);
        };
        let mut folder: Option<Dir> = None;
        for step in path {
            let parent = folder.as_ref().unwrap_or(&state.dir);
            folder = match parent.sub(step, create) {
                Ok(dir) => Some(dir),
                Err(error) if !create && error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                Err(error) => {
                    let error = Error::io(&format!("directory {}/{step}", parent.path().display()), &error);
                    return Err(for_a_look(error, create));
                }
            };
        }
        let folder = folder.ok_or_else(|| Error::new(Kind::Bug, "records without a folder"))?;
        // A log that cannot be had never changes an outcome.
        // A ticket's key is not a lock's name, so claims have logs of their own.
        let above = if kind == crate::model::record::LOCK { &state.dir } else { &folder };
        let log = above.sub("log", create).ok();
        Ok(Some(Self { state, folder, log, kind, fixed: OnceCell::new() }))
    }

    /// The folders of claims in a state directory, one a tracker, sorted; empty without one.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub(crate) fn trackers(wish: &Where) -> Result<Vec<String>, Error> {
        let Some(state) = StateDir::open(wish.place()?, false).map_err(|error| for_a_look(error, false))?
        else {
            return Ok(Vec::new());
        };
        let names = state.dir.sub("claims", false).and_then(|claims| claims.names()).unwrap_or_default();
        let mut names: Vec<String> = names.into_iter().filter_map(|name| name.into_string().ok()).collect();
        names.sort();
        Ok(names)
    }

    /// The folder of the records, for messages.
    pub(crate) fn path(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// The open folder, for whoever waits on it.
    pub(crate) fn folder(&self) -> &Dir {
        &self.folder
    }

    /// Are we in a pid namespace other than the initial one?
    pub(crate) fn in_container(&self) -> bool {
        self.fixed().host.pid_ns.is_some_and(|inode| inode != INITIAL_PID_NS)
    }

    /// Can the end of a process that nobody marks be seen by whoever else uses this directory? Not across pid
    /// namespaces: a run must stay and write down its own end there.
    pub(crate) fn ends_are_seen(&self) -> bool {
        let across = if self.in_container() { true } else { self.state.has_containers() };
        !across || self.state.is_private()
    }

    /// This process, as an owner.
    ///
    /// # Errors
    /// UNAVAILABLE where `/proc` cannot show us to ourselves, OSERR where no descriptor is left to look.
    pub(crate) fn me(&self) -> Result<ProcessIdentity, Error> {
        match &self.fixed().me {
            Ok(me) => Ok(me.clone()),
            // What we need for ourselves and cannot have has a name of its own.
            Err(error) if host::may_pass(error) => Err(Error::io("/proc/self/stat", error)),
            Err(_) => Err(unverifiable()),
        }
    }

    fn fixed(&self) -> &Fixed {
        self.fixed.get_or_init(|| {
            // On a file system of this machine nobody is judged by its id, which costs a file.
            let (host, unread) = host::observe(!self.state.local || self.state.network);
            Fixed { host, unread, proc_is_ours: proc::is_ours(), me: host::myself() }
        })
    }

    /// Every name with a record or a pause, sorted.
    pub(crate) fn names(&self) -> Result<Vec<LockName>, Error> {
        Ok(self.names_and_odd()?.names)
    }

    /// As [`Records::names`], and the files that are no lock's.
    pub(crate) fn names_and_odd(&self) -> Result<RecordNames, Error> {
        let mut all = record_file::names(&self.folder)
            .map_err(|error| Error::io(&format!("directory {}", self.folder.path().display()), &error))?;
        all.names.extend(self.paused_names()?);
        all.names.sort();
        all.names.dedup();
        all.odd.sort();
        Ok(all)
    }

    /// Every name without a record whose pulse file says that a run of it lives: one look at each such file.
    pub(crate) fn names_of_removed(&self) -> Result<Vec<LockName>, Error> {
        let names = record_file::names_without(&self.folder)
            .map_err(|error| Error::io(&format!("directory {}", self.folder.path().display()), &error))?;
        Ok(names
            .into_iter()
            .filter(|name| pulse::another(&self.folder, name.file(), &[]).is_some())
            .collect())
    }

    /// Writes to the log of a name; a log that cannot be written changes nothing.
    pub(crate) fn log(&self, name: &LockName, events: &[Event]) {
        self.log_as(name.file(), events);
    }

    /// As [`Records::log`], also under a name that no lock can have.
    pub(crate) fn log_as(&self, name: &str, events: &[Event]) {
        if let Some(log) = &self.log {
            drop(log_file::append(log, name, events));
        }
    }

    /// Counts a refusal or skip in the log.
    pub(crate) fn log_turned_away(
        &self,
        name: &LockName,
        event: &Event,
    ) -> Option<crate::model::event::Turned> {
        log_file::add_turned_away(self.log.as_ref()?, name.file(), event).ok()
    }

    /// The log of a name, or of a tool itself, oldest first; `stem` as its files are called.
    pub(crate) fn read_log(&self, stem: &str) -> Vec<Event> {
        self.log.as_ref().and_then(|log| log_file::read(log, stem).ok()).unwrap_or_default()
    }

    /// The lock whose log is called so; `None`: a tool's own.
    pub(crate) fn log_owner(&self, stem: &str) -> Option<LockName> {
        let of = |event: &Event| LockName::of(&event.name).filter(|name| name.file() == stem);
        LockName::from_stem(stem.as_bytes())
            .or_else(|| is_hashed(stem.as_bytes()).then(|| self.read_log(stem).iter().find_map(of)).flatten())
    }

    /// What the log of every name is called, sorted.
    pub(crate) fn logged_names(&self) -> Vec<String> {
        let names = self.log.as_ref().and_then(|log| log.names().ok()).unwrap_or_default();
        let mut names: Vec<String> = names
            .into_iter()
            .filter_map(|name| Some(name.to_str()?.strip_suffix(".jsonl")?.to_owned()))
            .collect();
        names.sort();
        names
    }

    /// Takes the guard of a name.
    fn guard(&self, name: &LockName) -> Result<Guard<'_>, Error> {
        let shown = || format!("{}/{}.guard", self.folder.path().display(), name.file());
        match Guard::take(&self.folder, name.file(), PATIENCE) {
            Ok(Taking::Won(guard)) => Ok(guard),
            Ok(Taking::NotAFile(what)) => {
                Err(Error::new(Kind::CannotCreate, format!("{} is {what}", shown()))
                    .hint("move it away; it must be a regular file of ours"))
            }
            Ok(Taking::Stuck(pids)) => Err(stuck(name, &pids)),
            Err(error) => Err(Error::io(&shown(), &error)),
        }
    }

    fn record_error(&self, name: &LockName, error: &std::io::Error) -> Error {
        Error::io(&format!("{}/{}.json", self.folder.path().display(), name.file()), error)
    }
}

/// The event of a record's token and first owner, with the number that one has in its own pid namespace.
pub(crate) fn event_of(event: &str, name: &LockName, record: &Record) -> Event {
    let owner = record.owners.first();
    Event {
        token: Some(record.token),
        pid: owner.map(|owner| owner.pid),
        pid_ns: record.host.pid_ns.filter(|inode| *inode != INITIAL_PID_NS),
        comm: owner.map(|owner| owner.comm.clone()),
        ..Event::new(event, clock::wall().rfc3339(), name.as_str())
    }
}

/// Who only looks creates nothing: a directory that cannot be entered is then no answer.
fn for_a_look(error: Error, create: bool) -> Error {
    if create || error.kind() != Kind::CannotCreate {
        return error;
    }
    Error::new(Kind::CannotTell, error.message())
}

/// An owner written down here could never be judged by anybody.
fn unverifiable() -> Error {
    Error::new(
        Kind::CannotTell,
        "/proc is missing or describes another pid namespace, so an owner could not be verified",
    )
    .hint("mount a /proc of this namespace (unshare --mount-proc)")
}

fn stuck(name: &LockName, pids: &[u32]) -> Error {
    let who = match pids {
        [pid, ..] => {
            let state = proc::stat(*pid).map_or('?', |stat| stat.state);
            format!("pid {pid} (state {state}) is in the middle of a change")
        }
        [] => "somebody is in the middle of a change".to_owned(),
    };
    Error::new(Kind::GuardStuck, format!("{name}: {who}, for more than {}s", PATIENCE.as_secs()))
        .hint("if it is stopped, let it go on: kill -CONT PID")
}

/// A record that a newer version wrote.
pub(crate) fn newer(name: &LockName, store: &Records, schema: u64) -> Error {
    Error::new(
        Kind::NewerRecord,
        format!(
            "{name}: {}/{}.json has schema {schema}, and this version knows {MEMBER_SCHEMA}",
            store.path().display(),
            name.file()
        ),
    )
    .hint("use the newer version; nothing was touched")
}
