//! The reconcile pass on files: every row of the table, with real dead and live
//! runs, and a second pass that writes nothing.

#[path = "support/claims.rs"]
mod claims;
mod support;

use claims::Board;
use serde_json::{Value, json};
use support::{Running, run};

/// A run that goes on until its stdin closes.
fn working(board: &Board, key: &str) -> Running {
    Running::start(&mut board.command(&["run", key, "sh", "-c", "echo up; read end; exit 0"]))
}

/// A claim whose run was killed, its command with it.
fn dead(board: &Board, key: &str) {
    let mut run = working(board, key);
    run.kill();
    run.end();
}

/// One pass does `action`, and the next one writes nothing.
#[track_caller]
fn heals(board: &Board, key: &str, action: &str) -> Value {
    let planned = board.claim(&["reconcile", "--dry-run", "--json"]).json();
    let planned =
        planned["tickets"].as_array().expect("an array").iter().find(|row| row["key"] == key).cloned();
    assert_eq!(planned.map(|row| row["action"].clone()), Some(json!(action)), "planned");
    let row = board.row(key);
    assert_eq!((&row["action"], &row["outcome"]), (&json!(action), &json!("done")), "{row}");
    let after = board.snapshot();
    board.reconcile();
    assert_eq!(board.snapshot(), after, "a second pass writes nothing");
    row
}

/// The pass keeps it, and writes nothing.
#[track_caller]
fn keeps(board: &Board, key: &str, reason: &str) {
    // The first reader writes down what a person did with an editor.
    board.claim(&["status", key]);
    let before = board.snapshot();
    let row = board.row(key);
    assert_eq!(row["outcome"], "kept", "{row}");
    assert!(row["reason"].as_str().expect("a reason").contains(reason), "{row}");
    assert_eq!(board.snapshot(), before);
}

#[test]
fn a_dead_run_gives_its_ticket_back_and_the_third_one_fails_it() {
    let board = Board::with(&["1"]);
    for death in 1..=3 {
        dead(&board, "1");
        assert_eq!(board.labels("1"), ["orion-working"], "death {death}");
        heals(&board, "1", if death < 3 { "requeue" } else { "fail" });
        assert_eq!(board.all_labels("1"), [if death < 3 { "orion-queue" } else { "orion-failed" }]);
    }
    // A person looked at it.
    board.put("1", &["orion-queue"]);
    dead(&board, "1");
    heals(&board, "1", "fail");
    board.put("1", &["orion-queue"]);
    board.claim(&["run", "1", "true"]).expect(0);
    board.put("1", &["orion-queue"]);
    dead(&board, "1");
    heals(&board, "1", "requeue");
}

#[test]
fn deaths_of_another_boot_do_not_count() {
    let board = Board::with(&["1"]);
    for _ in 0..2 {
        dead(&board, "1");
        heals(&board, "1", "requeue");
    }
    board.edit_record("1", |record| record["attrs"]["deaths"]["boot"] = json!("another"));
    dead(&board, "1");
    heals(&board, "1", "requeue");
}

#[test]
fn a_live_run_is_kept_and_one_that_lives_through_its_child_too() {
    let board = Board::with(&["1", "2"]);
    let mut first = working(&board, "1");
    keeps(&board, "1", "goes on");
    first.end();
    let script = "exec 3<&0; setsid sh -c 'echo up; read end <&3' & wait";
    let mut second = Running::start(&mut board.command(&["run", "2", "bash", "-c", script]));
    second.kill();
    keeps(&board, "2", "goes on");
    board.claim(&["run", "2", "true"]).expect(75);
    second.end();
}

#[test]
fn closed_by_hand_ends_everything() {
    let board = Board::with(&["1", "2", "3"]);
    dead(&board, "1");
    board.close("1", &["orion-working", "orion-host-x", "orion-stage-y", "bug"]);
    heals(&board, "1", "unlock");
    assert_eq!(board.all_labels("1"), ["bug"]);
    let mut live = working(&board, "2");
    board.close("2", &["orion-working", "bug"]);
    heals(&board, "2", "unlock_and_mark");
    assert_eq!(board.record("2")["attrs"]["state"], "closed");
    board.claim(&["run", "2", "true"]).expect(75);
    // Opened and queued again while it goes on: nobody gets it here before that ended.
    board.put("2", &["orion-queue"]);
    board.claim(&["run", "2", "true"]).expect(75);
    live.end();
    assert_eq!(board.all_labels("2"), ["orion-queue"], "its hand-over wrote nothing");
    board.claim(&["run", "2", "true"]).expect(0);
    board.close("3", &["orion-working"]);
    heals(&board, "3", "unlock");
}

