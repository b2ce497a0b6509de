//! Bad input for the reaper: odd names, odd servers, changes between the look and
//! the close. Nothing may be closed by mistake in any of them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod reap_support;
mod support;

use reap_support::{IDLE, Outcome, Server, alive, is_gone, now, path_with, real, start_ticks};
use rustix::process::Signal;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{KillOnDrop, Tool, eventually, needs, run};

#[test]
fn names_and_titles_of_any_kind_neither_break_nor_match_too_much() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let names = [
        "my nightly run",
        "$(touch x)",
        "#{pid}",
        "a,b}c#d",
        "tab\there",
        "new\nline",
        "rtl\u{202e} 100%Y",
        "é",
        "-rf",
    ];
    let panes: Vec<_> = names.iter().map(|name| server.finished(name, "cat")).collect();
    let broken = server.finished("x", "cat");
    let bytes = [b"bad\xff\xfe ".as_slice(), broken.id.as_bytes(), b" 1 2"].concat();
    let bytes = <std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(bytes);
    run(server.tmux_command().args(["set-option", "-p", "-t", &broken.id, "@orion_run"]).arg(bytes))
        .expect(0);
    for (pane, title) in
        panes.iter().zip(["a|b", "'\"\\", "$(id)", "\u{202e}rtl", "#{pid}", "##(touch y)", "x", "", "t"])
    {
        server.tmux(&["select-pane", "-t", &pane.id, "-T", title]);
    }
    server.settle(&[]);
    let mut command = server.reaper(&["--json"]);
    for name in names {
        command.arg(format!("--automation={name}"));
    }
    // As under cron: no locale, next to no environment.
    command.env_clear().env("PATH", std::env::var("PATH").unwrap());
    let outcome = Outcome::of(&run(&mut command).expect(0));
    for (pane, name) in panes.iter().zip(names) {
        assert_eq!(outcome.fate(&pane.id), "closed", "{name:?}: {}", outcome.0);
    }
    assert_eq!(outcome.fate(&broken.id), "tag-not-ours");
    let text = run(&mut server.reaper(&["--automation", "x"])).expect(0);
    assert!(!text.stdout.chars().any(|c| c == '\u{1b}' || c == '\u{202e}'), "{}", text.stdout);
}

#[test]
fn an_option_for_everybody_tags_nobody() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let pane = server.pane("cat");
    let tag = format!("nightly {} {} {}", pane.id, pane.pid, start_ticks(pane.pid));
    server.tmux(&["set-option", "-g", "@orion_run", &tag]);
    server.tmux(&["set-option", "-g", "@orion_state", &format!("idle {}", now())]);
    server.settle(&[]);
    let outcome = server.reap::<&str>(&[]);
    // The tag names its bearer, so it holds there and nowhere else; the mark is not its own.
    assert_eq!(outcome.fate(&pane.id), "not-idle", "{}", outcome.0);
    assert_eq!(outcome.summary("closed"), 0);
    assert_eq!(outcome.fate("%0"), "tag-not-ours");
}

#[test]
fn nothing_is_closed_for_nobody() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let pane = server.finished("nightly", "cat");
    server.settle(&[]);
    run(&mut server.reaper::<&str>(&[])).expect(0).prints("without --automation nothing is closed");
    run(&mut server.reaper(&["--automation", ""])).expect(0).says("not reaping").one_line();
    run(&mut server.reaper(&["--automation", "night"])).expect(0).prints("closed 0");
    assert!(server.panes().contains(&pane.id));
}

#[test]
fn a_pane_linked_into_two_sessions_is_one_pane() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    server.tmux(&["new-session", "-d", "-s", "other", "sleep 100000"]);
    let pane = server.finished("nightly", "cat");
    server.tmux(&["link-window", "-d", "-s", &pane.id, "-t", "=other:"]);
    server.settle(&[]);
    let outcome = server.reap::<&str>(&[]);
    assert_eq!(outcome.fate(&pane.id), "closed", "{}", outcome.0);
    assert_eq!(outcome.summary("seen"), 3);
    assert!(!server.panes().contains(&pane.id) && is_gone(pane.pid));
}

