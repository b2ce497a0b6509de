//! The three conditions and every veto with a real tmux: one alone missing keeps
//! the pane, all of them close it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod reap_support;
mod support;

use reap_support::{Outcome, Server, is_gone, now, start_ticks};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{KillOnDrop, eventually, needs, run};

#[test]
fn a_finished_run_is_closed_and_its_processes_are_gone() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let pane = server.finished("nightly", "cat");
    let child = server.finished("nightly", "sh -c 'sleep 9999 & exec cat'");
    let nobody = server.pane("cat");
    server.settle(&[]);
    let outcome = server.reap(&["--dry-run", "--resident", "sleep"]);
    assert_eq!(outcome.fate(&pane.id), "would_close", "{}", outcome.0);
    assert_eq!(outcome.summary("would_close"), 2);
    assert!(server.panes().contains(&pane.id), "a dry run closes nothing");

    let process = KillOnDrop::of(pane.pid);
    let outcome = server.reap(&["--resident", "sleep"]);
    assert_eq!(outcome.fate(&pane.id), "closed", "{}", outcome.0);
    assert_eq!(outcome.fate(&child.id), "closed", "{}", outcome.0);
    assert_eq!(outcome.fate(&nobody.id), "no-run");
    assert!(process.ended(), "it was waited for");
    assert!(!server.panes().contains(&pane.id));
    assert!(server.panes().contains(&nobody.id) && !is_gone(nobody.pid));
    assert_eq!((outcome.summary("processes_before"), outcome.summary("processes_after")), (3, 0));
    assert!(outcome.summary("memory_before_bytes") > 0);
}

