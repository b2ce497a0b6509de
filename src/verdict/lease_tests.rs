use super::*;
use crate::model::stamp::Stamp;
use std::time::UNIX_EPOCH;

const MINUTE: u64 = 60;
const LIMIT: Duration = Duration::from_secs(5 * MINUTE);
const NONE: Duration = Duration::ZERO;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// 10:00 on a machine that booted ten hours ago and slept for `slept`.
fn now(slept: Duration) -> ClockReadings {
    let up = seconds(36_000);
    let micros = |time: Duration| u64::try_from(time.as_micros()).expect("small");
    ClockReadings {
        wall: UNIX_EPOCH + seconds(1_800_000_000),
        boottime_us: micros(up),
        monotonic_us: micros(up - slept),
        boot_id: Some("this".into()),
    }
}

fn payload(text: &str) -> Payload {
    Payload::parse(text.as_bytes()).expect("payload")
}

/// A tick by the wall clock alone, `ago` seconds before `now`.
fn go_tick(ago: i64) -> Payload {
    let at = UNIX_EPOCH + seconds(1_800_000_000_u64.saturating_add_signed(-ago));
    payload(&format!("{{\"pid\":812,\"last_tick\":\"{}\"}}", Stamp::of(at).rfc3339_trimmed()))
}

/// Our own tick `wall_ago` and `awake_ago` before `now`.
fn our_tick(wall_ago: i64, awake_ago: u64, now: &ClockReadings) -> Payload {
    let at = go_tick(wall_ago).last_tick().stamp().expect("tick");
    payload("{\"pid\":812}").ticked(at, Some("this"), now.monotonic_us - awake_ago * 1_000_000)
}

#[test]
fn silence_counts_in_time_awake() {
    let awake = now(NONE);
    let napped = now(seconds(400));
    let stuck = |secs| Silence::Stuck { silent: seconds(secs) };
    let fresh = |secs| Silence::Fresh { silent: seconds(secs) };
    let unproved = |why, left: Option<u64>| Silence::Unproved { why, second_look: left.map(seconds) };
    let cases = [
        ("never ticked", payload("{\"pid\":812}"), &awake, NONE, Silence::NeverTicked),
        (
            "Go's zero time",
            payload("{\"last_tick\":\"0001-01-01T00:00:00Z\"}"),
            &awake,
            NONE,
            Silence::NeverTicked,
        ),
        ("no time", payload("{\"last_tick\":\"soon\"}"), &awake, NONE, unproved(UNREADABLE, None)),
        ("just ticked", our_tick(1, 1, &awake), &awake, NONE, fresh(1)),
        ("a second short", our_tick(299, 299, &awake), &awake, NONE, fresh(299)),
        ("silent for the limit", our_tick(300, 300, &awake), &awake, NONE, stuck(300)),
        ("the laptop slept", our_tick(420, 20, &napped), &napped, NONE, fresh(20)),
        ("it slept and then was silent", our_tick(720, 320, &napped), &napped, NONE, stuck(320)),
        ("the wall clock went back", our_tick(-3600, 310, &awake), &awake, NONE, stuck(310)),
        ("the wall clock went forward", our_tick(9999, 10, &awake), &awake, NONE, fresh(10)),
        ("their tick, never slept", go_tick(301), &awake, NONE, stuck(301)),
        ("their tick is fresh", go_tick(299), &awake, NONE, fresh(299)),
        ("their tick, may have slept", go_tick(301), &napped, NONE, unproved(SLEPT, Some(300))),
        ("their tick, more silence than sleep", go_tick(701), &napped, NONE, stuck(301)),
        ("their tick, looked at again", go_tick(301), &napped, seconds(120), unproved(SLEPT, Some(180))),
        ("their tick, looked at long enough", go_tick(301), &napped, seconds(300), stuck(300)),
        ("their tick is in the future", go_tick(-60), &awake, NONE, unproved(FUTURE, Some(300))),
        ("their future tick, looked at long enough", go_tick(-60), &awake, seconds(300), stuck(300)),
        ("a clock one second ahead", go_tick(-1), &awake, NONE, fresh(0)),
        (
            "their tick is older than the boot",
            go_tick(40_000),
            &awake,
            NONE,
            unproved(BEFORE_BOOT, Some(300)),
        ),
    ];
    for (name, payload, now, seen, expected) in cases {
        assert_eq!(silence(&payload, now, LIMIT, seen), expected, "{name}");
    }
    let mut other_boot = now(NONE);
    other_boot.boot_id = Some("other".into());
    assert_eq!(silence(&our_tick(999, 999, &awake), &other_boot, LIMIT, NONE), unproved(OTHER_BOOT, None));
    other_boot.boot_id = None;
    assert_eq!(silence(&our_tick(999, 999, &awake), &other_boot, LIMIT, NONE), unproved(OTHER_BOOT, None));
}

