//! Who may own what `acquire` takes: strangers, threads, zombies, nobody, one-shot shells, namesakes, daemons.

mod support;

use rustix::process::Signal;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use support::{KillOnDrop, Running, Tool, eventually, needs, needs_root, run};

fn sleeper(tool: &Tool) -> Running {
    Running::start(tool.command("sh").args(["-c", "echo up; read -r end"]))
}

#[test]
fn a_stranger_owns_nothing_by_owner_and_something_by_for() {
    let tool = Tool::new();
    let mut stranger = sleeper(&tool);
    let pid = stranger.pid().to_string();
    tool.lock(&["acquire", "--owner", &pid, "sync"])
        .expect(64)
        .one_line()
        .says("not a caller of this command");
    assert!(!tool.dir().exists());
    tool.lock(&["acquire", "--for", &pid, "sync"]).expect(0).silent();
    tool.lock(&["run", "sync", "true"]).expect(75).says(&format!("pid {pid}"));
    stranger.end();
    tool.lock(&["acquire", "--for", &pid, "other"]).expect(64).one_line().says("no such process");
}

#[test]
fn nobody_is_no_owner() {
    let tool = Tool::new();
    for pid in ["0", "-1", "4194304", "4294967297", "99999999999999999999", "1x", ""] {
        tool.lock(&["acquire", &format!("--for={pid}"), "sync"]).expect(64).one_line();
        tool.lock(&["acquire", &format!("--owner={pid}"), "sync"]).expect(64).one_line();
    }
    assert!(!tool.dir().exists());
}

#[test]
fn a_thread_is_no_owner() {
    if !needs("python3") {
        return;
    }
    let tool = Tool::new();
    let code = "
import threading,sys
def work():
    print(threading.get_native_id(), flush=True); sys.stdin.readline()
t=threading.Thread(target=work); t.start(); t.join()";
    let mut threads = Running::start(tool.command("python3").args(["-c", code]));
    let done = tool.lock(&["acquire", "--for", &threads.line, "sync"]).expect(64).one_line();
    assert!(
        done.stderr.contains("is a thread") && done.stderr.contains(&threads.pid().to_string()),
        "{done:?}"
    );
    threads.end();
}

#[test]
fn a_zombie_is_no_owner_and_no_holder() {
    let tool = Tool::new();
    let mut child = Command::new("cat").stdin(std::process::Stdio::piped()).spawn().expect("cat");
    let pid = child.id().to_string();
    tool.lock(&["acquire", "--for", &pid, "sync"]).expect(0);
    tool.lock(&["run", "sync", "true"]).expect(75);
    child.kill().expect("kill");
    let zombie = KillOnDrop::of(child.id());
    eventually("the end", || zombie.ended());
    tool.lock(&["acquire", "--for", &pid, "other"]).expect(64).one_line().says("zombie");
    tool.precheck(&["sync"]).expect(0).silent();
    tool.lock(&["run", "sync", "true"]).expect(0).silent();
    child.wait().expect("wait");
}

#[test]
fn a_one_shot_shell_is_no_owner_unless_meant() {
    let tool = Tool::new();
    for shell in [&["bash", "-c"][..], &["sh", "-c"], &["bash", "-lc"], &["bash", "-e", "-c"]] {
        let once = |options: &str| {
            let line = format!("\"$OL\" acquire {options} --owner $$ sync; exit $?");
            run(tool.command(shell[0]).args(&shell[1..]).arg(line))
        };
        once("").expect(64).one_line().says("one-shot shell");
        once("--dry-run").expect(64);
        once("--short-lived").expect(0).silent();
    }
    // It is gone now, so the lock is free.
    tool.lock(&["run", "sync", "true"]).expect(0);
    // Release and verify do not ask: the rule is acquire's.
    let line = "t=$(\"$OL\" acquire --short-lived --print-token --owner $$ sync); \"$OL\" verify --owner $$ sync && \"$OL\" release --owner $$ sync";
    run(tool.command("bash").args(["-c", line])).expect(0).silent();
}

