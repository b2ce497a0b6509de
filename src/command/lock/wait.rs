//! Taking a lock, at once or after waiting for its holder; and `wait`, which only waits.

use super::LockCall;
use super::refuse::{Refused, Relation, relation};
use crate::cli::lock::LockWait;
use crate::cli::shared::{InLine, Patience, Wait};
use crate::command::owner;
use crate::command::records::{
    AcquireOutcome, AcquireRequest, AcquiredLock, HolderWatch, NameState, Records, newer,
};
use crate::command::typed::name;
use crate::command::{tell, tell_again, tell_state, turned_away};
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::model::entry::EntryMode;
use crate::model::identity::ProcessIdentity;
use crate::model::name::LockName;
use crate::os::host;
use crate::os::process::{PidFd, Pin, pin};
use crate::report::Report;
use crate::verdict::admission::Admission;
use crate::verdict::liveness::State;
use serde_json::json;
use std::io::IsTerminal;
use std::os::unix::process::parent_id;
use std::time::{Duration, Instant};

/// Who waits longer says so once.
const WORTH_A_WORD: Duration = Duration::from_secs(1);

/// What it came to.
pub(in crate::command) enum TakeResult {
    Yes(Box<AcquiredLock>),
    No(Box<Refused>),
    /// What the caller asked for keeps it from being taken, and nobody has to hold it for that.
    Skip(Error),
}

/// Acquires, waiting as long as `wait` says.
pub(in crate::command) fn take(
    report: &Report,
    store: &Records,
    name: &LockName,
    request: &AcquireRequest<'_>,
    wait: (&Wait, InLine),
) -> Result<TakeResult, Error> {
    take_for(report, store, name, request, wait, None)
}

/// As [`take`], for a call whose refusal nobody reads: where it does not wait, how the holder stands to the
/// caller is not looked at, and it is taken for a stranger.
pub(super) fn take_unread(
    report: &Report,
    store: &Records,
    name: &LockName,
    request: &AcquireRequest<'_>,
    wait: (&Wait, InLine),
) -> Result<TakeResult, Error> {
    take_as(report, store, name, request, wait, RefusalReader::Nobody)
}

/// As [`take`], for a caller: when that ends, the waiting ends too and nothing is taken, whoever is to own it.
pub(super) fn take_for(
    report: &Report,
    store: &Records,
    name: &LockName,
    request: &AcquireRequest<'_>,
    wait: (&Wait, InLine),
    caller: Option<&Caller>,
) -> Result<TakeResult, Error> {
    take_as(report, store, name, request, wait, RefusalReader::Somebody(caller))
}

/// Who is told of a refusal.
#[derive(Clone, Copy)]
enum RefusalReader<'a> {
    Nobody,
    /// With the caller whose end ends the waiting, where there is one.
    Somebody(Option<&'a Caller>),
}

