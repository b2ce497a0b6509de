//! `run --tree`: stay as the parent of the command and of everything it leaves
//! behind, pass signals on, and free the lock when the last of them has ended.

use super::LockCall;
use super::exports::exports;
use super::status_file::StatusFile;
use crate::cli::lock::SHIM;
use crate::command::records::{AcquiredLock, Records, Released, RunEnd};
use crate::command::{exec, shim, tell};
use crate::error::{Error, Kind, reason};
use crate::exit::{Exit, Status};
use crate::model::duration;
use crate::model::last_run::LastRun;
use crate::model::name::LockName;
use crate::model::record::Record;
use crate::os::mask::{FILE_SIZE, SignalMask};
use crate::os::proc::ProcStat;
use crate::os::process::{self, PidFd, wait_any};
use crate::os::signals::{self, Caught, SignalQueue};
use crate::os::start_barrier::{ShimAnswer, StartBarrier};
use crate::os::tree::{self, Collected};
use crate::report::Report;
use crate::verdict::limits::{Due, Limits};
use serde_json::json;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// What a command leaves behind for no longer than this is not worth a word.
const LINGER: Duration = Duration::from_millis(200);

/// What is waited for, and how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct TreeOptions {
    pub(super) limits: Limits,
    /// The command's end is the end: nothing that it leaves behind is waited for.
    pub(super) command_only: bool,
}

/// Runs the command under us; the status is the command's.
pub(super) fn supervise(
    call: LockCall,
    words: &[OsString],
    store: &Records,
    name: &LockName,
    acquired: AcquiredLock,
    status_file: &StatusFile,
    options: TreeOptions,
) -> Result<Status, Error> {
    let (token, before) = (acquired.record.token, acquired.before.clone());
    match start(call, words, store, name, acquired, status_file, options) {
        Ok(tree) => Ok(tree.until_its_end(words, status_file)),
        Err(error) => {
            // Nothing runs, so nothing holds the lock.
            store.undo(name, token, before.as_ref())?;
            Err(error)
        }
    }
}

fn start<'a>(
    call: LockCall,
    words: &[OsString],
    store: &'a Records,
    name: &'a LockName,
    acquired: AcquiredLock,
    status_file: &StatusFile,
    options: TreeOptions,
) -> Result<Tree<'a>, Error> {
    let report = call.report;
    // From here on its signal is blocked below, so that one mask is to be given back.
    drop(call.file_size);
    let failed =
        |error: io::Error| Error::new(Kind::System, format!("{name}: nothing was run: {}", reason(&error)));
    let mask = SignalMask::block(signals::of_supervisor().chain([FILE_SIZE])).map_err(failed)?;
    let queue = SignalQueue::new(signals::of_supervisor()).map_err(failed)?;
    signals::hear_of_children().map_err(failed)?;
    exec::needs_pidfds(name.as_str())?;
    if !options.command_only {
        tree::adopt_orphans().map_err(failed)?;
    }
    let strangers = strangers().map_err(failed)?;
    if let Some(pulse) = &acquired.pulse {
        pulse.inherit().map_err(failed)?;
    }
    let exports = exports(store, name, &acquired.record);
    let (child, mut gate) =
        shim::start((report.program, SHIM), words, exports, mask, None).map_err(failed)?;
    let child = child.id();
    if let Some(pulse) = acquired.pulse {
        // It is the tree's; we are an owner.
        pulse.close();
    }
    // Not reaped by anybody but us, so that the number stays the child's.
    let command = PidFd::open(child).map_err(|errno| failed(errno.into()))?;
    let mut owner = process::identify(child).map_err(failed)?;
    owner.comm = exec::comm_of(words);
    let owners = vec![owner, store.me()?];
    if !store.add_owner(name, acquired.record.token, &owners)? {
        return Err(Error::new(Kind::NotOwner, format!("{name} was broken meanwhile; nothing was run")));
    }
    let (record, before) = (Record { owners, ..acquired.record }, acquired.before);
    let facts = json!({"token": record.token, "pid": child, "supervisor": std::process::id()});
    status_file.try_fact("acquired", name.as_str(), &facts)?;
    if let Err(error) = gate.open() {
        let facts = json!({"token": record.token, "reason": reason(&error)});
        status_file.fact_or_say(&report, "exec-failed", name.as_str(), &facts);
        return Err(failed(error));
    }
    Ok(Tree {
        report,
        store,
        name,
        record,
        before,
        limits: options.limits,
        command_only: options.command_only,
        queue,
        gate: Some(gate),
        command,
        strangers,
        since: Instant::now(),
        ended: None,
        failed: None,
        say_at: None,
        done: Due::Nothing,
        asked: BTreeSet::new(),
    })
}