#[test]
fn the_shown_windows_go_last_and_all_in_one_pass() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let shown = server.finished("nightly", "cat");
    let next = server.finished("nightly", "cat");
    let keeper = server.pane("sleep 100000");
    server.tmux(&["select-window", "-t", &shown.id]);
    server.settle(&[]);
    // Closing the shown one makes tmux show another, which counts as activity there.
    let outcome = server.reap::<&str>(&[]);
    assert_eq!(
        (outcome.fate(&shown.id), outcome.fate(&next.id)),
        ("closed".into(), "closed".into()),
        "{}",
        outcome.0
    );
    drop(alive(keeper.pid));
}

#[test]
fn the_last_pane_of_a_server_takes_it_along() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let pane = server.finished("nightly", "cat");
    server.settle(&[]);
    server.tmux(&["kill-pane", "-t", "%0"]);
    eventually("silence after the other one went", || {
        let at = server.tmux(&["list-panes", "-a", "-F", "#{window_activity}"]);
        at.trim().parse::<u64>().unwrap() + IDLE + 1 < now()
    });
    let outcome = server.reap::<&str>(&[]);
    assert_eq!(outcome.fate(&pane.id), "closed", "{}", outcome.0);
    assert_eq!(outcome.warnings(), "[]");
}

/// Between the list and the close something happens to the pane: a stand-in tmux does it just before the kill.
fn changed_before_the_kill(change: &str) {
    let server = Server::new();
    let pane = server.finished("nightly", "read a; echo awake; exec cat");
    server.settle(&[]);
    let tmux = format!("{} -u -S {}", real("tmux"), server.socket.display());
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *' if-shell '*) PANE={}; T='{tmux}'; {change} ;; esac\nexec {} \"$@\"\n",
        pane.id,
        real("tmux")
    );
    let path = server.in_path("tmux", &script);
    let mut command = server.reaper(&["--json", "--automation", "nightly"]);
    let outcome = Outcome::of(&run(command.env("PATH", path)).expect(0));
    assert_eq!(outcome.fate(&pane.id), "changed", "{change}: {}", outcome.0);
    assert!(server.panes().contains(&pane.id), "{change}");
}

#[test]
fn a_change_just_before_the_kill_keeps_the_pane() {
    if !needs("tmux") {
        return;
    }
    changed_before_the_kill("$T set-option -p -t $PANE @orion_state 'busy 1'");
    changed_before_the_kill("$T set-option -p -t $PANE @orion_run other");
    changed_before_the_kill("$T respawn-pane -k -t $PANE cat");
    changed_before_the_kill(
        "$T send-keys -t $PANE Enter; until $T capture-pane -p -t $PANE | grep -q awake; do :; done",
    );
}

#[test]
fn a_pane_that_went_or_a_server_that_was_replaced_is_no_mistake() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let pane = server.finished("nightly", "cat");
    server.settle(&[]);
    // Just before the kill the server dies, and another one gives the same ids to other panes.
    let (asks, answer) = (server.tool.path("asks"), server.tool.path("answer"));
    run(Command::new("mkfifo").args([&asks, &answer])).expect(0);
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *' if-shell '*) echo now >{}; read -r go <{} ;; esac\nexec {} \"$@\"\n",
        asks.display(),
        answer.display(),
        real("tmux")
    );
    let path = server.in_path("tmux", &script);
    let mut command = server.reaper(&["--json", "--automation", "nightly"]);
    let child = command.env("PATH", path).stdout(Stdio::piped()).spawn().unwrap();
    assert_eq!(std::fs::read_to_string(&asks).unwrap(), "now\n");
    let old = KillOnDrop::of(server.tmux(&["display-message", "-p", "#{pid}"]).trim().parse().unwrap());
    run(server.tmux_command().arg("kill-server"));
    eventually("the end of the old server", || old.ended());
    server.tmux(&["new-session", "-d", "-s", "main", "sleep 100000"]);
    server.tmux(&["new-window", "-d", "cat"]);
    server.tmux(&["new-window", "-d", "cat"]);
    std::fs::write(&answer, "go\n").unwrap();
    let out = child.wait_with_output().unwrap();
    let outcome = Outcome(serde_json::from_slice(&out.stdout).unwrap());
    assert_eq!(outcome.fate(&pane.id), "changed", "{}", outcome.0);
    assert_eq!(server.panes(), ["%0", "%1", "%2"], "the new server's panes are untouched");

    // And a tag of the old server on a pane with the same id there.
    let stale = format!("nightly {} {} {}", pane.id, pane.pid, 12345);
    server.tmux(&["set-option", "-p", "-t", "%1", "@orion_run", &stale]);
    server.tmux(&["set-option", "-p", "-t", "%1", "@orion_state", &format!("idle {}", now())]);
    server.settle(&[]);
    assert_eq!(server.reap::<&str>(&[]).fate("%1"), "tag-not-ours");
}

