//! Changing a record that stands: release, and whatever else its owner may write.

use super::members::{ReadRecord, speaks_for};
use super::{Records, event_of, newer};
use crate::error::{Error, Kind};
use crate::model::last_run::{self, ENDED, EndStamp, LastRun};
use crate::model::name::LockName;
use crate::model::observation::Found;
use crate::model::record::{LOCK, Stored};
use crate::model::token::GuardToken;
use crate::os::dir::Opened;
use crate::os::guard::Guard;
use crate::os::record_file;
use crate::verdict::liveness::State;
use crate::verdict::ownership::{Credential, Ownership, ownership};
use rustix::fs::OFlags;
use serde_json::{Value, json};

/// How often to start over when the record changes under us.
const ATTEMPTS: usize = 5;

/// How a release ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    Now,
    /// It was released under this token before.
    Before,
    /// The disk is full, so the record was removed instead of marked.
    ByRemoving,
}

/// What to do with a record that is the caller's.
pub(crate) enum RecordChange {
    /// Write these bytes in its place.
    Write(Vec<u8>),
    /// Leave it.
    Keep,
    /// Take it away.
    Remove,
}

impl Records {
    /// Gives a lock back.
    ///
    /// # Errors
    /// NOPERM when it is not the caller's (the file is untouched), and what the system answers.
    pub(crate) fn release(&self, name: &LockName, right: &Credential) -> Result<Released, Error> {
        let (released, stored) = self.free(name, right, None, &[])?;
        if let Some(stored) = stored {
            self.log(name, &[event_of("released", name, &stored.record)]);
        }
        Ok(released)
    }

    /// Gives back a lock under which nothing was run: `before` stays the last run of the name.
    ///
    /// # Errors
    /// As [`Records::release`].
    pub(crate) fn undo(
        &self,
        name: &LockName,
        token: u64,
        before: Option<&LastRun>,
    ) -> Result<Released, Error> {
        let (released, stored) =
            self.free(name, &Credential::Token(token), None, &last_run::not_executed(before))?;
        if let Some(stored) = stored {
            self.log(name, &[event_of("released", name, &stored.record)]);
        }
        Ok(released)
    }