#[test]
fn an_ancestor_by_name_must_be_the_only_one() {
    let tool = Tool::new();
    let (inner, outer) = (tool.path("inner.sh"), tool.path("outer.sh"));
    std::fs::write(&inner, "\"$OL\" acquire --owner \"$1\" sync; exit $?\n").expect("write");
    std::fs::write(&outer, format!("echo $$ >&3; bash {} \"$1\"; exit $?\n", inner.display()))
        .expect("write");
    let call = |who: &str| {
        let script = format!("bash {} {who} 3>{}", outer.display(), tool.path("pid").display());
        run(tool.command("dash").args(["-c", &format!("{script}; exit $?")]))
    };
    if !needs("dash") {
        return;
    }
    let done = call("bash").expect(64).one_line().says("several callers are called bash");
    assert!(done.stderr.contains("inner.sh") && done.stderr.contains("outer.sh"), "both are named: {done:?}");
    assert!(done.stderr.contains("--owner "), "the line to type: {done:?}");
    call("vim").expect(64).one_line().says("no caller of this command is called vim");
    call("outer.sh").expect(0).silent();
    let pid = std::fs::read_to_string(tool.path("pid")).expect("pid");
    assert_eq!(tool.record("sync")["owners"][0]["pid"].to_string(), pid.trim());
    call("inner.sh").expect(0);
}

#[test]
fn a_shared_daemon_is_named_by_number_only() {
    let tool = Tool::new();
    // A daemon: own session, no terminal, re-parented to pid 1. What it does is written to files.
    let daemon = tool.path("orion-fake-daemon");
    let text = "#!/bin/bash
        exec >/dev/null 2>&1 </dev/null
        until [ \"$(cut -d' ' -f4 /proc/$$/stat)\" = 1 ]; do :; done
        \"$OL\" acquire --owner orion-fake-daemon sync 2>by-name; echo $? >>by-name
        \"$OL\" acquire --owner $$ sync 2>by-number; echo $? >>by-number
        echo $$ >pid.new; mv pid.new pid; sleep 1000
    ";
    std::fs::write(&daemon, text).expect("write");
    std::fs::set_permissions(&daemon, PermissionsExt::from_mode(0o755)).expect("chmod");
    // Where a subreaper adopts orphans instead of pid 1 this cannot be shown.
    let orphan = "mkfifo go; sh -c 'read -r go <go; cut -d\" \" -f4 /proc/$$/stat >reaper' >/dev/null 2>&1 &";
    run(tool.command("sh").args(["-c", orphan]).current_dir(tool.path(""))).expect(0);
    eventually("the FIFO", || tool.path("go").exists());
    std::fs::write(tool.path("go"), "go\n").expect("write");
    let reaper = || std::fs::read_to_string(tool.path("reaper")).unwrap_or_default();
    eventually("the orphan", || reaper().ends_with('\n'));
    if !support::allowed(reaper().trim() == "1", "orphans are adopted by somebody else than pid 1") {
        return;
    }
    run(tool.command("bash").args(["-c", "setsid -f ./orion-fake-daemon"]).current_dir(tool.path("")))
        .expect(0);
    eventually("the daemon", || tool.path("pid").exists());
    let pid = std::fs::read_to_string(tool.path("pid")).expect("pid");
    let daemon = KillOnDrop::of(pid.trim().parse().expect("a pid"));
    let by_name = std::fs::read_to_string(tool.path("by-name")).expect("answer");
    assert!(by_name.contains("a daemon that other sessions share") && by_name.ends_with("64\n"), "{by_name}");
    assert_eq!(std::fs::read_to_string(tool.path("by-number")).expect("answer"), "0\n");
    daemon.kill();
}

#[test]
fn another_users_process_is_no_owner() {
    if !needs_root() || !needs("runuser") {
        return;
    }
    let tool = Tool::new();
    let script = "runuser -u nobody -- sh -c 'echo $$; read -r end'";
    let other = Running::start(tool.command("bash").args(["-c", &format!("exec {script}")]));
    tool.lock(&["acquire", "--for", &other.line, "sync"]).expect(64).one_line().says("belongs to uid");
}

#[test]
fn a_stopped_owner_is_live() {
    let tool = Tool::new();
    let stopped = sleeper(&tool);
    tool.lock(&["acquire", "--for", &stopped.pid().to_string(), "sync"]).expect(0);
    stopped.signal(Signal::STOP);
    eventually("the stop", || {
        std::fs::read_to_string(format!("/proc/{}/stat", stopped.pid())).is_ok_and(|s| s.contains(") T "))
    });
    tool.lock(&["acquire", "--for", &stopped.pid().to_string(), "other"]).expect(0);
    tool.precheck(&["sync"]).expect(75).says("stopped (state T)");
    stopped.signal(Signal::CONT);
}
