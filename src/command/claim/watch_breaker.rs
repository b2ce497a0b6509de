//! The breaker of the watches of one tracker on this machine: its state in a file, which
//! outlives them, and what an open breaker gives back to the queue.

use super::output::last_lines;
use super::{Claims, attrs, name_of};
use crate::cli::claim_run::ClaimWatch;
use crate::command::local_time;
use crate::command::records::event_of;
use crate::error::Error;
use crate::model::claim::Goal;
use crate::model::duration;
use crate::model::event::Event;
use crate::model::ticket::{Expect, Key, Swap, Swapped};
use crate::model::time::WallTime;
use crate::os::plain_file;
use crate::os::{clock, random};
use crate::verdict::breaker::{Allowed, Breaker, BreakerRules, BreakerTurn, QuickEnd};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

/// Without `--quick`, `--trip` and `--retry-after`.
const RULES: BreakerRules = BreakerRules {
    quick: Duration::from_secs(30),
    quick_success: false,
    trip: 3,
    retry_after: Duration::from_secs(60),
};
/// A leading dot is not a ticket's.
const FILE: &str = ".breaker.json";
/// Fifty endings are some kilobytes.
const CAP: u64 = 1 << 16;

/// The breaker of one watch.
pub(super) struct WatchBreaker {
    rules: BreakerRules,
    state: Breaker,
}

impl WatchBreaker {
    /// As asked for, in the state that the last watch left.
    ///
    /// # Errors
    /// USAGE for a number that cannot be meant.
    pub(super) fn open(claims: &Claims, args: &ClaimWatch) -> Result<Self, Error> {
        let rules = BreakerRules {
            quick: args.quick.unwrap_or(RULES.quick),
            quick_success: args.quick_success,
            trip: args.trip.map_or(RULES.trip, |trip| usize::try_from(trip).unwrap_or(usize::MAX)),
            retry_after: args.retry_after.unwrap_or(RULES.retry_after),
        };
        if rules.trip == 0 {
            return Err(Error::usage("--trip is at least one ticket; --quick 0 turns the breaker off"));
        }
        let state = if rules.quick.is_zero() { Breaker::default() } else { load(claims) };
        if let Some(line) = line(&state) {
            claims.report.warning(&line);
        }
        Ok(Self { rules, state })
    }

    /// Puts back what failed because of us and is not back yet: its watch was killed, or the tracker was away.
    pub(super) fn mend(&mut self, claims: &Claims) {
        let is_open = self.is_open();
        let failed = self.state.row.iter_mut().filter(|end| is_open && end.failed);
        let mut any = !self.state.owed.is_empty();
        for end in failed {
            any = true;
            end.failed = !give_back(claims, end);
        }
        self.state.owed.retain(|end| !give_back(claims, end));
        if any {
            keep(claims, &self.state);
        }
    }

    /// Is nothing claimed but one ticket to try?
    pub(super) fn is_open(&self) -> bool {
        self.state.open_since.is_some()
    }

    /// What may be claimed now; `tries` says that a trial runs.
    pub(super) fn allows(&self, tries: bool) -> Allowed {
        self.state.allows(tries, clock::wall().seconds())
    }

    /// How long until a ticket may be tried.
    pub(super) fn until_trial(&self) -> Option<Duration> {
        match self.allows(false) {
            Allowed::NotBefore(at) => {
                let left = Duration::from_secs(at.saturating_sub(clock::wall().seconds()));
                Some(left.max(Duration::from_millis(100)))
            }
            _ => None,
        }
    }

    /// Takes note of how a run ended, and acts when that turned the breaker. `before` is the last
    /// token of the ticket before the run: only another one means that its command ran.
    pub(super) fn count(&mut self, claims: &Claims, key: &Key, before: Option<u64>) {
        let Ok(name) = name_of(key) else { return };
        let judged = claims.store.look(&name);
        let Some(record) = judged.record().filter(|record| Some(record.token) > before) else { return };
        let attrs = attrs(record);
        let Some(result) = attrs.result else { return };
        let end = QuickEnd {
            key: key.as_str().to_owned(),
            token: record.token,
            status: result.status,
            failed: attrs.ended.as_deref() == Some(Goal::Failed.as_str()),
            at_ms: clock::wall().0,
            stderr: result.stderr,
        };
        let ran = Duration::from_millis(result.ran_ms);
        let row = self.state.row.clone();
        let turn = self.state.ended(self.rules, end, ran, random::fraction());
        let report = &claims.report;
        match turn {
            // The row outlives us too.
            BreakerTurn::Nothing if self.state.row == row => {}
            BreakerTurn::Nothing => keep(claims, &self.state),
            BreakerTurn::Opened | BreakerTurn::StillOpen => {
                // First of all, so that whatever ends us now is mended by the next watch.
                keep(claims, &self.state);
                self.mend(claims);
                report.warning(&format!("{}{}", line(&self.state).unwrap_or_default(), self.successes()));
            }
            BreakerTurn::Closed => {
                keep(claims, &self.state);
                self.mend(claims);
                report.warning("the breaker of watch is closed: a run was not quick");
            }
            BreakerTurn::Doubtful => {
                keep(claims, &self.state);
                report.warning(&format!(
                    "{} tickets in a row ended with 0 within {}; if that is not work done (a limit that is printed): --quick-success",
                    self.rules.trip,
                    duration::show(self.rules.quick)
                ));
            }
        }
    }

