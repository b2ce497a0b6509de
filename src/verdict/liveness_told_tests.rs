//! What a verdict says of itself: each step, and what is missing in a doubt.

use super::tests::{ENDED, OTHER_BOOT, found, here, record, refused, scope_of};
use super::*;
use crate::model::host::HostIdentity;
use serde_json::json;

#[test]
fn every_step_of_a_verdict_is_told() {
    let evidence = |found: &Found, owners: &[OwnerFacts], pulse| {
        let judgement = judge(found, &here(), owners, pulse);
        judgement.evidence.join("\n")
    };
    let (record, torn) = (found(&record()), Found::Bad(BadRecord::Corrupt("torn".into())));
    let first = "rule 2: same boot, same pid namespace\n";
    let (ended, cannot) = (
        "rule 4: its pidfd says ended: DEAD (pid 812)\n",
        "rule 4: pidfd_open: too many open files: UNKNOWN (pid 812)\n",
    );
    for (owner, second, pulse, last) in [
        (ENDED, ended, PulseFacts::Held, "rule 6: a process it started carries the pulse: LIVE"),
        (refused(), cannot, PulseFacts::Held, "rule 6: something of its run carries the pulse: LIVE"),
        (ENDED, ended, PulseFacts::Unclear, "rule 6: the pulse cannot be asked: UNKNOWN"),
        (
            ENDED,
            ended,
            PulseFacts::Lost,
            "rule 6: the pulse file was removed, and not everybody could be looked at: UNKNOWN",
        ),
        (ENDED, ended, PulseFacts::Free, "rule 6: nobody is seen to carry the pulse"),
    ] {
        assert_eq!(evidence(&record, &[owner], pulse), format!("{first}{second}{last}"));
    }
    assert_eq!(
        evidence(&Found::Nothing, &[], PulseFacts::Held),
        "rule 0: no record\nrule 0: the pulse of the last token is carried, so the record was removed: LIVE"
    );
    for (pulse, last) in [
        (PulseFacts::Held, "\nrule 6: somebody carries the pulse: LIVE"),
        (PulseFacts::Unclear, "\nrule 6: the pulse cannot be asked: UNKNOWN"),
        (PulseFacts::Free, ""),
    ] {
        assert_eq!(evidence(&torn, &[], pulse), format!("rule 1: corrupt: torn{last}"));
    }
}

#[test]
fn a_doubt_says_what_is_missing() {
    let mut elsewhere = record();
    elsewhere["host"]["boot_id"] = json!(OTHER_BOOT);
    let far = Here { local: false, host: HostIdentity { machine_id: None, ..here().host }, ..here() };
    assert_eq!(scope_of(&elsewhere, &far), Scope::Unclear(Doubt::OtherMachine));
    assert!(Doubt::OtherMachine.reason().contains("another machine"));
    assert!(Doubt::Refused("EPERM".into()).reason().ends_with("EPERM"));
    let blind = Here { proc_is_ours: false, ..here() };
    let judgement = judge(&found(&record()), &blind, &[], PulseFacts::Free);
    assert_eq!(
        judgement.evidence,
        ["rules 1 to 3: /proc here describes another pid namespace, or is not mounted: UNKNOWN"]
    );
}
