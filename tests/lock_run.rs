//! `orion-lock run`: the command becomes the owner, and the lock ends when it does.

mod support;

use rustix::process::Signal;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use support::{LONG, Running, Tool, eventually, names_in, run};

#[test]
fn the_command_is_the_owner_and_its_status_comes_through() {
    let tool = Tool::new();
    let done = tool.lock(&["run", "sync", "sh", "-c", "echo $$; exit 3"]).expect(3).silent();
    let record = tool.record("sync");
    assert_eq!(record["owners"][0]["pid"].to_string(), done.stdout.trim(), "same pid: {record}");
    assert_eq!(record["owners"][0]["comm"], "sh");
    for code in [0, 1, 64, 75, 127, 255] {
        tool.lock(&["run", "sync", "--", "sh", "-c", &format!("exit {code}")]).expect(code).silent();
    }
    tool.lock(&["run", "sync", "sh", "-c", "kill -TERM $$"]).expect(128 + 15).silent();
    assert_eq!(tool.files(), ["sync.guard", "sync.json", "sync.pulse"]);
}

#[test]
fn a_refusal_is_one_line_that_names_the_holder() {
    let tool = Tool::new();
    let holder = tool.hold("sync");
    let pid = holder.pid();
    let token = tool.record("sync")["token"].as_u64().expect("a token");
    let before = std::fs::read(tool.file("sync.json")).expect("record");
    let uid = rustix::process::geteuid().as_raw();
    let done = tool.lock(&["run", "sync", "true"]).expect(75).one_line();
    let start = format!("orion-lock: sync is held by pid {pid} (sh, uid {uid}) since 20");
    assert!(done.stderr.starts_with(&start), "{done:?}");
    assert!(done.stderr.trim_end().ends_with(&format!("; token {token}")), "{done:?}");
    assert!(done.stderr.contains(" UTC, "), "{done:?}");
    assert_eq!(std::fs::read(tool.file("sync.json")).expect("record"), before, "a live record is untouched");

    tool.lock(&["run", "-q", "sync", "true"]).expect(75).silent();
    tool.lock(&["run", "-v", "sync", "true"]).expect(75).says("rule 4");
    tool.lock(&["run", "-n", "sync", "true"]).expect(75);
    tool.lock(&["run", "-w", "0", "sync", "true"]).expect(75);
}

#[test]
fn the_code_for_busy_can_be_moved() {
    for code in ["0", "1", "63", "75", "79", "125"] {
        let tool = Tool::new();
        let _holder = tool.hold("sync");
        tool.lock(&["run", "-q", "-E", code, "sync", "true"])
            .expect(code.parse().expect("a number"))
            .silent();
    }
}

#[test]
fn busy_codes_with_a_meaning_are_refused_before_anything_runs() {
    let tool = Tool::new();
    for code in (64..=74).chain(76..=78).chain(126..=255) {
        let done = tool.lock(&["run", "-E", &code.to_string(), "sync", "sh", "-c", "echo ran"]).expect(64);
        assert_eq!(done.one_line().stdout, "", "-E {code}");
    }
    tool.lock(&["run", "-E", "256", "sync", "true"]).expect(64);
    assert!(!tool.dir().exists());
}

#[test]
fn the_lock_ends_with_the_command_however_it_ends() {
    let tool = Tool::new();
    for signal in [Signal::KILL, Signal::TERM, Signal::HUP] {
        let mut holder = tool.hold("sync");
        tool.lock(&["run", "sync", "true"]).expect(75);
        holder.signal(signal);
        holder.end();
        tool.lock(&["run", "sync", "true"]).expect(0).silent();
    }
    let mut holder = tool.hold("sync");
    holder.end().expect(0);
    tool.lock(&["status", "sync"]).expect(0).prints("free");
    let mut holder = tool.hold("sync");
    holder.kill();
    tool.lock(&["run", "-v", "sync", "true"]).expect(0);
    tool.lock(&["log", "sync"]).expect(0).prints("ended");
}

