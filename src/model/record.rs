//! The owner record: who holds a lock (or a ticket), since when, with which token.

use crate::model::host::{HostIdentity, INITIAL_PID_NS};
use crate::model::identity::ProcessIdentity;
use crate::model::time::WallTime;
use crate::model::token::TOKEN_MAX;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::time::Duration;

/// The format this version writes. A higher number is left untouched.
pub(crate) const SCHEMA: u64 = 1;
/// The format of a lock's record that is one of several: a version that knows only [`SCHEMA`] leaves it alone,
/// and so lets nobody in beside members that it cannot see.
pub(crate) const MEMBER_SCHEMA: u64 = 2;
/// A record above this many bytes is not ours.
pub(crate) const MAX_BYTES: usize = 64 * 1024;
/// The longest note, bytes: written six times as long (`\u0001`), it leaves a record far below [`MAX_BYTES`].
pub(crate) const NOTE_MAX: usize = 4 * 1024;
/// `kind` of a lock's record.
pub(crate) const LOCK: &str = "lock";
/// `kind` of a ticket claim's record.
pub(crate) const CLAIM: &str = "claim";
/// `attrs.via` of a record whose owner's end is the normal end (`run`).
pub(crate) const VIA_RUN: &str = "run";
/// `attrs.via` of a record that expects a release (`acquire`).
pub(crate) const VIA_ACQUIRE: &str = "acquire";
/// `attrs.via` of a record that a person keeps by hand (`hold`).
pub(crate) const VIA_HOLD: &str = "hold";
/// In `attrs`: the pid of the owner that waits for its command's tree (`run --tree`).
pub(crate) const SUPERVISOR: &str = "supervisor";
/// In `attrs`: who freed it by hand (`break`).
pub(crate) const BROKEN_BY: &str = "broken_by";

/// The record as written.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) schema: u64,
    /// [`LOCK`] or [`CLAIM`].
    pub(crate) kind: String,
    pub(crate) name: String,
    /// Fencing token, 1 to 2^53 - 2.
    pub(crate) token: u64,
    /// LIVE if any of them is; at least one.
    pub(crate) owners: Vec<ProcessIdentity>,
    pub(crate) host: HostIdentity,
    /// RFC 3339, UTC; shown only.
    pub(crate) acquired_at: String,
    /// Where its pulse was taken; absent: none was, or an older version wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pulse: Option<PulseFile>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_tick: Option<LastTick>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
    /// Set by release; a record with it is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) released_at: Option<String>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(crate) attrs: Map<String, Value>,
}

/// The file that a pulse was taken on, whatever stands at its name by now (stat(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PulseFile {
    pub(crate) dev: u64,
    pub(crate) ino: u64,
}

/// "Work passed here, and will again within `every_s`".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LastTick {
    /// RFC 3339, UTC; shown only.
    pub(crate) utc: String,
    /// CLOCK_BOOTTIME, microseconds: proves a restart when it lies ahead of now.
    pub(crate) boottime_us: u64,
    /// CLOCK_MONOTONIC, microseconds: awake time, for "stuck".
    pub(crate) monotonic_us: u64,
    /// Inode of the time namespace both were read in: not always the owner's. Absent: the kernel has none,
    /// or an older version wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) time_ns: Option<u64>,
    /// The promise in seconds; absent: none was made, never stuck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) every_s: Option<u64>,
}

impl Record {
    /// What CLOCK_BOOTTIME was when it was written and ticked, microseconds, each with the inode of the time
    /// namespace it was read in.
    pub(crate) fn boot_stamps(&self) -> impl Iterator<Item = (u64, Option<u64>)> + '_ {
        let tick = self.last_tick.iter().map(|tick| (tick.boottime_us, tick.time_ns));
        std::iter::once((self.host.boottime_us, self.host.time_ns)).chain(tick)
    }

    /// Is it one of several, with a slot or a share?
    pub(crate) fn is_member(&self) -> bool {
        self.schema == MEMBER_SCHEMA
    }

    /// When it was acquired, if that can be read.
    pub(crate) fn since(&self) -> Option<WallTime> {
        WallTime::parse(&self.acquired_at)
    }

    /// How it was taken: [`VIA_RUN`], [`VIA_ACQUIRE`] or what a newer tool wrote.
    pub(crate) fn via(&self) -> Option<&str> {
        self.attrs.get("via")?.as_str()
    }

    /// The owner that only waits for the tree of its command (`run --tree`).
    pub(crate) fn supervisor(&self) -> Option<&ProcessIdentity> {
        let pid = self.attrs.get(SUPERVISOR)?.as_u64()?;
        self.owners.iter().find(|owner| u64::from(owner.pid) == pid)
    }

    /// How far the holder is behind its promise: `Some` only when it has ticked with one and
    /// more awake time than promised has passed. Silence without a promise is never stuck, and
    /// clocks of two time namespaces are not compared.
    pub(crate) fn overdue(&self, now: impl FnOnce() -> AwakeTime) -> Option<Duration> {
        let tick = self.last_tick.as_ref()?;
        let promised = Duration::from_secs(tick.every_s?);
        let now = now();
        let silent = Duration::from_micros(now.monotonic_us.checked_sub(tick.monotonic_us)?);
        (tick.time_ns == now.time_ns && silent > promised).then_some(silent)
    }
}

