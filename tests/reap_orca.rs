//! Orca by its contract: a stand-in that answers from files, with the variants and
//! faults of builds 1.4.16x to 1.4.206.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod reap_support;
mod support;

use reap_support::{Outcome, Server, is_gone, now, path_with};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use support::{KillOnDrop, Tool, needs, run};

/// Answers `A-B.json` for the call `A B …`, `A-B-HANDLE.json` first; `.rc` is its exit code, `.sh` runs before.
/// Every call is logged. Unknown calls and flags are refused as the real one does.
const STAND_IN: &str = r#"#!/bin/bash
cd "$ORCA_TEST_DIR" || exit 9
echo "$*" >>calls
a=$1 b=$2; shift 2
handle=; id=
while (($#)); do
	case $1 in
	--terminal) handle=$2; shift ;;
	--id) id=$2; shift ;;
	--limit | --for | --timeout-ms | --cursor) shift ;;
	--json) ;;
	*) echo '{"id":"local","ok":false,"error":{"code":"invalid_argument","message":"unknown flag"}}'; exit 1 ;;
	esac
	shift
done
for name in "$a-$b-$handle$id" "$a-$b"; do
	if [[ -e $name.sh ]]; then . "./$name.sh"; fi
	if [[ -e $name.json ]]; then
		cat "$name.json"
		exit "$(cat "$name.rc" 2>/dev/null || echo 0)"
	fi
done
echo '{"id":"local","ok":false,"error":{"code":"method_not_found","message":"no such command"}}'
exit 1
"#;

/// One terminal of one finished run, everything in order.
struct Orca {
    tool: Tool,
    path: String,
}

fn ok(result: &Value) -> Value {
    json!({"id": "1", "ok": true, "result": result, "_meta": {"runtimeId": "r"}})
}

fn refused(code: &str, message: &str) -> Value {
    json!({"id": "1", "ok": false, "error": {"code": code, "message": message}, "_meta": {"runtimeId": null}})
}

fn ms(seconds_ago: u64) -> u64 {
    (now() - seconds_ago) * 1000
}

fn automation() -> Value {
    json!({"id": "a1", "name": "nightly", "reuseSession": false, "precheck": null})
}

fn a_run() -> Value {
    json!({"id": "r1", "automationId": "a1", "status": "dispatched", "createdAt": ms(7200), "startedAt": ms(7200),
        "terminalPaneKey": "tab:leaf", "terminalPtyId": "pty", "workspaceId": "w"})
}

fn terminal() -> Value {
    json!({"handle": "term_1", "tabId": "tab", "leafId": "leaf", "ptyId": "pty", "worktreeId": "w",
        "title": "claude", "connected": true, "writable": true, "lastOutputAt": ms(1800), "preview": ""})
}

fn list(terminals: &[Value]) -> Value {
    json!({"terminals": terminals, "totalCount": terminals.len(), "truncated": false})
}

impl Orca {
    fn new() -> Self {
        let tool = Tool::new();
        let path = path_with(&tool, "orca-ide", STAND_IN);
        // A bare orca is a screen reader: calling it is the mistake this file would show.
        path_with(&tool, "orca", "#!/bin/sh\ntouch \"$ORCA_TEST_DIR/bare-orca\"\n");
        let orca = Self { tool, path };
        orca.put("automations-list", &ok(&json!({"automations": [automation()]})));
        orca.put("automations-runs", &ok(&json!({"runs": [a_run()]})));
        orca.put_terminal(&terminal());
        orca.put("worktree-ps", &ok(&json!({"worktrees": [{"agents": []}]})));
        orca.put("terminal-wait", &ok(&json!({"wait": {"satisfied": true, "status": "running"}})));
        orca.put("terminal-close", &ok(&json!({"close": {"ptyKilled": true}})));
        orca.before("terminal-close", "mv empty.json terminal-list.json");
        orca.put("empty", &ok(&list(&[])));
        orca
    }

