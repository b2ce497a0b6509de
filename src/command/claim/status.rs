//! `status`: who holds a ticket, here and on the ticket itself.

use super::facts::view;
use super::output::last_lines;
use super::{ClaimCall, attrs, tell, watch_breaker};
use crate::cli::claim::KeyArg as Args;
use crate::command::logged::line;
use crate::command::tell as words;
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::model::duration;
use crate::os::signals;
use crate::report::escape;
use crate::verdict::liveness::State;
use crate::verdict::reconcile::Action;
use serde_json::json;

/// So many of the last events of the log are shown.
const SHOWN: usize = 10;

pub(super) fn status(call: &ClaimCall, args: &Args) -> Result<Status, Error> {
    let claims = call.claims()?;
    let (key, name) = claims.key(&args.key)?;
    let ticket = claims.tracker.ticket(&key)?;
    let events = claims.tracker.events(&key)?;
    let judged = claims.store.look(&name);
    let view = view(&claims, &key, &judged, &ticket, Some(&events))?;
    let working = claims.settings.labels.in_flight(&ticket);
    let exit = match judged.state() {
        State::Live(_) => crate::command::tell::exit_of(&judged),
        State::Newer(_) => Exit::DataErr,
        State::Unknown(_) => Exit::Unavailable,
        // Somebody has it, and nothing here can say whether they live.
        _ if working && view.record.is_none() => Exit::Unavailable,
        _ => Exit::Ok,
    };
    let heals = !matches!(view.judgement.action, Action::Keep | Action::Look);
    if call.report.json {
        let mut object = json!({
            "key": key.as_str(),
            "tracker": claims.settings.address.canonical(),
            "title": ticket.title,
            "closed": ticket.closed,
            "labels": ticket.labels,
            "link": ticket.link,
            "working": working,
            "claim": words::object(&claims.store, &name, &judged),
            "reason": view.judgement.reason,
            "heals": heals,
        });
        if let Some(record) = judged.record() {
            let attrs = attrs(record);
            object["attrs"] = json!({
                "state": attrs.state.as_str(),
                "via": attrs.via,
                "arbiter": attrs.arbiter,
                "mark": attrs.working_event,
                "branch": attrs.branch,
                "worktree": attrs.worktree,
                "handing_over_to": attrs.handing.map(|handing| handing.to.as_str()),
                "deaths": attrs.deaths.map(|deaths| deaths.count),
                "resume": attrs.resume,
                "ended": attrs.ended,
                "why": attrs.why,
                "result": attrs.result,
                "given_back": attrs.given_back,
            });
            object["stage"] = json!(claims.stage_of(&key, record.token));
        }
        tell(&call.report, object);
        return Ok(exit.into());
    }
    let mut lines = vec![format!("{key}: {}", escape(ticket.title.as_bytes(), 120))];
    let closed = if ticket.closed { "closed; labels: " } else { "labels: " };
    lines.push(format!("  {closed}{}", claims.labels_of(&ticket)));
    lines.push(match (judged.state(), judged.record()) {
        (State::Live(holder), _) => format!(
            "  {}",
            words::held(
                &claims.store,
                &name,
                &judged,
                *holder,
                words::is_stopped(&claims.store, &judged, *holder)
            )
        ),
        (State::Free, Some(record)) => {
            let last = attrs(record);
            let ended = last.ended.unwrap_or_else(|| "released".to_owned());
            let why = last.why.map_or_else(String::new, |why| format!(": {}", escape(why.as_bytes(), 200)));
            format!("  last claim here: {ended} (token {}){why}", record.token)
        }
        (State::Free, None) => format!("  never claimed here ({})", claims.store.path().display()),
        (State::Dead, _) => "  claimed here; its run has ended".to_owned(),
        _ => format!("  {}", words::refusal(&claims.store, &name, &judged)),
    });
    if let Some(record) = &view.record {
        lines.push(format!("  stage: {}", claims.stage_of(&key, record.token)));
        for (what, value) in [("branch", &view.attrs.branch), ("worktree", &view.attrs.worktree)] {
            if let Some(value) = value {
                lines.push(format!("  {what}: {}", escape(value.as_bytes(), 300)));
            }
        }
    }
    if let Some(result) = judged.record().and_then(|record| attrs(record).result) {
        let ran = duration::show(std::time::Duration::from_millis(result.ran_ms));
        let signal =
            result.signal.map_or_else(String::new, |it| format!(", killed by {}", signals::name(it)));
        lines.push(format!("  its command ended with status {}{signal} after {ran}", result.status));
        if let Some(path) = result.stderr {
            lines.push(format!("  its stderr is in {}", escape(path.as_bytes(), 300)));
            if call.report.verbose {
                lines.extend(last_lines(&path, SHOWN).iter().map(|line| format!("    {line}")));
            }
        }
    }
    lines.extend(watch_breaker::line(&watch_breaker::load(&claims)).map(|line| format!("  {line}")));
    let verdict = if heals { "the next reconcile pass heals it: " } else { "" };
    lines.push(format!("  {verdict}{}", view.judgement.reason));
    if call.report.verbose {
        let container = crate::os::host::container();
        let log = claims.store.read_log(name.file());
        lines.extend(
            log[log.len().saturating_sub(SHOWN)..]
                .iter()
                .map(|event| format!("  {}", line(event, container))),
        );
        lines.extend(judged.judgement.evidence.iter().map(|line| format!("  {line}")));
        lines.extend(ticket.link.iter().map(|link| format!("  {}", escape(link.as_bytes(), 300))));
    }
    drop(call.report.data(&lines.join("\n")));
    Ok(exit.into())
}
