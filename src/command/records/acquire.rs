//! Taking a lock: judge, token, pulse, record and read-back inside one guard.

use super::{Judged, Records, event_of};
use crate::error::{Error, Kind};
use crate::model::event::Event;
use crate::model::host::HostIdentity;
use crate::model::identity::ProcessIdentity;
use crate::model::name::LockName;
use crate::model::record::{self, PulseFile, Record, SCHEMA, VIA_ACQUIRE};
use crate::model::time::WallTime;
use crate::model::token::{GuardToken, next};
use crate::os::guard::Guard;
use crate::os::pulse::{self, Left, Pulse};
use crate::os::{clock, record_file};
use crate::verdict::liveness::State;
use serde_json::{Map, Value};
use std::fs::File;
use std::os::fd::BorrowedFd;

/// The attribute of a record that was taken for another process than a caller.
pub(crate) const ON_BEHALF: &str = "on_behalf";
/// How often to start over when the guard or the record was taken away in the middle.
const ATTEMPTS: usize = 5;

/// What is to be recorded.
#[derive(Debug)]
pub(crate) struct AcquireRequest<'fd> {
    pub(crate) owners: Vec<ProcessIdentity>,
    pub(crate) note: Option<String>,
    pub(crate) attrs: Map<String, Value>,
    pub(crate) pulse: PulsePolicy<'fd>,
}

/// Who carries the pulse.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PulsePolicy<'fd> {
    Nobody,
    /// This process and what it becomes or starts.
    Us,
    /// Whoever has this description of the pulse file open.
    Descriptor(BorrowedFd<'fd>),
}

/// What may stand in the place of a new record, and what that takes over from it.
pub(crate) struct AcquireTerms<'a> {
    /// A record whose owner is proved dead may be taken over. False where somebody
    /// must first look at what that owner left behind.
    pub(crate) over_dead: bool,
    /// Attrs of the new record made from the one in its place; they do not replace asked ones.
    pub(crate) inherit: &'a dyn Fn(&Record) -> Map<String, Value>,
}

/// A lock that was taken.
#[derive(Debug)]
pub(crate) struct AcquiredLock {
    pub(crate) record: Record,
    /// `None`: not asked for, or the file system has no such locks.
    pub(crate) pulse: Option<Pulse>,
    /// The dead owner's record that was in its place.
    pub(crate) reclaimed: Option<Record>,
    /// What a person should know.
    pub(crate) said: Vec<String>,
}

/// What an attempt to acquire came to.
#[derive(Debug)]
pub(crate) enum AcquireOutcome {
    AcquiredLock(Box<AcquiredLock>),
    /// LIVE, or UNKNOWN: not taken, and why.
    NotTaken(Judged),
}

/// One pass through the guard.
enum Pass {
    Done(Box<AcquireOutcome>),
    /// Something changed under us: look again.
    Again,
}

/// What earlier passes left behind.
#[derive(Default)]
struct Progress {
    /// The last record we tried to place.
    placed: Option<Record>,
    pulse: Option<Pulse>,
    /// The token that a description of the caller's was locked for.
    lent: Option<u64>,
    reclaimed: Option<Record>,
    said: Vec<String>,
}

impl Records {
    /// Takes the lock if it is free or its owner is proved dead.
    ///
    /// # Errors
    /// DATAERR for a newer record, UNAVAILABLE for a stuck guard, and what the system answers. After an
    /// error nothing is held and a live record is untouched.
    pub(crate) fn acquire(
        &self,
        name: &LockName,
        request: &AcquireRequest<'_>,
    ) -> Result<AcquireOutcome, Error> {
        self.acquire_on(name, request, &AcquireTerms { over_dead: true, inherit: &|_| Map::new() })
    }

    /// As [`Records::acquire`], on terms.
    ///
    /// # Errors
    /// As [`Records::acquire`].
    pub(crate) fn acquire_on(
        &self,
        name: &LockName,
        request: &AcquireRequest<'_>,
        terms: &AcquireTerms<'_>,
    ) -> Result<AcquireOutcome, Error> {
        if !self.fixed().proc_is_ours {
            return Err(super::unverifiable());
        }
        let mut progress = Progress::default();
        let outcome = self.passes(name, request, terms, &mut progress);
        if outcome.is_err() {
            self.take_back(name, &progress);
            give_back(&request.pulse, &mut progress);
        }
        outcome
    }

    fn passes(
        &self,
        name: &LockName,
        request: &AcquireRequest<'_>,
        terms: &AcquireTerms<'_>,
        progress: &mut Progress,
    ) -> Result<AcquireOutcome, Error> {
        for _ in 0..ATTEMPTS {
            match self.pass(name, request, terms, progress)? {
                Pass::Done(outcome) => return Ok(*outcome),
                Pass::Again => {}
            }
        }
        Err(Error::new(
            Kind::System,
            format!("{name}: its files in {} keep changing under us", self.path().display()),
        )
        .hint("is something cleaning that directory?"))
    }