/// Everything that is known from the list and /proc, in one server and one pass.
#[test]
fn each_condition_and_each_veto_alone_keeps_a_pane() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let mut expected: Vec<(&str, &str, reap_support::Pane)> = Vec::new();
    let mark = |pane: &reap_support::Pane, text: &str| server.set(pane, "@orion_state", text);
    let tagged = |automation: &str| {
        let pane = server.pane("cat");
        server.tag(&pane, automation);
        pane
    };
    expected.push(("closed", "all hold", server.finished("nightly", "cat")));
    expected.push(("other-automation", "a longer name", server.finished("nightly-2", "cat")));
    expected.push(("other-automation", "a prefix", server.finished("night", "cat")));
    expected.push(("tag-not-ours", "no name", server.finished("", "cat")));
    expected.push(("no-run", "no tag", server.pane("cat")));

    let wrong = server.finished("nightly", "cat");
    server.set(&wrong, "@orion_run", &format!("nightly {} {} 1", wrong.id, wrong.pid));
    expected.push(("tag-not-ours", "another start", wrong));
    let wrong = server.finished("nightly", "cat");
    let of_other = format!("nightly {} {} {}", wrong.id, wrong.pid, start_ticks(wrong.pid));
    expected.push(("closed", "its tag is copied", wrong));
    let copied = server.pane("cat");
    server.set(&copied, "@orion_run", &of_other);
    mark(&copied, &format!("idle {}", now()));
    expected.push(("tag-not-ours", "a copied tag", copied));
    let inherits = server.pane("cat");
    server.tmux(&["set-option", "-w", "-t", &inherits.id, "@orion_run", &of_other]);
    server.tmux(&["set-option", "-w", "-t", &inherits.id, "@orion_state", &format!("idle {}", now())]);
    expected.push(("tag-not-ours", "an inherited tag", inherits));
    let garbage = server.finished("nightly", "cat");
    server.set(&garbage, "@orion_run", "nightly");
    expected.push(("tag-not-ours", "no tag of ours", garbage));
    let respawned = server.finished("nightly", "cat");
    server.tmux(&["respawn-pane", "-k", "-t", &respawned.id, "cat"]);
    expected.push(("tag-not-ours", "a tag that outlived a respawn", respawned));

    let busy = tagged("nightly");
    mark(&busy, &format!("busy {}", now()));
    expected.push(("busy", "marked busy", busy));
    let asks = tagged("nightly");
    mark(&asks, &format!("question {}", now()));
    expected.push(("question", "marked as asking", asks));
    expected.push(("no-hooks", "no mark", tagged("nightly")));
    let claimed = tagged("nightly");
    mark(&claimed, &format!("busy {} by=claim", now()));
    expected.push(("no-hooks", "only claimed", claimed));
    let works = tagged("nightly");
    mark(&works, &format!("working {} by=hook tasks=2 busy=1 idle=1", now()));
    expected.push(("working", "work in the background", works));
    for text in ["idle", "idle soon", "idle -1", "idle 5 6", "done 5", "IDLE 5", "idle 99999999999999999999"]
    {
        let pane = tagged("nightly");
        mark(&pane, text);
        expected.push(("not-idle", "a mark of no known form", pane));
    }
    let early = tagged("nightly");
    mark(&early, &format!("idle {}", now() - 100));
    expected.push(("mark-stale", "older than its process", early));
    let future = tagged("nightly");
    mark(&future, &format!("idle {}", now() + 1000));
    expected.push(("mark-stale", "in the future", future));
    let inherits = tagged("nightly");
    server.tmux(&["set-option", "-w", "-t", &inherits.id, "@orion_state", &format!("idle {}", now())]);
    expected.push(("not-idle", "an inherited mark", inherits));

    // tmux itself continues a first process that is stopped; its children it does not see.
    let stopped = server.finished("nightly", "sh -c 'sleep 9999 & exec cat'");
    let children = format!("/proc/{0}/task/{0}/children", stopped.pid);
    eventually("a child", || !std::fs::read_to_string(&children).unwrap().is_empty());
    let child: u32 = std::fs::read_to_string(&children).unwrap().trim().parse().unwrap();
    let child = KillOnDrop::of(child);
    child.signal(Signal::STOP);
    expected.push(("stopped", "stopped", stopped));
    // The first turn began long before these processes did.
    let told = |command: &str| {
        let pane = server.finished("nightly", command);
        mark(&pane, &format!("idle {} by=hook busy=1 idle=1 first=1", now()));
        pane
    };
    expected.push(("job", "a descendant of a turn", told("sh -c 'sleep 9999 & exec cat'")));
    expected.push(("job", "one in a session of its own", told("sh -c 'setsid sleep 9999 & exec cat'")));
    let with_it = server.finished("nightly", "sh -c 'cat; :'");
    expected.push(("closed", "a wrapper and the agent in it", with_it));
    expected.push(("busy", "uses the processor", server.finished("nightly", "sh -c 'while :; do :; done'")));
    let person = told("bash --norc --noprofile -i");
    server.tmux(&["send-keys", "-t", &person.id, "sleep 9999 & cat", "Enter"]);
    expected.push(("busy", "a person's program in its shell", person));

    server.tmux(&["set-option", "-g", "remain-on-exit", "on"]);
    let dead = server.pane("read line");
    server.tag(&dead, "nightly");
    mark(&dead, &format!("idle {}", now()));
    server.tmux(&["send-keys", "-t", &dead.id, "Enter"]);
    eventually("the end of a pane", || {
        server.tmux(&["display-message", "-p", "-t", &dead.id, "#{pane_dead}"]) == "1\n"
    });
    expected.push(("dead-pane", "its process ended", dead));

    let chatty = server.finished("nightly", "sh -c 'while :; do echo x; sleep 0.2; done'");
    let typed = server.finished("nightly", "sh -c 'stty -echo; exec cat >/dev/null'");
    server.settle(&[&chatty]);
    server.tmux(&["send-keys", "-t", &typed.id, "hello", "Enter"]);
    let read = || {
        std::fs::metadata(&typed.tty)
            .unwrap()
            .accessed()
            .unwrap()
            .elapsed()
            .is_ok_and(|age| age.as_secs() < 60)
    };
    eventually("the input to be read", read);
    let young = server.finished("nightly", "cat");

    let outcome = server.reap::<&str>(&[]);
    for (reason, what, pane) in &expected {
        assert_eq!(outcome.fate(&pane.id), *reason, "{what}: {}", outcome.evidence(&pane.id));
        assert_eq!(server.panes().contains(&pane.id), *reason != "closed", "{what}");
        assert!(
            *reason == "closed"
                || *reason == "dead-pane"
                || pane.pid != 0 && server.panes().contains(&pane.id)
        );
    }
    assert_eq!(outcome.fate(&chatty.id), "not-silent");
    assert_eq!(outcome.fate(&typed.id), "not-silent", "a person types into it");
    assert!(
        matches!(outcome.fate(&young.id).as_str(), "young" | "not-silent" | "no-clock"),
        "{}",
        outcome.fate(&young.id)
    );
    assert_eq!(outcome.summary("closed"), 3);
}

