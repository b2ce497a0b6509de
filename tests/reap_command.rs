//! `command:PROG`, and the frame: whatever a runner does, the reaper ends in time,
//! with 0, and leaves nothing running.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod reap_support;
mod support;

use reap_support::{Outcome, alive, is_gone, now, start_ticks, write_program};
use rustix::process::Signal;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{KillOnDrop, Tool, eventually, run};

/// A runner's program that answers from files: `list.json`, `idle.json`, `close.sh`.
fn program(tool: &Tool, body: &str) -> PathBuf {
    let path = tool.path("prog");
    let text = format!("#!/bin/sh\ncd {}\n{body}\n", tool.path("").display());
    write_program(&path, &text);
    path
}

const ANSWERS: &str = r#"
case $1 in
list) cat list.json ;;
idle) cat idle.json ;;
close) sh close.sh "$2" ;;
esac"#;

fn reaper(tool: &Tool, program: &std::path::Path, args: &[&str]) -> Command {
    let runner = format!("command:{}", program.display());
    let mut command = tool.tool("orion-reap", &["--runner", &runner, "--automation", "nightly"]);
    command.args(args);
    command
}

struct Sleeper(Child);

impl Sleeper {
    fn new() -> Self {
        Self(Command::new("sleep").arg("9999").stdin(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        drop((self.0.kill(), self.0.wait()));
    }
}

/// A row of a list; `more` goes over the usual fields.
fn terminal(pid: u32, more: &str) -> String {
    let mut row = serde_json::json!({"id": "7", "automation": "nightly", "pid": pid,
        "last_output": now() - 1000, "started": now() - 5000});
    let more: serde_json::Value =
        serde_json::from_str(&format!("{{{}}}", more.trim_start_matches(','))).unwrap();
    for (key, value) in more.as_object().unwrap() {
        row[key] = value.clone();
    }
    row.to_string()
}

/// The same of a runner that does not know its processes.
fn without_pid(more: &str) -> String {
    let row = terminal(1, &format!("{more}{}\"pid\":null", if more.is_empty() { "" } else { "," }));
    format!("{{\"terminals\":[{row}]}}")
}

fn set(tool: &Tool, list: &str, idle: &str, close: &str) {
    std::fs::write(tool.path("list.json"), list).unwrap();
    std::fs::write(tool.path("idle.json"), idle).unwrap();
    std::fs::write(tool.path("close.sh"), close).unwrap();
}

#[test]
fn a_program_can_stand_for_a_runner() {
    let tool = Tool::new();
    let path = program(&tool, ANSWERS);
    // The foreground veto needs a terminal; a process without one has no foreground group.
    let plain = without_pid("");
    let close = "echo '{\"terminals\":[]}' >list.json; echo '{\"closed\":true}'";
    set(&tool, &plain, "{\"idle\":true}", close);
    let outcome = Outcome::of(&run(&mut reaper(&tool, &path, &["--json"])).expect(0));
    assert_eq!(outcome.fate("7"), "closed", "{}", outcome.0);

    let keeps = [
        ("busy", "{\"idle\":false,\"busy\":true}"),
        ("busy", "{\"idle\":true,\"busy\":true}"),
        ("question", "{\"idle\":true,\"question\":\"may I?\"}"),
        ("not-idle", "{\"idle\":false}"),
        ("not-idle", "{}"),
        ("unreadable", "{\"idle\":\"yes\"}"),
        ("unreadable", "{\"idle\":true,\"busy\":\"true\"}"),
        ("unreadable", "{\"idle\":true,\"busy\":1}"),
        ("unreadable", "{\"idle\":true,\"question\":{}}"),
        ("unreadable", "{\"busy\":true,\"idle\":true,\"busy\":false}"),
        ("unreadable", "idle"),
        ("unreadable", ""),
    ];
    for (reason, idle) in keeps {
        set(&tool, &plain, idle, close);
        let outcome = Outcome::of(&run(&mut reaper(&tool, &path, &["--json"])).expect(0));
        assert_eq!(outcome.fate("7"), reason, "{idle}");
    }
    let closes =
        ["echo '{\"closed\":false,\"why\":\"no\"}'", "exit 1", "echo yes", "echo '{\"closed\":true}'"];
    for close in closes {
        set(&tool, &plain, "{\"idle\":true}", close);
        let done = run(&mut reaper(&tool, &path, &["--json"])).expect(0);
        assert_eq!(Outcome::of(&done).fate("7"), "close-failed", "{close}");
        run(&mut reaper(&tool, &path, &["--strict"])).expect(69);
    }
    for list in ["", "{}", "[]", "{\"terminals\":{}}", "{\"terminals\":[{}]}", "{\"terminals\":[{\"id\":7}]}"]
    {
        set(&tool, list, "{\"idle\":true}", close);
        let outcome = Outcome::of(&run(&mut reaper(&tool, &path, &["--json"])).expect(0));
        assert_eq!(outcome.summary("seen"), 0, "{list}");
        assert_ne!(outcome.warnings(), "[]", "{list}");
    }
    let more = [
        ("other-automation", ",\"automation\":\"nightly-2\""),
        ("not-silent", ",\"last_output\":9999999999"),
        ("unreadable", ",\"started\":null"),
        ("no-clock", ",\"last_output\":null"),
        ("newest-reuse", ",\"reused_next\":true"),
        ("own-terminal", ",\"own\":true"),
    ];
    for (reason, field) in more {
        let list = without_pid(field);
        set(&tool, &list, "{\"idle\":true}", close);
        let outcome = Outcome::of(&run(&mut reaper(&tool, &path, &["--json"])).expect(0));
        let fate = outcome.fate("7");
        assert!(fate == reason || (reason == "not-silent" && fate == "no-clock"), "{field}: {fate}");
    }
}

#[test]
fn a_pid_of_somebody_else_is_never_enough() {
    let tool = Tool::new();
    let path = program(&tool, ANSWERS);
    let sleeper = Sleeper::new();
    let close = format!("kill {}; echo '{{\"closed\":true}}'", sleeper.pid());
    let other = format!("{{\"terminals\":[{}]}}", terminal(sleeper.pid(), ",\"start_ticks\":1"));
    set(&tool, &other, "{\"idle\":true}", &close);
    let outcome = Outcome::of(&run(&mut reaper(&tool, &path, &["--json"])).expect(0));
    assert_eq!(outcome.fate("7"), "tag-not-ours");
    let start = format!(",\"start_ticks\":{}", start_ticks(sleeper.pid()));
    let right = format!("{{\"terminals\":[{}]}}", terminal(sleeper.pid(), &start));
    set(&tool, &right, "{\"idle\":true}", &close);
    let outcome = Outcome::of(&run(&mut reaper(&tool, &path, &["--json"])).expect(0));
    assert_eq!(outcome.fate("7"), "unreadable", "it has no terminal: {}", outcome.0);
    drop(alive(sleeper.pid()));
}

/// Starts a reaper whose program hangs, and gives the pids of what the program started.
fn hanging(tool: &Tool, args: &[&str]) -> (Child, Vec<u32>) {
    let body = "trap '' TERM HUP INT\nsleep 9999 & a=$!\nsetsid sleep 9999 & b=$!\n\
        (setsid sh -c 'echo $$ >away; exec sleep 9999' &)\n\
        until [ -s away ]; do :; done\necho $$ $a $b $(cat away) >pids.part; mv pids.part pids\n\
        while :; do sleep 1; done";
    let path = program(tool, body);
    let mut command = reaper(tool, &path, args);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the program", || tool.path("pids").exists());
    let pids = std::fs::read_to_string(tool.path("pids")).unwrap();
    (child, pids.split_whitespace().map(|pid| pid.parse().unwrap()).collect())
}

#[test]
fn a_program_that_hangs_and_forks_away_is_ended_at_the_deadline() {
    let tool = Tool::new();
    let begin = Instant::now();
    let (child, pids) = hanging(&tool, &["--deadline", "2s"]);
    let guards: Vec<KillOnDrop> =
        pids.iter().filter(|pid| !is_gone(**pid)).map(|pid| KillOnDrop::of(*pid)).collect();
    // Everything that holds our pipes has ended when this comes back.
    let out = child.wait_with_output().unwrap();
    let took = begin.elapsed();
    // The promise is one second; a loaded machine gets another two.
    assert!(took < Duration::from_secs(5), "deadline 2s, took {took:?}");
    assert_eq!(out.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&out.stdout).contains("deadline"), "{out:?}");
    assert!(guards.iter().all(KillOnDrop::ended), "nothing is left running: {pids:?}");
}

#[test]
fn term_and_hup_end_it_with_0_and_leave_nothing() {
    for signal in [Signal::TERM, Signal::HUP] {
        let tool = Tool::new();
        let (child, pids) = hanging(&tool, &[]);
        let guards: Vec<KillOnDrop> = pids.iter().map(|pid| KillOnDrop::of(*pid)).collect();
        let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{signal:?} {out:?}");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(said.contains("not reaping: ended by a signal; nothing was closed"), "{said}");
        // They were killed; the kernel may need a moment to take them away.
        eventually("they are gone", || guards.iter().all(KillOnDrop::ended));
    }
}

#[test]
fn children_of_the_shell_it_replaced_are_not_its_own() {
    let tool = Tool::new();
    let path = program(&tool, "echo '{\"terminals\":[]}'");
    let reaper = reaper(&tool, &path, &[]);
    let args: Vec<String> = reaper.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let script = format!(
        "sleep 9999 >&- 2>&- & echo $! >child\n(setsid sleep 9999 >&- 2>&- & echo $! >grandchild)\nexec {} {}\n",
        reaper.get_program().display(),
        args.join(" ")
    );
    let done = run(tool.script(&script).current_dir(tool.path("")));
    done.expect(0);
    for file in ["child", "grandchild"] {
        let pid = std::fs::read_to_string(tool.path(file)).unwrap().trim().parse().unwrap();
        drop(alive(pid));
    }
}

#[test]
fn it_ends_with_0_whatever_is_wrong_with_the_call() {
    let tool = Tool::new();
    let path = program(&tool, "echo '{\"terminals\":[]}'");
    let calls: [&[&str]; 8] = [
        &["--no-such-option"],
        &["extra"],
        &["--runner", "screen"],
        &[],
        &["--runner", "tmux", "--idle", "soon"],
        &["--runner", "tmux", "--idle", "30s"],
        &["--runner", "tmux", "--idle-match", "(", "--trust-screen"],
        &["--runner", "orca", "--tmux-socket", "x"],
    ];
    for call in calls {
        run(&mut tool.tool("orion-reap", call)).expect(0).says("orion-reap: not reaping: ").one_line();
        run(tool.tool("orion-reap", call).arg("--strict")).expect(64);
    }
    let json = run(&mut tool.tool("orion-reap", &["--json", "--runner", "screen"])).expect(0).json();
    assert_eq!(json["error"]["kind"], "usage");
    let odd = std::ffi::OsString::from_vec(b"--automation=\xff".to_vec());
    run(tool.tool("orion-reap", &["--runner", "tmux"]).arg(odd)).expect(0).says("not reaping");
    run(&mut tool.tool("orion-reap", &["--help"])).expect(0).prints("--trust-screen");

    // A closed pipe, a full disk, no stdout at all.
    let line = |redirect: &str| {
        let runner = format!("command:{}", path.display());
        let reap = support::bin("orion-reap");
        tool.sh(&format!("{} --runner {runner} --automation n {redirect}; echo $? >&2", reap.display()))
    };
    for redirect in [">/dev/full", ">&-", "2>&- >&-", "| true; set -- ${PIPESTATUS[0]}; (exit $1)"] {
        line(redirect).says("0");
    }
}

#[test]
fn a_reader_that_does_not_read_costs_the_deadline_and_no_more() {
    let tool = Tool::new();
    let path = program(&tool, "cat list.json");
    // More lines than a pipe holds.
    let one = |n: u32| format!("{{\"id\":\"{n}\",\"title\":\"{}\"}}", "x".repeat(150));
    let list = format!("{{\"terminals\":[{}]}}", (0..2000).map(one).collect::<Vec<_>>().join(","));
    std::fs::write(tool.path("list.json"), list).unwrap();
    // Not for the children of tests beside this one.
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let mut command = reaper(&tool, &path, &["--deadline", "2s"]);
    command.stdout(write.try_clone().unwrap()).stderr(write);
    let begin = Instant::now();
    let mut child = command.spawn().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    drop(read);
}

#[test]
fn closes_are_in_the_log_of_the_state_directory() {
    let tool = Tool::new();
    tool.lock(&["run", "nightly", "true"]).expect(0);
    let path = program(&tool, ANSWERS);
    let list = without_pid("");
    set(&tool, &list, "{\"idle\":true}", "echo '{\"terminals\":[]}' >list.json; echo '{\"closed\":true}'");
    run(&mut reaper(&tool, &path, &[])).expect(0).prints("closed 1");
    let log = std::fs::read_to_string(tool.dir().join("log/_reap.jsonl")).unwrap();
    assert!(log.contains("\"event\":\"closed\"") && log.contains("nightly"), "{log}");
}

#[test]
fn few_descriptors_and_no_processes_keep_and_say_so() {
    let tool = Tool::new();
    let path = program(&tool, "echo '{\"terminals\":[]}'");
    let runner = format!("command:{}", path.display());
    let reap = support::bin("orion-reap");
    for limit in ["-n 4", "-n 5", "-n 6", "-n 8", "-n 10", "-n 12"] {
        let script = format!("ulimit {limit}; {} --runner {runner} --automation n; echo $?", reap.display());
        let done = tool.sh(&script);
        assert!(done.stdout.trim_end().ends_with('0'), "{limit}: {done:?}");
    }
}

/// A slow runner: it writes down when each call began and ended, and what for.
fn slow(tool: &Tool, seconds: &str, list_seconds: &str) -> PathBuf {
    program(
        tool,
        &format!(
            "echo \"begin $1 ${{2-}} $(date +%s.%N) $$\" >>calls\n\
             case $1 in\n\
             list) sleep {list_seconds}; cat list.json ;;\n\
             idle) sleep {seconds}; case $2 in n*) echo '{{\"idle\":false}}' ;; *) echo '{{\"idle\":true}}' ;; esac ;;\n\
             close) flock lock sed -i \"/\\\"$2\\\"/d\" list.json; echo '{{\"closed\":true}}' ;;\n\
             esac\n\
             echo \"end $1 ${{2-}} $(date +%s.%N) $$\" >>calls"
        ),
    )
}

/// One row a line, so that a close can take its own out: `n…` never become idle and have been silent longest.
fn rows(tool: &Tool, never: usize, finished: usize) {
    let mut lines = vec!["{\"terminals\":[{\"id\":\"other\"}".to_owned()];
    for (kind, count, ago) in [("n", never, 2000), ("t", finished, 1000)] {
        for number in 10..10 + count {
            let (last, started) = (now() - ago, now() - 5000);
            lines.push(format!(
                ",{{\"id\":\"{kind}{number}\",\"automation\":\"nightly\",\"last_output\":{last},\"started\":{started}}}"
            ));
        }
    }
    lines.push("]}".to_owned());
    std::fs::write(tool.path("list.json"), lines.join("\n")).unwrap();
}

/// Word, id and time of each line of a kind.
fn calls(tool: &Tool, kind: &str) -> Vec<(String, String, f64)> {
    let text = std::fs::read_to_string(tool.path("calls")).unwrap();
    text.lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .filter(|words| words[0] == kind)
        .map(|words| (words[1].to_owned(), words[2].to_owned(), words[3].parse().unwrap()))
        .collect()
}

fn epoch() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64()
}

