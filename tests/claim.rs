//! `orion-claim` on a directory of tickets: what each command does and says.

#[path = "support/claims.rs"]
mod claims;
mod support;

use claims::{Board, claim_command};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use support::{Running, Tool, run};

#[test]
fn a_run_claims_works_and_hands_over_by_its_exit_status() {
    let board = Board::with(&["1", "2", "3", "4"]);
    let script = "test $ORION_TICKET = 1 && $OC verify 1 && $OC status 1 >&2; test $? -eq 75 && grep -q orion-working ${ORION_TRACKER#file:}/1.toml";
    board.claim(&["run", "1", "bash", "-c", script]).expect(0);
    assert_eq!(board.all_labels("1"), ["orion-ready"]);
    board.claim(&["run", "--on-success", "ci-wait", "2", "--", "true"]).expect(0).silent();
    assert_eq!(board.all_labels("2"), ["orion-ci-wait"]);
    board.claim(&["run", "3", "sh", "-c", "exit 3"]).expect(3);
    assert_eq!(board.all_labels("3"), ["orion-failed"]);
    board.claim(&["run", "4", "sh", "-c", "exit 75"]).expect(75);
    assert_eq!(board.all_labels("4"), ["orion-queue"], "back to the queue");
    assert!(board.reconcile().is_empty(), "nothing is left to do");
}

#[test]
fn a_ticket_is_held_by_one_and_refused_to_others() {
    let board = Board::with(&["1"]);
    let token = board.acquire("1");
    let labels = board.all_labels("1");
    assert!(labels.contains(&"orion-working".into()), "{labels:?}");
    assert!(labels.iter().any(|label| label.starts_with("orion-host-")), "{labels:?}");
    board.claim(&["run", "1", "touch", "ran"]).expect(75).says("1 is held by pid").one_line();
    board.claim(&["acquire", "--for", &std::process::id().to_string(), "1"]).expect(75).says("token");
    board.claim(&["status", "1"]).expect(75).prints("is held by pid");
    let told = board.claim(&["status", "-v", "1"]).expect(75).prints("  refused ").stdout.clone();
    assert!(told.contains(", 2 times until "), "{told}");
    board.claim(&["next"]).expect(75);
    let stranger = (token - 1).to_string();
    for args in [
        &["release", "--to", "ready", "--token", &stranger, "1"][..],
        &["tick", "--token", &stranger, "1"],
        &["stage", "--token", &stranger, "1", "push"],
        &["verify", "--token", &stranger, "1"],
    ] {
        board.claim(args).expect(77).says("not yours");
    }
    assert_eq!(board.labels("1"), ["orion-working"]);
    let token = token.to_string();
    board.claim(&["verify", "--token", &token, "1"]).expect(0).silent();
    board.claim(&["release", "--to", "failed", "--token", &token, "1"]).expect(0).silent();
    assert_eq!(board.all_labels("1"), ["orion-failed"]);
    board.claim(&["release", "--to", "failed", "--token", &token, "1"]).expect(0);
    board.claim(&["verify", "--token", &token, "1"]).expect(77);
}

#[test]
fn stage_moves_the_label_and_writes_the_log() {
    let board = Board::with(&["1"]);
    let number = board.acquire("1");
    let token = number.to_string();
    board.claim(&["stage", "--token", &token, "--branch", "b1", "1", "build"]).expect(0).silent();
    board.claim(&["stage", "--token", &token, "1", "push"]).expect(0);
    let labels = board.all_labels("1");
    assert!(labels.contains(&"orion-stage-push".into()) && !labels.contains(&"orion-stage-build".into()));
    let log = std::fs::read_to_string(board.records().join("1.events")).unwrap();
    let lines: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let steps: Vec<_> =
        lines.iter().map(|line| (line["from"].as_str().unwrap(), line["to"].as_str().unwrap())).collect();
    assert_eq!(steps, [("queue", "claimed"), ("claimed", "build"), ("build", "push")]);
    assert!(lines.iter().all(|line| line["token"] == number && line["event"] == "stage"));
    assert_eq!(board.record("1")["attrs"]["branch"], "b1");
    board.claim(&["stage", "--token", &token, "1", "a b"]).expect(64);
}

