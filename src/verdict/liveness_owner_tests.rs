//! Rules 3 to 6 as rows: what was seen of the owners and of the pulse, and what follows.

use super::tests::{ENDED, OTHER_BOOT, RUNNING, found, here, record, refused, seen, verdict};
use super::*;
use crate::model::host::HostIdentity;
use crate::model::observation::{KillFacts as K, PidFdFacts as F, ProcFacts as P, SearchFacts as S};
use serde_json::{Value, json};

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
            (PulseFacts::NotAsked, expected),
            (
                PulseFacts::Held,
                match expected {
                    "live" => "live",
                    "dead" => "descendant",
                    _ => "carrier",
                },
            ),
            // Whether somebody it started still works was asked and not answered.
            (PulseFacts::Unclear, if expected == "dead" { "unknown" } else { expected }),
            (PulseFacts::Lost, if expected == "dead" { "unknown" } else { expected }),
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
    for pulse in [PulseFacts::Unclear, PulseFacts::Lost] {
        assert_eq!(verdict(&value, &here(), &[], pulse), "dead");
    }
}
