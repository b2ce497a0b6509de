//! Settings of other programs, written by people: read whole, replaced whole, with their owner and mode.

use crate::model::place::DATABASE_NAMES;
use crate::os::plain_file;
use rustix::fs::{Gid, Uid, fchown};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A larger file is not a settings file.
const MOST: u64 = 4 << 20;

/// A settings file as it was read.
#[derive(Debug)]
pub(crate) struct SettingsFile {
    pub(crate) bytes: Vec<u8>,
    stamp: plain_file::FileStamp,
}

/// Reads a file; `None` where there is none.
///
/// # Errors
/// ELOOP for a link, EINVAL for what is not a regular file, EFBIG above 4 MiB.
pub(crate) fn read(path: &Path) -> io::Result<Option<SettingsFile>> {
    match plain_file::read(path, MOST) {
        Ok(content) => Ok(Some(SettingsFile { bytes: content.bytes, stamp: content.stamp })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Is there a database of this name for everybody on this machine? Whether it can be used is not asked.
pub(crate) fn names_database(name: &str) -> bool {
    let Ok(content) = plain_file::read(Path::new(DATABASE_NAMES), MOST) else { return false };
    let text = String::from_utf8_lossy(&content.bytes);
    text.lines().any(|line| line.split_whitespace().next() == Some(name) && !name.starts_with('#'))
}

/// Where a link leads, for people.
pub(crate) fn link_target(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}

/// Puts `bytes` in the place of a file that was read as `before`, or makes it, with its directory. The new file
/// has the owner and mode of the old one; of a missing one it has ours and 0600.
///
/// # Errors
/// EBUSY where the file is not what was read; else what the system answers. The old file is then still there.
pub(crate) fn replace(path: &Path, before: Option<&SettingsFile>, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut file = tempfile::Builder::new().prefix(".orion-mark.").tempfile_in(folder)?;
    file.write_all(bytes)?;
    if before.is_some() {
        let meta = fs::symlink_metadata(path)?;
        file.as_file().set_permissions(fs::Permissions::from_mode(meta.mode() & 0o7777))?;
        let ours = file.as_file().metadata()?;
        if (ours.uid(), ours.gid()) != (meta.uid(), meta.gid()) {
            fchown(file.as_file(), Some(Uid::from_raw(meta.uid())), Some(Gid::from_raw(meta.gid())))?;
        }
    }
    file.as_file().sync_data()?;
    let same = match (before, plain_file::stamp(path)) {
        (Some(before), Ok(stamp)) => before.stamp == stamp,
        (None, Err(error)) => error.kind() == io::ErrorKind::NotFound,
        _ => false,
    };
    if !same {
        return Err(io::Error::from_raw_os_error(nix::libc::EBUSY));
    }
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Removes a file that was read as `before`.
///
/// # Errors
/// As [`replace`].
pub(crate) fn remove(path: &Path, before: &SettingsFile) -> io::Result<()> {
    if plain_file::stamp(path)? != before.stamp {
        return Err(io::Error::from_raw_os_error(nix::libc::EBUSY));
    }
    fs::remove_file(path)
}