    fn file(&self, name: &str) -> PathBuf {
        self.tool.path(name)
    }

    fn put(&self, name: &str, answer: &Value) {
        self.text(name, &answer.to_string());
    }

    fn text(&self, name: &str, text: &str) {
        std::fs::write(self.file(&format!("{name}.json")), text).unwrap();
    }

    fn code(&self, name: &str, code: u8) {
        std::fs::write(self.file(&format!("{name}.rc")), code.to_string()).unwrap();
    }

    fn before(&self, name: &str, script: &str) {
        std::fs::write(self.file(&format!("{name}.sh")), format!("{script}\n")).unwrap();
    }

    /// In the list and alone.
    fn put_terminal(&self, terminal: &Value) {
        self.put("terminal-list", &ok(&list(std::slice::from_ref(terminal))));
        self.put("terminal-show", &ok(&json!({"terminal": terminal})));
    }

    fn reaper(&self, args: &[&str]) -> Command {
        let mut command = self.tool.tool("orion-reap", &["--runner", "orca", "--json", "--settle", "1s"]);
        for name in ["ORCA_CLI_COMMAND", "ORCA_DEV_REPO_ROOT", "ORCA_PANE_KEY", "ORCA_ENVIRONMENT"] {
            command.env_remove(name);
        }
        command.env("PATH", &self.path).env("ORCA_TEST_DIR", self.tool.path("")).args(args);
        if !args.contains(&"--automation") {
            command.args(["--automation", "nightly"]);
        }
        command
    }

    #[track_caller]
    fn reap(&self) -> Outcome {
        Outcome::of(&run(&mut self.reaper(&[])).expect(0))
    }

    fn calls(&self) -> String {
        std::fs::read_to_string(self.file("calls")).unwrap_or_default()
    }
}

/// Changes one thing and expects one reason; the terminal must not have been closed.
#[track_caller]
fn keeps(reason: &str, change: impl FnOnce(&Orca)) {
    let orca = Orca::new();
    change(&orca);
    let outcome = orca.reap();
    assert_eq!(outcome.fate("term_1"), reason, "{}\n{}", outcome.0, orca.calls());
    if reason != "close-failed" {
        assert!(!orca.calls().contains("terminal close"), "{}", orca.calls());
    }
    assert!(!orca.file("bare-orca").exists());
}

fn with(mut value: Value, key: &str, field: Value) -> Value {
    value[key] = field;
    value
}

fn without(mut value: Value, key: &str) -> Value {
    value.as_object_mut().unwrap().remove(key).unwrap();
    value
}

#[test]
fn a_finished_run_is_closed_by_its_handle() {
    let orca = Orca::new();
    let outcome = orca.reap();
    assert_eq!(outcome.fate("term_1"), "closed", "{}", outcome.0);
    assert!(orca.calls().contains("terminal close --terminal term_1 --json"), "{}", orca.calls());
    assert!(
        !orca.calls().contains("--tab") && !orca.calls().contains("--all") && !orca.calls().contains(" stop")
    );
    for status in ["completed", "dispatch_failed"] {
        let orca = Orca::new();
        orca.put("automations-runs", &ok(&json!({"runs": [with(a_run(), "status", json!(status))]})));
        assert_eq!(orca.reap().fate("term_1"), "closed", "{status}");
    }
    // Other words for the same, by newer builds and after the fact.
    for (code, receipt) in
        [("terminal_stop_live", 1), ("terminal_stop_unverifiable", 1), ("terminal_gone", 1)]
    {
        let orca = Orca::new();
        orca.put("terminal-close", &refused(code, code));
        orca.code("terminal-close", receipt);
        assert_eq!(orca.reap().fate("term_1"), "closed", "{code}");
    }
    let orca = Orca::new();
    orca.put("worktree-ps", &refused("method_not_found", "old"));
    assert_eq!(orca.reap().fate("term_1"), "closed", "an old build has no hook states");
    let orca = Orca::new();
    let by_id = Outcome::of(&run(&mut orca.reaper(&["--automation", "a1"])).expect(0));
    assert_eq!(by_id.fate("term_1"), "closed", "an automation is named by its id too");
}

