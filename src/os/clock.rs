//! Clocks. Decisions use the two that nobody can set; the wall clock is for people.

use crate::model::time::WallTime;
use nix::time::{ClockId, clock_gettime};
use std::time::SystemTime;

/// Microseconds since boot, suspend included (CLOCK_BOOTTIME, clock_gettime(2)).
pub(crate) fn boottime_us() -> u64 {
    micros(ClockId::CLOCK_BOOTTIME)
}

/// Microseconds since boot while awake (CLOCK_MONOTONIC).
pub(crate) fn monotonic_us() -> u64 {
    micros(ClockId::CLOCK_MONOTONIC)
}

/// The wall clock.
pub(crate) fn wall() -> WallTime {
    WallTime::of(SystemTime::now())
}

fn micros(clock: ClockId) -> u64 {
    // Both clocks exist on every kernel since 2.6.39; 0 is "before everything" and frees nothing.
    clock_gettime(clock).map_or(0, |time| {
        let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
        seconds * 1_000_000 + u64::try_from(time.tv_nsec() / 1000).unwrap_or(0)
    })
}
