//! Is a resident silent? Never on one witness alone: a clock can be set, a machine can
//! sleep, and a payload can be the one of the holder before.

use crate::model::host::INITIAL_TIME_NS;
use crate::model::lease::{Payload, TickStamp};
use crate::model::stamp::{Stamp, Written};
use std::time::{Duration, SystemTime};

/// How far ahead a stamp may lie before it counts as "in the future": clocks are
/// stepped by this much every day.
const TOLERANCE: Duration = Duration::from_secs(2);

/// A holder that took its role within this time of its start shows by it that the
/// wall clock has not been set since: else the two times would lie apart.
const PROMPT: Duration = Duration::from_secs(10);

/// The time namespace of a kernel that has none (before 5.6).
pub(crate) const NO_TIME_NS: u64 = 0;

/// The clocks, read after the payload.
#[derive(Clone, Debug)]
pub(crate) struct ClockReadings {
    pub(crate) wall: SystemTime,
    /// Time awake since boot, microseconds.
    pub(crate) monotonic_us: u64,
    /// Time since boot, suspend included, microseconds.
    pub(crate) boottime_us: u64,
    pub(crate) boot_id: Option<String>,
    /// The time namespace in which the two clocks above were read; [`NO_TIME_NS`] on
    /// a kernel without any; `None` when it could not be read.
    pub(crate) time_ns: Option<u64>,
}

/// What the caller has seen of the holder beside its payload.
#[derive(Clone, Debug, Default)]
pub(crate) struct HolderSeen {
    /// CLOCK_BOOTTIME at the start of its process, microseconds; `None` when it cannot be read.
    pub(crate) started_us: Option<u64>,
    /// How long, in time awake, the caller itself has been seeing this very tick of this very process.
    pub(crate) same_tick_for: Duration,
}

/// What a resident's ticks say. Only [`Silence::Stuck`] is a finding; everything
/// else is a resident at work as far as anybody can tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Silence {
    /// It never promised anything.
    NeverTicked,
    /// It ticked within the limit.
    Fresh {
        /// Since then, in time awake as far as known.
        silent: Duration,
    },
    /// It ticked, and then not for the whole limit, counted in time awake.
    Stuck {
        /// For how long, awake.
        silent: Duration,
    },
    /// Silent by one clock, without the second witness that would prove it.
    Unproved {
        /// Why it is not called stuck, as a fragment.
        why: &'static str,
        /// When a second look would prove it: after this much more time awake with the same tick.
        second_look: Option<Duration>,
    },
}

