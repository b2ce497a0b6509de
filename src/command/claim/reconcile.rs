//! `reconcile`: one pass over everything in flight. Whatever a dead run left is
//! healed; whatever cannot be told is kept and said.

use super::facts::view;
use super::repair::{Healed, Healing, failed, forget, heal_key};
use super::{ClaimCall, Claims, attrs, name_of};
use crate::cli::claim::ClaimReconcile;
use crate::command::records::Judged;
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::model::claim::Phase;
use crate::model::name::LockName;
use crate::model::ticket::{Key, Ticket};
use crate::tracker::{Failure, Why};
use crate::verdict::liveness::State;
use crate::verdict::reconcile::{Action, TicketVerdict};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What stopped a pass as a whole.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The tracker.
    Tracker(Failure),
    /// This machine.
    Here(Error),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Tracker(failure)
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Here(error)
    }
}

impl From<Trouble> for Error {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Tracker(failure) => failure.into(),
            Trouble::Here(error) => error,
        }
    }
}

/// What a pass came to.
pub(super) struct ReconcilePass {
    pub(super) rows: Vec<(Key, Healed)>,
    /// Tickets that could not be read.
    pub(super) broken: Vec<String>,
}

pub(super) fn reconcile(call: &ClaimCall, args: &ClaimReconcile) -> Result<Status, Error> {
    let claims = call.claims()?;
    let mut pass = pass(&claims, args.dry_run)?;
    wait_for_takeovers(&claims, &mut pass);
    let worth_saying = |healed: &Healed| healed.report || healed.outcome != Healing::Kept;
    if call.report.json {
        let rows: Vec<Value> = pass.rows.iter().map(|(key, healed)| row(key, healed)).collect();
        let done = pass.rows.iter().filter(|(_, healed)| healed.done()).count();
        drop(call.report.object(&json!({
            "tracker": claims.settings.address.canonical(),
            "dry_run": args.dry_run,
            "seen": pass.rows.len(),
            "healed": done,
            "tickets": rows,
            "unreadable": pass.broken,
            "requests": claims.tracker.requests(),
        })));
    } else {
        for (key, healed) in &pass.rows {
            if worth_saying(healed) || call.report.verbose {
                drop(call.report.data(&healed.line(key)));
            }
        }
        for line in &pass.broken {
            call.report.warning(line);
        }
        call.report.detail(&format!("{} requests", claims.tracker.requests()));
    }
    let all_well =
        pass.rows.iter().all(|(_, healed)| !matches!(healed.outcome, Healing::Failed(_)) && !healed.stranded);
    Ok(if all_well && pass.broken.is_empty() { Exit::Ok } else { Exit::Unavailable }.into())
}

/// They were begun all at once; a watch goes on instead, and sees them in a later pass.
fn wait_for_takeovers(claims: &Claims, pass: &mut ReconcilePass) {
    let Some(rows) = &claims.rows else { return };
    for (key, healed) in pass.rows.iter_mut().filter(|(_, healed)| healed.outcome == Healing::Begun) {
        healed.outcome = if rows.wait_for(key) {
            Healing::Done
        } else {
            Healing::Failed("it came back, or somebody else takes it over".to_owned())
        };
    }
}

fn row(key: &Key, healed: &Healed) -> Value {
    let (outcome, error) = match &healed.outcome {
        Healing::Kept => ("kept", None),
        Healing::Planned => ("planned", None),
        Healing::Done => ("done", None),
        Healing::Begun => ("begun", None),
        Healing::Failed(why) => ("failed", Some(why)),
    };
    let mut row = json!({
        "key": key.as_str(),
        "action": format!("{:?}", healed.action).chars().fold(String::new(), snake),
        "outcome": outcome,
        "report": healed.report,
        "reason": healed.reason,
    });
    if let Some(why) = error {
        row["error"] = json!(why);
    }
    row
}

fn snake(mut text: String, c: char) -> String {
    if c.is_ascii_uppercase() && !text.is_empty() {
        text.push('_');
    }
    text.push(c.to_ascii_lowercase());
    text
}