#[test]
fn each_condition_and_each_veto_alone_keeps_a_terminal() {
    let runs =
        |change: Value| move |orca: &Orca| orca.put("automations-runs", &ok(&json!({"runs": [change]})));
    keeps("no-run", runs(with(a_run(), "terminalPaneKey", json!("tab:other"))));
    keeps("no-run", runs(with(a_run(), "terminalPaneKey", Value::Null)));
    keeps("no-run", runs(with(a_run(), "automationId", json!("a2"))));
    keeps("resumed", runs(with(a_run(), "terminalPtyId", Value::Null)));
    keeps("resumed", runs(with(a_run(), "terminalPtyId", json!("pty2"))));
    keeps("tag-not-ours", runs(with(a_run(), "workspaceId", json!("w2"))));
    keeps("starting", runs(with(a_run(), "status", json!("pending"))));
    keeps("starting", runs(with(a_run(), "status", json!("skipped_precheck"))));
    keeps("young", runs(with(a_run(), "startedAt", json!(ms(30)))));
    let times = without(without(a_run(), "startedAt"), "createdAt");
    keeps("unreadable", runs(times));

    let listed = |change: Value| move |orca: &Orca| orca.put_terminal(&change);
    keeps("no-clock", listed(with(terminal(), "lastOutputAt", Value::Null)));
    keeps("no-clock", listed(without(terminal(), "lastOutputAt")));
    keeps("no-clock", listed(with(terminal(), "lastOutputAt", json!(ms(0) + 3_600_000))));
    keeps("not-silent", listed(with(terminal(), "lastOutputAt", json!(ms(30)))));
    keeps("unreadable", listed(with(terminal(), "connected", json!(false))));
    keeps("unreadable", listed(without(terminal(), "connected")));
    keeps("resumed", listed(with(terminal(), "ptyId", Value::Null)));

    let wait = |answer: Value, code: u8| {
        move |orca: &Orca| {
            orca.put("terminal-wait", &answer);
            orca.code("terminal-wait", code);
        }
    };
    keeps("not-idle", wait(ok(&json!({"wait": {"satisfied": false, "status": "running"}})), 1));
    keeps(
        "question",
        wait(ok(&json!({"wait": {"satisfied": false, "blockedReason": "agent-approval-prompt"}})), 1),
    );
    keeps(
        "question",
        wait(ok(&json!({"wait": {"satisfied": true, "blockedReason": "codex-cwd-prompt"}})), 0),
    );
    keeps("not-idle", wait(refused("timeout", "timeout"), 1));
    keeps("unreadable", wait(refused("terminal_exited", ""), 1));
    keeps("unreadable", wait(ok(&json!({"wait": {"status": "running"}})), 0));
    keeps("unreadable", |orca| orca.text("terminal-wait", "Another Orca instance is already running"));

    let agents = |agents: Value| {
        move |orca: &Orca| orca.put("worktree-ps", &ok(&json!({"worktrees": [{"agents": agents}]})))
    };
    keeps("busy", agents(json!([{"paneKey": "tab:leaf", "state": "working"}])));
    keeps("question", agents(json!([{"paneKey": "tab:leaf", "state": "blocked"}])));
    keeps("question", agents(json!([{"paneKey": "tab:leaf", "state": "waiting"}])));
    keeps("not-idle", agents(json!([{"paneKey": "tab:leaf", "state": "done", "restoredUnconfirmed": true}])));
    keeps("busy", agents(json!([{"paneKey": "x:y", "parentPaneKey": "tab:leaf", "state": "blocked"}])));
    keeps("unreadable", |orca| orca.put("worktree-ps", &refused("runtime_timeout", "late")));

    let show =
        |change: Value| move |orca: &Orca| orca.put("terminal-show", &ok(&json!({"terminal": change})));
    keeps("changed", show(with(terminal(), "lastOutputAt", json!(ms(1)))));
    keeps("changed", show(with(terminal(), "lastOutputAt", Value::Null)));
    keeps("changed", show(with(terminal(), "ptyId", json!("pty2"))));
    keeps("question", show(with(terminal(), "agentWait", json!({"source": "hook"}))));
    keeps("changed", |orca| orca.put("terminal-show", &refused("runtime_error", "terminal_handle_stale")));
    keeps("unreadable", |orca| orca.put("terminal-show", &refused("runtime_unavailable", "")));

    keeps("close-failed", |orca| orca.put("terminal-close", &refused("runtime_error", "tab_not_found")));
    keeps("close-failed", |orca| orca.before("terminal-close", ":"));
}

