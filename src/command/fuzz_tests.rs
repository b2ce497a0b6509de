//! Bytes that others can damage: record, guard, log, `/etc/orion/dir`, and what `/proc` says. Valid
//! inputs are mutated; nothing may panic, and what is read must still be true.
//!
//! Some thousand inputs each by default; for ORION_FUZZ_SECONDS seconds each when that is set, five
//! minutes under ORION_TORTURE. It also says how many inputs were tried.

use crate::model::event::{self, Event};
use crate::model::place::parse_machine_file;
use crate::model::record::{self, BadRecord, LOCK, Stored};
use crate::model::token::{GuardToken, TOKEN_MAX, guard_line};
use crate::os::{host, proc};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestCaseResult, TestRunner};
use serde_json::json;
use std::time::{Duration, Instant};

/// One damage: which kind, where, how long, and the bytes for it.
type Edit = (u8, Index, u8, Vec<u8>);

/// Pieces that parsers stumble over.
const PIECES: [&[u8]; 16] = [
    b"-1",
    b"0",
    b"18446744073709551616",
    b"9007199254740991",
    b"1e400",
    b"\0",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\n",
    b") ",
    b"\\u0000",
    b"\\ud800",
    b"{\"a\":",
    b"[[[[[[[[",
    b"null",
    b"\"",
];

fn damage(bytes: &mut Vec<u8>, (kind, place, length, insert): &Edit, other: &[u8]) {
    let start = place.index(bytes.len() + 1);
    let end = (start + usize::from(*length)).min(bytes.len());
    match kind % 8 {
        0 if start < bytes.len() => bytes[start] ^= 1 << (length % 8),
        1 => drop(bytes.splice(start..start, insert.iter().copied())),
        2 => drop(bytes.drain(start..end)),
        3 => {
            let again = bytes[start..end].to_vec();
            drop(bytes.splice(start..start, again));
        }
        4 => bytes.truncate(start),
        5 => {
            let piece = PIECES[usize::from(*length) % PIECES.len()];
            drop(bytes.splice(start..start, piece.iter().copied()));
        }
        // A number becomes another one.
        6 => {
            let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let piece = PIECES[usize::from(*length) % 5];
            drop(bytes.splice(start..start + digits(start), piece.iter().copied()));
        }
        _ => {
            let from = place.index(other.len() + 1);
            let to = (from + usize::from(*length)).min(other.len());
            drop(bytes.splice(start..end, other[from..to].iter().copied()));
        }
    }
}

fn damaged(corpus: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let insert = proptest::collection::vec(any::<u8>(), 0..12);
    let edits = proptest::collection::vec((any::<u8>(), any::<Index>(), any::<u8>(), insert), 0..8);
    (select(corpus.clone()), select(corpus), edits).prop_map(|(mut bytes, other, edits)| {
        for edit in &edits {
            damage(&mut bytes, edit, &other);
        }
        bytes
    })
}

/// How long to go on; `None`: a few thousand inputs.
fn duration() -> Option<Duration> {
    let seconds = std::env::var("ORION_FUZZ_SECONDS").ok().map(|text| text.parse().expect("a number"));
    let torture = std::env::var_os("ORION_TORTURE").map(|_| 300);
    seconds.or(torture).map(Duration::from_secs)
}

#[allow(clippy::print_stdout, clippy::disallowed_macros, reason = "the count is what a person wants to see")]
fn hunt(what: &str, corpus: Vec<Vec<u8>>, check: impl Fn(&[u8]) -> TestCaseResult) {
    let end = duration().map(|duration| Instant::now() + duration);
    let inputs = damaged(corpus);
    let mut tried = 0_u64;
    // Small batches, so that the clock is looked at.
    let cases = if end.is_some() { 500 } else { 3_000 };
    loop {
        let config = Config { cases, failure_persistence: None, ..Config::default() };
        tried += u64::from(config.cases);
        if let Err(found) = TestRunner::new(config).run(&inputs, |bytes| check(&bytes)) {
            panic!("{what}: {found}");
        }
        if end.is_none_or(|end| Instant::now() >= end) {
            break;
        }
    }
    println!("fuzz: {what}: {tried} inputs, nothing wrong");
}

