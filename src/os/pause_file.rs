//! The file of a pause: `NAME.pause` beside the records of a name, and `.pause` for all of a directory.
//! It survives a restart, so unlike records it is synced.

use crate::error::reason;
use crate::model::pause::{PAUSE_MAX, Pause, PauseFound};
use crate::model::time::WallTime;
use crate::os::dir::{Dir, Opened};
use rustix::fs::{OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, fsync, futimens};
use std::io::{self, Read, Write};

/// Behind the name.
const SUFFIX: &str = ".pause";

/// The file of a name; an empty one stands for everything in the directory.
pub(crate) fn file_name(stem: &str) -> String {
    format!("{stem}{SUFFIX}")
}

/// The name under which it is written, before it is moved to its own.
pub(crate) fn temp_name(stem: &str) -> String {
    format!(".{stem}{SUFFIX}-tmp")
}

/// What stands there. When people were told last is the time of the last change of the file's content, which
/// [`told_now`] sets.
pub(crate) fn read(dir: &Dir, stem: &str) -> PauseFound {
    let name = file_name(stem);
    let unreadable =
        |why: String| PauseFound::Unreadable(format!("{}: {why}", dir.path().join(&name).display()));
    match dir.open_file(&name, OFlags::RDONLY) {
        Ok(Opened::Missing) => PauseFound::Nothing,
        Ok(Opened::NotAFile(what)) => unreadable(what.to_owned()),
        Err(error) => unreadable(reason(&error)),
        Ok(Opened::File(file)) => {
            let mut bytes = Vec::new();
            let told = file.metadata().and_then(|meta| meta.modified()).map_or(WallTime(0), WallTime::of);
            match Read::take(&file, PAUSE_MAX as u64 + 1).read_to_end(&mut bytes) {
                Err(error) => unreadable(reason(&error)),
                Ok(_) => match Pause::parse(&bytes) {
                    Ok(pause) => PauseFound::Read(Box::new(pause), told),
                    Err(why) => unreadable(why),
                },
            }
        }
    }
}

/// Writes it, in the place of another one; on the disk when this returns.
///
/// # Errors
/// ENOSPC, EROFS, EACCES and the like; what stood there before still does.
pub(crate) fn write(dir: &Dir, stem: &str, bytes: &[u8]) -> io::Result<()> {
    let (name, temp) = (file_name(stem), temp_name(stem));
    let made = match dir.create(&temp) {
        // Left by a kill.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            dir.unlink(&temp).and_then(|()| dir.create(&temp))
        }
        other => other,
    };
    let written = made.and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        dir.rename(&temp, &name)
    });
    if written.is_err() {
        drop(dir.unlink(&temp));
        return written;
    }
    Ok(fsync(dir.fd())?)
}

/// Takes it away; `false`: there was none.
///
/// # Errors
/// EISDIR, EACCES and the like.
pub(crate) fn remove(dir: &Dir, stem: &str) -> io::Result<bool> {
    let name = file_name(stem);
    match dir.stat(&name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        other => drop(other?),
    }
    dir.unlink(&name)?;
    fsync(dir.fd())?;
    Ok(true)
}

/// Remembers that people were told of it now.
///
/// # Errors
/// EROFS, EACCES and the like.
pub(crate) fn told_now(dir: &Dir, stem: &str) -> io::Result<()> {
    let Opened::File(file) = dir.open_file(&file_name(stem), OFlags::RDWR)? else { return Ok(()) };
    let time = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    Ok(futimens(&file, &Timestamps { last_access: time(UTIME_OMIT), last_modification: time(UTIME_NOW) })?)
}

/// The names that have such a file, unsorted.
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn stems(dir: &Dir) -> io::Result<Vec<String>> {
    let stem = |file: std::ffi::OsString| Some(file.to_str()?.strip_suffix(SUFFIX)?.to_owned());
    Ok(dir.names()?.into_iter().filter_map(stem).filter(|stem| !stem.is_empty()).collect())
}
