//! Death and failure at every system call. strace kills the tool on entry of each call it makes, and
//! lets each call fail with the errors it can give. Afterwards the lock is held by a live owner or can
//! be taken at once, a live holder was never robbed, nothing was called acquired that is not, no token
//! goes back, and an error leaves no temp file behind.
//!
//! The number of points tried is printed. ORION_TORTURE=1 tries them all, else all of acquire and the same
//! sample of the others each time.

#[path = "../support/mod.rs"]
mod support;

mod held;
mod points;
mod precheck;
mod run;
mod tree;
mod world;
