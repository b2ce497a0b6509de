//! A pass as text and as JSON. Everything from outside is escaped here, once.

use super::case::{Fate, ReapPass, ReapRow};
use crate::model::name::LockName;
use crate::report::escape;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Titles and evidence are cut at this many characters.
const TEXT: usize = 200;

/// Counts of a pass.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) dry_run: bool,
    pub(crate) seen: usize,
    pub(crate) closed: usize,
    pub(crate) kept: BTreeMap<&'static str, usize>,
    pub(crate) processes_before: usize,
    pub(crate) processes_after: usize,
    pub(crate) memory_before: u64,
    pub(crate) memory_after: u64,
    pub(crate) survivors: Vec<String>,
}

impl Summary {
    /// Counts rows. Processes and memory are those pinned before a close.
    pub(crate) fn of(rows: &[ReapRow], dry_run: bool) -> Self {
        let mut summary = Self { dry_run, seen: rows.len(), ..Self::default() };
        for row in rows {
            match &row.fate {
                Fate::Kept(keep) => *summary.kept.entry(keep.reason.word()).or_default() += 1,
                Fate::Closed | Fate::WouldClose => summary.closed += 1,
            }
            summary.processes_before += row.processes.len();
            summary.processes_after += row.survivors.len();
            summary.memory_before += row.memory;
            summary.memory_after += row.survivors.iter().map(|survivor| survivor.memory).sum::<u64>();
            summary.survivors.extend(row.survivors.iter().map(|survivor| {
                format!(
                    "pid {} ({}, state {})",
                    survivor.pid,
                    escape(survivor.comm.as_bytes(), 20),
                    survivor.state
                )
            }));
        }
        summary
    }

    /// The last line a person reads.
    pub(crate) fn line(&self) -> String {
        let kept: usize = self.kept.values().sum();
        let reasons: Vec<String> = self.kept.iter().map(|(word, count)| format!("{word} {count}")).collect();
        let reasons = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) };
        let verb = if self.dry_run { "would close" } else { "closed" };
        let mut line = format!("seen {}, {verb} {}, kept {kept}{reasons}", self.seen, self.closed);
        if self.processes_before > 0 {
            line.push_str(&format!(
                "; agent processes {} before, {} after; memory {} before, {} after",
                self.processes_before,
                self.processes_after,
                mebibytes(self.memory_before),
                mebibytes(self.memory_after)
            ));
        }
        line
    }

    fn json(&self) -> Value {
        json!({
            "seen": self.seen,
            "closed": if self.dry_run { 0 } else { self.closed },
            "would_close": if self.dry_run { self.closed } else { 0 },
            "kept": self.kept.values().sum::<usize>(),
            "kept_by_reason": self.kept,
            "processes_before": self.processes_before,
            "processes_after": self.processes_after,
            "memory_before_bytes": self.memory_before,
            "memory_after_bytes": self.memory_after,
        })
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.saturating_add(1 << 19) >> 20)
}

/// Text for a terminal.
fn safe(text: &str) -> String {
    escape(text.as_bytes(), TEXT)
}

/// The lines of one terminal: its fate, and with `evidence` every condition.
pub(crate) fn lines(row: &ReapRow, evidence: bool) -> Vec<String> {
    let of = row.automation().map(|name| format!(" {}", safe(name))).unwrap_or_default();
    let title = match safe(&row.terminal.title) {
        title if title.is_empty() => String::new(),
        title => format!(" \"{title}\""),
    };
    let fate = match &row.fate {
        Fate::Kept(keep) => format!("kept, {}: {}", keep.reason.word(), safe(&keep.evidence)),
        Fate::WouldClose => "would be closed".to_owned(),
        Fate::Closed if row.processes.is_empty() => "closed (its processes are not known)".to_owned(),
        Fate::Closed => {
            let count = row.processes.len();
            let s = if count == 1 { "" } else { "es" };
            format!("closed ({count} process{s}, {})", mebibytes(row.memory))
        }
    };
    let mut lines = vec![format!("{} {}{of}{title}: {fate}", safe(&row.runner), safe(&row.terminal.id))];
    if evidence {
        for condition in &row.conditions {
            let holds = match condition.holds {
                Some(true) => "yes",
                Some(false) => "no",
                None => "-",
            };
            lines.push(
                format!("  {:<12} {holds:<3} {}", condition.name, safe(&condition.evidence))
                    .trim_end()
                    .to_owned(),
            );
        }
    }
    for quiet in row.quiet_jobs.iter().filter(|_| !evidence) {
        lines.push(format!("  {}", safe(quiet)));
    }
    let stays = |pid: u32| row.survivors.iter().any(|survivor| survivor.pid == pid);
    lines.extend(row.ended.iter().filter(|one| !stays(one.pid)).map(|one| {
        let comm = escape(one.comm.as_bytes(), 20);
        format!("  survived the close and was ended: pid {} ({comm})", one.pid)
    }));
    lines.extend(row.survivors.iter().map(|survivor| {
        let comm = escape(survivor.comm.as_bytes(), 20);
        let asked = if row.ended.iter().any(|one| one.pid == survivor.pid) {
            ", was sent TERM and still runs"
        } else {
            ""
        };
        let what = if row.fate == Fate::Closed { "survived the close" } else { "still runs" };
        format!("  {what}: pid {} ({comm}), state {}{asked}", survivor.pid, survivor.state)
    }));
    lines.extend(end_with(row).iter().map(|command| format!("  to end what survived: {command}")));
    lines
}

