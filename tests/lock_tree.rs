//! `run --tree`: who holds the lock when supervisor, shim, command and what it left
//! behind are killed and stopped, in every order.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod support;

use rustix::process::Signal;
use serde_json::Value;
use std::process::{Command, Stdio};
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

/// A supervised run: the supervisor, the command, and a job in a session of its own that the command
/// started. Everybody lives until killed.
struct Family {
    supervisor: Running,
    command: KillOnDrop,
    grandchild: KillOnDrop,
}

impl Family {
    fn start(tool: &Tool, options: &[&str]) -> Self {
        let script = "setsid sh -c 'echo $$; exec sleep 1000' & exec sleep 1000";
        let mut args = vec!["run", "--tree"];
        args.extend(options);
        args.extend(["x", "sh", "-c", script]);
        let supervisor = tool.hold_with(&args);
        let grandchild = KillOnDrop::of(supervisor.number());
        let owners = tool.record("x")["owners"].clone();
        assert_eq!(owners[1]["pid"], supervisor.pid(), "the supervisor is the second owner: {owners}");
        let command = KillOnDrop::of(u32::try_from(owners[0]["pid"].as_u64().unwrap()).unwrap());
        Self { supervisor, command, grandchild }
    }

    fn pid(&self, who: usize) -> u32 {
        [self.supervisor.pid(), self.command.pid(), self.grandchild.pid()][who]
    }

    fn kill(&mut self, who: usize) {
        match who {
            0 => self.supervisor.kill(),
            1 => self.command.kill(),
            _ => self.grandchild.kill(),
        }
    }

    fn signal(&self, who: usize, signal: Signal) {
        match who {
            0 => self.supervisor.signal(signal),
            1 => self.command.signal(signal),
            _ => self.grandchild.signal(signal),
        }
    }
}

const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

const NAMES: [&str; 3] = ["supervisor", "command", "grandchild"];

/// The supervisor ends by itself once command and grandchild have.
fn held_while(alive: &[bool; 3]) -> bool {
    alive[1] || alive[2]
}

#[test]
fn killed_in_every_order_the_lock_is_held_until_the_last_of_the_tree_has_ended() {
    for order in ORDERS {
        let tool = Tool::new();
        let mut family = Family::start(&tool, &[]);
        let mut alive = [true; 3];
        for who in order {
            if held_while(&alive) {
                assert!(is_held(&tool, "x"), "{order:?} before {}", NAMES[who]);
                tool.precheck(&["-q", "x"]).expect(75);
                family.kill(who);
            } else {
                // The supervisor ends by itself, and says how the command did.
                family.supervisor.end().expect(137);
            }
            alive[who] = false;
            if held_while(&alive) {
                let done = tool.lock(&["run", "x", "true"]).expect(75);
                let holder = if alive[1] {
                    family.pid(1)
                } else if alive[0] {
                    family.pid(0)
                } else {
                    family.pid(2)
                };
                assert!(done.stderr.contains(&format!("{holder} (")), "{order:?}: names {holder}: {done:?}");
            }
        }
        eventually("a free lock", || !is_held(&tool, "x"));
        tool.lock(&["run", "x", "true"]).expect(0).silent();
    }
}

#[test]
fn who_is_stopped_still_holds_it() {
    for order in ORDERS {
        let tool = Tool::new();
        let mut family = Family::start(&tool, &[]);
        for who in order {
            family.signal(who, Signal::STOP);
            assert!(is_held(&tool, "x"), "{order:?} stopped {}", NAMES[who]);
        }
        // The last of them alone, stopped.
        let last = order[2];
        for who in order.into_iter().filter(|who| *who != last) {
            family.kill(who);
        }
        assert!(is_held(&tool, "x"), "{} stopped and alone", NAMES[last]);
        tool.lock(&["run", "x", "true"]).expect(75);
        family.signal(last, Signal::CONT);
        family.kill(last);
        eventually("a free lock", || !is_held(&tool, "x"));
    }
}

#[test]
fn owner_only_leaves_no_pulse_but_the_supervisor_waits_all_the_same() {
    let tool = Tool::new();
    let mut family = Family::start(&tool, &["--owner-only"]);
    family.command.kill();
    assert!(is_held(&tool, "x"), "the supervisor waits");
    family.supervisor.kill();
    assert!(!is_held(&tool, "x"), "and only the supervisor held it");
}

/// The supervisor under strace, with a fault where it names the shim as an owner: the first rename
/// over a record, for an acquire renames to a free name.
fn at_the_naming_of_the_shim(tool: &Tool, fault: &str, marker: &str) -> Command {
    let mut command = tool.command("strace");
    command.arg("-qq").arg("-o").arg(tool.path("trace")).args(["-e", "trace=renameat", "-e"]);
    command.arg(format!("inject=renameat:{fault}:when=1"));
    command.arg(bin("orion-lock")).args(["run", "--tree", "x", "touch"]).arg(tool.path(marker));
    command
}

