//! A queue that survives the night: the breaker, and tickets that are given back.

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

/// A kill between any two steps of giving a ticket back leaves one of these states.
#[test]
fn what_a_killed_watch_owes_is_put_back_by_the_next_one_and_nothing_twice() {
    let board = Board::with(&keys(4));
    for key in ["1", "2", "3"] {
        board.claim(&["run", key, "sh", "-c", "exit 1"]).expect(1);
    }
    let end = |key: &str| {
        let token = &board.record(key)["token"];
        serde_json::json!({"key": key, "token": token, "status": 1, "failed": true, "at_ms": 1_000_000})
    };
    let state = board.records().join(".breaker.json");
    let write = |value: serde_json::Value| std::fs::write(&state, value.to_string()).expect("state");
    let log = board.tool.path("log");
    let watch = || {
        let args = ["watch", "--every", "50ms", "--retry-after", "1h", "true"];
        Watch::start(&mut board.command(&args), &log)
    };
    let later =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("now").as_secs() + 1000;
    // Open, nothing given back yet; 3 was given back, and the state does not know it.
    let all = serde_json::json!([end("1"), end("2"), end("3")]);
    write(serde_json::json!({"row": all, "open_since": 1, "retry_at": later, "pause_s": 1000}));
    let (before, token) = (all[2].clone(), board.record("3")["token"].clone());
    board.put("3", &["orion-queue"]);
    let running = watch();
    eventually("put back", || ["1", "2"].iter().all(|key| board.labels(key) == ["orion-queue"]));
    eventually("kept", || !std::fs::read_to_string(&state).unwrap_or_default().contains("\"failed\":true"));
    assert_eq!(running.stop(), Some(0));
    assert_eq!((&before["token"], board.labels("3")), (&token, vec!["orion-queue".to_owned()]));
    assert_eq!(board.labels("4"), ["orion-queue"], "nothing is claimed while it is open");
    let snapshot = board.snapshot();
    let said = |times: usize| {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.matches("the breaker of watch is open").count() == times
    };
    let running = watch();
    eventually("it says so when it begins", || said(2));
    assert_eq!(running.stop(), Some(0));
    assert_eq!(board.snapshot(), snapshot, "a second watch writes nothing");
    // Closed, and one is still owed; another one was claimed by somebody since.
    std::fs::remove_file(&state).expect("state");
    for key in ["1", "2", "3", "4"] {
        board.put(key, &[]);
    }
    board.put("1", &["orion-queue"]);
    board.claim(&["run", "1", "sh", "-c", "exit 1"]).expect(1);
    let old = end("1");
    board.put("2", &["orion-queue"]);
    board.claim(&["run", "2", "sh", "-c", "exit 1"]).expect(1);
    write(serde_json::json!({"owed": [end("2"), {"key": "1", "token": 7, "status": 1, "failed": true}]}));
    let running = watch();
    eventually("worked", || board.labels("2") == ["orion-ready"]);
    assert_eq!(running.stop(), Some(0));
    assert_eq!((board.labels("1"), &old["key"]), (vec!["orion-failed".to_owned()], &serde_json::json!("1")));
    // What nobody can read counts as nothing.
    std::fs::write(&state, "{\"row\": [{\"key\"").expect("torn");
    board.put("4", &["orion-queue"]);
    let running = watch();
    eventually("worked", || board.labels("4") == ["orion-ready"]);
    assert_eq!(running.stop(), Some(0));
}

/// Whatever the tracker: tickets that were given back with 75 cost nothing while they are left alone.
#[test]
fn a_watch_whose_runs_all_said_75_asks_for_two_lists_a_pass_and_writes_nothing() {
    let watched: Vec<_> = Dialect::ALL
        .into_iter()
        .map(|dialect| {
            let remote = Remote::with(dialect, 3);
            for number in 1..=3 {
                let key = remote.key(number);
                remote.claim(&["run", "--every", "1h", &key, "sh", "-c", "exit 75"]).expect(75);
            }
            let before = remote.server.world().seen.len();
            let args = ["watch", "--every", "100ms", "true"];
            let watch = Watch::start(&mut remote.command(&args), &remote.tool.path("log"));
            (remote, before, watch)
        })
        .collect();
    for (remote, before, watch) in watched {
        let what = format!("{:?}", remote.dialect);
        let asked = |label: &str| {
            let world = remote.server.world();
            world.seen[before..].iter().filter(|it| it.method == "GET" && it.path.contains(label)).count()
        };
        eventually(&what, || asked("orion-working") >= 8);
        assert_eq!(watch.stop(), Some(0), "{what}");
        let (passes, queues) = (asked("orion-working"), asked("orion-queue"));
        let all = remote.server.world().seen.len() - before;
        // An empty list of Jira may be a token that has ended: then the project is asked for.
        let projects = if remote.dialect == Dialect::Jira { asked("/project/") } else { 0 };
        assert!(projects <= passes, "{what}: {projects} in {passes} passes");
        assert_eq!(all, passes + queues + projects, "{what}: nothing but lists");
        assert!(
            queues == passes || queues + 1 == passes,
            "{what}: {queues} lists of the queue in {passes} passes"
        );
        assert_eq!(remote.labels(&remote.key(1)), ["orion-queue"], "{what}");
    }
}
