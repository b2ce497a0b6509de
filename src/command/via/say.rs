//! What people are told about a lock on a database: one line for 3 am.

use crate::command::local_time;
use crate::command::tell_again::RanWords;
use crate::model::duration;
use crate::model::time::WallTime;
use crate::model::via::ViaRow;
use crate::report::escape;
use std::time::Duration;

/// How much of a name or a note is shown.
const SHOWN: usize = 120;

/// `pid 812 (pi, uid 1000) on db1`; a number is shown only with its host.
pub(super) fn who(row: &ViaRow) -> String {
    match &row.holder {
        Some(holder) => format!(
            "pid {} ({}, uid {}) on {}",
            holder.pid,
            escape(holder.comm.as_bytes(), SHOWN),
            holder.uid,
            escape(holder.host.as_bytes(), SHOWN)
        ),
        None => "somebody".to_owned(),
    }
}

/// The server's times, as the rest of these tools writes them.
pub(super) fn time(text: Option<&String>) -> Option<WallTime> {
    let text = text?;
    // PostgreSQL writes UTC as +00:00.
    WallTime::parse(&format!("{}Z", text.strip_suffix("+00:00")?))
}

fn ago(seconds: Option<f64>) -> String {
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.map_or_else(String::new, |time| format!(", {}", duration::show(time)))
}

fn since(row: &ViaRow) -> String {
    time(row.acquired_at.as_ref())
        .map_or_else(String::new, |at| format!(" since {}{}", local_time::show_long(at), ago(row.held_s)))
}

fn tail(row: &ViaRow) -> String {
    let note = row.holder.as_ref().and_then(|holder| holder.note.as_ref());
    let note = note.map_or_else(String::new, |note| format!("; note: {}", escape(note.as_bytes(), SHOWN)));
    let stuck = row.overdue().map_or_else(String::new, |silent| {
        format!("; stuck: promised to tick and has been silent for {}", duration::show(silent))
    });
    format!("; token {}{note}{stuck}", row.token)
}

/// Its session has the lock.
pub(super) fn held(row: &ViaRow) -> String {
    format!("{} is held by {}{}{}", row.name, who(row), since(row), tail(row))
}

/// A claimant waits with the lock.
pub(super) fn being_taken(row: &ViaRow) -> String {
    if row.is_taken() {
        format!(
            "{} is being taken over: {} lost the database, and another run waits until it must have stopped{}",
            row.name,
            who(row),
            tail(row)
        )
    } else {
        format!("{} is being taken by another run just now", row.name)
    }
}

/// Nobody has the lock, and it was not given back.
pub(super) fn cut(row: &ViaRow) -> String {
    format!(
        "{}: cannot tell whether {} still runs: it holds the lock{} and has no session with the database{}",
        row.name,
        who(row),
        since(row),
        tail(row)
    )
}

/// What a claimant waits for.
pub(super) fn settling(row: &ViaRow, young: bool, need: Duration) -> String {
    let need = duration::show(need);
    if row.is_taken() {
        format!(
            "{}: {} lost the database; it is taken over in {need}, when that run must have stopped",
            row.name,
            who(row)
        )
    } else {
        debug_assert!(young);
        format!(
            "{}: the database was promoted or restored and may have lost a holder; it is taken in {need}",
            row.name
        )
    }
}

/// The last run of a row, for those who ask not to run again.
pub(super) fn ran(row: &ViaRow) -> RanWords<'_> {
    RanWords {
        key: row.ran_key.as_deref(),
        began: time(row.ran_at.as_ref()),
        ended_ago: ran_ended_ago(row),
        is_found: false,
        status: row.ran_status,
        token: row.ran_token,
    }
}

/// How long ago it ended, by the server's clock.
pub(super) fn ran_ended_ago(row: &ViaRow) -> Option<Duration> {
    row.ran_ended_s.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}
