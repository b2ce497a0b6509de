//! Locks of many machines, on a real PostgreSQL. A host is a state directory of its own; where it matters it is a
//! network namespace. Without the package each test says that it was skipped, and under CI it fails.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

#[path = "../support/mod.rs"]
mod support;

#[path = "../support/claims.rs"]
mod claims;

mod claims_rows;
mod commands;
mod kills;
mod outages;
mod plain_sql;
mod precheck;
mod security;
mod server;
mod witness;
