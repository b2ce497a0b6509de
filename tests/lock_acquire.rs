//! `orion-lock acquire`: the lock of a process that lives on.

mod support;

use serde_json::Value;
use std::io::Write;
use std::process::Stdio;
use support::{KillOnDrop, Running, Tool, run};

#[test]
fn there_is_no_default_owner_and_the_message_is_the_line_to_type() {
    let tool = Tool::new();
    tool.lock(&["acquire", "sync"]).expect(64).one_line().says("--owner $$");
    let done = tool.sh("\"$OL\" acquire sync").expect(64).one_line();
    assert!(done.stderr.contains("--owner $$") && done.stderr.contains("$BASHPID"), "{done:?}");
    assert!(done.stderr.contains("script-"), "the script itself is named: {done:?}");
    assert!(!tool.dir().exists(), "nothing is created");
}

#[test]
fn a_script_holds_its_lock_until_it_releases_or_dies() {
    let tool = Tool::new();
    let script = "
        set -e
        token=$(\"$OL\" acquire --owner $$ --print-token sync)
        echo \"$token\"
        read -r go
        \"$OL\" release --token \"$token\" sync
        echo released
        read -r end
    ";
    let mut holder = Running::start(&mut tool.script(script));
    let token: u64 = holder.line.parse().expect("a token on stdout");
    assert_eq!(tool.record("sync")["token"], token);
    assert_eq!(tool.record("sync")["owners"][0]["pid"], holder.pid());
    tool.lock(&["run", "sync", "true"]).expect(75).says(&format!("pid {}", holder.pid()));
    holder.tell("go");
    assert_eq!(holder.next_line(), "released");
    tool.lock(&["run", "sync", "true"]).expect(0);

    let mut holder = Running::start(&mut tool.script(script));
    holder.kill();
    tool.lock(&["run", "sync", "true"]).expect(0).silent();
    tool.lock(&["log", "sync"]).expect(0).prints("reclaimed");
}

#[test]
fn success_is_silent_and_verbose_names_the_owner() {
    let tool = Tool::new();
    let done = tool.sh("\"$OL\" acquire --owner $$ sync").expect(0).silent();
    assert_eq!(done.stdout, "");
    tool.sh("\"$OL\" acquire -v --owner $$ sync").expect(0).says("acquired for pid").says("reclaimed");
}

#[test]
fn tokens_only_rise() {
    let tool = Tool::new();
    let mut last = 0;
    for _ in 0..5 {
        let token = tool.sh("\"$OL\" acquire --owner $$ --print-token sync").expect(0).token();
        assert!(token > last, "{token} after {last}");
        last = token;
    }
    // Also with the record gone, with the guard gone, and when the clock goes back (the guard is ahead of it).
    std::fs::remove_file(tool.file("sync.json")).expect("rm");
    let token = tool.sh("\"$OL\" acquire --owner $$ --print-token sync").expect(0).token();
    assert!(token > last);
    std::fs::remove_file(tool.file("sync.guard")).expect("rm");
    let next = tool.sh("\"$OL\" acquire --owner $$ --print-token sync").expect(0).token();
    assert!(next > token);
    let ahead = 4_000_000_000_000_000_u64;
    std::fs::write(tool.file("sync.guard"), format!("{ahead:020}\n")).expect("write");
    let next = tool.sh("\"$OL\" acquire --owner $$ --print-token sync").expect(0).token();
    assert_eq!(next, ahead + 1);
    for garbage in ["", "x", "99999999999999999999\n", "00009007199254740991\n"] {
        std::fs::write(tool.file("sync.guard"), garbage).expect("write");
        std::fs::remove_file(tool.file("sync.json")).expect("rm");
        let done = tool.sh("\"$OL\" acquire --owner $$ --print-token sync").expect(0);
        assert!(done.token() < 9_007_199_254_740_991, "{garbage:?}: {done:?}");
        if garbage.is_empty() {
            done.silent()
        } else {
            done.one_line().says("guard")
        };
    }
}

#[test]
fn a_second_acquire_by_the_same_owner_says_so() {
    let tool = Tool::new();
    let script = "\"$OL\" acquire --owner $$ sync; \"$OL\" acquire --json -w forever --owner $$ sync";
    let done = tool.sh(script).expect(75).says("you already hold it (token ");
    assert_eq!(done.json()["error"]["kind"], "held_by_you");
    tool.sh("\"$OL\" acquire --owner $$ sync; \"$OL\" acquire --reentrant --owner $$ sync")
        .expect(0)
        .silent();
    // An inner script is told that its caller holds it.
    std::fs::write(tool.path("inner.sh"), "\"$OL\" acquire --json -w forever --owner $$ sync\n")
        .expect("write");
    let outer = format!("\"$OL\" acquire --owner $$ sync; bash {}; exit $?", tool.path("inner.sh").display());
    assert_eq!(tool.sh(&outer).expect(75).json()["error"]["kind"], "held_by_ancestor");
}

#[test]
fn a_dry_run_only_says_who_would_own_it() {
    let tool = Tool::new();
    let done = tool.sh("\"$OL\" acquire --dry-run --owner $$ sync; echo $$").expect(0).silent();
    let pid = done.stdout.lines().last().expect("a pid");
    assert!(done.stdout.starts_with(&format!("sync would be owned by pid {pid} (bash, uid ")), "{done:?}");
    assert!(!tool.dir().exists());
    tool.sh("\"$OL\" acquire --dry-run --json --owner $$ sync").expect(0).json();
}

#[test]
fn busy_codes_of_an_acquire_never_look_like_success() {
    let tool = Tool::new();
    tool.sh("\"$OL\" acquire -E 0 --owner $$ sync").expect(64).one_line();
    tool.sh("\"$OL\" acquire -E 66 --owner $$ sync").expect(64).one_line();
    let _holder = tool.hold("sync");
    tool.sh("\"$OL\" acquire -E 9 --owner $$ sync").expect(9).one_line();
    tool.sh("\"$OL\" acquire -q --owner $$ sync").expect(75).silent();
}

/// Field case B70: a lock whose token nobody got must not stay held.
#[test]
fn a_token_that_cannot_be_printed_releases_the_lock_again() {
    let tool = Tool::new();
    for redirect in [">/dev/full", "--json >/dev/full"] {
        let script = format!("\"$OL\" acquire --owner $$ --print-token sync {redirect}");
        tool.sh(&script).expect(74).one_line().says("the lock was released again");
        tool.lock(&["status", "sync"]).expect(0);
        assert!(tool.record("sync")["released_at"].is_string());
    }
    let closed = "\"$OL\" acquire --owner $$ --print-token sync | head -c 0; echo ${PIPESTATUS[0]}";
    let done = tool.sh(&format!("exec 9< <(sleep 0); {closed}")).expect(0);
    // head may not have gone yet when the token is written; what counts is that code and lock agree.
    let held = tool.record("sync")["released_at"].is_null();
    assert_eq!(done.stdout.trim(), if held { "0" } else { "74" });
    // Nobody asked for a token: stdout is not even touched.
    tool.sh("\"$OL\" acquire --owner $$ other >/dev/full").expect(0).silent();
}

#[test]
fn a_note_and_on_behalf_are_kept() {
    let tool = Tool::new();
    let mut sleeper = Running::start(tool.command("sh").args(["-c", "echo up; read -r end"]));
    let pid = sleeper.pid().to_string();
    tool.lock(&["acquire", "--for", &pid, "--note", "a\u{1b}[2Jb", "sync"]).expect(0).silent();
    let record = tool.record("sync");
    assert_eq!(record["attrs"]["on_behalf"], true);
    assert_eq!(record["owners"][0]["pid"], sleeper.pid());
    let done = tool.lock(&["run", "sync", "true"]).expect(75).says("note: a\\u{1b}[2Jb");
    assert!(!done.stderr.contains('\u{1b}'), "escaped");
    sleeper.end();
    tool.lock(&["run", "sync", "true"]).expect(0);
}

#[test]
fn waiting_acquires_get_it_when_the_holder_ends() {
    let tool = Tool::new();
    let mut holder = tool.hold("sync");
    tool.sh("\"$OL\" acquire -w 50ms --owner $$ sync").expect(75).one_line();
    let script = "\"$OL\" acquire -w forever --owner $$ --print-token sync";
    let mut waiting = tool.script(script);
    let waiting = std::thread::spawn(move || run(&mut waiting));
    holder.end();
    assert!(waiting.join().expect("no panic").expect(0).token() > 0);
}

/// The pulse of a script: what it starts holds the lock after it was killed.
#[test]
fn a_pulse_on_stdin_keeps_the_lock_for_what_the_script_started() {
    let tool = Tool::new();
    tool.lock(&["run", "sync", "true"]).expect(0);
    let script = format!(
        "exec {{pulse}}<{}\n\"$OL\" acquire --pulse-stdin --owner $$ sync <&$pulse || exit 9\n\
         sleep 1000 >/dev/null 2>&1 & echo $!\nwait",
        tool.file("sync.pulse").display()
    );
    let mut holder = Running::start(&mut tool.script(&script));
    let job = KillOnDrop::of(holder.number());
    holder.kill();
    let done = tool.lock(&["run", "sync", "true"]).expect(75).one_line();
    let expected =
        format!("owner {} ended; {} (sleep), started by it, holds the lock", holder.pid(), job.pid());
    assert!(done.stderr.contains(&expected), "{done:?}");
    job.kill();
    tool.lock(&["run", "sync", "true"]).expect(0).silent();

    // Anything else on stdin is a mistake, and nothing is taken.
    let tool = Tool::new();
    tool.sh("\"$OL\" acquire --pulse-stdin --owner $$ sync </dev/null").expect(64).one_line();
    assert!(!tool.file("sync.json").exists());
}

#[test]
fn options_that_exclude_each_other_are_refused() {
    let tool = Tool::new();
    for args in [
        &["acquire", "--owner", "1", "--for", "1", "sync"][..],
        &["acquire", "-n", "-w", "5s", "--owner", "1", "sync"],
        &["acquire", "--owner", "1"],
        &["acquire", "--owner", "1", "a", "b"],
        &["acquire", "--nonsense", "sync"],
        &["nonsense"],
    ] {
        let done = tool.lock(args).expect(64).one_line();
        assert!(done.stderr.contains("--help"), "where to read on: {done:?}");
    }
    tool.lock::<&str>(&[]).expect(64);
}

#[test]
fn a_json_acquire_carries_the_token_and_the_owner() {
    let tool = Tool::new();
    let value: Value = tool.sh("\"$OL\" acquire --json --owner $$ sync").expect(0).silent().json();
    assert_eq!(value["name"], "sync");
    assert_eq!(value["token"], tool.record("sync")["token"]);
    assert_eq!(value["owner"]["pid"], tool.record("sync")["owners"][0]["pid"]);
}

#[test]
fn an_agent_passes_its_pid_and_releases_by_token_from_another_call() {
    let tool = Tool::new();
    // One-shot shells per tool call, as an agent does it (field case B32).
    let script = "
        export ORION_OWNER_PID=$$
        token=$(bash -c '\"$OL\" acquire --print-token sync; :') || exit 1
        bash -c '\"$OL\" verify sync; :' || exit 2
        bash -c \"\\\"\\$OL\\\" release --token $token sync; exit \\$?\" || exit 3
        echo done
    ";
    tool.sh(script).expect(0).silent().prints("done");
    let mut bad = tool.tool("orion-lock", &["acquire", "sync"]);
    run(bad.env("ORION_OWNER_PID", "claude")).expect(64).says("ORION_OWNER_PID is not a pid");
    let mut stranger = Running::start(tool.command("sh").args(["-c", "echo up; read -r end"]));
    let mut foreign = tool.tool("orion-lock", &["acquire", "sync"]);
    run(foreign.env("ORION_OWNER_PID", stranger.pid().to_string())).expect(64).says("not a caller");
    stranger.end();
}

#[test]
fn stdin_is_left_alone() {
    let tool = Tool::new();
    let script = "\"$OL\" acquire --owner $$ sync && cat";
    let mut command = tool.script(script);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("spawn");
    child.stdin.take().expect("stdin").write_all(b"for the script").expect("write");
    assert_eq!(child.wait_with_output().expect("wait").stdout, b"for the script");
}
