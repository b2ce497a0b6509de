//! Taking a lock, at once or after waiting for its holder; and `wait`, which only waits.

use super::LockCall;
use super::refuse::{self, Relation, relation};
use crate::cli::lock::LockWait;
use crate::cli::shared::{Patience, Wait};
use crate::command::owner;
use crate::command::records::{
    AcquireOutcome, AcquireRequest, AcquiredLock, HolderWatch, Judged, Records, newer,
};
use crate::command::tell;
use crate::command::typed::name;
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::model::identity::ProcessIdentity;
use crate::model::name::LockName;
use crate::os::host;
use crate::os::process::{PidFd, Pin, pin};
use crate::verdict::liveness::{State, Through};
use crate::verdict::ownership::Credential;
use serde_json::json;
use std::os::unix::process::parent_id;
use std::time::Instant;

/// What it came to.
pub(in crate::command) enum TakeResult {
    Yes(Box<AcquiredLock>),
    No(Box<Judged>, Relation),
}

/// Acquires, waiting as long as `wait` says.
pub(in crate::command) fn take(
    store: &Records,
    name: &LockName,
    request: &AcquireRequest<'_>,
    wait: &Wait,
) -> Result<TakeResult, Error> {
    take_for(store, name, request, wait, None)
}

/// As [`take`], for a caller: when that ends, the waiting ends too and nothing is taken, whoever is to own it.
pub(super) fn take_for(
    store: &Records,
    name: &LockName,
    request: &AcquireRequest<'_>,
    wait: &Wait,
    caller: Option<&Caller>,
) -> Result<TakeResult, Error> {
    let owner = request.owners.first().ok_or_else(|| Error::new(Kind::Bug, "nobody is to own it"))?;
    let waiter = Waiter { store, name, owner, caller, end: end(wait.wait.or(Some(Patience::NONE))) };
    let mut first = true;
    let attempt = || {
        // Straight for it once; who waits only looks, until it can be taken.
        if !std::mem::take(&mut first) {
            let judged = store.look(name);
            if matches!(judged.state(), State::Live(_) | State::Unknown(_)) {
                return Ok(WaitAttempt::Held(judged));
            }
        }
        match store.acquire(name, request) {
            Ok(AcquireOutcome::AcquiredLock(acquired)) => Ok(WaitAttempt::Done(acquired)),
            Ok(AcquireOutcome::NotTaken(judged)) => Ok(WaitAttempt::Held(judged)),
            Err(error) if error.kind() == Kind::GuardStuck => Ok(WaitAttempt::Stuck(error)),
            Err(error) => Err(error),
        }
    };
    Ok(match waiter.wait(attempt)? {
        // Taken in the very moment in which the caller ended: nobody would know the token.
        Ok(acquired) if wait.wait.is_some() && caller.is_some_and(Caller::has_ended) => {
            store.release(name, &Credential::Token(acquired.record.token))?;
            return Err(waiter.nobody_to_tell());
        }
        Ok(acquired) => TakeResult::Yes(acquired),
        Err((judged, relation)) => TakeResult::No(judged, relation),
    })
}

/// The process that called this one.
#[derive(Debug)]
pub(super) struct Caller {
    pid: u32,
    /// Its end wakes us; `None` where that cannot be had, and a look now and then must do.
    fd: Option<PidFd>,
}

impl Caller {
    pub(super) fn of_this_process() -> Self {
        let pid = parent_id();
        Self { pid, fd: PidFd::open(pid).ok() }
    }

    /// Whoever is our parent now was not, if it has (getppid(2)).
    fn has_ended(&self) -> bool {
        parent_id() != self.pid
    }
}

/// `wait`: until it is free, without taking it. Nothing is written, and nobody is counted.
pub(super) fn until_free(call: &LockCall, args: &LockWait) -> Result<Status, Error> {
    let name = name(&args.name)?;
    let Some(store) = call.existing()? else {
        let looked_in = call.looked_in()?;
        call.report.say(&format!("{name} was never held in {}", looked_in.display()));
        if call.report.json {
            let object = json!({"name": name.as_str(), "state": "free", "directory": looked_in});
            drop(call.report.object(&object));
        }
        return Ok(Exit::Ok.into());
    };
    let me = host::myself().map_err(|error| Error::io("/proc/self", &error))?;
    let waiter = Waiter { store: &store, name: &name, owner: &me, caller: None, end: end(args.wait) };
    let attempt = || {
        let judged = store.look(&name);
        match judged.state() {
            State::Free | State::Dead | State::Corrupt(_) => Ok(WaitAttempt::Done(judged)),
            State::Newer(schema) => Err(newer(&name, &store, *schema)),
            State::Live(_) | State::Unknown(_) => Ok(WaitAttempt::Held(judged)),
        }
    };
    match waiter.wait(attempt)? {
        Ok(judged) => {
            if judged.record().is_none() && matches!(judged.state(), State::Free) {
                call.report.say(&format!("{name} was never held in {}", store.path().display()));
            }
            if call.report.json {
                let mut object = tell::object(&store, &name, &judged);
                object["directory"] = json!(store.path());
                drop(call.report.object(&object));
            }
            call.report.note(&format!("{name} is free in {}", store.path().display()));
            Ok(Exit::Ok.into())
        }
        Err((judged, relation)) => {
            let stopped =
                matches!(judged.state(), State::Live(holder) if tell::is_stopped(&store, &judged, *holder));
            let error = refuse::error(&store, &name, &judged, relation, stopped);
            call.report.error(&error, matches!(judged.state(), State::Live(_)) && !stopped);
            for line in &judged.judgement.evidence {
                call.report.note(line);
            }
            Ok(Exit::from(error.kind()).into())
        }
    }
}