#[test]
fn a_stopped_holder_is_live_and_said_even_when_quiet() {
    let tool = Tool::new();
    let holder = tool.hold("sync");
    holder.signal(Signal::STOP);
    eventually("the stop", || {
        std::fs::read_to_string(format!("/proc/{}/stat", holder.pid())).is_ok_and(|s| s.contains(") T "))
    });
    tool.lock(&["run", "-q", "sync", "true"]).expect(75).says("stopped (state T)");
    tool.precheck(&["-q", "sync"]).expect(75).says("stopped (state T)");
    holder.signal(Signal::CONT);
}

#[test]
fn the_command_finds_its_lock_in_the_environment() {
    let tool = Tool::new();
    let print = "echo $ORION_LOCK_NAME $ORION_LOCK_TOKEN $ORION_LOCKS";
    let inner = format!("{print}; exec \"$OL\" run inner sh -c '{print}'");
    let done = tool.lock(&["run", "outer", "sh", "-c", &inner]).expect(0).silent();
    let token = |name: &str| tool.record(name)["token"].to_string();
    let (outer, inner) = (token("outer"), token("inner"));
    let expected = format!("outer {outer} outer:{outer}\ninner {inner} outer:{outer} inner:{inner}\n");
    assert_eq!(done.stdout, expected);
}

#[test]
fn the_directory_is_exported_only_when_it_was_named() {
    let tool = Tool::new();
    let print = ["sh", "-c", "echo ${ORION_DIR-unset}"];
    std::fs::create_dir(tool.path("here")).expect("mkdir");
    let mut command = tool.tool("orion-lock", &["--dir", "here", "run", "sync"]);
    let done = run(command.args(print).env_remove("ORION_DIR").current_dir(tool.path(""))).expect(0);
    assert_eq!(done.stdout.trim(), tool.path("here").to_str().expect("UTF-8"), "absolute");
    let done = run(tool.tool("orion-lock", &["run", "sync"]).args(print)).expect(0);
    assert_eq!(done.stdout.trim(), tool.dir().to_str().expect("UTF-8"), "as it was");
}

/// The numbers of the descriptors a command finds open, with what they lead to.
fn descriptors(tool: &Tool, limit: u32, args: &str) -> Vec<(u32, String)> {
    let list = "for fd in /proc/$$/fd/*; do echo ${fd##*/} $(readlink $fd); done";
    let script = format!("ulimit -n {limit}\nexec \"$OL\" run {args} sync bash -c '{list}'");
    let done = tool.sh(&script).expect(0).silent();
    let pair = |line: &str| {
        let (number, path) = line.split_once(' ')?;
        Some((number.parse().ok()?, path.to_owned()))
    };
    done.stdout.lines().filter_map(pair).filter(|(_, path)| !path.contains("/proc/")).collect()
}

#[test]
fn only_the_pulse_is_left_open_on_a_high_number() {
    let tool = Tool::new();
    for (limit, expected) in [(1024, 220..1024), (256, 220..256), (64, 20..64), (16, 10..16)] {
        let open = descriptors(&tool, limit, "");
        let pulse: Vec<&(u32, String)> =
            open.iter().filter(|(_, path)| path.ends_with("/sync.pulse")).collect();
        assert_eq!(pulse.len(), 1, "limit {limit}: {open:?}");
        assert!(expected.contains(&pulse[0].0), "limit {limit}: {open:?}");
        let ours = open.iter().filter(|(_, path)| path.starts_with(tool.dir().to_str().expect("UTF-8")));
        assert_eq!(ours.count(), 1, "nothing else of ours is inherited: {open:?}");
    }
    let open = descriptors(&tool, 1024, "--owner-only");
    assert!(!open.iter().any(|(_, path)| path.contains("/state/")), "{open:?}");
    // The pulse cannot be placed: nothing runs, and nothing stays held.
    tool.sh("ulimit -n 10\n\"$OL\" run sync echo ran").expect(71).one_line();
    tool.lock(&["status", "sync"]).expect(0);
    assert!(!tool.files().iter().any(|file| file.contains("tmp")), "{:?}", tool.files());
}

