//! Pauses: a person's word, not a process. Nothing new begins, what runs goes on.

mod support;

use rustix::process::Signal;
use serde_json::Value;
use std::fs::{self, File};
use std::process::Command;
use std::time::{Duration, SystemTime};
use support::{Background, Tool, eventually, needs, run};

fn status(tool: &Tool) -> Value {
    tool.lock(&["status", "--json", "x"]).json()
}

#[track_caller]
fn refused_by_pause(tool: &Tool, args: &[&str]) -> String {
    let done = tool.lock(&[&["--json"], args].concat()).expect(75);
    assert_eq!(done.json()["error"]["kind"], "paused", "{done:?}");
    done.stderr
}

#[test]
fn nothing_new_begins_until_it_is_resumed() {
    let tool = Tool::new();
    tool.lock(&["pause", "--note", "old disk", "x"]).expect(0).silent();
    tool.lock(&["pause", "-v", "--note", "new disk", "x"]).expect(0).one_line().says("x is paused by ");
    for args in [
        &["run", "x", "true"][..],
        &["run", "--slots", "3", "x", "true"],
        &["run", "--shared", "x", "true"],
        &["run", "-w", "10ms", "x", "true"],
        &["hold", "x"],
    ] {
        let line = refused_by_pause(&tool, args);
        assert!(line.contains("x is paused by ") && line.contains("; note: new disk"), "{line}");
        assert!(line.contains("to end the pause: orion-lock resume x"), "{line}");
    }
    tool.sh("\"$OL\" acquire --owner $$ x").expect(75).says("x is paused by ").one_line();
    tool.precheck(&["x"]).expect(75).says("x is paused by ").one_line();
    tool.precheck(&["-q", "x"]).expect(75).silent();
    tool.precheck(&["--observe", "x"]).expect(0).says("would skip: x is paused by ");
    tool.lock(&["run", "-q", "x", "true"]).expect(75).silent();
    tool.lock(&["run", "-E", "0", "x", "true"]).expect(0);
    let shown = tool.lock(&["status", "x"]).expect(75).stdout;
    assert!(shown.starts_with("x is paused by ") && shown.contains("\nx: free"), "first the pause: {shown}");
    let json = status(&tool);
    assert_eq!((&json["state"], &json["paused"]["note"]), (&"paused".into(), &"new disk".into()));
    assert_eq!(json["paused"]["uid"], rustix::process::geteuid().as_raw());
    let listed = tool.lock(&["list"]).expect(0).stdout;
    assert!(listed.starts_with("x is paused by ") && listed.lines().count() == 3, "{listed}");
    // Its lock is free, and that is what 'wait' is about.
    tool.lock(&["wait", "-w", "1h", "x"]).expect(0);
    tool.lock(&["run", "y", "true"]).expect(0).silent();
    tool.lock(&["resume", "x"]).expect(0).silent();
    tool.lock(&["run", "x", "true"]).expect(0).silent();
    tool.precheck(&["x"]).expect(0).silent();
    tool.lock(&["status", "x"]).expect(0);
    tool.lock(&["resume", "x"]).expect(0).says("x was not paused in ");
    let words: Vec<Value> = tool.lock(&["log", "--json", "x"]).expect(0).json()["events"]
        .as_array()
        .expect("events")
        .iter()
        .map(|event| event["event"].clone())
        .collect();
    assert!(words.contains(&"paused".into()) && words.contains(&"resumed".into()), "{words:?}");
}

