//! `break`: for a person, where nobody can tell. It frees the lock and ends nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod support;

use serde_json::Value;
use std::process::Stdio;
use support::{Running, Tool, needs};

/// A lock whose owner can be proved neither live nor dead; its token.
fn unknown(tool: &Tool) -> String {
    tool.leave_dead("x");
    tool.edit_record("x", |record| record["host"]["boot_id"] = Value::Null);
    tool.lock(&["run", "x", "true"]).expect(69);
    tool.record("x")["token"].to_string()
}

fn last_event(tool: &Tool) -> Value {
    let text = std::fs::read_to_string(tool.dir().join("log/x.jsonl")).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

#[test]
fn an_unknown_owners_lock_is_freed_on_demand() {
    let tool = Tool::new();
    let token = unknown(&tool);
    // The refusal says what to type, and that line works.
    let line = format!("orion-lock break --token {token} x");
    tool.lock(&["run", "x", "true"]).expect(69).says(&line);
    let before = tool.record("x").to_string();
    let done = tool.lock(&["break", "--token", &token, "x"]).expect(64).one_line();
    done.says(&format!("orion-lock break --yes --token {token} x"));
    assert_eq!(tool.record("x").to_string(), before, "without a yes nothing is changed");
    tool.lock(&["break", "--yes", "--token", &token, "x"]).expect(0).silent();
    let event = last_event(&tool);
    assert_eq!((&event["event"], event["token"].to_string()), (&"broken".into(), token.clone()));
    assert!(event["detail"].as_str().unwrap().starts_with("by uid "), "{event}");
    tool.lock(&["status", "x"]).expect(0).prints("broke the lock of pid");
    let json = tool.lock(&["break", "--yes", "--json", "--token", &token, "x"]).expect(0).json();
    assert_eq!(json["broken"], false, "once is enough");
    tool.lock(&["run", "x", "true"]).expect(0).silent();
    tool.lock(&["break", "--yes", "--token", &token, "x"]).expect(77);
}

#[test]
fn a_live_owners_lock_is_freed_only_when_told_so_and_the_owner_lives_on() {
    let tool = Tool::new();
    let mut holder = tool.hold("x");
    let token = tool.record("x")["token"].to_string();
    let done = tool.lock(&["break", "--yes", "--token", &token, "x"]).expect(75).one_line();
    let done = done.says(&format!("orion-lock stop --token {token} x"));
    done.says(&format!("orion-lock break --owner-is-alive --token {token} x"));
    tool.lock(&["break", "--owner-is-alive", "--token", &token, "x"])
        .expect(64)
        .says(&format!("orion-lock break --yes --owner-is-alive --token {token} x"));
    tool.lock(&["break", "--owner-is-alive", "--yes", "--token", &token, "x"]).expect(0).silent();
    // The next one gets it although the first still runs with its pulse, and the first is told so.
    let mut next = tool.hold("x");
    tool.lock(&["verify", "--token", &token, "x"]).expect(77);
    tool.lock(&["tick", "--token", &token, "x"]).expect(77);
    tool.lock(&["release", "--token", &token, "x"]).expect(77);
    tool.lock(&["run", "x", "true"]).expect(75).says(&format!("pid {} (", next.pid()));
    holder.end().expect(0);
    tool.lock(&["run", "x", "true"]).expect(75).says(&format!("pid {} (", next.pid()));
    next.end().expect(0);
}

#[test]
fn break_by_what_an_owner_left_behind_as_the_repeat_line_says() {
    let tool = Tool::new();
    let script = "setsid sh -c 'echo $$; exec sleep 1000' & exec sleep 1000";
    let mut owner = tool.hold_with(&["run", "x", "sh", "-c", script]);
    let job = support::KillOnDrop::of(owner.number());
    owner.kill();
    let token = tool.record("x")["token"].to_string();
    tool.lock(&["break", "--yes", "--token", &token, "x"]).expect(75);
    tool.lock(&["break", "--yes", "--owner-is-alive", "--token", &token, "x"]).expect(0);
    assert!(!job.ended());
    tool.lock(&["run", "x", "true"]).expect(0).silent();
}

#[test]
fn what_is_free_newer_or_of_another_token_is_left_alone() {
    let tool = Tool::new();
    tool.lock(&["break", "--yes", "--token", "5", "x"]).expect(77).says("never held");
    assert!(!tool.dir().exists(), "nothing is made for it");
    tool.leave_dead("x");
    let token: u64 = tool.record("x")["token"].as_u64().unwrap();
    let before = tool.record("x").to_string();
    tool.lock(&["break", "--yes", "--token", &token.to_string(), "x"]).expect(0).says("free already");
    tool.lock(&["break", "--yes", "--token", &(token + 1).to_string(), "x"]).expect(77);
    assert_eq!(tool.record("x").to_string(), before);
    tool.edit_record("x", |record| record["schema"] = 3.into());
    tool.lock(&["break", "--yes", "--token", &token.to_string(), "x"]).expect(65);
    assert_eq!(tool.record("x")["schema"], 3);
}

#[test]
fn on_a_terminal_it_asks_and_only_yes_is_yes() {
    if !needs("script") {
        return;
    }
    let tool = Tool::new();
    let token = unknown(&tool);
    for (answer, code, free) in [("", 69, false), ("y", 69, false), ("no", 69, false), ("yes", 0, true)] {
        let mut command = tool.command("script");
        // Its own default would be sh, which dies of a Ctrl-C that its command has dealt with.
        command.env("SHELL", "/bin/bash");
        let line = format!("echo up; \"$OL\" break --token {token} x; echo status $?");
        command.args(["-qefc", &line, "/dev/null"]).stderr(Stdio::null());
        let mut terminal = Running::start(&mut command);
        let question = terminal.next_line();
        assert!(question.contains("cannot tell whether pid"), "who is meant: {question}");
        let question = terminal.next_line();
        assert!(question.contains("Type yes to free x"), "{question}");
        terminal.tell(answer);
        let said = terminal.end().stdout;
        assert!(said.contains(&format!("status {code}")), "{answer:?}: {said}");
        assert_eq!(tool.record("x")["released_at"].is_string(), free, "{answer:?}");
    }
}
