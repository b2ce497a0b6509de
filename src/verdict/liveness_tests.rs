//! Every rule as a row: what is recorded, who looks, what was seen, what follows.

use super::*;
use crate::model::host::HostIdentity;
use crate::model::observation::{KillFacts as K, PidFdFacts as F, ProcFacts as P, SearchFacts as S};
use crate::model::record::{LOCK, Stored};
use serde_json::{Value, json};

const BOOT: &str = "11111111-1111-4111-8111-111111111111";
pub(super) const OTHER_BOOT: &str = "22222222-2222-4222-8222-222222222222";
const MACHINE: &str = "0123456789abcdef0123456789abcdef";
pub(super) const CONTAINER: u64 = 4_026_532_179;

/// A record as written an hour after boot, in the initial namespaces.
pub(super) fn record() -> Value {
    json!({
        "schema": 1, "kind": "lock", "name": "x", "token": 5,
        "owners": [{"pid": 812, "start_ticks": 7, "pidfs_ino": 99}],
        "host": {
            "boot_id": BOOT, "boottime_us": 3_600_000_000_u64, "machine_id": MACHINE,
            "pid_ns": INITIAL_PID_NS, "time_ns": INITIAL_TIME_NS,
        },
        "acquired_at": "2026-11-29T09:12:04Z",
    })
}

/// Ourselves, a minute later on the same machine, root, on a local file system.
pub(super) fn here() -> Here {
    Here {
        host: HostIdentity {
            boot_id: Some(BOOT.into()),
            boottime_us: 3_660_000_000,
            machine_id: Some(MACHINE.into()),
            pid_ns: Some(INITIAL_PID_NS),
            time_ns: Some(INITIAL_TIME_NS),
            ..HostIdentity::default()
        },
        unread: None,
        proc_is_ours: true,
        local: true,
        network: false,
        private: false,
        sees_everybody: true,
        pidfs: true,
    }
}

pub(super) fn found(value: &Value) -> Found {
    Found::Record(Box::new(Stored::parse(value.to_string().as_bytes(), LOCK, "x").expect("a record")))
}

pub(super) fn scope_of(value: &Value, here: &Here) -> Scope {
    scope(&found(value).stored().expect("a record").record, here)
}

/// `live`, `descendant`, `dead`, `unknown`, `free`, `newer` or `corrupt`.
fn word(state: &State) -> &'static str {
    match state {
        State::Free => "free",
        State::Live(Through::Owner(_)) => "live",
        State::Live(Through::Descendant) => "descendant",
        State::Dead => "dead",
        State::Unknown(_) => "unknown",
        State::Newer(_) => "newer",
        State::Corrupt(_) => "corrupt",
    }
}

pub(super) fn verdict(value: &Value, here: &Here, owners: &[OwnerFacts], pulse: PulseFacts) -> &'static str {
    let judgement = judge(&found(value), here, owners, pulse);
    assert!(!judgement.evidence.is_empty(), "every verdict has its evidence");
    word(&judgement.state)
}

const RUNNING: OwnerFacts = OwnerFacts::ByPidFd(F::SameInode { ended: false });
const ENDED: OwnerFacts = OwnerFacts::ByPidFd(F::SameInode { ended: true });

pub(super) fn refused() -> OwnerFacts {
    OwnerFacts::ByPidFd(F::Refused("too many open files".into()))
}

pub(super) fn seen(start_ticks: u64, tgid: u32, all_threads_dead: bool) -> P {
    P::Seen { start_ticks, tgid, all_threads_dead }
}