#[test]
fn signals_are_given_back_to_the_command() {
    let tool = Tool::new();
    let show = "grep -E '^Sig(Blk|Ign)' /proc/self/status";
    let plain = run(tool.command("sh").args(["-c", show])).expect(0);
    let under = tool.lock(&["run", "sync", "sh", "-c", show]).expect(0);
    assert_eq!(plain.stdout, under.stdout);
    // A job started with HUP ignored (nohup) keeps that.
    let nohup = "trap '' HUP; exec \"$OL\" run sync sh -c \"grep ^SigIgn /proc/self/status\"";
    let done = tool.sh(nohup).expect(0);
    let mask = u64::from_str_radix(done.stdout.trim().rsplit('\t').next().expect("a mask"), 16).expect("hex");
    assert_eq!(mask & 1, 1, "HUP stays ignored: {done:?}");
}

#[test]
fn a_command_that_cannot_run_leaves_nothing_held() {
    let tool = Tool::new();
    tool.lock(&["run", "sync", "/nonexistent"]).expect(127).one_line();
    // A directory in PATH that we may not search would be another answer.
    let mut missing = tool.tool("orion-lock", &["run", "sync", "no-such-command"]);
    run(missing.env("PATH", "/usr/bin:/bin")).expect(127).one_line();
    std::fs::write(tool.path("plain"), "x").expect("write");
    let plain = tool.path("plain");
    tool.lock(&["run", "sync", plain.to_str().expect("UTF-8")]).expect(126).one_line();
    let dir = tool.path("");
    tool.lock(&["run", "sync", dir.to_str().expect("UTF-8")]).expect(126).one_line();
    tool.lock(&["status", "sync"]).expect(0).prints("free");
    tool.lock(&["run", "sync", ""]).expect(64).one_line();
    tool.lock(&["run", "sync", "-X", "true"]).expect(64).says("options go first");
    tool.lock(&["run", "sync"]).expect(64).one_line();
}

#[test]
fn waiting_gets_the_lock_when_it_comes_free_and_75_when_not() {
    let tool = Tool::new();
    let mut holder = tool.hold("sync");
    let done = tool.lock(&["run", "-w", "100ms", "sync", "true"]).expect(75).one_line();
    assert!(done.stderr.contains("is held by pid"), "{done:?}");
    let mut waiter = tool.tool("orion-lock", &["run", "-w", "forever", "sync", "echo", "mine"]);
    let waiter = std::thread::spawn(move || run(&mut waiter));
    holder.kill();
    let done = waiter.join().expect("no panic").expect(0);
    assert_eq!(done.stdout, "mine\n");
    for bad in ["", "x", "-1", "5x", "1e3"] {
        tool.lock(&["run", "-w", bad, "sync", "true"]).expect(64).one_line();
    }
    assert!(LONG.as_secs() > 1);
}

#[test]
fn nested_runs_fail_at_once_and_pass_through_only_when_asked() {
    let tool = Tool::new();
    let nested = |options: &str| {
        tool.lock(&["run", "sync", "sh", "-c", &format!("\"$OL\" run {options} sync echo in; exit $?")])
    };
    nested("").expect(75).says("your own caller");
    nested("-w forever").expect(75).says("waiting would be for yourself");
    let done = nested("--json").expect(75);
    let error: Value = serde_json::from_str(&done.stdout).expect("JSON");
    assert_eq!(error["error"]["kind"], "held_by_ancestor");
    assert_eq!(nested("--reentrant").expect(0).silent().stdout, "in\n");
    nested("--reentrant --").expect(0);
    // The outer lock is still the outer one's when the inner command has ended.
    let after = "\"$OL\" run --reentrant sync true; \"$OL\" verify sync && echo mine";
    assert_eq!(tool.lock(&["run", "sync", "sh", "-c", after]).expect(0).stdout, "mine\n");
    // By exec the inner call has the very same pid: it is the owner itself.
    let own = tool.lock(&["run", "sync", "sh", "-c", "exec \"$OL\" run --json sync true"]).expect(75);
    assert_eq!(own.json()["error"]["kind"], "held_by_you");
    // A stranger with an old token in its environment is not let through.
    let _holder = tool.hold("other");
    let mut stranger = tool.tool("orion-lock", &["run", "--reentrant", "other", "true"]);
    stranger.env("ORION_LOCKS", "other:5").env("ORION_LOCK_NAME", "other").env("ORION_LOCK_TOKEN", "5");
    run(&mut stranger).expect(75);
}

