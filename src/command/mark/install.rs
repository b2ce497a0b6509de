//! `orion-mark install`: hooks into a person's own settings, and out of them again.

use super::hooks::WantedHook;
use super::place::{self, HookOwner, HookPlace};
use super::profiles;
use super::settings;
use crate::cli::mark::MarkInstall;
use crate::error::{Error, Kind, reason};
use crate::exit::{Exit, Status};
use crate::model::agent_profile::{AgentProfile, HookForm};
use crate::os::settings_file::{self, SettingsFile};
use crate::report::Report;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// `orion-mark install AGENT`.
///
/// # Errors
/// [`Kind::Config`] for settings that are not understood, [`Kind::CannotCreate`] for a file that cannot be
/// written. Nothing is changed then.
pub(super) fn install(args: &MarkInstall, report: &Report) -> Result<Status, Error> {
    let profile = profiles::find(&args.agent)?;
    let hooks = &profile.hooks;
    let whose = HookOwner::of(args.project, args.file.as_ref());
    let said = match hooks.form {
        HookForm::None => return Err(Error::config(format!("{} has no hooks", profile.title))),
        HookForm::Environment => {
            let lines = hooks.environment.iter().map(|(name, value)| format!("export {name}='{value}'"));
            lines.collect::<Vec<_>>().join("\n")
        }
        HookForm::File => file(&profile, &HookPlace::read(&profile, whose)?, args)?,
        HookForm::Json | HookForm::Toml => {
            // Asked before the file is read: Gemini writes its settings anew whenever it starts.
            let version = place::version(&profile);
            let place = HookPlace::read(&profile, whose)?;
            let wanted = place::wanted(&profile, version.as_deref());
            if args.remove {
                take_out(&profile, &place, &wanted, args.dry_run)?
            } else {
                put_in(&profile, &place, &wanted, args.dry_run)?
            }
        }
    };
    report.or_broken_pipe(report.data(&said))?;
    if let (Some(todo), false) = (&hooks.todo, args.remove) {
        report.or_broken_pipe(report.data(&format!("still to do: {todo}")))?;
    }
    Ok(Exit::Ok.into())
}

/// Where the file is kept as it was before the first hook of ours.
fn copy_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".before-orion");
    name.into()
}

fn put_in(
    profile: &AgentProfile,
    place: &HookPlace,
    wanted: &[WantedHook],
    dry_run: bool,
) -> Result<String, Error> {
    let form = profile.hooks.form;
    let (missing, more) = place.compare(form, wanted)?;
    let path = place.path.display();
    if missing.is_empty() && more.is_empty() {
        return Ok(format!("{path} has the {} hooks already", wanted.len()));
    }
    let before = place.text()?;
    let clean = settings::without(form, before).map_err(|why| place.wrong(&why))?;
    let after = settings::with(form, &clean, wanted).map_err(|why| place.wrong(&why))?;
    if dry_run {
        return Ok(format!("{path} would be changed so:\n{}", changes(before, &after)));
    }
    let copy = copy_of(&place.path);
    let mut kept = String::new();
    if let Some(file) = &place.file {
        // One that has hooks of ours already is not what was there before them.
        let fresh = clean == before;
        let old = settings_file::read(&copy).map_err(|error| cannot(&copy, &error))?;
        if fresh || old.is_none() {
            settings_file::replace(&copy, old.as_ref(), &file.bytes)
                .map_err(|error| cannot(&copy, &error))?;
        }
        kept = format!("; as it was: {}", copy.display());
    }
    write(place, after.as_bytes())?;
    Ok(format!("{path} has {} hooks of orion-mark now{kept}", wanted.len()))
}

