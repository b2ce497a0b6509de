//! Sweeping: the files of a name that nobody has and nobody used for long, removed under its guard, the guard last.
//! Whoever meets a guard that was removed starts over, as after any cleaner.

use super::members::NameState;
use super::{PauseScope, Records};
use crate::error::{Error, Kind};
use crate::model::last_run::EndStamp;
use crate::model::name::LockName;
use crate::model::pause::PauseFound;
use crate::model::record::Record;
use crate::model::time::WallTime;
use crate::os::guard::Guard;
use crate::os::pulse::PulseAnswer;
use crate::os::{clock, lock_files, log_file, pulse, record_file, waiting_line};
use crate::verdict::liveness::State;
use crate::verdict::pause::{PauseState, paused};
use crate::verdict::sweep::{Sweep, SweepFacts, sweep};
use std::time::Duration;

/// How often to start over when a record changes under us.
const ATTEMPTS: usize = 5;

/// What is asked of a sweep.
#[derive(Debug)]
pub(crate) struct SweepTerms {
    /// Unused for so long.
    pub(crate) older: Duration,
    /// The logs too.
    pub(crate) logs: bool,
    /// Records that were set aside, of any name.
    set_aside: Vec<String>,
}

impl Records {
    /// Terms for the sweep of many names.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub(crate) fn sweep_terms(&self, older: Duration, logs: bool) -> Result<SweepTerms, Error> {
        let set_aside = lock_files::set_aside(self.folder())
            .map_err(|error| Error::io(&format!("directory {}", self.path().display()), &error))?;
        Ok(SweepTerms { older, logs, set_aside })
    }

    /// Every name that has any file here, and with `logs` every name with a log; sorted.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub(crate) fn names_with_files(&self, logs: bool) -> Result<Vec<LockName>, Error> {
        let mut stems = lock_files::stems(self.folder())
            .map_err(|error| Error::io(&format!("directory {}", self.path().display()), &error))?;
        if logs {
            stems.extend(self.logged_names());
        }
        let mut names: Vec<LockName> = stems.iter().filter_map(|stem| self.log_owner(stem)).collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// What would become of a name; nothing is locked, made or removed.
    pub(crate) fn would_sweep(&self, name: &LockName, terms: &SweepTerms) -> Sweep {
        let state = self.state_of(name);
        sweep(&self.sweep_facts(name, &state, terms.logs), terms.older, clock::wall())
    }

    /// Removes the files of a name, if it may be done.
    ///
    /// # Errors
    /// UNAVAILABLE for a stuck guard, and what the system answers; the guard is then still there.
    pub(crate) fn sweep(&self, name: &LockName, terms: &SweepTerms) -> Result<Sweep, Error> {
        for _ in 0..ATTEMPTS {
            let guard = self.guard(name)?;
            let last = guard.token().map_err(|error| self.guard_error(name, &error))?;
            let (all, _) = self.read_all(name, Some(last), true);
            let state = self.judge_all(name, all, Some(last));
            let decided = sweep(&self.sweep_facts(name, &state, terms.logs), terms.older, clock::wall());
            if matches!(decided, Sweep::Keep(_)) || self.remove_all(name, &guard, &state, terms)? {
                return Ok(decided);
            }
        }
        Err(Error::new(Kind::System, format!("{name}: its files keep changing under us")))
    }

    fn sweep_facts(&self, name: &LockName, state: &NameState, logs: bool) -> SweepFacts {
        let own_pause = paused(&self.read_pause(PauseScope::Lock(name)), &PauseFound::Nothing, clock::wall());
        let mut used: Vec<WallTime> =
            state.members.iter().filter_map(|member| member.judged.record()).flat_map(uses_of).collect();
        // Written with every token; it is all that is left where the record was removed.
        used.extend(lock_files::guard_changed(self.folder(), name.file()));
        if logs {
            let last = self.read_log(name.file()).pop();
            used.extend(last.and_then(|event| WallTime::parse(event.last.as_deref().unwrap_or(&event.at))));
        }
        SweepFacts {
            members: state.members.iter().map(super::members::LockMember::presence).collect(),
            corrupt: state.members.iter().any(|it| matches!(it.judged.state(), State::Corrupt(_))),
            pulse: !matches!(
                pulse::ask(self.folder(), name.file(), None, None),
                PulseAnswer::Said(crate::model::observation::PulseFacts::Free)
            ),
            waited_for: waiting_line::is_used(self.folder(), name.file()),
            paused: own_pause != PauseState::NotPaused,
            used,
        }
    }

    /// Records first, the guard last; `false`: something changed under us, so look again.
    fn remove_all(
        &self,
        name: &LockName,
        guard: &Guard<'_>,
        state: &NameState,
        terms: &SweepTerms,
    ) -> Result<bool, Error> {
        let failed = |error: std::io::Error| self.record_error(name, &error);
        for member in &state.members {
            let Some(file) = &member.file else { continue };
            let removed = self
                .at(name, member.position, false, |dir, stem| record_file::remove(dir, stem, file))
                .map_err(failed)?;
            if !removed {
                return Ok(false);
            }
        }
        if !guard.is_current().map_err(|error| self.guard_error(name, &error))? {
            return Ok(false);
        }
        lock_files::remove(self.folder(), name.file(), &terms.set_aside).map_err(failed)?;
        if terms.logs
            && let Some(log) = &self.log
        {
            log_file::remove(log, name.file()).map_err(failed)?;
        }
        Ok(true)
    }
}

/// When a record says that the name was used: taken, given back, ticked, or found ended.
fn uses_of(record: &Record) -> impl Iterator<Item = WallTime> {
    let found = record.last_run().and_then(|last| last.ended).map(|EndStamp { utc, .. }| utc);
    let ticked = record.last_tick.as_ref().map(|tick| tick.utc.clone());
    let times = [Some(record.acquired_at.clone()), record.released_at.clone(), ticked, found];
    times.into_iter().flatten().filter_map(|time| WallTime::parse(&time)).collect::<Vec<_>>().into_iter()
}
