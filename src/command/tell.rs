//! What people are told about a holder: one line for 3 am, and the object for `--json`.

use super::local_time;
use super::records::{Judged, Records};
use crate::error::{Error, Kind};
use crate::exit::Exit;
use crate::model::duration;
use crate::model::identity::ProcessIdentity;
use crate::model::name::LockName;
use crate::model::observation::Found;
use crate::model::record::Record;
use crate::model::time::WallTime;
use crate::os::{clock, host, proc, tree};
use crate::report::escape;
use crate::verdict::liveness::{Doubt, State, Through};
use serde_json::{Value, json};

/// How much of a name, a command line or a directory is shown, characters.
const SHOWN: usize = 120;

/// A process as people call it: `pid 812 (pi, uid 1000)`.
pub(crate) fn process(owner: &ProcessIdentity) -> String {
    format!("pid {} ({}, uid {})", owner.pid, escape(owner.comm.as_bytes(), SHOWN), owner.uid)
}

/// The owner of a record as people call it. Its number is shown as one of ours only where it is: seen from
/// another pid namespace it is the number that it has here, or said to be one of elsewhere.
pub(crate) fn owner(store: &Records, record: &Record, owner: &ProcessIdentity) -> String {
    if store.numbers_are_ours(record) {
        return process(owner);
    }
    let (comm, uid) = (escape(owner.comm.as_bytes(), SHOWN), owner.uid);
    match store.number_here(record, owner) {
        Some(here) => format!("pid {here} ({comm}, uid {uid}; pid {} in its container)", owner.pid),
        None => format!("{} ({comm}, uid {uid})", number(store, record, owner)),
    }
}

/// `pid 812`, or `pid 2 of another container`: for a sentence that says nothing else of it.
pub(crate) fn number(store: &Records, record: &Record, owner: &ProcessIdentity) -> String {
    let pid = owner.pid;
    match (store.numbers_are_ours(record), store.is_of_this_boot(record)) {
        (true, _) => format!("pid {pid}"),
        (false, true) => format!("pid {pid} of another container"),
        (false, false) => format!("pid {pid} of another machine or boot"),
    }
}

/// The first owner, who stands for all of them.
pub(crate) fn first(
    store: &Records,
    record: &Record,
    shown: impl Fn(&Records, &Record, &ProcessIdentity) -> String,
) -> String {
    record.owners.first().map_or_else(|| "nobody".into(), |owner| shown(store, record, owner))
}

/// ` since 2026-11-29 09:12:04 CET, 14m`, or that the clock moved.
fn since(record: &Record) -> String {
    let Some(since) = record.since() else { return String::new() };
    match since.age(clock::wall()) {
        Some(age) => format!(" since {}, {}", local_time::show(since), duration::show(age)),
        None => format!(" since {} (in the future: the clock moved)", local_time::show(since)),
    }
}

/// `3d`, for a record whose owner cannot be judged.
fn age(record: &Record) -> String {
    record
        .since()
        .and_then(|since| since.age(clock::wall()))
        .map_or_else(|| "of unknown age".to_owned(), |age| format!("{} old", duration::show(age)))
}

/// The refusal of a live holder, without the program's name; `stopped` as [`is_stopped`] says.
pub(crate) fn held(
    store: &Records,
    name: &LockName,
    judged: &Judged,
    holder: Through,
    stopped: bool,
) -> String {
    let carriers = || {
        let pids = store.carriers(name, judged).pids;
        (!pids.is_empty()).then(|| some(&pids, 3, |pid| seen_now(*pid)))
    };
    let Some(record) = judged.record() else {
        let who = carriers().unwrap_or_else(|| "a process that cannot be seen from here".into());
        if matches!(judged.found, Found::Nothing) {
            let token = judged.token.map_or_else(|| "unknown".to_owned(), |token| token.to_string());
            return format!(
                "{name} is held: its record was removed, but {who} carries the pulse of its run; token {token}"
            );
        }
        return format!("{name}: its record is corrupt, but {who} still holds the lock; token unknown");
    };
    let who = match holder {
        Through::Owner(place) => {
            let this = record.owners.get(place).or(record.owners.first());
            // Before its command is named beside it, a supervisor has only begun.
            let waits = record
                .supervisor()
                .filter(|it| record.owners.len() > 1 && this.is_some_and(|this| this.pid == it.pid));
            let below =
                waits.and_then(|it| store.number_here(record, it)).map_or_else(String::new, left_below);
            format!(
                "is held by {}{below}{}",
                this.map_or_else(|| "nobody".into(), |this| owner(store, record, this)),
                if stopped { ", which is stopped (state T)," } else { "" }
            )
        }
        Through::Descendant => {
            let who = carriers().unwrap_or_else(|| "a process that cannot be seen from here".into());
            let ended = first(store, record, number);
            format!(
                "is held: owner {} ended; {who}, started by it, holds the lock",
                ended.trim_start_matches("pid ")
            )
        }
        Through::Carrier => format!(
            "is held: whether {} still runs cannot be seen from here; something of its run does{}",
            first(store, record, number),
            carriers().map_or_else(String::new, |who| format!(": {who}"))
        ),
    };
    let note = record
        .note
        .as_ref()
        .map_or_else(String::new, |note| format!("; note: {}", escape(note.as_bytes(), SHOWN)));
    let stuck = record.overdue(host::awake_time).map_or_else(String::new, |silent| {
        format!("; stuck: promised to tick and has been silent for {}", duration::show(silent))
    });
    format!("{name} {who}{}{stuck}; token {}{note}", since(record), record.token)
}