fn take_out(
    profile: &AgentProfile,
    place: &HookPlace,
    wanted: &[WantedHook],
    dry_run: bool,
) -> Result<String, Error> {
    let form = profile.hooks.form;
    let before = place.text()?;
    let path = place.path.display();
    let ours = settings::found(form, before).map_err(|why| place.wrong(&why))?;
    let (Some(file), false) = (&place.file, ours.is_empty()) else {
        return Ok(format!("{path} has no hook of orion-mark"));
    };
    let copy_path = copy_of(&place.path);
    let copy = settings_file::read(&copy_path).ok().flatten();
    let kept = copy.as_ref().and_then(|copy| std::str::from_utf8(&copy.bytes).ok());
    let after = settings::removed(form, before, kept, wanted).map_err(|why| place.wrong(&why))?;
    let text = after.as_deref().unwrap_or_default();
    if dry_run {
        return Ok(format!("{path} would be changed so:\n{}", changes(before, text)));
    }
    match &after {
        // It was not there before the install, and nobody has added anything.
        None => settings_file::remove(&place.path, file).map_err(|error| cannot(&place.path, &error))?,
        Some(text) => write(place, text.as_bytes())?,
    }
    // A copy of what is there again is of no use.
    if let Some(copy) = copy.filter(|copy| after.as_ref().is_some_and(|text| text.as_bytes() == copy.bytes)) {
        drop(settings_file::remove(&copy_path, &copy));
    }
    Ok(format!("{path} has no hook of orion-mark any more"))
}

/// An extension or a plugin: a file of its own.
fn file(profile: &AgentProfile, place: &HookPlace, args: &MarkInstall) -> Result<String, Error> {
    let source = place::source(profile)?;
    let path = place.path.display();
    let there = place.text()?;
    if args.remove {
        let Some(file) = &place.file else { return Ok(format!("{path} is not there")) };
        ours(place)?;
        if args.dry_run {
            return Ok(format!("{path} would be removed"));
        }
        settings_file::remove(&place.path, file).map_err(|error| cannot(&place.path, &error))?;
        return Ok(format!("{path} is removed"));
    }
    if there == source {
        return Ok(format!("{path} is there already"));
    }
    if place.file.is_some() {
        ours(place)?;
    }
    if args.dry_run {
        return Ok(format!("{path} would be changed so:\n{}", changes(there, &source)));
    }
    write(place, source.as_bytes())?;
    Ok(format!("{path} is there now"))
}

fn ours(place: &HookPlace) -> Result<(), Error> {
    if place.is_ours()? {
        return Ok(());
    }
    let what = format!("{} is there and orion-mark did not make it: it stays as it is", place.path.display());
    Err(Error::config(what).hint("move it away"))
}

fn write(place: &HookPlace, bytes: &[u8]) -> Result<(), Error> {
    let before: Option<&SettingsFile> = place.file.as_ref();
    settings_file::replace(&place.path, before, bytes).map_err(|error| cannot(&place.path, &error))
}

fn cannot(path: &Path, error: &std::io::Error) -> Error {
    if error.raw_os_error() == Some(nix::libc::EBUSY) {
        let what = format!("{}: somebody changed it while we looked; nothing was changed", path.display());
        return Error::new(Kind::CannotCreate, what).hint("try again");
    }
    Error::new(Kind::CannotCreate, format!("{}: {}; nothing was changed", path.display(), reason(error)))
}

/// The lines that differ, old ones with `-` and new ones with `+`.
fn changes(before: &str, after: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let head = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
    let room = old.len().min(new.len()) - head;
    let tail =
        old.iter().rev().zip(new.iter().rev()).take(room).take_while(|(one, other)| one == other).count();
    let gone = old[head..old.len() - tail].iter().map(|line| format!("-{line}"));
    let come = new[head..new.len() - tail].iter().map(|line| format!("+{line}"));
    gone.chain(come).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_that_differ_are_shown() {
        assert_eq!(changes("a\nb\nc\n", "a\nx\ny\nc\n"), "-b\n+x\n+y");
        assert_eq!(changes("", "a\n"), "+a");
        assert_eq!(changes("a\na\n", "a\na\na\n"), "+a");
        assert_eq!(changes("a\n", "a\n"), "");
    }
}
