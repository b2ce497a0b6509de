//! `orion-mark profile`: what is known about agents, for people and for orion-fire.

use super::{check, profiles};
use crate::cli::mark::MarkProfile;
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::model::agent_profile::{AgentProfile, HookForm};
use crate::report::Report;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// `orion-mark profile [AGENT]`.
///
/// # Errors
/// [`crate::error::Kind::Unreachable`] for an agent without a profile.
pub(super) fn profile(args: &MarkProfile, report: &Report) -> Result<Status, Error> {
    // By these an agent knows that it runs inside of another one, whichever that is.
    let known = profiles::all()?;
    let nested: BTreeSet<&String> = known.iter().flat_map(|one| &one.env_drop).collect();
    let nested: Vec<String> = nested.into_iter().map(|name| format!("env-drop {name}")).collect();
    let profiles = match args.agent.as_ref().map(|agent| profiles::find(agent)) {
        Some(Ok(found)) => vec![found],
        Some(Err(error)) => {
            if !args.json {
                report.or_broken_pipe(report.data(&nested.join("\n")))?;
            }
            return Err(error);
        }
        None => known.clone(),
    };
    if args.json {
        let objects: Vec<Value> = profiles.iter().map(object).collect();
        report.or_broken_pipe(report.object(&json!({ "agents": objects })))?;
        return Ok(Exit::Ok.into());
    }
    let texts: Vec<String> = match &args.agent {
        Some(_) => profiles.iter().map(|one| lines(one, &nested)).collect(),
        None => {
            profiles.iter().map(|one| format!("{:<10} {:<12} {}", one.name, hooks(one), one.title)).collect()
        }
    };
    report.or_broken_pipe(report.data(&texts.join("\n")))?;
    Ok(Exit::Ok.into())
}

/// Are its hooks there? `environment` where orion-fire sets them, `none` where there are none.
fn hooks(profile: &AgentProfile) -> &'static str {
    match profile.hooks.form {
        HookForm::None => "none",
        HookForm::Environment => "environment",
        _ if check::anywhere(profile).is_ok() => "complete",
        _ => "missing",
    }
}

/// One fact a line, a word before it: orion-fire reads this.
fn lines(profile: &AgentProfile, nested: &[String]) -> String {
    let mut lines = vec![
        format!("name {}", profile.name),
        format!("title {}", profile.title),
        format!("hooks {}", hooks(profile)),
    ];
    if profile.owner_only {
        lines.push("owner-only".to_owned());
    }
    if profile.outlives {
        lines.push("outlives".to_owned());
    }
    lines.extend(profile.argument.iter().map(|argument| format!("argument {argument}")));
    lines.extend(profile.residents.iter().map(|name| format!("resident {name}")));
    lines.extend_from_slice(nested);
    lines.extend(profile.hooks.environment.iter().map(|(name, value)| format!("env {name}={value}")));
    lines.extend(profile.quit.iter().map(|text| format!("quit {text}")));
    lines.extend(profile.prompt.iter().map(|text| format!("prompt {text}")));
    lines.push(format!("hup {}", profile.hup));
    lines.extend(profile.tried.iter().map(|one| format!("tried {} {}: {}", one.on, one.version, one.what)));
    lines.join("\n")
}

fn object(profile: &AgentProfile) -> Value {
    let event = |event: &crate::model::agent_profile::HookEvent| json!({"on": event.on, "matcher": event.matcher, "mark": event.mark, "since": event.since});
    let tried = |one: &crate::model::agent_profile::AgentTried| json!({"version": one.version, "on": one.on, "what": one.what});
    json!({
        "name": profile.name,
        "title": profile.title,
        "commands": profile.commands,
        "hooks": hooks(profile),
        "events": profile.hooks.events.iter().map(event).collect::<Vec<_>>(),
        "todo": profile.hooks.todo,
        "argument": profile.argument,
        "owner_only": profile.owner_only,
        "outlives": profile.outlives,
        "residents": profile.residents,
        "env_drop": profile.env_drop,
        "quit": profile.quit,
        "prompt": profile.prompt,
        "hup": profile.hup,
        "tried": profile.tried.iter().map(tried).collect::<Vec<_>>(),
    })
}
