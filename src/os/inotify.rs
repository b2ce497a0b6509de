//! Changes of one file, as they happen (inotify(7)).

use crate::os::dir::Dir;
use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg,
    socketpair,
};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// What tells of names that come to or leave a directory.
const NAMES: WatchFlags =
    WatchFlags::MOVED_TO.union(WatchFlags::MOVED_FROM).union(WatchFlags::DELETE).union(WatchFlags::ONLYDIR);

/// A watched directory or file.
#[derive(Debug)]
pub(crate) struct Inotify(Option<OwnedFd>);

impl Inotify {
    /// Watches names that come to or leave `dir`. Files written in place are not seen; ours never are.
    ///
    /// # Errors
    /// EMFILE when the user has no instance left (128 by default), ENOSPC for the watches, ENOENT without a `/proc`.
    pub(crate) fn watch(dir: &Dir) -> io::Result<Self> {
        let fd = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        // Through the descriptor: the path may lead elsewhere by now.
        let path = format!("/proc/self/fd/{}", dir.fd().as_raw_fd());
        add_watch(&fd, path, NAMES)?;
        Ok(Self(Some(fd)))
    }

    /// Watches one file for being removed or replaced, which a directory full of other
    /// files does not tell without waking us for every one of them. A file renamed with its
    /// directory is not told.
    ///
    /// # Errors
    /// As [`Inotify::watch`].
    pub(crate) fn watch_file(path: &Path) -> io::Result<Self> {
        let fd = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        // An unlinked file that is still open says so by its link count: ATTRIB.
        let events = WatchFlags::ATTRIB | WatchFlags::MOVE_SELF | WatchFlags::DELETE_SELF;
        add_watch(&fd, path, events | WatchFlags::DONT_FOLLOW)?;
        Ok(Self(Some(fd)))
    }

    /// Watches another directory too; what is told does not say in which of them.
    ///
    /// # Errors
    /// As [`Inotify::watch`].
    pub(crate) fn also(&self, dir: &Dir) -> io::Result<()> {
        let Some(fd) = &self.0 else { return Err(rustix::io::Errno::BADF.into()) };
        add_watch(fd, format!("/proc/self/fd/{}", dir.fd().as_raw_fd()), NAMES)?;
        Ok(())
    }

    /// Takes every event that is there: was one about a file that is `wanted`?
    pub(crate) fn drain(&self, wanted: impl Fn(&[u8]) -> bool) -> bool {
        let Some(fd) = &self.0 else { return true };
        let mut buffer = [MaybeUninit::uninit(); 2048];
        let mut reader = Reader::new(fd, &mut buffer);
        let mut ours = false;
        loop {
            match reader.next() {
                // An overflow may have swallowed anything.
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => ours = true,
                Ok(event) => {
                    ours |= event.file_name().is_none_or(|name| wanted(name.to_bytes()));
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return ours,
                // It cannot be relied on; a look is always right.
                Err(_) => return true,
            }
        }
    }

    /// The descriptor to poll.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(AsFd::as_fd)
    }
}

impl Drop for Inotify {
    /// The last close of a watching inotify waits for an SRCU grace period, 1 to 25 ms, also at exec
    /// and at exit: just when the lock was won. So the kernel's own collector closes it: a descriptor
    /// under way on a socket that is itself only under way is garbage (unix(7), SCM_RIGHTS), and
    /// is freed by a kernel thread since Linux 6.9. Where that fails, we wait.
    fn drop(&mut self) {
        let Some(fd) = self.0.take() else { return };
        let Ok((near, far)) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        else {
            return;
        };
        let garbage = [fd.as_fd(), far.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        if rights.push(SendAncillaryMessage::ScmRights(&garbage)) {
            sendmsg(&near, &[IoSlice::new(b"x")], &mut rights, SendFlags::DONTWAIT).ok();
        }
        // Ours first, while the message still holds one.
        drop(fd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Other tests of this user may have used them all up for a moment.
    fn watch_soon(dir: &Dir) -> Inotify {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        loop {
            match Inotify::watch(dir) {
                Ok(watch) => return watch,
                Err(error) => assert!(std::time::Instant::now() < end, "no instance: {error}"),
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    #[test]
    fn only_what_comes_to_or_leaves_the_name_is_told() {
        let temp = tempfile::tempdir().expect("dir");
        let dir = Dir::open(temp.path()).expect("open");
        let at = |name: &str| temp.path().join(name);
        let watch = watch_soon(&dir);
        assert!(!watch.drain(|file| file == b"x.json"));
        fs::write(at(".x.tmp"), b"1").expect("write");
        assert!(!watch.drain(|file| file == b"x.json"), "a temp file is nobody's record");
        fs::rename(at(".x.tmp"), at("x.json")).expect("rename");
        assert!(watch.drain(|file| file == b"x.json"));
        assert!(!watch.drain(|file| file == b"x.json"), "told once");
        fs::write(at("y.json"), b"1").expect("write");
        fs::remove_file(at("y.json")).expect("unlink");
        assert!(!watch.drain(|file| file == b"x.json"), "another name");
        fs::remove_file(at("x.json")).expect("unlink");
        assert!(watch.drain(|file| file == b"x.json"));
    }

    /// The files of this process that are inotify instances.
    fn instances() -> usize {
        let fds = fs::read_dir("/proc/self/fd").expect("fds").flatten();
        let links = fds.filter_map(|fd| fs::read_link(fd.path()).ok());
        links.filter(|link| link.to_string_lossy().contains("inotify")).count()
    }

    #[test]
    fn instances_are_given_back() {
        let temp = tempfile::tempdir().expect("dir");
        let dir = Dir::open(temp.path()).expect("open");
        // Far more than a user may have at a time.
        for _ in 0..600 {
            drop(watch_soon(&dir));
        }
        assert!(instances() <= 1, "at most another test's");
    }
}