#[test]
fn rules_0_and_1_come_before_any_look() {
    let unreadable = Found::Unreadable("permission denied".into());
    let corrupt = Found::Bad(BadRecord::Corrupt("torn".into()));
    let newer = Found::Bad(BadRecord::Newer(99));
    let mut released = record();
    released["released_at"] = json!("2026-11-29T10:00:00Z");
    let rows = [
        (Found::Nothing, "free", "free"),
        (found(&released), "free", "free"),
        (newer, "newer", "newer"),
        (unreadable, "unknown", "unknown"),
        (Found::NotAFile("a FIFO or socket"), "unknown", "unknown"),
        (corrupt, "corrupt", "descendant"),
    ];
    for (found, free, held) in rows {
        for (pulse, expected) in [(PulseFacts::Free, free), (PulseFacts::Held, held)] {
            for owners in [&[][..], &[RUNNING], &[ENDED]] {
                let judgement = judge(&found, &here(), owners, pulse);
                assert_eq!(word(&judgement.state), expected, "{found:?} {pulse:?} {owners:?}");
            }
        }
    }
    // Rule 1: nothing that a foreign /proc shows counts, not even the pulse.
    let blind = Here { proc_is_ours: false, ..here() };
    for pulse in [PulseFacts::Free, PulseFacts::Held] {
        assert_eq!(verdict(&record(), &blind, &[RUNNING], pulse), "unknown");
    }
}

/// A change to the record, a change to ourselves, and the scope that follows.
type Row = (&'static str, fn(&mut Value), fn(&mut Here), &'static str);