#[test]
fn next_and_list_show_the_queue_by_priority() {
    let board = Board::with(&["9", "10"]);
    std::fs::write(board.file("11"), "labels = [\"orion-queue\"]\npriority = 5\n").unwrap();
    board.put("12", &["orion-queue", "orion-ci-wait"]);
    board.close("13", &["orion-queue"]);
    board.claim(&["next"]).expect(0).prints("11\n");
    board.claim(&["run", "11", "true"]).expect(0);
    let next = board.claim(&["next", "--json"]).expect(0).json();
    assert_eq!((&next["next"]["key"], &next["queued"]), (&json!("9"), &json!(2)));
    board.acquire("9");
    let list = board.claim(&["list", "--json"]).expect(0).json();
    let rows: Vec<_> = list["tickets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["key"].as_str(), row["place"].as_str()))
        .collect();
    let row = |key, place| (Some(key), Some(place));
    assert_eq!(rows, [row("9", "working"), row("10", "queue"), row("12", "waits")]);
    board.claim(&["list"]).expect(0).prints("held");
}

#[test]
fn keys_that_are_none_create_nothing() {
    let board = Board::with(&["1"]);
    let long = "k".repeat(300);
    let before = board.snapshot();
    for key in ["", ".", "..", "../1", "a/b", "a b", "1\n", "\u{1b}[2J", "é", &long, "nokey"] {
        for args in [
            &["status", "--", key][..],
            &["acquire", "--for", "1", "--", key],
            &["verify", "--token", "1", "--", key],
            &["release", "--to", "ready", "--token", "1", "--", key],
            &["tick", "--token", "1", "--", key],
            &["free", "--yes", "--", key],
        ] {
            let done = board.claim(args);
            assert!(matches!(done.code, 64 | 77), "{args:?} {done:?}");
            assert!(!done.stderr.contains('\u{1b}'), "{done:?}");
        }
    }
    assert_eq!(board.snapshot(), before);
    board.claim(&["status", "1"]).expect(0);
}

#[test]
fn a_mistyped_tracker_is_a_setting_and_not_an_empty_queue() {
    let tool = Tool::new();
    for (tracker, code) in
        [("file:/nonexistent/x", 78), ("github:acme", 78), ("nonsense", 78), ("file:relative", 78)]
    {
        for args in [&["next"][..], &["reconcile"], &["watch", "--", "true"], &["status", "1"]] {
            let mut command = claim_command(&tool, args);
            let done = run(command.env("ORION_TRACKER", tracker)).expect(code).one_line();
            assert!(done.stderr.starts_with("orion-claim: "), "{done:?}");
        }
    }
}

#[test]
fn settings_come_from_flags_then_environment_then_the_file() {
    let board = Board::with(&["1"]);
    std::fs::create_dir(board.tool.dir()).unwrap();
    std::fs::set_permissions(board.tool.dir(), PermissionsExt::from_mode(0o700)).unwrap();
    let file = board.tool.dir().join("claim.toml");
    std::fs::write(&file, "tracker = \"file:/from/file\"\ntick_every = \"5m\"\n[labels]\nqueue = \"todo\"\n")
        .unwrap();
    let read = |args: &[&str]| board.claim(args).expect(0).json();
    let config = read(&["--print-config", "--json"]);
    let setting =
        |name: &str| (config["settings"][name]["value"].clone(), config["settings"][name]["from"].clone());
    assert_eq!(setting("tracker"), (json!(board.tracker()), json!("ORION_TRACKER")));
    assert_eq!(setting("tick_every"), (json!("5m"), json!(file)));
    assert_eq!(setting("labels.queue"), (json!("todo"), json!(file)));
    assert_eq!(setting("on_success"), (json!("ready"), json!("default")));
    let flag = read(&["--print-config", "--json", "--tracker", "file:/x"]);
    assert_eq!(flag["settings"]["tracker"], json!({"value": "file:/x", "from": "--tracker"}));
    board.claim(&["next"]).expect(75);
    for (bad, word) in [
        ("nonsense = 1\n", "nonsense"),
        ("tick_every = \"soon\"\n", "tick_every"),
        ("labels = [\"x\"]\n", "labels"),
        ("tracker = \"\n", "line 1"),
        ("[watch]\nmax = 0\n", "watch.max"),
        ("arbiter = \"dice\"\n", "arbiter"),
    ] {
        std::fs::write(&file, bad).unwrap();
        board.claim(&["next"]).expect(78).one_line().says(word);
    }
    std::fs::write(&file, "").unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).unwrap();
    board.claim(&["next"]).expect(78).says("chmod go-w");
}

