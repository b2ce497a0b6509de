//! Decisions: pure functions over plain data. No clock, no `/proc`, no environment.

pub(crate) mod admission;
pub(crate) mod arbitrate;
pub(crate) mod breaker;
pub(crate) mod gated;
pub(crate) mod lease;
pub(crate) mod limits;
pub(crate) mod liveness;
pub(crate) mod marking;
pub(crate) mod offer;
pub(crate) mod owner;
pub(crate) mod ownership;
pub(crate) mod pause;
pub(crate) mod reap;
pub(crate) mod reason;
pub(crate) mod reconcile;
pub(crate) mod repeat;
pub(crate) mod run_end;
pub(crate) mod same_tick;
pub(crate) mod silence;
pub(crate) mod story;
pub(crate) mod sweep;
pub(crate) mod timeline;
#[cfg(feature = "postgres")]
pub(crate) mod via;
pub(crate) mod watchfulness;
