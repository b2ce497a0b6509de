use super::*;
use crate::model::stamp::Stamp;
use std::time::UNIX_EPOCH;

const LIMIT: Duration = Duration::from_secs(300);
/// The wall clock of these tests, seconds since 1970.
const WALL: u64 = 1_800_000_000;
/// How long the machine has been up, and how long the holder runs, seconds.
const UP: u64 = 36_000;
const RUN: u64 = 20_000;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A machine that booted ten hours ago and slept for `slept` seconds.
fn now(slept: u64) -> ClockReadings {
    ClockReadings {
        wall: UNIX_EPOCH + seconds(WALL),
        boottime_us: UP * 1_000_000,
        monotonic_us: (UP - slept) * 1_000_000,
        boot_id: Some("this".into()),
        time_ns: Some(INITIAL_TIME_NS),
    }
}

fn payload(text: &str) -> Payload {
    Payload::parse(text.as_bytes()).expect("payload")
}

fn ago(seconds_ago: i64) -> String {
    let at = UNIX_EPOCH + seconds(WALL.saturating_add_signed(-seconds_ago));
    Stamp::of(at).rfc3339_trimmed()
}

/// A tick by the wall clock alone, of a holder that took its role as it started.
fn go_tick(tick_ago: i64) -> Payload {
    held_since(RUN as i64 - 1, tick_ago)
}

fn held_since(acquired_ago: i64, tick_ago: i64) -> Payload {
    payload(&format!(
        "{{\"pid\":812,\"acquired_at\":\"{}\",\"last_tick\":\"{}\"}}",
        ago(acquired_ago),
        ago(tick_ago)
    ))
}

/// What our own tick carries, written `awake_ago` seconds of time awake ago.
fn clocks(awake_ago: u64, now: &ClockReadings) -> TickStamp {
    TickStamp {
        boot_id: now.boot_id.clone(),
        time_ns: now.time_ns,
        monotonic_us: Some(now.monotonic_us - awake_ago * 1_000_000),
        boottime_us: Some(now.boottime_us - awake_ago * 1_000_000),
        ..TickStamp::default()
    }
}

/// Our own tick `wall_ago` and `awake_ago` before `now`.
fn our_tick(wall_ago: i64, awake_ago: u64, now: &ClockReadings) -> Payload {
    with_stamp(wall_ago, clocks(awake_ago, now))
}

fn with_stamp(wall_ago: i64, stamp: TickStamp) -> Payload {
    let at = Stamp::read(&ago(wall_ago)).stamp().expect("tick");
    payload(&format!("{{\"pid\":812,\"acquired_at\":\"{}\"}}", ago(RUN as i64 - 1))).ticked(at, stamp)
}

/// A holder that runs for `run` seconds, whose tick was seen for `same`.
fn seen(run: u64, same: u64) -> HolderSeen {
    HolderSeen { started_us: Some((UP - run) * 1_000_000), same_tick_for: seconds(same) }
}

fn judge(payload: &Payload, now: &ClockReadings, seen: &HolderSeen) -> Silence {
    silence(payload, now, seen, LIMIT)
}

fn stuck(secs: u64) -> Silence {
    Silence::Stuck { silent: seconds(secs) }
}

fn fresh(secs: u64) -> Silence {
    Silence::Fresh { silent: seconds(secs) }
}

fn unproved(why: &'static str, left: Option<u64>) -> Silence {
    Silence::Unproved { why, second_look: left.map(seconds) }
}