    /// After an error a record of ours must not stand there: its owner may live long, and was told "no".
    fn take_back(&self, name: &LockName, progress: &Progress) {
        let Some(placed) = &progress.placed else { return };
        // Without the guard too: the flock on the record itself keeps changes apart.
        let _guard = self.guard(name).ok();
        drop(record_file::remove_same(self.folder(), name.as_str(), self.kind, &record::bytes(placed)));
    }

    fn pass(
        &self,
        name: &LockName,
        request: &AcquireRequest<'_>,
        terms: &AcquireTerms<'_>,
        progress: &mut Progress,
    ) -> Result<Pass, Error> {
        let guard = self.guard(name)?;
        let guard_token = guard.token().map_err(|error| self.guard_error(name, &error))?;
        let (found, file) = record_file::read_guarded(self.folder(), name.as_str(), self.kind);
        if let (Some(placed), Some(stored)) = (&progress.placed, found.stored())
            && record::bytes(placed) == stored.bytes
        {
            return self.adopt(name, &guard, guard_token, placed.clone(), progress);
        }
        // What an earlier pass locked stands for nobody, not even in our own eyes.
        progress.pulse = None;
        give_back(&request.pulse, progress);
        let judged = self.judge(name, found, Some(guard_token));
        match judged.state() {
            State::Live(_) | State::Unknown(_) => {
                return Ok(Pass::Done(Box::new(AcquireOutcome::NotTaken(judged))));
            }
            State::Dead if !terms.over_dead => {
                return Ok(Pass::Done(Box::new(AcquireOutcome::NotTaken(judged))));
            }
            State::Newer(schema) => return Err(newer(name, self, *schema)),
            State::Corrupt(why) => match self.set_aside(name, why, file.as_ref())? {
                Some(line) => progress.said.push(line),
                None => return Ok(Pass::Again),
            },
            State::Free | State::Dead => {}
        }
        if judged.state() == &State::Dead {
            progress.reclaimed = judged.record().cloned();
        }
        if guard_token == GuardToken::Garbage {
            progress
                .said
                .push(format!("{name}: its guard held no token of ours, so tokens may have fallen; the clock and the record decide"));
        }
        if guard_token == GuardToken::Empty && self.in_container() && !self.state.is_private() {
            progress.said.push(format!(
                "{name}: in this pid namespace a crash will need 'orion-lock break', or once 'orion-lock where --mark-private'"
            ));
        }
        if self.in_container() {
            self.state.note_container();
        }
        let last = judged.record().map(|record| record.token);
        let token = next(guard_token, last, clock::wall());
        guard.write_token(token).map_err(|error| self.guard_error(name, &error))?;
        let pulse = self.take_pulse(name, token, &request.pulse, progress)?;
        let mut record = self.fresh(name, token, pulse, request)?;
        for (key, value) in judged.record().map(terms.inherit).unwrap_or_default() {
            record.attrs.entry(key).or_insert(value);
        }
        let bytes = record::bytes(&record);
        if bytes.len() > record::MAX_BYTES {
            return Err(Error::usage(format!(
                "{name}: what is to be recorded takes {} bytes, and no reader accepts more than {}",
                bytes.len(),
                record::MAX_BYTES
            )));
        }
        // A corrupt one was set aside already; its file is not in the way any more.
        let old = file.filter(|_| judged.record().is_some());
        self.place(name, &guard, old.as_ref(), record, &bytes, progress)
    }

    /// Puts the record in place, reads it back, and makes sure that the guard still is the guard.
    fn place(
        &self,
        name: &LockName,
        guard: &Guard<'_>,
        old: Option<&File>,
        record: Record,
        bytes: &[u8],
        progress: &mut Progress,
    ) -> Result<Pass, Error> {
        let failed = |error: std::io::Error| self.record_error(name, &error);
        // From here on our bytes may stand there, put by us or by somebody with another guard of this
        // name who took our temp file for his.
        progress.placed = Some(record.clone());
        if !record_file::place(self.folder(), name.as_str(), old, bytes).map_err(failed)? {
            return Ok(Pass::Again);
        }
        let (found, _) = record_file::read_guarded(self.folder(), name.as_str(), self.kind);
        let same = found.stored().is_some_and(|stored| stored.bytes == bytes);
        if same && guard.is_current().map_err(|error| self.guard_error(name, &error))? {
            return Ok(self.acquired(name, record, progress));
        }
        Ok(Pass::Again)
    }

    /// Our record stands, but the guard it was written under is gone: its successor gets the token.
    fn adopt(
        &self,
        name: &LockName,
        guard: &Guard<'_>,
        last: GuardToken,
        record: Record,
        progress: &mut Progress,
    ) -> Result<Pass, Error> {
        let failed = |error: std::io::Error| self.guard_error(name, &error);
        if last.number().unwrap_or(0) < record.token {
            guard.write_token(record.token).map_err(failed)?;
            if guard.token().map_err(failed)? != GuardToken::Last(record.token) {
                return Ok(Pass::Again);
            }
        }
        if guard.is_current().map_err(failed)? {
            Ok(self.acquired(name, record, progress))
        } else {
            Ok(Pass::Again)
        }
    }

