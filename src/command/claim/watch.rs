//! `watch`: passes until stopped. Every pass heals first, then claims and starts the command for
//! every free slot. Each ticket has a `run` of its own, so that the end of the watch
//! is not the end of the work.

use super::next::free;
use super::reconcile::{Trouble, pass};
use super::repair::Healing;
use super::settings::ClaimSettings;
use super::watch_breaker::WatchBreaker;
use super::watch_start::WatchedRun;
use super::{ClaimCall, Claims, pausing, shim, stage};
use crate::cli::claim_run::ClaimWatch;
use crate::command::exec;
use crate::command::records::PauseScope;
use crate::error::{Error, Kind, reason};
use crate::exit::{Exit, Status};
use crate::model::address::Address;
use crate::model::duration;
use crate::model::ticket::{Key, Ticket};
use crate::os::process::wait_any;
use crate::os::signal_pipe::SignalPipe;
use crate::os::{random, signals};
use crate::tracker::{Failure, Why};
use crate::verdict::breaker::Allowed;
use crate::verdict::liveness::State;
use crate::verdict::pause::PauseState;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// A tracker that is down is asked again at least that often.
const SLOWEST: Duration = Duration::from_secs(900);

struct Watcher<'a> {
    call: &'a ClaimCall,
    args: &'a ClaimWatch,
    claims: Claims,
    every: Duration,
    max: usize,
    running: Vec<WatchedRun>,
    /// What the last pass left to claim.
    queue: VecDeque<Key>,
    /// Tickets that we tried a moment ago, and until when they are left alone.
    left_alone: HashMap<Key, Instant>,
    /// What was said of a ticket last.
    said: HashMap<Key, String>,
    /// Tickets that could not be read in the last pass.
    unreadable: BTreeSet<String>,
    failures: u32,
    /// A pass went through.
    was_there: bool,
    /// Tickets that we started the command for.
    started: Vec<Key>,
    breaker: WatchBreaker,
    /// What a ticket that was given back looked like when it was seen first: a change ends its pause.
    looks: HashMap<Key, Option<String>>,
    /// The pause that was said last.
    paused: PauseState,
}

pub(super) fn watch(call: &ClaimCall, args: &ClaimWatch) -> Result<Status, Error> {
    exec::check(&args.command, "orion-claim watch CMD [ARG...]")?;
    if let Some(stage) = &args.how.stage {
        stage::name(stage.as_ref())?;
    }
    if let Some(status) = shim::unusable(&call.report, &args.command) {
        return Ok(status);
    }
    let settings = ClaimSettings::read(&call.shared)?;
    let every = args.every.unwrap_or(settings.watch_every);
    let max = args.max.unwrap_or(settings.watch_max);
    if every.is_zero() || max == 0 {
        return Err(Error::usage("--every and --max are at least one second and one ticket"));
    }
    let system = |error: std::io::Error| Error::new(Kind::System, format!("signals: {}", reason(&error)));
    signals::hear_of_children().map_err(system)?;
    let stop = SignalPipe::new(&[Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]).map_err(system)?;
    let claims = call.claims_of(settings)?;
    args.how.check(&claims)?;
    let breaker = WatchBreaker::open(&claims, args)?;
    let mut watcher = Watcher {
        call,
        args,
        claims,
        every,
        max: usize::try_from(max).unwrap_or(usize::MAX),
        running: Vec::new(),
        queue: VecDeque::new(),
        left_alone: HashMap::new(),
        said: HashMap::new(),
        unreadable: BTreeSet::new(),
        failures: 0,
        was_there: false,
        started: Vec::new(),
        breaker,
        looks: HashMap::new(),
        paused: PauseState::NotPaused,
    };
    watcher.until_stopped(&stop)
}

