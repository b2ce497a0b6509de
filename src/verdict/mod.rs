//! Decisions: pure functions over plain data. No clock, no `/proc`, no environment.

pub(crate) mod liveness;
