//! `run --tree`: what passes through it (statuses, signals, masks, descriptors), what it
//! says and logs, and the limits of a run's time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod support;

use rustix::process::Signal;
use serde_json::Value;
use std::process::Stdio;
use support::{KillOnDrop, Running, Tool, bin, eventually, needs, run};

/// The last line of a lock's log with this event.
#[track_caller]
fn last_event(tool: &Tool, name: &str, event: &str) -> Value {
    let text = std::fs::read_to_string(tool.dir().join(format!("log/{name}.jsonl"))).unwrap();
    let mut events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.rfind(|it| it["event"] == event).unwrap_or_else(|| panic!("no {event} in {text}"))
}

fn is_held(tool: &Tool, name: &str) -> bool {
    match tool.lock(&["status", name]).code {
        0 => false,
        75 => true,
        code => panic!("status {name} ended with {code}"),
    }
}

#[test]
fn statuses_pass_through_and_are_logged() {
    let tool = Tool::new();
    for status in [0, 1, 2, 64, 71, 75, 76, 126, 127, 128, 200, 255] {
        tool.lock(&["run", "--tree", "x", "sh", "-c", &format!("exit {status}")]).expect(status).silent();
        let ended = last_event(&tool, "x", "ended");
        assert_eq!((&ended["status"], &ended["held_s"]), (&status.into(), &0.into()));
    }
    for (name, number) in [("HUP", 1), ("INT", 2), ("KILL", 9), ("USR1", 10), ("TERM", 15)] {
        let script = format!("kill -{name} $$; sleep 100");
        tool.lock(&["run", "--tree", "x", "sh", "-c", &script]).expect(128 + number).silent();
        assert_eq!(last_event(&tool, "x", "ended")["status"], 128 + number);
    }
    assert_eq!(tool.lock(&["status", "x"]).code, 0);
    assert!(tool.record("x")["released_at"].is_string(), "released at the end of the tree");
}

#[test]
fn what_cannot_be_executed_is_said_once_and_frees_the_lock() {
    let tool = Tool::new();
    let facts = tool.path("facts");
    let facts_text = facts.to_str().unwrap();
    tool.lock(&["run", "--tree", "--status-file", facts_text, "x", "no-such-command"])
        .expect(127)
        .one_line()
        .says("no-such-command: no such file");
    let text = std::fs::read_to_string(&facts).unwrap();
    assert!(text.lines().last().unwrap().contains("\"exec-failed\""), "{text}");
    let file = tool.path("not-executable");
    std::fs::write(&file, "x").unwrap();
    tool.lock(&["run", "--tree", "x", file.to_str().unwrap()])
        .expect(126)
        .one_line()
        .says("permission denied");
    assert!(!is_held(&tool, "x"));
}

#[test]
fn the_status_file_says_acquired_and_ended() {
    let tool = Tool::new();
    let facts = tool.path("facts");
    tool.lock(&["run", "--tree", "--status-file", facts.to_str().unwrap(), "x", "sh", "-c", "exit 75"])
        .expect(75);
    let text = std::fs::read_to_string(&facts).unwrap();
    let facts: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&facts[0]["fact"], &facts[1]["fact"]), (&"acquired".into(), &"ended".into()), "{text}");
    assert_eq!(facts[1]["status"], 75);
    assert_eq!(facts[0]["token"], facts[1]["token"]);
}

#[test]
fn at_the_commands_end_it_says_who_is_still_there() {
    let tool = Tool::new();
    let script = "exec 3<&0; setsid sh -c 'echo up; read x <&3' & exit 3";
    let mut command = tool.script("exec \"$OL\" run --tree x sh -c \"$SCRIPT\" 2>&1");
    let mut running = Running::start(command.env("SCRIPT", script));
    let line = running.next_line();
    let start = "orion-lock: x: the command has ended (status 3), and what it started still runs: ";
    assert!(line.starts_with(start) && line.ends_with("(sh); the lock is held until it ends"), "{line}");
    tool.lock(&["status", "x"]).expect(75).prints("which waits for what its command left behind");
    let done = running.end().expect(3);
    assert_eq!(done.stdout, "", "once");
    assert_eq!(last_event(&tool, "x", "ended")["status"], 3);
}