#[test]
fn silence_counts_in_time_awake() {
    let (awake, napped) = (now(0), now(400));
    let cases = [
        ("never ticked", payload("{\"pid\":812}"), &awake, Silence::NeverTicked),
        ("Go's zero time", payload("{\"last_tick\":\"0001-01-01T00:00:00Z\"}"), &awake, Silence::NeverTicked),
        ("no time", payload("{\"last_tick\":\"soon\"}"), &awake, unproved(UNREADABLE, None)),
        ("just ticked", our_tick(1, 1, &awake), &awake, fresh(1)),
        ("a second short", our_tick(299, 299, &awake), &awake, fresh(299)),
        ("silent for the limit", our_tick(300, 300, &awake), &awake, stuck(300)),
        ("the laptop slept", our_tick(420, 20, &napped), &napped, fresh(20)),
        ("it slept and then was silent", our_tick(720, 320, &napped), &napped, stuck(320)),
        ("the wall clock went back", our_tick(-3600, 310, &awake), &awake, stuck(310)),
        ("the wall clock went forward", our_tick(9999, 10, &awake), &awake, fresh(10)),
        ("their tick, never slept", go_tick(301), &awake, stuck(301)),
        ("their tick is fresh", go_tick(299), &awake, fresh(299)),
        ("their tick, may have slept", go_tick(301), &napped, unproved(SLEPT, Some(300))),
        ("their tick, more silence than sleep", go_tick(701), &napped, stuck(301)),
        ("a clock one second ahead", go_tick(-1), &awake, fresh(0)),
    ];
    for (name, payload, now, expected) in cases {
        assert_eq!(judge(&payload, now, &seen(RUN, 0)), expected, "{name}");
    }
}

#[test]
fn their_tick_is_proved_by_our_own_eyes() {
    let napped = now(400);
    let cases = [
        ("looked at again", seen(RUN, 120), go_tick(301), unproved(SLEPT, Some(180))),
        ("a second short", seen(RUN, 299), go_tick(301), unproved(SLEPT, Some(1))),
        ("looked at long enough", seen(RUN, 300), go_tick(301), stuck(300)),
        ("of a tick in the future nothing is known", seen(RUN, 300), go_tick(-60), unproved(FUTURE, None)),
        ("nor of one before the start", seen(RUN, 300), go_tick(20_010), unproved(NOT_ITS_OWN, None)),
        ("a holder younger than the limit", seen(299, 300), go_tick(301), unproved(YOUNG, None)),
    ];
    for (name, seen, payload, expected) in cases {
        assert_eq!(judge(&payload, &napped, &seen), expected, "{name}");
    }
}

#[test]
fn one_witness_is_not_enough() {
    let awake = now(0);
    let silent = our_tick(400, 400, &awake);
    let stamped = |change: fn(&mut TickStamp)| {
        let mut stamp = clocks(400, &now(0));
        change(&mut stamp);
        with_stamp(400, stamp)
    };
    let there = |change: fn(&mut ClockReadings)| {
        let mut there = now(0);
        change(&mut there);
        there
    };
    let (old, elsewhere) = (seen(RUN, 0), there(|now| now.time_ns = Some(7)));
    assert_eq!(judge(&silent, &awake, &old), stuck(400), "with both");
    let unseen = HolderSeen { started_us: None, same_tick_for: seconds(400) };
    let cases = [
        ("another time namespace", judge(&silent, &elsewhere, &old), OTHER_CLOCK),
        ("ours cannot be read", judge(&silent, &there(|now| now.time_ns = None), &old), OTHER_CLOCK),
        ("theirs is not written", judge(&stamped(|stamp| stamp.time_ns = None), &awake, &old), OTHER_CLOCK),
        ("half a stamp", judge(&stamped(|stamp| stamp.monotonic_us = None), &awake, &old), OTHER_CLOCK),
        ("the other half", judge(&stamped(|stamp| stamp.boottime_us = None), &awake, &old), OTHER_CLOCK),
        ("another boot", judge(&silent, &there(|now| now.boot_id = Some("b".into())), &old), OTHER_BOOT),
        ("an unknown boot", judge(&stamped(|stamp| stamp.boot_id = None), &awake, &old), OTHER_BOOT),
        (
            "no boot at all",
            {
                let payload = stamped(|stamp| stamp.boot_id = None);
                judge(&payload, &there(|now| now.boot_id = None), &old)
            },
            OTHER_BOOT,
        ),
        ("a clock that went back", judge(&silent, &there(|now| now.monotonic_us = 9), &old), FUTURE),
        ("a machine rolled back", judge(&silent, &there(|now| now.boottime_us = 9), &old), FUTURE),
        ("the holder before wrote it", judge(&silent, &awake, &seen(399, 0)), NOT_ITS_OWN),
        ("the start is not seen", judge(&silent, &awake, &unseen), UNSEEN),
        ("theirs: the holder before wrote it", judge(&go_tick(400), &awake, &seen(300, 0)), NOT_ITS_OWN),
        ("theirs: 20 ms old", judge(&go_tick(400), &awake, &seen(0, 0)), NOT_ITS_OWN),
        ("theirs: within the tolerance", judge(&go_tick(301), &awake, &seen(299, 0)), YOUNG),
        ("theirs: the start is not seen", judge(&go_tick(400), &awake, &unseen), UNSEEN),
    ];
    for (name, silence, why) in cases {
        assert_eq!(silence, unproved(why, None), "{name}");
    }
    // The clock was set, or may have been: only our own eyes tell.
    for (name, payload, now) in [
        ("set forward since it took the role", held_since(RUN as i64 + 400, 400), &awake),
        ("took the role long after its start", held_since(RUN as i64 - 60, 400), &awake),
        ("does not say when", payload(&format!("{{\"last_tick\":\"{}\"}}", ago(400))), &awake),
    ] {
        assert_eq!(judge(&payload, now, &old), unproved(STEPPED, Some(300)), "{name}");
        assert_eq!(judge(&payload, now, &seen(RUN, 300)), stuck(300), "{name}");
    }
    assert_eq!(
        judge(&go_tick(400), &elsewhere, &old),
        unproved(SLEPT, Some(300)),
        "two clocks with two offsets"
    );
}

