//! Kill and stop every process of a resident: who holds the role afterwards, and
//! does anybody work without it?

mod lease_kit;

use lease_kit::{Actor, Answer, Scene, is_gone, parent, send, state, until};
use std::process::{Command, Stdio};

const SLEEP: &str = "exec sleep 1000";

/// Starts a job in a session of its own and says its pid once it is there.
const LEAVES: &str = "setsid sleep 1000 >/dev/null 2>&1 & p=$!; \
    until [ \"$(ps -o sid= -p $p | tr -d ' ')\" = $p ]; do sleep 0.01; done; echo $p";

/// The guardian: the parent of the command that said its pid.
fn guardian(resident: &Actor) -> u32 {
    let guardian = parent(resident.pid);
    assert_eq!(parent(guardian), resident.child.id(), "supervisor, guardian, command");
    guardian
}

fn free(scene: &Scene) {
    until("the role is free", || scene.probe().code == 0);
}

#[test]
fn killing_the_supervisor_ends_the_command_and_frees_the_role() {
    let scene = Scene::new();
    let mut resident = scene.resident(&[], "sleep 1000 & echo $!; wait");
    let job: u32 = resident.line().parse().expect("a pid");
    let guardian = guardian(&resident);
    resident.signal("KILL");
    assert_eq!(resident.end(), -9);
    for pid in [resident.pid, job, guardian] {
        until("all of the group is gone", || is_gone(pid));
    }
    free(&scene);
}

#[test]
fn killing_the_supervisor_ends_a_command_that_left_the_group() {
    let scene = Scene::new();
    let mut resident = scene.resident(&[], "exec setsid -w sleep 1000");
    until("it has left", || {
        let group = Command::new("ps").args(["-o", "pgid=", "-p", &resident.pid.to_string()]).output();
        String::from_utf8_lossy(&group.expect("ps").stdout).trim() == resident.pid.to_string()
            || state(resident.pid).is_none()
    });
    resident.signal("KILL");
    resident.end();
    until("it is gone", || is_gone(resident.pid));
    free(&scene);
}

#[test]
fn killing_the_guardian_ends_the_command_before_the_role_is_given_up() {
    let scene = Scene::new();
    let mut command = scene.lease(["run", "journal.db", "bash", "-c", "echo $$; sleep 1000 & echo $!; wait"]);
    let mut resident = Actor::start(command.stderr(Stdio::piped()));
    let job: u32 = resident.line().parse().expect("a pid");
    send("KILL", guardian(&resident));
    assert_eq!(resident.end(), 137);
    assert!(is_gone(resident.pid) && is_gone(job));
    free(&scene);
    let mut text = String::new();
    let mut stderr = resident.child.stderr.take().expect("stderr");
    std::io::Read::read_to_string(&mut stderr, &mut text).expect("text");
    assert!(text.contains("guardian") && text.contains("SIGKILL"), "{text}");
}

#[test]
fn killing_the_command_is_its_status() {
    let scene = Scene::new();
    let mut resident = scene.resident(&[], SLEEP);
    send("KILL", resident.pid);
    assert_eq!(resident.end(), 137);
    free(&scene);
}

#[test]
fn a_stopped_guardian_still_ends_the_command_when_the_supervisor_is_killed() {
    let scene = Scene::new();
    let mut resident = scene.resident(&[], SLEEP);
    let guardian = guardian(&resident);
    send("STOP", guardian);
    until("it is stopped", || state(guardian) == Some('T'));
    assert_eq!(scene.probe().code, 75);
    resident.signal("KILL");
    resident.end();
    // The kernel continues a stopped process group that has just become an orphan.
    until("the command is gone", || is_gone(resident.pid) && is_gone(guardian));
    free(&scene);
}

