//! Asking a holder to end, for `stop` and `run --replace`: TERM through pidfds to the
//! owners, to whoever carries the pulse of that token, and to everything below a
//! supervisor. Frees nothing: a lock is free when its holder has ended.

use crate::command::records::{Judged, Records, event_of};
use crate::command::tell;
use crate::error::{Error, Kind, reason};
use crate::model::event::Event;
use crate::model::name::LockName;
use crate::os::process::{PidFd, wait_any};
use crate::os::{clock, tree};
use crate::verdict::liveness::State;
use crate::verdict::ownership::Credential;
use std::cell::RefCell;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How often to look whether it holds the lock still.
const LOOK: Duration = Duration::from_millis(100);
/// The rarest look for processes that were started meanwhile, which reads all of `/proc`.
const SEARCH: Duration = Duration::from_secs(2);

/// What is wanted of the holder with a token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) token: u64,
    /// `None`: for ever.
    pub(super) until: Option<Instant>,
    /// `None`: it is never killed.
    pub(super) kill_at: Option<Instant>,
    /// Not only the lock is to be free: whoever was asked must have ended.
    pub(super) all_ended: bool,
    /// For the log: who asked.
    pub(super) by: &'a str,
}

/// What it came to.
#[derive(Debug)]
pub(super) enum HolderEnd {
    /// It holds the lock no more.
    Yes,
    /// Time ran out. Whoever is left, if that could be seen.
    StillThere(Judged, Vec<u32>),
}

/// Asks the holder to end and waits.
///
/// # Errors
/// UNAVAILABLE where the owner cannot be judged, and what the system answers.
pub(super) fn end_holder(store: &Records, name: &LockName, wanted: &Wanted<'_>) -> Result<HolderEnd, Error> {
    let mut asked = AskedHolder {
        store,
        name,
        wanted,
        processes: Vec::new(),
        supervisor: None,
        killed: false,
        pause: LOOK,
        search_at: Instant::now(),
    };
    loop {
        let judged = store.look_for(name, &Credential::Token(wanted.token));
        let live = match (judged.record(), judged.state()) {
            _ if judged.token.is_some_and(|token| token != wanted.token) => false,
            (Some(record), _) if record.released_at.is_some() => false,
            (_, State::Live(_)) => true,
            (_, State::Unknown(_) | State::Newer(_)) => return Err(tell::refusal(store, name, &judged)),
            (_, State::Free | State::Dead | State::Corrupt(_)) => false,
        };
        let now = Instant::now();
        if asked.forget_the_ended() {
            // Somebody holds it whom we have not seen yet.
            asked.search_at = now;
        }
        if !live && (asked.processes.is_empty() || !wanted.all_ended) {
            return Ok(HolderEnd::Yes);
        }
        let kill = wanted.kill_at.is_some_and(|at| now >= at);
        let search = now >= asked.search_at || (kill && !asked.killed);
        if live && search {
            asked.ask(&judged, kill)?;
            asked.search_at = now + asked.pause;
            asked.pause = (asked.pause * 2).min(SEARCH);
        } else if !live && kill {
            asked.kill_those_left()?;
        }
        if wanted.until.is_some_and(|until| now >= until) {
            let left = asked.processes.iter().map(PidFd::pid).collect();
            return Ok(HolderEnd::StillThere(judged, left));
        }
        asked.wait(now)?;
    }
}

/// Whom we asked.
struct AskedHolder<'a> {
    store: &'a Records,
    name: &'a LockName,
    wanted: &'a Wanted<'a>,
    processes: Vec<PidFd>,
    supervisor: Option<PidFd>,
    killed: bool,
    /// How long until the next search.
    pause: Duration,
    search_at: Instant,
}

