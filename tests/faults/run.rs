//! `run`, up to the exec and when that fails: over nothing, a dead owner's record, a live holder.

use crate::points::{Fault, failures, kills};
use crate::support::{Done, needs, run};
use crate::world::{Before, CODES, Extent, HANGS, World, points, try_all};

/// The command says who it is and what the record says, with nothing but builtins of its shell.
const RUN: [&str; 5] =
    ["run", "sync", "sh", "-c", "read -r record <\"$ORION_DIR/locks/sync.json\"; echo \"ran $$ $record\""];

/// Whether the command ran; then the record named it, with a new token.
fn ran(done: &Done, last: u64, what: &str) -> bool {
    let Some(line) = done.stdout.strip_prefix("ran ") else {
        assert!(done.stdout.is_empty(), "{what}: {done:?}");
        return false;
    };
    let (pid, record) = line.split_once(' ').expect("a pid and a record");
    let record: serde_json::Value = serde_json::from_str(record)
        .unwrap_or_else(|error| panic!("{what}: ran without a record: {error}: {done:?}"));
    assert_eq!(record["owners"][0]["pid"].to_string(), pid, "{what}: the record names another: {done:?}");
    assert!(record["released_at"].is_null(), "{what}: ran without the lock: {done:?}");
    assert!(record["token"].as_u64() > Some(last), "{what}: a token went back: {done:?}");
    true
}

/// One point; whether it was hit.
fn one(fault: &Fault, before: Before) -> bool {
    let mut world = World::new(before);
    let done = run(&mut world.traced(&["-e", &fault.inject()], "orion-lock", &RUN));
    let what = format!("run over {before:?}: {fault}");
    assert_ne!(done.code, HANGS, "{what}: hangs: {done:?}");
    let ran = ran(&done, world.last, &what);
    if !fault.is_kill() {
        let injected = world.trace().lines().find(|line| line.contains("(INJECTED)")).map(str::to_owned);
        // In the command itself its shell may say what it wants.
        let mute = injected.as_deref().unwrap_or_default().contains("write(2,") || ran;
        assert!(done.code == 0 || mute || !done.stderr.is_empty(), "{what}: silent: {done:?}");
        assert!(!done.stderr.contains("a bug"), "{what}: {done:?}");
    }
    world.is_tidy(&what, fault);
    if let Some(mut holder) = world.holder.take() {
        assert!(!ran, "{what}: two holders: {done:?}");
        let refused = done.code == 75 || (CODES.contains(&done.code) && done.code != 0);
        assert!(refused || fault.is_kill(), "{what}: {done:?}");
        world.tool.precheck(&["-q", "sync"]).expect(75);
        holder.kill();
    } else if !fault.is_kill() {
        assert!(CODES.contains(&done.code), "{what}: a code that is not ours: {done:?}");
        assert_eq!(ran, done.code == 0, "{what}: {done:?}");
    }
    world.is_sound(&what);
    world.was_hit()
}

fn everywhere(before: Before) {
    if !needs("strace") {
        return;
    }
    let points = points(before, "orion-lock", &RUN);
    try_all(&format!("run over {before:?}, killed"), Extent::Some, &kills(&points), |fault| {
        one(fault, before)
    });
    try_all(&format!("run over {before:?}, failing"), Extent::Some, &failures(&points), |fault| {
        one(fault, before)
    });
}

#[test]
fn a_run_killed_or_failing_anywhere_leaves_the_lock_free() {
    everywhere(Before::Nothing);
    everywhere(Before::Dead);
}

#[test]
fn a_refusal_killed_or_failing_anywhere_robs_nobody() {
    everywhere(Before::Live);
}