#[test]
fn a_future_stamp_is_said() {
    let now = now(0);
    assert!(clock_moved(&go_tick(-60), &now));
    assert!(clock_moved(&our_tick(-60, 1, &now), &now));
    assert!(!clock_moved(&go_tick(60), &now));
    assert!(clock_moved(&payload("{\"acquired_at\":\"2999-01-01T00:00:00Z\"}"), &now));
}

/// The facts of a judgement, each of which may be missing.
#[derive(Clone, Debug)]
struct Facts {
    acquired_ago: Option<i64>,
    tick_ago: Option<i64>,
    /// Seconds awake since the tick, and whether each field of the stamp is there.
    stamp: Option<(u64, [bool; 4])>,
    /// The stamp is from another boot, another time namespace.
    foreign: [bool; 2],
    slept: u64,
    run: Option<u64>,
    same_tick_for: u64,
    boot_known: bool,
    time_ns_known: bool,
}

impl Facts {
    fn judge(&self) -> Silence {
        let mut here = now(self.slept);
        let time = |field: &str, ago_seconds: Option<i64>| {
            ago_seconds
                .map(|seconds_ago| format!(",\"{field}\":\"{}\"", ago(seconds_ago)))
                .unwrap_or_default()
        };
        let text = format!(
            "{{\"pid\":812{}{}}}",
            time("acquired_at", self.acquired_ago),
            time("last_tick", self.tick_ago)
        );
        let mut payload = payload(&text);
        if let (Some((awake_ago, there)), Some(tick_ago)) = (self.stamp, self.tick_ago) {
            let full = clocks(awake_ago, &here);
            let stamp = TickStamp {
                boot_id: full
                    .boot_id
                    .filter(|_| there[0])
                    .map(|id| if self.foreign[0] { "b".into() } else { id }),
                time_ns: full.time_ns.filter(|_| there[1]).map(|ns| ns + u64::from(self.foreign[1])),
                monotonic_us: full.monotonic_us.filter(|_| there[2]),
                boottime_us: full.boottime_us.filter(|_| there[3]),
                ..TickStamp::default()
            };
            payload = payload.ticked(Stamp::read(&ago(tick_ago)).stamp().expect("tick"), stamp);
        }
        here.boot_id = here.boot_id.filter(|_| self.boot_known);
        here.time_ns = here.time_ns.filter(|_| self.time_ns_known);
        let started_us = self.run.map(|run| (UP - run) * 1_000_000);
        silence(
            &payload,
            &here,
            &HolderSeen { started_us, same_tick_for: seconds(self.same_tick_for) },
            LIMIT,
        )
    }

