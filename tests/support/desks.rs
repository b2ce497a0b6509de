//! One ticket queue on each kind of tracker, with the same handles: what a test says of one must hold on all.
#![allow(dead_code, reason = "every test program uses another part of it")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

use crate::claims::{Board, MANAGED, claim_command, record};
use crate::remote::{Dialect, Remote};
use crate::support::{Done, Tool, run};
use crate::tracker_server::Fault;
use serde_json::{Value, json};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::process::Command;

/// Every kind of tracker.
pub(crate) const KINDS: [&str; 6] = ["file", "command", "github", "gitlab", "gitea", "jira"];

/// A tracker with tickets, and one machine.
pub(crate) enum Desk {
    Files(Board),
    /// `examples/tracker.py`
    Program(Tool),
    Server(Box<Remote>),
}

impl Desk {
    /// With so many tickets queued.
    pub(crate) fn with(kind: &str, tickets: usize) -> Self {
        let server = |dialect| Self::Server(Box::new(Remote::with(dialect, tickets)));
        match kind {
            "file" => {
                let keys: Vec<String> = (1..=tickets).map(|number| number.to_string()).collect();
                Self::Files(Board::with(&keys))
            }
            "command" => {
                let tool = Tool::new();
                let all: serde_json::Map<String, Value> = (1..=tickets)
                    .map(|number| (number.to_string(), json!({"labels": ["orion-queue"], "events": []})))
                    .collect();
                std::fs::write(tool.path("tickets.json"), Value::Object(all).to_string()).unwrap();
                Self::Program(tool)
            }
            "github" => server(Dialect::GitHub),
            "gitlab" => server(Dialect::GitLab),
            "gitea" => server(Dialect::Gitea),
            "jira" => server(Dialect::Jira),
            other => panic!("no tracker {other}"),
        }
    }

    pub(crate) fn tool(&self) -> &Tool {
        match self {
            Self::Files(board) => &board.tool,
            Self::Program(tool) => tool,
            Self::Server(remote) => &remote.tool,
        }
    }

    /// The key of a ticket.
    pub(crate) fn key(&self, number: usize) -> String {
        match self {
            Self::Server(remote) => remote.key(number),
            _ => number.to_string(),
        }
    }

    /// What leads to the tracker.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Files(board) => vec![("ORION_TRACKER", board.tracker())],
            Self::Program(tool) => {
                let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/tracker.py");
                vec![
                    ("ORION_TRACKER", format!("command:{}", program.display())),
                    ("TICKETS", tool.path("tickets.json").display().to_string()),
                ]
            }
            Self::Server(remote) => remote.environment(),
        }
    }

    /// `orion-claim` on a machine with that state directory.
    pub(crate) fn machine(&self, state: &Path, args: &[&str]) -> Command {
        let mut command = claim_command(self.tool(), args);
        command.env("ORION_DIR", state).envs(self.environment());
        command
    }

    /// `orion-claim` on the first machine.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.machine(&self.tool().dir(), args)
    }

    /// Runs it.
    #[track_caller]
    pub(crate) fn claim(&self, args: &[&str]) -> Done {
        run(&mut self.command(args))
    }

    /// A claim's record on the first machine.
    #[track_caller]
    pub(crate) fn record(&self, key: &str) -> Value {
        record(&self.tool().dir(), key)
    }

    /// The labels on a ticket that mean something.
    #[track_caller]
    pub(crate) fn labels(&self, key: &str) -> Vec<String> {
        let all = match self {
            Self::Files(board) => board.all_labels(key),
            Self::Program(_) => {
                let all = self.program(|_| {});
                all[key]["labels"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|it| it.as_str().unwrap().to_owned())
                    .collect()
            }
            Self::Server(remote) => remote.server.world().labels(key),
        };
        all.into_iter().filter(|label| MANAGED.contains(&label.as_str())).collect()
    }

    /// A person writes these labels and no other of ours.
    pub(crate) fn put(&self, key: &str, labels: &[&str]) {
        match self {
            Self::Files(board) => board.put(key, labels),
            Self::Program(_) => drop(self.program(|all| {
                let now: Vec<String> = all[key]["labels"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|it| it.as_str().unwrap().to_owned())
                    .collect();
                let events = all[key]["events"].as_array_mut().unwrap();
                let changes = now
                    .iter()
                    .filter(|it| !labels.contains(&it.as_str()))
                    .map(|it| ("unlabeled", it.clone()));
                let changes: Vec<_> = changes
                    .chain(
                        labels
                            .iter()
                            .filter(|it| !now.iter().any(|on| on == *it))
                            .map(|it| ("labeled", (*it).to_owned())),
                    )
                    .collect();
                for (event, label) in changes {
                    let id = (events.len() + 1).to_string();
                    events.push(json!({"id": id, "event": event, "label": label, "actor": "person"}));
                }
                all[key]["labels"] = json!(labels);
            })),
            Self::Server(remote) => {
                remote.server.world().label(
                    key,
                    "person",
                    labels,
                    &MANAGED.iter().filter(|it| !labels.contains(it)).copied().collect::<Vec<_>>(),
                );
            }
        }
    }

    /// A person closes it and takes our labels off.
    pub(crate) fn close(&self, key: &str) {
        match self {
            Self::Files(board) => board.close(key, &[]),
            Self::Program(_) => {
                self.put(key, &[]);
                self.program(|all| all[key]["closed"] = json!(true));
            }
            Self::Server(remote) => {
                self.put(key, &[]);
                remote.server.world().close(key, true);
            }
        }
    }

    /// Nobody reaches the tracker for a while.
    pub(crate) fn away(&self, while_away: impl FnOnce()) {
        let swap =
            |from: &str, to: &str| std::fs::rename(self.tool().path(from), self.tool().path(to)).unwrap();
        match self {
            Self::Files(_) => swap("tickets", "away"),
            Self::Program(_) => swap("tickets.json", "away.json"),
            Self::Server(remote) => remote.server.fault(Fault::status("", usize::MAX, 503, &[])),
        }
        while_away();
        match self {
            Self::Files(_) => swap("away", "tickets"),
            Self::Program(_) => swap("away.json", "tickets.json"),
            Self::Server(remote) => remote.server.world().faults.clear(),
        }
    }

    /// The tickets of a program, read and written as it does: under its lock.
    fn program(&self, change: impl FnOnce(&mut Value)) -> Value {
        let mut file =
            std::fs::File::options().read(true).write(true).open(self.tool().path("tickets.json")).unwrap();
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        let before: Value = serde_json::from_str(&text).unwrap();
        let mut after = before.clone();
        change(&mut after);
        if after != before {
            file.rewind().unwrap();
            file.set_len(0).unwrap();
            file.write_all(after.to_string().as_bytes()).unwrap();
        }
        after
    }
}