#[test]
fn hooks_that_print_and_recreate_change_nothing() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let pane = server.finished("nightly", "cat");
    let kept = server.finished("other", "cat");
    let forged = format!("display-message -p 'orion2|{}|1|1|1|0|0|1||/dev/pts/0|$0||0|0:|0:|0:|x'", kept.id);
    server.settle(&[]);
    for hook in ["after-list-panes", "after-display-message", "after-show-options"] {
        server.tmux(&["set-hook", "-g", hook, &forged]);
    }
    server.tmux(&["set-hook", "-g", "after-kill-pane", "new-window -d cat"]);
    let outcome = server.reap::<&str>(&[]);
    assert_eq!(outcome.fate(&kept.id), "other-automation", "{}", outcome.0);
    assert_eq!(outcome.fate(&pane.id), "closed", "{}", outcome.0);
    assert!(server.panes().contains(&kept.id) && !server.panes().contains(&pane.id) && is_gone(pane.pid));
    assert!(server.panes().len() > 2, "the hook has made another pane");
}

#[test]
fn no_server_another_version_and_a_wrong_socket_are_warnings() {
    if !needs("tmux") {
        return;
    }
    let tool = Tool::new();
    let socket = tool.path("nothing");
    let args = ["--runner", "tmux", "--automation", "nightly", "--tmux-socket"];
    let mut command = tool.tool("orion-reap", &args);
    let done = run(command.arg(&socket)).expect(0);
    done.prints("closed 0").prints("warning:");
    let mut command = tool.tool("orion-reap", &args);
    run(command.arg(&socket).arg("--strict")).expect(69);

    let path = path_with(&tool, "tmux", "#!/bin/sh\necho 'server exited unexpectedly' >&2\nexit 1\n");
    let mut command = tool.tool("orion-reap", &args);
    run(command.arg(&socket).env("PATH", path)).expect(0).prints("server exited unexpectedly");
    let mut command = tool.tool("orion-reap", &args);
    run(command.arg(&socket).env("PATH", "/nonexistent")).expect(0).prints("tmux was not found");
}

#[test]
fn a_stopped_server_costs_the_deadline_and_no_more() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let pane = server.finished("nightly", "cat");
    server.settle(&[]);
    let pid: u32 = server.tmux(&["display-message", "-p", "#{pid}"]).trim().parse().unwrap();
    let stopped = KillOnDrop::of(pid);
    stopped.signal(Signal::STOP);
    let begin = Instant::now();
    let done = run(&mut server.reaper(&["--automation", "nightly", "--deadline", "2s"]));
    let took = begin.elapsed();
    stopped.signal(Signal::CONT);
    done.expect(0).prints("deadline");
    // The promise is one second; a loaded machine gets another two.
    assert!(took < Duration::from_secs(5), "deadline 2s, took {took:?}");
    assert!(server.panes().contains(&pane.id));
}

#[test]
fn survivors_are_reported_and_left_alone() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let stays = server.finished("nightly", "sh -c 'trap \"\" HUP TERM; exec sleep 9999'");
    let goes = server.finished("nightly", "cat");
    server.settle(&[]);
    let process = KillOnDrop::of(stays.pid);
    let outcome = server.reap(&["--settle", "1s"]);
    assert_eq!(outcome.fate(&stays.id), "closed", "{}", outcome.0);
    assert_eq!(outcome.fate(&goes.id), "closed");
    assert_eq!((outcome.summary("processes_before"), outcome.summary("processes_after")), (2, 1));
    let terminals = outcome.0["terminals"].as_array().unwrap();
    let one = terminals.iter().find(|one| one["id"] == stays.id.as_str()).unwrap();
    assert_eq!(one["survivors"][0]["pid"], stays.pid);
    assert_eq!(one["survivors"][0]["comm"], "sleep");
    assert!(!process.ended(), "a survivor is not signalled");
}

