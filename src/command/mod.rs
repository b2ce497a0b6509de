//! Observe, decide, act, report: the only place that holds facts and verdicts together.

pub(crate) mod claim;
pub(crate) mod elsewhere;
pub(crate) mod exec;
pub(crate) mod failopen;
pub(crate) mod frame;
pub(crate) mod lease;
pub(crate) mod local_time;
pub(crate) mod lock;
pub(crate) mod logged;
pub(crate) mod mark;
mod open_metrics;
pub(crate) mod owner;
mod picture;
pub(crate) mod precheck;
mod precheck_name;
pub(crate) mod reap;
mod reap_first;
pub(crate) mod records;
pub(crate) mod shim;
pub(crate) mod story;
pub(crate) mod tell;
pub(crate) mod tell_again;
pub(crate) mod tell_pause;
pub(crate) mod tell_state;
pub(crate) mod turned_away;
pub(crate) mod typed;
#[cfg(feature = "postgres")]
pub(crate) mod via;

#[cfg(test)]
mod fuzz_tests;
