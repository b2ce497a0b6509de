//! An attempt to get a role that is held: wait, give up, or ask the holder to end.

use super::observe::{LeaseObservation, now};
use super::role::{LOOK_EVERY, NextStep, is_ancestor};
use crate::error::{Error, Kind};
use crate::model::duration;
use crate::model::lease::Build;
use crate::os::process::PidFd;
use crate::os::{fdinfo, proc};
use crate::verdict::lease::{self, HolderProof, TakeoverReason, TakeoverVerdict};
use crate::verdict::same_tick::SameTick;
use crate::verdict::silence::Silence;
use nix::errno::Errno;
use rustix::process::Signal;
use std::thread;
use std::time::{Duration, Instant};

/// How long a holder that was asked to end is waited for when nobody said otherwise.
pub(crate) const GRACE: Duration = Duration::from_secs(30);

/// How often a second holder must be seen.
const LOOKS: u32 = 5;

/// Before a silent holder is asked to end it is looked at a second time, so much later: it
/// may have been paused together with us, and tick now.
const SECOND_LOOK: Duration = Duration::from_secs(1);

/// How long a new holder may take to write its payload.
const SETTLING: Duration = Duration::from_secs(1);

/// How often a holder may change while it is judged.
const CHANGES: u32 = 100;

/// What may be done to get the role.
#[derive(Clone, Debug)]
pub(crate) struct LeasePolicy {
    /// How long to wait for it; `None` is for ever.
    pub(crate) wait: Option<Duration>,
    /// For what a holder may be asked to end; nothing by default.
    pub(crate) allowed: Vec<TakeoverReason>,
    /// Our build, for [`TakeoverReason::Newer`].
    pub(crate) ours: Option<Build>,
    /// How long silence must last to be called stuck.
    pub(crate) stuck_after: Duration,
    /// KILL a holder that was asked to end and is still there after this.
    pub(crate) kill_after: Option<Duration>,
    /// How long to wait at least once a holder was asked to end.
    pub(crate) grace: Duration,
    /// How long to wait for the second look that would prove a holder stuck.
    pub(crate) second_look: Duration,
    /// Decide and prove, but signal nobody.
    pub(crate) dry_run: bool,
}

/// One attempt to get the role: remembers what it saw and did.
pub(crate) struct RoleAttempt<'a> {
    policy: &'a LeasePolicy,
    /// Until when to wait; `None` is for ever.
    end: Option<Instant>,
    /// The same without the time that a holder was given to end.
    own_end: Option<Instant>,
    same_tick: Option<SameTick>,
    /// Since when the payload fits nobody.
    unsettled_since: Option<Instant>,
    changes: u32,
    pub(crate) asked: Option<AskedResident>,
    /// In a dry run: who would be asked.
    pub(crate) due: Option<u32>,
    /// Why the holder was not ended, for the refusal.
    pub(crate) kept: Option<String>,
    /// It was not ended because it cannot be told whether it is stuck.
    pub(crate) doubtful: bool,
}

/// A holder that was asked to end.
pub(crate) struct AskedResident {
    pub(crate) process: PidFd,
    pub(crate) reason: TakeoverReason,
    pub(crate) at: Instant,
    pub(crate) killed: bool,
}

impl<'a> RoleAttempt<'a> {
    pub(crate) fn new(policy: &'a LeasePolicy) -> Self {
        // A time so far off that the clock cannot hold it is for ever.
        let end = policy.wait.and_then(|wait| Instant::now().checked_add(wait));
        Self {
            policy,
            end,
            own_end: end,
            same_tick: None,
            unsettled_since: None,
            changes: 0,
            asked: None,
            due: None,
            kept: None,
            doubtful: false,
        }
    }

    /// What the holder's ticks say, looks of this attempt included.
    fn silence(&mut self, observed: &LeaseObservation) -> Option<Silence> {
        let holder = (observed.pid(), observed.started_us());
        let same = SameTick::seen(self.same_tick.take(), &observed.bytes, holder, Instant::now());
        let same_for = same.same_for();
        self.same_tick = Some(same);
        observed.silence(&now(), self.policy.stuck_after, same_for)
    }

