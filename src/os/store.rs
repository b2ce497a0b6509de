//! A store and the lock file beside it: one place however the store is spelled,
//! and a payload that is read whole and written without a torn moment.

use crate::model::lease::MAX_PAYLOAD;
use crate::os::dir::{Dir, Opened};
use crate::os::mask::{self, Blocked};
use nix::sys::signal::Signal;
use rustix::fs::OFlags;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The lock file of the Go program's first version: one for a whole directory.
pub(crate) const LEGACY: &str = "resident.lock";

/// How often a payload is read at least before it counts as torn.
const ATTEMPTS: u32 = 50;

/// Where a store and its lock file are.
#[derive(Debug)]
pub(crate) struct StorePlace {
    /// The store, absolute and without links; it need not exist.
    pub(crate) store: PathBuf,
    /// The directory it lies in.
    pub(crate) dir: Dir,
    /// The name of the lock file in that directory.
    pub(crate) lock: String,
}

impl StorePlace {
    /// Finds the place of a store. Links are followed to the end, also by a name
    /// whose target does not exist yet: one file is one role.
    ///
    /// # Errors
    /// InvalidInput for a path without a file name or with one that is not UTF-8;
    /// ENOENT, ENOTDIR, EACCES, ELOOP for its directory.
    pub(crate) fn find(store: &Path) -> io::Result<Self> {
        let store = resolve(store)?;
        let (Some(parent), Some(name)) = (store.parent(), store.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let name = name.to_str().ok_or(io::ErrorKind::InvalidInput)?;
        let lock = format!("{name}.resident.lock");
        Ok(Self { dir: Dir::open(parent)?, lock, store })
    }

    /// The path of the lock file.
    pub(crate) fn lock_path(&self) -> PathBuf {
        self.dir.path().join(&self.lock)
    }
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

/// What reading a payload gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PayloadReading {
    /// Two readings in a row were these bytes.
    Stable(Vec<u8>),
    /// It kept changing.
    Torn,
    /// Longer than any payload.
    TooLong,
}

/// Reads a payload that may be written at this moment: torn readings can parse, so
/// only what two readings in a row agree on counts. Gives up after `patience`, but
/// not before [`ATTEMPTS`]: on a busy machine one reading may take as long.
///
/// # Errors
/// EIO and the like.
pub(crate) fn read_payload(file: &File, patience: Duration) -> io::Result<PayloadReading> {
    let end = Instant::now() + patience;
    let mut before = read_once(file)?;
    for attempt in 1.. {
        let now = read_once(file)?;
        if now == before {
            return Ok(if now.len() > MAX_PAYLOAD {
                PayloadReading::TooLong
            } else {
                PayloadReading::Stable(now)
            });
        }
        if attempt >= ATTEMPTS && Instant::now() >= end {
            break;
        }
        before = now;
    }
    Ok(PayloadReading::Torn)
}

/// At most one byte more than a payload may have.
fn read_once(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 1024];
    let mut length = 0;
    loop {
        match file.read_at(&mut bytes[length..], length as u64) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if length == bytes.len() {
            if length > MAX_PAYLOAD {
                break;
            }
            bytes.resize((length * 4).min(MAX_PAYLOAD + 1), 0);
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// Writes a payload in place: write, then truncate, as the Go program does. What
/// was longer is overwritten with line ends first, so that a kill between the two
/// leaves a whole payload.
///
/// # Errors
/// ENOSPC, EDQUOT, EROFS, EFBIG, EIO. The old payload may be gone then only on a
/// file system that copies on write.
pub(crate) fn write_payload(file: &File, bytes: &[u8]) -> io::Result<()> {
    let _no_death = Blocked::file_size();
    let old = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    let mut text = bytes.to_vec();
    if (bytes.len()..=MAX_PAYLOAD).contains(&old) {
        text.resize(old, b'\n');
    }
    if let Err(error) = file.write_all_at(&text, 0) {
        // A limit on file sizes comes as an error and as a signal, which waits behind the mask.
        mask::forget(Signal::SIGXFSZ);
        return Err(error);
    }
    if old > bytes.len() {
        file.set_len(bytes.len() as u64)?;
    }
    Ok(())
}

/// Opens a lock file for reading, which is all that locking it needs.
///
/// # Errors
/// As [`Dir::open_file`].
pub(crate) fn open_to_read(dir: &Dir, name: &str) -> io::Result<Opened> {
    dir.open_file(name, OFlags::RDONLY)
}

/// Opens an existing lock file for a tick.
///
/// # Errors
/// As [`Dir::open_file`].
pub(crate) fn open_to_write(dir: &Dir, name: &str) -> io::Result<Opened> {
    dir.open_file(name, OFlags::RDWR)
}

/// Opens the lock file for somebody who wants the role, making it when missing.
///
/// # Errors
/// As [`Dir::open_or_create`].
pub(crate) fn open_or_create(dir: &Dir, name: &str) -> io::Result<Opened> {
    dir.open_or_create(name, OFlags::RDWR)
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
                let place = StorePlace::find(&top.join(spelling)).expect("place");
                assert_eq!(place.store, wanted, "{round}: {spelling}");
                assert_eq!(place.lock_path(), top.join("data/new.db.resident.lock"));
            }
            fs::write(&wanted, "").expect("store");
        }
        assert_eq!(StorePlace::find(&top.join("data/")).expect("place").lock, "data.resident.lock");
        for bad in ["nowhere/x.db", "loop", "data/new.db/x"] {
            assert!(StorePlace::find(&top.join(bad)).is_err(), "{bad}");
        }
        for bad in ["", "/", "/.."] {
            assert!(StorePlace::find(Path::new(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_shorter_payload_leaves_nothing_behind_and_a_long_one_is_not_read() {
        let temp = tempfile::NamedTempFile::new().expect("file");
        let file = temp.as_file();
        let patience = Duration::from_millis(20);
        for text in ["{\"pid\":1,\"a\":\"long\"}\n", "{\"pid\":2}\n", "{\"pid\":3,\"b\":1}\n"] {
            write_payload(file, text.as_bytes()).expect("write");
            assert_eq!(read_payload(file, patience).expect("read"), PayloadReading::Stable(text.into()));
        }
        write_payload(file, &vec![b'x'; 1 << 20]).expect("write");
        assert_eq!(read_payload(file, patience).expect("read"), PayloadReading::TooLong);
        write_payload(file, b"{}").expect("write");
        assert_eq!(read_payload(file, patience).expect("read"), PayloadReading::Stable(b"{}".to_vec()));
    }
}
