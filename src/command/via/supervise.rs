//! The supervisor of a run: starts its guardian, lets the keeper prove the hold, passes signals on, and gives the
//! lock back when nothing of the run is left.

use super::ViaCall;
use super::frames::{FrameOrder, Frames, KillReason, News, send};
use super::keeper::{Hold, Keeper, KeeperNews};
use super::start::{GuardedRun, Start, begin};
use crate::command::exec;
use crate::command::lock::status_file::StatusFile;
use crate::command::records::{Records, RunEnd};
use crate::error::{Error, Kind, reason};
use crate::exit::{Exit, Status};
use crate::model::duration;
use crate::model::name::LockName;
use crate::os::process::{PidFd, wait_any};
use crate::os::signals::{self, Caught, SignalQueue};
use crate::os::tree::{self, Collected};
use crate::os::{clock, proc};
use crate::verdict::limits::{Due, Limits};
use crate::verdict::ownership::Credential;
use crate::verdict::via::ViaTimes;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A lost session is worth a word when it lasts.
const WORTH_A_WORD: Duration = Duration::from_secs(10);

/// Runs the command; the status is the command's, unless the lock was lost.
pub(super) fn supervise(mut start: Start<'_>) -> Result<Status, Error> {
    let (records, name, local) = (start.records, start.name, start.acquired.record.token);
    let failed =
        |error: io::Error| Error::new(Kind::System, format!("{name}: nothing was run: {}", reason(&error)));
    let begun = begin(&mut start).map_err(failed).and_then(|guarded| guarded);
    let GuardedRun { guardian, command, orders, news, queue, strangers } = match begun {
        Ok(guarded) => guarded,
        Err(error) => {
            // Nothing runs, so nothing holds the lock. The guardian's pipe is closed, and so it ends, too.
            let wish = &start.wish;
            drop(start.session.release(&wish.name, start.token, &wish.nonce, false, 0, &wish.holder));
            records.release(name, &Credential::Token(local))?;
            return Err(error);
        }
    };
    let orders = Arc::new(orders);
    let hold = Hold {
        place: start.call.place.clone(),
        wish: start.wish,
        id: start.id,
        token: start.token,
        times: start.times,
        session: Some(start.session),
        orders: Some(Arc::clone(&orders)),
    };
    let keeper = Keeper::start(hold).map_err(|error| Error::new(Kind::System, format!("{name}: {error}")))?;
    drop(send(&orders, FrameOrder::Go));
    let run = ViaRun {
        call: start.call,
        records,
        name,
        local,
        token: start.token,
        words: start.words,
        status_file: start.status_file,
        limits: start.limits,
        times: start.times,
        keeper,
        guardian,
        orders,
        news,
        queue,
        strangers,
        command,
        since: Instant::now(),
        done: Due::Nothing,
        executed: false,
        cannot: None,
        status: None,
        killed: None,
        gone: false,
        guarded: true,
        proved_us: start.sent_us,
        cut: false,
        said_cut: false,
        lost: false,
    };
    Ok(run.until_its_end())
}

/// A run under our eyes.
struct ViaRun<'a> {
    call: &'a ViaCall,
    records: &'a Records,
    name: &'a LockName,
    local: u64,
    token: u64,
    words: &'a [OsString],
    status_file: &'a StatusFile,
    limits: Limits,
    times: ViaTimes,
    keeper: Keeper,
    guardian: u32,
    orders: Arc<File>,
    news: Frames,
    queue: SignalQueue,
    strangers: Vec<u32>,
    /// The command, as long as the guardian has it.
    command: Option<PidFd>,
    since: Instant,
    done: Due,
    executed: bool,
    cannot: Option<io::Error>,
    status: Option<Status>,
    killed: Option<KillReason>,
    /// The guardian says that nothing is left.
    gone: bool,
    /// The guardian lives.
    guarded: bool,
    /// The last proof.
    proved_us: u64,
    cut: bool,
    said_cut: bool,
    lost: bool,
}

