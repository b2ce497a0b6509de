//! The three conditions and every veto with a real tmux: one alone missing keeps
//! the pane, all of them close it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod reap_support;
mod support;

use reap_support::{Outcome, Pane, Server, alive, is_gone, now, start_ticks};
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
    let mut expected: Vec<(&str, &str, Pane)> = Vec::new();
    let mark = |pane: &Pane, text: &str| server.set(pane, "@orion_state", text);
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

/// Marks a pane as one whose first turn began long before its processes, and has ended.
fn told(server: &Server, pane: &Pane) {
    server.tag(pane, "nightly");
    server.set(pane, "@orion_state", &format!("idle {} by=hook busy=1 idle=1 first=1", now()));
}

/// A program in a file; gives the command line that runs it.
fn python(server: &Server, name: &str, text: &str) -> String {
    let path = server.tool.path(name);
    std::fs::write(&path, text).unwrap();
    format!("exec python3 {}", path.display())
}

#[test]
fn r1_r4_wake_ups_of_an_event_loop_and_wrappers_are_no_work() {
    if !needs("tmux") || !needs("python3") {
        return;
    }
    let server = Server::new();
    let wakes = "import os, time\nfd = os.eventfd(0)\n\
        while True:\n    os.eventfd_write(fd, 1)\n    os.eventfd_read(fd)\n    time.sleep(0.1)\n";
    let idle = server.pane(&python(&server, "wakes.py", wakes));
    told(&server, &idle);
    // As npm does it: a shell, a program that runs another one, and that one reads the terminal.
    let runs = "import subprocess\nsubprocess.run(['cat'])\n";
    let wrapped =
        server.pane(&format!("sh -c '{}; :'", python(&server, "runs.py", runs).replace("exec ", "")));
    told(&server, &wrapped);
    let job = server.pane(&python(
        &server,
        "pipe.py",
        "import subprocess\n\
        p = subprocess.Popen(['cat'], stdin=subprocess.PIPE)\np.wait()\n",
    ));
    told(&server, &job);
    server.settle(&[]);
    let outcome = server.reap::<&str>(&[]);
    assert_eq!(outcome.fate(&idle.id), "closed", "{}", outcome.evidence(&idle.id));
    assert_eq!(outcome.fate(&wrapped.id), "closed", "{}", outcome.evidence(&wrapped.id));
    assert_eq!(outcome.fate(&job.id), "job", "a child that does not read the terminal");
}

/// A pane that holds the lock `nightly` and runs this script under it.
fn under_the_lock(server: &Server, script: &str) -> Pane {
    let file = server.tool.path("agent.sh");
    std::fs::write(&file, script).unwrap();
    let pane = server.pane(&format!(
        "ORION_DIR={} exec {} run nightly sh {}",
        server.tool.dir().display(),
        support::bin("orion-lock").display(),
        file.display()
    ));
    eventually("the agent", || server.tool.path("pid").exists());
    told(server, &pane);
    pane
}

fn pid_in(server: &Server) -> KillOnDrop {
    let text = std::fs::read_to_string(server.tool.path("pid")).unwrap();
    KillOnDrop::of(text.trim().parse().unwrap())
}

#[test]
fn r9_what_carries_the_pulse_of_the_run_belongs_to_it() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let pid = server.tool.path("pid");
    // A daemon: another session, another parent, no terminal. Only the pulse tells whose it is.
    let script = format!(
        "(setsid sh -c 'echo $$ >{0}.part; mv {0}.part {0}; exec sleep 9999' </dev/null >/dev/null 2>&1 &)\nexec cat\n",
        pid.display()
    );
    let pane = under_the_lock(&server, &script);
    let job = pid_in(&server);
    server.settle(&[]);
    let outcome = server.reap::<&str>(&[]);
    assert_eq!(outcome.fate(&pane.id), "job", "{}", outcome.0);
    assert!(outcome.evidence(&pane.id).contains("(sleep)"), "{}", outcome.0);
    job.kill();
    eventually("its end", || job.ended());
    let outcome = server.reap::<&str>(&[]);
    assert_eq!(outcome.fate(&pane.id), "closed", "{}", outcome.0);
}

