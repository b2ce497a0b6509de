//! Marks that land on the right pane or nowhere.

use crate::path;
use crate::reap_support::{Pane, Server, write_program};
use crate::support::{Tool, eventually, needs, run};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A pane that runs a program, which says `done` by a file when it has got so far, and lives on.
fn play(server: &Server, name: &str, program: &str) -> Pane {
    let (file, done) = (server.tool.path(name), server.tool.path(&format!("{name}.done")));
    let program = program.replace("DONE", &done.display().to_string());
    write_program(&file, &program);
    let pane = server.pane(&format!(
        "PATH={} ORION_DIR={} exec {}",
        path(),
        server.tool.dir().display(),
        file.display()
    ));
    eventually(name, || done.exists());
    pane
}

fn state(server: &Server, pane: &Pane) -> String {
    let shown = server.tmux(&["show-options", "-p", "-q", "-v", "-t", &pane.id, "@orion_state"]);
    shown.trim_end().to_owned()
}

/// The value of `key=` in a mark.
fn key(mark: &str, key: &str) -> Option<String> {
    mark.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('=')).map(str::to_owned)
}

fn log(tool: &Tool) -> String {
    std::fs::read_to_string(tool.dir().join("log/_reap.jsonl")).unwrap_or_default()
}

/// TMUX as a process in the pane would have it.
fn tmux_variable(server: &Server) -> String {
    let pid = server.tmux(&["display-message", "-p", "#{pid}"]);
    format!("{},{},0", server.socket.display(), pid.trim_end())
}

#[test]
fn r3_a_mark_lands_where_its_process_descends_from_whatever_the_variables_say() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    server.tool.lock(&["run", "x", "true"]).expect(0);
    let other = server.pane("exec cat");
    let script = format!(
        "#!/bin/sh\nTMUX_PANE={} orion-mark --strict busy && env -u TMUX -u TMUX_PANE orion-mark --strict idle\n\
         echo $? >DONE\nexec cat\n",
        other.id
    );
    let pane = play(&server, "own", &script);
    let mark = state(&server, &pane);
    assert!(mark.starts_with("idle ") && key(&mark, "busy").as_deref() == Some("1"), "{mark}");
    assert_eq!(state(&server, &other), "", "the pane that the variable named");

    // Somebody who descends from no pane: a daemon of an agent that has ended, or a copied environment.
    let mut command = server.tool.tool("orion-mark", &["--strict", "idle"]);
    command.env("TMUX", tmux_variable(&server)).env("TMUX_PANE", &other.id);
    run(&mut command).expect(69).one_line().says("does not descend from any pane");
    run(&mut command).expect(69);
    assert_eq!(state(&server, &other), "");
    let log = log(&server.tool);
    assert_eq!(log.matches("\"mark-refused\"").count(), 1, "said once: {log}");
    assert!(log.contains(&format!("name {} of", other.id)), "{log}");
    let mut command = server.tool.tool("orion-mark", &["idle"]);
    command.env("TMUX", tmux_variable(&server)).env("TMUX_PANE", &other.id);
    run(&mut command).expect(0).silent();
}