    /// The same with one fact less. A stamp that is missing as a whole is the tick of another
    /// program: that is another fact, not less of this one.
    fn with_one_less(&self) -> Vec<Self> {
        let mut all = Vec::new();
        let mut take = |change: &dyn Fn(&mut Self)| {
            let mut fewer = self.clone();
            change(&mut fewer);
            all.push(fewer);
        };
        take(&|facts| facts.acquired_ago = None);
        take(&|facts| facts.tick_ago = None);
        take(&|facts| facts.run = None);
        take(&|facts| facts.same_tick_for = 0);
        take(&|facts| facts.boot_known = false);
        take(&|facts| facts.time_ns_known = false);
        for field in 0..4 {
            take(&|facts| {
                if let Some((_, there)) = facts.stamp.as_mut() {
                    there[field] = false;
                }
            });
        }
        all
    }
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(4000))]
    #[test]
    fn a_fact_less_never_makes_anybody_stuck(
        acquired_ago in proptest::option::of(proptest::sample::select(vec![-60, 0, 200, 350, 19_999, 20_001, 30_000])),
        tick_ago in proptest::option::of(proptest::sample::select(vec![-60, -1, 0, 200, 299, 300, 400, 800, 20_100])),
        stamp in proptest::option::of((proptest::sample::select(vec![0_u64, 299, 300, 400]), proptest::bool::ANY)),
        missing in 0_usize..8,
        foreign in proptest::array::uniform2(proptest::bool::weighted(0.2)),
        slept in proptest::sample::select(vec![0_u64, 50, 400]),
        run in proptest::option::of(proptest::sample::select(vec![0_u64, 299, 300, 301, 399, 400, 20_000])),
        same_tick_for in proptest::sample::select(vec![0_u64, 299, 300]),
        known in proptest::array::uniform2(proptest::bool::weighted(0.9)),
    ) {
        let stamp = stamp.map(|(awake_ago, _)| (awake_ago, [0, 1, 2, 3].map(|field| field != missing)));
        let facts = Facts {
            acquired_ago, tick_ago, stamp, foreign, slept, run, same_tick_for,
            boot_known: known[0], time_ns_known: known[1],
        };
        if !matches!(facts.judge(), Silence::Stuck { .. }) {
            for fewer in facts.with_one_less() {
                let silence = fewer.judge();
                proptest::prop_assert!(!matches!(silence, Silence::Stuck { .. }), "{silence:?} of {fewer:?}");
            }
        }
    }
}

/// Where a limit itself lies.
#[test]
fn what_lies_on_a_limit() {
    let awake = now(0);
    let run = |seconds| seen(seconds, 0);
    // Ticked in this moment; ticked at its start; as old as the limit and silent since.
    assert_eq!(judge(&our_tick(0, 0, &awake), &awake, &run(RUN)), fresh(0));
    assert_eq!(judge(&our_tick(400, 400, &awake), &awake, &run(400)), stuck(400));
    assert_eq!(judge(&our_tick(300, 300, &awake), &awake, &run(300)), stuck(300));
    // Clocks are stepped by two seconds every day, ahead and back.
    assert_eq!(judge(&go_tick(-2), &awake, &run(RUN)), fresh(0));
    assert_eq!(judge(&go_tick(-3), &awake, &run(RUN)), unproved(FUTURE, None));
    assert!(!clock_moved(&go_tick(-2), &awake) && clock_moved(&go_tick(-3), &awake));
    // So the role may seem to be two seconds older than its holder, and it was taken within ten of the start.
    for (held, expected) in [(1002, stuck(400)), (1003, unproved(STEPPED, Some(300)))] {
        assert_eq!(judge(&held_since(held, 400), &awake, &run(1000)), expected, "held for {held}");
    }
    for (held, expected) in [(990, stuck(400)), (989, unproved(STEPPED, Some(300)))] {
        assert_eq!(judge(&held_since(held, 400), &awake, &run(1000)), expected, "held for {held}");
    }
}