/// One pass. Costs the list of what is in flight, and a look at each ticket that
/// something may have to be done about.
///
/// # Errors
/// When there is no list, or our own records cannot be read.
pub(super) fn pass(claims: &Claims, dry_run: bool) -> Result<ReconcilePass, Trouble> {
    if let Some(rows) = &claims.rows {
        rows.begin_pass();
    }
    // Our records first: one that appears later is of a claim that is going on.
    let names = claims.store.names()?;
    let listing = claims.tracker.in_flight()?;
    let mut seen = BTreeSet::new();
    let mut rows = Vec::new();
    for ticket in &listing.tickets {
        seen.insert(ticket.key.as_str());
        rows.push((ticket.key.clone(), of_ticket(claims, ticket, &names, dry_run)?));
    }
    for name in &names {
        if seen.contains(name.as_str()) {
            continue;
        }
        let Some(key) = Key::new(name.as_str()) else { continue };
        let judged = claims.store.look(name);
        if let Some(healed) = of_record(claims, &key, &judged, dry_run)? {
            rows.push((key, healed));
        }
    }
    let mut broken = listing.broken;
    if let Some(why) = claims.rows.as_ref().and_then(|rows| rows.trouble()) {
        broken.push(format!(
            "what other machines hold could not be asked, so nothing of theirs is taken over: {why}"
        ));
    }
    Ok(ReconcilePass { rows, broken })
}

/// A ticket that carries the lock.
fn of_ticket(
    claims: &Claims,
    ticket: &Ticket,
    recorded: &[LockName],
    dry_run: bool,
) -> Result<Healed, Trouble> {
    let name = name_of(&ticket.key)?;
    let judged = claims.look_in(recorded, &name);
    let first = view(claims, &ticket.key, &judged, ticket, None)?;
    if first.judgement.action != Action::Keep {
        return go_on(claims, &ticket.key, &judged, &first.judgement, dry_run);
    }
    if first.record.is_some() || !first.judgement.report {
        return Ok(Healed::of(&first.judgement, Healing::Kept));
    }
    // Perhaps a claim that is younger than our look at the records, or has ended since.
    let ticket = match claims.tracker.ticket(&ticket.key) {
        Ok(ticket) => ticket,
        Err(failure) if !failure.is_passing() => return Err(failure.into()),
        Err(failure) => return Ok(Healed::of(&unread(&ticket.key, &failure), Healing::Kept)),
    };
    let second = view(claims, &ticket.key, &claims.store.look(&name), &ticket, None)?;
    // What is to be done about it can wait for the next pass.
    let kept = TicketVerdict { action: Action::Keep, ..second.judgement };
    Ok(Healed::of(&kept, Healing::Kept))
}

/// A record whose ticket is not in the list: handed over, closed, taken off, gone.
fn of_record(claims: &Claims, key: &Key, judged: &Judged, dry_run: bool) -> Result<Option<Healed>, Trouble> {
    match (judged.state(), judged.record()) {
        (State::Free, _) => return Ok(None),
        // A claim that is being made.
        (State::Live(_), Some(record)) if matches!(attrs(record).state, Phase::Intent | Phase::Gated) => {
            return Ok(None);
        }
        _ => {}
    }
    let ticket = match claims.tracker.ticket(key) {
        Ok(ticket) => ticket,
        Err(failure) if !failure.is_passing() => return Err(failure.into()),
        Err(failure) => {
            let judgement = unread(key, &failure);
            let dead = failure.why() == Why::NoTicket && judged.state() == &State::Dead;
            return Ok(Some(if dead && !dry_run {
                forget(claims, key, &failure).unwrap_or_else(|error| failed(&judgement, &error))
            } else {
                Healed::of(&judgement, Healing::Kept)
            }));
        }
    };
    let first = view(claims, key, judged, &ticket, None)?;
    if first.judgement.action == Action::Keep {
        return Ok(Some(Healed::of(&first.judgement, Healing::Kept)));
    }
    go_on(claims, key, judged, &first.judgement, dry_run).map(Some)
}

fn unread(key: &Key, failure: &Failure) -> TicketVerdict {
    TicketVerdict {
        action: Action::Keep,
        report: true,
        stranded: false,
        reason: format!("{key} could not be read: {failure}"),
    }
}

/// Something may have to be done: everything is read again, and then it is.
fn go_on(
    claims: &Claims,
    key: &Key,
    judged: &Judged,
    first: &TicketVerdict,
    dry_run: bool,
) -> Result<Healed, Trouble> {
    if !dry_run {
        return match heal_key(claims, key) {
            Ok(healed) => Ok(healed),
            Err(error) if error.kind() == crate::error::Kind::Config => Err(error.into()),
            Err(error) => Ok(failed(first, &error)),
        };
    }
    let look = || -> Result<Healed, Failure> {
        let ticket = claims.tracker.ticket(key)?;
        let events = claims.tracker.events(key)?;
        let view = view(claims, key, judged, &ticket, Some(&events))?;
        let kept = matches!(view.judgement.action, Action::Keep | Action::Look);
        Ok(Healed::of(&view.judgement, if kept { Healing::Kept } else { Healing::Planned }))
    };
    Ok(look().unwrap_or_else(|failure| failed(first, &failure.into())))
}