#[test]
fn r9_what_has_only_the_environment_of_the_run_keeps_and_is_named_and_never_signalled() {
    if !needs("tmux") || !needs("python3") {
        return;
    }
    let server = Server::new();
    let pid = server.tool.path("pid");
    // As Claude Code and Codex start their tools: all descriptors closed, here in a session of its own too.
    let leave = format!(
        "import os, subprocess\n\
         at = os.open('/dev/null', os.O_RDWR)\n\
         job = subprocess.Popen(['sleep', '9999'], stdin=at, stdout=at, stderr=at, start_new_session=True)\n\
         open('{0}.part', 'w').write(str(job.pid))\n\
         os.rename('{0}.part', '{0}')\n",
        pid.display()
    );
    let leave = python(&server, "leave.py", &leave).replace("exec ", "");
    let pane = under_the_lock(&server, &format!("{leave}\nexec cat\n"));
    let job = pid_in(&server);
    // Somebody's own terminal whose environment was copied is not the run's.
    let held = std::fs::read(format!("/proc/{}/environ", pane.pid)).unwrap();
    let locks = held.split(|byte| *byte == 0).find(|word| word.starts_with(b"ORION_LOCKS=")).unwrap();
    let copied = server.pane(&format!("{} exec cat", String::from_utf8_lossy(locks)));
    server.settle(&[]);
    let outcome = server.reap::<&str>(&[]);
    assert_eq!(outcome.fate(&pane.id), "job", "{}", outcome.0);
    assert!(outcome.evidence(&pane.id).contains(&format!("pid {} (sleep)", job.pid())), "{}", outcome.0);

    // The agent itself says that no work is left.
    server.set(&pane, "@orion_state", &format!("idle {} by=hook busy=1 idle=1 none=1", now()));
    let outcome = server.reap(&["--settle", "300ms", "--end-survivors=300ms"]);
    assert_eq!(outcome.fate(&pane.id), "closed", "{}", outcome.0);
    let terminals = outcome.0["terminals"].as_array().unwrap();
    let row = terminals.iter().find(|one| one["id"] == pane.id.as_str()).unwrap();
    let named: Vec<_> = row["survivors"].as_array().unwrap().iter().map(|one| one["pid"].clone()).collect();
    assert_eq!(named, [job.pid()], "{}", outcome.0);
    assert_eq!(row["end_with"][0], format!("kill {}", job.pid()));
    assert_eq!(outcome.summary("processes_after"), 1, "{}", outcome.0);
    assert!(!job.ended(), "an environment can be copied: no signal");
    drop(alive(copied.pid));
    server.tool.lock(&["status", "-q", "nightly"]).expect(0);
}

#[test]
fn r11_what_survives_its_close_is_named_with_the_line_that_ends_it() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let pid = server.tool.path("pid");
    let script = format!("trap '' HUP\necho $$ >{0}.part; mv {0}.part {0}\nexec sleep 9999\n", pid.display());
    let pane = under_the_lock(&server, &script);
    let token = server.tool.record("nightly")["token"].as_u64().unwrap();
    let agent = pid_in(&server);
    server.settle(&[]);
    let outcome = server.reap(&["--settle", "500ms"]);
    assert_eq!(outcome.fate(&pane.id), "closed", "{}", outcome.0);
    assert_eq!(outcome.summary("processes_after"), 1, "{}", outcome.0);
    let terminals = outcome.0["terminals"].as_array().unwrap();
    let row = terminals.iter().find(|one| one["id"] == pane.id.as_str()).unwrap();
    assert_eq!(row["end_with"][0], format!("orion-lock stop --token {token} nightly"));
    assert!(!agent.ended(), "no signal without --end-survivors");
    // The line does what it says.
    server.tool.lock(&["stop", "--token", &token.to_string(), "nightly"]).expect(0);
    assert!(agent.ended());
}

#[test]
fn r11_survivors_are_ended_where_that_was_asked_for() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let stays = |traps: &str| server.finished("nightly", &format!("trap '' {traps}; exec sleep 9999"));
    let (hup, both) = (stays("HUP"), stays("HUP TERM"));
    let (hup, both) = ((KillOnDrop::of(hup.pid), hup), (KillOnDrop::of(both.pid), both));
    server.settle(&[]);
    let outcome = server.reap(&["--settle", "300ms", "--end-survivors"]);
    assert_eq!((outcome.fate(&hup.1.id), outcome.fate(&both.1.id)), ("closed".into(), "closed".into()));
    assert!(hup.0.ended() && !both.0.ended(), "TERM only: {}", outcome.0);
    assert_eq!(outcome.summary("processes_after"), 1);
    let terminals = outcome.0["terminals"].as_array().unwrap();
    let row = terminals.iter().find(|one| one["id"] == hup.1.id.as_str()).unwrap();
    assert_eq!(row["ended"][0], hup.1.pid);

    let killed = stays("HUP TERM");
    let process = KillOnDrop::of(killed.pid);
    server.settle(&[]);
    let outcome = server.reap(&["--settle", "300ms", "--end-survivors=300ms"]);
    assert_eq!(outcome.fate(&killed.id), "closed", "{}", outcome.0);
    assert!(process.ended());
    assert_eq!(outcome.summary("processes_after"), 0);
}

