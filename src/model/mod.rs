//! Plain data: what the tools speak about. No system calls, no decisions.

pub(crate) mod duration;
pub(crate) mod identity;
pub(crate) mod name;
pub(crate) mod time;