#[test]
fn finished_work_whose_label_never_moved_is_handed_over() {
    let board = Board::with(&["1", "2"]);
    let script = "$OC stage 1 push && $OC stage 1 ready && echo up && read end";
    let mut run = Running::start(&mut board.command(&["run", "1", "sh", "-c", script]));
    keeps(&board, "1", "goes on");
    run.kill();
    run.end();
    heals(&board, "1", "move_to_ready");
    assert_eq!(board.all_labels("1"), ["orion-ready"]);
    // The old boundary stands in the log, and moves no fresh claim.
    board.put("1", &["orion-queue"]);
    dead(&board, "1");
    heals(&board, "1", "requeue");
    // Neither does another key's, nor one of another token, nor a torn one.
    let token = board.acquire("2");
    let event = |key: &str, token: u64| {
        format!(
            "{{\"key\":\"{key}\",\"at\":\"2026-01-01T00:00:00Z\",\"event\":\"stage\",\"from\":\"push\",\"to\":\"ready\",\"token\":{token}}}\n"
        )
    };
    let log = board.records().join("2.events");
    let begun = std::fs::read_to_string(&log).unwrap();
    for odd in [
        event("1", token),
        event("2", token - 1),
        event("2", token).trim_end().to_owned(),
        format!("{}{}", event("2", token), "{\"key\""),
        "\u{0}\u{0}".repeat(100_000),
    ] {
        std::fs::write(&log, format!("{begun}{odd}")).unwrap();
        keeps(&board, "2", "goes on");
    }
    // A live one gets ten minutes; this boundary is of long ago.
    std::fs::write(&log, format!("{begun}{}", event("2", token))).unwrap();
    heals(&board, "2", "move_to_ready");
    assert_eq!(board.all_labels("2"), ["orion-ready"]);
    board.claim(&["release", "--to", "failed", "--token", &token.to_string(), "2"]).expect(0);
    assert_eq!(board.all_labels("2"), ["orion-ready"], "it was handed over");
}

#[test]
fn what_was_decided_before_a_death_is_done_after_it() {
    for (goal, label) in [
        ("ready", "orion-ready"),
        ("ci-wait", "orion-ci-wait"),
        ("failed", "orion-failed"),
        ("queue", "orion-queue"),
    ] {
        let board = Board::with(&["1"]);
        dead(&board, "1");
        board.edit_record("1", |record| {
            record["attrs"]["handing"] = json!({"to": goal, "at": "2026-01-01T00:00:00Z"});
        });
        heals(&board, "1", "move_to_ready");
        assert_eq!(board.all_labels("1"), [label]);
        assert!(board.record("1")["attrs"]["deaths"].is_null(), "that was not a death");
    }
}

#[test]
fn a_person_is_always_right() {
    let board = Board::with(&["1", "2", "3"]);
    // Takes the lock off: the run is told, and nobody else gets the ticket.
    let mut run = working(&board, "1");
    let token = board.record("1")["token"].to_string();
    board.put("1", &["bug"]);
    keeps(&board, "1", "took the working label off");
    board.claim(&["verify", "--token", &token, "1"]).expect(77);
    let done = run.end();
    assert_eq!((done.code, board.all_labels("1")), (77, vec!["bug".to_owned()]), "{done:?}");
    // Queues it again under a run: that one's hand-over writes nothing.
    let mut run = working(&board, "2");
    board.put("2", &["orion-queue"]);
    board.claim(&["run", "2", "true"]).expect(75);
    run.end();
    assert_eq!(board.all_labels("2"), ["orion-queue"]);
    board.claim(&["run", "2", "true"]).expect(0);
    // Puts working on by hand: nobody's claim, and no proof of a death either.
    board.put("3", &["orion-working"]);
    keeps(&board, "3", "no record of it here, which proves no death");
    board.claim(&["status", "3"]).expect(69);
}