/// What a supervisor waits for: its command has ended, or it would be named instead.
fn left_below(supervisor: u32) -> String {
    let below = tree::below(supervisor, &[]).unwrap_or_default();
    match below.len() {
        0 => String::new(),
        _ => format!(
            ", which waits for what its command left behind, {},",
            some(&below, 1, |it| seen(it.pid, &it.comm))
        ),
    }
}

/// Is the holder stopped? Said also under `-q`.
pub(crate) fn is_stopped(store: &Records, judged: &Judged, holder: Through) -> bool {
    let (Through::Owner(place), Some(record)) = (holder, judged.record()) else { return false };
    let here = record.owners.get(place).and_then(|owner| store.number_here(record, owner));
    here.and_then(|pid| proc::stat(pid).ok()).is_some_and(|stat| matches!(stat.state, 'T' | 't'))
}

/// `913 (node)`, for a process that was seen.
pub(crate) fn seen(pid: u32, comm: &str) -> String {
    format!("{pid} ({})", escape(comm.as_bytes(), SHOWN))
}

/// The same with the name that it has now.
pub(crate) fn seen_now(pid: u32) -> String {
    proc::stat(pid).map_or_else(|_| format!("{pid} (?)"), |stat| seen(pid, &stat.comm))
}

/// The first of them, and how many more there are: `913 (node), 914 (sleep) and 2 more`.
pub(crate) fn some<T>(all: &[T], at_most: usize, one: impl Fn(&T) -> String) -> String {
    let shown: Vec<String> = all.iter().take(at_most).map(one).collect();
    match all.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Why a lock was not taken, as the error of the command.
pub(crate) fn refusal(store: &Records, name: &LockName, judged: &Judged) -> Error {
    match judged.state() {
        State::Live(holder) => {
            let stopped = is_stopped(store, judged, *holder);
            Error::new(Kind::Held, held(store, name, judged, *holder, stopped))
        }
        State::Unknown(doubt) => {
            let Some(record) = judged.record() else {
                let line =
                    format!("{name}: {}/{}.json: {}", store.path().display(), name.file(), doubt.reason());
                // Only what can never be a record may be moved away: an unreadable one may be a live owner's.
                let odd = matches!(doubt, Doubt::NotAFile(_));
                let hint =
                    if odd { "move it away if it is not wanted" } else { "try again when that is over" };
                return Error::new(Kind::CannotTell, line).hint(hint);
            };
            let owner = first(store, record, number);
            let by_hand = format!("if it does not: orion-lock break --token {} {name:#}", record.token);
            Error::new(
                Kind::UnknownOwner,
                format!(
                    "{name}: cannot tell whether {owner} still runs ({}, {})",
                    doubt.reason(),
                    age(record)
                ),
            )
            .hint(match doubt {
                Doubt::Refused(_) => "try again when that is over".to_owned(),
                Doubt::OtherContainer => format!(
                    "{by_hand}, or once, where one container at a time uses this directory: orion-lock where --mark-private"
                ),
                _ => by_hand,
            })
        }
        State::Newer(schema) => super::records::newer(name, store, *schema),
        State::Free | State::Dead | State::Corrupt(_) => {
            Error::new(Kind::Bug, format!("{name} was free and was not taken"))
        }
    }
}

/// What `/proc` knows of the holder at this moment; shown, never stored.
pub(crate) fn process_now(pid: u32) -> Value {
    let joined = proc::cmdline(pid).ok().map(|args| escape(&args.join(&b' '), SHOWN));
    let link = |file: &str| {
        let target = std::fs::read_link(proc::path(pid, file)).ok()?;
        Some(escape(std::os::unix::ffi::OsStrExt::as_bytes(target.as_os_str()), SHOWN))
    };
    let unit = std::fs::read_to_string(proc::path(pid, "cgroup")).ok().and_then(|text| {
        let path = text.lines().rev().find_map(|line| line.splitn(3, ':').nth(2).map(str::to_owned))?;
        let unit =
            path.rsplit('/').find(|part| part.ends_with(".service") || part.ends_with(".scope"))?.to_owned();
        Some(escape(unit.as_bytes(), SHOWN))
    });
    let mut now = serde_json::Map::new();
    let stat = proc::stat(pid).ok();
    let state = stat.as_ref().map(|stat| stat.state.to_string());
    let tty = stat.as_ref().and_then(|stat| terminal(stat.tty_nr));
    for (key, value) in
        [("command", joined), ("cwd", link("cwd")), ("tty", tty), ("state", state), ("unit", unit)]
    {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            now.insert(key.into(), json!(value));
        }
    }
    Value::Object(now)
}

