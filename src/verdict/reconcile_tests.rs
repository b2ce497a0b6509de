use super::*;
use Action::*;

const LIVE: OwnerState = OwnerState::Live { silent: false };
const STUCK: OwnerState = OwnerState::Live { silent: true };
const DEAD: OwnerState = OwnerState::Dead;
const UNKNOWN: OwnerState = OwnerState::Unknown;

/// A ticket by the letters of what is on it: closed, queue, working, handed on.
fn ticket(letters: &str) -> TicketFacts {
    let has = |letter| letters.contains(letter);
    TicketFacts {
        closed: has('c'),
        queue: has('q'),
        working: has('w'),
        handed_on: has('h'),
        host: NamedHost::None,
    }
}

fn claim(state: ClaimStep, holder: OwnerState) -> RecordedClaim {
    RecordedClaim { state, holder, working_label: WorkingLabel::Ours, finished: None, deaths: 0 }
}

fn boundary(seconds: u64) -> Finished {
    Finished { since: Duration::from_secs(seconds), said: FinishedBy::Boundary, others_work: false }
}

/// Every way to be through with a ticket.
const ENDS: [Option<Finished>; 7] = {
    const fn end(said: FinishedBy, others_work: bool) -> Option<Finished> {
        Some(Finished { since: FINISH_GRACE, said, others_work })
    }
    [
        None,
        end(FinishedBy::Release, false),
        end(FinishedBy::Release, true),
        end(FinishedBy::Run, false),
        end(FinishedBy::Run, true),
        end(FinishedBy::Boundary, false),
        end(FinishedBy::Boundary, true),
    ]
};

#[test]
fn what_still_works_keeps_a_ticket_that_was_decided_on() {
    let after = |holder, said, others_work| RecordedClaim {
        finished: Some(Finished { since: FINISH_GRACE, said, others_work }),
        ..held(holder)
    };
    for said in [FinishedBy::Release, FinishedBy::Run, FinishedBy::Boundary] {
        assert_eq!(action("w", after(LIVE, said, true)), (Keep, QUIET), "{said:?}");
        assert_eq!(action("w", after(DEAD, said, false)).0, MoveToReady, "{said:?}");
    }
    assert_eq!(action("w", after(LIVE, FinishedBy::Release, false)).0, MoveToReady);
    assert_eq!(action("w", after(LIVE, FinishedBy::Run, false)), (Keep, QUIET), "it does that itself");
    assert_eq!(action("h", after(LIVE, FinishedBy::Release, false)).0, SetAside, "moved, and a ref is left");
    assert_eq!(action("h", after(LIVE, FinishedBy::Release, true)).0, Keep);
    assert_eq!(action("h", after(LIVE, FinishedBy::Run, false)).0, Keep);
}

fn held(holder: OwnerState) -> RecordedClaim {
    claim(ClaimStep::Held, holder)
}

fn judged(letters: &str, record: RecordFacts) -> TicketVerdict {
    judge(&Facts { key: "K-1", ticket: ticket(letters), record, row: None })
}

fn action(letters: &str, claim: RecordedClaim) -> (Action, bool) {
    let judgement = judged(letters, RecordFacts::Here(claim));
    (judgement.action, judgement.report)
}

const QUIET: bool = false;
const SAID: bool = true;

#[test]
fn closed_by_hand_ends_everything_and_a_live_run_keeps_its_record() {
    assert_eq!(judged("cw", RecordFacts::None).action, Unlock);
    assert_eq!(judged("cw", RecordFacts::OtherHost { host: "pi".into() }).action, Unlock);
    assert_eq!(action("cw", held(DEAD)), (Unlock, QUIET));
    assert_eq!(action("cw", held(LIVE)), (UnlockAndMark, SAID));
    assert_eq!(action("cw", held(UNKNOWN)), (UnlockAndMark, SAID), "dropped only on proof");
    // Its working label, its log and its deaths play no part.
    let odd = RecordedClaim {
        working_label: WorkingLabel::Foreign,
        finished: Some(boundary(0)),
        deaths: 9,
        ..held(DEAD)
    };
    assert_eq!(action("cw", odd).0, Unlock);
    assert_eq!(action("c", claim(ClaimStep::Closed, LIVE)), (Keep, QUIET));
    assert_eq!(action("c", claim(ClaimStep::Closed, DEAD)), (SetAside, QUIET));
    assert_eq!(action("c", held(LIVE)), (Keep, SAID));
}

