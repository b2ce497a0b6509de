//! Hooks in a settings file of an agent, as text in and text out. What a person wrote stays byte for byte where
//! it was; only hooks of ours come and go.

use super::hooks::{InstalledHook, WantedHook};
use super::{json_settings, toml_settings};
use crate::model::agent_profile::HookForm;

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