/// How long the holder has been silent, as far as its tick tells.
enum Silent {
    /// By the clock that the tick was written with, and how much of it is proved to be time awake.
    For { by_its_clock: Duration, awake: Duration },
    /// By that clock. Only who sees the same tick for the whole limit knows more.
    Perhaps { by_its_clock: Duration, why: &'static str },
    /// This tick proves nothing, however long it is looked at.
    CannotTell(&'static str),
}

const UNREADABLE: &str = "its last tick cannot be read as a time";
pub(super) const FUTURE: &str = "clock moved: its last tick lies in the future";
pub(super) const NOT_ITS_OWN: &str = "its last tick was written before this process started";
pub(super) const OTHER_BOOT: &str = "its last tick is from another boot";
pub(super) const OTHER_CLOCK: &str = "its last tick was written in another time namespace";
pub(super) const UNSEEN: &str = "when its process started cannot be seen from here";
pub(super) const YOUNG: &str = "its process has not run for as long as that";
pub(super) const SLEPT: &str = "this machine may have slept since its last tick";
pub(super) const STEPPED: &str = "the clock may have been set since its last tick";

/// Judges the ticks of a live resident.
pub(crate) fn silence(payload: &Payload, now: &ClockReadings, seen: &HolderSeen, limit: Duration) -> Silence {
    let cannot_tell = |why| Silence::Unproved { why, second_look: None };
    let tick = match payload.last_tick() {
        Written::Absent => return Silence::NeverTicked,
        Written::Unreadable => return cannot_tell(UNREADABLE),
        Written::At(tick) => tick,
    };
    let silent = match payload.tick_stamp() {
        Some(stamp) => by_stamp(&stamp, now, seen.started_us),
        None => by_wall_clock(payload, tick, now, seen.started_us),
    };
    let (by_its_clock, awake, why) = match silent {
        Silent::CannotTell(why) => return cannot_tell(why),
        Silent::For { by_its_clock, awake } => (by_its_clock, awake, SLEPT),
        Silent::Perhaps { by_its_clock, why } => (by_its_clock, Duration::ZERO, why),
    };
    // The second witness: whatever the stamps say, nobody is silent for longer than they live.
    let run = seen.started_us.and_then(|started| now.boottime_us.checked_sub(started));
    let long_enough = run.is_some_and(|run| Duration::from_micros(run) >= limit);
    if long_enough && seen.same_tick_for >= limit {
        return Silence::Stuck { silent: seen.same_tick_for };
    }
    if by_its_clock < limit {
        return Silence::Fresh { silent: by_its_clock };
    }
    match run {
        None => cannot_tell(UNSEEN),
        Some(_) if !long_enough => cannot_tell(YOUNG),
        Some(_) if awake >= limit => Silence::Stuck { silent: awake },
        Some(_) => Silence::Unproved { why, second_look: Some(limit.saturating_sub(seen.same_tick_for)) },
    }
}

/// Our own tick: counted by clocks that nobody can set, read in one boot and one time
/// namespace, and after the holder's start.
fn by_stamp(stamp: &TickStamp, now: &ClockReadings, started_us: Option<u64>) -> Silent {
    if stamp.boot_id.is_none() || stamp.boot_id != now.boot_id {
        return Silent::CannotTell(OTHER_BOOT);
    }
    let (Some(monotonic_us), Some(boottime_us)) = (stamp.monotonic_us, stamp.boottime_us) else {
        return Silent::CannotTell(OTHER_CLOCK);
    };
    if stamp.time_ns.is_none() || stamp.time_ns != now.time_ns {
        return Silent::CannotTell(OTHER_CLOCK);
    }
    let since = now.monotonic_us.checked_sub(monotonic_us).filter(|_| boottime_us <= now.boottime_us);
    match (since, started_us) {
        (None, _) => Silent::CannotTell(FUTURE),
        (Some(_), Some(started)) if boottime_us < started => Silent::CannotTell(NOT_ITS_OWN),
        (Some(since), _) => {
            let since = Duration::from_micros(since);
            Silent::For { by_its_clock: since, awake: since }
        }
    }
}

/// Another program's tick has the wall clock only, which can be set.
fn by_wall_clock(payload: &Payload, tick: Stamp, now: &ClockReadings, started_us: Option<u64>) -> Silent {
    let age = match now.wall.duration_since(tick.time()) {
        Ok(age) => age,
        Err(ahead) if ahead.duration() <= TOLERANCE => Duration::ZERO,
        Err(_) => return Silent::CannotTell(FUTURE),
    };
    let perhaps = |why| Silent::Perhaps { by_its_clock: age, why };
    let Some(started) = started_us else { return perhaps(UNSEEN) };
    let Some(run) = now.boottime_us.checked_sub(started).map(Duration::from_micros) else {
        return Silent::CannotTell(OTHER_CLOCK);
    };
    if age > run + TOLERANCE {
        return Silent::CannotTell(NOT_ITS_OWN);
    }
    let held = payload.acquired_at().stamp().and_then(|at| now.wall.duration_since(at.time()).ok());
    if held.is_none_or(|held| held > run + TOLERANCE || held + PROMPT < run) {
        return perhaps(STEPPED);
    }
    // Outside the initial time namespace these two clocks do not belong together.
    if !matches!(now.time_ns, Some(NO_TIME_NS | INITIAL_TIME_NS)) {
        return perhaps(SLEPT);
    }
    // Even if this machine slept all its sleep since that tick, so much of the silence was awake.
    let slept = Duration::from_micros(now.boottime_us.saturating_sub(now.monotonic_us));
    Silent::For { by_its_clock: age, awake: age.saturating_sub(slept) }
}

/// Does a stamp of this payload lie in the future, as far as the wall clock goes?
pub(crate) fn clock_moved(payload: &Payload, now: &ClockReadings) -> bool {
    [payload.last_tick(), payload.acquired_at()]
        .into_iter()
        .filter_map(Written::stamp)
        .any(|stamp| stamp.time().duration_since(now.wall).is_ok_and(|ahead| ahead > TOLERANCE))
}

#[cfg(test)]
#[path = "silence_tests.rs"]
mod tests;
