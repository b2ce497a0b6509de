use super::*;

#[test]
fn a_promoted_server_is_not_believed_by_a_run_that_somebody_may_have_waited_for() {
    let second = Duration::from_secs(1);
    assert!(may_be_overtaken(true, 54 * second, Some(54 * second)));
    assert!(!may_be_overtaken(true, 53 * second, Some(54 * second)), "nobody can have waited long enough");
    assert!(!may_be_overtaken(false, 99 * second, Some(54 * second)), "what was taken is still known");
    assert!(!may_be_overtaken(true, 99 * second, None), "nobody ever takes it over");
}

fn row(token: u64, released: bool, backend: Option<i64>, locker: Option<i64>) -> ViaRow {
    serde_json::from_value(serde_json::json!({
        "name": "x", "token": token, "gen": 0, "nonce": "n", "backend": backend, "locker": locker, "grace_ms": 60_000,
        "released_at": released.then_some("2026-12-01T00:00:00+00:00"),
    }))
    .expect("a row")
}

fn look(version: u64, row: &ViaRow) -> ViaLook {
    ViaLook { version, rows: vec![row.clone()] }
}

#[test]
fn the_times_keep_the_inequality_whatever_is_asked_for() {
    let seconds = Duration::from_secs;
    let usual = ViaTimes::of(Some(GRACE), None, FROZEN).expect("the default");
    assert_eq!((usual.fence, usual.beat, usual.answer), (Some(seconds(54)), seconds(5), seconds(5)));
    let short = ViaTimes::of(Some(seconds(15)), None, FROZEN).expect("the shortest");
    assert_eq!((short.fence, short.beat, short.answer), (Some(seconds(12)), seconds(2), seconds(3)));
    assert!(ViaTimes::of(Some(seconds(14)), None, FROZEN).is_err());
    let never = ViaTimes::of(None, None, FROZEN).expect("never");
    assert_eq!((never.grace, never.fence), (None, None));
    assert!(ViaTimes::of(None, Some(seconds(5)), FROZEN).is_err());
    for grace in 1..120_u64 {
        for fence in 0..120_u64 {
            let (grace, fence) = (seconds(grace), seconds(fence));
            if let Ok(times) = ViaTimes::of(Some(grace), Some(fence), FROZEN) {
                let fence = times.fence.expect("a fence").as_secs_f64();
                assert!(fence * 1.01 + 0.49 < grace.as_secs_f64() / 1.01, "{fence} {grace:?}");
            }
        }
    }
}

#[test]
fn an_onlooker_says_what_the_table_says() {
    use ViaHere::{Ended, Live, NotOurs, Unclear};
    let table = [
        ((0, false, None, None), NotOurs, ViaState::Free),
        ((0, false, None, Some(7)), NotOurs, ViaState::Free),
        ((5, true, None, None), NotOurs, ViaState::Free),
        ((5, true, None, Some(7)), Live, ViaState::Free),
        ((5, false, Some(7), Some(7)), NotOurs, ViaState::Live),
        ((5, false, Some(7), Some(7)), Ended, ViaState::Live),
        ((5, false, Some(7), None), Live, ViaState::LiveHere),
        ((5, false, Some(7), Some(8)), Live, ViaState::LiveHere),
        ((5, false, Some(7), None), Ended, ViaState::EndedHere),
        ((5, false, None, Some(8)), NotOurs, ViaState::Settling),
        ((5, false, None, Some(8)), Unclear, ViaState::Settling),
        ((5, false, Some(7), None), NotOurs, ViaState::Cut),
        ((5, false, None, None), Unclear, ViaState::Cut),
    ];
    for ((token, released, backend, locker), here, expected) in table {
        let row = row(token, released, backend, locker);
        assert_eq!(onlooker(&look(1, &row), Some(&row), here), expected, "{row:?} {here:?}");
        assert_eq!(onlooker(&look(2, &row), Some(&row), here), ViaState::Newer(2));
    }
    let free = row(0, false, None, None);
    assert_eq!(onlooker(&look(1, &free), None, NotOurs), ViaState::Free);
}

#[test]
fn a_claimant_waits_for_the_grace_of_the_row_and_for_more_after_a_failover() {
    let (max, minute) = (Duration::from_secs(90), Duration::from_secs(60));
    let cut = row(5, false, Some(7), None);
    assert_eq!(settle_time(&cut, false, max, ViaHere::NotOurs), Some(minute));
    assert_eq!(settle_time(&cut, true, max, ViaHere::NotOurs), Some(max));
    assert_eq!(settle_time(&cut, false, max, ViaHere::Ended), Some(Duration::ZERO));
    assert_eq!(settle_time(&cut, true, max, ViaHere::Ended), Some(max), "a later row may be lost");
    assert_eq!(settle_time(&cut, false, max, ViaHere::Live), None, "its tree works here");
    let never = ViaRow { grace_ms: None, ..cut };
    assert_eq!(settle_time(&never, false, max, ViaHere::NotOurs), None);
    assert_eq!(settle_time(&never, false, max, ViaHere::Ended), Some(Duration::ZERO));
    let free = row(5, true, None, None);
    assert_eq!(settle_time(&free, true, max, ViaHere::NotOurs), Some(max));
}

#[test]
fn a_claimant_that_sees_the_holder_move_steps_back() {
    let facts = SettleFacts {
        first: (5, 0),
        now: (5, 0),
        released: false,
        was_released: false,
        ours: true,
        waited: Duration::from_secs(59),
        need: Duration::from_secs(60),
    };
    assert_eq!(settle(&facts), SettleStep::Wait(Duration::from_secs(1)));
    let over = SettleFacts { waited: Duration::from_secs(60), ..facts };
    assert_eq!(settle(&over), SettleStep::TakeOver);
    for now in [(5, 1), (6, 0)] {
        assert_eq!(settle(&SettleFacts { now, ..over }), SettleStep::StepBack);
    }
    assert_eq!(settle(&SettleFacts { ours: false, ..over }), SettleStep::StepBack);
    assert_eq!(settle(&SettleFacts { released: true, ..facts }), SettleStep::TakeFree);
    let young = SettleFacts { released: true, was_released: true, ..facts };
    assert_eq!(settle(&young), SettleStep::Wait(Duration::from_secs(1)), "a free row of a young server too");
}