fn records() -> Vec<Vec<u8>> {
    let plain = json!({
        "schema": 1, "kind": "lock", "name": "sync", "token": 1_796_029_924_113_u64,
        "owners": [{"pid": 812, "start_ticks": 51016, "pidfs_ino": 99, "comm": "pi", "uid": 1000}],
        "host": {"boot_id": "2f1c", "boottime_us": 5, "machine_id": "0123456789abcdef0123456789abcdef",
            "state_id": "77", "hostname": "h", "pid_ns": 4_026_531_836_u64, "time_ns": 4_026_531_834_u64},
        "acquired_at": "2026-11-29T09:12:04.000Z"
    });
    let mut full = plain.clone();
    full["owners"] =
        json!([plain["owners"][0], {"pid": 813, "start_ticks": 51017, "comm": "é\u{1}\"", "uid": 0}]);
    full["last_tick"] =
        json!({"utc": "2026-11-29T09:13:04Z", "boottime_us": 6, "monotonic_us": 6, "every_s": 60});
    full["note"] = json!("a note");
    full["attrs"] = json!({"via": "run", "supervisor": 813, "future": [1.5, null, {"a": "b"}]});
    full["future"] = json!({"deep": [[[]]]});
    let mut released = full.clone();
    released["released_at"] = json!("2026-11-29T10:00:00Z");
    [plain, full, released].iter().map(|value| format!("{value}\n").into_bytes()).collect()
}

#[test]
fn damaged_records_never_crash_and_what_is_read_is_whole() {
    hunt("record", records(), |bytes| {
        let stored = match Stored::parse(bytes, LOCK, "sync") {
            Ok(stored) => stored,
            Err(BadRecord::Newer(schema)) => {
                prop_assert!(schema > record::SCHEMA);
                return Ok(());
            }
            Err(BadRecord::Corrupt(why)) => {
                prop_assert!(!why.is_empty());
                return Ok(());
            }
        };
        prop_assert!((1..=TOKEN_MAX).contains(&stored.record.token));
        prop_assert!(!stored.record.owners.is_empty());
        let token = stored.record.token;
        let again = Stored::parse(&record::bytes(&stored.record), LOCK, "sync");
        prop_assert_eq!(again.map(|again| again.record.token), Ok(token));
        let released = stored.patched(&[("released_at", json!("2026-11-29T10:00:00Z"))]);
        let released =
            Stored::parse(&released, LOCK, "sync").map(|it| (it.record.token, it.record.released_at));
        prop_assert_eq!(released, Ok((token, Some("2026-11-29T10:00:00Z".to_owned()))));
        stored.record.overdue(host::awake_time);
        let _ = (stored.record.since(), stored.record.boot_stamps().count(), stored.record.supervisor());
        Ok(())
    });
}

#[test]
fn damaged_guards_are_a_token_or_nothing() {
    let corpus = [1, 1_796_029_924_113, TOKEN_MAX].map(|token| guard_line(token).into_bytes()).to_vec();
    hunt("guard", corpus, |bytes| {
        if let GuardToken::Last(token) = GuardToken::parse(bytes) {
            prop_assert!(token <= TOKEN_MAX);
        }
        Ok(())
    });
}

const STAT: &str = "S 1 2 3 34820 5 6 7 8 9 10 11 12 13 14 20 0 1 0 4242 100 200 18446744073709551615 \
    1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";