#[test]
fn rules_2_and_3_say_how_to_look() {
    let rows: Vec<Row> = vec![
        ("same kernel, same namespace", |_| {}, |_| {}, "number"),
        (
            "later after a boot than now",
            |r| r["host"]["boottime_us"] = json!(3_700_000_000_u64),
            |_| {},
            "dead",
        ),
        (
            "a tick later than now",
            |r| {
                r["last_tick"] = json!({"utc": "", "boottime_us": 9_000_000_000_u64, "monotonic_us": 1});
            },
            |_| {},
            "dead",
        ),
        (
            "the same, not local, one machine",
            |r| r["host"]["boottime_us"] = json!(3_700_000_000_u64),
            |h| h.local = false,
            "dead",
        ),
        (
            "the same, marked network",
            |r| r["host"]["boottime_us"] = json!(3_700_000_000_u64),
            |h| h.network = true,
            "number",
        ),
        (
            "the same from another time namespace",
            |r| {
                r["host"]["boottime_us"] = json!(3_700_000_000_u64);
                r["host"]["time_ns"] = json!(4_026_531_999_u64);
            },
            |_| {},
            "number",
        ),
        (
            "the same, seen from another time namespace",
            |r| {
                r["host"]["boottime_us"] = json!(3_700_000_000_u64);
            },
            |h| h.host.time_ns = Some(4_026_531_999),
            "number",
        ),
        (
            "a kernel without time namespaces",
            |r| {
                r["host"]["boottime_us"] = json!(3_700_000_000_u64);
                r["host"]["time_ns"] = Value::Null;
            },
            |h| h.host.time_ns = None,
            "dead",
        ),
        (
            "one side without a time namespace",
            |r| {
                r["host"]["boottime_us"] = json!(3_700_000_000_u64);
                r["host"]["time_ns"] = Value::Null;
            },
            |_| {},
            "number",
        ),
        ("another boot, local", |r| r["host"]["boot_id"] = json!(OTHER_BOOT), |_| {}, "dead"),
        (
            "another boot, local, other namespace",
            |r| {
                r["host"]["boot_id"] = json!(OTHER_BOOT);
                r["host"]["pid_ns"] = json!(CONTAINER);
            },
            |_| {},
            "dead",
        ),
        (
            "another boot, not local, one machine",
            |r| r["host"]["boot_id"] = json!(OTHER_BOOT),
            |h| h.local = false,
            "dead",
        ),
        (
            "another boot, not local, other machine",
            |r| {
                r["host"]["boot_id"] = json!(OTHER_BOOT);
                r["host"]["machine_id"] = json!("f".repeat(32));
            },
            |h| h.local = false,
            "unclear",
        ),
        (
            "another boot, not local, no machine ids",
            |r| {
                r["host"]["boot_id"] = json!(OTHER_BOOT);
                r["host"]["machine_id"] = Value::Null;
            },
            |h| {
                h.local = false;
                h.host.machine_id = None;
            },
            "unclear",
        ),
        (
            "another boot, marked network",
            |r| r["host"]["boot_id"] = json!(OTHER_BOOT),
            |h| h.network = true,
            "unclear",
        ),
        ("no boot id there", |r| r["host"]["boot_id"] = Value::Null, |_| {}, "unclear"),
        ("no boot id here", |_| {}, |h| h.host.boot_id = None, "unclear"),
        ("no boot id on both", |r| r["host"]["boot_id"] = Value::Null, |h| h.host.boot_id = None, "number"),
        (
            "same container",
            |r| r["host"]["pid_ns"] = json!(CONTAINER),
            |h| h.host.pid_ns = Some(CONTAINER),
            "number",
        ),
        (
            "a kernel without pid namespaces",
            |r| r["host"]["pid_ns"] = Value::Null,
            |h| h.host.pid_ns = None,
            "number",
        ),
        ("a container, seen from outside", |r| r["host"]["pid_ns"] = json!(CONTAINER), |_| {}, "search"),
        (
            "the same without pidfs here",
            |r| r["host"]["pid_ns"] = json!(CONTAINER),
            |h| h.pidfs = false,
            "unclear",
        ),
        (
            "the same without inodes there",
            |r| {
                r["host"]["pid_ns"] = json!(CONTAINER);
                r["owners"][0]["pidfs_ino"] = Value::Null;
            },
            |_| {},
            "unclear",
        ),
        (
            "the same with one inode of two",
            |r| {
                r["host"]["pid_ns"] = json!(CONTAINER);
                r["owners"] =
                    json!([{"pid": 812, "start_ticks": 7, "pidfs_ino": 99}, {"pid": 813, "start_ticks": 7}]);
            },
            |_| {},
            "unclear",
        ),
        (
            "the same under hidepid",
            |r| r["host"]["pid_ns"] = json!(CONTAINER),
            |h| h.sees_everybody = false,
            "unclear",
        ),
        ("the host, seen from a container", |_| {}, |h| h.host.pid_ns = Some(CONTAINER), "unclear"),
        (
            "two containers",
            |r| r["host"]["pid_ns"] = json!(CONTAINER),
            |h| h.host.pid_ns = Some(CONTAINER + 1),
            "unclear",
        ),
        (
            "two containers, one at a time",
            |r| r["host"]["pid_ns"] = json!(CONTAINER),
            |h| {
                h.host.pid_ns = Some(CONTAINER + 1);
                h.private = true;
            },
            "private",
        ),
        ("private does not matter inside one", |_| {}, |h| h.private = true, "number"),
        ("a foreign /proc", |_| {}, |h| h.proc_is_ours = false, "unclear"),
    ];
    for (what, theirs, ours, expected) in rows {
        let (mut value, mut here) = (record(), here());
        theirs(&mut value);
        ours(&mut here);
        let got = match scope_of(&value, &here) {
            Scope::Restarted(_) => "dead",
            Scope::Search => "search",
            Scope::Private => "private",
            Scope::ByNumber => "number",
            Scope::Unclear(_) => "unclear",
        };
        assert_eq!(got, expected, "{what}");
        let (owners, expected) = match got {
            "dead" | "private" => (vec![OwnerFacts::NotLooked; 2], "dead"),
            _ => (vec![OwnerFacts::NotLooked; 2], "unknown"),
        };
        assert_eq!(verdict(&value, &here, &owners, PulseFacts::Free), expected, "{what}, not looked at");
        if here.proc_is_ours {
            assert_eq!(verdict(&value, &here, &owners, PulseFacts::Held), "descendant", "{what}, pulse");
        }
    }
}

