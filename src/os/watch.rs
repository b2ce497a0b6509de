//! Being told when a file is removed or replaced (inotify(7)).

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// Readable when something happened to the file; what, is for the caller to look.
#[derive(Debug)]
pub(crate) struct FileWatch(Inotify);

impl FileWatch {
    /// `None` when there is no watch to be had (128 instances per user, no inotify
    /// on this file system): the caller then looks more often.
    pub(crate) fn new(path: &Path) -> Option<Self> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).ok()?;
        // An unlinked file that is still open says so by its link count: IN_ATTRIB.
        let events = AddWatchFlags::IN_ATTRIB
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_DONT_FOLLOW;
        inotify.add_watch(path, events).ok()?;
        Some(Self(inotify))
    }

    /// Forgets what it told.
    pub(crate) fn drain(&self) {
        while self.0.read_events().is_ok_and(|events| !events.is_empty()) {}
    }
}

impl AsFd for FileWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
