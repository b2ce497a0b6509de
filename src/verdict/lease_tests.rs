use super::*;
use crate::model::stamp::Stamp;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(300);

fn payload(text: &str) -> Payload {
    Payload::parse(text.as_bytes()).expect("payload")
}

fn build(time: Option<&str>, size: u64, revision: Option<&str>) -> Build {
    Build {
        mod_time: time.and_then(|time| Stamp::read(time).stamp()),
        size: Some(size),
        revision: revision.map(str::to_owned),
    }
}

#[test]
fn a_build_outranks_only_a_stamped_older_one() {
    use BuildOrder::{DifferentAtOneTime, Newer, Older, Same, Unknown};
    let (early, late) = (Some("2026-11-29T09:00:00Z"), Some("2026-11-29T09:00:01Z"));
    let cases = [
        ("later", build(late, 1, None), build(early, 1, None), Newer),
        ("earlier", build(early, 1, None), build(late, 1, None), Older),
        ("the same", build(early, 1, Some("a")), build(early, 1, Some("a")), Same),
        ("another size alone", build(early, 2, Some("a")), build(early, 1, Some("a")), DifferentAtOneTime),
        (
            "another revision alone",
            build(early, 1, Some("b")),
            build(early, 1, Some("a")),
            DifferentAtOneTime,
        ),
        ("both differ", build(early, 2, Some("b")), build(early, 1, Some("a")), DifferentAtOneTime),
        ("a revision nobody gave", build(early, 1, Some("b")), build(early, 1, None), Same),
        ("theirs unstamped", build(late, 1, None), build(None, 1, None), Unknown),
        ("ours unstamped", build(None, 1, None), build(early, 1, None), Unknown),
        (
            "nanoseconds against a copy without",
            build(Some("2026-11-29T09:00:00.9Z"), 1, None),
            build(early, 1, None),
            Same,
        ),
    ];
    for (name, ours, theirs, expected) in cases {
        assert_eq!(build_order(&ours, &theirs), expected, "{name}");
    }
}

proptest::proptest! {
    #[test]
    fn of_two_builds_at_most_one_is_newer(
        times in proptest::array::uniform2(proptest::option::of(0_u64..3)),
        sizes in proptest::array::uniform2(proptest::option::of(0_u64..3)),
        revisions in proptest::array::uniform2(proptest::option::of("[ab]")),
    ) {
        let [a, b] = [0, 1].map(|side| Build {
            mod_time: times[side].map(|time| Stamp::of(std::time::UNIX_EPOCH + Duration::from_secs(time))),
            size: sizes[side],
            revision: revisions[side].clone(),
        });
        let both = [build_order(&a, &b), build_order(&b, &a)];
        proptest::prop_assert!(both != [BuildOrder::Newer; 2]);
        proptest::prop_assert_eq!(both[0] == BuildOrder::Newer, both[1] == BuildOrder::Older);
    }
}

#[test]
fn only_a_proved_holder_is_ended_and_only_for_a_reason_that_was_asked_for() {
    use TakeoverReason::{Newer, Stuck};
    let ours = build(Some("2026-11-29T09:00:01Z"), 1, None);
    let old = payload("{\"pid\":812,\"build\":{\"mod_time\":\"2026-11-29T09:00:00Z\",\"size\":1}}");
    let unstamped = payload("{\"pid\":812}");
    let stuck = Silence::Stuck { silent: LIMIT };
    let fresh = Silence::Fresh { silent: Duration::from_secs(1) };
    let unproved = Silence::Unproved { why: "the machine slept", second_look: None };
    let kind = |decision: &TakeoverVerdict| match decision {
        TakeoverVerdict::End(812, reason) => format!("end {reason:?}"),
        TakeoverVerdict::End(pid, _) => format!("end of a stranger {pid}"),
        TakeoverVerdict::Keep(_) => "keep".into(),
        TakeoverVerdict::Doubtful(_) => "doubtful".into(),
        TakeoverVerdict::CannotTell(_) => "cannot tell".into(),
    };
    let it = HolderProof::Holder(812);
    type TakeoverCase<'a> =
        (&'a str, &'a [TakeoverReason], &'a Payload, &'a Silence, &'a HolderProof, &'a str);
    let cases: [TakeoverCase<'_>; 15] = [
        ("stuck", &[Stuck], &unstamped, &stuck, &it, "end Stuck"),
        ("never ticked", &[Stuck], &unstamped, &Silence::NeverTicked, &it, "keep"),
        ("fresh", &[Stuck], &unstamped, &fresh, &it, "keep"),
        ("perhaps asleep", &[Stuck], &unstamped, &unproved, &it, "doubtful"),
        ("perhaps asleep, only newer asked for", &[Newer], &unstamped, &unproved, &it, "keep"),
        ("perhaps asleep, and older", &[Stuck, Newer], &old, &unproved, &it, "end Newer"),
        ("stuck, nothing asked for", &[], &old, &stuck, &it, "keep"),
        ("stuck, only newer asked for", &[Newer], &unstamped, &stuck, &it, "keep"),
        ("older build", &[Newer], &old, &fresh, &it, "end Newer"),
        ("older build, only stuck asked for", &[Stuck], &old, &fresh, &it, "keep"),
        ("both asked for", &[Stuck, Newer], &old, &fresh, &it, "end Newer"),
        ("not the payload's", &[Stuck], &unstamped, &stuck, &HolderProof::NotIt, "cannot tell"),
        ("hidden", &[Stuck], &unstamped, &stuck, &HolderProof::Hidden, "cannot tell"),
        ("several", &[Stuck], &unstamped, &stuck, &HolderProof::Several(vec![812, 813]), "cannot tell"),
        ("no name", &[Stuck], &unstamped, &stuck, &HolderProof::NoName, "cannot tell"),
    ];
    for (name, allowed, payload, silence, proof, expected) in cases {
        let decision = takeover(allowed, Some((payload, silence)), Some(&ours), proof);
        assert_eq!(kind(&decision), expected, "{name}: {decision:?}");
    }
    let decision = takeover(&[Stuck, Newer], None, Some(&ours), &HolderProof::NoName);
    assert_eq!(kind(&decision), "cannot tell", "no payload");
    let equal = payload("{\"pid\":812,\"build\":{\"mod_time\":\"2026-11-29T09:00:01Z\",\"size\":2}}");
    let decision = takeover(&[Newer], Some((&equal, &fresh)), Some(&ours), &it);
    assert!(matches!(&decision, TakeoverVerdict::Keep(why) if why.contains("equal times")), "{decision:?}");
}