/// The commands that end what survived: by the lock where it carries the pulse of the run, else by its number.
fn end_with(row: &ReapRow) -> Vec<String> {
    if row.fate != Fate::Closed {
        return Vec::new();
    }
    let of_lock =
        |pid: u32| row.carriers.contains(&pid) && row.pulses.iter().any(|pulse| pulse.lock.is_some());
    let (carriers, others): (Vec<u32>, Vec<u32>) =
        row.survivors.iter().map(|survivor| survivor.pid).partition(|pid| of_lock(*pid));
    let locks = row.pulses.iter().filter(|_| !carriers.is_empty()).filter_map(|pulse| {
        let name = LockName::from_stem(pulse.lock.as_deref()?.as_bytes())?;
        Some(format!("orion-lock stop --token {} {name:#}", pulse.token))
    });
    let kill = others.iter().fold("kill".to_owned(), |line, pid| format!("{line} {pid}"));
    locks.chain((!others.is_empty()).then_some(kill)).collect()
}

/// The whole pass as one object.
pub(crate) fn object(pass: &ReapPass, summary: &Summary) -> Value {
    let terminals: Vec<Value> = pass.rows.iter().map(terminal).collect();
    json!({
        "dry_run": summary.dry_run,
        "terminals": terminals,
        "warnings": pass.warnings.iter().map(|text| safe(text)).collect::<Vec<_>>(),
        "summary": summary.json(),
    })
}

fn terminal(row: &ReapRow) -> Value {
    let (action, keep) = match &row.fate {
        Fate::Kept(keep) => ("kept", Some(keep)),
        Fate::WouldClose => ("would_close", None),
        Fate::Closed => ("closed", None),
    };
    let conditions: Vec<Value> = row
        .conditions
        .iter()
        .map(|one| json!({"name": one.name, "holds": one.holds, "evidence": safe(&one.evidence)}))
        .collect();
    let stays = |pid: u32| row.survivors.iter().any(|survivor| survivor.pid == pid);
    let survivors: Vec<Value> = row
        .survivors
        .iter()
        .map(|one| {
            json!({"pid": one.pid, "comm": escape(one.comm.as_bytes(), 20), "state": one.state.to_string(),
                "memory_bytes": one.memory})
        })
        .collect();
    json!({
        "runner": safe(&row.runner),
        "id": safe(&row.terminal.id),
        "title": safe(&row.terminal.title),
        "automation": row.automation().map(safe),
        "action": action,
        "reason": keep.map(|keep| keep.reason.word()),
        "evidence": keep.map(|keep| safe(&keep.evidence)),
        "busy": row.proved_busy,
        "last_output_at": row.terminal.output.moved.map(crate::model::time::WallTime::rfc3339),
        "last_output_s": row.terminal.output.moved.map(crate::model::time::WallTime::seconds),
        "conditions": conditions,
        "processes": row.processes.iter().map(|identity| identity.pid).collect::<Vec<_>>(),
        "memory_bytes": row.memory,
        "survivors": survivors,
        "ended": row.ended.iter().map(|one| one.pid).filter(|pid| !stays(*pid)).collect::<Vec<_>>(),
        "end_with": end_with(row),
        "quiet_jobs": row.quiet_jobs.iter().map(|text| safe(text)).collect::<Vec<_>>(),
        "session": row.terminal.session.as_deref().map(safe),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_says_what_was_kept_and_why() {
        let summary = Summary {
            seen: 5,
            closed: 2,
            kept: BTreeMap::from([("busy", 2), ("young", 1)]),
            processes_before: 4,
            processes_after: 1,
            memory_before: 10 << 20,
            memory_after: 1 << 20,
            ..Summary::default()
        };
        let line = "seen 5, closed 2, kept 3 (busy 2, young 1); agent processes 4 before, 1 after; \
            memory 10 MiB before, 1 MiB after";
        assert_eq!(summary.line(), line);
        assert_eq!(Summary::default().line(), "seen 0, closed 0, kept 0");
    }
}