#[test]
fn what_runs_goes_on_and_is_named_first_and_who_stood_in_line_waits_on() {
    let tool = Tool::new();
    let order = tool.path("order");
    let note = format!("echo ran >> {}", order.display());
    let mut holder = tool.hold("x");
    let waiter = Background::start(
        &mut tool.tool("orion-lock", &["run", "-w", "forever", "x", "sh", "-c", note.as_str()]),
    );
    eventually("it waits", || status(&tool)["waiting"] == 1);
    tool.lock(&["pause", "x"]).expect(0).says("what runs now goes on: x");
    let held = tool.lock(&["run", "--json", "x", "true"]).expect(75);
    assert_eq!(held.json()["error"]["kind"], "held");
    tool.precheck(&["x"]).expect(75).says(&format!("x is held by pid {}", holder.pid()));
    let json = status(&tool);
    assert_eq!(json["state"], "held");
    assert_eq!(json["paused"]["all"], false);
    let replaced = refused_by_pause(&tool, &["run", "--replace", "x", "true"]);
    assert!(replaced.contains("x is paused"), "{replaced}");
    assert_eq!(tool.lock(&["verify", "--token", &tool.record("x")["token"].to_string(), "x"]).code, 0);
    holder.end().expect(0);
    for _ in 0..20 {
        refused_by_pause(&tool, &["run", "x", "true"]);
        assert_eq!(status(&tool)["waiting"], 1);
    }
    fs::write(&order, "resumed\n").expect("write");
    tool.lock(&["resume", "x"]).expect(0).silent();
    waiter.end().expect(0);
    assert_eq!(fs::read_to_string(&order).expect("order"), "resumed\nran\n");
}

#[test]
fn a_pause_of_everything_is_one_word_more() {
    let tool = Tool::new();
    let all = tool.lock(&["pause", "-v", "--all", "--note", "moving"]).expect(0);
    all.one_line().says("everything in ").says("resume --all");
    let line = refused_by_pause(&tool, &["run", "x", "true"]);
    assert!(
        line.contains("x: everything is paused by ") && line.contains("orion-lock resume --all"),
        "{line}"
    );
    tool.precheck(&["x", "y"]).expect(75).says("x: everything is paused").says("y: everything is paused");
    tool.lock(&["pause", "y"]).expect(0);
    let listed = tool.lock(&["list"]).expect(0).stdout;
    assert!(listed.starts_with("everything is paused by ") && listed.contains("note: moving"), "{listed}");
    assert_eq!(tool.lock(&["list", "--json"]).json()["paused"][0]["paused"]["all"], true);
    tool.lock(&["resume", "y"]).expect(0).says("y: everything is paused by ");
    tool.lock(&["pause", "y"]).expect(0);
    let waiter = Background::start(&mut tool.tool("orion-lock", &["run", "-w", "forever", "x", "true"]));
    eventually("it waits", || status(&tool)["waiting"] == 1);
    tool.lock(&["resume", "--all"]).expect(0).says("still paused one by one: y");
    waiter.end().expect(0);
    refused_by_pause(&tool, &["run", "y", "true"]);
    tool.lock(&["resume", "y"]).expect(0).silent();
    tool.lock(&["run", "y", "true"]).expect(0).silent();
    tool.lock(&["resume", "--all"]).expect(0).says("everything was not paused");
}

#[test]
fn a_pause_for_a_time_ends_by_the_clock() {
    let tool = Tool::new();
    tool.lock(&["pause", "-v", "--for", "1h", "x"]).expect(0).says(", until ");
    assert!(refused_by_pause(&tool, &["run", "x", "true"]).contains(", until "));
    tool.lock(&["pause", "--for", "1s", "x"]).expect(0);
    tool.lock(&["run", "-w", "forever", "x", "true"]).expect(0);
    let json = tool.lock(&["status", "--json", "x"]).expect(0).json();
    assert_eq!((&json["state"], &json["paused"]), (&"free".into(), &Value::Null));
    assert!(tool.file("x.pause").exists(), "nobody removes it; it says nothing any more");
    tool.lock(&["list"]).expect(0).prints("NAME");
    tool.lock(&["resume", "x"]).expect(0).silent();
    assert!(!tool.file("x.pause").exists());
}

#[test]
fn it_survives_a_restart() {
    let tool = Tool::new();
    tool.leave_dead("x");
    tool.edit_record("x", |record| {
        record["host"]["boot_id"] = "00000000-0000-4000-8000-000000000001".into();
        record["host"]["boottime_us"] = 1.into();
    });
    tool.lock(&["status", "x"]).expect(0);
    tool.lock(&["pause", "x"]).expect(0);
    tool.lock(&["pause", "--all"]).expect(0);
    tool.lock(&["resume", "--all"]).expect(0);
    refused_by_pause(&tool, &["run", "x", "true"]);
    tool.lock(&["resume", "x"]).expect(0);
    tool.lock(&["run", "x", "true"]).expect(0);
}