#[test]
fn the_command_gets_its_mask_and_its_descriptors_back() {
    let tool = Tool::new();
    for look in [&["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"][..], &["ls", "/proc/self/fd"]] {
        let plain = tool.lock(&[&["run", "x"], look].concat()).expect(0);
        let tree = tool.lock(&[&["run", "--tree", "x"], look].concat()).expect(0);
        assert_eq!(plain.stdout, tree.stdout, "as without --tree");
    }
    let look = ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"];
    let tree = tool.lock(&[&["run", "--tree", "x"], &look[..]].concat()).expect(0);
    assert!(tree.stdout.contains("SigBlk:\t0000000000000000"), "{tree:?}");
    if !needs("python3") {
        return;
    }
    // What was blocked or ignored before us stays so.
    let blocked = "import os, signal, sys\n\
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGXFSZ, signal.SIGTERM])\n\
        signal.signal(signal.SIGINT, signal.SIG_IGN)\n\
        os.execv(sys.argv[1], sys.argv[1:])";
    let through = |options: &[&str]| {
        let mut command = tool.command("python3");
        command.args(["-c", blocked]).arg(bin("orion-lock")).arg("run").args(options).arg("x").args(look);
        run(&mut command).expect(0).stdout
    };
    let mask = 1u64 << 9 | 1 << 24 | 1 << 14;
    let tree = through(&["--tree"]);
    assert!(tree.contains(&format!("SigBlk:\t{mask:016x}")), "{tree}");
    assert_eq!(through(&[]), tree);
}

#[test]
fn ignored_children_and_foreign_children_confuse_nobody() {
    if !needs("python3") {
        return;
    }
    let tool = Tool::new();
    let ignores = "import os, signal, sys\n\
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n\
        os.execv(sys.argv[1], sys.argv[1:])";
    let mut command = tool.command("python3");
    command.args(["-c", ignores]).arg(bin("orion-lock")).args(["run", "--tree", "x", "sh", "-c", "exit 7"]);
    run(&mut command).expect(7);
    // A job of the script that became the supervisor is not a part of the tree: neither waited for nor ended.
    let script = "sleep 1000 >/dev/null 2>&1 & echo $!; exec \"$OL\" run --max-run 1h x sh -c 'exit 5'";
    let done = tool.sh(script).expect(5);
    let stranger = KillOnDrop::of(done.token().try_into().unwrap());
    let script = "sleep 1000 >/dev/null 2>&1 & echo $!; exec \"$OL\" run --max-run 100ms x sleep 1000";
    let done = tool.sh(script).expect(143);
    let other = KillOnDrop::of(done.token().try_into().unwrap());
    assert!(!stranger.ended() && !other.ended(), "strangers live on");
}

/// Counts signals and says each; ends on USR2 after what came before it was said.
const COUNTER: &str = "import signal, sys, os\n\
    seen = []\n\
    names = {signal.SIGINT: 'INT', signal.SIGTERM: 'TERM', signal.SIGHUP: 'HUP', signal.SIGQUIT: 'QUIT', signal.SIGUSR1: 'USR1', signal.SIGUSR2: 'USR2'}\n\
    signal.pthread_sigmask(signal.SIG_BLOCK, list(names))\n\
    print('up', flush=True)\n\
    while True:\n\
    \x20   got = signal.sigwait(list(names))\n\
    \x20   print('got', names[got], flush=True)\n\
    \x20   if got == signal.SIGUSR2: sys.exit(9)\n";

#[test]
fn a_signal_to_the_supervisor_is_one_signal_for_the_command() {
    if !needs("python3") {
        return;
    }
    let tool = Tool::new();
    let mut running =
        Running::start(&mut tool.tool("orion-lock", &["run", "--tree", "x", "python3", "-c", COUNTER]));
    for (signal, name) in [
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::TERM, "TERM"),
        (Signal::HUP, "HUP"),
        (Signal::USR1, "USR1"),
        (Signal::INT, "INT"),
        (Signal::USR2, "USR2"),
    ] {
        running.signal(signal);
        assert_eq!(running.next_line(), format!("got {name}"), "each once, and nothing in between");
    }
    running.end().expect(9).silent();
}

#[test]
fn a_signal_after_the_commands_end_goes_to_what_it_left_behind() {
    let tool = Tool::new();
    let script =
        "setsid sh -c 'trap \"echo term; exit\" TERM; echo up; while :; do sleep 0.1; done' & exit 4";
    let mut running =
        Running::start(&mut tool.tool("orion-lock", &["run", "--tree", "-q", "x", "sh", "-c", script]));
    eventually("the command's end", || {
        tool.lock(&["status", "x"]).stdout.contains("which waits for what its command left behind")
    });
    running.signal(Signal::TERM);
    assert_eq!(running.next_line(), "term");
    running.end().expect(4);
    assert!(!is_held(&tool, "x"));
}

/// Runs a command line on a terminal of its own; what is written to it is typed.
fn on_a_terminal(tool: &Tool, line: &str) -> Running {
    let mut command = tool.command("script");
    // Its own default would be sh, which dies of a Ctrl-C that its command has dealt with.
    command.env("SHELL", "/bin/bash");
    command.args(["-qefc", line]).arg("/dev/null").stderr(Stdio::null());
    Running::start(&mut command)
}

/// The next line on a terminal without the echo of what was typed.
fn said(terminal: &mut Running) -> String {
    for _ in 0..10 {
        let line = terminal.next_line();
        let line = line.trim_start_matches("^C");
        if !line.is_empty() {
            return line.to_owned();
        }
    }
    panic!("it says nothing")
}

