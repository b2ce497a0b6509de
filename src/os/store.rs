//! A store and the lock files beside it: one role however the store is spelled.

use crate::os::dir::{Dir, Opened};
use crate::os::mounts;
use rustix::fs::OFlags;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The lock file of the Go program's first version: one for a whole directory.
pub(crate) const LEGACY: &str = "resident.lock";

/// Where a store and its lock files are. A store has one role by every name that can be
/// seen, so it may have several lock files.
#[derive(Debug)]
pub(crate) struct StorePlace {
    /// The store, absolute and without links; it need not exist.
    pub(crate) store: PathBuf,
    /// In the order in which they are taken: of the name as the Go program derives it, of
    /// the store without links, of its other mounts; then the legacy ones of their directories.
    pub(crate) locks: Vec<LockPlace>,
}

/// One lock file.
#[derive(Debug)]
pub(crate) struct LockPlace {
    dir: Arc<Dir>,
    /// Its name in that directory.
    pub(crate) name: String,
    pub(crate) kind: LockKind,
}

/// What a lock file stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockKind {
    /// The store under a name that was given, or that this leads to.
    Own,
    /// The store where it is mounted a second time.
    OtherMount,
    /// Every store of its directory, as in the first version.
    Legacy,
}

impl StorePlace {
    /// Finds the place of a store. Links are followed to the end, also by a name
    /// whose target does not exist yet: one file is one role. `working_dir` is PWD of the
    /// environment, which the Go program believes where it leads to the working directory.
    ///
    /// # Errors
    /// InvalidInput for a path without a file name or with one that is not UTF-8;
    /// ENOENT, ENOTDIR, EACCES, ELOOP for its directory.
    pub(crate) fn find(typed: &Path, working_dir: Option<&Path>) -> io::Result<Self> {
        let typed = Path::new(OsStr::from_bytes(trimmed(typed.as_os_str().as_bytes())));
        let store = resolve(typed)?;
        let mut place = Self { locks: Vec::new(), store };
        place.add(LockPlace::of(&place.store, LockKind::Own)?)?;
        match LockPlace::of(&cleaned(&absolute(typed, working_dir)?), LockKind::Own) {
            // Where that directory does not exist, the Go program finds nothing either.
            Err(error) if matches!(error.raw_os_error(), Some(nix::libc::ENOENT | nix::libc::ENOTDIR)) => {}
            lock => place.add(lock?)?,
        }
        // The one of the text comes first, for everybody.
        place.locks.reverse();
        for name in mounts::other_names(&place.store) {
            // A mount in a place that is closed to us can be nobody's way to the store as we are.
            if let Ok(lock) = LockPlace::of(&name, LockKind::OtherMount) {
                place.add(lock)?;
            }
        }
        for position in 0..place.locks.len() {
            let dir = Arc::clone(&place.locks[position].dir);
            place.add(LockPlace { dir, name: LEGACY.to_owned(), kind: LockKind::Legacy })?;
        }
        Ok(place)
    }

    /// Adds a lock file that is not there yet by another path to its directory.
    fn add(&mut self, lock: LockPlace) -> io::Result<()> {
        for known in &self.locks {
            if known.name == lock.name && known.dir.is_same(&lock.dir)? {
                return Ok(());
            }
        }
        self.locks.push(lock);
        Ok(())
    }

    /// The lock files of the store itself, by position.
    pub(crate) fn own(&self) -> impl Iterator<Item = (usize, &LockPlace)> {
        self.locks.iter().enumerate().filter(|(_, lock)| lock.kind != LockKind::Legacy)
    }

    /// The path of its first lock file.
    pub(crate) fn lock_path(&self) -> PathBuf {
        self.locks[0].path()
    }
}

impl LockPlace {
    fn of(store: &Path, kind: LockKind) -> io::Result<Self> {
        let (Some(parent), Some(name)) = (store.parent(), store.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let name = name.to_str().ok_or(io::ErrorKind::InvalidInput)?;
        let name = format!("{name}.resident.lock");
        Ok(Self { dir: Arc::new(Dir::open(parent)?), name, kind })
    }

    /// A lock file by its own path, as another resident wrote it down.
    ///
    /// # Errors
    /// As [`StorePlace::find`].
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str)) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        Ok(Self { dir: Arc::new(Dir::open(parent)?), name: name.to_owned(), kind: LockKind::Own })
    }

    /// Its path.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join(&self.name)
    }

    /// Does its path lead to this very file?
    ///
    /// # Errors
    /// EACCES and the like.
    pub(crate) fn leads_to(&self, file: &File) -> io::Result<bool> {
        self.dir.path_leads_to(&self.name, file)
    }

    /// Opens it for reading, which is all that locking it needs.
    ///
    /// # Errors
    /// As [`Dir::open_file`].
    pub(crate) fn open_to_read(&self) -> io::Result<Opened> {
        self.dir.open_file(&self.name, OFlags::RDONLY)
    }

    /// Opens it, if it exists, for reading and writing.
    ///
    /// # Errors
    /// As [`Dir::open_file`].
    pub(crate) fn open_to_write(&self) -> io::Result<Opened> {
        self.dir.open_file(&self.name, OFlags::RDWR)
    }

    /// Opens it for somebody who wants the role, making it when missing.
    ///
    /// # Errors
    /// As [`Dir::open_or_create`].
    pub(crate) fn open_or_create(&self) -> io::Result<Opened> {
        self.dir.open_or_create(&self.name, OFlags::RDWR)
    }
}

