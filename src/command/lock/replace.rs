//! `run --replace`: ask the holder to end, wait for that, and take the lock.

use super::end_holder::{HolderEnd, Wanted, end_holder};
use super::refuse::{Relation, relation};
use super::stop::PATIENCE;
use super::wait::TakeResult;
use crate::cli::shared::{Patience, Wait};
use crate::command::owner::callers;
use crate::command::records::{AcquireOutcome, AcquireRequest, Records};
use crate::error::Error;
use crate::model::name::LockName;
use crate::report::Report;
use crate::verdict::liveness::State;
use std::time::Instant;

/// Takes the lock, ending its holder first. Only the holder that was seen first is asked, and nobody is killed.
pub(super) fn replace(
    report: &Report,
    store: &Records,
    name: &LockName,
    request: &AcquireRequest<'_>,
    wait: &Wait,
) -> Result<TakeResult, Error> {
    let judged = match store.acquire(name, request)? {
        AcquireOutcome::AcquiredLock(acquired) => return Ok(TakeResult::Yes(acquired)),
        AcquireOutcome::NotTaken(judged) => judged,
    };
    let callers = callers()?;
    let relation =
        request.owners.first().map_or(Relation::Stranger, |me| relation(store, &judged, me, &callers));
    let token = judged.record().map(|record| record.token);
    let (State::Live(_), Relation::Stranger, Some(token)) = (judged.state(), relation, token) else {
        return Ok(TakeResult::No(Box::new(judged), relation));
    };
    super::end_holder::not_our_own(store, name, &judged)?;
    let me = store.me()?;
    let patience = match wait.wait {
        None => Some(PATIENCE),
        Some(Patience::For(patience)) => Some(patience),
        Some(Patience::Forever) => None,
    };
    let wanted = Wanted {
        token,
        until: patience.and_then(|patience| Instant::now().checked_add(patience)),
        kill_at: None,
        all_ended: false,
        by: &format!("asked by run --replace (pid {}, uid {})", me.pid, me.uid),
    };
    if let HolderEnd::StillThere(judged, _) = end_holder(store, name, &wanted)? {
        report.say(&format!(
            "{name}: its holder was asked to end and has not; to kill it: \
             orion-lock stop --kill-after 10s --token {token} {name}"
        ));
        return Ok(TakeResult::No(Box::new(judged), Relation::Stranger));
    }
    // Not ours to ask, should somebody else have been faster.
    Ok(match store.acquire(name, request)? {
        AcquireOutcome::AcquiredLock(acquired) => TakeResult::Yes(acquired),
        AcquireOutcome::NotTaken(judged) => TakeResult::No(Box::new(judged), Relation::Stranger),
    })
}
