//! The records of one name: `NAME.json`, and where the name has several members the
//! others. Every one is judged by itself; looking costs what this name has.

use super::{Judged, Records};
use crate::error::reason;
use crate::model::entry::EntryMode;
use crate::model::identity::ProcessIdentity;
use crate::model::name::LockName;
use crate::model::observation::Found;
use crate::model::record::{BadRecord, LOCK, Record};
use crate::model::token::GuardToken;
use crate::os::dir::Dir;
use crate::os::{guard, proc, record_file, waiting_line};
use crate::verdict::admission::{Admission, MemberFacts, Presence, admission};
use crate::verdict::liveness::{State, Through};
use crate::verdict::ownership::Credential;
use crate::verdict::pause::{PauseState, under_pause};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Where the first record of a name is. Whoever has another one came when somebody was at this one.
pub(super) const FIRST: u32 = 0;

/// Stands for a record that somebody removed, while a run of it lives.
const REMOVED: u32 = u32::MAX;

/// How long an acquire may be between taking a dead record away and placing its own.
const BETWEEN: Duration = Duration::from_millis(1);

/// A record as it was read, not judged yet.
#[derive(Debug)]
pub(super) struct ReadRecord {
    pub(super) position: u32,
    pub(super) found: Found,
    /// Open for changing it, where it was read under the guard.
    pub(super) file: Option<File>,
}

/// One member, judged.
#[derive(Debug)]
pub(crate) struct LockMember {
    pub(super) position: u32,
    pub(crate) judged: Judged,
    pub(super) file: Option<File>,
}

/// Everything that stands under a name; at least the first record, or that there is none.
#[derive(Debug)]
pub(crate) struct NameState {
    pub(crate) members: Vec<LockMember>,
    /// What a person said of it.
    pub(crate) pause: PauseState,
}

impl LockMember {
    /// Free and proved dead are gone, and so is what nobody wrote.
    pub(crate) fn presence(&self) -> Presence {
        match self.judged.state() {
            State::Free | State::Dead | State::Corrupt(_) => Presence::Gone,
            State::Live(_) => Presence::Live,
            State::Unknown(_) | State::Newer(_) => Presence::Unknown,
        }
    }

    /// Does it count as there?
    pub(crate) fn is_there(&self) -> bool {
        self.presence() != Presence::Gone
    }

    fn facts(&self) -> MemberFacts {
        let record = self.judged.record();
        MemberFacts {
            presence: self.presence(),
            exclusive: record.is_some_and(|record| !record.is_member()),
            slot: record.and_then(Record::slot),
            unreadable: record.is_none(),
        }
    }
}

impl NameState {
    /// Those that count as there.
    pub(crate) fn there(&self) -> impl Iterator<Item = &LockMember> {
        self.members.iter().filter(|member| member.is_there())
    }

    /// Is it, or was it last, a lock with one holder? Then everything is said as it always was.
    pub(crate) fn is_plain(&self) -> bool {
        self.members.len() == 1 && self.members[0].judged.record().is_none_or(|record| !record.is_member())
    }

    /// Are there records beside the first one?
    pub(super) fn has_others(&self) -> bool {
        self.members.iter().any(|member| member.position != FIRST && member.position != REMOVED)
    }

    /// The one that stands for the name where only one can be said: who is proved to be there, else who may
    /// be, else the first record.
    pub(crate) fn leading(&self) -> &Judged {
        let of = |wanted| self.members.iter().find(|member| member.presence() == wanted);
        &of(Presence::Live).or_else(|| of(Presence::Unknown)).unwrap_or(&self.members[0]).judged
    }

    /// As [`NameState::leading`], for keeping.
    pub(crate) fn into_leading(mut self) -> Judged {
        let of = |wanted| self.members.iter().position(|member| member.presence() == wanted);
        let place = of(Presence::Live).or_else(|| of(Presence::Unknown)).unwrap_or(0);
        self.members.swap_remove(place).judged
    }

    /// The highest token that any record of the name has.
    pub(crate) fn last_token(&self) -> Option<u64> {
        self.members.iter().filter_map(|member| Some(member.judged.record()?.token)).max()
    }

    /// Tokens of those that are proved to hold it.
    pub(crate) fn live_tokens(&self) -> Vec<u64> {
        let live = self.members.iter().filter(|member| member.presence() == Presence::Live);
        live.filter_map(|member| Some(member.judged.record()?.token)).collect()
    }