/// When patience ends, by a clock that nobody can set; `None` never.
fn end(patience: Option<Patience>) -> Option<Instant> {
    match patience {
        Some(Patience::For(duration)) => Instant::now().checked_add(duration),
        Some(Patience::Forever) | None => None,
    }
}

/// What one attempt gave.
enum WaitAttempt<T> {
    Done(T),
    Held(Judged),
    /// The guard stays taken; that may end like any other holding.
    Stuck(Error),
}

/// Who waits for what, and until when.
struct Waiter<'a> {
    store: &'a Records,
    name: &'a LockName,
    owner: &'a ProcessIdentity,
    caller: Option<&'a Caller>,
    end: Option<Instant>,
}

impl Waiter<'_> {
    /// Attempts until it is done, until there is nothing to wait for, or until time is over. The
    /// last attempt begins after that moment.
    fn wait<T>(
        &self,
        mut attempt: impl FnMut() -> Result<WaitAttempt<T>, Error>,
    ) -> Result<Result<T, (Box<Judged>, Relation)>, Error> {
        let mut watch: Option<HolderWatch<'_>> = None;
        let mut callers: Option<Vec<u32>> = None;
        loop {
            let mut over = false;
            if let Some(watch) = &mut watch {
                over = self.end.is_some_and(|end| Instant::now() >= end);
                watch.prepare();
                if self.caller.is_some_and(Caller::has_ended) {
                    return Err(self.nobody_to_tell());
                }
                if watch.client_ended() {
                    return Err(self.nobody_to_own_it());
                }
            }
            let judged = match attempt()? {
                WaitAttempt::Done(done) => return Ok(Ok(done)),
                WaitAttempt::Held(judged) => judged,
                WaitAttempt::Stuck(error) => {
                    if self.is_over() {
                        return Err(error);
                    }
                    continue;
                }
            };
            let relation = self.relation(&judged, &mut callers)?;
            let waits = relation == Relation::Stranger && worth_waiting(&judged);
            match &mut watch {
                _ if over || !waits => return Ok(Err((Box::new(judged), relation))),
                Some(watch) => watch.rest(&judged, self.end),
                None if self.is_over() => return Ok(Err((Box::new(judged), relation))),
                None => {
                    let caller = self.caller.and_then(|it| it.fd.as_ref());
                    watch = Some(HolderWatch::start(self.store, self.name, self.client()?, caller));
                }
            }
        }
    }

    fn is_over(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// The owner-to-be, where it is another process: without it there is nothing to wait for.
    fn client(&self) -> Result<Option<PidFd>, Error> {
        if self.owner.pid == std::process::id() {
            return Ok(None);
        }
        match pin(self.owner) {
            Pin::Running(fd) => Ok(Some(fd)),
            Pin::Ended => Err(self.nobody_to_own_it()),
            Pin::Unknown(_) => Ok(None),
        }
    }

    fn nobody_to_tell(&self) -> Error {
        Error::new(
            Kind::OwnerEnded,
            format!("{}: not taken: the caller of this command ended while it waited", self.name),
        )
    }

    fn nobody_to_own_it(&self) -> Error {
        Error::new(
            Kind::OwnerEnded,
            format!("{}: not taken: {} ended while we waited for it", self.name, tell::process(self.owner)),
        )
    }

    fn relation(&self, judged: &Judged, callers: &mut Option<Vec<u32>>) -> Result<Relation, Error> {
        if let State::Live(Through::Descendant | Through::Carrier) = judged.state()
            && self.store.carries(self.name, judged, std::process::id())
        {
            return Ok(Relation::Ancestor);
        }
        let known = callers.is_some();
        let above = match callers {
            Some(above) => above,
            None => callers.insert(owner::callers()?),
        };
        let found = relation(self.store, judged, self.owner, above);
        if found == Relation::Ancestor && known {
            // A caller may have ended since, and its number be the holder's now.
            return Ok(relation(self.store, judged, self.owner, callers.insert(owner::callers()?)));
        }
        Ok(found)
    }
}

/// A record that cannot be read will not get better; an owner that cannot be judged may end.
fn worth_waiting(judged: &Judged) -> bool {
    match judged.state() {
        State::Live(_) => true,
        State::Unknown(_) => judged.record().is_some(),
        _ => false,
    }
}
