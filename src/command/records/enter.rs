//! Coming in, once that is decided, all of it inside the guard: the token, the pulse,
//! the record, and the look whether the guard still is the guard.

use super::again::end_of;
use super::members::{FIRST, NameState};
use super::request::{
    AcquireOutcome, AcquireRequest, AcquireTerms, AcquiredLock, ON_BEHALF, Pass, Progress, PulsePolicy,
};
use super::{Records, event_of};
use crate::error::{Error, Kind};
use crate::model::entry::EntryMode;
use crate::model::event::Event;
use crate::model::host::HostIdentity;
use crate::model::last_run::kept;
use crate::model::name::LockName;
use crate::model::record::{self, LOCK, MEMBER_SCHEMA, PulseFile, Record, SCHEMA, VIA_HOLD};
use crate::model::time::WallTime;
use crate::model::token::{GuardToken, next};
use crate::os::guard::Guard;
use crate::os::pulse::{self, Left};
use crate::os::{clock, host, record_file};
use crate::verdict::liveness::State;
use std::fs::File;

impl Records {
    /// Token, pulse, record: in this order.
    #[expect(clippy::too_many_arguments, reason = "one step of acquire, with all of its facts")]
    pub(super) fn enter(
        &self,
        name: &LockName,
        guard: &Guard<'_>,
        last: GuardToken,
        mut state: NameState,
        slot: Option<u32>,
        request: &AcquireRequest<'_>,
        terms: &AcquireTerms<'_>,
        progress: &mut Progress,
    ) -> Result<Pass, Error> {
        self.notes(name, last, progress);
        if self.in_container() {
            self.state.note_container();
        }
        if self.kind == LOCK {
            progress.before = self.last_run(&state).map(|(last, _)| last);
        }
        let position = state.free_position(request.mode);
        if request.mode == EntryMode::Exclusive && !self.clear_members(name, &state, progress)? {
            return Ok(Pass::Again);
        }
        let least = terms.token.map_or_else(clock::wall, |token| WallTime(token.saturating_sub(1)));
        let token = next(last, state.last_token(), least);
        let beside_others = position == FIRST && state.there().next().is_some();
        let place = state.members.iter().position(|member| member.position == position);
        let old = place.map(|place| state.members.swap_remove(place));
        if let Some(old) = old.as_ref().filter(|old| old.judged.state() == &State::Dead) {
            progress.reclaimed = old.judged.record().cloned();
        }
        guard.write_token(token).map_err(|error| self.guard_error(name, &error))?;
        let pulse = self.take_pulse(name, token, &request.pulse, progress)?;
        let mut record = self.fresh(name, (token, slot), pulse, request)?;
        // Whoever holds it by hand runs nothing: the last run stays what it was.
        if record.via() == Some(VIA_HOLD) {
            record.attrs.extend(progress.before.as_ref().map(kept));
        }
        for (key, value) in
            old.as_ref().and_then(|old| old.judged.record()).map(terms.inherit).unwrap_or_default()
        {
            record.attrs.entry(key).or_insert(value);
        }
        let old = old.and_then(|old| old.file);
        self.place(name, guard, position, (old.as_ref(), beside_others), record, progress)
    }

    /// What a person should know who takes a token from this guard.
    fn notes(&self, name: &LockName, last: GuardToken, progress: &mut Progress) {
        if last == GuardToken::Garbage {
            progress
                .said
                .push(format!("{name}: its guard held no token of ours, so tokens may have fallen; the clock and the record decide"));
        }
        if last == GuardToken::Empty && self.in_container() && !self.state.is_private() {
            progress.said.push(format!(
                "{name}: in this pid namespace a crash will need 'orion-lock break', or once 'orion-lock where --mark-private'"
            ));
        }
    }

    /// Removes the records of members that are gone, for somebody who holds the name alone; `false`: look again.
    fn clear_members(
        &self,
        name: &LockName,
        state: &NameState,
        progress: &mut Progress,
    ) -> Result<bool, Error> {
        let others: Vec<_> = state.members.iter().filter(|member| member.position != FIRST).collect();
        if others.is_empty() {
            return Ok(true);
        }
        for member in others {
            let Some(file) = &member.file else { return Ok(false) };
            let removed = self
                .at(name, member.position, false, |dir, stem| record_file::remove(dir, stem, file))
                .map_err(|error| self.record_error(name, &error))?;
            if !removed {
                return Ok(false);
            }
            if member.judged.state() == &State::Dead {
                progress.ended.extend(member.judged.record().cloned());
            }
        }
        record_file::remove_members(self.folder(), name.file());
        Ok(true)
    }

    /// Puts the record in place, reads it back, and makes sure that the guard still is the guard. Beside
    /// other members the first record is never missing: who finds none might take the name for free.
    fn place(
        &self,
        name: &LockName,
        guard: &Guard<'_>,
        position: u32,
        (old, beside_others): (Option<&File>, bool),
        record: Record,
        progress: &mut Progress,
    ) -> Result<Pass, Error> {
        let failed = |error: std::io::Error| self.record_error(name, &error);
        let bytes = record::bytes(&record);
        if bytes.len() > record::MAX_BYTES {
            return Err(Error::usage(format!(
                "{name}: what is to be recorded takes {} bytes, and no reader accepts more than {}",
                bytes.len(),
                record::MAX_BYTES
            )));
        }
        // From here on our bytes may stand there, put by us or by somebody with another guard of this
        // name who took our temp file for his.
        progress.placed = Some((position, record));
        let placed = self.at(name, position, true, |dir, stem| match old {
            Some(old) if beside_others => record_file::replace(dir, stem, old, &bytes),
            _ => record_file::place(dir, stem, old, &bytes),
        });
        if !placed.map_err(failed)? {
            return Ok(Pass::Again);
        }
        let read_back = self.at(name, position, false, |dir, stem| {
            Ok(record_file::read_guarded(dir, stem, self.kind, name.as_str()).0)
        });
        let same = read_back.map_err(failed)?.stored().is_some_and(|stored| stored.bytes == bytes);
        if same && guard.is_current().map_err(|error| self.guard_error(name, &error))? {
            return Ok(self.acquired(name, progress));
        }
        Ok(Pass::Again)
    }