impl AskedHolder<'_> {
    /// `true`: the last of them has just ended.
    fn forget_the_ended(&mut self) -> bool {
        let before = self.processes.len();
        self.processes.retain(|fd| !fd.ended().unwrap_or(false));
        before > 0 && self.processes.is_empty()
    }

    /// TERM to those who were not asked yet, or KILL to everybody.
    fn ask(&mut self, judged: &Judged, kill: bool) -> Result<(), Error> {
        let holders = self.store.holders(self.name, judged)?;
        let known = |fd: &PidFd| self.processes.iter().any(|known| known.pid() == fd.pid());
        let newcomers: Vec<PidFd> = holders.processes.into_iter().filter(|fd| !known(fd)).collect();
        let first = self.processes.is_empty() && self.supervisor.is_none();
        if let Some(supervisor) = &holders.supervisor {
            // It ends by itself when the others have, unless it is stopped.
            drop(tree::resume(supervisor));
        }
        self.supervisor = holders.supervisor;
        let failed: RefCell<Option<(u32, std::io::Error)>> = RefCell::new(None);
        let note = |fd: &PidFd, result: std::io::Result<()>| {
            if let Err(error) = result {
                failed.borrow_mut().get_or_insert((fd.pid(), error));
            }
        };
        let kill_now = kill && (!self.killed || !newcomers.is_empty());
        if newcomers.is_empty() && !kill_now {
            return Ok(());
        }
        // Not a moment after it was given to somebody else, perhaps to the same process.
        let was_held = self.store.while_held(self.name, self.wanted.token, || {
            for fd in &newcomers {
                note(fd, if kill { tree::kill(fd) } else { tree::ask_to_end(fd) });
            }
            if kill_now {
                let rest = self.processes.iter().chain(&self.supervisor);
                rest.for_each(|fd| note(fd, tree::kill(fd)));
            }
        });
        match was_held {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            // Somebody else's by now, as the next look will show.
            Err(error) if error.kind() == Kind::NotOwner => return Ok(()),
            Err(error) => return Err(error),
        }
        self.log(&newcomers, judged, if kill_now { "KILL" } else { "TERM" }, first || kill_now);
        self.killed |= kill_now;
        self.processes.extend(newcomers);
        match failed.into_inner() {
            Some((pid, error)) => {
                Err(Error::new(Kind::System, format!("{}: pid {pid}: {}", self.name, reason(&error)))
                    .hint("it belongs to another user; ask as that user or as root"))
            }
            None => Ok(()),
        }
    }

    /// The lock is free, and whoever was asked has not ended.
    fn kill_those_left(&mut self) -> Result<(), Error> {
        for fd in &self.processes {
            tree::kill(fd).map_err(|error| Error::io(&format!("{}: pid {}", self.name, fd.pid()), &error))?;
        }
        self.killed = true;
        Ok(())
    }

    fn log(&self, newcomers: &[PidFd], judged: &Judged, signal: &str, worth_it: bool) {
        if !worth_it {
            return;
        }
        let all = self.processes.iter().filter(|_| signal == "KILL").chain(newcomers);
        let pids: Vec<u32> = all.map(PidFd::pid).collect();
        let detail = format!("{signal} to {}; {}", shown(&pids), self.wanted.by);
        let event = match judged.record() {
            Some(record) => event_of("stopped", self.name, record),
            None => Event::new("stopped", clock::wall().rfc3339(), self.name.as_str()),
        };
        self.store.log(self.name, &[Event { token: judged.token, detail: Some(detail), ..event }]);
    }

    fn wait(&self, now: Instant) -> Result<(), Error> {
        let ends = [self.wanted.until, self.wanted.kill_at.filter(|_| !self.killed)];
        let next = ends.into_iter().flatten().map(|end| end.saturating_duration_since(now));
        let next = next.min().unwrap_or(LOOK).min(LOOK);
        if self.processes.is_empty() {
            // Somebody we cannot see, or a supervisor that is just going.
            std::thread::sleep(next.min(Duration::from_millis(10)));
            return Ok(());
        }
        let fds: Vec<_> = self.processes.iter().map(AsFd::as_fd).collect();
        wait_any(&fds, Some(next)).map_err(|error| Error::io("poll", &error))?;
        Ok(())
    }
}

/// `pid 812 (pi), pid 913 (node)`.
pub(super) fn shown(pids: &[u32]) -> String {
    match pids {
        [] => "nobody that can be seen from here".to_owned(),
        _ => tell::some(pids, 4, |pid| format!("pid {}", tell::seen_now(*pid))),
    }
}

/// A holder that is one of our own callers, or that holds it through us, is not to be ended by us.
///
/// # Errors
/// It is.
pub(super) fn not_our_own(store: &Records, name: &LockName, judged: &Judged) -> Result<(), Error> {
    if !matches!(judged.state(), State::Live(_)) {
        return Ok(());
    }
    let callers: Vec<u32> = crate::command::owner::ancestors()?.iter().map(|caller| caller.pid).collect();
    let above = judged.record().is_some_and(|record| store.is_owned_by_one_of(record, &callers));
    let through_us = || store.carries(name, judged, std::process::id());
    if above || through_us() {
        return Err(Error::new(
            Kind::HeldByAncestor,
            format!(
                "{name} is held by your own caller; ending it would end this command too; token {}",
                judged.token.unwrap_or(0)
            ),
        )
        .hint("from another terminal it can be ended"));
    }
    Ok(())
}

/// Not ended in time, as an error.
pub(super) fn still_there(name: &LockName, judged: &Judged, left: &[u32], advice: &str) -> Error {
    let who = shown(left);
    let what = if matches!(judged.state(), State::Live(_)) {
        format!("{name} is still held after its holder was asked to end: {who}")
    } else {
        format!("{name} is free, but what was asked to end still runs: {who}")
    };
    Error::new(Kind::StillRunning, what).hint(advice)
}
