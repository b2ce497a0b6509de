//! From the end of one run to the start of the next: the precheck that reaps first,
//! the mark that agents set, and the launcher.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod reap_support;
mod support;

use reap_support::{Pane, Server, now};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use support::{KillOnDrop, bin, bin_dir, eventually, needs, run};

/// An agent that holds the lock at its prompt and takes `seconds` to die.
fn agent(server: &Server, automation: &str, seconds: u32) -> Pane {
    let script = server.tool.path(&format!("agent-{automation}-{seconds}.sh"));
    std::fs::write(
        &script,
        format!(
            "trap 'sleep {seconds}; exit 0' HUP\necho at the prompt\nwhile :; do sleep 9999 & wait; done\n"
        ),
    )
    .unwrap();
    let pane = server.pane(&format!(
        "ORION_DIR={} exec {} run {automation} bash {}",
        server.tool.dir().display(),
        bin("orion-lock").display(),
        script.display()
    ));
    eventually("its prompt", || {
        server.tmux(&["capture-pane", "-p", "-t", &pane.id]).contains("at the prompt")
    });
    server.tag(&pane, automation);
    pane
}

fn precheck(server: &Server, args: &[&str]) -> Command {
    let mut command = server.tool.tool("orion-precheck", args);
    command.env_remove("TMUX").env_remove("TMUX_PANE");
    if args.contains(&"--reap") {
        let more = ["--runner", "tmux", "--automation", "nightly", "--idle", "2s", "--force"];
        command.args(more).args(["--resident", "sleep"]).arg("--tmux-socket").arg(&server.socket);
    }
    command.arg("nightly");
    command
}

#[test]
fn a_finished_run_that_is_just_closing_is_not_seen_as_alive() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let pane = agent(&server, "nightly", 3);
    server.set(&pane, "@orion_state", &format!("idle {}", now()));
    run(&mut precheck(&server, &[])).expect(75).says("nightly is held");
    server.settle(&[]);
    run(&mut precheck(&server, &["--reap", "--dry-run"])).expect(75);
    let begin = Instant::now();
    run(&mut precheck(&server, &["--reap", "--settle", "30s"])).expect(0).says("closed 1");
    assert!(begin.elapsed() >= Duration::from_secs(3), "it waited for the agent's end");
    assert!(!server.panes().contains(&pane.id));
    server.tool.lock(&["run", "nightly", "true"]).expect(0);
}

#[test]
fn a_run_that_outlives_the_wait_still_holds_its_lock() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let pane = agent(&server, "nightly", 9999);
    let process = KillOnDrop::of(pane.pid);
    server.set(&pane, "@orion_state", &format!("idle {}", now()));
    server.settle(&[]);
    run(&mut precheck(&server, &["--reap", "--settle", "1s"])).expect(75).says("nightly is held");
    assert!(!process.ended());
}

#[test]
fn a_busy_run_is_kept_and_counts_where_asked() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let busy = server.pane("cat");
    server.tag(&busy, "nightly");
    server.set(&busy, "@orion_state", &format!("busy {} by=hook busy=1", now()));
    let other = server.pane("cat");
    server.tag(&other, "nightly-2");
    server.set(&other, "@orion_state", &format!("busy {} by=hook busy=1", now()));
    run(&mut precheck(&server, &["--reap"])).expect(0);
    let done = run(&mut precheck(&server, &["--reap", "--busy-is-held"])).expect(75);
    done.says("a run is at work").says(&busy.id);
    run(&mut precheck(&server, &["--reap", "--busy-is-held", "--observe"])).expect(0).says("would skip");
    for doubt in ["idle", "busy", "question"] {
        // Not said by a hook, or not work: no proof.
        server.set(&busy, "@orion_state", &format!("{doubt} {}", now()));
        run(&mut precheck(&server, &["--reap", "--busy-is-held"])).expect(0);
    }
    server.set(&busy, "@orion_state", &format!("working {} by=hook tasks=1", now()));
    run(&mut precheck(&server, &["--reap", "--busy-is-held"])).expect(75);
    server.set(&busy, "@orion_run", "nightly %0 1 1");
    server.set(&busy, "@orion_state", "busy 1");
    run(&mut precheck(&server, &["--reap", "--busy-is-held"])).expect(0);
}