    /// Does a live member name this very process as an owner?
    pub(super) fn is_held_by(&self, store: &Records, owner: &ProcessIdentity) -> bool {
        self.members.iter().any(|member| {
            matches!(member.judged.state(), State::Live(Through::Owner(_)))
                && member.judged.record().is_some_and(|record| store.is_owned_by(record, owner))
        })
    }

    /// What counts for coming in; the record at `except` is the caller's own.
    pub(super) fn facts(&self, except: Option<u32>) -> Vec<MemberFacts> {
        let others = self.members.iter().filter(|member| Some(member.position) != except);
        others.map(LockMember::facts).collect()
    }

    /// Where a new record goes: alone to the first place, else to the lowest where nobody is.
    pub(super) fn free_position(&self, mode: EntryMode) -> u32 {
        let taken = |position| self.there().any(|member| member.position == position);
        if mode == EntryMode::Exclusive {
            return FIRST;
        }
        (FIRST..=u32::MAX).find(|position| !taken(*position)).unwrap_or(u32::MAX)
    }
}

impl Records {
    /// Everything under a name, judged, without a lock and without writing.
    pub(crate) fn state_of(&self, name: &LockName) -> NameState {
        let (all, guard) = self.read_all(name, None, false);
        self.judge_all(name, all, guard)
    }

    /// What stands under a name where it has one holder, or the member that stands for all.
    pub(crate) fn look(&self, name: &LockName) -> Judged {
        self.state_of(name).into_leading()
    }

    /// May somebody come in beside those that are there? `in_turn`: he stood in line before anybody who wants
    /// the name alone.
    pub(crate) fn may_enter(
        &self,
        name: &LockName,
        state: &NameState,
        mode: EntryMode,
        in_turn: bool,
    ) -> Admission {
        under_pause(self.may_enter_beside(name, state, None, mode, in_turn), &state.pause)
    }

    /// As [`Records::may_enter`], whether it is paused or not. The record at `ours` is the caller's own.
    pub(crate) fn may_enter_beside(
        &self,
        name: &LockName,
        state: &NameState,
        ours: Option<u32>,
        mode: EntryMode,
        in_turn: bool,
    ) -> Admission {
        let waits = mode != EntryMode::Exclusive
            && !in_turn
            && waiting_line::exclusive_waits(self.folder(), name.file());
        admission(mode, &state.facts(ours), waits)
    }

    /// How many wait for the name.
    pub(crate) fn waiting(&self, name: &LockName) -> u64 {
        waiting_line::count(self.folder(), name.file())
    }

    /// For how long the process that has waited for longest has been there: it was started to wait. `None`
    /// where nobody waits who can be seen. Looks at every process.
    pub(crate) fn longest_wait(&self, name: &LockName) -> Option<Duration> {
        let waiters = waiting_line::who(self.folder(), name.file()).ok()?;
        waiters.pids.into_iter().filter_map(proc::age).max()
    }

    /// The one member that a credential speaks for, judged; the first record, where it is nobody's.
    pub(crate) fn look_for(&self, name: &LockName, right: &Credential) -> Judged {
        let (mut all, guard) = self.read_all(name, None, false);
        self.judge(name, all.swap_remove(speaks_for(&all, right)).found, guard)
    }

    /// `guard` is what the guard says, where that was read.
    pub(super) fn judge_all(
        &self,
        name: &LockName,
        all: Vec<ReadRecord>,
        guard: Option<GuardToken>,
    ) -> NameState {
        let last = guard.and_then(GuardToken::number);
        let each_is_one = all.iter().all(|read| matches!(read.found, Found::Record(_)));
        let tokens = |read: &ReadRecord| read.found.stored().map(|stored| stored.record.token);
        let theirs: Vec<u64> = all.iter().filter_map(tokens).collect();
        let judged = all.into_iter().map(|ReadRecord { position, found, file }| {
            let judged = match found {
                Found::Nothing if !theirs.is_empty() => self.judge_missing(name, &theirs, guard),
                found => self.judge(name, found, guard),
            };
            LockMember { position, judged, file }
        });
        let mut members: Vec<LockMember> = judged.collect();
        // The guard's token stands for a record that was removed, unless a member has it.
        if each_is_one && last.is_some_and(|last| !theirs.contains(&last)) {
            let removed = self.judge(name, Found::Nothing, guard);
            if matches!(removed.state(), State::Live(_)) {
                members.push(LockMember { position: REMOVED, judged: removed, file: None });
            }
        }
        // Read last: a pause that was there before we looked is seen.
        NameState { members, pause: self.pause_of(name) }
    }

