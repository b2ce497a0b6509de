//! Every system call of the crate. Facts out, actions in; no decisions.

pub(crate) mod clock;
pub(crate) mod fdinfo;
pub(crate) mod flock;
pub(crate) mod proc;
pub(crate) mod process;
