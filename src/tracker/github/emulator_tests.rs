//! Against `emulate` 0.12.2 from npm, a stateful GitHub that is not ours. Made with
//! `npm install emulate@0.12.2 node@22` in a directory that `ORION_TEST_EMULATE` names;
//! skipped without it.

use super::*;
use crate::model::ticket::{Expect, Swap, Swapped, TicketChange};
use crate::tracker::TokenSource;
use crate::tracker::secret::Secret;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Barrier};
use std::time::Duration;

struct Emulator {
    child: Child,
    tracker: GitHub,
    _dir: tempfile::TempDir,
}

impl Drop for Emulator {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn start() -> Option<Emulator> {
    let Some(home) = std::env::var_os("ORION_TEST_EMULATE").map(PathBuf::from) else {
        // Talk of a test, not of the product.
        use std::io::Write;
        drop(writeln!(std::io::stderr(), "skipped: ORION_TEST_EMULATE is not set"));
        return None;
    };
    let dir = tempfile::tempdir().expect("dir");
    let seed = "tokens:\n  bot_token:\n    login: octocat\n    scopes: [repo]\ngithub:\n  users:\n    - login: octocat\n  repos:\n    - owner: octocat\n      name: tools\n";
    std::fs::write(dir.path().join("seed.yaml"), seed).expect("seed");
    // A port that was free a moment ago.
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").expect("port").local_addr().expect("address").port();
    let mut child = Command::new(home.join("node_modules/node/bin/node"))
        .arg(home.join("node_modules/.bin/emulate"))
        .args(["start", "-s", "github", "-p", &port.to_string(), "--seed", "seed.yaml"])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("emulate");
    let lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
    let ready = lines.map_while(Result::ok).any(|line| line.contains("Ready"));
    assert!(ready, "emulate did not start");
    let options = Options {
        token: TokenSource::Given(Secret::new("bot_token").expect("token")),
        timeout: Duration::from_secs(60),
        patience: Duration::from_secs(60),
        ..Options::default()
    };
    let base = format!("http://127.0.0.1:{port}");
    let tracker = GitHub::open(&base, "octocat", "tools", &options).expect("opens");
    Some(Emulator { child, tracker, _dir: dir })
}

fn queued(tracker: &GitHub, count: usize) -> Vec<Key> {
    let make = |number: usize| {
        let body = json!({"title": format!("ticket {number}"), "labels": ["orion-queue"]});
        let answer =
            tracker.send(Method::POST, &format!("{}/issues", tracker.repo), Some(&body)).expect("post");
        let issue = answer.json("an issue").expect("json");
        Key::new(&issue["number"].to_string()).expect("number")
    };
    (0..count).map(make).collect()
}

#[test]
fn a_github_that_is_not_ours_lets_one_of_many_through_the_gate() {
    const RACERS: usize = 8;
    let Some(emulator) = start() else { return };
    let tracker = &emulator.tracker;
    assert!(tracker.check(true).expect("check").iter().all(|finding| finding.ok));
    let keys = queued(tracker, 25);
    assert_eq!(tracker.queue().expect("queue").tickets.len(), keys.len());
    let barrier = Arc::new(Barrier::new(RACERS));
    let mut won: Vec<Key> = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..RACERS)
            .map(|_| {
                let (barrier, keys) = (Arc::clone(&barrier), &keys);
                scope.spawn(move || {
                    let mut won = Vec::new();
                    for key in keys {
                        barrier.wait();
                        if tracker.take(key, "orion-queue").expect("take") == GateTaken::Ours {
                            let working = vec!["orion-working".to_owned()];
                            let expect =
                                Expect { lacks: working.clone(), open: Some(true), ..Expect::default() };
                            let swap = Swap { add: working, remove: Vec::new(), expect, signature: None };
                            assert_eq!(tracker.swap(key, &swap).expect("swap"), Swapped::Done(None));
                            won.push(key.clone());
                        }
                    }
                    won
                })
            })
            .collect();
        racers.into_iter().flat_map(|racer| racer.join().expect("racer")).collect()
    });
    won.sort_by_key(|key| key.as_str().parse::<u64>().expect("number"));
    assert_eq!(won, keys);
    for key in &keys {
        let events = tracker.events(key).expect("events");
        let count = |wanted: &TicketChange| events.iter().filter(|event| event.what == *wanted).count();
        assert_eq!(count(&TicketChange::Unlabeled("orion-queue".into())), 1, "{key}");
        assert_eq!(count(&TicketChange::Labeled("orion-working".into())), 1, "{key}");
    }
    assert_eq!(tracker.in_flight().expect("flight").tickets.len(), keys.len());
    tracker.comment(&keys[0], "orion-claim n1 round first host pi").expect("comment");
    let comments = tracker.comments(&keys[0]).expect("comments");
    tracker.void(&keys[0], comments[0].id, "n1").expect("void");
    assert!(tracker.comments(&keys[0]).expect("comments").is_empty());
    let wrong = Key::new("9999").expect("key");
    assert_eq!(tracker.ticket(&wrong).expect_err("none").why(), Why::NoTicket);
}