    /// Decides about the holder in `observed`, and acts on it.
    ///
    /// # Errors
    /// [`Kind::CannotTell`] when a takeover is due and the holder cannot be proved,
    /// [`Kind::StillRunning`] when it was asked to end and did not in time.
    pub(crate) fn judge(&mut self, observed: &LeaseObservation) -> Result<NextStep, Error> {
        if observed.pid().is_some_and(is_ancestor) {
            return Ok(NextStep::Refuse);
        }
        if self.asked.is_none()
            && !self.policy.allowed.is_empty()
            && let Some(step) = self.decide(observed)?
        {
            return Ok(step);
        }
        if let Some(asked) = self.asked.as_mut()
            && let Some(kill_after) = self.policy.kill_after
            && !asked.killed
            && asked.at.elapsed() >= kill_after
        {
            asked.killed = true;
            signal(&asked.process, Signal::KILL)?;
        }
        // The one that was asked is gone and another was faster: that one is waited for only as was said.
        let replaced = self.asked.as_ref().is_some_and(|asked| {
            observed.pid().is_some_and(|pid| pid != asked.process.pid())
                && asked.process.ended().unwrap_or(false)
        });
        let end = if replaced { self.own_end } else { self.end };
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return match &self.asked {
                Some(asked) if observed.pid() == Some(asked.process.pid()) => Err(self.still_there(asked)),
                _ => Ok(NextStep::Refuse),
            };
        }
        let kill_in = self.asked.as_ref().filter(|asked| !asked.killed).zip(self.policy.kill_after);
        let kill_in = kill_in.map(|(asked, after)| after.saturating_sub(asked.at.elapsed()));
        Ok(NextStep::Wait([left, kill_in].into_iter().flatten().fold(LOOK_EVERY, Duration::min)))
    }

    /// `None`: nothing is to be done about this holder but wait for it, as far as that was asked for.
    fn decide(&mut self, observed: &LeaseObservation) -> Result<Option<NextStep>, Error> {
        (self.kept, self.doubtful) = (None, false);
        if let Some(step) = self.settle(observed) {
            return Ok(Some(step));
        }
        let silence = self.silence(observed);
        let believed = observed.believed().zip(silence.as_ref());
        let ours = self.policy.ours.as_ref();
        let allowed = &self.policy.allowed;
        match lease::takeover(allowed, believed, ours, &observed.proof) {
            TakeoverVerdict::End(_, reason) => {
                if reason == TakeoverReason::Stuck
                    && let Some(left) = self.until_second_look()
                {
                    return Ok(Some(NextStep::Wait(left)));
                }
                // The search through every process is for the case in which it decides.
                let (proof, process) = prove(observed);
                match (lease::takeover(allowed, believed, ours, &proof), process) {
                    (TakeoverVerdict::End(_, reason), Some(process)) => {
                        self.end_holder(observed, process, reason)
                    }
                    // It ended, or gave the lock to another, since it was seen.
                    _ if proof == HolderProof::NotIt => Ok(self.look_again()),
                    (TakeoverVerdict::CannotTell(why), _) => self.cannot_tell(why),
                    _ => self.cannot_tell("the holder could not be opened for signalling".into()),
                }
            }
            TakeoverVerdict::Keep(why) => {
                self.keep(why, silence.as_ref());
                Ok(None)
            }
            TakeoverVerdict::Doubtful(why) => {
                self.doubtful = true;
                self.keep(why, silence.as_ref());
                Ok(None)
            }
            TakeoverVerdict::CannotTell(why) => self.cannot_tell(why),
        }
    }

    /// A payload that fits nobody may be the one of the holder before: the new one is about to write its own.
    fn settle(&mut self, observed: &LeaseObservation) -> Option<NextStep> {
        if !matches!(observed.proof, HolderProof::NoName | HolderProof::NotIt) {
            self.unsettled_since = None;
            return None;
        }
        let since = *self.unsettled_since.get_or_insert_with(Instant::now);
        (since.elapsed() < SETTLING).then_some(NextStep::Wait(Duration::from_millis(20)))
    }

    /// How long until a silent holder is to be looked at the second time; `None`: this is that look.
    fn until_second_look(&mut self) -> Option<Duration> {
        let same = self.same_tick.as_mut()?;
        let since = *same.stuck_since.get_or_insert_with(Instant::now);
        Some(SECOND_LOOK.saturating_sub(since.elapsed())).filter(|left| !left.is_zero())
    }

    /// Asks it to end, after a last look whether it is still what was judged.
    fn end_holder(
        &mut self,
        observed: &LeaseObservation,
        process: PidFd,
        reason: TakeoverReason,
    ) -> Result<Option<NextStep>, Error> {
        if observed.changed() {
            return Ok(self.look_again());
        }
        if self.policy.dry_run {
            self.due = Some(process.pid());
            return Ok(None);
        }
        if !signal(&process, Signal::TERM)? {
            return Ok(self.look_again());
        }
        self.wait_at_least(self.policy.grace);
        self.asked = Some(AskedResident { process, reason, at: Instant::now(), killed: false });
        Ok(None)
    }

    /// It changed while it was judged. `None` when it does that without end: then it is alive.
    fn look_again(&mut self) -> Option<NextStep> {
        self.same_tick = None;
        self.changes += 1;
        (self.changes < CHANGES).then_some(NextStep::LookAgain)
    }

    /// A holder that nobody can name may still leave by itself.
    fn cannot_tell(&mut self, why: String) -> Result<Option<NextStep>, Error> {
        if self.end.is_none_or(|end| end > Instant::now()) {
            self.kept = Some(why);
            return Ok(None);
        }
        Err(Error::new(Kind::CannotTell, format!("{why}; nothing was signalled")))
    }

    fn keep(&mut self, why: String, silence: Option<&Silence>) {
        let second_look = match silence {
            Some(Silence::Unproved { second_look, .. }) => *second_look,
            _ => None,
        };
        self.kept = Some(match second_look {
            Some(left) => {
                if left <= self.policy.second_look {
                    self.wait_at_least(left.saturating_add(LOOK_EVERY));
                }
                format!("{why}; the same tick seen {} from now would prove it", duration::show(left))
            }
            None => why,
        });
    }

    /// A time so far off that the clock cannot hold it is for ever.
    fn wait_at_least(&mut self, time: Duration) {
        self.end = self.end.zip(Instant::now().checked_add(time)).map(|(end, later)| end.max(later));
    }

    fn still_there(&self, asked: &AskedResident) -> Error {
        let pid = asked.process.pid();
        let state = match proc::stat(pid).map(|stat| stat.state) {
            Ok('T') => " and is stopped (state T), so that it cannot end",
            Ok('t') => " and is being traced (state t)",
            Ok('D') => " and waits in the kernel (state D)",
            _ => "",
        };
        let what = if asked.killed { "was killed" } else { "was asked to end (TERM)" };
        let error = Error::new(
            Kind::StillRunning,
            format!(
                "pid {pid} {what} {} ago{state} and still holds the role",
                duration::show(asked.at.elapsed())
            ),
        );
        if self.policy.kill_after.is_some() { error } else { error.hint("--kill-after 10s would add KILL") }
    }
}

