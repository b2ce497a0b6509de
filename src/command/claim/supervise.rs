//! The command of a run under our eyes, and everything that it starts: until the last of
//! it has ended, the ticket is not handed over. Signals are passed on; a run that is told
//! to end, or whose time is over, ends its whole tree.

use super::{Claims, workers};
use crate::exit::Status;
use crate::model::duration;
use crate::model::name::LockName;
use crate::model::observation::PulseFacts;
use crate::model::ticket::Key;
use crate::os::process::{PidFd, wait_any};
use crate::os::signals::{self, Caught, SignalQueue};
use crate::os::start_barrier::StartBarrier;
use crate::os::tree::{self, Collected};
use crate::verdict::limits::{Due, Limits};
use crate::verdict::run_end::{CommandEnd, Told};
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// What a command leaves behind for no longer than this is not worth a word.
const LINGER: Duration = Duration::from_millis(200);
/// How often a pulse is asked for that nobody below us carries.
const ASK_PULSE: Duration = Duration::from_millis(500);
/// A command that was told to end has this long to end what it started itself.
const FIRST_ITSELF: Duration = Duration::from_secs(5);
/// Between two looks at a tree that was told to end, at first.
const LOOK: Duration = Duration::from_millis(10);

/// A run whose command was started.
pub(super) struct Supervised<'a> {
    pub(super) claims: &'a Claims,
    pub(super) key: &'a Key,
    pub(super) name: &'a LockName,
    pub(super) token: u64,
    pub(super) queue: &'a SignalQueue,
    pub(super) command: PidFd,
    pub(super) barrier: StartBarrier,
    pub(super) limits: Limits,
    /// The command alone counts: what it leaves is meant to stay.
    pub(super) owner_only: bool,
    since: Instant,
    told: Told,
    told_at: Option<Instant>,
    /// What was done to the tree, and to whom, by pid and start.
    done: Due,
    asked: BTreeSet<(u32, u64)>,
    looks: u32,
}

/// How the command ended, and what we had to do with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeenRun {
    pub(super) status: ExitStatus,
    pub(super) told: Told,
    pub(super) ran: Duration,
}

impl SeenRun {
    /// For the verdict.
    pub(super) fn end(&self) -> CommandEnd {
        CommandEnd { code: self.status.code(), signal: self.status.signal() }
    }
}

impl<'a> Supervised<'a> {
    #[expect(clippy::too_many_arguments, reason = "what a run is, given once")]
    pub(super) fn new(
        claims: &'a Claims,
        key: &'a Key,
        name: &'a LockName,
        token: u64,
        queue: &'a SignalQueue,
        command: PidFd,
        barrier: StartBarrier,
        limits: Limits,
        owner_only: bool,
    ) -> Self {
        Self {
            claims,
            key,
            name,
            token,
            queue,
            command,
            barrier,
            limits,
            owner_only,
            since: Instant::now(),
            told: Told::Nothing,
            told_at: None,
            done: Due::Nothing,
            asked: BTreeSet::new(),
            looks: 0,
        }
    }

    /// Waits for the command. Whatever fails here, it is waited for.
    pub(super) fn until_the_command_ends(&mut self) -> SeenRun {
        loop {
            if let Some(status) = self.collect() {
                return SeenRun { status, told: self.told, ran: self.since.elapsed() };
            }
            self.keep_limits(true);
            let until = self.next_look();
            self.wait(until);
            self.hear(true);
        }
    }

    /// Waits for everything that the command left behind.
    pub(super) fn until_the_tree_ends(&mut self, status: ExitStatus) {
        if self.owner_only {
            return;
        }
        let mut say_at = Some(Instant::now() + LINGER);
        loop {
            self.collect();
            let below = tree::below(std::process::id(), &[]).unwrap_or_default();
            if below.is_empty() && !self.pulse_is_held() {
                return;
            }
            if say_at.is_some_and(|at| at <= Instant::now()) {
                say_at = None;
                self.say_who_stays(status, below.iter().map(|member| member.pid).collect());
            }
            self.keep_limits(false);
            let linger = say_at.map(|at| at.saturating_duration_since(Instant::now()));
            let pulse = below.is_empty().then_some(ASK_PULSE);
            let until = [self.next_look(), linger, pulse].into_iter().flatten().min();
            self.wait(until);
            self.hear(false);
        }
    }

    /// Takes note of children that have ended; gives the status of the command.
    fn collect(&self) -> Option<ExitStatus> {
        let mut command = None;
        loop {
            match tree::reap() {
                Collected::One(pid, status) if pid == self.command.pid() => command = Some(status),
                Collected::One(..) => {}
                Collected::Nobody | Collected::Childless => return command,
            }
        }
    }

