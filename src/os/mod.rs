//! Every system call of the crate. Facts out, actions in; no decisions.

pub(crate) mod child;
pub(crate) mod clock;
pub(crate) mod dir;
pub(crate) mod fdinfo;
pub(crate) mod flock;
pub(crate) mod gate;
pub(crate) mod guard;
pub(crate) mod helper;
pub(crate) mod host;
pub(crate) mod inotify;
pub(crate) mod log_file;
pub(crate) mod mask;
pub(crate) mod observe;
pub(crate) mod proc;
pub(crate) mod process;
pub(crate) mod pulse;
pub(crate) mod queue;
pub(crate) mod record_file;
pub(crate) mod signals;
pub(crate) mod state_dir;
pub(crate) mod store;
pub(crate) mod terminal;
pub(crate) mod tree;
pub(crate) mod watch;