fn take_as(
    report: &Report,
    store: &Records,
    name: &LockName,
    request: &AcquireRequest<'_>,
    (wait, line): (&Wait, InLine),
    reader: RefusalReader<'_>,
) -> Result<TakeResult, Error> {
    let (unread, caller) = match reader {
        RefusalReader::Nobody => (true, None),
        RefusalReader::Somebody(caller) => (false, caller),
    };
    let owner = request.owners.first().ok_or_else(|| Error::new(Kind::Bug, "nobody is to own it"))?;
    let end = end(wait.wait.or(Some(Patience::NONE)));
    let line = LineTerms { counted: true, max_waiting: line.max_waiting };
    let waiter = Waiter { report, store, name, owner, mode: request.mode, caller, line, unread, end };
    let mut first = true;
    let attempt = |in_turn: bool| {
        // Straight for it once; who waits only looks, until it can be taken.
        if !std::mem::take(&mut first) {
            let state = store.state_of(name);
            let newer = state.there().any(|member| matches!(member.judged.state(), State::Newer(_)));
            match store.may_enter(name, &state, request.mode, in_turn) {
                Admission::Enter { .. } => {}
                _ if newer => {}
                refused => return Ok(WaitAttempt::Held(refused, state)),
            }
        }
        match store.acquire(name, request, in_turn) {
            Ok(AcquireOutcome::Acquired(acquired)) => Ok(WaitAttempt::Done(acquired)),
            Ok(AcquireOutcome::NotTaken(why, state)) => Ok(WaitAttempt::Held(why, state)),
            Ok(AcquireOutcome::NotAgain(refused)) => {
                let detail = tell_again::detail(&refused, &request.repeat);
                turned_away::count_unheld(store, name, "refused", detail);
                Err(tell_again::refusal(name, &refused))
            }
            Err(error) if error.kind() == Kind::GuardStuck => Ok(WaitAttempt::Stuck(error)),
            Err(error) => Err(error),
        }
    };
    match waiter.wait(attempt) {
        // Taken in the very moment in which the caller ended: nobody would know the token.
        Ok(Waited::Done(acquired)) if wait.wait.is_some() && caller.is_some_and(Caller::has_ended) => {
            store.undo(name, acquired.record.token, acquired.before.as_ref())?;
            Err(waiter.nobody_to_tell())
        }
        Ok(Waited::Done(acquired)) => Ok(TakeResult::Yes(acquired)),
        Ok(Waited::Refused(refused)) => Ok(TakeResult::No(refused)),
        Err(error) if matches!(error.kind(), Kind::QueueFull | Kind::RanAlready | Kind::TooSoon) => {
            Ok(TakeResult::Skip(error))
        }
        Err(error) => Err(error),
    }
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

/// `wait`: until it is free, paused or not, without taking it. Nothing is written, and nobody is counted.
pub(super) fn until_free(call: &LockCall, args: &LockWait) -> Result<Status, Error> {
    let name = name(&args.name)?;
    let Some(store) = call.existing()? else {
        let looked_in = call.looked_in()?;
        call.report.notice(&format!("{name} was never held in {}", looked_in.display()));
        if call.report.json {
            let object = json!({"name": name.as_str(), "state": "free", "directory": looked_in});
            drop(call.report.object(&object));
        }
        return Ok(Exit::Ok.into());
    };
    let me = host::myself().map_err(|error| Error::io("/proc/self", &error))?;
    let mode = args.entry.mode();
    let line = LineTerms { counted: false, max_waiting: None };
    let waiter = Waiter {
        report: &call.report,
        store: &store,
        name: &name,
        owner: &me,
        mode,
        caller: None,
        line,
        unread: false,
        end: end(args.wait),
    };
    let attempt = |_| {
        let state = store.state_of(&name);
        for member in &state.members {
            if let State::Newer(schema) = member.judged.state() {
                return Err(newer(&name, &store, *schema));
            }
        }
        match store.may_enter_beside(&name, &state, None, mode, false) {
            Admission::Enter { .. } => Ok(WaitAttempt::Done(state)),
            refused => Ok(WaitAttempt::Held(refused, state)),
        }
    };
    match waiter.wait(attempt)? {
        Waited::Done(state) => {
            let judged = state.leading();
            if judged.record().is_none() && matches!(judged.state(), State::Free) {
                call.report.notice(&format!("{name} was never held in {}", store.path().display()));
            }
            if call.report.json {
                let mut object = tell_state::object(&store, &name, &state);
                object["directory"] = json!(store.path());
                drop(call.report.object(&object));
            }
            call.report.detail(&format!("{name} is free in {}", store.path().display()));
            Ok(Exit::Ok.into())
        }
        Waited::Refused(refused) => {
            let error = refused.error(&store, &name);
            call.report.error(&error, refused.may_be_silenced(&store));
            refused.evidence().for_each(|line| call.report.detail(line));
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
    Held(Admission, NameState),
    /// The guard stays taken; that may end like any other holding.
    Stuck(Error),
}

/// How the waiting ended.
enum Waited<T> {
    Done(T),
    Refused(Box<Refused>),
}

/// How somebody stands in the line.
#[derive(Clone, Copy)]
struct LineTerms {
    /// As one who will take it, and not only look.
    counted: bool,
    max_waiting: Option<u64>,
}

/// Who waits for what, and until when.
struct Waiter<'a> {
    report: &'a Report,
    store: &'a Records,
    name: &'a LockName,
    owner: &'a ProcessIdentity,
    mode: EntryMode,
    caller: Option<&'a Caller>,
    line: LineTerms,
    /// Nobody reads a refusal.
    unread: bool,
    end: Option<Instant>,
}

impl Waiter<'_> {
    /// Attempts until it is done, until there is nothing to wait for, or until time is over. The
    /// last attempt begins after that moment.
    fn wait<T>(
        &self,
        mut attempt: impl FnMut(bool) -> Result<WaitAttempt<T>, Error>,
    ) -> Result<Waited<T>, Error> {
        let mut watch: Option<HolderWatch<'_>> = None;
        let mut callers: Option<Vec<u32>> = None;
        let mut said = Instant::now().checked_add(WORTH_A_WORD);
        loop {
            let over = watch.is_some() && self.is_over();
            if let Some(watch) = &mut watch {
                watch.prepare();
                if self.caller.is_some_and(Caller::has_ended) {
                    return Err(self.nobody_to_tell());
                }
                if watch.client_ended() {
                    return Err(self.nobody_to_own_it());
                }
            }
            let in_turn = watch.as_ref().is_some_and(HolderWatch::is_in_turn);
            let (why, state) = match attempt(in_turn)? {
                WaitAttempt::Done(done) => return Ok(Waited::Done(done)),
                WaitAttempt::Held(why, state) => (why, state),
                WaitAttempt::Stuck(error) if self.is_over() => return Err(error),
                WaitAttempt::Stuck(_) => continue,
            };
            let at_once = watch.is_none() && self.is_over();
            let relation = match self.unread && at_once {
                true => Relation::Stranger,
                false => self.relation(&state, &mut callers)?,
            };
            let refused = Refused { why, relation, mode: self.mode, state };
            if over || at_once || !refused.is_worth_waiting() {
                return Ok(Waited::Refused(Box::new(refused)));
            }
            match &mut watch {
                Some(watch) => {
                    if said.is_some_and(|at| Instant::now() >= at) {
                        said = None;
                        self.say_that_we_wait(&refused);
                    }
                    watch.rest(&refused.state, self.end);
                }
                None => watch = Some(self.start()?),
            }
        }
    }

    fn start(&self) -> Result<HolderWatch<'_>, Error> {
        let caller = self.caller.and_then(|it| it.fd.as_ref());
        let counted = self.line.counted.then_some(self.mode);
        HolderWatch::start(self.store, self.name, counted, self.line.max_waiting, (self.client()?, caller))
    }

    /// Once, for a person at a terminal or with -v: what for, and for whom.
    fn say_that_we_wait(&self, refused: &Refused) {
        if !(self.report.verbose || std::io::stderr().is_terminal()) {
            return;
        }
        let others = self.store.waiting(self.name).saturating_sub(u64::from(self.line.counted));
        let line = match others {
            0 => String::new(),
            1 => "; one more waits".to_owned(),
            others => format!("; {others} more wait"),
        };
        let error = refused.error(self.store, self.name);
        self.report.notice(&format!("waiting: {}{line}", error.message()));
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

    fn relation(&self, state: &NameState, callers: &mut Option<Vec<u32>>) -> Result<Relation, Error> {
        let to = |above: &[u32]| relation(self.store, self.name, state, self.mode, self.owner, above);
        let known = callers.is_some();
        let above = match callers {
            Some(above) => above,
            None => callers.insert(owner::callers()?),
        };
        let found = to(above);
        if found == Relation::Ancestor && known {
            // A caller may have ended since, and its number be the holder's now.
            return Ok(to(callers.insert(owner::callers()?)));
        }
        Ok(found)
    }
}