#[test]
fn a_disk_that_takes_nothing_changes_nothing() {
    if !needs("strace") {
        return;
    }
    let tool = Tool::new();
    let faulty = |fault: &str, args: &[&str]| {
        let mut command = tool.command("strace");
        command.args(["-f", "-o", "/dev/null", "-e", &format!("inject={fault}:error=ENOSPC")]);
        run(command.arg(support::bin("orion-lock")).args(args))
    };
    tool.lock(&["pause", "--note", "first", "x"]).expect(0);
    for fault in ["fsync", "renameat"] {
        for what in [&["x"][..], &["--all"]] {
            let pause = [&["pause", "--note", "second"], what].concat();
            faulty(fault, &pause).expect(73).says(".pause: no space left");
        }
    }
    assert_eq!(status(&tool)["paused"]["note"], "first");
    assert!(!tool.dir().join(".pause").exists());
    let left: Vec<String> = tool.files().into_iter().filter(|file| file.contains("tmp")).collect();
    assert_eq!(left, [""; 0]);
    faulty("unlinkat", &["resume", "x"]).expect(73);
    refused_by_pause(&tool, &["run", "x", "true"]);
}

#[test]
fn a_pause_that_nobody_can_read_stops_the_lock_and_not_the_precheck() {
    let tool = Tool::new();
    tool.lock(&["run", "x", "true"]).expect(0);
    let newer = r#"{"schema":2,"kind":"pause","uid":0,"since":"2026-11-29T09:12:04Z"}"#;
    for text in ["", "{", newer] {
        fs::write(tool.file("x.pause"), text).expect("write");
        let line = tool.lock(&["run", "x", "true"]).expect(69).says("x: cannot tell whether it is paused: ");
        line.says("x.pause: ").says("orion-lock resume");
        tool.lock(&["run", "-q", "-w", "20ms", "x", "true"]).expect(69).says("cannot tell");
        tool.precheck(&["-q", "x"]).expect(0).says("not guarding: x: cannot tell whether it is paused");
        tool.lock(&["status", "x"]).expect(69).prints("cannot tell whether it is paused");
        tool.lock(&["list"]).expect(0);
        tool.lock(&["resume", "x"]).expect(0).says("removed what nobody could read");
        tool.lock(&["run", "x", "true"]).expect(0).silent();
    }
    // A person's word that can be read counts, whatever stands in the other place.
    fs::write(tool.file("x.pause"), "").expect("write");
    tool.lock(&["pause", "--all"]).expect(0);
    refused_by_pause(&tool, &["run", "x", "true"]);
    tool.lock(&["resume", "--all"]).expect(0);
    fs::remove_file(tool.file("x.pause")).expect("remove");
    std::os::unix::fs::symlink("x.json", tool.file("x.pause")).expect("link");
    tool.lock(&["run", "x", "true"]).expect(69).says("a symbolic link");
    // A live holder comes first all the same.
    let _holder = tool.hold("y");
    fs::write(tool.file("y.pause"), "").expect("write");
    tool.lock(&["run", "y", "true"]).expect(75);
    tool.precheck(&["y"]).expect(75);
}

