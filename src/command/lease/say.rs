//! What people are told about a holder: one line for 3 am, and the object for `--json`.

use crate::command::local_time;
use crate::lease::observe::{LeaseObservation, show};
use crate::lease::{Holder, STUCK_AFTER, Silence};
use crate::model::duration;
use crate::model::stamp::Stamp;
use crate::model::time::WallTime;
use crate::os::store::StorePlace;
use crate::os::{clock, proc};
use crate::report::escape;
use crate::verdict::lease::HolderProof;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Everything known about a holder now.
pub(super) struct HolderReport<'a> {
    pub(super) place: &'a StorePlace,
    pub(super) observed: &'a LeaseObservation,
    pub(super) holder: Holder,
    pub(super) stuck_after: Duration,
}

impl<'a> HolderReport<'a> {
    pub(super) fn of(place: &'a StorePlace, observed: &'a LeaseObservation, stuck_after: Duration) -> Self {
        Self { place, observed, holder: Holder::of(observed, stuck_after), stuck_after }
    }

    /// `pid 812 (server, uid 1000, surface wake)`, or why there is no name.
    fn who(&self) -> String {
        let Some(pid) = self.holder.pid else {
            let names: Vec<String> = self.observed.found.pids.iter().map(|pid| process(*pid)).collect();
            let whose = match self.observed.proof {
                HolderProof::NoName => "its payload names nobody",
                HolderProof::Hidden => "the process that its payload names cannot be looked into",
                _ => "the process that its payload names does not hold it",
            };
            return if names.is_empty() {
                format!("a process that cannot be seen from here ({whose})")
            } else {
                format!("{} ({whose})", names.join(" and "))
            };
        };
        let mut details: Vec<String> = self.holder.comm.iter().cloned().collect();
        if let Ok((_, uid)) = proc::tgid_and_uid(pid) {
            details.push(format!("uid {uid}"));
        }
        details.extend(self.holder.surface.as_ref().map(|surface| format!("surface {surface}")));
        format!("pid {pid} ({})", details.join(", "))
    }

    fn since(&self) -> String {
        let Some(since) = self.holder.acquired_at.map(WallTime::of) else { return String::new() };
        match since.age(clock::wall()) {
            Some(age) => format!(" since {}, {}", local_time::show(since), duration::show(age)),
            None => format!(" since {}", local_time::show(since)),
        }
    }

    /// What the state letter means for somebody who waits.
    fn state(&self) -> String {
        match self.holder.state {
            Some('T') => "; it is stopped (state T)".into(),
            Some('t') => "; it is being traced (state t)".into(),
            Some('D') => "; it waits in the kernel (state D)".into(),
            Some(state) if self.is_stuck() => format!("; state {state}"),
            _ => String::new(),
        }
    }

    fn ticks(&self) -> String {
        let last =
            self.holder.last_tick.map_or_else(String::new, |time| local_time::show(WallTime::of(time)));
        let moved = if self.holder.clock_moved { "; clock moved: a stamp lies in the future" } else { "" };
        match &self.holder.silence {
            None => String::new(),
            Some(Silence::NeverTicked) => format!("; it never ticked{moved}"),
            Some(Silence::Fresh { silent }) => {
                format!("; last tick {} ago{moved}", duration::show(*silent))
            }
            Some(Silence::Stuck { silent }) => {
                format!("; silent for {} awake, last tick {last}{moved}", duration::show(*silent))
            }
            Some(Silence::Unproved { why, .. }) if why.starts_with("clock moved") => {
                format!("; last tick {last}: {why}")
            }
            Some(Silence::Unproved { why, .. }) => format!("; last tick {last}: {why}{moved}"),
        }
    }

    /// The line without the program's name.
    pub(super) fn line(&self) -> String {
        let store = show(&self.place.store);
        let how = if self.holder.legacy {
            format!(" through {}, which stands for every store in its directory,", show(&self.observed.path))
        } else {
            String::new()
        };
        let (word, end) = if self.is_stuck() {
            ("STUCK: ", format!("; if it must go: {}", self.takeover_command()))
        } else {
            ("", String::new())
        };
        let (who, since, ticks, state) = (self.who(), self.since(), self.ticks(), self.state());
        format!("{word}{store} is held{how} by {who}{since}{ticks}{state}{end}")
    }

    /// The line for a person who asked, with what `/proc` shows of the process.
    pub(super) fn long_line(&self) -> String {
        let shown = self.holder.pid.and_then(command_line);
        let shown = shown.map_or_else(String::new, |shown| format!("; its command line: {shown}"));
        format!("{}{shown}", self.line())
    }

    /// The exact line a person would run.
    pub(super) fn takeover_command(&self) -> String {
        let limit = if self.stuck_after == STUCK_AFTER {
            String::new()
        } else {
            format!("--stuck-after {} ", exact(self.stuck_after))
        };
        format!("orion-lease takeover {limit}{}", quoted(&self.place.store))
    }

