//! `--once`, `--once-ok`, `--cooldown`: not again, by what the records know of the last run.

mod support;

use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use support::{Done, Tool, eventually};

fn once(tool: &Tool, key: &str, command: &[&str]) -> Done {
    tool.lock(&[&["run", "--once", key, "x"], command].concat())
}

fn kind(done: &Done) -> Value {
    done.json()["error"]["kind"].clone()
}

/// Sets how long ago, in seconds, the run of the record in place ended.
fn ended_ago(tool: &Tool, seconds: u64) {
    tool.edit_record("x", |record| {
        let stamp = &mut record["attrs"]["ended"];
        let boottime = stamp["boottime_us"].as_u64().expect("a stamp");
        stamp["boottime_us"] = json!(boottime - seconds * 1_000_000);
    });
}

#[test]
fn a_key_runs_once_and_the_next_key_again() {
    let tool = Tool::new();
    once(&tool, "09:45", &["true"]).expect(0).silent();
    let token = tool.record("x")["token"].to_string();
    let refused = once(&tool, "09:45", &["sh", "-c", "echo ran"]).expect(75).one_line();
    assert_eq!(refused.stdout, "");
    let refused = refused.says("orion-lock: x: it has run for '09:45' already: that run began 20");
    refused.says(&format!("; token {token}"));
    tool.lock(&["run", "-q", "--once", "09:45", "x", "true"]).expect(75).silent();
    tool.lock(&["run", "-E", "0", "--once", "09:45", "x", "sh", "-c", "exit 9"]).expect(0);
    assert_eq!(
        kind(&tool.lock(&["--json", "run", "--once", "09:45", "x", "true"]).expect(75)),
        "ran_already"
    );
    // With -w too: there is nothing to wait for.
    tool.lock(&["run", "-w", "1h", "--once", "09:45", "x", "true"]).expect(75);
    let log = tool.lock(&["log", "x"]).expect(0);
    log.prints("5 times").prints("has run for this key already; that run has token ");
    once(&tool, "10:00", &["true"]).expect(0);
    // Only the last run counts.
    once(&tool, "09:45", &["true"]).expect(0);
    // A run without a key is a run too.
    tool.lock(&["run", "x", "true"]).expect(0);
    once(&tool, "09:45", &["true"]).expect(0);
}

#[test]
fn a_command_that_could_not_be_executed_is_no_run() {
    let tool = Tool::new();
    for tree in [&[][..], &["--tree"]] {
        let missing = [&["run"], tree, &["--once", "k", "x", "/nonexistent"]].concat();
        tool.lock(&missing).expect(127);
        tool.lock(&missing).expect(127);
        let plain = tool.path("plain");
        fs::write(&plain, "x").expect("write");
        fs::set_permissions(&plain, PermissionsExt::from_mode(0o600)).expect("chmod");
        tool.lock(&[&["run"], tree, &["--once", "k", "x", plain.to_str().expect("text")]].concat())
            .expect(126);
        // What ran before stays the last run, under whatever else did not run since.
        tool.lock(&[&["run"], tree, &["--once", "k", "x", "true"]].concat()).expect(0);
        let token = tool.record("x")["token"].to_string();
        tool.lock(&["run", "x", "/nonexistent"]).expect(127);
        tool.lock(&["run", "x", "/nonexistent"]).expect(127);
        once(&tool, "k", &["true"]).expect(75).says(&token);
        tool.lock(&["run", "x", "true"]).expect(0);
    }
    // A command of its own that says 127 was executed.
    once(&tool, "l", &["sh", "-c", "exit 127"]).expect(127);
    once(&tool, "l", &["true"]).expect(75);
}

#[test]
fn who_keeps_it_by_hand_runs_nothing() {
    let tool = Tool::new();
    once(&tool, "k", &["true"]).expect(0);
    let mut holder = tool.tool("orion-lock", &["hold", "x"]).spawn().expect("spawn");
    eventually("it is held", || tool.lock(&["status", "x"]).code == 75);
    once(&tool, "k", &["true"]).expect(75).says("is held by");
    holder.kill().expect("kill");
    holder.wait().expect("wait");
    once(&tool, "k", &["true"]).expect(75).says("has run for 'k' already");
}

#[test]
fn only_a_run_that_ended_with_0_counts_for_once_ok() {
    let tool = Tool::new();
    let run = |command: &[&str]| tool.lock(&[&["run", "--once-ok", "k", "x"], command].concat());
    run(&["false"]).expect(1);
    run(&["sh", "-c", "kill -KILL $$"]).expect(137);
    // Its end is seen, because it stays as with --tree: what the command left behind belongs to it.
    run(&["sh", "-c", "sleep 0.3 & exit 0"]).expect(0);
    run(&["true"]).expect(75).says("with 0");
    // A run whose end nobody saw did not end with 0.
    tool.lock(&["run", "--once", "k", "x", "true"]).expect(75);
    tool.lock(&["run", "--once", "l", "x", "true"]).expect(0);
    tool.lock(&["run", "--once-ok", "l", "x", "true"]).expect(0);
    tool.lock(&["run", "--once-ok", "l", "x", "true"]).expect(75);
    tool.lock(&["acquire", "--once-ok", "k", "--owner", "1", "x"]).expect(64).says("run --once-ok KEY x");
}