    fn pulse_is_held(&self) -> bool {
        self.claims.store.pulse(self.name, self.token) != PulseFacts::Free
    }

    fn wait(&self, timeout: Option<Duration>) {
        if wait_any(&[self.queue.as_fd()], timeout).is_err() {
            // Out of memory, say: the tree lives on, and so do we.
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Passes signals on: to the command while it runs, then to what it left.
    fn hear(&mut self, command_runs: bool) {
        while let Ok(Some(caught)) = self.queue.next() {
            if caught.is_of_child() {
                continue;
            }
            let told = match caught.signal {
                Signal::SIGTERM | Signal::SIGHUP => Told::BySystem,
                Signal::SIGINT | Signal::SIGQUIT => Told::ByPerson,
                _ => Told::Nothing,
            };
            if told != Told::Nothing && self.told == Told::Nothing {
                self.told = told;
                self.told_at = Some(Instant::now());
            }
            if command_runs {
                self.pass_on(caught);
            } else if told == Told::Nothing {
                for (_, fd) in tree::open_below(std::process::id(), &[]).unwrap_or_default() {
                    drop(tree::pass_on(&fd, caught));
                }
            }
        }
    }

    /// To the command, unless the terminal gave it to its group already.
    fn pass_on(&self, caught: Caught) {
        let group = crate::os::proc::stat(self.command.pid()).map_or(0, |stat| stat.pgrp);
        if !(caught.went_to_group() && group == signals::own_group()) {
            drop(tree::pass_on(&self.command, caught));
        }
    }

    /// What is due: the time of the run, or the time since somebody told it to end.
    fn due(&self) -> Due {
        let by_time = self.limits.due(self.since.elapsed());
        let by_word = match (self.told_at, self.limits.kill_after) {
            (Some(at), Some(after)) if at.elapsed() >= after => Due::Kill,
            (Some(_), _) => Due::Ask,
            (None, _) => Due::Nothing,
        };
        by_time.max(by_word)
    }

    /// Ends the tree when that is due: asks everybody once, kills whoever is there. Of a run
    /// that was told to end, the command is asked first.
    fn keep_limits(&mut self, command_runs: bool) {
        let due = self.due();
        let time_over = self.limits.due(self.since.elapsed()) > Due::Nothing;
        if time_over && self.told == Told::Nothing {
            self.told = Told::TimeOver;
            let over = duration::show(self.limits.max_run.unwrap_or_default());
            let line = format!("--max-run {over} is over: TERM to the command and everything it started");
            self.claims.report.warning(&format!("{}: {line}", self.key));
        }
        let first_itself = self.told_at.is_some_and(|at| at.elapsed() < FIRST_ITSELF);
        if due == Due::Nothing || (due == Due::Ask && command_runs && !time_over && first_itself) {
            return;
        }
        if due > self.done {
            self.done = due;
            self.asked.clear();
            self.looks = 0;
        }
        if self.owner_only {
            if self.asked.insert((self.command.pid(), 0)) {
                self.end(due, &self.command);
            }
            return;
        }
        for (member, fd) in tree::open_below(std::process::id(), &[]).unwrap_or_default() {
            if self.asked.insert((member.pid, member.start_ticks)) {
                self.end(due, &fd);
            }
        }
    }

    /// One that has ended is not a failure, and any other is seen by its staying.
    fn end(&self, due: Due, process: &PidFd) {
        drop(if due == Due::Kill { tree::kill(process) } else { tree::ask_to_end(process) });
    }

    /// How long nothing will be due.
    fn next_look(&mut self) -> Option<Duration> {
        let mut looks: Vec<Duration> = Vec::new();
        looks.extend(self.limits.until_next(self.since.elapsed()));
        if let (Some(at), Some(after)) = (self.told_at, self.limits.kill_after)
            && self.done < Due::Kill
        {
            looks.push(after.saturating_sub(at.elapsed()));
        }
        if self.done > Due::Nothing || self.told_at.is_some() {
            // What is ending may still start processes; more and more rarely looked for.
            self.looks = (self.looks + 1).min(7);
            looks.push(LOOK * (1 << self.looks));
        }
        looks.into_iter().min()
    }

    /// Once, when the command has ended and others stay.
    fn say_who_stays(&self, status: ExitStatus, below: Vec<u32>) {
        let carriers = self.claims.store.carriers_of(self.name, self.token).pids;
        let who = if below.is_empty() { carriers } else { below };
        let who = if who.is_empty() {
            "a process that cannot be seen from here".to_owned()
        } else {
            workers::named(&who)
        };
        self.claims.report.warning(&format!(
            "{}: the command has ended (status {}), and what it started still runs: {who}; the ticket stays claimed until that ends",
            self.key,
            Status::of_child(status).code(),
        ));
    }
}
