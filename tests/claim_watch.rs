//! `watch`: passes until stopped, never two on one ticket, none stranded.

#[path = "support/claims.rs"]
mod claims;
#[path = "support/remote.rs"]
mod remote;
mod support;
#[path = "support/tracker_server.rs"]
mod tracker_server;

use claims::Board;
use remote::{Dialect, Remote};
use rustix::process::Signal;
use std::process::{Child, Command, Stdio};
use support::eventually;
use tracker_server::Fault;

/// A watch in the background; ended with the test.
struct Watch(Child);

impl Watch {
    fn start(command: &mut Command, log: &std::path::Path) -> Self {
        let log = std::fs::File::options().append(true).create(true).open(log).expect("log");
        command.stdout(Stdio::null()).stderr(log).stdin(Stdio::null());
        Self(command.spawn().expect("watch"))
    }

    fn signal(&self, signal: Signal) {
        let pid = rustix::process::Pid::from_raw(self.0.id().cast_signed()).expect("pid");
        rustix::process::kill_process(pid, signal).expect("signal");
    }

    fn wait(&mut self) -> Option<i32> {
        self.0.wait().expect("wait").code()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn keys() -> Vec<String> {
    (1..=10).map(|number| number.to_string()).collect()
}

/// A command that writes down which ticket it works on, and how often it was at it.
fn diary(board: &Board) -> String {
    format!("echo $ORION_TICKET >> {}", board.tool.path("diary").display())
}

fn written(board: &Board) -> Vec<String> {
    let text = std::fs::read_to_string(board.tool.path("diary")).unwrap_or_default();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_by_key(|line| line.parse::<u32>().ok());
    lines
}

#[test]
fn ten_tickets_are_worked_once_each_and_a_signal_drains() {
    let board = Board::with(&keys());
    let log = board.tool.path("log");
    let diary = diary(&board);
    let mut watch =
        Watch::start(&mut board.command(&["watch", "--every", "1s", "--max", "3", "sh", "-c", &diary]), &log);
    eventually("ten ready", || keys().iter().all(|key| board.labels(key) == ["orion-ready"]));
    watch.signal(Signal::TERM);
    assert_eq!(watch.wait(), Some(0));
    assert_eq!(written(&board), keys());
    assert!(board.reconcile().is_empty());
}

#[test]
fn two_watchers_one_killed_none_twice_none_stranded() {
    let board = Board::with(&keys());
    let (log, other) = (board.tool.path("log"), board.tool.path("other"));
    let script = format!("{}; sleep 0.05", diary(&board));
    let args = ["watch", "--every", "1s", "--max", "2", "sh", "-c", &script];
    let first = Watch::start(&mut board.command(&args), &log);
    let mut second = Watch::start(&mut board.machine(&other, &args), &log);
    eventually("some are worked on", || written(&board).len() >= 2);
    // Its runs go on without it, and hand over.
    first.signal(Signal::KILL);
    eventually("ten ready", || keys().iter().all(|key| board.labels(key) == ["orion-ready"]));
    second.signal(Signal::TERM);
    assert_eq!(second.wait(), Some(0));
    assert_eq!(written(&board), keys());
}

#[test]
fn the_first_signal_drains_and_the_second_ends_the_commands() {
    let board = Board::with(&keys());
    let log = board.tool.path("log");
    let script = format!("{}; exec sleep 1000", diary(&board));
    let mut watch = Watch::start(
        &mut board.command(&["watch", "--every", "1s", "--max", "2", "sh", "-c", &script]),
        &log,
    );
    eventually("two at work", || written(&board).len() == 2);
    watch.signal(Signal::TERM);
    eventually("it drains", || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("draining")));
    assert_eq!(watch.0.try_wait().expect("wait"), None, "two are still at work");
    watch.signal(Signal::TERM);
    assert_eq!(watch.wait(), Some(0));
    assert!(keys().iter().all(|key| board.labels(key) == ["orion-queue"]), "back in the queue");
    assert_eq!(written(&board).len(), 2, "no new ones");
}

#[test]
fn a_watch_heals_what_another_run_left_and_says_a_thing_once() {
    let board = Board::with(&["1"]);
    board.put("2", &["orion-working"]);
    let args = ["run", "1", "sh", "-c", "echo up; read end"];
    let mut dead = support::Running::start(&mut board.command(&args));
    dead.kill();
    dead.end();
    let log = board.tool.path("log");
    let mut watch = Watch::start(&mut board.command(&["watch", "--every", "50ms", "true"]), &log);
    eventually("healed and worked", || board.labels("1") == ["orion-ready"]);
    board.put("3", &["orion-queue"]);
    eventually("a later one too", || board.labels("3") == ["orion-ready"]);
    watch.signal(Signal::INT);
    assert_eq!(watch.wait(), Some(0));
    let text = std::fs::read_to_string(&log).expect("log");
    assert_eq!(text.matches("proves no death").count(), 1, "{text}");
    assert!(text.contains("1: reconcile: put back into the queue"), "{text}");
    assert_eq!(board.labels("2"), ["orion-working"]);
}

#[test]
fn a_tracker_that_is_down_slows_a_watch_and_a_wrong_name_stops_it() {
    let remote = Remote::with(Dialect::GitHub, 2);
    let log = remote.tool.path("log");
    std::fs::write(remote.tool.path("claim.toml"), "patience = \"0s\"\ntimeout = \"5s\"\n")
        .expect("settings");
    let config = remote.tool.path("claim.toml");
    remote.server.fault(Fault::status("/issues?", 3, 503, &[]));
    let mut command = remote.command(&["watch", "--every", "30ms", "--max", "2", "true"]);
    let mut watch = Watch::start(command.env("ORION_CLAIM_CONFIG", &config), &log);
    eventually("worked after all", || {
        (1..=2).all(|number| remote.labels(&remote.key(number)) == ["orion-ready"])
    });
    watch.signal(Signal::TERM);
    assert_eq!(watch.wait(), Some(0));
    let text = std::fs::read_to_string(&log).expect("log");
    assert!(text.contains("slowed") && !text.contains(remote::SECRET), "{text}");
    let mut command = remote.command(&["watch", "--tracker", "github:acme/tolls", "true"]);
    let mut watch = Watch::start(&mut command, &log);
    assert_eq!(watch.wait(), Some(78));
    let mut command = remote.command(&["watch", "true"]);
    remote.server.fault(Fault::status("", 100, 401, &[]));
    let mut watch = Watch::start(&mut command, &log);
    assert_eq!(watch.wait(), Some(78));
}

#[test]
fn a_pause_keeps_tickets_where_they_are_and_what_runs_is_handed_over() {
    let board = Board::with(&["1", "2"]);
    let gate = board.tool.path("gate");
    let command = format!("{}; while ! test -e {}; do sleep 0.02; done", diary(&board), gate.display());
    let log = board.tool.path("watch.log");
    let said = || std::fs::read_to_string(&log).unwrap_or_default();
    let mut watch = Watch::start(
        &mut board.command(&["watch", "--every", "1s", "--max", "1", "sh", "-c", &command]),
        &log,
    );
    eventually("the first is at work", || written(&board).len() == 1);
    board.claim(&["pause", "--note", "new disk"]).expect(0).silent();
    std::fs::write(&gate, "").expect("gate");
    eventually("it says so", || said().contains("paused: nothing is claimed: file:"));
    board.tool.lock(&["pause", "--all"]).expect(0);
    board.claim(&["resume"]).expect(0).says("everything is paused");
    let refused = board.claim(&["--json", "run", "2", "true"]).expect(75).json();
    assert_eq!(refused["error"]["kind"], "paused");
    board.claim(&["acquire", "--for", &std::process::id().to_string(), "2"]).expect(75).says("resume --all");
    assert_eq!(written(&board).len(), 1, "{}", said());
    assert_eq!(board.labels("1"), ["orion-ready"], "what ran was handed over");
    board.tool.lock(&["resume", "--all"]).expect(0);
    eventually("the second is taken", || written(&board).len() == 2);
    watch.signal(Signal::TERM);
    assert_eq!(watch.wait(), Some(0));
    assert!(said().contains("resumed: "), "{}", said());
}
