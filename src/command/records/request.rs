//! What is asked of the records when a lock is to be taken, and what comes of it.

use super::again::RefusedAgain;
use super::members::NameState;
use crate::model::entry::EntryMode;
use crate::model::identity::ProcessIdentity;
use crate::model::last_run::{LastRun, RepeatTerms};
use crate::model::record::Record;
use crate::os::pulse::Pulse;
use crate::verdict::admission::Admission;
use serde_json::{Map, Value};
use std::os::fd::BorrowedFd;

/// The attribute of a record that was taken for another process than a caller.
pub(crate) const ON_BEHALF: &str = "on_behalf";
/// What is to be recorded.
#[derive(Debug)]
pub(crate) struct AcquireRequest<'fd> {
    pub(crate) mode: EntryMode,
    pub(crate) repeat: RepeatTerms,
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
    /// Somebody who wants the name alone and stands in line is not waited for: the caller stood there before.
    pub(crate) in_turn: bool,
    /// The token is to be this, unless one as high was given already; else the clock decides.
    pub(crate) token: Option<u64>,
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
    /// The last run before: it stays the last one if nothing comes of this one.
    pub(crate) before: Option<LastRun>,
    /// What a person should know.
    pub(crate) said: Vec<String>,
}

/// What an attempt to acquire came to.
#[derive(Debug)]
pub(crate) enum AcquireOutcome {
    Acquired(Box<AcquiredLock>),
    /// Not taken, why not, and who is there.
    NotTaken(Admission, NameState),
    /// Nobody is in the way, and what was asked of the last run speaks against it.
    NotAgain(RefusedAgain),
}

/// One pass through the guard.
pub(super) enum Pass {
    Done(Box<AcquireOutcome>),
    /// Something changed under us: look again.
    Again,
}

/// What earlier passes left behind.
#[derive(Default)]
pub(super) struct Progress {
    /// The last record we tried to place, and where.
    pub(super) placed: Option<(u32, Record)>,
    pub(super) pulse: Option<Pulse>,
    /// The token that a description of the caller's was locked for.
    pub(super) lent: Option<u64>,
    pub(super) reclaimed: Option<Record>,
    pub(super) before: Option<LastRun>,
    /// Dead members whose records were removed.
    pub(super) ended: Vec<Record>,
    pub(super) said: Vec<String>,
}
