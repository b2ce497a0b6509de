//! `hold`, a lock kept by hand, and `tick`, the promise that makes silence mean something.

mod support;

use rustix::process::Signal;
use support::{Running, Tool, eventually, needs};

/// `hold` says on stderr that it has it; its record is the handshake.
fn hold(tool: &Tool, options: &[&str]) -> Running {
    let args = [&["hold", "--json"], options, &["x"]].concat();
    let running = Running::start(&mut tool.tool("orion-lock", &args));
    assert!(running.line.contains("\"held\":true"), "{}", running.line);
    running
}

#[test]
fn a_lock_is_kept_by_hand_until_a_signal_and_then_released() {
    let tool = Tool::new();
    for signal in [Signal::INT, Signal::TERM, Signal::QUIT] {
        let mut holder = hold(&tool, &["--note", "moving the disk"]);
        tool.lock(&["run", "x", "true"]).expect(75).says("note: moving the disk");
        assert_eq!(tool.record("x")["attrs"]["via"], "hold");
        holder.signal(signal);
        holder.end().expect(0).says("x is yours until Ctrl-C; token ");
        assert!(tool.record("x")["released_at"].is_string(), "{signal:?}");
        tool.lock(&["run", "x", "true"]).expect(0);
    }
    let mut holder = hold(&tool, &[]);
    tool.lock(&["hold", "x"]).expect(75).says("x is held by pid");
    holder.kill();
    tool.lock(&["run", "x", "true"]).expect(0);
}

#[test]
fn ctrl_c_on_a_terminal_ends_it() {
    if !needs("script") {
        return;
    }
    let tool = Tool::new();
    let mut command = tool.command("script");
    // Its own default would be sh, which dies of a Ctrl-C that its command has dealt with.
    command.env("SHELL", "/bin/bash");
    command.args(["-qefc", "\"$OL\" hold x; echo status $?", "/dev/null"]);
    let mut terminal = Running::start(&mut command);
    assert!(terminal.line.contains("until Ctrl-C"), "{}", terminal.line);
    assert_eq!(tool.lock(&["status", "x"]).code, 75);
    terminal.tell("\x03");
    let said = terminal.end().stdout;
    assert!(said.contains("status 0"), "{said}");
    assert_eq!(tool.lock(&["status", "x"]).code, 0);
}

#[test]
fn a_broken_hold_says_so_at_its_end() {
    let tool = Tool::new();
    let mut holder = hold(&tool, &["-q"]);
    let token = tool.record("x")["token"].to_string();
    tool.lock(&["break", "--yes", "--owner-is-alive", "--token", &token, "x"]).expect(0);
    holder.signal(Signal::INT);
    holder.end().expect(0).says("not yours to the end");
}

#[test]
fn a_promise_that_was_broken_is_stuck_and_frees_nothing() {
    let tool = Tool::new();
    let mut holder = tool.hold("x");
    let token = tool.record("x")["token"].to_string();
    let tick = |options: &[&str]| tool.lock(&[&["tick", "--token", &token], options, &["x"]].concat());
    // Silence without a promise is never stuck.
    tick(&[]).expect(0).silent();
    assert!(tool.record("x")["last_tick"]["every_s"].is_null());
    tool.lock(&["status", "x"]).expect(75);
    tick(&["--every", "1h"]).expect(0).silent();
    assert_eq!(tool.record("x")["last_tick"]["every_s"], 3600);
    tool.lock(&["status", "x"]).expect(75);
    tick(&["--every", "300ms"]).expect(0);
    assert_eq!(tool.record("x")["last_tick"]["every_s"], 1, "never stricter than it was given");
    eventually("stuck", || tool.lock(&["status", "x"]).code == 76);
    let done = tool.lock(&["status", "x"]).expect(76);
    done.prints(&format!("orion-lock stop --token {token} x"));
    assert_eq!(tool.lock(&["status", "--json", "x"]).expect(76).json()["state"], "stuck");
    // It is alive: nothing is freed, and a fire still is skipped.
    tool.lock(&["run", "x", "true"]).expect(75);
    tool.precheck(&["x"]).expect(75);
    // A tick without a promise renews the old one.
    tick(&[]).expect(0);
    assert_eq!(tool.record("x")["last_tick"]["every_s"], 1);
    eventually("stuck again", || tool.lock(&["status", "x"]).code == 76);
    tick(&["--every", "0"]).expect(0);
    tool.lock(&["status", "x"]).expect(75);
    assert_eq!(tool.record("x")["token"].to_string(), token, "the record is the same otherwise");
    holder.end().expect(0);
    tick(&[]).expect(77).says("its owner has ended");
}

#[test]
fn only_whoever_holds_it_ticks() {
    let tool = Tool::new();
    tool.lock(&["tick", "--token", "5", "x"]).expect(77).says("never held");
    tool.lock(&["tick", "x"]).expect(64).says("--token N");
    // Inside a run the exported token is the right; its own script is an owner by number.
    let script = "\"$OL\" tick --every 10m x && echo ticked";
    let done = tool.lock(&["run", "x", "sh", "-c", script]).expect(0).silent();
    assert_eq!(done.stdout, "ticked\n");
    let script = "\"$OL\" acquire --owner $$ x && \"$OL\" tick --owner $$ x && \"$OL\" release --owner $$ x\n\
        \"$OL\" tick --owner $$ x; echo $?";
    let done = tool.sh(script).expect(0);
    assert_eq!(done.stdout, "77\n");
    done.says("released or broken");
    let mut holder = tool.hold("x");
    let before = tool.record("x").to_string();
    tool.lock(&["tick", "--token", "5", "x"]).expect(77).says("not yours");
    assert_eq!(tool.record("x").to_string(), before);
    holder.end();
}