#[test]
fn rules_3_to_5_judge_one_owner() {
    let by_proc = OwnerFacts::ByProc;
    let rows = [
        (RUNNING, "live"),
        (ENDED, "dead"),
        (OwnerFacts::ByPidFd(F::Absent), "dead"),
        (OwnerFacts::ByPidFd(F::OtherInode), "dead"),
        (refused(), "unknown"),
        (OwnerFacts::BySearch(S::Running), "live"),
        (OwnerFacts::BySearch(S::Ended), "dead"),
        (OwnerFacts::BySearch(S::Missing), "dead"),
        (OwnerFacts::BySearch(S::Incomplete), "unknown"),
        (by_proc(P::Absent, K::Absent), "dead"),
        (by_proc(P::Absent, K::Present), "unknown"),
        (by_proc(P::Absent, K::Unclear), "unknown"),
        (by_proc(P::Unreadable("permission denied".into()), K::Absent), "unknown"),
        (by_proc(P::Unreadable("permission denied".into()), K::Present), "unknown"),
        (by_proc(seen(7, 812, false), K::Present), "live"),
        (by_proc(seen(7, 812, false), K::Unclear), "live"),
        (by_proc(seen(8, 812, false), K::Present), "dead"),
        (by_proc(seen(7, 800, false), K::Present), "dead"),
        (by_proc(seen(7, 812, true), K::Present), "dead"),
        (OwnerFacts::NotLooked, "unknown"),
    ];
    for (facts, expected) in rows {
        for (pulse, expected) in [
            (PulseFacts::Free, expected),
            (PulseFacts::Held, if expected == "live" { "live" } else { "descendant" }),
            // Whether somebody it started still works was asked and not answered.
            (PulseFacts::Unclear, if expected == "dead" { "unknown" } else { expected }),
        ] {
            let got = verdict(&record(), &here(), std::slice::from_ref(&facts), pulse);
            assert_eq!(got, expected, "{facts:?} {pulse:?}");
        }
    }
}

#[test]
fn ticks_of_another_time_namespace_prove_nothing_and_a_pidfd_does() {
    let elsewhere = Here { host: HostIdentity { time_ns: Some(4_026_531_999), ..here().host }, ..here() };
    for ticks in [7, 8] {
        let facts = [OwnerFacts::ByProc(seen(ticks, 812, false), K::Present)];
        assert_eq!(verdict(&record(), &elsewhere, &facts, PulseFacts::Free), "unknown");
    }
    assert_eq!(verdict(&record(), &elsewhere, &[RUNNING], PulseFacts::Free), "live");
    assert_eq!(verdict(&record(), &elsewhere, &[ENDED], PulseFacts::Free), "dead");
}

#[test]
fn live_if_any_owner_is_and_dead_only_if_all_are() {
    let two = |mut value: Value| {
        value["owners"] = json!([
            {"pid": 812, "start_ticks": 7, "pidfs_ino": 99},
            {"pid": 913, "start_ticks": 8, "pidfs_ino": 100},
        ]);
        value
    };
    for (owners, expected) in [
        ([RUNNING, RUNNING], "live"),
        ([RUNNING, ENDED], "live"),
        ([ENDED, RUNNING], "live"),
        ([refused(), RUNNING], "live"),
        ([ENDED, ENDED], "dead"),
        ([ENDED, refused()], "unknown"),
        ([refused(), ENDED], "unknown"),
        ([refused(), refused()], "unknown"),
    ] {
        assert_eq!(verdict(&two(record()), &here(), &owners, PulseFacts::Free), expected, "{owners:?}");
    }
    let second = judge(&found(&two(record())), &here(), &[ENDED, RUNNING], PulseFacts::Free);
    assert_eq!(second.state, State::Live(Through::Owner(1)), "the one who lives is named");
    assert_eq!(
        verdict(&two(record()), &here(), &[ENDED], PulseFacts::Free),
        "unknown",
        "one was not looked at"
    );
}

#[test]
fn a_restart_is_proof_even_where_the_pulse_cannot_be_asked() {
    let mut value = record();
    value["host"]["boot_id"] = json!(OTHER_BOOT);
    assert_eq!(verdict(&value, &here(), &[], PulseFacts::Unclear), "dead");
}