#[test]
fn damaged_stat_lines_never_crash_and_no_name_forges_a_field() {
    let names: [&[u8]; 5] =
        [b"sh", b") R 0 0 (", b"nl\nname", b"x) S 1 1 1 1 1 1 1 1 1 1 1", b"\xc3\xa9\xc3"];
    let corpus = names.map(|name| [b"77 (", name, b") ", STAT.as_bytes()].concat()).to_vec();
    hunt("stat", corpus, |bytes| {
        if let Ok(stat) = proc::parse_stat(bytes) {
            prop_assert!(
                bytes.starts_with(stat.pid.to_string().as_bytes()) || bytes[0] == b'+' || bytes[0] == b'0'
            );
        }
        let named = [b"77 (", bytes, b") ", STAT.as_bytes()].concat();
        let stat = proc::parse_stat(&named).map(|stat| (stat.pid, stat.state, stat.ppid, stat.start_ticks));
        prop_assert_eq!(stat.ok(), Some((77, 'S', 1, 4242)));
        Ok(())
    });
}

#[test]
fn damaged_mountinfo_never_crashes_and_never_hides_a_hidepid() {
    let line = "36 25 0:21 / /proc rw,nosuid,nodev,noexec,relatime shared:13 - proc proc rw";
    let others = "25 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=remount-ro\n\
        40 25 0:30 /a\\040b /mnt/a\\040b rw master:2 propagate_from:1 - fuse.x x rw,user_id=0\n";
    let corpus = ["\n", ",hidepid=0\n", ",hidepid=2,gid=7\n", ",hidepid=invisible\n"];
    let corpus = corpus.map(|end| format!("{others}{line}{end}{others}").into_bytes()).to_vec();
    hunt("mountinfo", corpus, |bytes| {
        let _ = host::hides_processes(bytes);
        let hidden = [bytes, b"\n", line.as_bytes(), b",hidepid=2\n"].concat();
        prop_assert!(host::hides_processes(&hidden));
        Ok(())
    });
}

#[test]
fn damaged_logs_never_crash_and_the_next_line_is_read() {
    let refused = Event { token: Some(5), pid: Some(812), ..Event::new("refused", "t1".into(), "sync") };
    let counted =
        Event { count: Some(7), last: Some("t9".into()), before: Some((3, "t0".into())), ..refused.clone() };
    let acquired = Event { detail: Some("a note".into()), ..Event::new("acquired", "t0".into(), "sync") };
    let text = |events: &[&Event]| events.iter().map(|event| event.line()).collect::<String>().into_bytes();
    let corpus = vec![
        text(&[&acquired]),
        text(&[&acquired, &refused]),
        text(&[&acquired, &counted]),
        text(&[&counted, &refused, &acquired, &refused]),
    ];
    hunt("log", corpus, |bytes| {
        let mut log = bytes.to_vec();
        let turned = event::turn_away(&log, &refused);
        prop_assert!(turned.replace <= log.len() && turned.in_a_row >= 1);
        if log.last().is_some_and(|last| *last != b'\n') {
            prop_assert_eq!(turned.replace, 0);
            log.push(b'\n');
        }
        log.truncate(log.len() - turned.replace);
        log.extend_from_slice(turned.line.as_bytes());
        let last = event::parse(&log).pop();
        prop_assert_eq!(last.map(|last| (last.event, last.token)), Some(("refused".to_owned(), Some(5))));
        Ok(())
    });
}

#[test]
fn damaged_machine_files_are_one_absolute_path_or_refused() {
    let corpus = ["/var/lib/orion\n", "/srv/o r\u{e9}", "/", "relative\n", "/a\n/b\n", ""];
    hunt("/etc/orion/dir", corpus.map(|text| text.as_bytes().to_vec()).to_vec(), |bytes| {
        use std::os::unix::ffi::OsStrExt;
        if let Ok(path) = parse_machine_file(bytes) {
            let path = path.as_os_str().as_bytes();
            prop_assert!(path.starts_with(b"/") && !path.contains(&0) && !path.contains(&b'\n'));
            prop_assert!(path.len() < 4096);
        }
        Ok(())
    });
}