    pub(super) fn is_stuck(&self) -> bool {
        self.holder.is_stuck()
    }

    /// Also under `-q`: a holder that cannot work is nobody's normal refusal.
    pub(super) fn is_loud(&self) -> bool {
        self.is_stuck() || matches!(self.holder.state, Some('T' | 't'))
    }

    /// The `holder` object.
    pub(super) fn object(&self) -> Value {
        let holder = &self.holder;
        let mut object = Map::new();
        let mut put = |name: &str, value: Value| {
            object.insert(name.to_owned(), value);
        };
        put("pid", json!(holder.pid));
        put("comm", json!(holder.comm));
        put("state", json!(holder.state.map(String::from)));
        put("surface", json!(holder.surface));
        put("store", json!(holder.store));
        put("host", json!(holder.host));
        if let Some(pid) = holder.pid {
            put("uid", json!(proc::tgid_and_uid(pid).ok().map(|(_, uid)| uid)));
            put("command_line", json!(command_line(pid)));
        } else {
            put("held_by", json!(self.observed.found.pids));
        }
        for (name, time) in [("acquired_at", holder.acquired_at), ("last_tick", holder.last_tick)] {
            put(name, json!(time.map(rfc3339)));
            put(&format!("{name}_seconds"), json!(time.map(|time| WallTime::of(time).seconds())));
        }
        let silent = match &holder.silence {
            Some(Silence::Fresh { silent } | Silence::Stuck { silent }) => Some(silent.as_secs()),
            _ => None,
        };
        put("silent_seconds", json!(silent));
        put("ticks", json!(ticks_word(holder.silence.as_ref())));
        if let Some(Silence::Unproved { why, .. }) = &holder.silence {
            put("ticks_note", json!(why));
        }
        put("clock_moved", json!(holder.clock_moved));
        put("legacy", json!(holder.legacy));
        let build = holder.build.as_ref().map(|build| {
            json!({
                "mod_time": build.mod_time.map(|time| time.rfc3339_trimmed()),
                "size": build.size,
                "revision": build.revision,
            })
        });
        put("build", json!(build));
        Value::Object(object)
    }
}

fn ticks_word(silence: Option<&Silence>) -> &'static str {
    match silence {
        None | Some(Silence::Unproved { .. }) => "unknown",
        Some(Silence::NeverTicked) => "never",
        Some(Silence::Fresh { .. }) => "fresh",
        Some(Silence::Stuck { .. }) => "stuck",
    }
}

fn rfc3339(time: SystemTime) -> String {
    Stamp::of(time).rfc3339_trimmed()
}

/// `pid 913 (node)`.
pub(super) fn process(pid: u32) -> String {
    let comm = proc::stat(pid).map_or_else(|_| "?".to_owned(), |stat| escape(stat.comm.as_bytes(), 64));
    format!("pid {pid} ({comm})")
}

/// What `/proc` shows of a command line now, at most 120 characters.
fn command_line(pid: u32) -> Option<String> {
    let words = proc::cmdline(pid).ok().filter(|words| !words.is_empty())?;
    Some(escape(&words.join(&b' '), 120))
}

/// A duration that reads as exactly this one.
pub(super) fn exact(duration: Duration) -> String {
    match duration.subsec_millis() {
        0 => format!("{}s", duration.as_secs()),
        _ => format!("{}ms", duration.as_millis()),
    }
}

/// A path for JSON, which has no bytes: one that is not UTF-8 is written as in messages.
pub(super) fn json_path(path: &Path) -> String {
    path.to_str().map_or_else(|| show(path), str::to_owned)
}

/// A path as one word of a shell line. Bytes that would drive a terminal, or are not UTF-8,
/// come as `$'\xff'`, which bash, zsh and ksh read.
fn quoted(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+:@%,=".contains(byte)) {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    match path.to_str() {
        Some(text) if escape(bytes, usize::MAX) == text => format!("'{}'", text.replace('\'', r"'\''")),
        _ => {
            let word = bytes.iter().map(|byte| match byte {
                b'\'' | b'\\' => format!("\\{}", char::from(*byte)),
                b' '..=b'~' => char::from(*byte).to_string(),
                byte => format!("\\x{byte:02x}"),
            });
            format!("$'{}'", word.collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn a_store_with_blanks_and_quotes_is_one_word() {
        assert_eq!(quoted(Path::new("/srv/a.db")), "/srv/a.db");
        assert_eq!(quoted(Path::new("/srv/my 'db'")), r"'/srv/my '\''db'\'''");
        assert_eq!(quoted(Path::new("/srv/é.db")), "'/srv/é.db'");
        assert_eq!(quoted(Path::new("/srv/a\n'b")), r"$'/srv/a\x0a\'b'");
        let raw = std::ffi::OsStr::from_bytes(b"/srv/\xff.db");
        assert_eq!(quoted(Path::new(raw)), r"$'/srv/\xff.db'");
        assert_eq!(exact(Duration::from_millis(1500)), "1500ms");
    }
}