#[test]
fn a_future_stamp_is_said() {
    let now = now(NONE);
    assert!(clock_moved(&go_tick(-60), &now));
    assert!(clock_moved(&our_tick(-60, 1, &now), &now));
    assert!(!clock_moved(&go_tick(60), &now));
    assert!(clock_moved(&payload("{\"acquired_at\":\"2999-01-01T00:00:00Z\"}"), &now));
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
    let (early, late) = (Some("2026-11-29T09:00:00Z"), Some("2026-11-29T09:00:01Z"));
    let cases = [
        ("later", build(late, 1, None), build(early, 1, None), true),
        ("earlier", build(early, 1, None), build(late, 1, None), false),
        ("the same", build(early, 1, Some("a")), build(early, 1, Some("a")), false),
        ("another size alone", build(early, 2, Some("a")), build(early, 1, Some("a")), false),
        ("another revision alone", build(early, 1, Some("b")), build(early, 1, Some("a")), false),
        ("both differ", build(early, 2, Some("b")), build(early, 1, Some("a")), true),
        ("a revision nobody gave", build(early, 2, Some("b")), build(early, 1, None), false),
        ("theirs unstamped", build(late, 1, None), build(None, 1, None), false),
        ("ours unstamped", build(None, 1, None), build(early, 1, None), false),
        (
            "nanoseconds against a copy without",
            build(Some("2026-11-29T09:00:00.9Z"), 1, None),
            build(early, 1, None),
            false,
        ),
    ];
    for (name, ours, theirs, expected) in cases {
        assert_eq!(newer_than(&ours, &theirs), expected, "{name}");
    }
}

#[test]
fn only_a_proved_holder_is_ended_and_only_for_a_reason_that_was_asked_for() {
    use TakeoverReason::{Newer, Stuck};
    let ours = build(Some("2026-11-29T09:00:01Z"), 1, None);
    let old = payload("{\"pid\":812,\"build\":{\"mod_time\":\"2026-11-29T09:00:00Z\",\"size\":1}}");
    let unstamped = payload("{\"pid\":812}");
    let stuck = Silence::Stuck { silent: LIMIT };
    let fresh = Silence::Fresh { silent: seconds(1) };
    let unproved = Silence::Unproved { why: SLEPT, second_look: None };
    let kind = |decision: &TakeoverVerdict| match decision {
        TakeoverVerdict::End(812, reason) => format!("end {reason:?}"),
        TakeoverVerdict::End(pid, _) => format!("end of a stranger {pid}"),
        TakeoverVerdict::Keep(_) => "keep".into(),
        TakeoverVerdict::CannotTell(_) => "cannot tell".into(),
    };
    let it = HolderProof::Holder(812);
    type TakeoverCase<'a> =
        (&'a str, &'a [TakeoverReason], &'a Payload, &'a Silence, &'a HolderProof, &'a str);
    let cases: [TakeoverCase<'_>; 13] = [
        ("stuck", &[Stuck], &unstamped, &stuck, &it, "end Stuck"),
        ("never ticked", &[Stuck], &unstamped, &Silence::NeverTicked, &it, "keep"),
        ("fresh", &[Stuck], &unstamped, &fresh, &it, "keep"),
        ("perhaps asleep", &[Stuck], &unstamped, &unproved, &it, "keep"),
        ("stuck, nothing asked for", &[], &old, &stuck, &it, "keep"),
        ("stuck, only newer asked for", &[Newer], &unstamped, &stuck, &it, "keep"),
        ("older build", &[Newer], &old, &fresh, &it, "end Newer"),
        ("older build, only stuck asked for", &[Stuck], &old, &fresh, &it, "keep"),
        ("both asked for", &[Stuck, Newer], &old, &fresh, &it, "end Newer"),
        ("not the payload's", &[Stuck], &unstamped, &stuck, &HolderProof::NotIt(812), "cannot tell"),
        ("hidden", &[Stuck], &unstamped, &stuck, &HolderProof::Hidden(812), "cannot tell"),
        ("several", &[Stuck], &unstamped, &stuck, &HolderProof::Several(vec![812, 813]), "cannot tell"),
        ("no name", &[Stuck], &unstamped, &stuck, &HolderProof::NoName, "cannot tell"),
    ];
    for (name, allowed, payload, silence, proof, expected) in cases {
        let decision = takeover(allowed, Some((payload, silence)), Some(&ours), proof);
        assert_eq!(kind(&decision), expected, "{name}: {decision:?}");
    }
    let decision = takeover(&[Stuck, Newer], None, Some(&ours), &HolderProof::NoName);
    assert_eq!(kind(&decision), "cannot tell", "no payload");
}