    /// Our record stands, but the guard it was written under is gone: its successor gets the token.
    pub(super) fn adopt(
        &self,
        name: &LockName,
        guard: &Guard<'_>,
        last: GuardToken,
        file: Option<&File>,
        progress: &mut Progress,
    ) -> Result<Pass, Error> {
        let failed = |error: std::io::Error| self.guard_error(name, &error);
        let (position, token) = progress.placed.as_ref().map_or((0, 0), |(at, record)| (*at, record.token));
        if last.number().unwrap_or(0) < token {
            guard.write_token(token).map_err(failed)?;
            if guard.token().map_err(failed)? != GuardToken::Last(token) {
                return Ok(Pass::Again);
            }
        }
        // Somebody with another guard of this name may have seen it while it was empty, and be about to set
        // it aside.
        let Some(file) = file else { return Ok(Pass::Again) };
        let stands = self
            .at(name, position, false, |dir, stem| record_file::stands(dir, stem, file))
            .map_err(|error| self.record_error(name, &error))?;
        if stands && guard.is_current().map_err(failed)? {
            return Ok(self.acquired(name, progress));
        }
        Ok(Pass::Again)
    }

    /// Takes a record of ours away again, before another one is made.
    pub(super) fn take_back_ours(&self, name: &LockName, progress: &mut Progress) -> Result<(), Error> {
        let Some((position, placed)) = progress.placed.take() else { return Ok(()) };
        let bytes = record::bytes(&placed);
        self.at(name, position, false, |dir, stem| {
            record_file::remove_same(dir, stem, self.kind, name.as_str(), &bytes)
        })
        .map(drop)
        .map_err(|error| self.record_error(name, &error))
    }

    /// Leaves the pulse; gives the file that it is on.
    fn take_pulse(
        &self,
        name: &LockName,
        token: u64,
        policy: &PulsePolicy<'_>,
        progress: &mut Progress,
    ) -> Result<Option<PulseFile>, Error> {
        let failed = |error: std::io::Error| {
            Error::new(
                Kind::System,
                format!("{}/{}.pulse: {}", self.path().display(), name.file(), crate::error::reason(&error)),
            )
            .hint("nothing was run; --owner-only does without it")
        };
        let taken = match policy {
            PulsePolicy::Nobody => return Ok(None),
            PulsePolicy::Descriptor(fd) if pulse::lock_through(fd, token).map_err(failed)? => {
                progress.lent = Some(token);
                Some(pulse::file_behind(fd).map_err(failed)?)
            }
            PulsePolicy::Descriptor(_) => None,
            PulsePolicy::Us => {
                let open = pulse::open(self.folder(), name.file()).map_err(failed)?;
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
        (token, slot): (u64, Option<u32>),
        pulse: Option<PulseFile>,
        request: &AcquireRequest<'_>,
    ) -> Result<Record, Error> {
        let (machine_id, hostname, unread) = host::machine();
        if let Some(error) = self.fixed().unread.as_ref().or(unread.as_ref()) {
            return Err(Error::io(&format!("{name}: the identity of this host"), error));
        }
        let host = HostIdentity {
            boottime_us: clock::boottime_us(),
            state_id: self.state.state_id().ok(),
            machine_id,
            hostname,
            ..self.fixed().host.clone()
        };
        let mut attrs = request.attrs.clone();
        attrs.extend(request.mode.attrs(slot));
        attrs.extend(request.repeat.attrs());
        Ok(Record {
            schema: if request.mode == EntryMode::Exclusive { SCHEMA } else { MEMBER_SCHEMA },
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
            attrs,
        })
    }

    pub(super) fn acquired(&self, name: &LockName, progress: &mut Progress) -> Pass {
        let Some((_, record)) = progress.placed.take() else { return Pass::Again };
        let ended = progress.ended.iter().chain(&progress.reclaimed);
        // Who found it dead before us has said so.
        let ended = ended.filter(|ended| ended.ended().is_none());
        let mut events: Vec<Event> = ended.map(|ended| end_of(name, ended)).collect();
        let on_behalf = record.attrs.contains_key(ON_BEHALF).then(|| "on behalf".to_owned());
        events
            .push(Event { detail: record.note.clone().or(on_behalf), ..event_of("acquired", name, &record) });
        self.log(name, &events);
        Pass::Done(Box::new(AcquireOutcome::Acquired(Box::new(AcquiredLock {
            record,
            pulse: progress.pulse.take(),
            reclaimed: progress.reclaimed.take(),
            before: progress.before.take(),
            said: std::mem::take(&mut progress.said),
        }))))
    }

    pub(super) fn guard_error(&self, name: &LockName, error: &std::io::Error) -> Error {
        // Whatever the reason: a guard that cannot be written means that nothing was changed.
        Error::new(
            Kind::CannotCreate,
            format!("{}/{}.guard: {}", self.path().display(), name.file(), crate::error::reason(error)),
        )
    }
}

/// Unlocks what was locked through a description of the caller's: its holder would look like a run.
pub(super) fn give_back(policy: &PulsePolicy<'_>, progress: &mut Progress) {
    if let (PulsePolicy::Descriptor(fd), Some(token)) = (policy, progress.lent.take()) {
        pulse::unlock_through(fd, token);
    }
}
