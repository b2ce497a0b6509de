//! Many panes at once: exactly the finished ones go, in one pass, within the deadline.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod reap_support;
mod support;

use reap_support::{Pane, Server, is_gone, now, start_ticks};
use std::collections::HashSet;
use support::{needs, run};

/// A small generator with a seed that is printed, so that a failure can be made again.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Opens `count` panes, each in a window of its own, in one call of tmux.
fn open(server: &Server, count: usize) -> Vec<Pane> {
    let file = server.tool.path("open");
    std::fs::write(&file, "new-window -d -t =main: cat\n".repeat(count)).unwrap();
    server.tmux(&["source-file", file.to_str().unwrap()]);
    let list = server.tmux(&["list-panes", "-a", "-F", "#{pane_id} #{pane_pid} #{pane_tty}"]);
    list.lines()
        .filter(|line| !line.starts_with("%0 "))
        .map(|line| {
            let mut words = line.split(' ').map(str::to_owned);
            Pane {
                id: words.next().unwrap(),
                pid: words.next().unwrap().parse().unwrap(),
                tty: words.next().unwrap(),
            }
        })
        .collect()
}

/// Tags and marks: what each pane is decides whether it may go.
fn mark(server: &Server, panes: &[Pane], kinds: &[u64]) -> HashSet<String> {
    let mut commands = String::new();
    let mut finished = HashSet::new();
    for (pane, kind) in panes.iter().zip(kinds) {
        let automation = if *kind == 1 { "nightly-2" } else { "nightly" };
        let start = if *kind == 2 { "1".to_owned() } else { start_ticks(pane.pid) };
        if *kind != 3 {
            let tag = format!("{automation} {} {} {start}", pane.id, pane.pid);
            commands.push_str(&format!("set-option -p -t {} @orion_run '{tag}'\n", pane.id));
        }
        let state = match kind {
            4 => format!("busy {}", now()),
            5 => format!("idle {}", now() - 1000),
            6 => String::new(),
            7 => format!("working {} by=hook tasks=1 busy=1 idle=1", now()),
            8 => format!("busy {} by=claim", now()),
            9 => format!("question {} by=hook busy=1", now()),
            10 => format!("ended {} by=hook busy=1 idle=1", now()),
            11 => format!("idle {} by=hook busy=2 idle=2 none=1", now()),
            12 => format!("idle {} by=hook by=hook", now()),
            _ => format!("idle {}", now()),
        };
        commands.push_str(&format!("set-option -p -t {} @orion_state '{state}'\n", pane.id));
        if matches!(kind, 0 | 10 | 11) {
            finished.insert(pane.id.clone());
        }
    }
    let file = server.tool.path("mark");
    std::fs::write(&file, commands).unwrap();
    server.tmux(&["source-file", file.to_str().unwrap()]);
    finished
}

#[track_caller]
fn exactly_those_go(server: &Server, panes: &[Pane], kinds: &[u64]) {
    let finished = mark(server, panes, kinds);
    server.settle(&[]);
    let outcome = server.reap(&["--deadline", "60s"]);
    assert_eq!(outcome.summary("closed"), finished.len() as u64, "{}", outcome.0["summary"]);
    let left: HashSet<String> = server.panes().into_iter().collect();
    for pane in panes {
        let goes = finished.contains(&pane.id);
        assert_eq!(outcome.fate(&pane.id) == "closed", goes, "{}: {}", pane.id, outcome.fate(&pane.id));
        assert_eq!(left.contains(&pane.id), !goes, "{}", pane.id);
        assert_eq!(is_gone(pane.pid), goes, "{}: pid {}", pane.id, pane.pid);
    }
}

#[test]
fn of_two_hundred_panes_exactly_the_sixty_finished_go() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let panes = open(&server, 200);
    let kinds: Vec<u64> = (0..200).map(|at| if at % 10 < 3 { 0 } else { 1 + at % 6 }).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == 0).count(), 60);
    exactly_those_go(&server, &panes, &kinds);
    let again = run(&mut server.reaper(&["--automation", "nightly"])).expect(0);
    again.prints("closed 0");
}

#[test]
fn random_mixes_lose_exactly_their_finished_panes() {
    if !needs("tmux") {
        return;
    }
    // scripts/torture takes many.
    let mixes = if std::env::var_os("ORION_TORTURE").is_some() { 60 } else { 3 };
    for seed in 1..=mixes {
        let mut random = Random(seed);
        let server = Server::new();
        let panes = open(&server, 20 + usize::try_from(random.below(30)).unwrap());
        let kinds: Vec<u64> = panes.iter().map(|_| random.below(13)).collect();
        let result = std::panic::catch_unwind(|| exactly_those_go(&server, &panes, &kinds));
        assert!(result.is_ok(), "seed {seed}");
    }
    support::say(&format!("reap: {mixes} random servers lost exactly their finished panes"));
}