#[test]
fn r3_a_daemon_and_an_agent_inside_of_an_agent_speak_for_no_pane() {
    if !needs("tmux") || !needs("python3") {
        return;
    }
    let server = Server::new();
    server.tool.lock(&["run", "x", "true"]).expect(0);
    // An agent, another one that it runs as a tool, and a daemon that it leaves behind: each is not a shell.
    let inner = server.tool.path("inner.py");
    write_program(
        &inner,
        "#!/usr/bin/env python3\nimport subprocess, sys\n\
         sys.exit(subprocess.run(['orion-mark', '--strict', sys.argv[1]]).returncode)\n",
    );
    let program = format!(
        "#!/usr/bin/env python3\nimport subprocess, time\n\
         def call(*words): return subprocess.run(words, stderr=subprocess.DEVNULL).returncode\n\
         said = [call('orion-mark', '--strict', 'busy'), call('sh', '-c', '{0} idle; exit $?'),\n\
         call('setsid', '-w', '{0}', 'idle'), call('orion-mark', '--strict', 'busy')]\n\
         open('DONE.part', 'w').write(repr(said))\nimport os\nos.rename('DONE.part', 'DONE')\ntime.sleep(9999)\n",
        inner.display()
    );
    let pane = play(&server, "agent.py", &program);
    let said = std::fs::read_to_string(server.tool.path("agent.py.done")).unwrap();
    assert_eq!(said, "[0, 69, 69, 0]");
    let mark = state(&server, &pane);
    assert!(mark.starts_with("busy ") && key(&mark, "idle").is_none(), "{mark}");
    assert_eq!(key(&mark, "busy").as_deref(), Some("2"), "{mark}");
    assert!(key(&mark, "marker").unwrap().starts_with(&format!("{}:", pane.pid)), "{mark}");
    let log = log(&server.tool);
    assert!(log.contains("an agent that the agent of") && log.contains("is a daemon"), "{log}");
}

#[test]
fn r7_r10_the_json_of_a_hook_says_whether_work_goes_on() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let stop =
        |fields: &str| format!("{{\"hook_event_name\":\"Stop\",\"last_assistant_message\":\"x\"{fields}}}");
    let failed = "{\"hook_event_name\":\"StopFailure\",\"error\":\"rate_limit\"}";
    let reminder = "{\"hook_event_name\":\"Notification\",\"notification_type\":\"idle_prompt\"}";
    let (none, some) = (
        stop(",\"background_tasks\":[],\"session_crons\":[]"),
        stop(
            ",\"background_tasks\":[{\"id\":\"b1\",\"type\":\"shell\",\"status\":\"running\"}],\"session_crons\":[]",
        ),
    );
    let wakes = stop(",\"background_tasks\":[],\"session_crons\":[{\"id\":\"c\"}]");
    let odd = stop(",\"background_tasks\":\"many\"");
    // What is given to `idle`, and then the word, none= and tasks= of the mark; "busy" is said before a `*`,
    // "question" before a `?`.
    let steps: [(&str, &str, Option<&str>, Option<&str>); 13] = [
        ("*", "idle", None, None),
        (&stop(""), "idle", None, None),
        (&none, "idle", Some("1"), None),
        (reminder, "idle", Some("1"), None),
        (&some, "working", None, Some("1")),
        (reminder, "working", None, Some("1")),
        (failed, "working", None, Some("1")),
        (&wakes, "working", None, Some("1")),
        // A turn that failed says nothing about the wake-up that an earlier one planned.
        (&format!("*{failed}"), "working", None, Some("1")),
        (&none, "idle", Some("1"), None),
        (&format!("*{failed}"), "idle", None, None),
        (&odd, "working", None, Some("1")),
        // A reminder does not answer a question.
        (&format!("?{reminder}"), "question", None, Some("1")),
    ];
    let mut script = String::from("#!/bin/bash\n");
    for (number, (json, ..)) in steps.iter().enumerate() {
        let said = json.strip_prefix('*');
        if said.is_some() {
            script.push_str("orion-mark --strict busy </dev/null\n");
        }
        let file = server.tool.path(&format!("json{number}"));
        let asked = json.strip_prefix('?');
        if asked.is_some() {
            script.push_str("orion-mark --strict question </dev/null\n");
        }
        std::fs::write(&file, said.or(asked).unwrap_or(json)).unwrap();
        // Once as a pipe, which is what agents use.
        script.push_str(&format!(
            "cat {} | orion-mark --strict idle || exit\ntmux show-options -pqv -t \"$TMUX_PANE\" @orion_state\n",
            file.display()
        ));
    }
    let said = server.tool.path("said");
    let script = script.replace("@orion_state\n", &format!("@orion_state >>{}\n", said.display()));
    play(&server, "steps", &format!("{script}: >DONE\nexec cat\n"));
    let marks = std::fs::read_to_string(&said).unwrap();
    assert_eq!(marks.lines().count(), steps.len(), "{marks}");
    for (mark, (json, word, none, tasks)) in marks.lines().zip(steps) {
        assert!(mark.starts_with(&format!("{word} ")), "{json}: {mark}");
        assert_eq!(key(mark, "none").as_deref(), none, "{json}: {mark}");
        assert_eq!(key(mark, "tasks").as_deref(), tasks, "{json}: {mark}");
        assert_eq!(key(mark, "by").as_deref(), Some("hook"), "{mark}");
    }
    assert_eq!(key(marks.lines().last().unwrap(), "busy").as_deref(), Some("3"), "{marks}");
}

