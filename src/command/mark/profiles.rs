//! The profiles of agents: those of the toolkit, and a person's own, which win.

use crate::env::{self, name};
use crate::error::{Error, Kind, reason};
use crate::model::agent_profile::AgentProfile;
use crate::report::escape;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The profiles that are built in, by name.
const BUILT_IN: [(&str, &str); 6] = [
    ("aider", include_str!("../../../scripts/agents/aider.toml")),
    ("claude", include_str!("../../../scripts/agents/claude.toml")),
    ("codex", include_str!("../../../scripts/agents/codex.toml")),
    ("gemini", include_str!("../../../scripts/agents/gemini.toml")),
    ("opencode", include_str!("../../../scripts/agents/opencode.toml")),
    ("pi", include_str!("../../../scripts/agents/pi.toml")),
];
/// The extensions and plugins that are built in.
const SOURCES: [(&str, &str); 2] = [
    ("opencode-orion-mark.js", include_str!("../../../scripts/agents/opencode-orion-mark.js")),
    ("pi-orion-mark.ts", include_str!("../../../scripts/agents/pi-orion-mark.ts")),
];

/// Every profile, by name. One of the person's own takes the place of the built-in one of that name.
///
/// # Errors
/// [`Kind::Config`] for a profile of the person's that is not understood.
pub(crate) fn all() -> Result<Vec<AgentProfile>, Error> {
    let mut profiles = Vec::new();
    for (name, text) in BUILT_IN {
        let profile = AgentProfile::parse(name, text);
        profiles.push(profile.map_err(|why| Error::new(Kind::Bug, format!("profile {name}: {why}")))?);
    }
    let Some(folder) = own_folder() else { return Ok(profiles) };
    let Ok(entries) = std::fs::read_dir(&folder) else { return Ok(profiles) };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.extension() != Some(OsStr::new("toml")) {
            continue;
        }
        let Some(name) = path.file_stem().and_then(OsStr::to_str) else { continue };
        let wrong = |why: &str| Error::config(format!("profile {}: {why}", path.display()));
        let text = std::fs::read_to_string(&path).map_err(|error| wrong(&reason(&error)))?;
        let profile = AgentProfile::parse(name, &text).map_err(|why| wrong(&escape(why.as_bytes(), 200)))?;
        profiles.retain(|one| one.name != profile.name);
        profiles.push(profile);
    }
    profiles.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(profiles)
}

/// The profile of an agent, by its name or by its command, also with a path.
///
/// # Errors
/// [`Kind::Unreachable`] where there is none.
pub(super) fn find(agent: &OsStr) -> Result<AgentProfile, Error> {
    let command = Path::new(agent).file_name().unwrap_or(agent).to_string_lossy().into_owned();
    let profiles = all()?;
    let names: Vec<String> = profiles.iter().map(|one| one.name.clone()).collect();
    let by_name = profiles.iter().position(|one| one.name == command);
    let found = by_name.or_else(|| profiles.iter().position(|one| one.commands.contains(&command)));
    found.and_then(|at| profiles.into_iter().nth(at)).ok_or_else(|| {
        let what = format!("no profile for {:?}", escape(agent.as_encoded_bytes(), 60));
        Error::new(Kind::Unreachable, what).hint(format!("known here: {}", names.join(", ")))
    })
}

/// What a profile's `source` names: built in, or beside a person's own profile.
///
/// # Errors
/// [`Kind::Config`].
pub(super) fn source(file: &str) -> Result<String, Error> {
    let own = own_folder().map(|folder| folder.join(file));
    if let Some(text) = own.and_then(|path| std::fs::read_to_string(path).ok()) {
        return Ok(text);
    }
    let found = SOURCES.iter().find(|(name, _)| *name == file);
    found
        .map(|(_, text)| (*text).to_owned())
        .ok_or_else(|| Error::config(format!("{file} is neither built in nor in ~/.config/orion/agents")))
}

fn own_folder() -> Option<PathBuf> {
    let config = env::value(name::XDG_CONFIG_HOME).map(PathBuf::from);
    let config = config.or_else(|| Some(PathBuf::from(env::value(name::HOME)?).join(".config")))?;
    config.is_absolute().then(|| config.join("orion/agents"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::agent_profile::HookForm;

    #[test]
    fn every_profile_of_the_toolkit_is_built_in_and_understood() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/agents");
        for entry in std::fs::read_dir(folder).expect("profiles") {
            let path = entry.expect("entry").path();
            let name = path.file_name().expect("a name").to_str().expect("text").to_owned();
            let known = match name.strip_suffix(".toml") {
                Some(name) => BUILT_IN.iter().any(|(built, _)| *built == name),
                None => SOURCES.iter().any(|(built, _)| *built == name),
            };
            assert!(known, "{name} is not built in");
        }
        for (name, text) in BUILT_IN {
            let profile = AgentProfile::parse(name, text).unwrap_or_else(|why| panic!("{name}: {why}"));
            assert!(profile.commands.contains(&name.to_owned()), "{name}");
            let marks: Vec<&str> = profile.hooks.events.iter().map(|event| event.mark.as_str()).collect();
            if matches!(profile.hooks.form, HookForm::Json | HookForm::Toml) {
                for mark in ["ready", "busy", "idle", "question", "ended"] {
                    assert!(marks.contains(&mark), "{name}: no event says {mark}");
                }
            }
            if let Some(file) = &profile.hooks.source {
                assert!(SOURCES.iter().any(|(built, _)| built == file), "{name}: {file}");
            }
        }
    }
}
