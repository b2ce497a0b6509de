//! Taking a lock: judge, token, pulse, record and read-back inside one guard.

use super::enter::give_back;
use super::members::{NameState, ReadRecord};
use super::request::{AcquireOutcome, AcquireRequest, AcquireTerms, Pass, Progress};
use super::{Records, newer};
use crate::error::{Error, Kind};
use crate::model::entry::EntryMode;
use crate::model::name::LockName;
use crate::model::record::{self, Record};
use crate::os::record_file;
use crate::verdict::admission::Admission;
use crate::verdict::liveness::State;
use crate::verdict::pause::under_pause;
use serde_json::Map;

/// How often to start over when the guard or the record was taken away in the middle.
const ATTEMPTS: usize = 5;

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
        in_turn: bool,
    ) -> Result<AcquireOutcome, Error> {
        let terms = AcquireTerms { over_dead: true, in_turn, token: None, inherit: &|_| Map::new() };
        self.acquire_on(name, request, &terms)
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
        if !matches!(outcome, Ok(AcquireOutcome::Acquired(_))) {
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

    /// Not taken: a record of ours must not stand there, for its owner may live long, and was told "no".
    fn take_back(&self, name: &LockName, progress: &Progress) {
        let Some((position, placed)) = &progress.placed else { return };
        // Without the guard too: the flock on the record itself keeps changes apart.
        let _guard = self.guard(name).ok();
        let bytes = record::bytes(placed);
        drop(self.at(name, *position, false, |dir, stem| {
            record_file::remove_same(dir, stem, self.kind, name.as_str(), &bytes)
        }));
    }

    /// Reads and judges everything under the name, decides, and acts.
    fn pass(
        &self,
        name: &LockName,
        request: &AcquireRequest<'_>,
        terms: &AcquireTerms<'_>,
        progress: &mut Progress,
    ) -> Result<Pass, Error> {
        let guard = self.guard(name)?;
        let last = guard.token().map_err(|error| self.guard_error(name, &error))?;
        let (all, _) = self.read_all(name, Some(last), progress.placed.is_some());
        let ours = progress.placed.as_ref().and_then(|placed| where_it_stands(placed, &all));
        if let (Some(_), [own]) = (ours, &all[..])
            && last.number().is_none_or(|last| stored_token(own) == Some(last))
        {
            // Nobody else is there, nor came in by this guard: what was decided before stands.
            return self.adopt(name, &guard, last, own.file.as_ref(), progress);
        }
        // What an earlier pass locked stands for nobody, not even in our own eyes.
        if ours.is_none() {
            progress.pulse = None;
            give_back(&request.pulse, progress);
        }
        let state = self.judge_all(name, all, Some(last));
        if !self.without_corrupt(name, &state, progress)? {
            return Ok(Pass::Again);
        }
        let admission = self.admission(name, &state, ours, request, terms)?;
        match admission {
            Admission::Enter { slot } if ours.is_some() => {
                let placed = progress.placed.as_ref().and_then(|(_, record)| record.slot());
                let alone = state.facts(ours).iter().all(|member| placed.is_none() || member.slot != placed);
                // While two had a guard of this name, both may have chosen one slot: one of them starts over.
                if slot.is_some() && !alone {
                    self.take_back_ours(name, progress)?;
                    return Ok(Pass::Again);
                }
                let own = state.members.iter().find(|member| Some(member.position) == ours);
                self.adopt(name, &guard, last, own.and_then(|own| own.file.as_ref()), progress)
            }
            Admission::Enter { slot } => {
                if let Some(refused) = self.not_again(&state, &request.repeat) {
                    drop(guard);
                    if refused.is_first_look {
                        self.note_end(name, &refused.last)?;
                    }
                    return Ok(Pass::Done(Box::new(AcquireOutcome::NotAgain(refused))));
                }
                self.enter(name, &guard, last, state, slot, request, terms, progress)
            }
            refused => Ok(Pass::Done(Box::new(AcquireOutcome::NotTaken(refused, state)))),
        }
    }

    /// Corrupt records that nobody carries a pulse for are kept aside; `false`: look again.
    fn without_corrupt(
        &self,
        name: &LockName,
        state: &NameState,
        progress: &mut Progress,
    ) -> Result<bool, Error> {
        let mut clean = true;
        for member in &state.members {
            if let State::Corrupt(why) = member.judged.state() {
                clean = false;
                if let Some(line) = self.set_aside(name, member.position, why, member.file.as_ref())? {
                    progress.said.push(line);
                }
            }
        }
        Ok(clean)
    }

    /// May this request come in, as things stand?
    fn admission(
        &self,
        name: &LockName,
        state: &NameState,
        ours: Option<u32>,
        request: &AcquireRequest<'_>,
        terms: &AcquireTerms<'_>,
    ) -> Result<Admission, Error> {
        for member in &state.members {
            if let State::Newer(schema) = member.judged.state() {
                return Err(newer(name, self, *schema));
            }
        }
        if !terms.over_dead && state.members[0].judged.state() == &State::Dead {
            return Ok(Admission::Held);
        }
        let beside = request.mode != EntryMode::Exclusive;
        // One process is an owner of a name once: it is released by that.
        if beside
            && ours.is_none()
            && request.owners.first().is_some_and(|owner| state.is_held_by(self, owner))
        {
            return Ok(Admission::Held);
        }
        let admission = self.may_enter_beside(name, state, ours, request.mode, terms.in_turn);
        // What is ours already began before.
        Ok(if ours.is_some() { admission } else { under_pause(admission, &state.pause) })
    }
}

fn stored_token(read: &ReadRecord) -> Option<u64> {
    read.found.stored().map(|stored| stored.record.token)
}

/// Where our record stands, if it does.
fn where_it_stands((position, placed): &(u32, Record), all: &[ReadRecord]) -> Option<u32> {
    let bytes = record::bytes(placed);
    let ours = |read: &&ReadRecord| read.position == *position;
    all.iter().find(ours)?.found.stored().is_some_and(|stored| stored.bytes == bytes).then_some(*position)
}