/// `false`: it has ended already.
fn signal(process: &PidFd, signal: Signal) -> Result<bool, Error> {
    match process.signal(signal) {
        Ok(()) => Ok(true),
        Err(error) if proc::is_gone(&error) => Ok(false),
        Err(error) => Err(Error::io(&format!("cannot signal pid {}", process.pid()), &error)),
    }
}

/// Proves that the payload's process, and no other, holds the lock. The pidfd is
/// opened first, so that what is proved is about the process that is signalled.
fn prove(observed: &LeaseObservation) -> (HolderProof, Option<PidFd>) {
    let Some(pid) = observed.pid() else { return (observed.proof.clone(), None) };
    let process = match PidFd::open(pid) {
        Ok(process) => process,
        Err(Errno::ESRCH | Errno::EINVAL | Errno::ENOENT) => return (HolderProof::NotIt, None),
        Err(_) => return (HolderProof::Hidden, None),
    };
    let proof = match fdinfo::holds(pid, &observed.file, fdinfo::exclusive_flock) {
        Ok(true) => alone(pid, observed),
        Ok(false) => HolderProof::NotIt,
        Err(error) if proc::is_gone(&error) => HolderProof::NotIt,
        Err(_) => HolderProof::Hidden,
    };
    (proof, Some(process))
}

/// Is it the only holder? What it is just starting shares its descriptors until exec, so
/// others count only when they stay.
fn alone(pid: u32, observed: &LeaseObservation) -> HolderProof {
    let mut others = Vec::new();
    for _ in 0..LOOKS {
        match fdinfo::holders(&observed.file, fdinfo::exclusive_flock) {
            // Blind for processes of other users: the one that counts was seen.
            Ok(found) if found.pids == [pid] => return HolderProof::Holder(pid),
            // It gave the lock up, or another has it by now.
            Ok(found) if !found.pids.contains(&pid) => return HolderProof::NotIt,
            Ok(found) => others = found.pids,
            Err(_) => return HolderProof::Hidden,
        }
        thread::sleep(Duration::from_millis(10));
    }
    HolderProof::Several(others)
}