#[test]
fn finished_work_moves_to_ready_when_its_run_will_not_do_it() {
    let finished = |holder, seconds| RecordedClaim { finished: Some(boundary(seconds)), ..held(holder) };
    assert_eq!(action("w", finished(DEAD, 0)).0, MoveToReady);
    assert_eq!(action("w", finished(UNKNOWN, 0)).0, MoveToReady);
    assert_eq!(action("w", finished(LIVE, 599)), (Keep, QUIET));
    assert_eq!(action("w", finished(LIVE, 600)).0, MoveToReady);
    let foreign = RecordedClaim { working_label: WorkingLabel::Foreign, ..finished(DEAD, 700) };
    assert_eq!(action("w", foreign).0, SetAside, "an old boundary never moves a new claim");
    let unread = RecordedClaim { working_label: WorkingLabel::NotRead, ..finished(LIVE, 700) };
    assert_eq!(action("w", unread).0, Look);
}

#[test]
fn what_is_not_ours_is_kept_and_said() {
    for record in [RecordFacts::None, RecordFacts::OtherHost { host: "pi".into() }] {
        let judgement = judged("w", record);
        assert_eq!((judgement.action, judgement.report), (Keep, SAID));
        assert!(judgement.reason.contains("orion-claim free --yes K-1"), "{}", judgement.reason);
    }
    let foreign = |holder| RecordedClaim { working_label: WorkingLabel::Foreign, ..held(holder) };
    assert_eq!(action("w", foreign(LIVE)), (Keep, SAID));
    assert_eq!(action("w", foreign(UNKNOWN)), (Keep, SAID));
    assert_eq!(action("w", foreign(DEAD)), (SetAside, SAID));
    // A loser between its intent and its giving up.
    let loser = |holder| RecordedClaim { state: ClaimStep::Intent { unused: None }, ..foreign(holder) };
    assert_eq!(action("w", loser(LIVE)), (Keep, QUIET));
    assert_eq!(action("w", loser(DEAD)), (DropIntent, QUIET));
}

#[test]
fn a_dead_holder_is_released_and_the_third_time_a_person_is_asked() {
    assert_eq!(action("w", held(DEAD)), (Requeue, QUIET));
    assert_eq!(action("w", RecordedClaim { deaths: 1, ..held(DEAD) }), (Requeue, QUIET));
    assert_eq!(action("w", RecordedClaim { deaths: 2, ..held(DEAD) }), (Fail, SAID));
    assert_eq!(
        action("w", RecordedClaim { working_label: WorkingLabel::NotRead, ..held(DEAD) }),
        (Look, QUIET)
    );
    // Killed between the write and the note of its working event.
    for state in [ClaimStep::Intent { unused: None }, ClaimStep::Gated { may_undo: None }] {
        assert_eq!(action("w", claim(state, DEAD)).0, Requeue);
    }
    // Killed between the two writes of a hand-over, or of a release.
    assert_eq!(action("wh", held(DEAD)), (FinishHandOver, QUIET));
    assert_eq!(action("wq", held(DEAD)), (Requeue, QUIET));
}

#[test]
fn a_live_holder_is_never_robbed() {
    for letters in ["w", "wh", "wq"] {
        assert_eq!(action(letters, held(LIVE)), (Keep, QUIET));
        assert_eq!(action(letters, held(STUCK)), (Keep, SAID));
        assert_eq!(action(letters, RecordedClaim { deaths: 9, ..held(STUCK) }), (Keep, SAID));
        assert_eq!(
            action(letters, RecordedClaim { working_label: WorkingLabel::NotRead, ..held(LIVE) }),
            (Keep, QUIET)
        );
        let unknown = judged(letters, RecordFacts::Here(held(UNKNOWN)));
        assert_eq!((unknown.action, unknown.report), (Keep, SAID));
        assert!(unknown.reason.contains("free --yes"), "{}", unknown.reason);
    }
}

#[test]
fn an_unreadable_record_is_set_aside_and_a_newer_one_left_alone() {
    for letters in ["w", "", "cw", "q"] {
        assert_eq!(judged(letters, RecordFacts::Corrupt).action, SetCorruptAside);
        let newer = judged(letters, RecordFacts::Newer);
        assert_eq!((newer.action, newer.report), (Keep, SAID));
    }
}

#[test]
fn a_person_who_takes_the_label_off_is_right_and_the_ticket_is_not_handed_out() {
    for letters in ["", "q"] {
        assert_eq!(action(letters, held(LIVE)), (Keep, SAID));
        assert_eq!(action(letters, held(UNKNOWN)), (Keep, SAID));
        assert_eq!(action(letters, held(DEAD)), (SetAside, QUIET));
    }
    assert_eq!(action("h", held(LIVE)), (Keep, QUIET), "its own hand-over, half way");
    assert_eq!(action("h", held(DEAD)), (SetAside, QUIET));
}

