//! One run of a `watch`: a process of its own with the same settings, so that the end of the watch is
//! not the end of the work.

use super::{ClaimCall, Claims, name_of};
use crate::cli::claim_run::{ClaimHow, ClaimWatch, Success};
use crate::command::shim::OURSELVES;
use crate::model::ticket::Key;
use crate::os::process::PidFd;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A run at work.
#[derive(Debug)]
pub(super) struct WatchedRun {
    pub(super) key: Key,
    pub(super) child: Child,
    pub(super) fd: PidFd,
    /// The last token of the ticket before this run.
    pub(super) token: Option<u64>,
    /// It tries for an open breaker.
    pub(super) trial: bool,
}

impl WatchedRun {
    /// Starts `run` for a ticket.
    ///
    /// # Errors
    /// No process to be had.
    pub(super) fn start(
        call: &ClaimCall,
        args: &ClaimWatch,
        claims: &Claims,
        every: Duration,
        key: &Key,
        trial: bool,
    ) -> io::Result<Self> {
        let judged = name_of(key).ok().map(|name| claims.store.look(&name));
        let token = judged.as_ref().and_then(|judged| judged.record()).map(|record| record.token);
        let mut command = Command::new(OURSELVES);
        command.arg0("orion-claim").args(shared_words(call, claims)).arg("run");
        command.args(args.how.words());
        command.args(time("--kill-after", args.kill_after)).args(time("--every", Some(every)));
        command.arg(key.as_str()).arg("--").args(&args.command);
        // A group of its own: Ctrl-C drains us, and does not end them.
        let child = command.process_group(0).stdin(Stdio::null()).spawn()?;
        let fd = PidFd::open(child.id())?;
        Ok(Self { key: key.clone(), child, fd, token, trial })
    }
}

/// The options that every subcommand takes, as ours were.
fn shared_words(call: &ClaimCall, claims: &Claims) -> Vec<OsString> {
    let shared = &call.shared;
    let mut words: Vec<OsString> = Vec::new();
    for (option, value) in [("--dir", &shared.dir), ("--config", &shared.config)] {
        words.extend(value.iter().flat_map(|value| [option.into(), value.into()]));
    }
    words.extend(["--tracker".into(), claims.settings.tracker_text().into()]);
    words.extend(shared.arbiter.iter().flat_map(|arbiter| ["--arbiter".into(), arbiter.into()]));
    for (option, given) in
        [("--single-machine", shared.single_machine), ("--ignore-assignee", shared.ignore_assignee)]
    {
        words.extend(given.then(|| option.into()));
    }
    // A ticket that somebody else won is not news.
    words.push(if shared.verbose { "-v" } else { "-q" }.into());
    words
}

impl ClaimHow {
    /// The same as words.
    fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        words.extend(self.stage.iter().flat_map(|stage| ["--stage".into(), stage.into()]));
        let success = self.on_success.map(|to| match to {
            Success::Ready => "ready",
            Success::CiWait => "ci-wait",
        });
        words.extend(success.into_iter().flat_map(|to| ["--on-success".into(), to.into()]));
        words.extend(time("--max-run", self.max_run));
        words.extend(self.owner_only.then(|| "--owner-only".into()));
        words.extend(self.keep_output.iter().flat_map(|dir| ["--keep-output".into(), dir.into()]));
        words.extend(self.comment.then(|| "--comment".into()));
        words
    }
}

fn time(option: &str, time: Option<Duration>) -> Vec<OsString> {
    time.map_or_else(Vec::new, |time| vec![option.into(), format!("{}ms", time.as_millis()).into()])
}
