//! `free`: a person says that nobody works on a ticket any more. Everything that
//! can be proved to live is still refused.

use super::hand_over::swap_to;
use super::{ClaimCall, Claims, attrs, tell, undo, workers};
use crate::cli::claim::ClaimFree as Args;
use crate::command::tell as words;
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::model::arbiter::Arbiter;
use crate::model::claim::{FREED, Goal, Phase};
use crate::model::ticket::{Key, Swapped, Ticket, newest_labeled};
use crate::report::escape;
use crate::verdict::arbitrate;
use crate::verdict::liveness::{State, Through};
use serde_json::json;

pub(super) fn free(call: &ClaimCall, args: &Args) -> Result<Status, Error> {
    let claims = call.claims()?;
    let (key, name) = claims.key(&args.key)?;
    let judged = claims.store.look(&name);
    if let State::Live(holder @ Through::Owner(_)) = judged.state() {
        return Err(Error::new(
            Kind::Held,
            words::held(
                &claims.store,
                &name,
                &judged,
                *holder,
                words::is_stopped(&claims.store, &judged, *holder),
            ),
        )
        .hint("it lives on this machine; end it instead"));
    }
    if let State::Newer(schema) = judged.state() {
        return Err(crate::command::records::newer(&name, &claims.store, *schema));
    }
    let ticket = claims.tracker.ticket(&key)?;
    check_host(&claims, &key, &ticket, args.host.as_deref())?;
    let labels = &claims.settings.labels;
    let record = judged.record().filter(|record| record.released_at.is_none());
    // A claim that was cut short took the queue label off, whatever else is on the ticket.
    let cut_short = record.is_some_and(|record| matches!(attrs(record).state, Phase::Intent | Phase::Gated));
    let nowhere = |label: &&str| !ticket.has(label);
    let [queue, working, ci_wait, ..] = labels.managed();
    let stranded = !ticket.closed
        && (labels.managed().iter().all(nowhere)
            || (cut_short && [queue, working, ci_wait].iter().all(nowhere)));
    // Whoever has its ref never came to take it out of the queue.
    let only_ref = labels.in_queue(&ticket) && has_ref(&claims, &key)?;
    // Whatever else is wrong, a claim of this machine that nobody lives in can be given up.
    let only_here = record.is_some() && !labels.in_flight(&ticket) && !stranded;
    let only_marker = labels.in_queue(&ticket) && !standing_markers(&claims, &key)?.is_empty();
    if !(labels.in_flight(&ticket) || stranded || only_ref || only_here || only_marker) {
        return Err(Error::new(
            Kind::Usage,
            format!("{key} is not claimed: its labels are {}", claims.labels_of(&ticket)),
        )
        .hint("there is nothing to free"));
    }
    let left = match judged.state() {
        State::Live(_) => claims.store.carriers(&name, &judged).pids,
        _ => Vec::new(),
    };
    if !args.yes {
        let still = if left.is_empty() {
            String::new()
        } else {
            format!(", although its run left processes that still work: {}", workers::named(&left))
        };
        let what = match () {
            () if ticket.closed => "would lose its lock",
            () if only_here || only_ref || only_marker => "would be given up by its claim; its labels stay",
            () => "would go back into the queue",
        };
        return Err(Error::usage(format!("{key} {what}{still}"))
            .hint("if you have made sure that nobody works on it, add --yes"));
    }
    if let Some(rows) = &claims.rows {
        rows.free(&key)?;
    }
    let swapped = if only_ref || only_here || only_marker {
        Swapped::Done(None)
    } else if ticket.closed {
        undo::unlock(&claims, &key, &ticket)?
    } else if stranded {
        undo::queue_back(&claims, &key)?
    } else {
        take_off(&claims, &key, &ticket)?
    };
    match swapped {
        Swapped::Done(_) => {}
        Swapped::Changed(why) => {
            return Err(Error::new(
                Kind::Lost,
                format!("{key} changed meanwhile, and nothing was written: {why}"),
            ));
        }
        Swapped::Unconfirmed(why) => return Err(Error::new(Kind::CannotTell, format!("{key}: {why}"))),
    }
    if !left.is_empty() {
        call.report.warning(&format!("{key}: freed while these still run: {}", workers::named(&left)));
    }
    drop_ref(&claims, &key);
    if only_marker {
        for (comment, nonce) in standing_markers(&claims, &key)? {
            claims.tracker.void(&key, comment, &nonce)?;
        }
    }
    if let Some(record) = record {
        claims.close(&name, record.token, FREED)?;
        if let Some(worktree) = attrs(record).worktree {
            call.report.notice(&format!("{key}: its work is in {}", escape(worktree.as_bytes(), 300)));
        }
    }
    tell(&call.report, json!({"key": key.as_str(), "freed": true}));
    Ok(Exit::Ok.into())
}

/// A ticket that names its machine is only freed by whoever names it too.
fn check_host(claims: &Claims, key: &Key, ticket: &Ticket, said: Option<&str>) -> Result<(), Error> {
    let labels = &claims.settings.labels;
    let on_it: Vec<&String> =
        ticket.labels.iter().filter(|label| label.starts_with(&labels.host_prefix)).collect();
    let names = |host: &str| on_it.iter().any(|label| **label == labels.host(host));
    let shown: Vec<String> =
        on_it.iter().map(|label| escape(&label.as_bytes()[labels.host_prefix.len()..], 60)).collect();
    match said {
        // Not held at all is for the caller to say.
        Some(_) if !ticket.labels.contains(&labels.working) => Ok(()),
        Some(host) if !names(host) => Err(Error::usage(format!(
            "{key} is not held by machine {}, but by {}",
            escape(host.as_bytes(), 60),
            if shown.is_empty() { "one that it does not name".to_owned() } else { shown.join(", ") }
        ))
        .hint("nothing was changed")),
        None if !on_it.is_empty() && !names(&claims.settings.host) => {
            Err(Error::usage(format!("{key} is held by machine {}", shown.join(", ")))
                .hint(format!("if that machine is gone: --host {}", shown[0])))
        }
        _ => Ok(()),
    }
}

fn take_off(claims: &Claims, key: &Key, ticket: &Ticket) -> Result<Swapped, Error> {
    // Whoever claims it anew in this moment keeps it.
    let events = if claims.tracker.can().event_ids { claims.tracker.events(key)? } else { Vec::new() };
    let mark = newest_labeled(&events, &claims.settings.labels.working).map(|event| event.id.clone());
    Ok(swap_to(claims, key, ticket, Some(Goal::Queue), mark)?)
}

/// Markers that lead or could lead the round of a ticket that nobody works on: comment, nonce.
fn standing_markers(claims: &Claims, key: &Key) -> Result<Vec<(u64, String)>, Error> {
    if claims.arbiter != Arbiter::CommentOrder {
        return Ok(Vec::new());
    }
    let round = arbitrate::round(&claims.tracker.events(key)?, &claims.settings.labels.queue);
    Ok(arbitrate::standing(&claims.tracker.comments(key)?, round.as_ref()))
}

fn has_ref(claims: &Claims, key: &Key) -> Result<bool, Error> {
    Ok(claims.git.as_ref().map_or(Ok(None), |git| git.read(key))?.is_some())
}

fn drop_ref(claims: &Claims, key: &Key) {
    let Some(git) = &claims.git else { return };
    let dropped = git.read(key).and_then(|found| match found {
        Some((id, _)) => git.delete(key, &id).map(drop),
        None => Ok(()),
    });
    if let Err(failure) = dropped {
        claims.report.warning(&format!("{key}: its git ref is still there: {failure}"));
    }
}