impl Watcher<'_> {
    fn until_stopped(&mut self, stop: &SignalPipe) -> Result<Status, Error> {
        let mut stops = 0;
        let mut fatal: Option<Error> = None;
        let mut next_pass = Instant::now();
        loop {
            let draining = stops > 0 || fatal.is_some();
            if draining && (self.running.is_empty() || stops > 2) {
                break;
            }
            if !draining && Instant::now() >= next_pass {
                let last_pass = Instant::now();
                match self.pass() {
                    Ok(()) => {
                        self.was_there = true;
                        next_pass = last_pass + self.every;
                    }
                    Err(Trouble::Tracker(failure)) if failure.is_passing() || self.is_away(&failure) => {
                        let wait = self.back_off(&failure);
                        next_pass = Instant::now() + wait;
                    }
                    Err(trouble) => {
                        fatal = Some(trouble.into());
                        continue;
                    }
                }
            }
            let until = (!draining).then(|| next_pass.saturating_duration_since(Instant::now()));
            let until = until.map(|until| {
                until.min(self.breaker.until_trial().filter(|_| !self.queue.is_empty()).unwrap_or(until))
            });
            self.wait(stop, until)?;
            let before = stops;
            stops += stop.rings();
            if stops > 0 && before == 0 {
                self.event(
                    "draining",
                    None,
                    &format!("no new tickets; {} still at work", self.running.len()),
                );
            }
            if stops > 1 && before < 2 {
                self.end_all();
            }
            let ended = self.collect();
            // A freed slot takes the next of the last listing; one listing per --every, whatever ends.
            if stops == 0 && fatal.is_none() && (ended || self.breaker.is_open()) {
                self.fill();
            }
        }
        let left = self.still_claimed();
        for key in &left {
            self.call.report.warning(&format!("{key}: still claimed"));
        }
        match fatal {
            Some(error) => Err(error),
            None if left.is_empty() => Ok(Exit::Ok.into()),
            None => Ok(Exit::Unavailable.into()),
        }
    }

    /// A directory of tickets that was there will come back (a mount, a checkout); one that never was is
    /// a wrong name.
    fn is_away(&self, failure: &Failure) -> bool {
        let of_files = matches!(self.claims.settings.address, Address::File(_));
        self.was_there && of_files && failure.why() == Why::NoTracker
    }

    /// Until a run ends, somebody wants us to stop, or it is time for the next pass.
    fn wait(&self, stop: &SignalPipe, until: Option<Duration>) -> Result<(), Error> {
        let mut fds: Vec<BorrowedFd<'_>> = vec![stop.as_fd()];
        fds.extend(self.running.iter().map(|run| run.fd.as_fd()));
        wait_any(&fds, until).map(drop).map_err(|error| Error::io("waiting", &error))
    }

    /// Heals, then claims. Heals also when every slot is taken.
    fn pass(&mut self) -> Result<(), Trouble> {
        let pass = pass(&self.claims, false)?;
        self.breaker.mend(&self.claims);
        for (key, healed) in &pass.rows {
            let line = healed.line(key);
            let worth = healed.report || healed.outcome != Healing::Kept;
            // Said once: what stays as it is is not news every minute. What failed is tried again, and said again.
            let again = matches!(healed.outcome, Healing::Failed(_));
            if worth && (again || self.said.get(key) != Some(&line)) {
                self.event("reconcile", Some(key), line.trim_start_matches(&format!("{key}: ")));
                self.said.insert(key.clone(), line);
            }
        }
        let now = Instant::now();
        self.left_alone.retain(|_, until| *until > now);
        let looks = std::cell::RefCell::new(std::mem::take(&mut self.looks));
        let touched = |ticket: &Ticket| {
            let mut looks = looks.borrow_mut();
            *looks.entry(ticket.key.clone()).or_insert_with(|| ticket.revision.clone()) != ticket.revision
        };
        let queue = free(&self.claims, touched);
        self.looks = looks.into_inner();
        let queue = queue?;
        self.failures = 0;
        self.say_unreadable(pass.broken.into_iter().chain(queue.broken).collect());
        self.queue = queue
            .tickets
            .into_iter()
            .map(|ticket| ticket.key)
            .filter(|key| {
                !self.left_alone.contains_key(key) && !self.running.iter().any(|run| run.key == *key)
            })
            .collect();
        self.fill();
        Ok(())
    }

    /// Tickets that nobody can read, each once, and again when it changes.
    fn say_unreadable(&mut self, lines: BTreeSet<String>) {
        for line in lines.difference(&self.unreadable) {
            self.call.report.warning(line);
        }
        self.unreadable = lines;
    }

    /// One run for every free slot.
    fn fill(&mut self) {
        if self.is_paused() {
            return;
        }
        while self.running.len() < self.max {
            let tries = self.running.iter().any(|run| run.trial);
            let trial = match self.breaker.allows(tries) {
                Allowed::Everything => false,
                Allowed::Trial => true,
                Allowed::NotBefore(_) => return,
            };
            let Some(key) = self.queue.pop_front() else { return };
            self.looks.remove(&key);
            match WatchedRun::start(self.call, self.args, &self.claims, self.every, &key, trial) {
                Ok(run) => {
                    self.event("fired", Some(&key), &format!("pid {}", run.child.id()));
                    self.running.push(run);
                    if !self.started.contains(&key) {
                        self.started.push(key);
                    }
                }
                Err(error) => {
                    self.call.report.warning(&format!("{key}: cannot start a process: {}", reason(&error)));
                    return;
                }
            }
        }
    }

    /// Does a person's word keep us from claiming? Said when it begins and when it is over; what runs goes on.
    fn is_paused(&mut self) -> bool {
        let paused = self.claims.store.pause_state(PauseScope::Tracker);
        if paused != self.paused {
            match pausing::not_paused(&self.claims, "nothing is claimed") {
                Err(error) => self.event("paused", None, &error.to_string()),
                Ok(()) => self.event("resumed", None, "tickets are claimed again"),
            }
            self.paused = paused;
        }
        self.paused != PauseState::NotPaused
    }

    /// Takes note of runs that have ended.
    fn collect(&mut self) -> bool {
        let (mut ended, mut going) = (Vec::new(), Vec::new());
        for mut run in self.running.drain(..) {
            match run.child.try_wait() {
                Ok(None) => going.push(run),
                Ok(Some(status)) => ended.push((run.key, Status::of_child(status), run.token)),
                Err(_) => {}
            }
        }
        self.running = going;
        let any = !ended.is_empty();
        for (key, status, token) in ended {
            let meaning = if status == Exit::Skip.into() { ": not won, or put back" } else { "" };
            self.event("ended", Some(&key), &format!("exit status {}{meaning}", status.code()));
            self.breaker.count(&self.claims, &key, token);
            self.left_alone.insert(key, Instant::now() + self.every);
        }
        any
    }

    /// TERM to every run: it ends its command and hands over.
    fn end_all(&self) {
        for run in &self.running {
            self.event("ending", Some(&run.key), &format!("pid {}", run.child.id()));
            if let Err(error) = run.fd.signal(rustix::process::Signal::TERM) {
                self.call.report.warning(&format!("{}: {}", run.key, reason(&error)));
            }
        }
    }

    /// Tickets of ours that were not handed over.
    fn still_claimed(&self) -> Vec<Key> {
        let held = |key: &&Key| {
            let Ok(name) = super::name_of(key) else { return false };
            !matches!(self.claims.store.look(&name).state(), State::Free)
        };
        self.started.iter().filter(held).cloned().collect()
    }

    /// Longer and longer, never in step with other watchers, and not before the server asks for it.
    fn back_off(&mut self, failure: &Failure) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let slower = self.every.saturating_mul(1 << self.failures.min(10)).min(SLOWEST.max(self.every));
        let jittered = slower.mul_f64(0.75 + random::fraction() / 2.0);
        let wait = jittered.max(failure.wait().unwrap_or_default());
        self.event("slowed", None, &format!("{failure}; again in {}", duration::show(wait)));
        wait
    }

    fn event(&self, event: &str, key: Option<&Key>, detail: &str) {
        if self.call.report.json {
            let key = key.map_or(Value::Null, |key| json!(key.as_str()));
            drop(self.call.report.object(&json!({"event": event, "key": key, "detail": detail})));
        } else {
            let key = key.map_or_else(String::new, |key| format!("{key}: "));
            // The word of the JSON is kept; to people "fired" means dismissed.
            let word = if event == "fired" { "started" } else { event };
            self.call.report.notice(&format!("{key}{word}: {detail}"));
        }
    }
}