#[test]
fn r12_a_session_of_a_run_is_closed_as_a_whole_or_not_at_all() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    server.tmux(&["new-session", "-d", "-s", "orion-nightly-77", "cat"]);
    server.tmux(&["split-window", "-d", "-t", "=orion-nightly-77:", "cat"]);
    let list =
        server.tmux(&["list-panes", "-t", "=orion-nightly-77:", "-F", "#{pane_id} #{pane_pid} #{pane_tty}"]);
    let panes: Vec<Pane> = list
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            Pane { id: words[0].into(), pid: words[1].parse().unwrap(), tty: words[2].into() }
        })
        .collect();
    let (leader, member) = (&panes[0], &panes[1]);
    server.tag(leader, "nightly");
    server.set(leader, "@orion_state", &format!("idle {} by=hook busy=1 idle=1", now()));
    let said = |word: &str| server.set(member, "@orion_state", &format!("{word} {} by=hook busy=1", now()));
    server.settle(&[]);
    said("busy");
    let outcome = server.reap::<&str>(&[]);
    assert_eq!((outcome.fate(&leader.id), outcome.fate(&member.id)), ("session".into(), "busy".into()));
    assert!(outcome.evidence(&leader.id).contains(&member.id), "{}", outcome.0);
    said("idle");
    let outcome = server.reap::<&str>(&[]);
    assert_eq!((outcome.fate(&leader.id), outcome.fate(&member.id)), ("closed".into(), "closed".into()));
    assert!(is_gone(leader.pid) && is_gone(member.pid));
}

#[test]
fn r13_nothing_is_closed_under_somebodys_hands() {
    if !needs("tmux") {
        return;
    }
    let (server, person) = (Server::new(), Server::new());
    let pane = server.finished("nightly", "cat");
    server.settle(&[]);
    let attach = format!("env -u TMUX TERM=screen tmux -u -S {} attach -t =main", server.socket.display());
    let desk = person.pane(&format!("exec {attach}"));
    eventually("an attached client", || server.tmux(&["list-clients"]).lines().count() == 1);
    let outcome = server.reap(&["--idle", "1m"]);
    assert_eq!(outcome.fate(&pane.id), "watched", "{}", outcome.0);
    // He scrolls, and thinks longer about each line than --idle is.
    server.tmux(&["copy-mode", "-t", &pane.id]);
    server.settle(&[]);
    eventually("his silence", || {
        let active = server.tmux(&["list-clients", "-F", "#{client_activity}"]);
        active.trim().parse::<u64>().unwrap() + reap_support::IDLE + 1 < now()
    });
    let outcome = server.reap::<&str>(&[]);
    assert_eq!(outcome.fate(&pane.id), "watched", "{}", outcome.0);
    assert!(outcome.evidence(&pane.id).contains("scrolls"), "{}", outcome.0);
    // Attached, and gone home: that alone keeps nothing.
    server.tmux(&["send-keys", "-t", &pane.id, "-X", "cancel"]);
    server.settle(&[]);
    let outcome = server.reap::<&str>(&[]);
    assert_eq!(outcome.fate(&pane.id), "closed", "{}", outcome.0);
    drop(desk);
}

#[test]
fn a_job_that_does_nothing_for_long_stops_keeping_its_terminal() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let pane = server.pane("sh -c 'sleep 9999 & exec cat'");
    told(&server, &pane);
    server.settle(&[]);
    let pass = |more: &str| {
        let args = ["--job-quiet", "2s", more];
        server.reap(if more.is_empty() { &args[..2] } else { &args[..] })
    };
    // A dry run remembers nothing, so the first real pass sees the job for the first time.
    assert_eq!(pass("--dry-run").fate(&pane.id), "job");
    let dry = now();
    eventually("some time", || now() > dry + 3);
    assert_eq!(pass("").fate(&pane.id), "job");
    let first = now();
    eventually("more than --job-quiet", || now() > first + 3);
    let outcome = pass("");
    assert_eq!(outcome.fate(&pane.id), "closed", "{}", outcome.0);
    assert!(outcome.0["terminals"].to_string().contains("did nothing for"), "it is said: {}", outcome.0);
    let mut log = server.tool.tool("orion-reap", &["--log"]);
    let shown = run(&mut log).expect(0).prints("closed").prints("did nothing for").prints("kept, job");
    assert!(shown.stdout.contains(&pane.id), "{}", shown.stdout);
}

#[test]
fn r15_an_answer_that_is_no_list_is_no_answer() {
    let tool = support::Tool::new();
    for words in ["access not allowed", "", "%1 812 nonsense"] {
        let path = reap_support::path_with(&tool, "tmux", &format!("#!/bin/sh\necho '{words}'\n"));
        let reap = |more: &[&str]| {
            let mut command = tool.tool("orion-reap", &["--runner", "tmux", "--automation", "nightly"]);
            command.args(more).env("PATH", &path);
            run(&mut command)
        };
        reap(&[]).expect(0).prints("warning: tmux: tmux did not answer with a list of panes").prints(words);
        reap(&["--strict"]).expect(69);
    }
}