/// A controlling terminal's name from its device number (proc_pid_stat(5)).
fn terminal(tty_nr: i32) -> Option<String> {
    let number = u32::try_from(tty_nr).ok().filter(|number| *number != 0)?;
    let (major, minor) = (number >> 8 & 0xfff, number & 0xff | number >> 12 & 0xfff00);
    Some(match major {
        136..=143 => format!("pts/{}", (major - 136) * 256 + minor),
        4 if minor < 64 => format!("tty{minor}"),
        _ => format!("{major}:{minor}"),
    })
}

/// The word for a state in output.
pub(crate) fn word(state: &State) -> &'static str {
    match state {
        State::Free => "free",
        State::Live(_) => "held",
        State::Dead => "free",
        State::Unknown(_) => "unknown",
        State::Newer(_) => "newer",
        State::Corrupt(_) => "corrupt",
    }
}

/// A lock as a JSON object (without `schema`).
pub(crate) fn object(store: &Records, name: &LockName, judged: &Judged) -> Value {
    let mut object = json!({"name": name.as_str(), "state": word(judged.state())});
    if let State::Unknown(doubt) = judged.state() {
        object["reason"] = json!(doubt.reason());
    }
    if let State::Corrupt(why) = judged.state() {
        object["reason"] = json!(why);
    }
    if let Some(record) = judged.record() {
        object["token"] = json!(record.token);
        object["since"] = json!(record.acquired_at);
        object["since_s"] = json!(record.since().map(WallTime::seconds));
        object["owners"] = json!(record.owners);
        // Numbers of another pid namespace or boot are somebody else's here.
        object["pids_are_of_here"] = json!(store.numbers_are_ours(record));
        object["hostname"] = json!(record.host.hostname);
        object["via"] = json!(record.via());
        if let Some(note) = &record.note {
            object["note"] = json!(note);
        }
        if let Some(at) = &record.released_at {
            object["released_at"] = json!(at);
            object["released_at_s"] = json!(WallTime::parse(at).map(WallTime::seconds));
        }
        if let Some(tick) = &record.last_tick {
            object["last_tick"] = json!(tick.utc);
            object["last_tick_s"] = json!(WallTime::parse(&tick.utc).map(WallTime::seconds));
            object["tick_every_s"] = json!(tick.every_s);
        }
        if let State::Live(holder) = judged.state() {
            let pids = match holder {
                Through::Owner(place) => {
                    let owner = record.owners.get(*place);
                    owner.and_then(|owner| store.number_here(record, owner)).into_iter().collect()
                }
                Through::Descendant | Through::Carrier => store.carriers(name, judged).pids,
            };
            let holders: Vec<Value> = pids
                .iter()
                .map(|pid| {
                    let mut holder = json!({"pid": pid});
                    if let Ok(stat) = proc::stat(*pid) {
                        holder["comm"] = json!(stat.comm);
                    }
                    if let (Some(holder), Some(now)) =
                        (holder.as_object_mut(), process_now(*pid).as_object_mut())
                    {
                        holder.append(now);
                    }
                    holder
                })
                .collect();
            object["held_through"] = json!(match holder {
                Through::Owner(_) => "owner",
                Through::Descendant => "descendant",
                Through::Carrier => "carrier",
            });
            object["holders"] = json!(holders);
        }
    }
    object
}

/// 0 free, 75 held, 76 stuck, 69 unknown, 65 newer.
pub(crate) fn exit_of(judged: &Judged) -> Exit {
    match judged.state() {
        State::Free | State::Dead | State::Corrupt(_) => Exit::Ok,
        State::Live(_) => {
            let overdue = judged.record().and_then(|record| record.overdue(host::awake_time));
            if overdue.is_some() { Exit::Stuck } else { Exit::Skip }
        }
        State::Unknown(_) => Exit::Unavailable,
        State::Newer(_) => Exit::DataErr,
    }
}

/// Rows under their heads, in columns as wide as their widest cell.
pub(crate) fn table<const N: usize>(head: [&str; N], rows: Vec<[String; N]>) -> String {
    let all: Vec<[String; N]> = std::iter::once(head.map(str::to_owned)).chain(rows).collect();
    let width = |column: usize| all.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let lines = all.iter().map(|row| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}
