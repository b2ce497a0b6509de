//! Standing before a held role: wait, give up, or ask the holder to end.

use super::observe::{LeaseObservation, now};
use super::role::{LOOK_EVERY, NextStep, is_ancestor};
use crate::error::{Error, Kind};
use crate::model::duration;
use crate::model::lease::Build;
use crate::os::process::PidFd;
use crate::os::store::{self, PayloadReading};
use crate::os::{fdinfo, proc};
use crate::verdict::lease::{self, HolderProof, Silence, TakeoverReason, TakeoverVerdict};
use nix::errno::Errno;
use rustix::process::Signal;
use std::thread;
use std::time::{Duration, Instant};

/// How long a holder that was asked to end is waited for when nobody said otherwise.
pub(crate) const GRACE: Duration = Duration::from_secs(30);

/// How often a second holder must be seen.
const LOOKS: u32 = 5;

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
    /// The tick seen, and since when, on the awake clock.
    tick: Option<(Vec<u8>, u64)>,
    pub(crate) asked: Option<AskedHolder>,
    /// In a dry run: who would be asked.
    pub(crate) due: Option<u32>,
    /// Why the holder was not ended, for the refusal.
    pub(crate) kept: Option<String>,
}

/// A holder that was asked to end.
pub(crate) struct AskedHolder {
    pub(crate) process: PidFd,
    pub(crate) reason: TakeoverReason,
    pub(crate) at: Instant,
    pub(crate) killed: bool,
}

impl<'a> RoleAttempt<'a> {
    pub(crate) fn new(policy: &'a LeasePolicy) -> Self {
        // A time so far off that the clock cannot hold it is for ever.
        let end = policy.wait.and_then(|wait| Instant::now().checked_add(wait));
        Self { policy, end, own_end: end, tick: None, asked: None, due: None, kept: None }
    }

    /// What the holder's ticks say, looks of this attempt included.
    pub(crate) fn silence(&mut self, observed: &LeaseObservation) -> Option<Silence> {
        let now = now();
        let seen = match &self.tick {
            // Any change of the payload starts the look anew: another tick, another holder.
            Some((bytes, since)) if *bytes == observed.bytes => *since,
            _ => {
                self.tick = Some((observed.bytes.clone(), now.monotonic_us));
                now.monotonic_us
            }
        };
        let same_for = Duration::from_micros(now.monotonic_us.saturating_sub(seen));
        observed.silence(&now, self.policy.stuck_after, same_for)
    }

    /// Decides about the holder in `look`, and acts on it.
    ///
    /// # Errors
    /// [`Kind::CannotTell`] when a takeover is due and the holder cannot be proved,
    /// [`Kind::HeldByAncestor`] when waiting would be for ever,
    /// [`Kind::StillRunning`] when it was asked to end and did not in time.
    pub(crate) fn judge(&mut self, observed: &LeaseObservation) -> Result<NextStep, Error> {
        if observed.pid().is_some_and(is_ancestor) {
            return Ok(NextStep::Refuse);
        }
        if self.asked.is_none() && !self.policy.allowed.is_empty() {
            self.decide(observed)?;
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

    fn decide(&mut self, observed: &LeaseObservation) -> Result<(), Error> {
        let silence = self.silence(observed);
        let believed = observed.payload.as_ref().zip(silence.as_ref());
        let ours = self.policy.ours.as_ref();
        let allowed = &self.policy.allowed;
        // The search through every process is for the case in which it decides.
        let decision = match lease::takeover(allowed, believed, ours, &observed.proof) {
            TakeoverVerdict::End(..) => {
                let (proof, process) = prove(observed);
                match (lease::takeover(allowed, believed, ours, &proof), process) {
                    (TakeoverVerdict::End(_, reason), Some(process)) => {
                        if observed.changed() {
                            // It ticked, or another took over, since: judge that one.
                            return Ok(());
                        }
                        if self.policy.dry_run {
                            self.due = Some(process.pid());
                            return Ok(());
                        }
                        signal(&process, Signal::TERM)?;
                        let at = Instant::now();
                        self.wait_at_least(self.policy.grace);
                        self.asked = Some(AskedHolder { process, reason, at, killed: false });
                        return Ok(());
                    }
                    (decision, _) => decision,
                }
            }
            decision => decision,
        };
        match decision {
            TakeoverVerdict::Keep(why) => {
                let second_look = match silence {
                    Some(Silence::Unproved { second_look, .. }) => second_look,
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
                Ok(())
            }
            TakeoverVerdict::CannotTell(why) => {
                let error = Error::new(Kind::CannotTell, format!("{why}; nothing was signalled"));
                // A holder that nobody can name may still leave by itself.
                let waits = self.end.is_none_or(|end| end > Instant::now());
                self.kept = Some(why);
                if waits { Ok(()) } else { Err(error) }
            }
            TakeoverVerdict::End(pid, _) => Err(Error::new(
                Kind::CannotTell,
                format!("pid {pid} could not be opened for signalling; nothing was signalled"),
            )),
        }
    }

    /// A time so far off that the clock cannot hold it is for ever.
    fn wait_at_least(&mut self, time: Duration) {
        self.end = self.end.zip(Instant::now().checked_add(time)).map(|(end, later)| end.max(later));
    }

    fn still_there(&self, asked: &AskedHolder) -> Error {
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

fn signal(process: &PidFd, signal: Signal) -> Result<(), Error> {
    match process.signal(signal) {
        Err(error) if !proc::is_gone(&error) => {
            Err(Error::io(&format!("cannot signal pid {}", process.pid()), &error))
        }
        _ => Ok(()),
    }
}

/// Proves that the payload's process, and no other, holds the lock. The pidfd is
/// opened first, so that what is proved is about the process that is signalled.
fn prove(observed: &LeaseObservation) -> (HolderProof, Option<PidFd>) {
    let Some(pid) = observed.pid() else { return (observed.proof.clone(), None) };
    let process = match PidFd::open(pid) {
        Ok(process) => process,
        Err(Errno::ESRCH | Errno::EINVAL | Errno::ENOENT) => return (HolderProof::NotIt(pid), None),
        Err(_) => return (HolderProof::Hidden(pid), None),
    };
    let proof = match fdinfo::holds(pid, &observed.file, fdinfo::exclusive_flock) {
        Ok(true) => alone(pid, observed),
        Ok(false) => HolderProof::NotIt(pid),
        Err(error) if proc::is_gone(&error) => HolderProof::NotIt(pid),
        Err(_) => HolderProof::Hidden(pid),
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
            Ok(found) if found.pids.iter().all(|other| *other == pid) => return HolderProof::Holder(pid),
            Ok(found) => others = found.pids,
            Err(_) => return HolderProof::Hidden(pid),
        }
        thread::sleep(Duration::from_millis(10));
    }
    HolderProof::Several(others)
}

impl LeaseObservation {
    /// Does the lock file say something else by now?
    pub(crate) fn changed(&self) -> bool {
        let reading = store::read_payload(&self.file, Duration::from_millis(20));
        !matches!(reading, Ok(PayloadReading::Stable(bytes)) if bytes == self.bytes)
    }
}