#[test]
fn r2_everybody_has_a_turn_before_anybody_has_two() {
    let tool = Tool::new();
    let path = slow(&tool, "0.4", "0");
    // More than one pass has time for.
    let all = 40;
    rows(&tool, 24, 16);
    let mut turns: Vec<String> = Vec::new();
    for pass in 0..6 {
        std::fs::write(tool.path("calls"), "").unwrap();
        let begin = epoch();
        let args = ["--json", "--deadline", "4s", "--settle", "500ms"];
        let outcome = Outcome::of(&run(&mut reaper(&tool, &path, &args)).expect(0));
        let asked: Vec<_> = calls(&tool, "begin").into_iter().filter(|call| call.0 == "idle").collect();
        assert!(!asked.is_empty(), "pass {pass}: {}", outcome.0);
        turns.extend(asked.iter().map(|call| call.1.clone()));
        // No question and no close begins when there is no time left to wait for what it closes.
        let last = begin + 4.0 - 0.9;
        let late: Vec<_> = calls(&tool, "begin")
            .into_iter()
            .filter(|call| (call.0 == "idle" || call.0 == "close") && call.2 > last + 0.4)
            .collect();
        assert!(late.is_empty(), "pass {pass}: {late:?} began later than {last}");
        at_most_four_at_once(&tool);
        if turns.iter().collect::<std::collections::HashSet<_>>().len() == all {
            break;
        }
        assert!(outcome.0["summary"]["kept_by_reason"]["deadline"].as_u64() > Some(0), "{}", outcome.0);
    }
    let mut first = turns.clone();
    first.truncate(all);
    first.sort();
    first.dedup();
    assert_eq!(first.len(), all, "somebody was asked twice before all were asked once: {turns:?}");
    // Who was asked and had no time left to be closed has his next turn like all others.
    let finished = || std::fs::read_to_string(tool.path("list.json")).unwrap().contains("\"id\":\"t");
    for _ in 0..4 {
        if finished() {
            run(&mut reaper(&tool, &path, &["--settle", "500ms"])).expect(0);
        }
    }
    assert!(!finished(), "all finished are closed");
}