    fn acquired(&self, name: &LockName, record: Record, progress: &mut Progress) -> Pass {
        let mut events = Vec::new();
        if let Some(ended) = &progress.reclaimed {
            events.push(end_of(name, ended));
        }
        let on_behalf = record.attrs.contains_key(ON_BEHALF).then(|| "on behalf".to_owned());
        events
            .push(Event { detail: record.note.clone().or(on_behalf), ..event_of("acquired", name, &record) });
        self.log(name, &events);
        Pass::Done(Box::new(AcquireOutcome::AcquiredLock(Box::new(AcquiredLock {
            record,
            pulse: progress.pulse.take(),
            reclaimed: progress.reclaimed.take(),
            said: std::mem::take(&mut progress.said),
        }))))
    }

    /// Leaves the pulse; gives the file that it is on.
    fn take_pulse(
        &self,
        name: &LockName,
        token: u64,
        wish: &PulsePolicy<'_>,
        progress: &mut Progress,
    ) -> Result<Option<PulseFile>, Error> {
        let failed = |error: std::io::Error| {
            Error::new(
                Kind::System,
                format!("{}/{name}.pulse: {}", self.path().display(), crate::error::reason(&error)),
            )
            .hint("nothing was run; --owner-only does without it")
        };
        let taken = match wish {
            PulsePolicy::Nobody => return Ok(None),
            PulsePolicy::Descriptor(fd) if pulse::lock_through(fd, token).map_err(failed)? => {
                progress.lent = Some(token);
                Some(pulse::file_behind(fd).map_err(failed)?)
            }
            PulsePolicy::Descriptor(_) => None,
            PulsePolicy::Us => {
                let open = pulse::open(self.folder(), name.as_str()).map_err(failed)?;
                match pulse::lock(open, token).map_err(failed)? {
                    Left::Pulse(pulse) => Some(progress.pulse.insert(pulse).file),
                    Left::Unsupported => None,
                }
            }
        };
        if taken.is_none() {
            progress
                .said
                .push(format!("{name}: this file system has no open-file-description locks, so no pulse"));
        }
        Ok(taken)
    }

    /// # Errors
    /// A fact about this host that there is and that could not be read now: a record without it
    /// could be judged by nobody later.
    fn fresh(
        &self,
        name: &LockName,
        token: u64,
        pulse: Option<PulseFile>,
        request: &AcquireRequest<'_>,
    ) -> Result<Record, Error> {
        if let Some(error) = &self.fixed().unread {
            return Err(Error::io(&format!("{name}: the identity of this host"), error));
        }
        let host = HostIdentity {
            boottime_us: clock::boottime_us(),
            state_id: self.state.state_id().ok(),
            ..self.fixed().host.clone()
        };
        Ok(Record {
            schema: SCHEMA,
            kind: self.kind.to_owned(),
            name: name.as_str().to_owned(),
            token,
            owners: request.owners.clone(),
            host,
            acquired_at: clock::wall().rfc3339(),
            pulse,
            last_tick: None,
            note: request.note.clone(),
            released_at: None,
            attrs: request.attrs.clone(),
        })
    }

    fn guard_error(&self, name: &LockName, error: &std::io::Error) -> Error {
        // Whatever the reason: a guard that cannot be written means that nothing was changed.
        Error::new(
            Kind::CannotCreate,
            format!("{}/{name}.guard: {}", self.path().display(), crate::error::reason(error)),
        )
    }
}

/// Unlocks what was locked through a description of the caller's: its holder would look like a run.
fn give_back(wish: &PulsePolicy<'_>, progress: &mut Progress) {
    if let (PulsePolicy::Descriptor(fd), Some(token)) = (wish, progress.lent.take()) {
        pulse::unlock_through(fd, token);
    }
}

/// How an owner's end is called: normal for a `run`, and a missed release for an `acquire`.
fn end_of(name: &LockName, ended: &Record) -> Event {
    let word = if ended.via() == Some(VIA_ACQUIRE) { "reclaimed" } else { "ended" };
    let until = |end: WallTime| ended.since()?.age(end).map(|held| held.as_secs());
    let ticked = ended.last_tick.as_ref().and_then(|tick| WallTime::parse(&tick.utc));
    Event {
        held_at_least_s: Some(ticked.and_then(until).unwrap_or(0)),
        held_at_most_s: until(clock::wall()),
        ..event_of(word, name, ended)
    }
}

/// A record that a newer version wrote.
pub(crate) fn newer(name: &LockName, store: &Records, schema: u64) -> Error {
    Error::new(
        Kind::NewerRecord,
        format!(
            "{name}: {}/{name}.json has schema {schema}, and this version knows {SCHEMA}",
            store.path().display()
        ),
    )
    .hint("use the newer version; nothing was touched")
}
