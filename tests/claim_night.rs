//! A queue that survives the night: the breaker, tickets that are given back, and a whole night
//! with quotas, kills, leftovers, a person, and a tracker that goes away.

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
use std::time::{Duration, Instant};
use support::eventually;

struct Watch(Child);

impl Watch {
    fn start(command: &mut Command, log: &std::path::Path) -> Self {
        let log = std::fs::File::options().append(true).create(true).open(log).expect("log");
        command.stdout(Stdio::null()).stderr(log).stdin(Stdio::null());
        Self(command.spawn().expect("watch"))
    }

    fn stop(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_raw(self.0.id().cast_signed()).expect("pid");
        rustix::process::kill_process(pid, Signal::TERM).expect("signal");
        self.0.wait().expect("wait").code()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn keys(count: usize) -> Vec<String> {
    (1..=count).map(|number| number.to_string()).collect()
}

#[test]
fn g41_a_bad_minute_does_not_empty_the_queue_and_outlives_a_restart() {
    let board = Board::with(&keys(10));
    let (log, quota) = (board.tool.path("log"), board.tool.path("quota"));
    std::fs::write(&quota, "").expect("quota");
    let text = || std::fs::read_to_string(&log).unwrap_or_default();
    let script = format!(
        "if [ -e {} ]; then echo $ORION_TICKET >> {}; echo the quota is over >&2; exit 1; fi; sleep 0.3",
        quota.display(),
        board.tool.path("tries").display()
    );
    let tries = || std::fs::read_to_string(board.tool.path("tries")).unwrap_or_default().lines().count();
    let kept = board.tool.path("kept").display().to_string();
    let mut args = vec!["watch", "--every", "100ms", "--quick", "250ms", "--retry-after", "1s"];
    args.extend(["--keep-output", &kept, "sh", "-c", &script]);
    let watch = Watch::start(&mut board.command(&args), &log);
    eventually("it opens", || text().contains("the breaker of watch is open"));
    assert!(text().contains("with status 1 and 'the quota is over'; nothing is claimed"), "{}", text());
    eventually("nothing failed because of it", || {
        keys(10).iter().all(|key| board.labels(key) == ["orion-queue"])
    });
    assert!(tries() <= 4, "{} tries: {}", tries(), text());
    let shown = board.claim(&["list"]).expect(0);
    assert!(shown.stderr.contains("3 tickets in a row"), "{shown:?}");
    assert!(
        board.claim(&["log", "1"]).expect(0).stdout.contains("back in the queue: it failed because of us")
    );
    let status = board.claim(&["status", "1"]).stdout;
    assert!(status.contains("the breaker of watch is open"), "status says so too: {status}");
    assert!(
        status.contains("last claim here: queue") && status.contains("it failed because of us"),
        "{status}"
    );
    assert_eq!(watch.stop(), Some(0));
    // Another watch knows it, and tries one ticket at a time.
    let before = tries();
    let watch = Watch::start(&mut board.command(&args), &log);
    eventually("a trial", || tries() > before);
    std::fs::remove_file(&quota).expect("quota");
    eventually("closed", || text().contains("the breaker of watch is closed"));
    eventually("all are worked", || keys(10).iter().all(|key| board.labels(key) == ["orion-ready"]));
    assert!(tries() <= before + 4, "{} then {}", before, tries());
    assert_eq!(watch.stop(), Some(0));
    assert!(!board.claim(&["list"]).expect(0).stderr.contains("breaker"));
}

#[test]
fn g41_quick_successes_open_it_only_where_that_was_asked_for() {
    let board = Board::with(&keys(6));
    let log = board.tool.path("log");
    let text = || std::fs::read_to_string(&log).unwrap_or_default();
    let asked = ["watch", "--every", "50ms", "--quick-success", "--retry-after", "1h", "true"];
    let watch = Watch::start(&mut board.command(&asked), &log);
    eventually("it opens", || text().contains("stay where they went: 1, 2, 3"));
    assert_eq!(board.labels("4"), ["orion-queue"]);
    assert_eq!(watch.stop(), Some(0));
    let plain = Board::with(&keys(6));
    let watch = Watch::start(&mut plain.command(&["watch", "--every", "50ms", "true"]), &log);
    eventually("all ready", || keys(6).iter().all(|key| plain.labels(key) == ["orion-ready"]));
    assert_eq!(watch.stop(), Some(0));
    assert_eq!(text().matches("--quick-success").count(), 1, "named once: {}", text());
}

#[test]
fn g41_a_ticket_that_is_given_back_is_left_alone_for_longer_and_longer() {
    let remote = Remote::with(Dialect::GitHub, 2);
    let log = remote.tool.path("log");
    let fires = remote.tool.path("fires");
    let script = format!("echo $ORION_TICKET >> {}; exit 75", fires.display());
    let count = || std::fs::read_to_string(&fires).unwrap_or_default().lines().count();
    let watch = Watch::start(&mut remote.command(&["watch", "--every", "400ms", "sh", "-c", &script]), &log);
    eventually("both twice", || count() >= 4);
    let (begun, from, fired) = (Instant::now(), remote.server.world().seen.len(), count());
    std::thread::sleep(Duration::from_secs(3));
    let passes = begun.elapsed().as_millis() / 400 + 1;
    let (reads, again) = {
        let world = remote.server.world();
        let seen = &world.seen[from..];
        (seen.iter().filter(|request| request.path.contains("/issues?")).count(), count() - fired)
    };
    assert!(again <= 4, "{again} more");
    assert!(reads as u128 <= 2 * passes, "{reads} lists in {passes} passes");
    if again == 0 {
        assert!((remote.server.world().seen.len() - from) as u128 <= 2 * passes, "no other request");
    }
    assert_eq!(watch.stop(), Some(0));
    remote.claim(&["run", "--every", "1h", "2", "sh", "-c", "exit 75"]).expect(75);
    let next = remote.claim(&["-v", "next"]);
    assert!(next.stderr.contains("2 is not offered: given back with 75, "), "{next:?}");
    // A person may take it all the same.
    remote.claim(&["run", "1", "true"]).expect(0);
}

#[test]
fn a_ticket_that_died_lets_the_others_go_first_and_a_persons_edit_ends_a_pause() {
    let board = Board::with(&["1", "2"]);
    board.claim(&["run", "1", "sh", "-c", "kill -9 $$"]).expect(137);
    assert_eq!(board.claim(&["next"]).expect(0).stdout, "2\n");
    board.claim(&["run", "--every", "1h", "2", "sh", "-c", "exit 75"]).expect(75);
    assert_eq!(board.claim(&["next"]).expect(0).stdout, "1\n");
    let log = board.tool.path("log");
    let watch = Watch::start(&mut board.command(&["watch", "--every", "50ms", "true"]), &log);
    eventually("1 is worked", || board.labels("1") == ["orion-ready"]);
    board.put("3", &["orion-queue"]);
    eventually("3 is worked", || board.labels("3") == ["orion-ready"]);
    assert_eq!(board.labels("2"), ["orion-queue"], "left alone");
    board.put("2", &["orion-queue"]);
    eventually("2 is worked", || board.labels("2") == ["orion-ready"]);
    assert_eq!(watch.stop(), Some(0));
}

/// A night: two state directories, agents of every kind, a person, a tracker that goes away twice.
fn night(tickets: usize, limit: Duration) {
    let board = Board::with(&keys(tickets));
    let dir = board.tool.path("work");
    std::fs::create_dir(&dir).expect("mkdir");
    let script = format!(
        r#"cd {dir}; k=$ORION_TICKET
mkdir busy-$k 2>/dev/null || echo "$k" >> doubles
n=$(wc -l < count-$k 2>/dev/null || echo 0); echo x >> count-$k
if [ -e quota ]; then rmdir busy-$k; exit 1; fi
sleep 1
case $((k % 6)).$n in
  1.0) rmdir busy-$k; exit 75 ;;
  2.0) rmdir busy-$k; kill -9 $$ ;;
  3.0) (setsid sh -c 'sleep 0.4; rmdir busy-'$k) </dev/null >/dev/null 2>&1 & exit 0 ;;
  4.*) rmdir busy-$k; exit 3 ;;