/// Children that an exec handed to us: no part of the command's tree.
pub(in crate::command) fn strangers() -> io::Result<Vec<u32>> {
    loop {
        match tree::reap() {
            Collected::One(..) => {}
            Collected::Childless => return Ok(Vec::new()),
            Collected::Nobody => {
                let us = std::process::id();
                let below = tree::below(us, &[])?;
                return Ok(below.iter().filter(|it| it.ppid == us).map(|it| it.pid).collect());
            }
        }
    }
}

/// A run under our eyes.
struct Tree<'a> {
    report: Report,
    store: &'a Records,
    name: &'a LockName,
    record: Record,
    /// The last run before this one.
    before: Option<LastRun>,
    limits: Limits,
    command_only: bool,
    queue: SignalQueue,
    /// Until the shim has answered.
    gate: Option<StartBarrier>,
    command: PidFd,
    strangers: Vec<u32>,
    since: Instant,
    /// The command's status, once it has ended.
    ended: Option<Status>,
    /// Why it could not be executed.
    failed: Option<io::Error>,
    /// When to say who is still there.
    say_at: Option<Instant>,
    /// What was done because the time was over.
    done: Due,
    /// Whom that was done to, by pid and start.
    asked: BTreeSet<(u32, u64)>,
}

impl Tree<'_> {
    fn until_its_end(mut self, words: &[OsString], status_file: &StatusFile) -> Status {
        while !self.is_over() {
            self.keep_limits();
            self.say_who_stays();
            self.wait();
        }
        if let Some(error) = &self.failed {
            let status = exec::cannot_run(&self.report, words, error);
            self.say_of_freeing(self.store.undo(self.name, self.record.token, self.before.as_ref()));
            let facts = json!({"token": self.record.token, "reason": reason(error)});
            status_file.fact_or_say(&self.report, "exec-failed", self.name.as_str(), &facts);
            return status;
        }
        // Lost only when somebody else waited for our child, which nobody can.
        let status = self.ended.unwrap_or(Exit::OsErr.into());
        let detail = (self.done > Due::Nothing).then(|| self.time_over());
        let end = RunEnd { status: status.code(), held: self.since.elapsed(), detail: detail.clone() };
        self.say_of_freeing(self.store.end(self.name, &self.record, &end));
        let mut facts = json!({
            "token": self.record.token,
            "status": end.status,
            "held_s": end.held.as_secs(),
        });
        if let Some(detail) = detail {
            facts["detail"] = json!(detail);
        }
        status_file.fact_or_say(&self.report, "ended", self.name.as_str(), &facts);
        status
    }

    /// A lock that could not be marked as free is free all the same once we have ended.
    fn say_of_freeing(&self, freed: Result<Released, Error>) {
        match freed {
            Ok(Released::ByRemoving) => self.report.warning(&format!(
                "{}: the disk is full, so its record was removed instead of marked as released",
                self.name
            )),
            Ok(Released::Now | Released::Before) => {}
            Err(error) => self.report.warning(&error.to_string()),
        }
    }

    /// Takes note of children that have ended; `true` when none is left.
    fn is_over(&mut self) -> bool {
        loop {
            match tree::reap() {
                Collected::One(pid, status) if pid == self.command.pid() && self.ended.is_none() => {
                    self.ended = Some(Status::of_child(status));
                    self.say_at = Some(Instant::now() + LINGER);
                    if self.command_only {
                        break;
                    }
                }
                Collected::One(pid, _) => self.strangers.retain(|stranger| *stranger != pid),
                Collected::Childless => break,
                Collected::Nobody => {
                    let alone = self.ended.is_some()
                        && !self.strangers.is_empty()
                        && self.members().is_some_and(|members| members.is_empty());
                    if !alone {
                        return false;
                    }
                    break;
                }
            }
        }
        self.hear_the_shim();
        true
    }

    /// The shim's answer, where there is one: the pipe is readable, also by its closing.
    fn hear_the_shim(&mut self) {
        let Some(gate) = &mut self.gate else { return };
        let answered = wait_any(&[gate.as_fd()], Some(Duration::ZERO)).is_ok_and(|ready| !ready.is_empty());
        if !answered {
            return;
        }
        if let ShimAnswer::Failed(error) = gate.answer() {
            self.failed = Some(error);
        }
        self.gate = None;
    }

    fn members(&self) -> Option<Vec<ProcStat>> {
        tree::below(std::process::id(), &self.strangers).ok()
    }

    fn wait(&mut self) {
        let mut fds = vec![self.queue.as_fd()];
        fds.extend(self.gate.as_ref().map(AsFd::as_fd));
        match wait_any(&fds, self.next_look()) {
            Ok(_) => self.hear_the_shim(),
            // Out of memory, say: the tree lives on, and so do we.
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
        while let Ok(Some(caught)) = self.queue.next() {
            if caught.is_of_child() {
                self.stop_with_the_command();
            }
            self.pass_on(caught);
        }
    }

    /// A command that stopped itself, as a program does at its own Ctrl-Z, has a shell that waits for us to
    /// stop too: only then it takes its terminal back. Whoever continues us continues the command.
    fn stop_with_the_command(&self) {
        if tree::has_stopped(&self.command) && signals::a_shell_waits_for_us() {
            signals::stop_ourselves();
            drop(tree::resume(&self.command));
        }
    }

    /// How long nothing will be due.
    fn next_look(&self) -> Option<Duration> {
        let mut looks: Vec<Duration> = Vec::new();
        let run = self.since.elapsed();
        looks.extend(self.limits.until_next(run));
        looks.extend(self.say_at.map(|at| at.saturating_duration_since(Instant::now())));
        if self.done > Due::Nothing {
            // What is ending may still start processes; more and more rarely looked for.
            let over = run.saturating_sub(self.limits.max_run.unwrap_or_default());
            looks.push((over / 8).clamp(Duration::from_millis(10), Duration::from_secs(1)));
        }
        looks.into_iter().min()
    }

    /// Passes a signal on, unless the terminal gave it to everybody already.
    fn pass_on(&self, caught: Caught) {
        if caught.is_of_child() {
            return;
        }
        let to_group = caught.went_to_group();
        let has_it = |group: i32| to_group && group == signals::own_group();
        // Not `ended`, which we know only when it was reaped: to a zombie a signal would be lost.
        if !self.command.ended().unwrap_or(false) {
            let group = crate::os::proc::stat(self.command.pid()).map_or(0, |stat| stat.pgrp);
            if !has_it(group) {
                drop(tree::pass_on(&self.command, caught));
            }
            return;
        }
        for (member, fd) in self.open_members() {
            if !has_it(member.pgrp) {
                drop(tree::pass_on(&fd, caught));
            }
        }
    }

    fn open_members(&self) -> Vec<(ProcStat, PidFd)> {
        tree::open_below(std::process::id(), &self.strangers).unwrap_or_default()
    }

    /// Ends the tree when its time is over: asks everybody once, kills whoever is there.
    fn keep_limits(&mut self) {
        let due = self.limits.due(self.since.elapsed());
        if due == Due::Nothing {
            return;
        }
        if due > self.done {
            self.done = due;
            self.asked.clear();
            self.report.warning(&format!("{}: {}", self.name, self.time_over()));
        }
        for (member, fd) in self.open_members() {
            if !self.asked.insert((member.pid, member.start_ticks)) {
                continue;
            }
            drop(if due == Due::Kill { tree::kill(&fd) } else { tree::ask_to_end(&fd) });
        }
    }

    fn time_over(&self) -> String {
        let max_run = duration::show(self.limits.max_run.unwrap_or_default());
        match (self.done, self.limits.kill_after) {
            (Due::Kill, Some(after)) => {
                format!(
                    "--max-run {max_run} and --kill-after {} are over: KILL to what was left",
                    duration::show(after)
                )
            }
            _ => format!("--max-run {max_run} is over: TERM to the command and everything it started"),
        }
    }

    /// Once, when the command has ended and others stay.
    fn say_who_stays(&mut self) {
        let (Some(at), Some(status)) = (self.say_at, self.ended) else { return };
        if Instant::now() < at {
            return;
        }
        self.say_at = None;
        let members = self.members().unwrap_or_default();
        if members.is_empty() {
            return;
        }
        self.report.notice(&format!(
            "{}: the command has ended (status {}), and what it started still runs: {}; the lock is held until it ends",
            self.name,
            status.code(),
            tell::some(&members, 4, |it| tell::seen(it.pid, &it.comm))
        ));
    }
}
