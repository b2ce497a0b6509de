//! Hooks in a settings file of an agent, as text in and text out. What a person wrote stays byte for byte where
//! it was; only hooks of ours come and go.

use super::{json_settings, toml_settings};
use crate::model::agent_profile::{HOOK_MARKS, HookEvent, HookForm};

/// A hook as it is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WantedHook {
    pub(super) event: HookEvent,
    /// `orion-mark idle`.
    pub(super) command: String,
    pub(super) timeout: i64,
}

/// A hook of ours that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InstalledHook {
    pub(super) event: String,
    pub(super) matcher: Option<String>,
    pub(super) mark: String,
}

impl InstalledHook {
    /// For people: `Notification (idle_prompt) says idle`.
    pub(super) fn show(&self) -> String {
        show(&self.event, self.matcher.as_deref(), &self.mark)
    }
}

impl WantedHook {
    pub(super) fn is(&self, other: &InstalledHook) -> bool {
        // No matcher, an empty one and * are the same to every agent.
        let all =
            |matcher: Option<&str>| matcher.filter(|text| !matches!(*text, "" | "*")).map(str::to_owned);
        self.event.on == other.event
            && all(self.event.matcher.as_deref()) == all(other.matcher.as_deref())
            && self.event.mark == other.mark
    }

    pub(super) fn show(&self) -> String {
        show(&self.event.on, self.event.matcher.as_deref(), &self.event.mark)
    }
}

fn show(event: &str, matcher: Option<&str>, mark: &str) -> String {
    match matcher.filter(|text| !matches!(*text, "" | "*")) {
        Some(matcher) => format!("{event} ({matcher}) says {mark}"),
        None => format!("{event} says {mark}"),
    }
}

/// The word of a command that is ours and nothing else: `orion-mark idle`, also with a path.
pub(super) fn our_mark(command: &str) -> Option<String> {
    let mut words = command.split_ascii_whitespace();
    let program = words.next()?.trim_matches(['"', '\'']);
    let mark = words.next()?;
    let ours = program == "orion-mark" || program.ends_with("/orion-mark");
    (ours && words.next().is_none() && HOOK_MARKS.contains(&mark)).then(|| mark.to_owned())
}

/// The hooks of ours in a settings file.
///
/// # Errors
/// What is not understood, for people.
pub(super) fn found(form: HookForm, text: &str) -> Result<Vec<InstalledHook>, String> {
    if form == HookForm::Toml { toml_settings::found(text) } else { json_settings::found(text) }
}

/// The file with these hooks in addition.
///
/// # Errors
/// What is not understood, for people; also where the result could not be read back.
pub(super) fn with(form: HookForm, text: &str, wanted: &[WantedHook]) -> Result<String, String> {
    let after = if form == HookForm::Toml {
        toml_settings::with(text, wanted)
    } else {
        json_settings::with(text, wanted)
    }?;
    let there = found(form, &after)?;
    match wanted.iter().find(|hook| !there.iter().any(|one| hook.is(one))) {
        Some(missing) => Err(format!("the hook '{}' does not fit into it", missing.show())),
        None => Ok(after),
    }
}

/// The file without any hook of ours, and without lists that only held those.
///
/// # Errors
/// What is not understood, for people.
pub(super) fn without(form: HookForm, text: &str) -> Result<String, String> {
    if found(form, text)?.is_empty() {
        return Ok(text.to_owned());
    }
    if form == HookForm::Toml { toml_settings::without(text) } else { json_settings::without(text) }
}

/// What `--remove` leaves: the bytes from before the first install, if nothing else was changed since;
/// otherwise the file as it is now without our hooks. `copy` is what install kept; `None` without one.
///
/// # Errors
/// What is not understood, for people.
pub(super) fn removed(
    form: HookForm,
    now: &str,
    copy: Option<&str>,
    wanted: &[WantedHook],
) -> Result<Option<String>, String> {
    let before = copy.unwrap_or_default();
    if found(form, before).is_ok_and(|ours| ours.is_empty())
        && with(form, before, wanted).is_ok_and(|text| text == now)
    {
        return Ok(copy.map(str::to_owned));
    }
    without(form, now).map(Some)
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