#[test]
fn a_hook_never_waits_for_ever_and_never_speaks() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    // An input that nobody ever closes.
    let open = "#!/bin/bash\nexec 9<> <(:)\nsleep 9999 | orion-mark --strict idle &\n\
        while ! tmux show-options -pqv -t \"$TMUX_PANE\" @orion_state | grep -q idle; do sleep .1; done\n: >DONE\nexec cat\n";
    let begin = Instant::now();
    play(&server, "open", open);
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());

    let words: [&[&str]; 8] = [
        &["claim", "x"],
        &["ready"],
        &["busy"],
        &["idle"],
        &["working", "2"],
        &["question"],
        &["ended"],
        &["claim"],
    ];
    for words in words {
        let done =
            run(server.tool.tool("orion-mark", words).env_remove("TMUX").env_remove("TMUX_PANE")).expect(0);
        assert!(words == ["claim"] || done.stderr.is_empty(), "{words:?}: {}", done.stderr);
        assert_eq!(done.stdout, "", "{words:?}");
        let mut strict = server.tool.tool("orion-mark", &["--strict"]);
        let expected = if words == ["claim"] { 64 } else { 69 };
        run(strict.args(words).env_remove("TMUX").env_remove("TMUX_PANE")).expect(expected).one_line();
    }
    // A server that is stopped answers nobody.
    let pid: u32 = server.tmux(&["display-message", "-p", "#{pid}"]).trim_end().parse().unwrap();
    let signal = |name: &str| run(Command::new("kill").args([name, &pid.to_string()])).expect(0);
    let tmux = tmux_variable(&server);
    signal("-STOP");
    let begin = Instant::now();
    let mut command = server.tool.tool("orion-mark", &["idle"]);
    let done = run(command.env("TMUX", tmux).env("TMUX_PANE", "%0").stdin(Stdio::null()));
    let took = begin.elapsed();
    signal("-CONT");
    done.expect(0).silent();
    assert!(took < Duration::from_secs(9), "{took:?}");
}

#[test]
fn hooks_side_by_side_lose_no_mark() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let script = "#!/bin/bash\nfor n in 1 2 3 4 5 6; do orion-mark busy & done\nwait\n: >DONE\nexec cat\n";
    let pane = play(&server, "many", script);
    let mark = state(&server, &pane);
    assert_eq!(key(&mark, "busy").as_deref(), Some("6"), "{mark}");
}

#[test]
fn the_notify_setting_of_old_codex_needs_no_script() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let script = "#!/bin/sh\norion-mark --strict idle '{\"type\":\"approval-requested\"}' || exit\n\
        tmux show-options -pqv -t \"$TMUX_PANE\" @orion_state >DONE.first\n\
        orion-mark --strict idle '{\"type\":\"agent-turn-complete\",\"turn-id\":\"1\"}' || exit\n: >DONE\nexec cat\n";
    let pane = play(&server, "notify", script);
    let first = std::fs::read_to_string(server.tool.path("notify.done.first")).unwrap();
    assert_eq!(first, "", "another message says nothing about a turn");
    assert!(state(&server, &pane).starts_with("idle "));
    server.tool.tool("orion-mark", &["idle"]);
    run(server.tool.tool("orion-mark", &["--strict", "idle", "now"]).env_remove("TMUX")).expect(64);
}
