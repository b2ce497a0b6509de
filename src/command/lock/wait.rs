//! Taking a lock, at once or after waiting for its holder.

use super::owner::callers;
use super::refuse::{Relation, relation};
use crate::cli::lock::{Patience, Wait};
use crate::command::store::{Acquired, Judged, Outcome, Request, Store};
use crate::error::Error;
use crate::model::name::LockName;
use crate::verdict::liveness::State;
use std::time::{Duration, Instant};

/// How often a held lock is looked at.
const POLL: Duration = Duration::from_millis(20);

/// What it came to.
pub(super) enum Taken {
    Yes(Box<Acquired>),
    No(Box<Judged>, Relation),
}

/// Acquires, waiting as long as `wait` says.
pub(super) fn take(
    store: &Store,
    name: &LockName,
    request: &Request<'_>,
    wait: &Wait,
) -> Result<Taken, Error> {
    let end = match wait.wait {
        None => Some(Instant::now()),
        Some(Patience::For(duration)) => Instant::now().checked_add(duration),
        Some(Patience::Forever) => None,
    };
    let mut above: Option<Vec<u32>> = None;
    loop {
        let judged = match store.acquire(name, request)? {
            Outcome::Acquired(acquired) => return Ok(Taken::Yes(acquired)),
            Outcome::NotTaken(judged) => judged,
        };
        if above.is_none() {
            above = Some(callers()?);
        }
        let relation = request.owners.first().map_or(Relation::Stranger, |owner| {
            relation(&judged, owner, above.as_deref().unwrap_or_default())
        });
        let waits = relation == Relation::Stranger && worth_waiting(&judged);
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if !waits || left.is_some_and(|left| left.is_zero()) {
            return Ok(Taken::No(Box::new(judged), relation));
        }
        std::thread::sleep(left.map_or(POLL, |left| left.min(POLL)));
    }
}

/// A record that cannot be read will not get better; an owner that cannot be judged may end.
fn worth_waiting(judged: &Judged) -> bool {
    match judged.state() {
        State::Live(_) => true,
        State::Unknown(_) => judged.record().is_some(),
        _ => false,
    }
}
