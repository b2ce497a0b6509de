//! A record that cannot be read as one, and that nobody carries a pulse for, is kept
//! under another name.

use super::Records;
use super::members::FIRST;
use crate::error::{Error, Kind};
use crate::model::event::Event;
use crate::model::name::LockName;
use crate::model::token::GuardToken;
use crate::os::{clock, record_file};
use crate::verdict::liveness::State;
use std::fs::File;

impl Records {
    /// Moves a corrupt record that nobody carries a pulse for away. Gives what to say.
    ///
    /// # Errors
    /// CANNOT TELL when it is not (or no longer) corrupt, and what the system answers.
    pub(crate) fn set_corrupt_aside(&self, name: &LockName) -> Result<String, Error> {
        let guard = self.guard(name)?;
        let last = guard.token().unwrap_or(GuardToken::Garbage);
        let (found, file) = record_file::read_guarded(self.folder(), name.file(), self.kind, name.as_str());
        let judged = self.judge(name, found, Some(last));
        if let State::Corrupt(why) = judged.state()
            && let Some(line) = self.set_aside(name, FIRST, why, file.as_ref())?
        {
            return Ok(line);
        }
        Err(Error::new(Kind::CannotTell, format!("{name}: its record changed meanwhile")))
    }

    /// Moves a corrupt record away, and gives what to say; `None`: it changed meanwhile.
    pub(super) fn set_aside(
        &self,
        name: &LockName,
        position: u32,
        why: &str,
        file: Option<&File>,
    ) -> Result<Option<String>, Error> {
        let Some(file) = file else { return Ok(None) };
        let aside = self
            .at(name, position, false, |dir, stem| {
                record_file::set_aside(dir, stem, self.kind, name.as_str(), file)
            })
            .map_err(|error| self.record_error(name, &error))?;
        let Some(aside) = aside else { return Ok(None) };
        let line = format!(
            "{name}: its record was corrupt ({why}) and is kept as {}/{aside}",
            self.folder_of(name, position).display()
        );
        let event = Event::new("set-aside", clock::wall().rfc3339(), name.as_str());
        self.log(name, &[Event { detail: Some(line.clone()), ..event }]);
        Ok(Some(line))
    }
}
