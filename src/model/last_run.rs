//! The last run of a name, and what may be asked of it: `--once`, `--once-ok`, `--cooldown`.

use crate::model::record::{Record, VIA_HOLD};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// `attrs.once`: the key that a run was asked to run once for.
const ONCE: &str = "once";
/// `attrs.ended`: when its run ended, beside `released_at`, which the wall clock alone tells.
pub(crate) const ENDED: &str = "ended";
/// `attrs.executed`: `false` where the command could not be executed, so that nothing ran.
const EXECUTED: &str = "executed";
/// `attrs.last_run`: the last run before a record of something that was not a run.
const LAST_RUN: &str = "last_run";
/// The longest key, bytes.
const KEY_MAX: usize = 1024;

/// A run whose command was executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastRun {
    pub(crate) token: u64,
    /// RFC 3339, UTC; shown only.
    pub(crate) began: String,
    /// The key of `--once`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// Absent: it runs, or nobody has seen its end yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended: Option<EndStamp>,
}

/// A moment, by the clock that nobody can set and by the one that outlives a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EndStamp {
    /// RFC 3339, UTC.
    pub(crate) utc: String,
    /// CLOCK_BOOTTIME, microseconds.
    #[serde(default)]
    pub(crate) boottime_us: u64,
    /// The boot it is of; absent: only `utc` counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) boot_id: Option<String>,
    /// Inode of the time namespace it was read in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) time_ns: Option<u64>,
    /// Nobody saw the end: this is the first look that found it dead.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) found: bool,
    /// Exit status, where somebody stood by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<u8>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(value: &bool) -> bool {
    !value
}

/// What a caller asks of the last run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RepeatTerms {
    pub(crate) once: Option<OnceKey>,
    /// So long after its end nothing is to run.
    pub(crate) cooldown: Option<Duration>,
}

/// `--once KEY` or `--once-ok KEY`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OnceKey {
    pub(crate) key: String,
    /// Only a run that ended with 0 counts.
    pub(crate) only_ok: bool,
}

impl RepeatTerms {
    /// Is anything asked?
    pub(crate) fn is_asked(&self) -> bool {
        self.once.is_some() || self.cooldown.is_some()
    }

    /// Does the answer of the next one need this run's status?
    pub(crate) fn needs_status(&self) -> bool {
        self.once.as_ref().is_some_and(|once| once.only_ok)
    }

    /// What the record of a run says of it.
    pub(crate) fn attrs(&self) -> Map<String, Value> {
        let key = self.once.iter().map(|once| (ONCE.to_owned(), json!(once.key)));
        key.collect()
    }
}

/// A key as typed.
///
/// # Errors
/// It is empty or too long.
pub(crate) fn key(text: &str) -> Result<String, String> {
    match text.len() {
        0 => Err("the key is empty".to_owned()),
        length if length > KEY_MAX => Err(format!("the key has {length} bytes; at most {KEY_MAX}")),
        _ => Ok(text.to_owned()),
    }
}

/// What the record of a run whose command could not be executed says of that, and of the last that was.
pub(crate) fn not_executed(before: Option<&LastRun>) -> Vec<(&'static str, Value)> {
    let mut attrs = vec![(EXECUTED, json!(false))];
    attrs.extend(before.map(|before| (LAST_RUN, json!(before))));
    attrs
}

/// What the record of somebody who runs nothing keeps of the last run.
pub(crate) fn kept(before: &LastRun) -> (String, Value) {
    (LAST_RUN.to_owned(), json!(before))
}

impl Record {
    /// The last run that this record knows of: its own, or where it is that of no run, the one before.
    pub(crate) fn last_run(&self) -> Option<LastRun> {
        let is_run = self.via() != Some(VIA_HOLD) && self.attrs.get(EXECUTED) != Some(&Value::Bool(false));
        if !is_run {
            return serde_json::from_value(self.attrs.get(LAST_RUN)?.clone()).ok();
        }
        Some(LastRun {
            token: self.token,
            began: self.acquired_at.clone(),
            key: self.attrs.get(ONCE).and_then(Value::as_str).map(str::to_owned),
            ended: self.ended(),
        })
    }

    /// When it was released, or was first found dead by somebody who wrote that down.
    pub(crate) fn ended(&self) -> Option<EndStamp> {
        let stamp = self.attrs.get(ENDED).and_then(|stamp| serde_json::from_value(stamp.clone()).ok());
        // An older version released it.
        stamp.or_else(|| Some(EndStamp { utc: self.released_at.clone()?, ..EndStamp::default() }))
    }
}
