//! Where an agent's hooks are written, what stands there now, and what should.

use super::hooks::{InstalledHook, WantedHook};
use super::profiles;
use super::settings;
use crate::env::{self, name};
use crate::error::{Error, Kind};
use crate::model::agent_profile::{AgentProfile, HookForm, numbers};
use crate::os::call;
use crate::os::settings_file::{self, SettingsFile};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// An agent that is asked for its version may have to start a whole runtime.
const VERSION_PATIENCE: Duration = Duration::from_secs(15);

/// Which of an agent's places is meant.
#[derive(Clone, Copy, Debug)]
pub(super) enum HookOwner<'a> {
    Person,
    Project,
    File(&'a Path),
}

impl<'a> HookOwner<'a> {
    pub(super) fn of(project: bool, file: Option<&'a PathBuf>) -> Self {
        match file {
            Some(file) => Self::File(file),
            None if project => Self::Project,
            None => Self::Person,
        }
    }
}

/// A file that holds, or should hold, hooks.
#[derive(Debug)]
pub(super) struct HookPlace {
    pub(super) path: PathBuf,
    pub(super) file: Option<SettingsFile>,
}

impl HookPlace {
    /// Finds the file of an agent and reads it.
    ///
    /// # Errors
    /// [`Kind::Config`] where the agent has no such place; else what reading answers.
    pub(super) fn read(profile: &AgentProfile, whose: HookOwner<'_>) -> Result<Self, Error> {
        let path = path(profile, whose)?;
        let file = settings_file::read(&path).map_err(|error| {
            let what = path.display().to_string();
            match error.raw_os_error() {
                Some(nix::libc::ELOOP) => {
                    let target = settings_file::link_target(&path);
                    let target = target.map_or_else(|| "FILE".to_owned(), |path| path.display().to_string());
                    Error::new(Kind::CannotCreate, format!("{what} is a link, and links are not followed"))
                        .hint(format!("orion-mark install {} --file {target}", profile.name))
                }
                Some(nix::libc::EINVAL) => Error::config(format!("{what} is not a regular file")),
                Some(nix::libc::EFBIG) => Error::config(format!("{what} is too large for a settings file")),
                _ => Error::new(Kind::Io, format!("{what}: {}", crate::error::reason(&error))),
            }
        })?;
        Ok(Self { path, file })
    }

    /// What stands in it; empty where there is none.
    ///
    /// # Errors
    /// [`Kind::Config`].
    pub(super) fn text(&self) -> Result<&str, Error> {
        let bytes = self.file.as_ref().map_or(&[][..], |file| &file.bytes);
        std::str::from_utf8(bytes).map_err(|_| self.wrong("it is not UTF-8"))
    }

    /// A file that is not understood: nothing is changed.
    pub(super) fn wrong(&self, why: &str) -> Error {
        Error::config(format!("{} is not understood and stays as it is: {why}", self.path.display()))
    }

    /// Hooks that are wanted and missing, and hooks of ours that are not wanted.
    ///
    /// # Errors
    /// [`Kind::Config`].
    pub(super) fn compare(
        &self,
        form: HookForm,
        wanted: &[WantedHook],
    ) -> Result<(Vec<WantedHook>, Vec<InstalledHook>), Error> {
        let mut left = settings::found(form, self.text()?).map_err(|why| self.wrong(&why))?;
        let mut missing = Vec::new();
        for hook in wanted {
            match left.iter().position(|one| hook.is(one)) {
                Some(at) => drop(left.remove(at)),
                None => missing.push(hook.clone()),
            }
        }
        Ok((missing, left))
    }

    /// For [`HookForm::File`]: is the file that is there one of ours, of whatever version?
    pub(super) fn is_ours(&self) -> Result<bool, Error> {
        Ok(self.text()?.contains("Made by orion-mark install"))
    }
}

fn path(profile: &AgentProfile, whose: HookOwner<'_>) -> Result<PathBuf, Error> {
    let hooks = &profile.hooks;
    match whose {
        HookOwner::File(file) => Ok(file.to_owned()),
        HookOwner::Project => hooks
            .project
            .as_ref()
            .map(PathBuf::from)
            .ok_or_else(|| Error::config(format!("{} reads no hooks from a project", profile.title))),
        HookOwner::Person => {
            let moved = hooks.folder_from.as_deref().and_then(env::value).map(PathBuf::from);
            let folder = moved.or_else(|| Some(PathBuf::from(env::value(name::HOME)?).join(&hooks.folder)));
            folder
                .map(|folder| folder.join(&hooks.file))
                .ok_or_else(|| Error::config("HOME is not set").hint("--file FILE names the settings"))
        }
    }
}

/// The hooks of an agent as they should be; `version` leaves out those that it does not know.
pub(super) fn wanted(profile: &AgentProfile, version: Option<&str>) -> Vec<WantedHook> {
    let program = program();
    let hook = |event: crate::model::agent_profile::HookEvent| WantedHook {
        command: format!("{program} {}", event.mark),
        timeout: profile.hooks.timeout,
        event,
    };
    profile.events(version).into_iter().map(hook).collect()
}

/// `orion-mark` where PATH leads to this very program, else its path: an agent may be started by cron.
fn program() -> String {
    let own = std::env::current_exe().ok();
    let path = env::value(name::PATH).unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join("orion-mark")).find(|file| file.is_file());
    match (found.and_then(|file| file.canonicalize().ok()), own) {
        (Some(found), Some(own)) if found == own => "orion-mark".to_owned(),
        (_, Some(own)) if own.to_str().is_some_and(|text| !text.contains([' ', '\'', '"', '\\', '$'])) => {
            own.display().to_string()
        }
        _ => "orion-mark".to_owned(),
    }
}

/// The version of the agent that PATH leads to; `None` where it does not say.
pub(super) fn version(profile: &AgentProfile) -> Option<String> {
    let command = profile.commands.first()?;
    let answer = call::call(Command::new(command).arg("--version"), VERSION_PATIENCE).ok()?;
    let text = String::from_utf8_lossy(&answer.stdout).into_owned();
    text.split_whitespace().find(|word| numbers(word.trim_start_matches('v')).is_some()).map(|word| {
        word.trim_start_matches('v').trim_end_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
    })
}

/// The file that an extension or plugin is.
///
/// # Errors
/// [`Kind::Config`].
pub(super) fn source(profile: &AgentProfile) -> Result<String, Error> {
    profiles::source(profile.hooks.source.as_deref().unwrap_or_default())
}
