//! `run --replace`: ask the holder to end, wait for that, and take the lock.

use super::end_holder::{HolderEnd, Wanted, end_holder};
use super::refuse::{Refused, Relation, relation};
use super::stop::PATIENCE;
use super::wait::TakeResult;
use crate::cli::shared::{Patience, Wait};
use crate::command::owner::callers;
use crate::command::records::{AcquireOutcome, AcquireRequest, LockMember, NameState, Records};
use crate::command::tell_again;
use crate::error::Error;
use crate::model::name::LockName;
use crate::report::Report;
use crate::verdict::admission::Admission;
use crate::verdict::liveness::State;
use crate::verdict::pause::PauseState;
use std::time::Instant;

/// Takes the lock, ending its holder first. Only the holder that was seen first is asked, and nobody is killed.
pub(super) fn replace(
    report: &Report,
    store: &Records,
    name: &LockName,
    request: &AcquireRequest<'_>,
    wait: &Wait,
) -> Result<TakeResult, Error> {
    let (why, state) = match store.acquire(name, request, false)? {
        AcquireOutcome::Acquired(acquired) => return Ok(TakeResult::Yes(acquired)),
        AcquireOutcome::NotTaken(why, state) => (why, state),
        AcquireOutcome::NotAgain(last) => return Ok(TakeResult::Skip(tell_again::refusal(name, &last))),
    };
    if matches!(state.pause, PauseState::Paused(_)) {
        // Nobody is asked to end for a run that may not begin.
        let relation = Relation::Stranger;
        return Ok(TakeResult::No(Box::new(Refused {
            why: Admission::Paused,
            relation,
            mode: request.mode,
            state,
        })));
    }
    let callers = callers()?;
    let mode = request.mode;
    let to = |state: &NameState| {
        let me = request.owners.first();
        me.map_or(Relation::Stranger, |me| relation(store, name, state, mode, me, &callers))
    };
    let refused = |why, relation, state| TakeResult::No(Box::new(Refused { why, relation, mode, state }));
    let several: Vec<String> = state.there().filter_map(token_of).collect();
    if several.len() > 1 {
        return Err(Error::usage(format!(
            "--replace: {name} has {} holders, with the tokens {}",
            several.len(),
            several.join(", ")
        ))
        .hint(format!("end the one that is meant: orion-lock stop --token N {name:#}")));
    }
    let relation = to(&state);
    let judged = state.leading();
    let token = judged.record().map(|record| record.token);
    let (State::Live(_), Relation::Stranger, Some(token)) = (judged.state(), relation, token) else {
        return Ok(refused(why, relation, state));
    };
    super::end_holder::not_our_own(store, name, judged)?;
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
    if let HolderEnd::StillThere(..) = end_holder(store, name, &wanted)? {
        report.notice(&format!(
            "{name}: its holder was asked to end and has not; to kill it: \
             orion-lock stop --kill-after 10s --token {token} {name:#}"
        ));
        return Ok(refused(Admission::Held, Relation::Stranger, store.state_of(name)));
    }
    // Not ours to ask, should somebody else have been faster.
    Ok(match store.acquire(name, request, false)? {
        AcquireOutcome::Acquired(acquired) => TakeResult::Yes(acquired),
        AcquireOutcome::NotTaken(why, state) => refused(why, Relation::Stranger, state),
        AcquireOutcome::NotAgain(last) => TakeResult::Skip(tell_again::refusal(name, &last)),
    })
}

fn token_of(member: &LockMember) -> Option<String> {
    Some(member.judged.record()?.token.to_string())
}