/// The only child of a process.
fn child_of(pid: u32) -> Option<u32> {
    std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?.trim().parse().ok()
}

/// The supervisor stopped while its shim waits, and the shim.
fn stopped_before_the_gate(tool: &Tool, marker: &str) -> (KillOnDrop, KillOnDrop, std::process::Child) {
    drop(std::fs::remove_file(tool.path("trace")));
    let mut strace = at_the_naming_of_the_shim(tool, "signal=STOP", marker)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Not by its state: strace holds it up at every system call.
    eventually("the stop", || {
        let trace = std::fs::read_to_string(tool.path("trace"));
        trace.is_ok_and(|trace| trace.contains("stopped by SIGSTOP"))
    });
    let supervisor = child_of(strace.id()).unwrap();
    let shim = child_of(supervisor).unwrap();
    assert!(strace.try_wait().unwrap().is_none(), "it lives");
    (KillOnDrop::of(supervisor), KillOnDrop::of(shim), strace)
}

/// The state letter of a process.
fn state_of(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim().chars().next()
}

#[test]
fn a_supervisor_killed_before_the_record_names_the_shim_runs_nothing() {
    if !needs("strace") {
        return;
    }
    let tool = Tool::new();
    tool.lock(&["run", "x", "true"]).expect(0);
    let done = run(&mut at_the_naming_of_the_shim(&tool, "signal=KILL", "marker"));
    assert_ne!(done.code, 0);
    eventually("a free lock", || !is_held(&tool, "x"));
    assert!(!tool.path("marker").exists(), "nothing ran: {done:?}");
    assert!(done.stderr.contains("nothing was run"), "{done:?}");
    tool.lock(&["run", "--tree", "x", "true"]).expect(0);
}

#[test]
fn a_record_that_cannot_name_the_shim_runs_nothing_and_frees_the_lock() {
    if !needs("strace") {
        return;
    }
    let tool = Tool::new();
    for error in ["EIO", "ENOSPC", "EACCES"] {
        let done = run(&mut at_the_naming_of_the_shim(&tool, &format!("error={error}"), "marker"));
        assert!(matches!(done.code, 71 | 73 | 74), "{error}: {done:?}");
        assert!(!tool.path("marker").exists(), "nothing ran: {done:?}");
        eventually("a free lock", || !is_held(&tool, "x"));
    }
}

#[test]
fn a_shim_killed_or_stopped_before_the_gate_never_lets_two_in() {
    if !needs("strace") {
        return;
    }
    let tool = Tool::new();
    let (supervisor, shim, mut strace) = stopped_before_the_gate(&tool, "one");
    shim.kill();
    assert!(is_held(&tool, "x"), "by the stopped supervisor");
    supervisor.signal(Signal::CONT);
    assert!(!strace.wait().unwrap().success());
    eventually("a free lock", || !is_held(&tool, "x"));
    assert!(!tool.path("one").exists());

    let (supervisor, shim, mut strace) = stopped_before_the_gate(&tool, "two");
    shim.signal(Signal::STOP);
    eventually("a stopped shim", || state_of(shim.pid()) == Some('T'));
    supervisor.kill();
    strace.wait().unwrap();
    tool.lock(&["run", "x", "true"]).expect(75).says(&format!("{} (", shim.pid()));
    shim.signal(Signal::CONT);
    eventually("the shim's end", || shim.ended());
    assert!(!tool.path("two").exists(), "it has no supervisor, so it runs nothing");
    eventually("a free lock", || !is_held(&tool, "x"));
    tool.lock(&["run", "x", "true"]).expect(0);
}

#[test]
fn a_broken_tree_ends_without_freeing_its_successor() {
    let tool = Tool::new();
    let mut family = Family::start(&tool, &[]);
    let token = tool.record("x")["token"].to_string();
    tool.lock(&["break", "--owner-is-alive", "--yes", "--token", &token, "x"]).expect(0);
    let mut successor = tool.hold("x");
    family.command.kill();
    family.grandchild.kill();
    family.supervisor.end().expect(137);
    assert!(is_held(&tool, "x"), "the successor's lock stands");
    assert_eq!(last_event(&tool, "x", "ended")["token"].to_string(), token);
    successor.end();
}

#[test]
fn a_command_inside_the_tree_finds_its_callers_lock() {
    let tool = Tool::new();
    let script =
        "\"$OL\" run -w 10s x true; echo $?; \"$OL\" verify x; echo $?; \"$OL\" run --reentrant x echo in";
    let done = tool.lock(&["run", "--tree", "x", "sh", "-c", script]).expect(0);
    assert_eq!(done.stdout, "75\n0\nin\n", "{done:?}");
    done.says("your own caller");
}