#[test]
fn a_forgotten_pause_is_said_once_a_day_also_when_refusals_are_silent() {
    let tool = Tool::new();
    for (what, file) in [("x", tool.file("x.pause")), ("--all", tool.dir().join(".pause"))] {
        tool.lock(&["pause", what]).expect(0);
        tool.lock(&["run", "-q", "x", "true"]).expect(75).silent();
        let text = fs::read_to_string(&file).expect("read");
        let mut pause: Value = serde_json::from_str(&text).expect("json");
        pause["since"] = "2026-01-01T00:00:00Z".into();
        fs::write(&file, pause.to_string()).expect("write");
        // Told a moment ago.
        tool.lock(&["run", "-q", "x", "true"]).expect(75).silent();
        let long_ago = SystemTime::now() - Duration::from_secs(25 * 3600);
        let told_long_ago = || File::options().write(true).open(&file).expect("open").set_modified(long_ago);
        told_long_ago().expect("time");
        tool.lock(&["run", "-q", "x", "true"]).expect(75).one_line().says("paused by ");
        tool.lock(&["run", "-q", "x", "true"]).expect(75).silent();
        tool.precheck(&["-q", "x"]).expect(75).silent();
        told_long_ago().expect("time");
        tool.precheck(&["-q", "--dry-run", "x"]).expect(75).silent();
        tool.precheck(&["-q", "x"]).expect(75).one_line().says("paused by ");
        tool.lock(&["run", "-q", "x", "true"]).expect(75).silent();
        tool.lock(&["resume", what]).expect(0);
    }
}

#[test]
fn no_run_begins_after_pause_has_come_back() {
    let tool = Tool::new();
    let begun = || {
        let events = tool.lock(&["log", "--json", "--event", "acquired", "x"]).expect(0).json();
        events["events"].as_array().expect("events").len()
    };
    for round in 0..4 {
        let contenders: Vec<Background> = (0..4)
            .map(|_| {
                let script = "while \"$OL\" run -w 5s x true; do :; done";
                Background::start(&mut tool.script(script))
            })
            .collect();
        let before = begun();
        eventually("they run", || begun() > before + 3 + round);
        tool.lock(&["pause", "x"]).expect(0);
        let then = begun();
        drop(contenders);
        eventually("nobody holds it", || status(&tool)["state"] == "paused");
        assert_eq!(begun(), then, "a run began after the pause");
        tool.lock(&["resume", "x"]).expect(0);
    }
}

#[test]
fn a_hold_ignores_the_end_of_its_terminal() {
    let tool = Tool::new();
    let mut hold = tool.hold_with(&["hold", "--json", "x"]);
    hold.signal(Signal::HUP);
    tool.lock(&["run", "x", "true"]).expect(75);
    hold.signal(Signal::INT);
    hold.end().expect(0);
    assert!(tool.record("x")["released_at"].is_string());
}

#[test]
fn it_is_seen_in_metrics_and_in_the_picture() {
    let tool = Tool::new();
    tool.lock(&["run", "x", "true"]).expect(0);
    tool.lock(&["pause", "x"]).expect(0);
    tool.lock(&["metrics"]).expect(0).prints("orion_lock_paused{name=\"x\"} 1");
    tool.lock(&["pause", "never-held"]).expect(0);
    tool.lock(&["metrics"]).expect(0).prints("orion_lock_paused{name=\"never-held\"} 1");
    tool.lock(&["timeline", "--since", "3s"]).expect(0).prints("=");
    tool.lock(&["log", "x"]).expect(0).prints("paused");
    tool.lock(&["resume", "x"]).expect(0);
    tool.lock(&["metrics"]).expect(0).prints("orion_lock_paused{name=\"x\"} 0");
}

#[test]
fn wrong_spellings_are_answered_with_what_to_type() {
    let tool = Tool::new();
    for command in ["pause", "resume"] {
        tool.lock(&[command]).expect(64);
        tool.lock(&[command, "--all", "x"]).expect(64);
        tool.lock(&[command, "2h"]).expect(64).says("reads as a duration");
        tool.lock(&[command, "a\nb"]).expect(64);
    }
    tool.lock(&["pause", "--for", "0", "x"]).expect(64);
    tool.lock(&["pause", "--note", &"n".repeat(5000), "x"]).expect(64);
    tool.lock(&["resume", "x"]).expect(0).says("x was not paused in ");
    tool.lock(&["resume", "--all"]).expect(0).says("everything was not paused in ");
    assert!(!tool.dir().exists(), "nothing is made for it");
    let mut via: Command = tool.tool("orion-lock", &["pause", "x"]);
    if support::bin("orion-via").exists() {
        run(via.env("ORION_VIA", "postgres://nobody@localhost:1/none")).expect(64).says("hold NAME");
    }
}
