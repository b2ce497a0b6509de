//! `orion-mark check`: are an agent's hooks there, complete and current?

use super::place::{self, HookOwner, HookPlace};
use super::profiles;
use crate::cli::mark::MarkCheck;
use crate::env;
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::model::agent_profile::{AgentProfile, HookForm};
use crate::report::Report;

/// `orion-mark check AGENT`.
///
/// # Errors
/// [`crate::error::Kind::Config`] with what is missing.
pub(super) fn check(args: &MarkCheck, report: &Report) -> Result<Status, Error> {
    let profile = profiles::find(&args.agent)?;
    let said = match HookOwner::of(args.project, args.file.as_ref()) {
        HookOwner::Person => anywhere(&profile)?,
        whose => look(&profile, whose)?,
    };
    report.or_broken_pipe(report.data(&said))?;
    Ok(Exit::Ok.into())
}

/// In the person's own settings or in those of the project in this directory: an agent reads both.
///
/// # Errors
/// As [`check`], about the person's own.
pub(super) fn anywhere(profile: &AgentProfile) -> Result<String, Error> {
    look(profile, HookOwner::Person).or_else(|error| {
        let project = profile.hooks.project.as_ref().map(|_| look(profile, HookOwner::Project));
        project.and_then(Result::ok).ok_or(error)
    })
}

fn look(profile: &AgentProfile, whose: HookOwner<'_>) -> Result<String, Error> {
    let hooks = &profile.hooks;
    let install = match whose {
        HookOwner::Person => format!("orion-mark install {}", profile.name),
        HookOwner::Project => format!("orion-mark install {} --project", profile.name),
        HookOwner::File(file) => format!("orion-mark install {} --file {}", profile.name, file.display()),
    };
    match hooks.form {
        HookForm::None => Err(Error::config(format!("{} has no hooks", profile.title))
            .hint("orion-reap --idle-match and --trust-screen can look at its screen")),
        HookForm::Environment => {
            let missing = hooks
                .environment
                .iter()
                .find(|(name, value)| env::text(name).as_deref() != Some(value.as_str()));
            match missing {
                None => Ok(format!("{}: its variables are set here", profile.title)),
                Some((name, value)) => Err(Error::config(format!("{name} is not '{value}' here"))
                    .hint(format!("orion-fire sets it for its run; elsewhere: export {name}='{value}'"))),
            }
        }
        HookForm::File => {
            let place = HookPlace::read(profile, whose)?;
            let path = place.path.display();
            if place.text()? == place::source(profile)? {
                return Ok(format!("{}: {path} is there and current", profile.title));
            }
            let what = match (&place.file, place.is_ours()?) {
                (None, _) => format!("{path} is missing"),
                (Some(_), true) => format!("{path} is of another version"),
                (Some(_), false) => format!("{path} is there, but orion-mark did not make it"),
            };
            Err(Error::config(what).hint(install))
        }
        HookForm::Json | HookForm::Toml => {
            let place = HookPlace::read(profile, whose)?;
            let path = place.path.display();
            let all = place::wanted(profile, None);
            let (mut missing, mut more) = place.compare(hooks.form, &all)?;
            let mut version = None;
            if !(missing.is_empty() && more.is_empty()) {
                // An old version does not know every event. Asked only now: it may take a second.
                version = place::version(profile);
                (missing, more) = place.compare(hooks.form, &place::wanted(profile, version.as_deref()))?;
            }
            if missing.is_empty() && more.is_empty() {
                return Ok(format!("{}: {} hooks in {path}", profile.title, all.len()));
            }
            let missing = missing.iter().map(|hook| format!("'{}' is missing", hook.show()));
            let more = more.iter().map(|hook| format!("'{}' is out of date", hook.show()));
            let list: Vec<String> = missing.chain(more).collect();
            let version = version.map_or_else(String::new, |version| format!(" (version {version})"));
            Err(Error::config(format!("{}{version}, {path}: {}", profile.title, list.join(", ")))
                .hint(install))
        }
    }
}