#[test]
fn one_ctrl_c_is_one_int_for_the_command() {
    if !needs("script") || !needs("python3") {
        return;
    }
    let tool = Tool::new();
    std::fs::write(tool.path("counter.py"), COUNTER).unwrap();
    let counter = tool.path("counter.py");
    // The shell stays, so that the supervisor does not lead the session: as typed at a prompt.
    let line = format!("\"$OL\" run --tree x python3 {}; echo status $?", counter.display());
    let mut terminal = on_a_terminal(&tool, &line);
    assert_eq!(terminal.line, "up");
    let owners = tool.record("x")["owners"].clone();
    let supervisor = KillOnDrop::of(u32::try_from(owners[1]["pid"].as_u64().unwrap()).unwrap());
    for round in 1..=2 {
        terminal.tell("\x03");
        assert_eq!(said(&mut terminal), "got INT", "round {round}");
        // Passed on by the supervisor after whatever it would have passed on for the Ctrl-C.
        supervisor.signal(Signal::USR1);
        assert_eq!(said(&mut terminal), "got USR1", "no second INT in round {round}");
    }
    supervisor.signal(Signal::USR2);
    assert_eq!(said(&mut terminal), "got USR2");
    assert_eq!(said(&mut terminal), "status 9");
    terminal.end();
}

#[test]
fn a_terminal_that_goes_away_reaches_the_command() {
    if !needs("script") || !needs("python3") {
        return;
    }
    let tool = Tool::new();
    let marker = tool.path("marker");
    let script = tool.path("hup.sh");
    let text = "trap 'echo hup >>\"$1\"; exit 1' HUP; echo up; while :; do sleep 0.1; done\n";
    std::fs::write(&script, text).unwrap();
    // The supervisor leads the session, as in a pane of tmux: the hang-up goes to it alone.
    let line = format!("exec \"$OL\" run --tree x sh {} {}", script.display(), marker.display());
    let mut terminal = on_a_terminal(&tool, &line);
    assert_eq!(terminal.line, "up");
    terminal.kill();
    eventually("the hang-up", || marker.exists());
    eventually("a free lock", || !is_held(&tool, "x"));
    assert_eq!(std::fs::read_to_string(&marker).unwrap(), "hup\n", "once");
}

#[test]
fn max_run_ends_the_tree_also_in_sessions_of_its_own() {
    let tool = Tool::new();
    let script = "setsid sh -c 'echo $$; exec sleep 1000' & exec sleep 1000";
    let mut running =
        Running::start(&mut tool.tool("orion-lock", &["run", "--max-run", "1s", "x", "sh", "-c", script]));
    let grandchild = KillOnDrop::of(running.number());
    assert!(is_held(&tool, "x"));
    let done = running.end().expect(143).one_line();
    done.says("x: --max-run 1s is over: TERM to the command and everything it started");
    assert!(grandchild.ended(), "not only the command");
    assert!(!is_held(&tool, "x"));
    assert!(last_event(&tool, "x", "ended")["detail"].as_str().unwrap().contains("--max-run 1s"));
}

#[test]
fn without_kill_after_nobody_is_killed_and_the_lock_is_kept() {
    let tool = Tool::new();
    let script = "trap 'echo term' TERM; echo up; while :; do sleep 0.1; done";
    let mut running =
        Running::start(&mut tool.tool("orion-lock", &["run", "--max-run", "200ms", "x", "sh", "-c", script]));
    assert_eq!(running.next_line(), "term");
    assert!(is_held(&tool, "x"));
    let owners = tool.record("x")["owners"].clone();
    KillOnDrop::of(u32::try_from(owners[0]["pid"].as_u64().unwrap()).unwrap()).kill();
    running.end().expect(137);
}

#[test]
fn kill_after_kills_who_ignores_the_term_and_who_is_stopped() {
    let tool = Tool::new();
    let stubborn = "trap '' TERM; setsid sh -c 'echo $$; kill -STOP $$; sleep 1000' & \
        setsid sh -c 'while :; do setsid sleep 1000 & sleep 0.05; done' & sleep 1000";
    let mut running = Running::start(&mut tool.tool(
        "orion-lock",
        &["run", "--max-run", "300ms", "--kill-after", "300ms", "x", "sh", "-c", stubborn],
    ));
    let stopped = KillOnDrop::of(running.number());
    let done = running.end().expect(137);
    let done = done.says("TERM to the command and everything it started");
    done.says("--max-run 300ms and --kill-after 300ms are over: KILL to what was left");
    assert!(stopped.ended());
    assert!(!is_held(&tool, "x"));
    tool.lock(&["run", "--kill-after", "1s", "x", "true"]).expect(64).says("--max-run");
    tool.lock(&["run", "--max-run", "0", "x", "true"]).expect(64).says("at once");
}
