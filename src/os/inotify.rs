//! Changes of one file name in a directory, as they happen (inotify(7)).

use crate::os::dir::Dir;
use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// A watched directory.
#[derive(Debug)]
pub(crate) struct Inotify(OwnedFd);

impl Inotify {
    /// Watches names that come to or leave `dir`. Files written in place are not seen; ours never are.
    ///
    /// # Errors
    /// EMFILE when the user has no instance left (128 by default), ENOSPC for the watches, ENOENT without a `/proc`.
    pub(crate) fn watch(dir: &Dir) -> io::Result<Self> {
        let fd = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        // Through the descriptor: the path may lead elsewhere by now.
        let path = format!("/proc/self/fd/{}", dir.fd().as_raw_fd());
        add_watch(
            &fd,
            path,
            WatchFlags::MOVED_TO | WatchFlags::MOVED_FROM | WatchFlags::DELETE | WatchFlags::ONLYDIR,
        )?;
        Ok(Self(fd))
    }

    /// Takes every event that is there: was one about `file`?
    pub(crate) fn drain(&self, file: &str) -> bool {
        let mut buffer = [MaybeUninit::uninit(); 2048];
        let mut reader = Reader::new(&self.0, &mut buffer);
        let mut ours = false;
        loop {
            match reader.next() {
                // An overflow may have swallowed anything.
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => ours = true,
                Ok(event) => {
                    ours |= event.file_name().is_none_or(|name| name.to_bytes() == file.as_bytes());
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return ours,
                // It cannot be relied on; a look is always right.
                Err(_) => return true,
            }
        }
    }
}

impl AsFd for Inotify {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_what_comes_to_or_leaves_the_name_is_told() {
        let temp = tempfile::tempdir().expect("dir");
        let dir = Dir::open(temp.path()).expect("open");
        let at = |name: &str| temp.path().join(name);
        let watch = Inotify::watch(&dir).expect("inotify");
        assert!(!watch.drain("x.json"));
        fs::write(at(".x.tmp"), b"1").expect("write");
        assert!(!watch.drain("x.json"), "a temp file is nobody's record");
        fs::rename(at(".x.tmp"), at("x.json")).expect("rename");
        assert!(watch.drain("x.json"));
        assert!(!watch.drain("x.json"), "told once");
        fs::write(at("y.json"), b"1").expect("write");
        fs::remove_file(at("y.json")).expect("unlink");
        assert!(!watch.drain("x.json"), "another name");
        fs::remove_file(at("x.json")).expect("unlink");
        assert!(watch.drain("x.json"));
    }
}
