//! A remote tracker, our own test server, as machines see it.
#![allow(dead_code, reason = "every test program uses another part of it")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

use crate::claims::claim_command;
use crate::support::{Done, Tool, run};
use crate::tracker_server::{Fault, Kind, Server};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

/// Which dialect it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    GitHub,
    Jira,
    GitLab,
    Gitea,
}

impl Dialect {
    /// Every one.
    pub(crate) const ALL: [Self; 4] = [Self::GitHub, Self::Jira, Self::GitLab, Self::Gitea];
}

/// A tracker and one machine; more machines are more state directories.
pub(crate) struct Remote {
    pub(crate) server: Server,
    pub(crate) tool: Tool,
    pub(crate) dialect: Dialect,
    /// Who decides; else the default.
    pub(crate) arbiter: Option<String>,
}

impl Remote {
    /// With so many tickets queued.
    pub(crate) fn with(dialect: Dialect, tickets: usize) -> Self {
        let remote = Self { server: Server::start(), tool: Tool::new(), dialect, arbiter: None };
        for number in 1..=tickets {
            remote.server.world().queued(&remote.key(number));
        }
        remote
    }

    /// The key of a ticket.
    pub(crate) fn key(&self, number: usize) -> String {
        match self.dialect {
            Dialect::GitHub | Dialect::GitLab | Dialect::Gitea => number.to_string(),
            Dialect::Jira => format!("AB-{number}"),
        }
    }

    /// `orion-claim` on a machine with that state directory.
    pub(crate) fn machine(&self, state: &Path, args: &[&str]) -> Command {
        let mut command = claim_command(&self.tool, args);
        command.env("ORION_DIR", state);
        for (name, value) in self.environment() {
            command.env(name, value);
        }
        command.envs(self.arbiter.as_ref().map(|arbiter| ("ORION_ARBITER", arbiter)));
        command
    }

    /// What leads to the server.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        match self.dialect {
            Dialect::GitHub => vec![
                ("ORION_TRACKER", "github:acme/tools".to_owned()),
                ("GITHUB_API_URL", self.server.url.clone()),
                ("GH_TOKEN", SECRET.to_owned()),
            ],
            Dialect::GitLab => vec![
                ("ORION_TRACKER", format!("gitlab:{}/acme/tools", self.server.url)),
                ("GITLAB_TOKEN", SECRET.to_owned()),
            ],
            Dialect::Gitea => vec![
                ("ORION_TRACKER", format!("gitea:{}/acme/tools", self.server.url)),
                ("GITEA_TOKEN", SECRET.to_owned()),
            ],
            Dialect::Jira => vec![
                ("ORION_TRACKER", format!("jira:{}/AB", self.server.url)),
                ("JIRA_TOKEN", SECRET.to_owned()),
            ],
        }
    }

    /// `orion-claim` on the first machine.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.machine(&self.tool.dir(), args)
    }

    /// Runs it.
    #[track_caller]
    pub(crate) fn claim(&self, args: &[&str]) -> Done {
        let done = run(&mut self.command(args));
        assert!(!done.stderr.contains(SECRET) && !done.stdout.contains(SECRET), "a secret: {done:?}");
        done
    }

    /// Claims a ticket for a process.
    pub(crate) fn acquire(&self, key: &str, owner: u32) -> Done {
        self.claim(&["acquire", "--for", &owner.to_string(), "--print-token", key])
    }

    /// The labels on a ticket that mean something.
    pub(crate) fn labels(&self, key: &str) -> Vec<String> {
        let labels = self.server.world().labels(key);
        labels.into_iter().filter(|label| crate::claims::MANAGED.contains(&label.as_str())).collect()
    }

    /// One pass on the first machine; its rows.
    #[track_caller]
    pub(crate) fn reconcile(&self) -> Vec<Value> {
        self.claim(&["reconcile", "--json"]).json()["tickets"].as_array().unwrap().clone()
    }

    /// A claim's record on the first machine.
    #[track_caller]
    pub(crate) fn record(&self, key: &str) -> Value {
        crate::claims::record(&self.tool.dir(), key)
    }

    /// The same as text; empty when there is none.
    pub(crate) fn record_text(&self, key: &str) -> String {
        let path = crate::claims::records(&self.tool.dir()).join(format!("{key}.json"));
        std::fs::read_to_string(path).unwrap_or_default()
    }

    /// So many writes reached the server so far.
    pub(crate) fn writes(&self) -> usize {
        self.server.world().seen.iter().filter(|request| request.method != "GET").count()
    }

    /// Another machine's state directory.
    pub(crate) fn other(&self) -> PathBuf {
        self.tool.path("other-machine")
    }

    /// Runs a command that is killed around its `n`-th request, before (`applied`
    /// false: the request never arrives) or after the server did it. `None`: it made
    /// fewer requests and ended by itself.
    pub(crate) fn killed_at(&self, command: Command, n: usize, applied: bool) -> Option<()> {
        self.signalled_at(command, n, applied, Signal::KILL).code().is_none().then_some(())
    }

    /// As [`Remote::killed_at`] with another signal; gives its status.
    pub(crate) fn signalled_at(
        &self,
        mut command: Command,
        n: usize,
        applied: bool,
        signal: Signal,
    ) -> ExitStatus {
        let pid = Arc::new(AtomicU32::new(0));
        let count = Arc::new(AtomicUsize::new(0));
        let (victim, seen) = (Arc::clone(&pid), Arc::clone(&count));
        self.server.fault(Fault::new("", usize::MAX, move || {
            if seen.fetch_add(1, Ordering::SeqCst) + 1 != n {
                return Kind::First(Box::new(|_| {}));
            }
            if applied {
                let victim = Arc::clone(&victim);
                Kind::Afterwards(Box::new(move |_| kill(&victim, signal)))
            } else {
                kill(&victim, signal);
                Kind::Close
            }
        }));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        pid.store(child.id(), Ordering::SeqCst);
        let status = child.wait().unwrap();
        self.server.world().faults.clear();
        status
    }
}

fn kill(pid: &AtomicU32, signal: Signal) {
    while pid.load(Ordering::SeqCst) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    // Not waited for yet, so the number is its own.
    let raw = Pid::from_raw(pid.load(Ordering::SeqCst).cast_signed()).unwrap();
    kill_process(raw, signal).unwrap();
}

/// The token; it may never be seen in any output.
pub(crate) const SECRET: &str = "s3cret-t0ken";

/// One pass heals, or says loudly what a person types; a second one writes nothing.
#[track_caller]
pub(crate) fn remote_healed(remote: &Remote, key: &str, step: usize, allowed: &[&str]) -> bool {
    let rows = remote.reconcile();
    let labels = remote.labels(key);
    let row = rows.iter().find(|row| row["key"] == key).cloned().unwrap_or_default();
    let stranded = labels.is_empty();
    if stranded {
        let reason = row["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("orion-claim free --yes"), "step {step}: {row}");
        assert_eq!(row["report"], true);
    } else {
        assert!(labels.len() == 1 && allowed.contains(&labels[0].as_str()), "step {step}: {labels:?} {row}");
    }
    let (before, writes) = (remote.record_text(key), remote.writes());
    remote.reconcile();
    assert_eq!((remote.record_text(key), remote.writes()), (before, writes), "step {step}: a second pass");
    if stranded {
        remote.claim(&["free", "--yes", key]).expect(0);
        assert_eq!(remote.labels(key), ["orion-queue"], "step {step}");
    }
    stranded
}