    /// Marks a record as free, adding to its `attrs`; gives it as it was, `None` when it was free before.
    /// `status`: how its command ended, where that is known.
    pub(super) fn free(
        &self,
        name: &LockName,
        right: &Credential,
        status: Option<u8>,
        attrs: &[(&str, Value)],
    ) -> Result<(Released, Option<Stored>), Error> {
        let now = EndStamp { status, ..self.now() };
        let released_at = json!(now.utc);
        let mark = |stored: &Stored| {
            let mut all = stored.record.attrs.clone();
            all.extend(attrs.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
            if self.kind == LOCK {
                all.entry(ENDED).or_insert_with(|| json!(now));
            }
            let mut changes = vec![("released_at", released_at.clone())];
            if !all.is_empty() {
                changes.push(("attrs", Value::Object(all)));
            }
            RecordChange::Write(stored.patched(&changes))
        };
        let (how, stored) = match self.change(name, right, mark) {
            Err(error) if error.kind() == Kind::CannotCreate => {
                (Released::ByRemoving, self.change(name, right, |_| RecordChange::Remove)?)
            }
            other => (Released::Now, other?),
        };
        Ok(match (stored, right) {
            (None, Credential::Token(token)) if self.let_go(name, *token)? => (Released::Now, None),
            (None, _) => (Released::Before, None),
            (stored, _) => (how, stored),
        })
    }

    /// Somebody removed the record of this token, and a pulse stands for it still: then the guard is what can
    /// be changed. `false`: there was nothing to let go.
    fn let_go(&self, name: &LockName, token: u64) -> Result<bool, Error> {
        let removed = self.look_for(name, &Credential::Token(token));
        if removed.token != Some(token)
            || removed.record().is_some()
            || !matches!(removed.state(), State::Live(_))
        {
            return Ok(false);
        }
        self.without_record(name, token, |guard| raise(guard, token))
    }

    /// Does `act` under the guard if no record stands there and the guard's token is this one.
    pub(super) fn without_record(
        &self,
        name: &LockName,
        token: u64,
        act: impl FnOnce(&Guard<'_>),
    ) -> Result<bool, Error> {
        let guard = self.guard(name)?;
        let (found, _) = record_file::read_guarded(self.folder(), name.file(), self.kind, name.as_str());
        let last = guard.token().ok().and_then(GuardToken::number);
        let same = matches!(found, Found::Nothing) && last == Some(token);
        if same {
            act(&guard);
        }
        Ok(same)
    }

    /// Changes the caller's record under the guard. Gives the record as it was, or `None`
    /// when it was released before.
    ///
    /// # Errors
    /// NOPERM when it is not the caller's, DATAERR, UNAVAILABLE, and what the system answers.
    pub(crate) fn change(
        &self,
        name: &LockName,
        right: &Credential,
        change: impl Fn(&Stored) -> RecordChange,
    ) -> Result<Option<Stored>, Error> {
        self.change_one(name, right, false, change)
    }

    /// As [`Records::change`], of a record that was released, or of one that was not.
    fn change_one(
        &self,
        name: &LockName,
        right: &Credential,
        released: bool,
        change: impl Fn(&Stored) -> RecordChange,
    ) -> Result<Option<Stored>, Error> {
        if self.never_held(name) {
            return Err(not_owner(name, &format!("never held in {}", self.path().display())));
        }
        let failed = |error: std::io::Error| self.record_error(name, &error);
        for _ in 0..ATTEMPTS {
            let guard = self.guard(name)?;
            let last = guard.token().ok();
            let (mut all, _) = self.read_all(name, Some(last.unwrap_or(GuardToken::Garbage)), false);
            let ReadRecord { position, found, file } = all.swap_remove(speaks_for(&all, right));
            self.owned(name, &found, last, right)?;
            let (Found::Record(stored), Some(file)) = (found, file) else { return Ok(None) };
            if stored.record.released_at.is_some() != released {
                return Ok(None);
            }
            let done = match change(&stored) {
                RecordChange::Keep => true,
                RecordChange::Write(bytes) => self
                    .at(name, position, false, |dir, stem| record_file::replace(dir, stem, &file, &bytes))
                    .map_err(failed)?,
                RecordChange::Remove => {
                    // The record takes its token along, and without one the pulse of the guard's token counts:
                    // one above, a pulse that is still open somewhere stands for nobody.
                    raise(&guard, stored.record.token);
                    self.at(name, position, false, |dir, stem| record_file::remove(dir, stem, &file))
                        .map_err(failed)?
                }
            };
            if done {
                return Ok(Some(*stored));
            }
        }
        Err(Error::new(Kind::System, format!("{name}: its record keeps changing under us")))
    }

    /// Changes fields and entries of `attrs` (`Value::Null` removes one) of the caller's
    /// record. Gives the record as it was, or `None` when it was released before.
    ///
    /// # Errors
    /// As [`Records::change`].
    pub(crate) fn amend(
        &self,
        name: &LockName,
        right: &Credential,
        fields: &[(&str, Value)],
        attrs: &[(&str, Value)],
    ) -> Result<Option<Stored>, Error> {
        self.change(name, right, |stored| RecordChange::Write(with_attrs(stored, fields, attrs)))
    }

    /// As [`Records::amend`] for what is known of a claim that is over, while its record is still the last
    /// one; `None`: it is not.
    ///
    /// # Errors
    /// As [`Records::change`].
    pub(crate) fn amend_released(
        &self,
        name: &LockName,
        token: u64,
        attrs: &[(&str, Value)],
    ) -> Result<Option<Stored>, Error> {
        let token = Credential::Token(token);
        self.change_one(name, &token, true, |stored| RecordChange::Write(with_attrs(stored, &[], attrs)))
    }

    /// Checks a right against what was found.
    ///
    /// # Errors
    /// NOPERM, DATAERR or UNAVAILABLE.
    pub(crate) fn owned(
        &self,
        name: &LockName,
        found: &Found,
        guard: Option<GuardToken>,
        right: &Credential,
    ) -> Result<(), Error> {
        if let (Credential::Owner(owner), Some(stored)) = (right, found.stored())
            && !self.numbers_are_ours(&stored.record)
            && !self.is_owned_by(&stored.record, owner)
        {
            return Err(not_owner(name, "its record is from another container or another boot"));
        }
        match ownership(found, guard, right) {
            Ownership::Mine | Ownership::AlreadyReleased => Ok(()),
            Ownership::NotMine(whose) => Err(not_owner(name, &whose)),
            Ownership::Unclear(why) => Err(Error::new(Kind::CannotTell, format!("{name}: {why}"))),
            Ownership::Newer(schema) => Err(newer(name, self, schema)),
        }
    }

    /// Neither record nor guard: nothing to change, and nothing to create for it.
    fn never_held(&self, name: &LockName) -> bool {
        let missing =
            |file: String| matches!(self.folder().open_file(&file, OFlags::RDONLY), Ok(Opened::Missing));
        missing(format!("{}.json", name.file())) && missing(format!("{}.guard", name.file()))
    }
}

/// The record with these fields and entries of `attrs`; null takes an entry away.
fn with_attrs(stored: &Stored, fields: &[(&str, Value)], attrs: &[(&str, Value)]) -> Vec<u8> {
    let mut all = stored.record.attrs.clone();
    for (key, value) in attrs {
        if value.is_null() {
            all.remove(*key);
        } else {
            all.insert((*key).to_owned(), value.clone());
        }
    }
    let mut fields = fields.to_vec();
    fields.push(("attrs", Value::Object(all)));
    stored.patched(&fields)
}

/// Makes the guard's token one that nobody was given. On a full disk too: it is written in place.
fn raise(guard: &Guard<'_>, token: u64) {
    if guard.token().ok().and_then(GuardToken::number).unwrap_or(0) <= token {
        drop(guard.write_token(token + 1));
    }
}

/// The refusal to whoever does not own it.
pub(crate) fn not_owner(name: &LockName, whose: &str) -> Error {
    Error::new(Kind::NotOwner, format!("{name} is not yours: {whose}")).hint("nothing was changed")
}
