//! The Orion toolkit: small tools that keep two runs from doing the same work,
//! and that keep finished runs from looking alive.
//!
//! facts → verdict → action. `os`, `runner` and `tracker` gather facts and act;
//! `verdict` decides and is pure; only `command` holds both. `tests/layers`
//! holds the arrows.

pub(crate) mod cli;
pub(crate) mod command;
pub(crate) mod env;
pub(crate) mod error;
pub(crate) mod exit;
pub mod lease;
pub(crate) mod model;
pub(crate) mod os;
pub(crate) mod report;
pub(crate) mod runner;
pub(crate) mod tracker;
pub(crate) mod verdict;
#[cfg(feature = "postgres")]
pub(crate) mod via;

pub use command::claim::main as claim_main;
pub use command::lease::main as lease_main;
pub use command::lock::main as lock_main;
pub use command::mark::main as mark_main;
pub use command::precheck::main as precheck_main;
pub use command::reap::main as reap_main;
#[cfg(feature = "postgres")]
pub use command::via::main as via_main;