#[test]
fn a_reused_session_keeps_its_newest_terminal() {
    let orca = Orca::new();
    let other = with(
        with(with(terminal(), "handle", json!("term_2")), "leafId", json!("leaf2")),
        "ptyId",
        json!("pty2"),
    );
    orca.put("terminal-list", &ok(&list(&[terminal(), other.clone()])));
    orca.put("terminal-show-term_2", &ok(&json!({"terminal": other})));
    orca.put("empty", &ok(&list(&[terminal()])));
    orca.put(
        "automations-list",
        &ok(&json!({"automations": [with(automation(), "reuseSession", json!(true))]})),
    );
    let older = with(
        with(with(a_run(), "terminalPaneKey", json!("tab:leaf2")), "terminalPtyId", json!("pty2")),
        "createdAt",
        json!(ms(9000)),
    );
    orca.put("automations-runs", &ok(&json!({"runs": [older, a_run()]})));
    let outcome = orca.reap();
    assert_eq!(outcome.fate("term_1"), "newest-reuse", "{}", outcome.0);
    assert_eq!(outcome.fate("term_2"), "closed", "{}", outcome.0);
    let orca = Orca::new();
    orca.put(
        "automations-list",
        &ok(&json!({"automations": [with(automation(), "reuseSession", json!(true))]})),
    );
    assert_eq!(orca.reap().fate("term_1"), "newest-reuse");
    let outcome = Outcome::of(&run(&mut orca.reaper(&["--close-newest"])).expect(0));
    assert_eq!(outcome.fate("term_1"), "closed", "{}", outcome.0);
}

#[test]
fn names_are_exact_and_a_shared_one_closes_nothing() {
    keeps("ambiguous-name", |orca| {
        let twin = with(automation(), "id", json!("a2"));
        orca.put("automations-list", &ok(&json!({"automations": [automation(), twin]})));
    });
    for name in ["night", "nightly-2", "NIGHTLY"] {
        let orca = Orca::new();
        let outcome = Outcome::of(&run(&mut orca.reaper(&["--automation", name])).expect(0));
        assert_eq!(outcome.fate("term_1"), "no-run", "{name}");
        assert!(outcome.warnings().contains("no automation"), "{name}: {}", outcome.warnings());
    }
}

#[test]
fn old_builds_list_no_pty_and_are_asked_for_it() {
    let orca = Orca::new();
    orca.put("terminal-list", &ok(&list(&[without(terminal(), "ptyId")])));
    assert_eq!(orca.reap().fate("term_1"), "closed");
    keeps("resumed", |orca| {
        orca.put("terminal-list", &ok(&list(&[without(terminal(), "ptyId")])));
        orca.put("terminal-show", &ok(&json!({"terminal": with(terminal(), "ptyId", json!("pty2"))})));
    });
}