#[test]
fn the_end_that_nobody_saw_counts_from_the_first_look_that_found_it() {
    let tool = Tool::new();
    tool.lock(&["run", "x", "true"]).expect(0);
    assert_eq!(tool.record("x")["attrs"]["ended"], Value::Null, "a run that became its command");
    // Nobody's look but that of who asks: it is written down by it.
    tool.lock(&["status", "x"]).expect(0);
    let cool = ["run", "--cooldown", "1h", "x", "true"];
    let refused = tool.lock(&cool).expect(75).one_line();
    refused
        .says("x: its last run ended too short ago: that run began 20")
        .says(", was found ended ")
        .says("; it may run again in ");
    assert_eq!(kind(&tool.lock(&["--json", "run", "--cooldown", "1h", "x", "true"]).expect(75)), "too_soon");
    ended_ago(&tool, 600);
    tool.lock(&cool).expect(75).says("was found ended 10m ago");
    tool.lock(&["run", "--cooldown", "9m", "x", "true"]).expect(0);
    // That was a run of its own.
    tool.lock(&["run", "--cooldown", "9m", "x", "true"]).expect(75);
    let log = tool.lock(&["log", "--event", "ended", "x"]).expect(0);
    assert_eq!(log.stdout.lines().count(), 2, "each end is said once: {}", log.stdout);
    tool.lock(&["run", "--cooldown", "0", "x", "true"]).expect(0);
}

#[test]
fn ends_that_were_seen_count_from_there() {
    let tool = Tool::new();
    tool.lock(&["run", "--tree", "x", "sh", "-c", "exit 3"]).expect(3);
    let cool = ["run", "--cooldown", "1h", "x", "true"];
    tool.lock(&cool).expect(75).says(" ago with 3; token ");
    ended_ago(&tool, 3000);
    tool.lock(&cool).expect(75).says("ended 50m ago");
    ended_ago(&tool, 600);
    tool.lock(&cool).expect(0);
    // A release is the end of what was acquired, and a kill is one that is found.
    let acquire = "\"$OL\" acquire --owner $$ --cooldown 1h y";
    tool.sh(&format!("set -e; {acquire}; \"$OL\" release --owner $$ y")).expect(0);
    tool.sh(acquire).expect(75).says("y: its last run ended too short ago");
    tool.sh("\"$OL\" acquire --owner $$ --once k z; kill -KILL $$").expect(137);
    tool.sh("\"$OL\" acquire --owner $$ --once k z").expect(75).says("has run for 'k' already");
    tool.sh("\"$OL\" acquire --owner $$ --cooldown 1m z").expect(75).says("was found ended ");
    // A live holder is named as one, whatever was asked.
    let mut holder = tool.hold("z");
    for option in [["--once", "k"], ["--cooldown", "1h"]] {
        tool.lock(&[&["run"], &option[..], &["z", "true"]].concat()).expect(75).says("is held by");
    }
    holder.signal(Signal::TERM);
    holder.end();
}

#[test]
fn an_older_record_a_restart_and_a_clock_that_went_back() {
    let tool = Tool::new();
    tool.lock(&["run", "--tree", "x", "true"]).expect(0);
    let cool = |dur: &str| tool.lock(&["run", "--cooldown", dur, "x", "true"]);
    // As a version wrote it that knew no such stamp: the wall clock.
    tool.edit_record("x", |record| {
        record["attrs"].as_object_mut().expect("attrs").remove("ended");
        record["released_at"] = json!("2026-01-01T00:00:00.000Z");
    });
    let before = fs::read(tool.file("x.json")).expect("record");
    tool.precheck(&["--strict", "--cooldown", "1h", "x"]).expect(0).silent();
    tool.precheck(&["--cooldown", "36500d", "x"]).expect(75);
    // Ahead of us: nothing can be told, and nothing is held back by it.
    tool.edit_record("x", |record| record["released_at"] = json!("2999-01-01T00:00:00.000Z"));
    tool.precheck(&["--strict", "--cooldown", "36500d", "x"]).expect(0).silent();
    // Another boot: the wall clock; this boot: not that.
    fs::write(tool.file("x.json"), before).expect("write");
    let stamp = |boot: &str, boottime: u64| json!({"utc": "2026-01-01T00:00:00.000Z", "boottime_us": boottime, "boot_id": boot});
    tool.edit_record("x", |record| record["attrs"]["ended"] = stamp("another", u64::MAX / 4));
    tool.precheck(&["--strict", "--cooldown", "1h", "x"]).expect(0).silent();
    cool("1h").expect(0);
    cool("1h").expect(75);
    let record = tool.record("x");
    tool.edit_record("x", |record| record["attrs"]["ended"]["utc"] = json!("2999-01-01T00:00:00.000Z"));
    cool("1h").expect(75);
    assert_eq!(record["schema"], 1);
}

