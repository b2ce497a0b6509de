//! `stop` and `run --replace`: the holder is ended, never just the lock, and never
//! another holder than the one that was meant.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod support;

use rustix::process::Signal;
use serde_json::Value;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use support::{Done, KillOnDrop, Running, Tool, eventually, needs};

fn token(tool: &Tool, name: &str) -> String {
    tool.record(name)["token"].to_string()
}

fn owner(tool: &Tool, place: usize) -> KillOnDrop {
    let pid = tool.record("x")["owners"][place]["pid"].as_u64().unwrap();
    KillOnDrop::of(u32::try_from(pid).unwrap())
}

fn events(tool: &Tool, name: &str, event: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(tool.dir().join(format!("log/{name}.jsonl"))).unwrap();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|it| it["event"] == event).collect()
}

fn stop(tool: &Tool, token: &str, options: &[&str]) -> Done {
    tool.lock(&[&["stop", "--token", token], options, &["x"]].concat())
}

/// Ignores TERM and says so.
const STUBBORN: &str = "trap 'echo term' TERM; echo up; while :; do sleep 0.1; done";

#[test]
fn the_holder_is_ended_and_the_lock_is_free_by_its_death() {
    let tool = Tool::new();
    let mut holder = tool.hold("x");
    let token = token(&tool, "x");
    stop(&tool, &token, &[]).expect(0).silent();
    holder.end().expect(143);
    assert!(tool.record("x")["released_at"].is_null(), "stop frees nothing");
    let stopped = events(&tool, "x", "stopped");
    assert_eq!(stopped.len(), 1);
    assert!(stopped[0]["detail"].as_str().unwrap().starts_with(&format!("TERM to pid {} (", holder.pid())));
    // It is done already, and stays so.
    stop(&tool, &token, &[]).expect(0).silent();
    tool.lock(&["run", "x", "true"]).expect(0);
    stop(&tool, &token, &[]).expect(77).says("not yours");
}

#[test]
fn another_token_is_never_stopped() {
    let tool = Tool::new();
    stop(&tool, "5", &[]).expect(77).says("never held");
    let mut holder = tool.hold("x");
    let token: u64 = token(&tool, "x").parse().unwrap();
    for other in [token - 1, token + 1] {
        stop(&tool, &other.to_string(), &[]).expect(77).one_line().says(&format!("with token {token}"));
    }
    assert!(events(&tool, "x", "stopped").is_empty());
    holder.end().expect(0);
}

#[test]
fn who_does_not_end_keeps_the_lock_unless_killed() {
    let tool = Tool::new();
    let mut holder = tool.hold_with(&["run", "x", "sh", "-c", STUBBORN]);
    let token = token(&tool, "x");
    let done = stop(&tool, &token, &["-w", "300ms"]).expect(75).one_line();
    let done = done.says(&format!("pid {} (", holder.pid()));
    done.says(&format!("to kill it: orion-lock stop --kill-after 10s --token {token} x"));
    assert_eq!(holder.next_line(), "term");
    tool.lock(&["run", "x", "true"]).expect(75);
    let json = stop(&tool, &token, &["-w", "300ms", "--json"]).expect(75).json();
    assert_eq!(json["error"]["kind"], "still_running");
    stop(&tool, &token, &["-w", "1s", "--kill-after", "1s"]).expect(64).says("-w");
    let json = stop(&tool, &token, &["--kill-after", "200ms", "--json"]).expect(0).json();
    assert_eq!(json["ended"], true);
    holder.end().expect(137);
    let last = events(&tool, "x", "stopped").pop().unwrap();
    assert!(last["detail"].as_str().unwrap().starts_with("KILL to pid"), "{last}");
}

#[test]
fn a_stopped_holder_gets_the_term_too() {
    let tool = Tool::new();
    let mut holder = tool.hold("x");
    holder.signal(Signal::STOP);
    stop(&tool, &token(&tool, "x"), &[]).expect(0);
    holder.end().expect(143);
}

#[test]
fn what_an_ended_owner_left_behind_is_ended_through_the_pulse() {
    let tool = Tool::new();
    let script = "setsid sh -c 'echo $$; exec sleep 1000' & exec sleep 1000";
    let mut owner = tool.hold_with(&["run", "x", "sh", "-c", script]);
    let job = KillOnDrop::of(owner.number());
    owner.kill();
    tool.lock(&["run", "x", "true"]).expect(75).says(&format!("{} (", job.pid()));
    stop(&tool, &token(&tool, "x"), &[]).expect(0).silent();
    assert!(job.ended());
    tool.lock(&["run", "x", "true"]).expect(0);
}

#[test]
fn a_tree_is_ended_with_one_term_for_each_also_where_the_pulse_was_closed() {
    let tool = Tool::new();
    // Python closes descriptors in what it starts: no pulse, and a session of its own.
    let family = "import signal, subprocess, sys\n\
        names = [signal.SIGTERM, signal.SIGUSR1]\n\
        job = subprocess.Popen(['sleep', '1000'], start_new_session=True)\n\
        signal.pthread_sigmask(signal.SIG_BLOCK, names)\n\
        print(job.pid, flush=True)\n\
        seen = [signal.sigwait(names)]\n\
        while True:\n\
        \x20   more = signal.sigtimedwait(names, 0.5)\n\
        \x20   if more is None: break\n\
        \x20   seen.append(more.si_signo)\n\
        print('got', len(seen), flush=True)\n\
        sys.exit(3)\n";
    if !needs("python3") {
        return;
    }
    let mut supervisor = tool.hold_with(&["run", "--tree", "x", "python3", "-c", family]);
    let job = KillOnDrop::of(supervisor.number());
    stop(&tool, &token(&tool, "x"), &[]).expect(0).silent();
    assert!(job.ended(), "also what does not carry the pulse");
    assert_eq!(supervisor.next_line(), "got 1", "one TERM, not one more from the supervisor");
    supervisor.end().expect(3);
    assert!(tool.record("x")["released_at"].is_string(), "the supervisor ended in its own way");
}

