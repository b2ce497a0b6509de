//! What the records of a name know of its last run, for those who ask not to run again.

use super::members::{LockMember, NameState};
use super::{RecordChange, Records, event_of};
use crate::error::Error;
use crate::model::event::Event;
use crate::model::last_run::{ENDED, EndStamp, LastRun, RepeatTerms};
use crate::model::name::LockName;
use crate::model::record::{Record, VIA_ACQUIRE};
use crate::model::time::WallTime;
use crate::os::clock;
use crate::verdict::liveness::State;
use crate::verdict::ownership::Credential;
use crate::verdict::repeat::{NotNow, RanFacts, ended_ago, repeat};
use serde_json::{Value, json};
use std::time::Duration;

/// Not again now: why, and the run that is the reason.
#[derive(Debug)]
pub(crate) struct RefusedAgain {
    pub(crate) why: NotNow,
    pub(crate) last: LastRun,
    /// How long ago it ended, where that is known.
    pub(crate) ended_ago: Option<Duration>,
    /// We are the first to find it dead; that is to be written down, or its end would never count.
    pub(crate) is_first_look: bool,
}

impl Records {
    /// The last run of a name: of those that any of its records knows, the one with the highest token.
    /// `true`: it is found dead, and nobody has written that down.
    pub(super) fn last_run(&self, state: &NameState) -> Option<(LastRun, bool)> {
        let all = state.members.iter().filter_map(|it| Some((it, it.judged.record()?.last_run()?)));
        let (member, mut last) = all.max_by_key(|(_, last)| last.token)?;
        let is_found = last.ended.is_none() && is_its_own(member, &last);
        if is_found {
            last.ended = Some(EndStamp { found: true, ..self.now() });
        }
        Some((last, is_found))
    }

    /// Does what is asked of the last run speak against another one?
    pub(crate) fn not_again(&self, state: &NameState, asked: &RepeatTerms) -> Option<RefusedAgain> {
        if !asked.is_asked() {
            return None;
        }
        let (last, is_first_look) = self.last_run(state)?;
        let ended_ago = last.ended.as_ref().and_then(|end| ended_ago(end, &self.now()));
        let status = last.ended.as_ref().and_then(|end| end.status).map(i64::from);
        let facts = RanFacts { key: last.key.as_deref(), status, ended_ago };
        let why = repeat(asked, &facts)?;
        Some(RefusedAgain { why, last, ended_ago, is_first_look })
    }

    /// Writes down that the run of this token was found dead, unless somebody did.
    ///
    /// # Errors
    /// As [`Records::change`].
    pub(crate) fn note_end(&self, name: &LockName, last: &LastRun) -> Result<(), Error> {
        let stamp = json!(last.ended);
        let noted = self.change(name, &Credential::Token(last.token), |stored| {
            if stored.record.attrs.contains_key(ENDED) {
                return RecordChange::Keep;
            }
            let mut attrs = stored.record.attrs.clone();
            attrs.insert(ENDED.to_owned(), stamp.clone());
            RecordChange::Write(stored.patched(&[("attrs", Value::Object(attrs))]))
        })?;
        if let Some(stored) = noted.filter(|stored| !stored.record.attrs.contains_key(ENDED)) {
            self.log(name, &[end_of(name, &stored.record)]);
        }
        Ok(())
    }

    /// This moment, as the end of a run.
    pub(super) fn now(&self) -> EndStamp {
        let host = &self.fixed().host;
        EndStamp {
            utc: clock::wall().rfc3339(),
            boottime_us: clock::boottime_us(),
            boot_id: host.boot_id.clone(),
            time_ns: host.time_ns,
            ..EndStamp::default()
        }
    }
}

/// Is it the run of this very record, and proved dead?
fn is_its_own(member: &LockMember, last: &LastRun) -> bool {
    let token = member.judged.record().map(|record| record.token);
    member.judged.state() == &State::Dead && token == Some(last.token)
}

/// How an owner's end is called: normal for a `run`, and a missed release for an `acquire`.
pub(super) fn end_of(name: &LockName, ended: &Record) -> Event {
    let word = if ended.via() == Some(VIA_ACQUIRE) { "reclaimed" } else { "ended" };
    let until = |end: WallTime| ended.since()?.age(end).map(|held| held.as_secs());
    let ticked = ended.last_tick.as_ref().and_then(|tick| WallTime::parse(&tick.utc));
    Event {
        held_at_least_s: Some(ticked.and_then(until).unwrap_or(0)),
        held_at_most_s: until(clock::wall()),
        ..event_of(word, name, ended)
    }
}
