//! What the tests of `orion-claim` share: a directory of tickets, machines that
//! claim from it, and looks at what is on disk.
#![allow(dead_code, reason = "every test program uses another part of it")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

use crate::support::{Done, Tool, bin, names_in, run};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The labels that mean something.
pub(crate) const MANAGED: [&str; 5] =
    ["orion-queue", "orion-working", "orion-ci-wait", "orion-ready", "orion-failed"];

/// A tracker of files and one machine.
#[derive(Debug)]
pub(crate) struct Board {
    pub(crate) tool: Tool,
}

impl Board {
    /// No tickets yet.
    pub(crate) fn new() -> Self {
        let tool = Tool::new();
        std::fs::create_dir(tool.path("tickets")).unwrap();
        Self { tool }
    }

    /// With these tickets queued.
    pub(crate) fn with<S: AsRef<str>>(keys: &[S]) -> Self {
        let board = Self::new();
        for key in keys {
            board.put(key.as_ref(), &["orion-queue"]);
        }
        board
    }

    /// The tracker's address.
    pub(crate) fn tracker(&self) -> String {
        format!("file:{}", self.tool.path("tickets").display())
    }

    /// A ticket's file.
    pub(crate) fn file(&self, key: &str) -> PathBuf {
        self.tool.path("tickets").join(format!("{key}.toml"))
    }

    /// Writes a ticket as a person with an editor does.
    pub(crate) fn put(&self, key: &str, labels: &[&str]) {
        self.write(key, "open", labels);
    }

    /// As [`Board::put`], closed.
    pub(crate) fn close(&self, key: &str, labels: &[&str]) {
        self.write(key, "closed", labels);
    }

    fn write(&self, key: &str, state: &str, labels: &[&str]) {
        let text = format!("title = \"Ticket {key}\"\nstate = \"{state}\"\nlabels = {labels:?}\n");
        // Whole or not at all, as editors that are worth it do.
        let temp = self.tool.path("tickets").join(format!(".{key}.editor"));
        std::fs::write(&temp, text).unwrap();
        std::fs::rename(temp, self.file(key)).unwrap();
    }

    /// The managed labels on a ticket.
    #[track_caller]
    pub(crate) fn labels(&self, key: &str) -> Vec<String> {
        self.all_labels(key).into_iter().filter(|label| MANAGED.contains(&label.as_str())).collect()
    }

    /// Every label on a ticket.
    #[track_caller]
    pub(crate) fn all_labels(&self, key: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.file(key)).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("labels = ")).unwrap();
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"))
    }

    /// `orion-claim` on this machine.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        self.machine(&self.tool.dir(), args)
    }

    /// `orion-claim` on a machine with that state directory.
    pub(crate) fn machine<S: AsRef<OsStr>>(&self, state: &Path, args: &[S]) -> Command {
        let mut command = claim_command(&self.tool, args);
        command.env("ORION_TRACKER", self.tracker()).env("ORION_DIR", state);
        command
    }

    /// Runs `orion-claim`.
    #[track_caller]
    pub(crate) fn claim<S: AsRef<OsStr>>(&self, args: &[S]) -> Done {
        run(&mut self.command(args))
    }

    /// Claims a ticket for this test's own process.
    #[track_caller]
    pub(crate) fn acquire(&self, key: &str) -> u64 {
        self.claim(&["acquire", "--for", &std::process::id().to_string(), "--print-token", key])
            .expect(0)
            .token()
    }

    /// The directory of this machine's records.
    #[track_caller]
    pub(crate) fn records(&self) -> PathBuf {
        records(&self.tool.dir())
    }

    /// A claim's record.
    #[track_caller]
    pub(crate) fn record(&self, key: &str) -> Value {
        record(&self.tool.dir(), key)
    }

    /// A claim's record on a machine with that state directory.
    #[track_caller]
    pub(crate) fn record_of(&self, state: &Path, key: &str) -> Value {
        record(state, key)
    }

    /// Changes a claim's record in place.
    #[track_caller]
    pub(crate) fn edit_record(&self, key: &str, edit: impl FnOnce(&mut Value)) {
        let mut value = self.record(key);
        edit(&mut value);
        std::fs::write(self.records().join(format!("{key}.json")), format!("{value}\n")).unwrap();
    }

    /// One reconcile pass; gives its rows.
    #[track_caller]
    pub(crate) fn reconcile(&self) -> Vec<Value> {
        let done = self.claim(&["reconcile", "--json"]);
        done.json()["tickets"].as_array().unwrap().clone()
    }

    /// The row of one ticket in a pass.
    #[track_caller]
    pub(crate) fn row(&self, key: &str) -> Value {
        let rows = self.reconcile();
        rows.iter().find(|row| row["key"] == key).cloned().unwrap_or_else(|| panic!("no {key} in {rows:?}"))
    }

    /// Everything that a pass could write: tickets and records, byte for byte.
    pub(crate) fn snapshot(&self) -> Vec<(String, String)> {
        let mut files = Vec::new();
        for dir in [self.tool.path("tickets"), self.tool.dir().join("claims")] {
            collect(&dir, &mut files);
        }
        files
    }
}

/// Files that matter, by path; locks and temporary files do not.
fn collect(dir: &Path, files: &mut Vec<(String, String)>) {
    for name in names_in(dir) {
        let path = dir.join(&name);
        if path.is_dir() {
            collect(&path, files);
        } else if [".json", ".events", ".toml", ".jsonl"].iter().any(|end| name.ends_with(end)) {
            files.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap_or_default()));
        }
    }
}

/// `orion-claim` without any setting from outside.
pub(crate) fn claim_command<S: AsRef<OsStr>>(tool: &Tool, args: &[S]) -> Command {
    let mut command = tool.tool("orion-claim", args);
    for name in ["GH_TOKEN", "GITHUB_TOKEN", "JIRA_TOKEN", "GITLAB_TOKEN", "GITEA_TOKEN", "GITHUB_API_URL"] {
        command.env_remove(name);
    }
    command.env("OC", bin("orion-claim"));
    command
}

/// The directory of a machine's records; there is one tracker.
#[track_caller]
pub(crate) fn records(state: &Path) -> PathBuf {
    let claims = state.join("claims");
    let names = names_in(&claims);
    assert_eq!(names.len(), 1, "one tracker: {names:?}");
    claims.join(&names[0])
}

/// A claim's record on a machine.
#[track_caller]
pub(crate) fn record(state: &Path, key: &str) -> Value {
    let path = records(state).join(format!("{key}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// Somebody who owns a claim and can be ended.
#[derive(Debug)]
pub(crate) struct Owner(Child);

impl Owner {
    pub(crate) fn new() -> Self {
        let mut sleep = Command::new("sleep");
        sleep.arg("1000").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(sleep.spawn().expect("sleep"))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn id(&self) -> String {
        self.0.id().to_string()
    }

    pub(crate) fn end(self) {
        drop(self);
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