/// A reading of CLOCK_MONOTONIC and where it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AwakeTime {
    pub(crate) monotonic_us: u64,
    /// Inode of the time namespace; `None` where the kernel has none.
    pub(crate) time_ns: Option<u64>,
}

/// Why bytes are not a record we may act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BadRecord {
    /// `schema` is above [`SCHEMA`].
    Newer(u64),
    /// Our writer cannot have written it; says why.
    Corrupt(String),
}

/// A record together with the exact bytes and every field of it, known or not.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) record: Record,
    pub(crate) bytes: Vec<u8>,
    fields: Map<String, Value>,
}

impl Stored {
    /// Reads the record of the `kind` called `name`.
    ///
    /// # Errors
    /// [`BadRecord`]; no bytes at all can make it panic.
    pub(crate) fn parse(bytes: &[u8], kind: &str, name: &str) -> Result<Self, BadRecord> {
        let corrupt = |why: &str| BadRecord::Corrupt(why.to_owned());
        match bytes.len() {
            0 => return Err(corrupt("empty")),
            length if length > MAX_BYTES => return Err(corrupt("larger than 64 KiB")),
            _ => {}
        }
        let fields = match serde_json::from_slice(bytes) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => return Err(corrupt("not a JSON object")),
            Err(error) => {
                return Err(BadRecord::Corrupt(format!(
                    "not JSON (line {}, column {})",
                    error.line(),
                    error.column()
                )));
            }
        };
        match fields.get("schema").and_then(Value::as_u64) {
            Some(SCHEMA) => {}
            Some(MEMBER_SCHEMA) if kind == LOCK => {}
            Some(newer) if newer > SCHEMA => return Err(BadRecord::Newer(newer)),
            _ => return Err(corrupt("no schema number")),
        }
        let record: Record = serde_json::from_value(Value::Object(fields.clone()))
            .map_err(|error| BadRecord::Corrupt(error.to_string()))?;
        if record.kind != kind || record.name != name {
            return Err(corrupt("the record of something else"));
        }
        if !(1..=TOKEN_MAX).contains(&record.token) {
            return Err(corrupt("token out of range"));
        }
        let init_owns = record.owners.iter().any(|owner| owner.pid == 1);
        if record.owners.is_empty() || (init_owns && record.host.pid_ns == Some(INITIAL_PID_NS)) {
            return Err(corrupt("no possible owner"));
        }
        Ok(Self { record, bytes: bytes.to_vec(), fields })
    }

    /// The same record with some fields replaced and every other one, known or not, kept.
    pub(crate) fn patched(&self, changes: &[(&str, Value)]) -> Vec<u8> {
        let mut fields = self.fields.clone();
        for (key, value) in changes {
            fields.insert((*key).to_owned(), value.clone());
        }
        line(&Value::Object(fields))
    }
}

/// A note as typed.
///
/// # Errors
/// It is too long.
pub(crate) fn note(text: Option<&str>) -> Result<Option<String>, String> {
    match text {
        Some(text) if text.len() > NOTE_MAX => {
            Err(format!("the note is too long: {} bytes; at most {NOTE_MAX} are kept", text.len()))
        }
        other => Ok(other.map(str::to_owned)),
    }
}

/// A fresh record's bytes.
pub(crate) fn bytes(record: &Record) -> Vec<u8> {
    // Serialising plain data with text keys cannot fail; an empty record would be read back as corrupt.
    let mut bytes = serde_json::to_vec(record).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

fn line(value: &Value) -> Vec<u8> {
    let mut bytes = value.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
