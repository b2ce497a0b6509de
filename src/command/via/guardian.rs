//! The guardian: the command's parent, which keeps what its supervisor promised and needs neither database nor names
//! nor supervisor for it. Without proof in time it stops the tree; with late proof the tree goes on; a tree that
//! stood too long, or whose lock is somebody else's, or whose supervisor is gone, it kills.

use super::frames::{Charge, FrameOrder, Frames, KillReason, News, send};
use crate::cli::via::GuardianArgs;
use crate::error::{Error, Kind, reason};
use crate::exit::{Exit, Status};
use crate::os::guarding::{BootTimer, StoppedTree, be_called, stay_in_memory};
use crate::os::mask::{SignalMask, TERMINAL_STOPS};
use crate::os::process::{PidFd, wait_any};
use crate::os::signals::{self, SignalQueue};
use crate::os::start_barrier::{ShimAnswer, StartBarrier};
use crate::os::tree::{self, Collected};
use crate::os::{child, clock};
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// How often a stopped tree is looked at again: somebody may have let a part of it go on.
const AGAIN_US: u64 = 100_000;
/// How often a tree that is being killed is looked at: it may still fork.
const KILL_AGAIN_US: u64 = 10_000;

/// Guards until nothing of the tree is left.
pub(super) fn guard(args: &GuardianArgs) -> Result<Status, Error> {
    let system = |error: io::Error| Error::new(Kind::System, format!("guardian: {}", reason(&error)));
    be_called(c"orion-guard");
    let ours = signals::FORWARDED.into_iter().chain(TERMINAL_STOPS).chain([Signal::SIGCHLD]);
    let blocked = SignalMask::block(ours).map_err(system)?;
    let mut pipe = child::adopt_pipe(args.pipe).map_err(system)?;
    let news = child::adopt_writer(args.report).map_err(system)?;
    let (charge, rest) = charge(&mut pipe).map_err(system)?;
    let mask = SignalMask::parse(&charge.mask).unwrap_or_else(|| SignalMask::of([])).and(blocked);
    let queue = SignalQueue::new([Signal::SIGCHLD]).map_err(system)?;
    signals::hear_of_children().map_err(system)?;
    tree::adopt_orphans().map_err(system)?;
    stay_in_memory();
    let (barrier, ends) = StartBarrier::new().map_err(system)?;
    let (go, answer) = ends.numbers();
    let mut command = Command::new("/proc/self/exe");
    command.arg0("orion-via").arg(super::SHIM).args([
        format!("--gate={go}"),
        format!("--answer={answer}"),
        format!("--mask={}", mask.to_text()),
        format!("--parent={}", std::process::id()),
    ]);
    command.arg("--").args(&args.command);
    for (key, value) in &charge.exports {
        match value {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    let child = command.spawn().map_err(system)?.id();
    drop(ends);
    let command = PidFd::open(child).map_err(|errno| system(errno.into()))?;
    drop(send(&news, News::Ready(u64::from(child))));
    let guardian = Guardian {
        until: charge.until,
        charge,
        orders: Frames::new(pipe, rest),
        news,
        queue,
        timer: BootTimer::new().map_err(system)?,
        barrier: Some(barrier),
        command,
        ended: None,
        stopped: StoppedTree::default(),
        frozen: None,
        killing: None,
        asking: false,
        asked: BTreeSet::new(),
        alone: false,
        began: false,
    };
    Ok(guardian.until_nothing_is_left())
}

/// The line of JSON, and what came behind it.
fn charge(pipe: &mut File) -> io::Result<(Charge, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let rest = bytes.split_off(end + 1);
            let charge = serde_json::from_slice(&bytes).map_err(|_| io::ErrorKind::InvalidData)?;
            return Ok((charge, rest));
        }
        let mut buffer = [0; 4096];
        match pipe.read(&mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait_any(&[pipe.as_fd()], None)?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

struct Guardian {
    charge: Charge,
    orders: Frames,
    news: File,
    queue: SignalQueue,
    timer: BootTimer,
    /// Until the shim has answered.
    barrier: Option<StartBarrier>,
    command: PidFd,
    ended: Option<Status>,
    /// The last proof stands until then.
    until: Option<u64>,
    stopped: StoppedTree,
    /// Since when the tree is stopped.
    frozen: Option<u64>,
    killing: Option<KillReason>,
    asking: bool,
    asked: BTreeSet<(u32, u64)>,
    /// The supervisor is gone.
    alone: bool,
    began: bool,
}

impl Guardian {
    fn until_nothing_is_left(mut self) -> Status {
        let me = std::process::id();
        while !self.is_over() {
            self.obey();
            self.act(me);
            if self.is_over() {
                break;
            }
            self.rest();
            while let Ok(Some(_)) = self.queue.next() {}
        }
        self.hear_the_shim();
        // Orders that came with the end: a supervisor that was killed just now cannot release any more.
        self.obey();
        drop(send(&self.news, News::Gone));
        let status = self.ended.unwrap_or(Exit::OsErr.into());
        if self.alone {
            super::release::by_guardian(&self.charge, self.began, status);
        }
        status
    }

    /// Takes note of children that have ended; `true` when none is left.
    fn is_over(&mut self) -> bool {
        loop {
            match tree::reap() {
                Collected::One(pid, status) if pid == self.command.pid() && self.ended.is_none() => {
                    self.hear_the_shim();
                    let status = Status::of_child(status);
                    self.ended = Some(status);
                    drop(send(&self.news, News::Ended(u64::from(status.code()))));
                }
                Collected::One(..) => {}
                Collected::Nobody => return false,
                Collected::Childless => return true,
            }
        }
    }

    fn hear_the_shim(&mut self) {
        let Some(barrier) = &mut self.barrier else { return };
        if !wait_any(&[barrier.as_fd()], Some(Duration::ZERO)).is_ok_and(|ready| !ready.is_empty()) {
            return;
        }
        match barrier.answer() {
            ShimAnswer::Failed(error) => {
                let errno = error.raw_os_error().unwrap_or(nix::libc::ENOEXEC);
                drop(send(&self.news, News::CannotRun(u64::from(errno.unsigned_abs()))));
            }
            ShimAnswer::Closed => {
                self.began = true;
                drop(send(&self.news, News::Began));
            }
        }
        self.barrier = None;
    }

    fn obey(&mut self) {
        self.hear_the_shim();
        for order in self.orders.arrived::<FrameOrder>() {
            match order {
                FrameOrder::Go => {
                    if let Some(barrier) = &mut self.barrier {
                        drop(barrier.open());
                    }
                }
                FrameOrder::Until(time) => self.until = self.until.map(|until| until.max(time)),
                FrameOrder::Pass(signal) => self.pass_on(signal),
                FrameOrder::Ask => self.asking = true,
                FrameOrder::Kill(why) => self.kill_for(why),
            }
        }
        if self.orders.over && !self.alone {
            self.alone = true;
            self.barrier = None;
            self.kill_for(KillReason::Alone);
        }
    }

    fn kill_for(&mut self, why: KillReason) {
        if self.killing.is_none() {
            self.killing = Some(why);
            drop(send(&self.news, News::Killing(why)));
        }
    }

    /// What the time asks for.
    fn act(&mut self, me: u32) {
        let now = clock::boottime_us();
        let proved = self.until.is_none_or(|until| now < until);
        match self.frozen {
            _ if self.killing.is_some() => {}
            None if !proved => {
                self.frozen = Some(now);
                drop(self.stopped.stop(me));
                drop(send(&self.news, News::Frozen));
            }
            Some(_) if proved => {
                self.frozen = None;
                self.stopped.go_on();
                drop(send(&self.news, News::Thawed));
            }
            Some(since) if now.saturating_sub(since) >= self.charge.frozen_us => {
                self.kill_for(KillReason::Fenced);
            }
            Some(_) => drop(self.stopped.stop(me)),
            None => {}
        }
        if self.killing.is_some() {
            for (_, fd) in tree::open_below(me, &[]).unwrap_or_default() {
                drop(tree::kill(&fd));
            }
        } else if self.asking {
            for (member, fd) in tree::open_below(me, &[]).unwrap_or_default() {
                if self.asked.insert((member.pid, member.start_ticks)) {
                    // A stopped tree hears it when it goes on.
                    drop(if self.frozen.is_some() { tree::ask(&fd) } else { tree::ask_to_end(&fd) });
                }
            }
        }
    }

    /// Waits for an order, the end of a child, or the time of the next look.
    fn rest(&self) {
        let now = clock::boottime_us();
        let next = match (self.killing, self.frozen) {
            (Some(_), _) => now + KILL_AGAIN_US,
            (None, Some(since)) => {
                (now + AGAIN_US).min(since.saturating_add(self.charge.frozen_us).max(now + 1))
            }
            (None, None) if self.asking => self.until.unwrap_or(u64::MAX).min(now + AGAIN_US),
            (None, None) => self.until.unwrap_or(0),
        };
        drop(self.timer.set(next));
        let mut fds = vec![self.queue.as_fd(), self.timer.as_fd()];
        if !self.orders.over {
            fds.push(self.orders.pipe().as_fd());
        }
        fds.extend(self.barrier.as_ref().map(AsFd::as_fd));
        // The bound is for a timer that could not be set.
        if wait_any(&fds, Some(Duration::from_secs(1))).is_err() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// To the command; when that has ended, to whatever it left.
    fn pass_on(&self, signal: u64) {
        let signal = i32::try_from(signal).ok().and_then(rustix::process::Signal::from_named_raw);
        let Some(signal) = signal else { return };
        if !self.command.ended().unwrap_or(false) {
            drop(self.command.signal(signal));
            return;
        }
        for (_, fd) in tree::open_below(std::process::id(), &[]).unwrap_or_default() {
            drop(fd.signal(signal));
        }
    }
}