#[test]
fn what_lives_after_a_close_that_failed_is_counted_and_named_and_never_signalled() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    // A terminal that is not closed whatever is said to its runner.
    let pane = server.pane("exec cat");
    let row = format!(
        "{{\"id\":\"7\",\"automation\":\"nightly\",\"pid\":{},\"last_output\":{},\"started\":{}}}",
        pane.pid,
        now() - 1000,
        now() - 5000
    );
    let program = server.tool.path("prog");
    let says = |close: &str| {
        let list = format!("{{\"terminals\":[{row}]}}");
        let text = format!(
            "#!/bin/sh\ncase $1 in list) echo '{list}';; idle) echo '{{\"idle\":true}}';; close) {close};; esac\n"
        );
        reap_support::write_program(&program, &text);
    };
    let runner = format!("command:{}", program.display());
    let reap = |args: &[&str]| {
        let mut command = server.tool.tool("orion-reap", &["--runner", &runner, "--automation", "nightly"]);
        run(command.args(args)).expect(0)
    };
    for close in ["echo yes", "echo '{\"closed\":false}'", "exit 1", "echo '{\"closed\":true}'"] {
        says(close);
        let outcome = Outcome::of(&reap(&["--json", "--settle", "300ms"]));
        assert_eq!(outcome.fate("7"), "close-failed", "{close}: {}", outcome.0);
        let counts = (outcome.summary("processes_before"), outcome.summary("processes_after"));
        assert_eq!(counts, (1, 1), "{close}: {}", outcome.0);
        assert!(outcome.summary("memory_after_bytes") > 0, "{close}: {}", outcome.0);
        let row = &outcome.0["terminals"][0];
        assert_eq!(
            (&row["survivors"][0]["pid"], &row["end_with"][0]),
            (&pane.pid.into(), &serde_json::Value::Null)
        );
    }
    says("echo yes");
    let text = reap(&["--end-survivors=300ms"]).prints("still runs: pid").stdout;
    assert!(text.contains("1 before, 1 after") && !text.contains("survived"), "{text}");
    let living = alive(pane.pid);

    // Where no close was begun nothing is counted.
    says("echo yes");
    let changes = std::fs::read_to_string(&program).unwrap().replace("list)", "list) date >>n;");
    let changes = changes.replace(
        "\"automation\":\"nightly\"",
        "\"automation\":\"nightly\",\"reused_next\":'$([ $(wc -l <n) -gt 1 ] && echo true || echo false)'",
    );
    reap_support::write_program(
        &program,
        &changes.replace("#!/bin/sh\n", &format!("#!/bin/sh\ncd {}\n", server.tool.path("").display())),
    );
    let outcome = Outcome::of(&reap(&["--json"]));
    assert_eq!(outcome.fate("7"), "changed", "{}", outcome.0);
    assert_eq!((outcome.summary("processes_before"), outcome.summary("processes_after")), (0, 0));
    assert!(!living.ended());
}

#[test]
fn what_stood_in_a_pane_is_kept_for_its_owner_only() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let pane = server.finished("nightly", "echo the result is 42; exec cat");
    eventually("its words", || server.tmux(&["capture-pane", "-p", "-t", &pane.id]).contains("42"));
    server.settle(&[]);
    let dir = server.tool.path("kept");
    let outcome = server.reap(&["--keep-output", dir.to_str().unwrap()]);
    assert_eq!(outcome.fate(&pane.id), "closed", "{}", outcome.0);
    let files: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1);
    assert!(std::fs::read_to_string(&files[0]).unwrap().contains("the result is 42"));
    assert_eq!(std::fs::metadata(&files[0]).unwrap().permissions().mode() & 0o777, 0o600);

    let pane = server.finished("nightly", "cat");
    let args = ["--automation", "nightly", "--keep-output", "/proc/nothing", "--strict"];
    let refused = run(&mut server.reaper(&args));
    assert!(matches!(refused.code, 73 | 74), "{refused:?}");
    assert!(server.panes().contains(&pane.id));
}