#[test]
fn of_several_members_the_highest_token_is_the_last_run() {
    let tool = Tool::new();
    let member = |key: &str| {
        tool.hold_with(&[
            "run",
            "--slots",
            "3",
            "--once",
            key,
            "x",
            "sh",
            "-c",
            "echo up; read -r end; exit 0",
        ])
    };
    let (mut first, mut second) = (member("a"), member("b"));
    let run = |key: &str| tool.lock(&["run", "--slots", "3", "--once", key, "x", "true"]);
    run("b").expect(75).says("has run for 'b' already");
    // The last one lives: nothing has ended.
    first.end().expect(0);
    tool.precheck(&["--slots", "3", "--cooldown", "1h", "x"]).expect(0).silent();
    second.end().expect(0);
    tool.precheck(&["--slots", "3", "--cooldown", "1h", "x"]).expect(75);
    run("b").expect(75);
    run("a").expect(0);
    run("a").expect(75);
    run("b").expect(0);
}

#[test]
fn the_precheck_takes_them_and_fails_open() {
    let tool = Tool::new();
    tool.precheck(&["--strict", "--once", "k", "--cooldown", "1h", "x"]).expect(0).silent();
    once(&tool, "k", &["true"]).expect(0);
    let record = || fs::read(tool.file("x.json")).expect("record");
    let before = record();
    tool.precheck(&["--dry-run", "--cooldown", "1h", "x"]).expect(75);
    tool.precheck(&["--dry-run", "--once", "k", "x"]).expect(75);
    assert_eq!(record(), before, "nothing is written");
    let skip = tool.precheck(&["--once", "k", "x"]).expect(75).one_line();
    skip.says("orion-precheck: x: it has run for 'k' already");
    tool.precheck(&["--once-ok", "k", "x"]).expect(0).silent();
    tool.precheck(&["--once", "l", "x"]).expect(0).silent();
    tool.precheck(&["--observe", "--once", "k", "x"]).expect(0).says("would skip: x: it has run");
    let json = tool.precheck(&["--json", "--once", "k", "x"]).expect(75).json();
    assert_eq!((&json["skip"], &json["locks"][0]["kind"]), (&json!(true), &json!("ran_already")));
    assert_eq!(
        tool.record("x")["attrs"]["ended"]["found"],
        true,
        "--once found it dead, and wrote that down"
    );
    fs::write(tool.file("x.json"), before).expect("write");
    tool.precheck(&["--cooldown", "1h", "x"]).expect(75).says("was found ended");
    assert_eq!(tool.record("x")["attrs"]["ended"]["found"], true);
    ended_ago(&tool, 7200);
    tool.precheck(&["--cooldown", "1h", "x"]).expect(0).silent();
    for wrong in [["--once", ""], ["--cooldown", "soon"]] {
        tool.precheck(&[&wrong[..], &["x"]].concat()).expect(0).says("not guarding");
        tool.lock(&[&["run"], &wrong[..], &["x", "true"]].concat()).expect(64);
    }
    tool.lock(&["run", "--once", "a", "--once-ok", "b", "x", "true"]).expect(64);
    tool.lock(&["run", "--replace", "--once", "a", "x", "true"]).expect(64);
}

/// An end that cannot be written down would be found anew by each precheck, and the run never come.
#[test]
fn an_end_that_cannot_be_written_down_holds_nobody_back() {
    let tool = Tool::new();
    once(&tool, "k", &["true"]).expect(0);
    let guard = tool.file("x.guard");
    fs::remove_file(&guard).expect("remove");
    fs::create_dir(&guard).expect("mkdir");
    tool.precheck(&["--cooldown", "1h", "x"])
        .expect(0)
        .says("not guarding: x: the end of its last run cannot be written down");
    tool.precheck(&["--once", "k", "x"]).expect(75).says("has run for 'k' already");
    tool.lock(&["run", "--cooldown", "1h", "x", "true"]).expect(73);
}

/// What could not be executed was no run, with or without a supervisor.
#[test]
fn a_program_that_is_missing_is_no_run() {
    let tool = Tool::new();
    fs::write(tool.path("plain"), "").expect("a file");
    let plain = tool.path("plain").display().to_string();
    for words in
        [&["run", "x", "/nonexistent"][..], &["run", "--tree", "x", "/nonexistent"], &["run", "x", &plain]]
    {
        tool.lock(words);
        tool.lock(&["check", "--last-run-within", "1h", "x"]).expect(76).prints("no run is known");
    }
    tool.lock(&["run", "x", "true"]).expect(0);
    tool.lock(&["run", "x", "/nonexistent"]).expect(127);
    tool.lock(&["check", "--last-run-within", "1h", "x"]).expect(0).silent();
}
