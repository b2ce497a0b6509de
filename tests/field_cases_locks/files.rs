//! G06: a removed file frees nobody, whoever removes whatever but the whole directory.

use crate::support::{Running, Tool, eventually, run};
use std::time::{Duration, Instant};

/// A command that leaves a job behind, which lives until its stdin closes.
const JOB: &str = "exec 3<&0; sh -c 'read -r end <&3' & echo up; wait";

/// What a cleaner may take away.
const REMOVALS: [&[&str]; 7] = [
    &["pulse"],
    &["json"],
    &["pulse", "json"],
    &["pulse", "guard"],
    &["json", "guard"],
    &["pulse", "json", "queue"],
    &["pulse", "json", "guard", "queue"],
];

fn remove(tool: &Tool, endings: &[&str]) {
    for ending in endings {
        match std::fs::remove_file(tool.file(&format!("x.{ending}"))) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{error}"),
            _ => {}
        }
    }
}

#[test]
fn g06_a_job_left_behind_holds_whatever_file_is_removed() {
    for endings in REMOVALS {
        for after_the_kill in [false, true] {
            let tool = Tool::new();
            let mut owner = tool.hold_with(&["run", "x", "bash", "-c", JOB]);
            if !after_the_kill {
                remove(&tool, endings);
                // The command itself is held for by nothing but its pulse.
                tool.lock(&["run", "x", "echo", "RAN"]).expect(75);
            }
            owner.kill();
            if after_the_kill {
                remove(&tool, endings);
            }
            let done = tool.lock(&["run", "x", "echo", "RAN"]).expect(75).one_line();
            assert!(done.stderr.contains("(sh)"), "{endings:?}: the job is named: {done:?}");
            tool.precheck(&["x"]).expect(75);
            tool.lock(&["status", "x"]).expect(75);
            // `where --pulse`, as the library calls it, makes the file anew and frees nobody either.
            tool.lock(&["where", "--pulse", "x"]).expect(0);
            tool.lock(&["run", "x", "echo", "RAN"]).expect(75);
            owner.end();
            eventually("free", || tool.precheck(&["x"]).code == 0);
            tool.lock(&["run", "x", "echo", "RAN"]).expect(0).prints("RAN");
        }
    }
}

#[test]
fn g06_who_waits_has_it_when_the_job_ends_and_not_before() {
    for endings in REMOVALS {
        let tool = Tool::new();
        let mut owner = tool.hold_with(&["run", "x", "bash", "-c", JOB]);
        remove(&tool, endings);
        owner.kill();
        let text = "\"$OL\" run -w 50s x echo GOT & echo waiting; wait";
        let mut waiter = Running::start(&mut tool.script(text));
        tool.lock(&["run", "x", "true"]).expect(75);
        let begin = Instant::now();
        owner.end();
        assert_eq!(waiter.next_line(), "GOT", "{endings:?}");
        assert!(begin.elapsed() < Duration::from_secs(20), "{endings:?}");
    }
}

#[test]
fn g06_a_run_without_its_record_is_stopped_and_let_go_by_its_token() {
    let tool = Tool::new();
    let mut owner = tool.hold_with(&["run", "x", "bash", "-c", JOB]);
    let token = tool.record("x")["token"].to_string();
    remove(&tool, &["json"]);
    owner.kill();
    tool.lock(&["verify", "--token", &token, "x"]).expect(77).says("its record was removed");
    tool.lock(&["run", "x", "true"]).expect(75).says("its record was removed").says(&token);
    tool.lock(&["stop", "--token", &token, "x"]).expect(0);
    tool.lock(&["run", "x", "true"]).expect(0);
    owner.end();

    // Given back by its token, what lives on stands for nobody.
    let tool = Tool::new();
    let mut owner = tool.hold_with(&["run", "x", "bash", "-c", JOB]);
    let token = tool.record("x")["token"].to_string();
    remove(&tool, &["json"]);
    tool.lock(&["release", "--token", &token, "x"]).expect(0);
    tool.lock(&["run", "x", "true"]).expect(0);
    owner.end();
}

/// A failed acquire of a script leaves nothing that looks like a run.
#[test]
fn g06_a_pulse_lent_to_a_refused_acquire_is_given_back() {
    let tool = Tool::new();
    tool.lock(&["where", "--pulse", "x"]).expect(0);
    // The record cannot be placed: its name is taken by a directory.
    let text = "exec 9<\"$ORION_DIR/locks/x.pulse\"
        mkdir \"$ORION_DIR/locks/.x.tmp\"
        \"$OL\" acquire --owner $$ --pulse-stdin x <&9; echo $?
        rmdir \"$ORION_DIR/locks/.x.tmp\"
        \"$OP\" x; echo $?; \"$OL\" run x true; echo $?";
    let done = run(&mut tool.script(text));
    let codes: Vec<&str> = done.stdout.lines().collect();
    assert_ne!(codes[0], "0", "{done:?}");
    assert_eq!(codes[1..], ["0", "0"], "{done:?}");
}