#[test]
fn only_a_gate_that_is_provably_ours_is_undone() {
    let gated = |may_undo, holder| claim(ClaimStep::Gated { may_undo }, holder);
    assert_eq!(action("", gated(None, DEAD)), (Look, QUIET));
    assert_eq!(action("", gated(Some(true), DEAD)), (UndoGate, QUIET));
    assert_eq!(action("", gated(Some(false), DEAD)), (Keep, SAID));
    assert_eq!(action("", gated(Some(true), LIVE)), (Keep, QUIET));
    assert_eq!(action("", gated(Some(true), UNKNOWN)), (Keep, SAID));
    for moved_on in ["q", "c"] {
        assert_eq!(action(moved_on, gated(Some(true), DEAD)), (SetAside, QUIET), "{moved_on}");
    }
    assert_eq!(
        action("h", gated(Some(true), DEAD)),
        (UndoGate, QUIET),
        "failed from before it was queued again"
    );
    assert_eq!(action("h", gated(Some(false), DEAD)), (SetAside, QUIET), "somebody moved it on");
    let stranded = |record| judged("", RecordFacts::Here(record)).stranded;
    assert!(stranded(gated(Some(false), DEAD)) && !stranded(gated(Some(true), DEAD)));
}

#[test]
fn a_left_over_intent_is_never_rolled_back() {
    let intent = |unused, holder| claim(ClaimStep::Intent { unused }, holder);
    for letters in ["", "q", "h", "c"] {
        assert_eq!(action(letters, intent(None, DEAD)), (Look, QUIET));
        assert_eq!(action(letters, intent(Some(true), DEAD)), (DropIntent, QUIET));
        assert_eq!(action(letters, intent(Some(false), DEAD)), (Keep, SAID));
        assert_eq!(action(letters, intent(Some(true), LIVE)), (Keep, QUIET));
        assert_eq!(action(letters, intent(Some(true), UNKNOWN)), (Keep, SAID));
    }
}

#[test]
fn the_reason_says_what_is_so() {
    let reason = |letters: &str, record: RecordFacts| judged(letters, record).reason;
    let elsewhere = || RecordFacts::OtherHost { host: "pi".into() };
    for record in [RecordFacts::None, elsewhere()] {
        for letters in ["", "q", "c", "h"] {
            let judgement = judged(letters, record.clone());
            assert_eq!((judgement.action, judgement.report), (Keep, QUIET), "{letters}");
            assert_eq!(judgement.reason, "not claimed here");
        }
        for host in [NamedHost::None, NamedHost::Ours, NamedHost::Other] {
            for letters in ["w", "", "cw"] {
                let ticket = TicketFacts { host, ..ticket(letters) };
                let judgement = judge(&Facts { key: "K-1", ticket, record: record.clone(), row: None });
                let expected = match (letters, host) {
                    ("w", NamedHost::Other) => (Keep, QUIET, "another machine has it"),
                    ("w", _) if record == RecordFacts::None => (Keep, SAID, "no record of it here"),
                    ("w", _) => (Keep, SAID, "its record is of machine pi"),
                    ("cw", _) => (Unlock, QUIET, "closed by hand, and still carried the lock"),
                    _ => (Keep, QUIET, "not claimed here"),
                };
                let begins = judgement.reason.starts_with(expected.2);
                assert!(begins, "{letters} {host:?}: {judgement:?}");
                assert_eq!((judgement.action, judgement.report), (expected.0, expected.1));
            }
        }
    }
    let live = |finished| RecordFacts::Here(RecordedClaim { finished, ..held(LIVE) });
    assert_eq!(reason("w", live(None)), "its run goes on");
    assert_eq!(reason("w", live(Some(boundary(0)))), "its run goes on");
    let others_work = Some(Finished { others_work: true, ..boundary(0) });
    assert_eq!(reason("w", live(others_work)), "it is handed over when what still works on it has ended");
    assert!(reason("c", live(None)).starts_with("closed by hand, and the lock taken off"));
    assert_eq!(action("ch", held(LIVE)), (Keep, SAID), "closed counts before where it was handed");
    assert_eq!(reason("h", live(None)), "handed over while its run goes on");
}