#[test]
fn the_status_file_tells_held_from_75_by_the_command() {
    let tool = Tool::new();
    let facts = |file: &str| -> Vec<Value> {
        let text = std::fs::read_to_string(tool.path(file)).expect("status file");
        text.lines().map(|line| serde_json::from_str(line).expect("one JSON line")).collect()
    };
    let path = |file: &str| tool.path(file).to_str().expect("UTF-8").to_owned();
    tool.lock(&["run", "--status-file", &path("own"), "sync", "sh", "-c", "exit 75"]).expect(75);
    let own = facts("own");
    assert_eq!((own.len(), &own[0]["fact"]), (1, &"acquired".into()), "{own:?}");
    assert_eq!(own[0]["token"], tool.record("sync")["token"]);
    assert_eq!(own[0]["schema"], 1);

    tool.lock(&["run", "--status-file", &path("failed"), "sync", "/nonexistent"]).expect(127);
    let words: Vec<Value> = facts("failed").iter().map(|fact| fact["fact"].clone()).collect();
    assert_eq!(words, ["acquired", "exec-failed"]);

    let _holder = tool.hold("sync");
    let script = format!("\"$OL\" run -q --status-file /dev/fd/3 sync true 3>{}", path("refused"));
    tool.sh(&script).expect(75);
    let refused = facts("refused");
    assert_eq!(refused[0]["fact"], "refused");
    assert_eq!(refused[0]["kind"], "held");
    let bad = path("no/such/directory");
    tool.lock(&["run", "--status-file", &bad, "free", "echo", "ran"]).expect(73).one_line();
    assert!(!tool.file("free.json").exists(), "a bad path costs nothing");
}

#[test]
fn commands_that_leave_at_once_are_named() {
    let tool = Tool::new();
    let program = tool.path("nohup");
    std::fs::write(&program, "#!/bin/sh\nexit 0\n").expect("write");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("chmod");
    let program = program.to_str().expect("UTF-8").to_owned();
    tool.lock(&["run", "sync", &program, "x"])
        .expect(0)
        .one_line()
        .says("the lock ends with this nohup command");
    tool.lock(&["run", "-q", "sync", &program, "x"]).expect(0).silent();
}

#[test]
fn two_names_and_two_directories_do_not_meet() {
    let tool = Tool::new();
    let _a = tool.hold("a");
    let _b = tool.hold("b");
    let elsewhere = tool.path("elsewhere");
    let dir = elsewhere.to_str().expect("UTF-8");
    tool.lock(&["--dir", dir, "run", "a", "true"]).expect(0).silent();
    assert_eq!(names_in(&elsewhere.join("locks")), ["a.guard", "a.json", "a.pulse"]);
    let list = tool.lock(&["list", "--json"]).expect(0).json();
    assert_eq!(list["locks"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_limit_on_file_sizes_is_an_error_and_not_a_death() {
    let tool = Tool::new();
    tool.lock(&["run", "sync", "true"]).expect(0);
    let before = std::fs::read(tool.file("sync.json")).expect("record");
    // SIGXFSZ would kill us between the files; blocked, the write says EFBIG.
    tool.sh("ulimit -f 0\n\"$OL\" run sync echo ran").expect(73).one_line();
    assert_eq!(std::fs::read(tool.file("sync.json")).expect("record"), before);
    assert_eq!(tool.files(), ["sync.guard", "sync.json", "sync.pulse"], "no temp file is left");
    // The command itself gets the signal as ever.
    let own = "exec \"$OL\" run sync bash -c 'ulimit -f 0; echo text >file; echo survived'";
    run(tool.script(own).current_dir(tool.path(""))).expect(128 + 25);
}

#[test]
fn a_run_that_is_killed_while_waiting_holds_nothing() {
    let tool = Tool::new();
    let mut holder = tool.hold("sync");
    let script = "\"$OL\" run -w forever sync echo never & echo $!; wait";
    let mut waiting = Running::start(&mut tool.script(script));
    let waiter = support::KillOnDrop::of(waiting.number());
    waiter.kill();
    assert_eq!(waiting.end().stdout, "");
    holder.end();
    tool.lock(&["run", "sync", "true"]).expect(0).silent();
}
