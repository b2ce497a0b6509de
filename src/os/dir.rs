//! Directories by descriptor: below the state directory nothing is reached through
//! a path that somebody could swap, and no link is followed.

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, chmodat, fchmod, fstat, linkat, mkdirat, openat,
    renameat, renameat_with, statat, unlinkat,
};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// An open directory of ours.
#[derive(Debug)]
pub(crate) struct Dir {
    fd: OwnedFd,
    path: PathBuf,
    /// Shared between users of a group (setgid): files are 0660 instead of 0600.
    pub(crate) shared: bool,
}

/// A regular file, or what stands in its place.
#[derive(Debug)]
pub(crate) enum Opened {
    File(File),
    Missing,
    NotAFile(&'static str),
}

impl Dir {
    /// Opens the top directory; it may be a link, what is below may not.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())?;
        let shared = fstat(&fd)?.st_mode & 0o2020 == 0o2020;
        Ok(Self { fd, path: path.to_owned(), shared })
    }

    /// The path it was opened by, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Is it the same directory, by whatever path?
    pub(crate) fn is_same(&self, other: &Self) -> io::Result<bool> {
        Ok(same_inode(&fstat(&self.fd)?, &fstat(&other.fd)?))
    }

    /// The descriptor.
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// A directory in this one; created when `create` and missing.
    ///
    /// # Errors
    /// ENOENT, ELOOP or ENOTDIR for a link or a file, EPERM when it belongs to a stranger.
    pub(crate) fn sub(&self, name: &str, create: bool) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match openat(&self.fd, name, flags, Mode::empty()) {
            Err(rustix::io::Errno::NOENT) if create => {
                let mode = Mode::from_raw_mode(if self.shared { 0o2770 } else { 0o700 });
                match mkdirat(&self.fd, name, Mode::from_raw_mode(0o700)) {
                    // By name: a umask may leave us no right to open it.
                    Ok(()) => chmodat(&self.fd, name, mode, AtFlags::empty())?,
                    Err(rustix::io::Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                openat(&self.fd, name, flags, Mode::empty())?
            }
            other => other?,
        };
        let owner = fstat(&fd)?.st_uid;
        let trusted = self.shared
            || owner == 0
            || owner == rustix::process::geteuid().as_raw()
            || owner == fstat(&self.fd)?.st_uid;
        if !trusted {
            return Err(rustix::io::Errno::PERM.into());
        }
        Ok(Self { fd, path: self.path.join(name), shared: self.shared })
    }

    /// Opens an existing regular file without following a link and without
    /// blocking on a FIFO.
    ///
    /// # Errors
    /// EACCES, EMFILE and the like; a missing or irregular file is a value.
    pub(crate) fn open_file(&self, name: &str, access: OFlags) -> io::Result<Opened> {
        Ok(self.open_and_stat(name, access)?.0)
    }

    /// As [`Dir::open_file`], with what was seen of the file on the way.
    ///
    /// # Errors
    /// As [`Dir::open_file`].
    pub(crate) fn open_and_stat(&self, name: &str, access: OFlags) -> io::Result<(Opened, Option<Stat>)> {
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = match openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(rustix::io::Errno::NOENT) => return Ok((Opened::Missing, None)),
            Err(rustix::io::Errno::LOOP) => return Ok((Opened::NotAFile("a symbolic link"), None)),
            Err(rustix::io::Errno::ISDIR) => return Ok((Opened::NotAFile("a directory"), None)),
            Err(rustix::io::Errno::NXIO) => return Ok((Opened::NotAFile("a FIFO or socket"), None)),
            Err(error) => return Err(error.into()),
        };
        let stat = fstat(&fd)?;
        let opened = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Opened::File(File::from(fd)),
            FileType::Directory => Opened::NotAFile("a directory"),
            FileType::Fifo => Opened::NotAFile("a FIFO or socket"),
            _ => Opened::NotAFile("not a regular file"),
        };
        Ok((opened, Some(stat)))
    }

    /// Creates a file that must not exist yet, with exactly our mode whatever the umask is.
    ///
    /// # Errors
    /// EEXIST, ENOSPC, EROFS, EACCES …
    pub(crate) fn create(&self, name: &str) -> io::Result<File> {
        let mode = if self.shared { 0o660 } else { 0o600 };
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(&self.fd, name, flags, Mode::from_raw_mode(mode))?;
        // The umask may have taken bits away. Asked first: on ext4 a chmod is a journal entry, a stat is nothing.
        if fstat(&fd)?.st_mode & 0o777 != mode {
            fchmod(&fd, Mode::from_raw_mode(mode))?;
        }
        Ok(File::from(fd))
    }

    /// Opens a regular file, creating it when missing. Existing first, without
    /// O_CREAT: fs.protected_regular refuses that on other people's files (proc_sys_fs(5)).
    pub(crate) fn open_or_create(&self, name: &str, access: OFlags) -> io::Result<Opened> {
        for _ in 0..16 {
            match self.open_file(name, access)? {
                Opened::Missing => {}
                other => return Ok(other),
            }
            match self.create(name) {
                Ok(file) => return Ok(Opened::File(file)),
                // Somebody else was first.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(rustix::io::Errno::AGAIN.into())
    }

    /// What the name leads to now, without following a link.
    pub(crate) fn stat(&self, name: &str) -> io::Result<Stat> {
        Ok(statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Does the name lead to this very file?
    pub(crate) fn leads_to(&self, name: &str, file: impl AsFd) -> io::Result<bool> {
        match self.stat(name) {
            Ok(there) => Ok(same_inode(&there, &fstat(file)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// As [`Dir::leads_to`], by the full path: also sees a directory that was swapped.
    pub(crate) fn path_leads_to(&self, name: &str, file: impl AsFd) -> io::Result<bool> {
        match rustix::fs::lstat(self.path.join(name)) {
            Ok(there) => Ok(same_inode(&there, &fstat(file)?)),
            Err(rustix::io::Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a name; a missing one is fine.
    pub(crate) fn unlink(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// ENOTEMPTY, ENOENT …
    pub(crate) fn remove_dir(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.fd, name, AtFlags::REMOVEDIR)?)
    }

    /// Moves a file within the directory, over whatever is there.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.fd, from, &self.fd, to)?)
    }

    /// Moves a file to a name that must be free.
    ///
    /// # Errors
    /// EEXIST when it is not.
    pub(crate) fn rename_to_free(&self, from: &str, to: &str) -> io::Result<()> {
        match renameat_with(&self.fd, from, &self.fd, to, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            // Not every file system knows the flag (rename(2)); a hard link says EEXIST just as well.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                linkat(&self.fd, from, &self.fd, to, AtFlags::empty())?;
                self.unlink(from)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The names in it, unsorted.
    pub(crate) fn names(&self) -> io::Result<Vec<std::ffi::OsString>> {
        use std::os::unix::ffi::OsStringExt;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(std::ffi::OsString::from_vec(name));
            }
        }
        Ok(names)
    }
}

fn same_inode(a: &Stat, b: &Stat) -> bool {
    a.st_dev == b.st_dev && a.st_ino == b.st_ino && b.st_nlink > 0
}