    /// Every record of a name, and what the guard says where that matters. Under the guard, whose token is
    /// given then, they are opened for changing. `also_beside_one`: also beside the record of somebody who
    /// holds the name alone, where two may have had a guard at a time.
    pub(super) fn read_all(
        &self,
        name: &LockName,
        under: Option<GuardToken>,
        also_beside_one: bool,
    ) -> (Vec<ReadRecord>, Option<GuardToken>) {
        let read = |dir: &Dir, stem: &str, position| {
            let (found, file) = if under.is_some() {
                record_file::read_guarded(dir, stem, self.kind, name.as_str())
            } else {
                (record_file::read(dir, stem, self.kind, name.as_str()), None)
            };
            ReadRecord { position, found, file }
        };
        let mut first = read(self.folder(), name.file(), FIRST);
        let mut last = under;
        if under.is_none() && matches!(first.found, Found::Nothing | Found::Bad(BadRecord::Corrupt(_))) {
            last = guard::peek(self.folder(), name.file());
            // Without a guard nobody is in the middle of an acquire.
            if matches!(first.found, Found::Nothing) && last.is_some() {
                std::thread::sleep(BETWEEN);
                first = read(self.folder(), name.file(), FIRST);
            }
        }
        let others = also_beside_one && self.kind == LOCK;
        let look_for_others = others || may_have_members(&first.found, self.kind);
        let mut all = vec![first];
        if look_for_others {
            let found =
                |error: &io::Error| Found::Unreadable(format!("{}.members: {}", name.file(), reason(error)));
            let positions = match record_file::members(self.folder(), name.file(), false) {
                Ok(None) => Ok(None),
                Ok(Some(dir)) => record_file::positions(&dir).map(|positions| Some((dir, positions))),
                Err(error) => Err(error),
            };
            match positions {
                Ok(None) => {}
                Ok(Some((dir, positions))) => {
                    let others = positions.into_iter().map(|at| read(&dir, &at.to_string(), at));
                    // One that was removed while we read is not there.
                    all.extend(others.filter(|read| !matches!(read.found, Found::Nothing)));
                }
                Err(error) => all.push(ReadRecord { position: u32::MAX, found: found(&error), file: None }),
            }
        }
        (all, last)
    }

    /// The folder of the record at a position, for messages.
    pub(super) fn folder_of(&self, name: &LockName, position: u32) -> PathBuf {
        if position == FIRST {
            self.path().to_owned()
        } else {
            self.path().join(format!("{}.members", name.file()))
        }
    }

    /// Does `act` with the directory and the name of the record at a position; makes that directory when
    /// `create` and missing.
    pub(super) fn at<T>(
        &self,
        name: &LockName,
        position: u32,
        create: bool,
        act: impl FnOnce(&Dir, &str) -> io::Result<T>,
    ) -> io::Result<T> {
        if position == FIRST {
            return act(self.folder(), name.file());
        }
        match record_file::members(self.folder(), name.file(), create)? {
            Some(dir) => act(&dir, &position.to_string()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// Only beside a member's record, or where that may have been lost: a lock with one holder has no others.
fn may_have_members(first: &Found, kind: &str) -> bool {
    if kind != LOCK {
        return false;
    }
    match first {
        Found::Record(stored) => stored.record.is_member(),
        Found::Bad(BadRecord::Newer(_)) => false,
        Found::Nothing | Found::Bad(BadRecord::Corrupt(_)) | Found::Unreadable(_) | Found::NotAFile(_) => {
            true
        }
    }
}

/// Which of them a credential speaks for: the one with its token, or that names its owner.
pub(super) fn speaks_for(all: &[ReadRecord], right: &Credential) -> usize {
    let fits = |record: &Record| match right {
        Credential::Token(token) => record.token == *token,
        Credential::Owner(owner) => {
            record.released_at.is_none() && record.owners.iter().any(|recorded| recorded.same(owner))
        }
    };
    let record = |read: &ReadRecord| read.found.stored().is_some_and(|stored| fits(&stored.record));
    all.iter().position(record).unwrap_or(0)
}