fn at_most_four_at_once(tool: &Tool) {
    let mut events: Vec<(f64, i32)> =
        calls(tool, "begin").iter().filter(|c| c.0 == "idle").map(|c| (c.2, 1)).collect();
    events.extend(calls(tool, "end").iter().filter(|c| c.0 == "idle").map(|c| (c.2, -1)));
    events.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut open, mut most) = (0, 0);
    for (_, change) in events {
        open += change;
        most = most.max(open);
    }
    assert!((2..=4).contains(&most), "{most} questions at once");
}

#[test]
fn r2_sixty_six_slow_terminals_are_done_in_two_passes() {
    let tool = Tool::new();
    // A tenth of the 1.2 s that were seen for each answer, and a fifth of the usual deadline for all of them:
    // a pass that asked one after the other, or asked all before it closed any, would need more than two.
    let path = slow(&tool, "0.12", "0.12");
    rows(&tool, 6, 60);
    let args = ["--json", "--deadline", "18s", "--settle", "500ms"];
    let passes: Vec<Outcome> =
        (0..2).map(|_| Outcome::of(&run(&mut reaper(&tool, &path, &args)).expect(0))).collect();
    let closed: u64 = passes.iter().map(|pass| pass.summary("closed")).sum();
    assert_eq!(closed, 60, "{}", passes[1].0);
    let left = std::fs::read_to_string(tool.path("list.json")).unwrap();
    assert_eq!(left.matches("\"id\":\"n").count(), 6, "those that never become idle stay: {left}");
    at_most_four_at_once(&tool);
}