#[test]
fn whoever_is_stopped_the_role_stays() {
    let scene = Scene::new();
    let mut resident = scene.resident(&[], "trap 'echo term; exit 3' TERM; while :; do sleep 0.01; done");
    for pid in [resident.child.id(), guardian(&resident), resident.pid] {
        send("STOP", pid);
        until("it is stopped", || state(pid) == Some('T'));
        assert_eq!(scene.probe().code, 75);
        assert_eq!(scene.call(["run", "journal.db", "true"]).code, 75);
        assert_eq!(scene.call(["takeover", "journal.db"]).code, 75, "it never ticked");
        send("CONT", pid);
        until("it goes on", || state(pid) != Some('T'));
    }
    assert!(scene.probe().out.contains("is held"));
    resident.signal("STOP");
    until("it says so", || scene.probe().out.contains("stopped (state T)"));
    resident.signal("TERM");
    resident.signal("CONT");
    assert_eq!(resident.line(), "term");
    assert_eq!(resident.end(), 3, "a stopped supervisor passes on what it got when it continues");
}

#[test]
fn a_background_job_that_outlives_the_command_has_no_role() {
    let scene = Scene::new();
    for (how, named) in [("sleep 1000 >/dev/null 2>&1 & echo $!", true), (LEAVES, false)] {
        let mut command = scene.lease(["run", "journal.db", "bash", "-c", how]);
        let mut resident = Actor::start(command.stderr(Stdio::piped()));
        let job = resident.pid;
        assert_eq!(resident.end(), 0);
        assert_eq!(scene.probe().code, 0, "the descriptor was never theirs");
        assert!(!is_gone(job), "and they are not killed for the command's end");
        let mut text = String::new();
        let mut stderr = resident.child.stderr.take().expect("stderr");
        std::io::Read::read_to_string(&mut stderr, &mut text).expect("text");
        assert_eq!(text.contains(&format!("pid {job} (")), named, "{text}");
        send("KILL", job);
    }
}

#[test]
fn a_killed_caller_leaves_the_resident_serving() {
    let scene = Scene::new();
    let script =
        format!("{} run journal.db bash -c 'echo $$; {SLEEP}'; true", lease_kit::program().display());
    let mut command = Command::new("bash");
    command.args(["-c", &script]).current_dir(scene.store.parent().expect("dir"));
    let mut wrapper = Actor::start(&mut command);
    let supervisor = parent(parent(wrapper.pid));
    wrapper.signal("KILL");
    wrapper.end();
    assert_eq!(scene.probe().code, 75, "the role goes with its holder, not with its caller");
    send("TERM", supervisor);
    until("the command is gone", || is_gone(wrapper.pid));
    free(&scene);
}

#[test]
fn signals_are_passed_on_once() {
    let scene = Scene::new();
    let traps = "for s in HUP INT QUIT USR1 USR2 TERM; do trap \"echo $s\" $s; done";
    // `wait` lets a trap run at once; a foreground job would keep it waiting, and bash may swallow an INT then.
    let mut resident = scene.resident(&[], &format!("{traps}; echo ready; while :; do sleep 1 & wait; done"));
    assert_eq!(resident.line(), "ready");
    for signal in ["HUP", "USR1", "USR2", "INT", "QUIT", "TERM", "HUP"] {
        resident.signal(signal);
        assert_eq!(resident.line(), signal, "exactly one of each, in order");
    }
    send("KILL", resident.pid);
    assert_eq!(resident.end(), 137);
    let mut shell = scene.resident(&[], "sleep 1000 & echo $!; wait; true");
    let job: u32 = shell.line().parse().expect("a pid");
    shell.signal("USR1");
    assert_eq!(shell.end(), 138, "a command without a handler dies of it");
    assert!(!is_gone(job), "USR1 is for the command alone");
    send("KILL", job);
    let mut shell = scene.resident(&[], "sleep 1000; true");
    until("its job runs", || !children(shell.pid).is_empty());
    let job = children(shell.pid)[0];
    shell.signal("TERM");
    assert_eq!(shell.end(), 143);
    until("an end is for the whole group", || is_gone(job));
}

fn children(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

#[test]
fn a_caller_that_ignores_sigchld_is_refused_and_told_what_to_type() {
    let scene = Scene::new();
    let script = format!("trap '' CHLD; exec {} run journal.db true", lease_kit::program().display());
    let mut command = Command::new("bash");
    let output = command.args(["-c", &script]).current_dir(scene.store.parent().expect("dir")).output();
    let answer = Answer::of(output.expect("bash"));
    assert_eq!(answer.code, 71);
    assert!(answer.err.contains("env --default-signal=CHLD"), "{answer:?}");
}