#[test]
fn a_stopped_supervisor_does_not_hold_up_the_end_of_its_tree() {
    let tool = Tool::new();
    let mut supervisor = tool.hold_with(&["run", "--tree", "x", "sh", "-c", "echo up; exec sleep 1000"]);
    supervisor.signal(Signal::STOP);
    stop(&tool, &token(&tool, "x"), &[]).expect(0);
    supervisor.end().expect(143);
}

#[test]
fn nobody_stops_its_own_caller() {
    let tool = Tool::new();
    let script = "\"$OL\" stop --token $ORION_LOCK_TOKEN x; echo $?; \"$OL\" run --replace x true; echo $?";
    for tree in [&["run"][..], &["run", "--tree"]] {
        let done = tool.lock(&[tree, &["x", "sh", "-c", script]].concat()).expect(0);
        assert_eq!(done.stdout, "75\n75\n");
        done.says("your own caller");
    }
}

#[test]
fn an_owner_that_cannot_be_judged_is_not_signalled() {
    let tool = Tool::new();
    let mut holder = tool.hold("x");
    holder.kill();
    tool.edit_record("x", |record| record["host"]["boot_id"] = Value::Null);
    stop(&tool, &token(&tool, "x"), &[]).expect(69).says("cannot tell");
    tool.lock(&["run", "--replace", "x", "true"]).expect(69).says("cannot tell");
    assert!(events(&tool, "x", "stopped").is_empty());
}

#[test]
fn replace_ends_the_holder_and_takes_its_place() {
    let tool = Tool::new();
    for old in [&["run", "x"][..], &["run", "--tree", "x"]] {
        let mut holder = tool.hold_with(&[old, &["sh", "-c", "echo up; exec sleep 1000"]].concat());
        let before: u64 = token(&tool, "x").parse().unwrap();
        let done =
            tool.lock(&["run", "--replace", "x", "sh", "-c", "echo $ORION_LOCK_TOKEN"]).expect(0).silent();
        assert!(done.token() > before);
        holder.end().expect(143);
    }
    // Free: nobody to ask.
    tool.lock(&["run", "--replace", "x", "true"]).expect(0).silent();
    for line in
        [&["run", "--replace", "-n", "x", "true"][..], &["run", "--replace", "--reentrant", "x", "true"]]
    {
        tool.lock(line).expect(64);
    }
    assert_eq!(events(&tool, "x", "stopped").len(), 2);
}

#[test]
fn replace_never_kills() {
    let tool = Tool::new();
    let mut holder = tool.hold_with(&["run", "x", "sh", "-c", STUBBORN]);
    let done = tool.lock(&["run", "--replace", "-w", "300ms", "x", "true"]).expect(75);
    assert_eq!(holder.next_line(), "term");
    done.says("to kill it: orion-lock stop --kill-after");
    tool.lock(&["run", "--replace", "-w", "300ms", "-E", "11", "x", "true"]).expect(11);
    assert!(!owner(&tool, 0).ended());
    holder.kill();
}

#[test]
fn of_many_replacers_one_at_a_time_runs_and_the_last_one_to_its_end() {
    if !needs("flock") {
        return;
    }
    let tool = Tool::new();
    let mut holder = tool.hold("x");
    // A lock of the kernel's own, which ends with whoever is ended.
    let script = format!("exec 9>{}; flock -n 9 || echo two; sleep 0.05", tool.path("critical").display());
    let racers: Vec<std::process::Child> = (0..8)
        .map(|_| {
            tool.tool("orion-lock", &["run", "--replace", "x", "sh", "-c", &script])
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut won = 0;
    for racer in racers {
        let out = racer.wait_with_output().unwrap();
        assert!(out.stdout.is_empty(), "two at a time");
        match (out.status.code(), out.status.signal()) {
            (Some(0), _) => won += 1,
            (Some(75), _) | (_, Some(15)) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(won > 0, "somebody gets it");
    holder.end().expect(143);
}

#[test]
fn a_holder_in_another_namespace_is_found_by_its_inode() {
    if !support::needs_root() || !support::needs_unshare(&["--fork", "--pid", "--mount-proc"]) {
        return;
    }
    let tool = Tool::new();
    let script = "\"$OL\" run x sh -c 'echo up; exec sleep 1000'";
    let mut holder = Running::start(&mut tool.unshared(&["--fork", "--pid", "--mount-proc"], script));
    let pid = tool.record("x")["owners"][0]["pid"].as_u64().unwrap();
    assert!(pid < 100, "a number of its own namespace: {pid}");
    if tool.lock(&["status", "x"]).code != 75 {
        // No pidfs inodes on this kernel.
        holder.kill();
        return;
    }
    stop(&tool, &token(&tool, "x"), &[]).expect(0);
    eventually("a free lock", || tool.lock(&["status", "x"]).code == 0);
    drop(holder.end());
}