#[test]
fn secrets_are_shown_as_set_and_nothing_else() {
    let tool = Tool::new();
    let mut command = claim_command(&tool, &["--print-config", "--tracker", "github:acme/tools"]);
    let done = run(command.env("GH_TOKEN", "s3cret")).expect(0).prints("# token: set, from GH_TOKEN");
    assert!(!done.stdout.contains("s3cret"), "{done:?}");
    let mut command = claim_command(&tool, &["--print-config", "--json", "--tracker", "github:acme/tools"]);
    let done = run(command.env("GH_TOKEN", "s3cret")).expect(0);
    assert_eq!(done.json()["settings"]["token"], json!({"set": true, "from": "GH_TOKEN"}));
    let mut command = claim_command(&tool, &["next", "--tracker", "github:acme/tools"]);
    let done = run(command.env("GH_TOKEN", "s3 cret")).expect(78);
    assert!(!done.stderr.contains("s3 cret"), "{done:?}");
}

#[test]
fn a_command_that_is_not_there_claims_nothing() {
    let board = Board::with(&["1"]);
    board.claim(&["run", "1", "no-such-command-anywhere"]).expect(127).one_line();
    board.claim(&["run", "1", "/etc/passwd"]).expect(126).one_line();
    board.claim(&["watch", "--", "no-such-command-anywhere"]).expect(127);
    board.claim(&["run", "1", "--stagex", "true"]).expect(64);
    assert_eq!(board.labels("1"), ["orion-queue"]);
}

#[test]
fn init_makes_the_directory_and_check_only_reports() {
    let tool = Tool::new();
    let tickets = tool.path("new").join("tickets");
    let tracker = format!("file:{}", tickets.display());
    let init = |args: &[&str]| run(claim_command(&tool, args).env("ORION_TRACKER", &tracker));
    init(&["init", "--check"]).expect(78);
    assert!(!tickets.exists());
    init(&["init"]).expect(0).prints("arbiter guard");
    assert!(tickets.is_dir());
    assert_eq!(init(&["init", "--check", "--json"]).expect(0).json()["ok"], true);
}

#[test]
fn without_any_setting_tickets_are_files_in_the_state_directory() {
    let tool = Tool::new();
    run(&mut claim_command(&tool, &["init"])).expect(0);
    std::fs::write(tool.dir().join("tickets/7.toml"), "labels = [\"orion-queue\"]\n").unwrap();
    run(&mut claim_command(&tool, &["next"])).expect(0).prints("7\n");
    run(&mut claim_command(&tool, &["run", "7", "true"])).expect(0);
}

#[test]
fn a_run_finds_out_what_an_interrupted_one_left() {
    let board = Board::with(&["1"]);
    let args = ["run", "--branch", "b-1", "--worktree", "/w/1", "1", "sh", "-c", "echo up; read end"];
    let mut first = Running::start(&mut board.command(&args));
    first.kill();
    let kept = board.row("1");
    assert_eq!(
        (&kept["outcome"], &kept["reason"]),
        (&json!("kept"), &json!("its run goes on")),
        "its command lives"
    );
    first.end();
    assert_eq!(board.row("1")["outcome"], "done");
    assert_eq!(board.labels("1"), ["orion-queue"]);
    let show = "echo $ORION_CLAIM_BRANCH $ORION_CLAIM_WORKTREE";
    let second = board.claim(&["run", "1", "sh", "-c", show]).expect(0).says("interrupted");
    assert_eq!(second.stdout, "b-1 /w/1\n");
    assert!(second.stderr.contains("branch b-1, worktree /w/1"), "{second:?}");
    board.put("1", &["orion-queue"]);
    let third = board.claim(&["run", "1", "sh", "-c", show]).expect(0).silent();
    assert_eq!(third.stdout, "\n", "the second one was through");
}