#[test]
fn who_is_kept_is_told_why() {
    use TakeoverReason::{Newer, Stuck};
    let ours = build(Some("2026-11-29T09:00:01Z"), 1, None);
    let unstamped = build(None, 1, None);
    let theirs = |build: &str| payload(&format!("{{\"pid\":812{build}}}"));
    let of = |time: &str| theirs(&format!(",\"build\":{{\"mod_time\":\"{time}\",\"size\":1}}"));
    let (none, same) = (theirs(""), of("2026-11-29T09:00:01Z"));
    let (later, earlier) = (of("2026-11-29T09:00:02Z"), of("2026-11-29T09:00:00Z"));
    let fresh = Silence::Fresh { silent: Duration::from_secs(1) };
    let stuck = Silence::Stuck { silent: LIMIT };
    let unproved = Silence::Unproved { why: "the machine slept", second_look: None };
    let never = "it never ticked, so it is not known to be stuck";
    type Told<'a> = (&'a [TakeoverReason], &'a Payload, &'a Silence, Option<&'a Build>, &'a str);
    let cases: [Told<'_>; 12] = [
        (&[], &none, &stuck, Some(&ours), "nothing was asked for that allows it"),
        (&[Stuck], &earlier, &Silence::NeverTicked, Some(&ours), never),
        (&[Stuck], &none, &fresh, Some(&ours), "it ticks"),
        (&[Stuck], &none, &unproved, None, "cannot tell whether it is stuck: the machine slept"),
        (&[Newer], &none, &stuck, None, "our own build is not known"),
        (&[Newer], &same, &stuck, None, "our own build is not known"),
        (&[Newer], &same, &fresh, Some(&unstamped), "our own build is not known"),
        (&[Newer], &none, &fresh, Some(&ours), "it does not say which build it runs"),
        (&[Newer], &of("soon"), &fresh, Some(&ours), "it does not say which build it runs"),
        (&[Newer], &same, &fresh, Some(&ours), "its build has the same file time as ours"),
        (&[Newer], &later, &fresh, Some(&ours), "its build is newer than ours"),
        (&[Stuck, Newer], &later, &fresh, Some(&ours), "it ticks and its build is newer than ours"),
    ];
    for (allowed, payload, silence, ours, expected) in cases {
        let proof = HolderProof::Holder(812);
        match takeover(allowed, Some((payload, silence)), ours, &proof) {
            TakeoverVerdict::Keep(why) | TakeoverVerdict::Doubtful(why) => assert_eq!(why, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
}

#[test]
fn an_unknown_holder_is_told_by_what_is_missing() {
    for (proof, expected) in [
        (HolderProof::Holder(812), "its payload cannot be read"),
        (HolderProof::NoName, "nobody knows whose it is"),
        (HolderProof::NotIt, "does not hold the lock file here"),
        (HolderProof::Hidden, "cannot be seen"),
        (HolderProof::Several(vec![812, 813]), "several processes hold the lock file (pids 812, 813)"),
    ] {
        match takeover(&[TakeoverReason::Stuck], None, None, &proof) {
            TakeoverVerdict::CannotTell(why) => assert!(why.contains(expected), "{why}"),
            other => panic!("{expected}: {other:?}"),
        }
    }
}
