//! Who still works on a ticket: the processes that carry the pulse of its claim.

use super::Claims;
use crate::command::tell as words;
use crate::model::identity::ProcessIdentity;
use crate::model::name::LockName;
use crate::model::record::Record;
use crate::os::proc;
use crate::os::process::{self, Pin};
use std::collections::BTreeSet;

/// So many callers of a process are looked at; a longer chain is a loop.
const DEEPEST: usize = 200;
/// So many are named.
const SHOWN: usize = 4;

/// The carriers of the pulse besides `excused` and whoever called those: a shell that
/// hands its ticket over does not wait for itself.
pub(super) fn besides(claims: &Claims, name: &LockName, token: u64, excused: &[u32]) -> Vec<u32> {
    let mut spared: BTreeSet<u32> = BTreeSet::new();
    for first in excused {
        let mut next = Some(*first);
        for _ in 0..DEEPEST {
            let Some(pid) = next.filter(|pid| *pid > 0 && spared.insert(*pid)) else { break };
            next = proc::stat(pid).ok().map(|stat| stat.ppid);
        }
    }
    let carriers = claims.store.carriers_of(name, token).pids;
    carriers.into_iter().filter(|pid| !spared.contains(pid)).collect()
}

/// The owners of a record that still run, by number.
pub(super) fn owners(record: &Record) -> Vec<u32> {
    let running = |owner: &&ProcessIdentity| matches!(process::pin(owner), Pin::Running(_));
    record.owners.iter().filter(running).map(|owner| owner.pid).collect()
}

/// `913 (node), 914 (sleep) and 2 more`.
pub(super) fn named(pids: &[u32]) -> String {
    words::some(pids, SHOWN, |pid| words::seen_now(*pid))
}