    /// Tickets of the row whose commands said 0: where they went is left to a person.
    fn successes(&self) -> String {
        let row = self.state.row.iter().filter(|end| end.status == 0 && self.rules.quick_success);
        let keys: BTreeSet<&str> = row.map(|end| end.key.as_str()).collect();
        if keys.is_empty() {
            return String::new();
        }
        let keys: Vec<&str> = keys.into_iter().collect();
        format!("; these ended at once with 0 and stay where they went: {}", keys.join(", "))
    }
}

/// The state; a new one where there is none, or none that can be read.
pub(super) fn load(claims: &Claims) -> Breaker {
    let bytes = plain_file::read(&claims.store.path().join(FILE), CAP).map(|content| content.bytes);
    bytes.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

/// Keeps the state. One that cannot be kept is said: a restart would forget it.
fn keep(claims: &Claims, breaker: &Breaker) {
    let (path, temp) = (claims.store.path().join(FILE), claims.store.path().join(".breaker.tmp"));
    let bytes = serde_json::to_vec(breaker).unwrap_or_default();
    if let Err(error) = plain_file::replace(&path, &temp, &bytes, 0o600) {
        claims.report.warning(&format!("{}: {}", path.display(), crate::error::reason(&error)));
    }
}

/// For people, while it is open: since when, why, and when the next ticket is tried.
pub(super) fn line(breaker: &Breaker) -> Option<String> {
    let since = WallTime(breaker.open_since?.saturating_mul(1000));
    let again = WallTime(breaker.retry_at.saturating_mul(1000));
    let keys: BTreeSet<&str> = breaker.row.iter().map(|end| end.key.as_str()).collect();
    let last = breaker.row.last();
    let status = last.map_or(0, |end| end.status);
    let said = last.and_then(|end| last_lines(end.stderr.as_ref()?, 1).pop());
    let said = said.map_or_else(String::new, |line| format!(" and '{line}'"));
    Some(format!(
        "the breaker of watch is open since {}: {} tickets in a row ended at once, the last one with status {status}{said}; \
         nothing is claimed but one ticket to try, at {}",
        local_time::show(since),
        keys.len(),
        local_time::show(again)
    ))
}

/// Puts a ticket that failed by a quick ending back into the queue, if nobody touched it since.
fn give_back(claims: &Claims, end: &QuickEnd) -> bool {
    let Some(key) = Key::new(&end.key) else { return true };
    match moved_back(claims, &key, end) {
        Ok(moved) => moved,
        Err(why) => {
            claims
                .report
                .warning(&format!("{key}: it failed because of us, and is not back in the queue: {why}"));
            false
        }
    }
}

/// Moved, or no longer ours to move.
fn moved_back(claims: &Claims, key: &Key, end: &QuickEnd) -> Result<bool, String> {
    let name = name_of(key).map_err(|error| error.to_string())?;
    let judged = claims.store.look(&name);
    let Some(record) = judged.record().filter(|record| record.token == end.token) else { return Ok(true) };
    let attrs = attrs(record);
    if attrs.ended.as_deref() != Some(Goal::Failed.as_str()) {
        return Ok(true);
    }
    let labels = &claims.settings.labels;
    let lacks = [&labels.queue, &labels.working, &labels.ci_wait, &labels.ready].map(Clone::clone).to_vec();
    let expect = Expect {
        has: vec![labels.failed.clone()],
        lacks,
        open: Some(true),
        // Claimed by nobody since.
        mark: attrs.working_event().map(|id| (labels.working.clone(), id)),
    };
    let (add, remove) = (vec![labels.queue.clone()], vec![labels.failed.clone()]);
    match claims.tracker.swap(key, &Swap { add, remove, expect, signature: None }) {
        Ok(Swapped::Done(_)) => {
            let why = "back in the queue: it failed because of us (the breaker of watch opened)";
            let changes = [("ended", json!(Goal::Queue.as_str())), ("why", json!(why))];
            if let Err(error) = claims.store.amend_released(&name, end.token, &changes) {
                claims.report.warning(&format!("{key}: {error}"));
            }
            let event = Event { detail: Some(why.to_owned()), ..event_of("released", &name, record) };
            claims.store.log(&name, &[event]);
            Ok(true)
        }
        // A person was there.
        Ok(Swapped::Changed(_)) => Ok(true),
        Ok(Swapped::Unconfirmed(why)) => Err(why),
        Err(failure) => Err(failure.to_string()),
    }
}