#[test]
fn signals_end_the_command_first_and_then_hand_over() {
    let board = Board::with(&["1", "2", "3"]);
    let start =
        |key: &str, script: &str| Running::start(&mut board.command(&["run", key, "sh", "-c", script]));
    let mut plain = start("1", "echo up; exec sleep 1000");
    plain.signal(rustix::process::Signal::TERM);
    assert_eq!(plain.end().code, 143);
    assert_eq!(board.all_labels("1"), ["orion-queue"], "the system ended it");
    let mut through = start("2", "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done");
    through.signal(rustix::process::Signal::TERM);
    assert_eq!(through.end().code, 0);
    assert_eq!(board.all_labels("2"), ["orion-ready"]);
    let args =
        ["run", "--kill-after", "50ms", "3", "sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done"];
    let mut stubborn = Running::start(&mut board.command(&args));
    stubborn.signal(rustix::process::Signal::TERM);
    assert_eq!(stubborn.end().code, 137);
    assert_eq!(board.all_labels("3"), ["orion-queue"]);
}

#[test]
fn a_command_gets_a_clean_signal_mask_and_no_descriptor_but_the_pulse() {
    let board = Board::with(&["1"]);
    let script = "grep -E 'SigBlk|SigIgn' /proc/self/status; ls -l /proc/self/fd | grep -c pulse";
    let done = board.claim(&["run", "1", "sh", "-c", script]).expect(0);
    let mut lines = done.stdout.lines();
    assert_eq!(lines.next(), Some("SigBlk:\t0000000000000000"), "{done:?}");
    assert_eq!(done.stdout.lines().last(), Some("1"), "{done:?}");
}

#[test]
fn a_beat_comes_from_the_process_that_holds_the_claim() {
    let board = Board::with(&["1"]);
    std::fs::create_dir_all(board.tool.dir()).unwrap();
    std::fs::set_permissions(board.tool.dir(), PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::write(board.tool.dir().join("claim.toml"), "tick_every = \"20ms\"\n").unwrap();
    let mut running =
        Running::start(&mut board.command(&["run", "1", "sh", "-c", "echo up; read end; exit 0"]));
    let beat = || board.record("1")["last_tick"]["boottime_us"].as_u64();
    support::eventually("a first beat", || beat().is_some());
    let first = beat();
    support::eventually("another beat", || beat() > first);
    running.end();
    assert_eq!(board.all_labels("1"), ["orion-ready"]);
}

#[test]
fn a_ticket_in_files_waits_for_its_blockers_and_for_whose_it_is() {
    let board = Board::with(&["3"]);
    let write = |key: &str, more: &str| {
        let text = format!("title = \"T\"\nlabels = [\"orion-queue\"]\n{more}\n");
        std::fs::write(board.file(key), text).expect("ticket");
    };
    write("1", "priority = 9\nblocked_by = [\"2\", \"3\"]");
    write("2", "priority = 5\nassignee = \"ann\"");
    write("4", "priority = 7\nassignee = [\"ann\", \"bob\"]");
    write("5", "priority = 8\nblocked_by = [\"nowhere\"]");
    let next = |args: &[&str]| board.claim(&[&["next", "-v"], args].concat()).expect(0);
    let first = next(&[]);
    assert_eq!(first.stdout, "3\n");
    for said in [
        "1 is not offered: blocked by 2, 3",
        "2 is not offered: assigned to ann, and who we are is not known",
        "4 is not offered: assigned to ann, bob",
        "5 is not offered: blocked by nowhere",
    ] {
        assert!(first.stderr.contains(said), "{said}: {first:?}");
    }
    assert_eq!(next(&["--ignore-assignee"]).stdout, "4\n", "no option ignores a blocker");
    board.close("3", &[]);
    assert!(board.claim(&["next", "-v"]).expect(75).stderr.contains("1 is not offered: blocked by 2\n"));
    board.close("2", &[]);
    assert_eq!(next(&[]).stdout, "1\n", "closed is closed, whatever its labels say");
    // What cannot be read is not known to be closed, and a person may take it all the same.
    std::fs::write(board.file("2"), "state = \"clos").expect("torn");
    assert!(board.claim(&["next", "-v"]).stderr.contains("1 is not offered: blocked by 2"));
    board.claim(&["run", "5", "true"]).expect(0);
    write("6", "blocked_by = 7");
    assert!(board.claim(&["list"]).stderr.contains("blocked_by is not a list"));
}