/// Without the white space of Unicode around it (`strings.TrimSpace` of Go).
fn trimmed(path: &[u8]) -> &[u8] {
    let blank = |chunk: Option<std::str::Utf8Chunk<'_>>, at_end: bool| {
        let Some(chunk) = chunk.filter(|chunk| !at_end || chunk.invalid().is_empty()) else { return 0 };
        let text = chunk.valid();
        text.len() - if at_end { text.trim_end() } else { text.trim_start() }.len()
    };
    let path = &path[blank(path.utf8_chunks().next(), false)..];
    &path[..path.len() - blank(path.utf8_chunks().last(), true)]
}

/// The path from the root, as Go makes it: PWD, where it leads to the working directory, is
/// believed before getcwd(2), so that a link in it stays (`os.Getwd`).
fn absolute(path: &Path, working_dir: Option<&Path>) -> io::Result<PathBuf> {
    if path.is_absolute() {
        return Ok(path.to_owned());
    }
    let believed = working_dir.filter(|dir| {
        let same = |a: fs::Metadata, b: fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        let both = fs::metadata(dir).ok().zip(fs::metadata(".").ok());
        dir.is_absolute() && both.is_some_and(|(dir, here)| same(dir, here))
    });
    Ok(match believed {
        Some(dir) => dir.join(path),
        None => std::env::current_dir()?.join(path),
    })
}

/// Without `.` and `..`, by the text alone (`filepath.Clean` of Go): links are not looked at.
fn cleaned(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(clean.pop()),
            Component::CurDir => {}
            part => clean.push(part),
        }
    }
    clean
}

/// The store's own path. `fs::canonicalize` refuses what does not exist; then its
/// directory counts, after the links that its last component may be.
fn resolve(store: &Path) -> io::Result<PathBuf> {
    let mut path = store.to_owned();
    // As many links as the kernel follows (path_resolution(7)).
    for _ in 0..40 {
        match fs::canonicalize(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = fs::canonicalize(parent.unwrap_or(Path::new(".")))?;
        let there = parent.join(name);
        match fs::read_link(&there) {
            Ok(target) => path = parent.join(target),
            Err(_) => return Ok(there),
        }
    }
    Err(rustix::io::Errno::LOOP.into())
}

/// When the file was changed last, and how long it is: who a program is, as far as
/// the file system knows.
///
/// # Errors
/// What stat(2) answers.
pub(crate) fn time_and_size(path: &Path) -> io::Result<(std::time::SystemTime, u64)> {
    let metadata = fs::metadata(path)?;
    Ok((metadata.modified()?, metadata.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn one_store_is_one_place_however_it_is_spelled() {
        let temp = tempfile::tempdir().expect("dir");
        let top = fs::canonicalize(temp.path()).expect("path");
        fs::create_dir(top.join("data")).expect("dir");
        symlink("data", top.join("link")).expect("link");
        symlink("data/new.db", top.join("alias")).expect("link");
        symlink("loop", top.join("loop")).expect("link");
        let wanted = top.join("data/new.db");
        for round in ["missing", "there"] {
            for spelling in ["data/new.db", "data/../data/./new.db", "link/new.db", "alias"] {
                let place = StorePlace::find(&top.join(spelling), None).expect("place");
                assert_eq!(place.store, wanted, "{round}: {spelling}");
                let last = place.own().last().expect("a lock file").1;
                assert_eq!(last.path(), top.join("data/new.db.resident.lock"));
                assert_eq!(place.own().count(), if spelling == "alias" { 2 } else { 1 }, "{spelling}");
            }
            fs::write(&wanted, "").expect("store");
        }
        let directory = StorePlace::find(&top.join("data/"), None).expect("place");
        assert_eq!(directory.lock_path(), top.join("data.resident.lock"));
        for bad in ["nowhere/x.db", "loop", "data/new.db/x"] {
            assert!(StorePlace::find(&top.join(bad), None).is_err(), "{bad}");
        }
        for bad in ["", "/", "/.."] {
            assert!(StorePlace::find(Path::new(bad), None).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_path_is_cleaned_as_go_cleans_it() {
        for (path, clean) in
            [("/a/b/../c", "/a/c"), ("/a//b/./c/", "/a/b/c"), ("/../a", "/a"), ("/a/..", "/")]
        {
            assert_eq!(cleaned(Path::new(path)), Path::new(clean), "{path}");
        }
        for (path, plain) in [
            (&b" a b\t"[..], &b"a b"[..]),
            ("\u{3000}\u{a0}a\u{2028}".as_bytes(), b"a"),
            (b" \xff ", b"\xff"),
            (b"\xff \xff", b"\xff \xff"),
            ("a\u{200b}".as_bytes(), "a\u{200b}".as_bytes()),
            (b" \t", b""),
        ] {
            assert_eq!(trimmed(path), plain, "{path:?}");
        }
    }

    #[test]
    fn dots_behind_a_link_give_both_lock_files_the_one_of_the_text_first() {
        let temp = tempfile::tempdir().expect("dir");
        let top = fs::canonicalize(temp.path()).expect("path");
        fs::create_dir_all(top.join("far/away")).expect("dir");
        symlink("far/away", top.join("link")).expect("link");
        let place = StorePlace::find(&top.join(" link/../x.db ").join(""), None);
        assert!(place.is_err(), "a blank in the middle is part of a name");
        let place = StorePlace::find(&top.join("link/../x.db "), None).expect("place");
        let locks: Vec<PathBuf> = place.own().map(|(_, lock)| lock.path()).collect();
        assert_eq!(locks, [top.join("x.db.resident.lock"), top.join("far/x.db.resident.lock")]);
        let legacy = place.locks.iter().filter(|lock| lock.kind == LockKind::Legacy);
        assert_eq!(
            legacy.map(LockPlace::path).collect::<Vec<_>>(),
            [top.join("resident.lock"), top.join("far/resident.lock")]
        );
    }
}