#[test]
fn runs_are_paged_to_their_end() {
    let orca = Orca::new();
    orca.put("automations-runs", &ok(&json!({"runs": [], "nextCursor": "c2"})));
    orca.before(
        "automations-runs-a1",
        "if [[ $(tail -n 1 calls) == *--cursor* ]]; then cp page2.json automations-runs.json; fi",
    );
    orca.put("page2", &ok(&json!({"runs": [a_run()], "nextCursor": null})));
    assert_eq!(orca.reap().fate("term_1"), "closed", "{}", orca.calls());
}

/// Makes an answer wrong.
type Fault = Box<dyn Fn(&Orca)>;

#[test]
fn an_answer_that_is_none_closes_nothing_and_is_said() {
    let faults: Vec<(&str, Fault)> = vec![
        ("text", Box::new(|orca| orca.text("terminal-list", "[single-instance] Another Orca instance"))),
        ("empty", Box::new(|orca| orca.text("terminal-list", ""))),
        ("cut", Box::new(|orca| orca.text("terminal-list", "{\"ok\":true,\"result\":"))),
        (
            "truncated",
            Box::new(|orca| {
                orca.put("terminal-list", &ok(&with(list(&[terminal()]), "truncated", json!(true))));
            }),
        ),
        (
            "not said whether truncated",
            Box::new(|orca| {
                orca.put("terminal-list", &ok(&without(list(&[terminal()]), "truncated")));
            }),
        ),
        (
            "more than listed",
            Box::new(|orca| {
                orca.put("terminal-list", &ok(&with(list(&[terminal()]), "totalCount", json!(2))));
            }),
        ),
        ("no list", Box::new(|orca| orca.put("terminal-list", &ok(&json!({}))))),
        ("no runs", Box::new(|orca| orca.put("automations-runs", &refused("selector_not_found", "")))),
        ("unavailable", Box::new(|orca| orca.put("automations-list", &refused("runtime_unavailable", "")))),
    ];
    for (what, fault) in faults {
        let orca = Orca::new();
        fault(&orca);
        let outcome = orca.reap();
        assert_eq!(outcome.summary("seen"), 0, "{what}");
        assert_ne!(outcome.warnings(), "[]", "{what}");
        assert!(!orca.calls().contains("terminal close"), "{what}");
        run(&mut orca.reaper(&["--strict"])).expect(69);
    }
    let orca = Orca::new();
    std::fs::remove_file(orca.tool.path("bin/orca-ide")).unwrap();
    assert!(orca.reap().warnings().contains("orca-ide was not found"));
    assert!(!orca.file("bare-orca").exists(), "a bare orca is never called");
}

#[test]
fn hosts_left_out_are_said_and_their_absence_is_no_end() {
    let orca = Orca::new();
    let scope = json!({"hostIds": ["local"], "omittedHostIds": ["far"]});
    orca.put("terminal-list", &ok(&with(list(&[terminal()]), "hostScope", scope.clone())));
    orca.put("empty", &ok(&with(list(&[]), "hostScope", scope)));
    let outcome = orca.reap();
    assert_eq!(outcome.fate("term_1"), "closed");
    assert!(outcome.warnings().contains("far"));
    let orca = Orca::new();
    orca.put("empty", &ok(&with(list(&[]), "hostScope", json!({"omittedHostIds": ["far"]}))));
    assert_eq!(orca.reap().fate("term_1"), "close-failed", "its host may only be out of reach");
}

#[test]
fn its_own_terminal_and_its_own_command_are_known_by_the_environment() {
    let orca = Orca::new();
    let mut command = orca.reaper(&[]);
    let done = run(command.env("ORCA_PANE_KEY", "moved:leaf")).expect(0);
    assert_eq!(Outcome::of(&done).fate("term_1"), "own-terminal");
    std::fs::rename(orca.tool.path("bin/orca-ide"), orca.tool.path("bin/orca-custom")).unwrap();
    let mut command = orca.reaper(&[]);
    let done = run(command.env("ORCA_CLI_COMMAND", "orca-custom")).expect(0);
    assert_eq!(Outcome::of(&done).fate("term_1"), "closed");
}