#[test]
fn a_run_younger_than_the_silence_is_kept() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let pane = server.finished("nightly", "cat");
    server.settle(&[]);
    let outcome = server.reap(&["--idle", "1h"]);
    assert_eq!(outcome.fate(&pane.id), "young");
}

/// A script that waits for a word, runs the reaper, and leaves its output in a file.
fn reaper_script(server: &Server) -> (PathBuf, PathBuf, PathBuf) {
    let (go, out, script) = (server.tool.path("go"), server.tool.path("out"), server.tool.path("inside.sh"));
    run(Command::new("mkfifo").arg(&go)).expect(0);
    let reaper = server.reaper(&["--json", "--automation", "nightly"]);
    let args: Vec<String> = reaper.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let text = format!(
        "read -r line <{}\n{} >{2}.part 2>&1\nmv {2}.part {2}\nexec cat\n",
        go.display(),
        format_args!("{} {}", reaper.get_program().display(), args.join(" ")),
        out.display(),
    );
    std::fs::write(&script, text).unwrap();
    (go, out, script)
}

fn outcome_in(out: &Path) -> Outcome {
    eventually("its output", || out.exists());
    Outcome(serde_json::from_str(&std::fs::read_to_string(out).unwrap()).unwrap())
}

#[test]
fn the_pane_it_runs_in_is_never_closed() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let (go, out, script) = reaper_script(&server);
    let pane = server.finished("nightly", &format!("sh {}", script.display()));
    let other = server.finished("nightly", "cat");
    server.settle(&[]);
    std::fs::write(&go, "go\n").unwrap();
    let outcome = outcome_in(&out);
    assert_eq!(outcome.fate(&pane.id), "own-terminal", "{}", outcome.0);
    assert_eq!(outcome.fate(&other.id), "closed", "{}", outcome.0);
    assert!(server.panes().contains(&pane.id));
}

#[test]
fn the_pane_that_shows_the_tmux_it_runs_in_is_never_closed() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let inner = Server::new();
    let (go, out, script) = reaper_script(&server);
    inner.tmux(&["new-session", "-d", "-s", "work", &format!("sh {}", script.display())]);
    let attach = format!("env -u TMUX TERM=screen tmux -u -S {} attach -t =work", inner.socket.display());
    let pane = server.finished("nightly", &format!("exec {attach}"));
    eventually("an attached client", || inner.tmux(&["list-clients"]).lines().count() == 1);
    server.settle(&[]);
    std::fs::write(&go, "go\n").unwrap();
    let outcome = outcome_in(&out);
    assert_eq!(outcome.fate(&pane.id), "own-terminal", "{}", outcome.0);
    assert!(server.panes().contains(&pane.id));
}

#[test]
fn a_screen_counts_only_where_it_is_trusted() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let prompt = server.pane("echo some work; echo 'ready> '; exec cat");
    let other = server.pane("echo 'ready> '; for i in $(seq 15); do echo work $i; done; exec cat");
    let busy = server.pane("echo 'ready> '; exec cat");
    for pane in [&prompt, &other, &busy] {
        server.tag(pane, "nightly");
        eventually("its words", || server.tmux(&["capture-pane", "-p", "-t", &pane.id]).contains("ready"));
    }
    server.set(&busy, "@orion_state", "busy 1");
    server.settle(&[]);
    let outcome = server.reap(&["--dry-run"]);
    assert_eq!(outcome.fate(&prompt.id), "no-hooks");
    assert!(outcome.evidence(&prompt.id).contains("orion-mark install claude"), "{}", outcome.0);
    server.set(&prompt, "@orion_state", &format!("busy {} by=claim", now()));
    let refused =
        run(server.reaper(&["--automation", "nightly", "--strict"]).args(["--idle-match", "ready>"]));
    refused.expect(64).says("--trust-screen");
    let outcome = server.reap(&["--idle-match", "^ready> *$", "--trust-screen"]);
    assert_eq!(outcome.fate(&prompt.id), "closed", "{}", outcome.0);
    assert_eq!(outcome.fate(&other.id), "not-idle", "only the last lines count");
    assert_eq!(outcome.fate(&busy.id), "busy", "a mark is more than a screen");
}