esac
rmdir busy-$k"#,
        dir = dir.display()
    );
    let other = board.tool.path("other");
    let args = [
        "watch",
        "--every",
        "150ms",
        "--max",
        "3",
        "--quick",
        "800ms",
        "--retry-after",
        "1s",
        "sh",
        "-c",
        &script,
    ];
    let logs = [board.tool.path("log-1"), board.tool.path("log-2")];
    let watches = [
        Watch::start(&mut board.command(&args), &logs[0]),
        Watch::start(&mut board.machine(&other, &args), &logs[1]),
    ];
    let end = Instant::now() + limit;
    let (home, away) = (board.tool.path("tickets"), board.tool.path("away"));
    let mut cancelled: Vec<String> = Vec::new();
    for round in 0..4 {
        std::thread::sleep(Duration::from_millis(700));
        match round {
            0 | 2 => {
                std::fs::rename(&home, &away).expect("away");
                std::thread::sleep(Duration::from_millis(300));
                std::fs::rename(&away, &home).expect("back");
            }
            1 => std::fs::write(dir.join("quota"), "").expect("quota"),
            _ => {
                for log in &logs {
                    let text = || std::fs::read_to_string(log).unwrap_or_default();
                    eventually("the breaker opens", || text().contains("the breaker of watch is open"));
                }
                std::fs::remove_file(dir.join("quota")).expect("quota");
            }
        }
        // A person closes the last that is still queued, and queues a failed one again.
        let queued = keys(tickets).into_iter().rev().find(|key| board.labels(key) == ["orion-queue"]);
        if let Some(key) = queued {
            board.close(&key, &[]);
            cancelled.push(key);
        }
        if let Some(key) = keys(tickets).into_iter().find(|key| board.labels(key) == ["orion-failed"]) {
            board.put(&key, &["orion-failed", "orion-queue"]);
        }
    }
    let settled = |key: &String| {
        let labels = board.labels(key);
        labels.is_empty() || labels == ["orion-ready"] || labels == ["orion-failed"]
    };
    while !keys(tickets).iter().all(settled) {
        let state: Vec<_> = keys(tickets)
            .iter()
            .filter(|key| !settled(key))
            .map(|key| (key.clone(), board.labels(key)))
            .collect();
        let log = std::fs::read_to_string(&logs[0]).unwrap_or_default();
        assert!(Instant::now() < end, "left: {state:?}\n{log}");
        std::thread::sleep(Duration::from_millis(100));
    }
    for watch in watches {
        assert_eq!(watch.stop(), Some(0));
    }
    assert!(!dir.join("doubles").exists(), "two at once: {:?}", std::fs::read_to_string(dir.join("doubles")));
    for key in keys(tickets) {
        let labels = board.labels(&key);
        let number: usize = key.parse().expect("number");
        if cancelled.contains(&key) {
            continue;
        }
        // Only what says 3 by itself failed; nothing failed or was called ready because of the quota.
        let expected = if number % 6 == 4 { "orion-failed" } else { "orion-ready" };
        assert_eq!(labels, [expected], "{key}: {}", board.claim(&["log", &key]).stdout);
    }
    assert!(board.reconcile().is_empty(), "nothing is left behind");
}

#[test]
fn a_night_strands_nothing_and_works_nothing_twice() {
    // scripts/torture has the time for a whole one.
    let whole = std::env::var_os("ORION_TORTURE").is_some();
    night(if whole { 60 } else { 18 }, Duration::from_secs(if whole { 400 } else { 90 }));
}
