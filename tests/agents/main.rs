//! Agents and their panes: `orion-mark`, its hooks in other programs' settings, and `orion-fire`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

#[path = "../reap_support/mod.rs"]
mod reap_support;
#[path = "../support/mod.rs"]
mod support;

mod fire;
mod install;
mod marks;

/// PATH with our binaries first.
fn path() -> String {
    format!("{}:{}", support::bin_dir().display(), std::env::var("PATH").unwrap())
}
