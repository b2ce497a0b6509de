//! What a hold comes to: ticks, the end of a run, freeing by hand, and the processes
//! that would have to end for a lock to be free.

use super::{Judged, RecordChange, Records, Released, event_of};
use crate::error::{Error, Kind, reason};
use crate::model::event::Event;
use crate::model::identity::ProcessIdentity;
use crate::model::name::LockName;
use crate::model::record::{BROKEN_BY, LastTick, Record, Stored};
use crate::os::process::{self, PidFd, Pin};
use crate::os::{clock, host, tree};
use crate::verdict::liveness::{Scope, scope};
use crate::verdict::ownership::Credential;
use serde_json::json;
use std::time::Duration;

/// How a supervised run ended.
#[derive(Clone, Debug)]
pub(crate) struct RunEnd {
    /// As a shell reports it.
    pub(crate) status: u8,
    /// From the acquire to the end of the last process.
    pub(crate) held: Duration,
    pub(crate) detail: Option<String>,
}

/// The processes that hold a lock, opened, so that what they are signalled with goes to no stranger.
#[derive(Debug)]
pub(crate) struct HolderProcesses {
    /// Owners, carriers of the pulse, and under a supervisor everything below it.
    pub(crate) processes: Vec<PidFd>,
    /// It waits for the others and ends by itself.
    pub(crate) supervisor: Option<PidFd>,
}

impl Records {
    /// Writes a tick: work passed here. `every` renews the promise of the next one, zero withdraws it,
    /// and without it the old promise stands. `false`: it was released before.
    ///
    /// # Errors
    /// As [`Records::change`].
    pub(crate) fn tick(
        &self,
        name: &LockName,
        right: &Credential,
        every: Option<Duration>,
    ) -> Result<bool, Error> {
        let ticked = self.change(name, right, |stored| {
            let before = stored.record.last_tick.as_ref().and_then(|tick| tick.every_s);
            let awake = host::awake_time();
            let tick = LastTick {
                utc: clock::wall().rfc3339(),
                boottime_us: clock::boottime_us(),
                monotonic_us: awake.monotonic_us,
                time_ns: awake.time_ns,
                every_s: match every {
                    None => before,
                    Some(Duration::ZERO) => None,
                    // Rounded up: a promise is never made stricter than it was given.
                    Some(every) => Some(every.as_secs() + u64::from(every.subsec_nanos() > 0)),
                },
            };
            RecordChange::Write(stored.patched(&[("last_tick", json!(tick))]))
        })?;
        Ok(ticked.is_some())
    }

    /// Names the command's process as an owner too, before the supervisor. `false`: it was released or
    /// broken before.
    ///
    /// # Errors
    /// As [`Records::change`].
    pub(crate) fn add_owner(
        &self,
        name: &LockName,
        token: u64,
        owners: &[ProcessIdentity],
    ) -> Result<bool, Error> {
        let owners = json!(owners);
        let change = |stored: &Stored| RecordChange::Write(stored.patched(&[("owners", owners.clone())]));
        Ok(self.change(name, &Credential::Token(token), change)?.is_some())
    }

    /// Frees a lock at the end of a supervised run, and logs how that ended.
    ///
    /// # Errors
    /// As [`Records::release`]; the end is logged all the same.
    pub(crate) fn end(&self, name: &LockName, record: &Record, end: &RunEnd) -> Result<Released, Error> {
        let freed = self.free(name, &Credential::Token(record.token), Some(end.status), &[]);
        let event = Event {
            status: Some(end.status),
            held_s: Some(end.held.as_secs()),
            detail: end.detail.clone(),
            ..event_of("ended", name, record)
        };
        self.log(name, &[event]);
        Ok(freed?.0)
    }

    /// Frees a lock by hand, whatever its owner does, and logs who did it.
    ///
    /// # Errors
    /// As [`Records::release`].
    pub(crate) fn break_open(&self, name: &LockName, token: u64) -> Result<Released, Error> {
        let me = self.me()?;
        let by = json!({"pid": me.pid, "uid": me.uid});
        let (released, stored) = self.free(name, &Credential::Token(token), None, &[(BROKEN_BY, by)])?;
        if let Some(stored) = stored {
            let detail = Some(format!("by uid {} (pid {})", me.uid, me.pid));
            self.log(name, &[Event { detail, ..event_of("broken", name, &stored.record) }]);
        }
        Ok(released)
    }

    /// Does `act` while the record is surely that of this token and unreleased: under the guard.
    /// `false`: it was released before, and nothing was done.
    ///
    /// # Errors
    /// As [`Records::change`].
    pub(crate) fn while_held(&self, name: &LockName, token: u64, act: impl Fn()) -> Result<bool, Error> {
        let kept = self.change(name, &Credential::Token(token), |_| {
            act();
            RecordChange::Keep
        })?;
        // A removed record frees nobody, so it keeps nobody from being asked to end either.
        Ok(kept.is_some() || self.without_record(name, token, |_| act())?)
    }

    /// Opens everybody who holds a lock: the owners of its record, and who carries its pulse. Ourselves we never name.
    ///
    /// # Errors
    /// UNAVAILABLE when an owner could be neither opened nor proved to have ended.
    pub(crate) fn holders(&self, name: &LockName, judged: &Judged) -> Result<HolderProcesses, Error> {
        let mut holders = HolderProcesses { processes: Vec::new(), supervisor: None };
        if let Some(record) = judged.record() {
            self.add_owners(name, record, &mut holders)?;
        }
        for pid in self.carriers(name, judged).pids {
            if let Ok(fd) = PidFd::open(pid)
                && self.carries(name, judged, pid)
            {
                holders.add(fd);
            }
        }
        Ok(holders)
    }

    fn add_owners(
        &self,
        name: &LockName,
        record: &Record,
        holders: &mut HolderProcesses,
    ) -> Result<(), Error> {
        let here = self.here(Some(record));
        let pin = match scope(record, &here) {
            Scope::ByNumber => process::pin,
            Scope::Search => process::find,
            _ => |_: &ProcessIdentity| Pin::Ended,
        };
        for owner in &record.owners {
            match pin(owner) {
                Pin::Running(fd) if record.supervisor().is_some_and(|it| it.pid == owner.pid) => {
                    let below = tree::open_below(fd.pid(), &[]).unwrap_or_default();
                    below.into_iter().for_each(|(_, fd)| holders.add(fd));
                    holders.supervisor = Some(fd);
                }
                Pin::Running(fd) => holders.add(fd),
                Pin::Ended => {}
                Pin::Unknown(errno) => {
                    return Err(Error::new(
                        Kind::CannotTell,
                        format!("{name}: one of its owners cannot be opened: {}", reason(&errno.into())),
                    ));
                }
            }
        }
        Ok(())
    }
}

impl HolderProcesses {
    fn add(&mut self, fd: PidFd) {
        let known = self.processes.iter().chain(&self.supervisor).any(|known| known.pid() == fd.pid());
        if !known && fd.pid() != std::process::id() {
            self.processes.push(fd);
        }
    }
}