impl ViaRun<'_> {
    fn until_its_end(mut self) -> Status {
        loop {
            self.hear_the_keeper();
            self.hear_the_guardian();
            self.reap();
            if !self.guarded {
                break;
            }
            self.keep_limits();
            self.say_cut();
            self.wait();
        }
        // What it said just before its end.
        self.hear_the_guardian();
        if !self.gone {
            self.end_everything();
        }
        self.hear_the_keeper();
        self.end()
    }

    fn reap(&mut self) {
        loop {
            match tree::reap() {
                Collected::One(pid, _) if pid == self.guardian => self.guarded = false,
                Collected::One(pid, status) => {
                    if self.command.as_ref().is_some_and(|command| command.pid() == pid)
                        && self.status.is_none()
                    {
                        self.status = Some(Status::of_child(status));
                    }
                    self.strangers.retain(|stranger| *stranger != pid);
                }
                Collected::Nobody => return,
                Collected::Childless => {
                    self.guarded = false;
                    return;
                }
            }
        }
    }

    fn hear_the_guardian(&mut self) {
        for news in self.news.arrived::<News>() {
            match news {
                News::Ready(_) => {}
                News::Began => {
                    self.executed = true;
                    self.keeper.began();
                }
                News::CannotRun(errno) => {
                    self.cannot = Some(io::Error::from_raw_os_error(i32::try_from(errno).unwrap_or(0)));
                }
                News::Frozen => {
                    let frozen = duration::show(self.times.frozen);
                    self.warn(&format!("no answer from the database for {}: the run is stopped until it answers, for at most {frozen}", self.silent()));
                    self.said_cut = true;
                    self.fact("frozen", json!({}));
                }
                News::Thawed => {
                    self.warn("the run goes on");
                    self.fact("thawed", json!({}));
                }
                News::Killing(why) => self.killing(why),
                News::Ended(status) => {
                    self.status = u8::try_from(status).ok().map(Status::chosen);
                }
                News::Gone => self.gone = true,
            }
        }
    }

    fn killing(&mut self, why: KillReason) {
        self.killed = Some(why);
        match why {
            KillReason::Fenced => {
                self.warn(&format!(
                    "no answer from the database for {}: the stopped run was killed",
                    self.silent()
                ));
                self.fact("fenced", json!({}));
            }
            KillReason::Lost => {
                self.warn(&format!(
                    "token {} does not hold the lock any more (taken over, broken by hand, or a promoted server cannot tell); the run was killed",
                    self.token
                ));
                self.fact("lost", json!({}));
            }
            KillReason::Alone | KillReason::Asked => {}
        }
    }

    fn hear_the_keeper(&mut self) {
        for found in self.keeper.news() {
            match found {
                KeeperNews::Proved(sent_us) => self.proved_us = sent_us,
                KeeperNews::Cut(why) => {
                    self.cut = true;
                    self.fact("cut", json!({"reason": why}));
                }
                KeeperNews::Attached => {
                    self.cut = false;
                    if std::mem::take(&mut self.said_cut) {
                        self.warn("the database answers again, and the lock is still ours");
                    }
                    self.fact("attached", json!({}));
                }
                KeeperNews::StopAsked(kill) => {
                    let (order, due) = if kill {
                        (FrameOrder::Kill(KillReason::Asked), Due::Kill)
                    } else {
                        (FrameOrder::Ask, Due::Ask)
                    };
                    if self.done < due {
                        self.done = due;
                        self.warn(if kill {
                            "asked to end by 'stop --kill-after': KILL"
                        } else {
                            "asked to end by 'stop': TERM to the command and everything it started"
                        });
                        drop(send(&self.orders, order));
                    }
                }
                KeeperNews::Lost => self.lost = true,
            }
        }
    }

    /// Once for each outage that lasts.
    fn say_cut(&mut self) {
        let worth = WORTH_A_WORD.min(self.times.fence.unwrap_or(WORTH_A_WORD) / 4);
        if !self.cut || self.said_cut || self.unproved() < worth {
            return;
        }
        self.said_cut = true;
        let fence = match self.times.fence {
            Some(fence) => format!("; the run is stopped at {}", duration::show(fence)),
            None => String::new(),
        };
        self.warn(&format!("no answer from the database for {}{fence}", self.silent()));
    }

    fn unproved(&self) -> Duration {
        Duration::from_micros(clock::boottime_us().saturating_sub(self.proved_us))
    }

    fn silent(&self) -> String {
        duration::show(self.unproved())
    }

    fn warn(&self, line: &str) {
        self.call.report.warning(&format!("{}: {line}", self.name));
    }

    fn fact(&self, fact: &str, mut more: Value) {
        more["token"] = json!(self.token);
        self.status_file.fact(fact, self.name.as_str(), &more);
    }

    fn keep_limits(&mut self) {
        let due = self.limits.due(self.since.elapsed());
        if due <= self.done {
            return;
        }
        self.done = due;
        let max_run = duration::show(self.limits.max_run.unwrap_or_default());
        if due == Due::Kill {
            self.warn(&format!("--max-run {max_run} and --kill-after are over: KILL to what was left"));
            drop(send(&self.orders, FrameOrder::Kill(KillReason::Asked)));
        } else {
            self.warn(&format!("--max-run {max_run} is over: TERM to the command and everything it started"));
            drop(send(&self.orders, FrameOrder::Ask));
        }
    }

    fn wait(&mut self) {
        let mut looks: Vec<Duration> = Vec::new();
        looks.extend(self.limits.until_next(self.since.elapsed()));
        if self.cut && !self.said_cut {
            looks.push(Duration::from_millis(500));
        }
        let mut fds = vec![self.queue.as_fd(), self.keeper.rings.as_fd()];
        if !self.news.over {
            fds.push(self.news.pipe().as_fd());
        }
        if wait_any(&fds, looks.into_iter().min()).is_err() {
            std::thread::sleep(Duration::from_millis(50));
        }
        while let Ok(Some(caught)) = self.queue.next() {
            self.pass_on(caught);
        }
    }

    /// Passes a signal on, unless the terminal gave it to everybody already.
    fn pass_on(&self, caught: Caught) {
        if caught.is_of_child() {
            return;
        }
        let group = self.command.as_ref().and_then(|it| proc::stat(it.pid()).ok()).map(|stat| stat.pgrp);
        if caught.went_to_group() && group == Some(signals::own_group()) {
            return;
        }
        drop(send(&self.orders, FrameOrder::Pass(u64::from((caught.signal as i32).unsigned_abs()))));
    }

    /// The guardian was killed: nothing may work unguarded. Its children died with it, their children are ours now,
    /// and whoever went elsewhere carries the pulse.
    fn end_everything(&mut self) {
        self.warn("its guardian was killed; the run is ended, for nothing may work unguarded");
        let me = std::process::id();
        loop {
            self.reap();
            let below = tree::open_below(me, &self.strangers).unwrap_or_default();
            let judged = self.records.look(self.name);
            let ours = judged.record().is_some_and(|record| record.token == self.local);
            let carriers = if ours { self.records.carriers(self.name, &judged).pids } else { Vec::new() };
            let others = carriers.into_iter().filter(|pid| *pid != me).filter_map(|pid| {
                let fd = PidFd::open(pid).ok()?;
                self.records.carries(self.name, &judged, pid).then_some(fd)
            });
            let left: Vec<PidFd> = below.into_iter().map(|(_, fd)| fd).chain(others).collect();
            if left.is_empty() {
                return;
            }
            left.iter().for_each(|fd| drop(tree::kill(fd)));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Nothing of the run is left.
    fn end(self) -> Status {
        let killed = if self.lost { Some(KillReason::Lost) } else { self.killed };
        let cannot = self.cannot.as_ref().map(|error| exec::cannot_run(&self.call.report, self.words, error));
        let of_command = cannot.or(self.status).unwrap_or_else(|| Status::chosen(137));
        let executed = self.executed && cannot.is_none();
        if let Err(why) = self.keeper.release(executed, of_command.code()) {
            let after = self.times.grace.map_or_else(
                || "it must be broken by hand".to_owned(),
                |grace| format!("other machines wait {} before they take it", duration::show(grace)),
            );
            self.warn(&format!(
                "it has ended, but the lock could not be given back in the database ({why}); {after}"
            ));
        }
        let credential = Credential::Token(self.local);
        let end = RunEnd { status: of_command.code(), held: self.since.elapsed(), detail: None };
        let freed = match self.records.look(self.name).record().filter(|record| record.token == self.local) {
            Some(record) if executed => self.records.end(self.name, record, &end),
            _ => self.records.release(self.name, &credential),
        };
        if let Err(error) = freed {
            self.call.report.warning(&error.to_string());
        }
        let facts = json!({"token": self.token, "status": end.status, "held_s": end.held.as_secs()});
        let fact = if cannot.is_some() { "exec-failed" } else { "ended" };
        self.status_file.fact(fact, self.name.as_str(), &facts);
        match killed {
            Some(KillReason::Lost) => Exit::NoPerm.into(),
            Some(KillReason::Fenced) => Exit::Unavailable.into(),
            _ => of_command,
        }
    }
}