#[test]
fn a_ticket_claimed_elsewhere_since_is_not_touched() {
    let board = Board::with(&["1"]);
    dead(&board, "1");
    // Another machine healed nothing: a person queued it again, and it won it.
    board.put("1", &["orion-queue"]);
    let other = board.tool.path("other");
    let me = std::process::id().to_string();
    run(&mut board.machine(&other, &["acquire", "--for", &me, "1"])).expect(0);
    let labels = board.all_labels("1");
    assert_eq!(board.row("1")["action"], "set_aside");
    assert_eq!(board.all_labels("1"), labels);
    keeps(&board, "1", "no record of it here, which proves no death");
    // That machine sees its own claim and keeps it.
    let rows = run(&mut board.machine(&other, &["reconcile", "--json"])).expect(0).json();
    assert_eq!(rows["tickets"][0]["reason"], "its run goes on");
}

#[test]
fn a_record_of_another_state_directory_proves_nothing() {
    let board = Board::with(&["1"]);
    dead(&board, "1");
    board.edit_record("1", |record| record["host"]["state_id"] = json!("0".repeat(32)));
    keeps(&board, "1", "that it is not known here proves no death");
    board.claim(&["run", "1", "true"]).expect(75);
    assert_eq!(board.labels("1"), ["orion-working"]);
}

#[test]
fn a_corrupt_record_is_set_aside_and_then_counts_as_none() {
    let board = Board::with(&["1", "2"]);
    dead(&board, "1");
    std::fs::write(board.records().join("1.json"), "{").unwrap();
    heals(&board, "1", "set_corrupt_aside");
    keeps(&board, "1", "no record of it here, which proves no death");
    board.claim(&["free", "--yes", "1"]).expect(0);
    board.claim(&["run", "1", "true"]).expect(0);
    std::fs::write(board.records().join("2.json"), "{\"schema\":2}").unwrap();
    board.claim(&["run", "2", "true"]).expect(65);
    board.claim(&["free", "--yes", "2"]).expect(65);
    keeps(&board, "2", "newer format");
}

#[test]
fn a_stopped_holder_keeps_its_claim_and_is_reported_stuck() {
    let board = Board::with(&["1"]);
    let run = working(&board, "1");
    support::eventually("a beat", || board.record("1")["last_tick"].is_object());
    run.signal(rustix::process::Signal::STOP);
    // Longer than every limit: its last beat is of long ago.
    board.edit_record("1", |record| {
        record["last_tick"]["monotonic_us"] = json!(1);
        record["last_tick"]["boottime_us"] = json!(1);
    });
    keeps(&board, "1", "stuck");
    board.claim(&["status", "1"]).expect(76);
    board.claim(&["list"]).expect(0).prints("stuck");
    board.claim(&["run", "1", "true"]).expect(75);
    run.signal(rustix::process::Signal::CONT);
}

#[test]
fn free_is_for_a_person_and_never_takes_what_lives() {
    let board = Board::with(&["1", "2"]);
    let mut run = working(&board, "1");
    board.claim(&["free", "--yes", "1"]).expect(75);
    run.end();
    board.claim(&["free", "--yes", "1"]).expect(64).says("not claimed");
    board.put("2", &["orion-working", "orion-host-elsewhere", "orion-stage-x"]);
    board.claim(&["free", "--yes", "2"]).expect(64).says("--host elsewhere");
    board.claim(&["free", "--host", "other", "--yes", "2"]).expect(64);
    board.claim(&["free", "--host", "elsewhere", "2"]).expect(64).says("--yes");
    assert_eq!(board.labels("2"), ["orion-working"]);
    board.claim(&["free", "--host", "elsewhere", "--yes", "2"]).expect(0).silent();
    assert_eq!(board.all_labels("2"), ["orion-queue"]);
    // One that a claim stranded without any label.
    board.put("2", &["bug"]);
    board.claim(&["free", "--yes", "2"]).expect(0);
    assert_eq!(board.all_labels("2"), ["bug", "orion-queue"]);
}

#[test]
fn a_ticket_that_is_gone_strands_no_record() {
    let board = Board::with(&["1"]);
    dead(&board, "1");
    std::fs::remove_file(board.file("1")).unwrap();
    assert_eq!(board.row("1")["action"], "set_aside");
    assert!(board.reconcile().is_empty());
}

#[test]
fn one_broken_ticket_does_not_stop_the_pass() {
    let board = Board::with(&["1", "2"]);
    dead(&board, "1");
    std::fs::write(board.file("0"), "labels = [\"orion-working\"\n").unwrap();
    let done = board.claim(&["reconcile"]).expect(69).says("0.toml");
    assert!(done.stdout.contains("1: put back into the queue"), "{done:?}");
    assert_eq!(board.labels("1"), ["orion-queue"]);
}