#[test]
fn a_launcher_that_leaves_its_child_behind_costs_no_pipe_and_no_process() {
    let orca = Orca::new();
    // A bash wrapper with the real thing as a child that holds the pipe and outlives it.
    orca.before("terminal-list", "sleep 9999 & echo $! >>left");
    orca.before("terminal-wait", "setsid sleep 9999 & echo $! >>left");
    let begin = Instant::now();
    assert_eq!(orca.reap().fate("term_1"), "closed");
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    let left = std::fs::read_to_string(orca.file("left")).unwrap();
    let left: Vec<u32> = left.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    assert!(left.len() >= 3 && left.iter().all(|pid| is_gone(*pid)), "{left:?}");

    let orca = Orca::new();
    orca.before(
        "terminal-list",
        "echo $$ >>left; trap '' TERM; sleep 9999 & echo $! >>left; wait; sleep 9999",
    );
    let begin = Instant::now();
    let outcome = Outcome::of(&run(&mut orca.reaper(&["--deadline", "2s"])).expect(0));
    // One second is promised; a loaded machine gets another two.
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert_ne!(outcome.warnings(), "[]");
    let left = std::fs::read_to_string(orca.file("left")).unwrap();
    assert!(left.split_whitespace().all(|pid| is_gone(pid.parse().unwrap())), "{left}");
}

#[test]
fn its_processes_are_found_by_the_pane_key_and_waited_for() {
    if !needs("tmux") {
        return;
    }
    // A leaf of its own: /proc shows this pane to the other tests as well.
    let server = Server::new();
    let pane = server.pane("ORCA_PANE_KEY=tab:mapped exec cat");
    let agent = KillOnDrop::of(pane.pid);
    let orca = Orca::new();
    orca.put(
        "automations-runs",
        &ok(&json!({"runs": [with(a_run(), "terminalPaneKey", json!("tab:mapped"))]})),
    );
    orca.put_terminal(&with(terminal(), "leafId", json!("mapped")));
    orca.before("terminal-close", &format!("mv empty.json terminal-list.json; kill -HUP {}", pane.pid));
    let outcome = orca.reap();
    assert_eq!(outcome.fate("term_1"), "closed", "{}", outcome.0);
    assert_eq!((outcome.summary("processes_before"), outcome.summary("processes_after")), (1, 0));
    assert!(agent.ended());

    let pane = server.pane("ORCA_PANE_KEY=tab:mapped exec sh -c 'while :; do :; done'");
    let agent = KillOnDrop::of(pane.pid);
    let orca = Orca::new();
    orca.put(
        "automations-runs",
        &ok(&json!({"runs": [with(a_run(), "terminalPaneKey", json!("tab:mapped"))]})),
    );
    orca.put_terminal(&with(terminal(), "leafId", json!("mapped")));
    assert_eq!(orca.reap().fate("term_1"), "busy");
    let mut command = orca.reaper(&[]);
    let done = run(command.env("ORCA_ENVIRONMENT", "far")).expect(0);
    assert_eq!(Outcome::of(&done).fate("term_1"), "closed", "/proc here says nothing about another machine");
    assert!(!agent.ended());
}

#[test]
fn a_precheck_ends_before_its_runner_ends_it() {
    let orca = Orca::new();
    let precheck = json!({"command": "x", "timeoutSeconds": 6});
    orca.put("automations-list", &ok(&json!({"automations": [with(automation(), "precheck", precheck)]})));
    orca.before("terminal-wait", "exec sleep 9999");
    let mut command = orca
        .tool
        .tool("orion-precheck", &["--reap", "--runner", "orca", "--automation", "nightly", "nightly"]);
    command.env("PATH", &orca.path).env("ORCA_TEST_DIR", orca.tool.path("")).env_remove("ORCA_CLI_COMMAND");
    let begin = Instant::now();
    run(&mut command).expect(0);
    assert!(begin.elapsed() < Duration::from_secs(12), "{:?}", begin.elapsed());
}