#[test]
fn a_reaper_that_cannot_work_never_stops_the_check() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let holder = server.tool.hold("nightly");
    let mut command = precheck(&server, &["--reap"]);
    run(command.env("PATH", "/nonexistent")).expect(75).says("tmux was not found");
    drop(holder);
    let mut command = precheck(&server, &["--reap"]);
    run(command.env("PATH", "/nonexistent")).expect(0).says("tmux was not found");
    let args = ["--reap", "--runner", "tmux", "--automation", "nightly", "--idle", "5s", "nightly"];
    run(&mut server.tool.tool("orion-precheck", &args)).expect(0).says("not guarding").says("--force");

    // A runner that hangs may cost the deadline, and then the check is made all the same.
    let path = server.in_path("tmux", "#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 1; done\n");
    let holder = server.tool.hold("nightly");
    let begin = Instant::now();
    let mut command = precheck(&server, &["--reap", "--deadline", "3s"]);
    run(command.env("PATH", &path)).expect(75);
    assert!(begin.elapsed() < Duration::from_secs(6), "{:?}", begin.elapsed());
    drop(holder);
}

fn script(name: &str) -> String {
    format!("{}/scripts/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// PATH with our binaries and scripts first.
fn path() -> String {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    format!("{}:{}:{}", bin_dir().display(), scripts.display(), std::env::var("PATH").unwrap())
}

#[test]
fn marks_name_their_bearer_and_hooks_never_fail() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    // Outside of tmux and against a server that is not there: silent, and 0.
    let mut command = server.tool.command(bin("orion-mark"));
    run(command.arg("idle").env_remove("TMUX")).expect(0).silent();
    for args in [&["idle", "x"][..], &["claim"], &["claim", ""], &["claim", "a\nb"], &["done"], &[]] {
        let mut command = server.tool.command(bin("orion-mark"));
        run(command.args(args)).expect(0);
        let mut command = server.tool.command(bin("orion-mark"));
        run(command.arg("--strict").args(args)).expect(64);
    }
    let done = server.tool.path("done");
    let pane = server.pane(&format!(
        "{0} --strict claim 'my nightly run' && {0} --strict idle; echo $? >{1}.part; mv {1}.part {1}; exec cat",
        bin("orion-mark").display(),
        done.display()
    ));
    eventually("the marks", || done.exists());
    assert_eq!(std::fs::read_to_string(&done).unwrap(), "0\n");
    let shown = server.tmux(&["display-message", "-p", "-t", &pane.id, "#{@orion_run}|#{@orion_state}"]);
    let (tag, state) = shown.trim_end().split_once('|').unwrap();
    assert_eq!(
        tag,
        format!("my nightly run {} {} {}", pane.id, pane.pid, reap_support::start_ticks(pane.pid))
    );
    let epoch: u64 = state.strip_prefix("idle ").unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(now() - epoch < 60);
    let global = server.tmux(&["show-options", "-g", "-q", "@orion_run"]);
    assert_eq!(global, "", "only the pane itself is marked");
    server.settle(&[]);
    let args = ["--automation", "my nightly run", "--json"];
    let outcome = reap_support::Outcome::of(&run(&mut server.reaper(&args)).expect(0));
    assert_eq!(outcome.fate(&pane.id), "closed", "{}", outcome.0);
}

fn fire(server: &Server, args: &[&str]) -> Command {
    let mut command = server.tool.command(script("orion-fire"));
    command.env("PATH", path()).env_remove("TMUX").env_remove("TMUX_PANE");
    command.arg("--tmux-socket").arg(&server.socket).args(args);
    command
}

#[test]
fn one_command_reaps_checks_and_starts_an_agent() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let log = server.tool.path("a log.txt");
    let agent = "echo \"I am $1 and own $ORION_OWNER_PID\"; orion-mark idle; exec cat";
    let args = ["--automation", "nightly", "--log", log.to_str().unwrap(), "--"];
    let mut command = fire(&server, &args);
    run(command.args(["bash", "-c", agent, "x", "an agent;"])).expect(0).silent();
    let record = server.tool.record("nightly");
    let pid = record["owners"][0]["pid"].as_u64().or(record["owner"]["pid"].as_u64()).unwrap();
    eventually("its words in the log", || {
        std::fs::read_to_string(&log).unwrap().contains(&format!("I am an agent; and own {pid}"))
    });
    let list = server.tmux(&["list-panes", "-a", "-F", "#{pane_id} #{pane_pid} #{@orion_run}"]);
    let line = list.lines().find(|line| line.contains("nightly")).unwrap().to_owned();
    let id = line.split(' ').next().unwrap().to_owned();
    assert!(line.contains(&format!(" {pid} nightly {id} {pid} ")), "{line}");

    run(&mut fire(&server, &["--automation", "nightly", "--", "true"])).expect(75).says("nightly is held");
    // One that lost the race after its check is told by the lock.
    let path = format!("{}:{}", server.tool.path("bin").display(), path());
    server.in_path("orion-precheck", "#!/bin/sh\nexit 0\n");
    let mut command = fire(&server, &["--automation", "nightly", "--", "true"]);
    run(command.env("PATH", path)).expect(75).says("nightly is held");

    eventually("the mark", || {
        server.tmux(&["display-message", "-p", "-t", &id, "#{@orion_state}"]).starts_with("idle ")
    });
    // Who waits for it to be closed is told why it is not.
    let done = run(&mut fire(&server, &["--reap", "--automation", "nightly", "--", "true"])).expect(75);
    let said = format!("reaping: tmux {} {id} nightly", server.socket.display());
    let line = done.stderr.lines().find(|line| line.contains(&said)).unwrap_or_else(|| panic!("{done:?}"));
    assert!(line.contains("kept, young: began ") && line.ends_with("ago, and --idle is 10m"), "{line}");
    assert!(
        done.stderr.contains("nightly is held") && !done.stderr.contains("no-run"),
        "only of this automation: {}",
        done.stderr
    );
    let args = ["--reap", "--reap-arg", "-q", "--automation", "nightly", "--", "true"];
    run(&mut fire(&server, &args)).expect(75).silent();
    server.settle(&[]);
    let reap = ["--reap", "--reap-arg", "--idle", "--reap-arg", "2s", "--reap-arg", "--force"];
    let mut command = fire(&server, &reap);
    run(command.args(["--automation", "nightly", "--", "cat"])).expect(0).says("closed 1");
    assert!(!server.panes().contains(&id));
}

