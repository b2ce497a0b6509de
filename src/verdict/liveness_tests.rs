//! Every rule as a row: what is recorded, who looks, what was seen, what follows.

use super::*;
use crate::model::host::HostIdentity;
use crate::model::observation::{PidFdFacts as F, ProcFacts as P};
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

/// `live`, `descendant`, `carrier`, `dead`, `unknown`, `free`, `newer` or `corrupt`.
fn word(state: &State) -> &'static str {
    match state {
        State::Free => "free",
        State::Live(Through::Owner(_)) => "live",
        State::Live(Through::Descendant) => "descendant",
        State::Live(Through::Carrier) => "carrier",
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

pub(super) const RUNNING: OwnerFacts = OwnerFacts::ByPidFd(F::SameInode { ended: false });
pub(super) const ENDED: OwnerFacts = OwnerFacts::ByPidFd(F::SameInode { ended: true });

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
        (Found::Nothing, "free", "carrier"),
        (found(&released), "free", "free"),
        (newer, "newer", "newer"),
        (unreadable, "unknown", "unknown"),
        (Found::NotAFile("a FIFO or socket"), "unknown", "unknown"),
        (corrupt, "corrupt", "carrier"),
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

/// A tick later after a boot than it is now, by the clock of a time namespace.
fn tick(time_ns: Value) -> Value {
    json!({"utc": "", "boottime_us": 9_000_000_000_u64, "monotonic_us": 1, "time_ns": time_ns})
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
        ("a tick later than now", |r| r["last_tick"] = tick(json!(INITIAL_TIME_NS)), |_| {}, "dead"),
        (
            "a tick from another time namespace",
            |r| r["last_tick"] = tick(json!(4_026_531_999_u64)),
            |_| {},
            "number",
        ),
        ("a tick of a clock that nobody named", |r| r["last_tick"] = tick(Value::Null), |_| {}, "number"),
        (
            "a tick from here, the record from another time namespace",
            |r| {
                r["host"]["time_ns"] = json!(4_026_531_999_u64);
                r["last_tick"] = tick(json!(INITIAL_TIME_NS));
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
        ("written in this very moment", |_| {}, |h| h.host.boottime_us = 3_600_000_000, "number"),
        (
            "later, both in one time namespace that is not the first: its clock may have been another one's",
            |r| {
                r["host"]["boottime_us"] = json!(3_700_000_000_u64);
                r["host"]["time_ns"] = json!(4_026_531_999_u64);
            },
            |h| h.host.time_ns = Some(4_026_531_999),
            "number",
        ),
        ("another boot, local", |r| r["host"]["boot_id"] = json!(OTHER_BOOT), |_| {}, "dead"),
        (
            "another boot, local, and no machine ids",
            |r| {
                r["host"]["boot_id"] = json!(OTHER_BOOT);
                r["host"]["machine_id"] = Value::Null;
            },
            |h| h.host.machine_id = None,
            "dead",
        ),
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
            // "Ended" is said of the dead only.
            let held = if expected == "dead" { "descendant" } else { "carrier" };
            assert_eq!(verdict(&value, &here, &owners, PulseFacts::Held), held, "{what}, pulse");
        }
    }
}
