//! Where two layers guard one thing, each has its test here in which it stands alone.

use crate::support::{KillOnDrop, Running, Tool, bin, eventually, needs, run};
use rustix::process::Signal;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const JOB: &str = "exec 3<&0; sh -c 'read -r end <&3' & echo up; wait";

/// One of our tools under strace, with an injection; the trace goes to the file `trace`.
fn injected(tool: &Tool, inject: &str, arguments: &[&str]) -> Command {
    let mut command = tool.command("strace");
    command.args(["-qq", "-o"]).arg(tool.path("trace")).args(["-e", &format!("inject={inject}")]);
    command.arg(bin("orion-lock")).args(arguments);
    command
}

/// Locks a file as another program would.
fn flocked(path: &Path) -> File {
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path).expect("open");
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).expect("flock");
    file
}

fn traced(tool: &Tool, call: &str) -> bool {
    std::fs::read_to_string(tool.path("trace")).is_ok_and(|text| text.contains(call))
}

#[test]
fn a_record_that_is_not_ours_after_all_is_seen_when_it_is_read_back() {
    if !needs("strace") {
        return;
    }
    let (tool, other) = (Tool::new(), Tool::new());
    // Somebody else's record of the same name, whose owner lives.
    let _owner = Running::start(&mut other.script("\"$OL\" acquire --owner $$ x; echo up; read -r end"));
    let mut command = injected(&tool, "renameat2:delay_exit=1500000", &["run", "x", "echo", "RAN"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("strace");
    eventually("it is placed", || tool.file("x.json").exists());
    std::fs::copy(other.file("x.json"), tool.path("theirs")).expect("copy");
    std::fs::rename(tool.path("theirs"), tool.file("x.json")).expect("rename");
    let done = child.wait_with_output().expect("end");
    assert_eq!(done.status.code(), Some(75), "{done:?}");
    assert_eq!(String::from_utf8_lossy(&done.stdout), "");
}

#[test]
fn a_guard_that_is_not_there_any_more_guards_nothing() {
    if !needs("strace") {
        return;
    }
    let tool = Tool::new();
    let _owner = Running::start(&mut tool.script("\"$OL\" acquire --owner $$ x; echo up; read -r end"));
    let token = tool.record("x")["token"].to_string();
    let before = std::fs::read(tool.file("x.json")).expect("record");
    let words = ["tick", "--token", &token, "x"];
    let mut tick = injected(&tool, "flock:delay_enter=700000:when=1", &words).spawn().expect("strace");
    // It has the old one open and not yet locked; now there is a new one, and somebody is in it.
    eventually("it is open", || traced(&tool, "x.guard\", O_RDWR"));
    std::fs::remove_file(tool.file("x.guard")).expect("a cleaner");
    let new = flocked(&tool.file("x.guard"));
    let end = Instant::now() + Duration::from_millis(1500);
    while Instant::now() < end {
        assert_eq!(std::fs::read(tool.file("x.json")).expect("record"), before, "changed beside the guard");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(new);
    assert!(tick.wait().expect("end").success());
    assert_ne!(std::fs::read(tool.file("x.json")).expect("record"), before);
}

/// Two had a guard each, and somebody removed the record of the one who came in: whoever had the old guard
/// finds his own record under the new one, and the token of a run that lives in it.
#[test]
fn a_record_of_ours_is_not_enough_beside_a_run_whose_record_was_removed() {
    if !needs("strace") {
        return;
    }
    let tool = Tool::new();
    tool.lock(&["run", "x", "true"]).expect(0);
    std::fs::remove_file(tool.file("x.json")).expect("nobody's record");
    // It has judged the name free and is about to write its token into a guard that is not there any more.
    let mut command = injected(&tool, "pwrite64:delay_enter=2500000:when=1", &["run", "x", "echo", "RAN"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("strace");
    eventually("it is about to write", || traced(&tool, "pwrite64("));
    std::fs::remove_file(tool.file("x.guard")).expect("a cleaner");
    let mut owner = tool.hold("x");
    std::fs::remove_file(tool.file("x.json")).expect("a cleaner");
    let done = child.wait_with_output().expect("end");
    assert_eq!(done.status.code(), Some(75), "{done:?}");
    assert_eq!(String::from_utf8_lossy(&done.stdout), "");
    assert!(!tool.file("x.json").exists(), "nothing of it stays");
    tool.lock(&["run", "x", "echo", "RAN"]).expect(75).says("its record was removed");
    owner.end();
    tool.lock(&["run", "x", "echo", "RAN"]).expect(0).prints("RAN");
}

#[test]
fn a_record_that_somebody_else_is_changing_is_not_replaced() {
    let tool = Tool::new();
    tool.leave_dead("x");
    let before = std::fs::read(tool.file("x.json")).expect("record");
    let other = flocked(&tool.file("x.json"));
    let done = tool.lock(&["run", "x", "echo", "RAN"]).expect(71).one_line().says("keep changing");
    assert_eq!(done.stdout, "");
    assert_eq!(std::fs::read(tool.file("x.json")).expect("record"), before);
    drop(other);
    tool.lock(&["run", "x", "echo", "RAN"]).expect(0).prints("RAN");
}

#[test]
fn a_command_that_cannot_be_executed_gives_the_lock_back_itself() {
    for options in [&[][..], &["--tree"]] {
        let tool = Tool::new();
        let mut words = vec!["run"];
        words.extend_from_slice(options);
        words.extend_from_slice(&["x", "/nonexistent"]);
        tool.lock(&words).expect(127);
        assert!(tool.record("x")["released_at"].is_string(), "{options:?}: not only by its own death");
    }
}

#[test]
fn stop_signals_nobody_without_the_guard_and_the_right_token() {
    let tool = Tool::new();
    let script =
        "trap 'echo TERM' TERM; echo up; while ! read -t 0.05 -r end || [ \"$end\" != end ]; do :; done";
    let mut holder = tool.hold_with(&["run", "x", "bash", "-c", script]);
    let token = tool.record("x")["token"].to_string();
    let guard = flocked(&tool.file("x.guard"));
    let mut stop = tool.tool("orion-lock", &["stop", "-w", "3s", "--token", &token, "x"]);
    let mut child = stop.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("stop");
    let stop = KillOnDrop::of(child.id());
    eventually("it waits for the guard", || {
        std::fs::read_to_string(format!("/proc/{}/syscall", stop.pid())).is_ok()
            && std::fs::read_dir(format!("/proc/{}/task", stop.pid())).is_ok_and(|tasks| tasks.count() > 1)
    });
    // Meanwhile the lock has another token: it is somebody else's now.
    tool.edit_record("x", |record| record["token"] = (token.parse::<u64>().expect("a number") + 1).into());
    drop(guard);
    eventually("stop has ended", || stop.ended());
    child.wait().expect("its status");
    holder.tell("end");
    assert_eq!(holder.end().stdout, "", "nobody was asked to end");
}

#[test]
fn a_terminal_cannot_stop_anybody_who_has_the_guard() {
    if !needs("strace") {
        return;
    }
    let tool = Tool::new();
    let mut command = injected(&tool, "pwrite64:delay_enter=1500000", &["run", "x", "true"]);
    let mut strace = command.spawn().expect("strace");
    eventually("the token is about to be written", || traced(&tool, "flock("));
    let children = format!("/proc/{0}/task/{0}/children", strace.id());
    let pid = std::fs::read_to_string(children).expect("children");
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.trim())).expect("status");
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).expect("a mask");
    let blocked = u64::from_str_radix(blocked.trim(), 16).expect("hex");
    for signal in [Signal::TSTP, Signal::TTIN, Signal::TTOU] {
        assert_ne!(blocked & 1 << (signal.as_raw() - 1), 0, "{signal:?}");
    }
    assert!(strace.wait().expect("end").success());
}

#[test]
fn on_a_full_disk_a_release_leaves_no_token_that_a_pulse_stands_for() {
    if !needs("strace") {
        return;
    }
    let tool = Tool::new();
    let mut owner = tool.hold_with(&["run", "x", "bash", "-c", JOB]);
    let token = tool.record("x")["token"].to_string();
    // The new record cannot be put in place, so the old one is taken away.
    let done = run(&mut injected(&tool, "renameat:error=ENOSPC", &["release", "--token", &token, "x"]));
    done.expect(0).says("its record was removed");
    assert!(!tool.file("x.json").exists());
    tool.lock(&["release", "--token", &token, "x"]).expect(0);
    tool.lock(&["run", "x", "echo", "RAN"]).expect(0).prints("RAN");
    owner.end();
}

#[test]
fn stop_asks_nobody_who_carries_the_pulse_no_more() {
    if !needs("strace") {
        return;
    }
    let tool = Tool::new();
    let job = "exec 3<&0; bash -c 'echo up; read -r x <&3; for f in /proc/$$/fd/*; do n=${f##*/}; [ $n -ge 10 ] && eval \"exec $n<&-\"; done
        trap \"echo TERM\" TERM; echo closed; while ! read -t 0.05 -r x <&3; do :; done' & wait";
    let mut owner = tool.hold_with(&["run", "x", "bash", "-c", job]);
    let token = tool.record("x")["token"].to_string();
    owner.signal(Signal::KILL);
    eventually("only the job holds it", || {
        tool.lock(&["status", "--json", "x"]).json()["held_through"] == "descendant"
    });
    // When each pidfd is opened, whoever was found has just let go.
    let words = ["stop", "--token", &token, "x"];
    let mut stop = injected(&tool, "pidfd_open:delay_enter=1000000", &words).spawn().expect("strace");
    eventually("somebody is about to be opened", || {
        std::fs::read_to_string(tool.path("trace")).is_ok_and(|text| text.matches("/fdinfo\"").count() > 3)
    });
    owner.tell("let go");
    assert_eq!(owner.next_line(), "closed");
    assert!(stop.wait().expect("end").success());
    owner.tell("end");
    assert_eq!(owner.next_line(), "", "it was not asked to end");
}

#[test]
fn a_failed_acquire_leaves_neither_record_nor_temp_file() {
    if !needs("strace") {
        return;
    }
    for (inject, code) in [("renameat2:error=EIO", 74), ("renameat2:error=ENOSPC", 73)] {
        let tool = Tool::new();
        run(&mut injected(&tool, inject, &["run", "x", "echo", "RAN"])).expect(code);
        let left: Vec<String> = tool.files().into_iter().filter(|file| !file.ends_with("guard")).collect();
        assert_eq!(left, ["x.pulse"], "{inject}");
        tool.lock(&["run", "x", "true"]).expect(0).silent();
    }
}
