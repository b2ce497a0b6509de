//! Taking back what a claim put on the tracker before it was won, or after it was over:
//! the queue label it took off, the marker it wrote, the ref it made. Used by the claim
//! itself and by the pass that heals after it.

use super::{Claims, facts};
use crate::model::arbiter::Arbiter;
use crate::model::claim::Attrs;
use crate::model::ticket::{Expect, Key, Swap, Swapped, Ticket};
use crate::tracker::Failure;
use crate::verdict::arbitrate;

/// Puts the queue label back on an open ticket that nobody works on. The caller has proved
/// that the gate was its own.
pub(super) fn queue_back(claims: &Claims, key: &Key) -> Result<Swapped, Failure> {
    let labels = &claims.settings.labels;
    let lacks = [&labels.working, &labels.ci_wait].map(Clone::clone).to_vec();
    let expect = Expect { lacks, open: Some(true), ..Expect::default() };
    claims.tracker.swap(key, &Swap { add: vec![labels.queue.clone()], expect, ..Swap::default() })
}

/// Makes the markers of this nonce void: who does not work on a ticket must not lead its round.
pub(super) fn void_markers(claims: &Claims, key: &Key, nonce: &str) -> Result<(), Failure> {
    let comments = claims.tracker.comments(key)?;
    for comment in arbitrate::own_markers(&comments, nonce) {
        claims.tracker.void(key, comment, nonce)?;
    }
    Ok(())
}

/// Deletes the ticket's ref, or gives its row back, while that holds this nonce; nothing to do where neither decides.
pub(super) fn give_ref_back(claims: &Claims, key: &Key, nonce: &str) -> Result<(), Failure> {
    if let Some(rows) = &claims.rows {
        rows.give_back(key, nonce)?;
    }
    let Some(git) = &claims.git else { return Ok(()) };
    match facts::own_ref(claims, key, nonce)? {
        Some(id) => git.delete(key, &id).map(drop),
        None => Ok(()),
    }
}

/// Takes back what the arbiter of a claim needed, once its ticket has moved: the ref, and
/// the marker where the ticket never left the queue, so that its round goes on. `before` is
/// the ticket as it was before it moved.
pub(super) fn traces(claims: &Claims, key: &Key, attrs: &Attrs, before: &Ticket) -> Result<(), Failure> {
    if before.has(&claims.settings.labels.queue) {
        marker(claims, key, attrs)?;
    }
    give_ref_back(claims, key, &attrs.nonce)
}

/// Makes the marker of a claim void, where comments decided.
pub(super) fn marker(claims: &Claims, key: &Key, attrs: &Attrs) -> Result<(), Failure> {
    if attrs.arbiter() != Some(Arbiter::CommentOrder) || attrs.nonce.is_empty() {
        return Ok(());
    }
    void_markers(claims, key, &attrs.nonce)
}

/// The lock off a closed ticket.
pub(super) fn unlock(claims: &Claims, key: &Key, ticket: &Ticket) -> Result<Swapped, Failure> {
    let labels = &claims.settings.labels;
    let mut remove = vec![labels.working.clone()];
    remove.extend(labels.stage_and_host(ticket));
    let expect = Expect { open: Some(false), ..Expect::default() };
    claims.tracker.swap(key, &Swap { remove, expect, ..Swap::default() })
}