#[test]
fn a_launcher_says_what_did_not_start() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    run(&mut fire(&server, &["--automation", "other", "--", "/nonexistent/agent"]))
        .expect(127)
        .says("/nonexistent/agent");
    run(&mut fire(&server, &["--automation", "./no-lock", "--", "true"])).expect(64).says("not a lock name");
    run(&mut fire(&server, &["--automation", "./no-lock", "--lock", "other", "--", "true"])).expect(0);
    run(&mut fire(&server, &["--", "true"])).expect(64);
    run(&mut fire(&server, &["--automation", "other"])).expect(64);
    run(&mut fire(&server, &["--automation", "other", "--log", "/nonexistent/log", "--", "true"])).expect(73);
    let mut command = fire(&server, &["--automation", "other", "--", "true"]);
    run(command.env("PATH", "/usr/bin:/bin")).expect(127).says("orion-lock was not found");
    run(&mut fire(&server, &["--help"])).expect(0).prints("--reap-arg");
    eventually("only the first pane left", || server.panes() == ["%0"]);
}

#[test]
fn the_prompt_hook_blocks_where_another_run_holds_the_lock() {
    let tool = support::Tool::new();
    let hook = script("examples/orca-acquire-hook");
    // A stand-in for the agent: its name is what the hook looks for among its callers.
    let agent = tool.path("claude");
    std::fs::copy(reap_support::real("bash"), &agent).unwrap();
    let prompts = format!(
        "{hook} nightly; echo $?; sh -c '{hook} nightly; true' && {hook} nightly; echo $?; read -r end"
    );
    let mut command = tool.command(&agent);
    command.env("PATH", path()).args(["-c", &prompts]);
    let mut first = support::Running::start(&mut command);
    assert_eq!(first.line, "0");
    assert_eq!(first.next_line(), "0", "its own lock is not a reason to stop");
    let mut command = tool.command(&agent);
    run(command.env("PATH", path()).args(["-c", &format!("{hook} nightly; exit $?")]))
        .expect(2)
        .says("nightly is held");
    first.kill();
    let mut command = tool.command(&agent);
    run(command.env("PATH", "/usr/bin:/bin").args(["-c", &format!("{hook} nightly; exit $?")])).expect(2);
    let mut command = tool.command(&agent);
    run(command.env("PATH", path()).args(["-c", &format!("{hook} nightly; exit $?")])).expect(0);
}
