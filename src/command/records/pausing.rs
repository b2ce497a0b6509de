//! Pauses: a person's word, kept beside the records, that nothing new begins.

use super::Records;
use crate::error::Error;
use crate::model::event::Event;
use crate::model::name::LockName;
use crate::model::pause::{Pause, PauseFound};
use crate::model::record::LOCK;
use crate::os::dir::Dir;
use crate::os::{clock, pause_file};
use crate::verdict::pause::{CurrentPause, PauseState, is_to_be_said, paused};

/// What is paused.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PauseScope<'a> {
    /// One lock.
    Lock(&'a LockName),
    /// All tickets of one tracker.
    Tracker,
    /// Everything that keeps its state in this directory.
    All,
}

/// The log of the pauses of everything; no name's file begins with a dot.
pub(crate) const ALL_LOG: &str = ".all";

impl Records {
    /// Is this lock paused, by itself or with everything? Tickets are paused with their tracker, not one by one.
    pub(crate) fn pause_of(&self, name: &LockName) -> PauseState {
        if self.kind == LOCK { self.pause_state(PauseScope::Lock(name)) } else { PauseState::NotPaused }
    }

    /// Is that paused, by its own pause or by the one for everything?
    pub(crate) fn pause_state(&self, scope: PauseScope<'_>) -> PauseState {
        let own = match scope {
            PauseScope::All => PauseFound::Nothing,
            _ => self.read_pause(scope),
        };
        paused(&own, &self.read_pause(PauseScope::All), clock::wall())
    }

    /// What stands in the place of one pause.
    pub(crate) fn read_pause(&self, scope: PauseScope<'_>) -> PauseFound {
        let (dir, stem) = self.pause_place(scope);
        pause_file::read(dir, stem)
    }

    /// Writes a person's word down. No run of one lock begins after this has come back: runs ask under the guard.
    /// A pause of everything is seen by whoever looks after it was written.
    ///
    /// # Errors
    /// CANTCREAT and what else the system answers; nothing was changed then.
    pub(crate) fn pause(&self, scope: PauseScope<'_>, pause: &Pause) -> Result<(), Error> {
        let _guard = match scope {
            PauseScope::Lock(name) => Some(self.guard(name)?),
            PauseScope::Tracker | PauseScope::All => None,
        };
        let (dir, stem) = self.pause_place(scope);
        pause_file::write(dir, stem, &pause.bytes()).map_err(|error| pause_error(dir, stem, &error))?;
        self.log_pause(scope, "paused", pause.until.clone(), pause.note.clone());
        Ok(())
    }

    /// Takes the word back, also one that nobody can read; `false`: there was none.
    ///
    /// # Errors
    /// What the system answers; nothing was changed then.
    pub(crate) fn resume(&self, scope: PauseScope<'_>) -> Result<bool, Error> {
        let (dir, stem) = self.pause_place(scope);
        let removed = pause_file::remove(dir, stem).map_err(|error| pause_error(dir, stem, &error))?;
        if removed {
            self.log_pause(scope, "resumed", None, None);
        }
        Ok(removed)
    }

    /// Is it time to say that this pause still lasts? Then that is remembered, and where it cannot be, it is said
    /// again rather than never.
    pub(crate) fn is_pause_to_be_said(&self, scope: PauseScope<'_>, current: &CurrentPause) -> bool {
        let due = is_to_be_said(current, clock::wall());
        if due {
            let (dir, stem) = self.pause_place(if current.of_all { PauseScope::All } else { scope });
            drop(pause_file::told_now(dir, stem));
        }
        due
    }

    /// Names with a pause of their own that counts, or that cannot be read; sorted.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub(crate) fn paused_names(&self) -> Result<Vec<LockName>, Error> {
        let stems = pause_file::stems(self.folder())
            .map_err(|error| Error::io(&format!("directory {}", self.path().display()), &error))?;
        let counts = |name: &LockName| {
            let own = self.read_pause(PauseScope::Lock(name));
            paused(&own, &PauseFound::Nothing, clock::wall()) != PauseState::NotPaused
        };
        let names = stems.iter().filter_map(|stem| self.log_owner(stem));
        let mut names: Vec<LockName> = names.filter(counts).collect();
        names.sort();
        Ok(names)
    }

    /// The folder and the first part of the file name of a pause.
    fn pause_place<'a>(&'a self, scope: PauseScope<'a>) -> (&'a Dir, &'a str) {
        match scope {
            PauseScope::Lock(name) => (self.folder(), name.file()),
            PauseScope::Tracker => (self.folder(), ""),
            PauseScope::All => (&self.state.dir, ""),
        }
    }

    fn log_pause(&self, scope: PauseScope<'_>, word: &str, until: Option<String>, note: Option<String>) {
        let by = rustix::process::geteuid().as_raw();
        let detail = note.map_or_else(|| format!("by uid {by}"), |note| format!("by uid {by}: {note}"));
        let at = clock::wall().rfc3339();
        let (log, name) = match scope {
            PauseScope::Lock(name) => (name.file(), name.as_str()),
            PauseScope::Tracker => (ALL_LOG, "every ticket"),
            PauseScope::All => (ALL_LOG, "everything"),
        };
        self.log_as(log, &[Event { until, detail: Some(detail), ..Event::new(word, at, name) }]);
    }
}

fn pause_error(dir: &Dir, stem: &str, error: &std::io::Error) -> Error {
    Error::io(&dir.path().join(pause_file::file_name(stem)).display().to_string(), error)
}