#[test]
fn r2_each_is_closed_as_soon_as_its_answer_is_there() {
    let tool = Tool::new();
    let path = slow(&tool, "0.3", "0");
    rows(&tool, 0, 8);
    let outcome = Outcome::of(&run(&mut reaper(&tool, &path, &["--json"])).expect(0));
    assert_eq!(outcome.summary("closed"), 8, "{}", outcome.0);
    let begun = calls(&tool, "begin");
    let last_question = begun.iter().filter(|call| call.0 == "idle").map(|call| call.2).fold(0.0, f64::max);
    let first_close =
        begun.iter().filter(|call| call.0 == "close").map(|call| call.2).fold(f64::MAX, f64::min);
    assert!(first_close < last_question, "{begun:?}");
}

#[test]
fn no_close_begins_in_the_last_seconds() {
    // Once the answer comes too late, once the second look does.
    for (idle, second_list) in [("3.2", "0"), ("0", "3.2")] {
        let tool = Tool::new();
        let path = program(
            &tool,
            &format!(
                "echo $1 >>calls\n\
                 case $1 in\n\
                 list) if [ -e asked ]; then sleep {second_list}; fi; cat list.json ;;\n\
                 idle) : >asked; sleep {idle}; echo '{{\"idle\":true}}' ;;\n\
                 close) echo '{{\"closed\":true}}' ;;\n\
                 esac"
            ),
        );
        rows(&tool, 0, 1);
        let args = ["--json", "--deadline", "5s", "--settle", "1500ms"];
        let outcome = Outcome::of(&run(&mut reaper(&tool, &path, &args)).expect(0));
        assert_eq!(outcome.fate("t10"), "deadline", "{}", outcome.0);
        let calls = std::fs::read_to_string(tool.path("calls")).unwrap();
        assert!(!calls.contains("close"), "{calls}");
    }
}

#[test]
fn int_and_quit_end_what_was_called_and_then_the_reaper() {
    for signal in [Signal::INT, Signal::QUIT] {
        let tool = Tool::new();
        let (child, pids) = hanging(&tool, &[]);
        let guards: Vec<KillOnDrop> = pids.iter().map(|pid| KillOnDrop::of(*pid)).collect();
        let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        let out = child.wait_with_output().unwrap();
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&out.status),
            Some(signal.as_raw()),
            "{out:?}"
        );
        assert!(out.stdout.is_empty(), "nothing untrue is said: {out:?}");
        eventually("they are gone", || guards.iter().all(KillOnDrop::ended));
    }
}