/// Every combination: no write without a proof, and nothing that is done twice.
#[test]
fn no_ticket_changes_unless_its_owner_is_gone_or_a_person_closed_it() {
    let states = [
        ClaimStep::Intent { unused: Some(true) },
        ClaimStep::Intent { unused: Some(false) },
        ClaimStep::Intent { unused: None },
        ClaimStep::Gated { may_undo: Some(true) },
        ClaimStep::Gated { may_undo: Some(false) },
        ClaimStep::Gated { may_undo: None },
        ClaimStep::Held,
        ClaimStep::Closed,
    ];
    let on = |bits: u32| TicketFacts {
        closed: bits & 1 != 0,
        queue: bits & 2 != 0,
        working: bits & 4 != 0,
        handed_on: bits & 8 != 0,
        host: NamedHost::None,
    };
    for ticket in (0..16).map(on) {
        for state in states {
            for holder in [LIVE, STUCK, DEAD, UNKNOWN] {
                for working_label in [WorkingLabel::NotRead, WorkingLabel::Ours, WorkingLabel::Foreign] {
                    for finished in ENDS {
                        let claim = RecordedClaim { state, holder, working_label, finished, deaths: 0 };
                        let record = RecordFacts::Here(claim);
                        let judgement = judge(&Facts { key: "K", ticket, record, row: None });
                        let writes = matches!(
                            judgement.action,
                            MoveToReady | FinishHandOver | Requeue | Fail | UndoGate
                        );
                        let context = format!("{ticket:?} {claim:?} {judgement:?}");
                        assert!(!writes || !ticket.closed, "{context}");
                        if matches!(judgement.action, Requeue | Fail | FinishHandOver | UndoGate) {
                            assert_eq!(holder, DEAD, "{context}");
                        }
                        if writes && judgement.action != UndoGate {
                            assert!(ticket.working && working_label == WorkingLabel::Ours, "{context}");
                        }
                        if judgement.action == MoveToReady {
                            let live = matches!(holder, OwnerState::Live { .. });
                            let works =
                                finished.is_none_or(|it| it.others_work || it.said == FinishedBy::Run);
                            assert!(finished.is_some() && !(live && works), "{context}");
                        }
                        if matches!(judgement.action, SetAside | DropIntent | Unlock) {
                            let released =
                                finished.is_some_and(|it| it.said == FinishedBy::Release && !it.others_work);
                            assert!(holder == DEAD || (released && !ticket.working), "{context}");
                        }
                        assert!(!judgement.reason.is_empty());
                    }
                }
            }
        }
    }
}

/// The row of a ticket: only one that was cut off with a grace, or whose end is known here, lets another machine act.
#[test]
fn another_machines_ticket_is_taken_over_only_when_its_row_says_that_its_run_must_stand() {
    let states = [
        ArbiterState::Free,
        ArbiterState::Held,
        ArbiterState::Settling,
        ArbiterState::Cut,
        ArbiterState::Kept,
        ArbiterState::Ended,
        ArbiterState::Newer,
    ];
    for host in [NamedHost::None, NamedHost::Ours, NamedHost::Other] {
        for state in states {
            let of = |letters: &str, record: RecordFacts| {
                let ticket = TicketFacts { host, ..ticket(letters) };
                judge(&Facts { key: "K-1", ticket, record, row: Some(state) })
            };
            let takes = matches!(state, ArbiterState::Cut | ArbiterState::Ended);
            assert_eq!(of("w", RecordFacts::None).action == TakeOver, takes, "{state:?}");
            assert_eq!(of("wq", RecordFacts::None).action == TakeOver, takes, "{state:?}");
            assert_eq!(of("cw", RecordFacts::None).action, Unlock, "a person closed it");
            for letters in ["", "q", "h", "c"] {
                assert_eq!(of(letters, RecordFacts::None).action, Keep, "{state:?} {letters}");
            }
            for record in [RecordFacts::OtherHost { host: "pi".into() }, RecordFacts::Newer] {
                assert_eq!(of("w", record).action, Keep, "{state:?}");
            }
            let here = RecordFacts::Here(held(UNKNOWN));
            assert_eq!(of("w", here).action, Keep, "what this machine knows itself goes first");
        }
    }
    let quiet = |row| {
        let verdict = judge(&Facts { key: "K-1", ticket: ticket("w"), record: RecordFacts::None, row });
        !verdict.report
    };
    assert!(quiet(Some(ArbiterState::Held)) && quiet(Some(ArbiterState::Settling)), "it lives: no news");
    assert!(!quiet(Some(ArbiterState::Kept)) && !quiet(Some(ArbiterState::Free)) && !quiet(None));
}
