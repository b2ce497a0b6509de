//! Record files: read without a lock, replaced whole under the guard.
//!
//! The guard alone cannot keep two changes apart when a cleaner unlinks it in the
//! middle: then two processes each hold a guard. So a record is also only removed
//! or replaced by whoever holds a flock on that very record file and sees the name
//! still lead to it, and a new one only goes to a free name.
//!
//! `NAME.json` is the first record of a name. Where it has several members, the others
//! are `NAME.members/1.json` and so on: a directory that no lock's file can be called like.

use crate::model::name::{LockName, is_hashed};
use crate::model::observation::Found;
use crate::model::record::{MAX_BYTES, Stored};
use crate::os::dir::{Dir, Opened};
use crate::os::flock::{self, Mode};
use rustix::fs::OFlags;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;

fn file_name(name: &str) -> String {
    format!("{name}.json")
}

/// One name per lock, so that kills never pile up files; made only under the guard.
fn temp_name(name: &str) -> String {
    format!(".{name}.tmp")
}

/// Reads a record without any lock. A reader may come between the unlink and the rename of an acquire:
/// where a guard is, a missing one is to be looked for again.
pub(crate) fn read(dir: &Dir, stem: &str, kind: &str, name: &str) -> Found {
    read_open(dir, stem, kind, name, OFlags::RDONLY).0
}

/// Reads a record under the guard, and keeps the file open for [`remove`] and [`replace`].
pub(crate) fn read_guarded(dir: &Dir, stem: &str, kind: &str, name: &str) -> (Found, Option<File>) {
    read_open(dir, stem, kind, name, OFlags::RDWR)
}

fn read_open(dir: &Dir, stem: &str, kind: &str, name: &str, access: OFlags) -> (Found, Option<File>) {
    match dir.open_file(&file_name(stem), access) {
        Ok(Opened::Missing) => (Found::Nothing, None),
        Ok(Opened::NotAFile(what)) => (Found::NotAFile(what), None),
        Ok(Opened::File(file)) => match read_bytes(&file) {
            Ok(bytes) => match Stored::parse(&bytes, kind, name) {
                Ok(stored) => (Found::Record(Box::new(stored)), Some(file)),
                Err(bad) => (Found::Bad(bad), Some(file)),
            },
            Err(error) => (Found::Unreadable(crate::error::reason(&error)), None),
        },
        Err(error) => (Found::Unreadable(crate::error::reason(&error)), None),
    }
}

/// At most one byte more than a record may have: enough to see that it is too large.
fn read_bytes(mut file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(1024);
    Read::take(&mut file, MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Replaces the record that is open as `file`. `false` as in [`place`].
pub(crate) fn replace(dir: &Dir, name: &str, file: &File, bytes: &[u8]) -> io::Result<bool> {
    write_temp(dir, name, bytes)?;
    let done = claim(dir, name, file).and_then(|ours| {
        if ours {
            dir.rename(&temp_name(name), &file_name(name))?;
        }
        Ok(ours)
    });
    if !matches!(done, Ok(true)) {
        drop(dir.unlink(&temp_name(name)));
    }
    done
}

/// Places a new record, in the place of the dead or released one that is open as `old`.
/// `false`: somebody else is changing it, or the name is taken; look again.
///
/// The old one is unlinked and the new one renamed to the free name: on ext4 a fifth of
/// the cost of a rename over it. A kill in between leaves "free", which is true. The old
/// one stays until the new one is written, so that a full disk loses nothing.
pub(crate) fn place(dir: &Dir, name: &str, old: Option<&File>, bytes: &[u8]) -> io::Result<bool> {
    write_temp(dir, name, bytes)?;
    let done = old.map_or(Ok(true), |old| {
        let ours = claim(dir, name, old)?;
        if ours {
            dir.unlink(&file_name(name))?;
        }
        Ok(ours)
    });
    let done = done.and_then(|ours| {
        if !ours {
            return Ok(false);
        }
        match dir.rename_to_free(&temp_name(name), &file_name(name)) {
            Ok(()) => Ok(true),
            // Somebody with another guard of this name was first, or took our temp file.
            Err(error) if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    });
    if !matches!(done, Ok(true)) {
        drop(dir.unlink(&temp_name(name)));
    }
    done
}

/// Removes the record that is open as `file`; `false` as in [`place`].
pub(crate) fn remove(dir: &Dir, name: &str, file: &File) -> io::Result<bool> {
    let ours = claim(dir, name, file)?;
    if ours {
        dir.unlink(&file_name(name))?;
    }
    Ok(ours)
}

/// Removes the record if it is exactly these bytes; `false` as in [`place`], or another one stands there.
pub(crate) fn remove_same(dir: &Dir, stem: &str, kind: &str, name: &str, bytes: &[u8]) -> io::Result<bool> {
    let (found, file) = read_guarded(dir, stem, kind, name);
    match (found.stored(), file) {
        (Some(stored), Some(file)) if stored.bytes == bytes => remove(dir, stem, &file),
        _ => Ok(false),
    }
}

/// Is the record that is open as `file` still the one at its name, and nobody about to take it away? Nobody
/// is from here on, until the file is closed.
pub(crate) fn stands(dir: &Dir, stem: &str, file: &File) -> io::Result<bool> {
    claim(dir, stem, file)
}

/// Moves a corrupt record out of the way; gives its new name. `None` as `false` in [`place`], or it is not
/// corrupt any more: somebody with another guard of this name took a temp file for his that was not written
/// yet, and its writer has written it since.
pub(crate) fn set_aside(
    dir: &Dir,
    name: &str,
    kind: &str,
    of: &str,
    mut file: &File,
) -> io::Result<Option<String>> {
    if !claim(dir, name, file)? {
        return Ok(None);
    }
    file.seek(io::SeekFrom::Start(0))?;
    if Stored::parse(&read_bytes(file)?, kind, of).is_ok() {
        return Ok(None);
    }
    for number in 1..1000 {
        let aside = format!("{name}.corrupt.{number}");
        match dir.rename_to_free(&file_name(name), &aside) {
            Ok(()) => return Ok(Some(aside)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// The right to take the name away from this file: its flock, and the name leading to it.
fn claim(dir: &Dir, name: &str, file: &File) -> io::Result<bool> {
    Ok(flock::try_lock(file, Mode::Exclusive)? && dir.leads_to(&file_name(name), file)?)
}

fn write_temp(dir: &Dir, name: &str, bytes: &[u8]) -> io::Result<()> {
    let temp = temp_name(name);
    let made = match dir.create(&temp) {
        // Left by a kill. Removed and made anew: in a shared directory it may be another user's.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            dir.unlink(&temp).and_then(|()| dir.create(&temp))
        }
        other => other,
    };
    // Also when it was made and only its mode could not be seen.
    made.and_then(|mut file| file.write_all(bytes)).inspect_err(|_| drop(dir.unlink(&temp)))
}

/// The directory of a name's other members. `None`: it has none.
///
/// # Errors
/// It is there and cannot be entered, or cannot be made.
pub(crate) fn members(dir: &Dir, name: &str, create: bool) -> io::Result<Option<Dir>> {
    match dir.sub(&members_name(name), create) {
        Ok(members) => Ok(Some(members)),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !create => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes that directory, where it is empty.
pub(crate) fn remove_members(dir: &Dir, name: &str) {
    drop(dir.remove_dir(&members_name(name)));
}

fn members_name(name: &str) -> String {
    format!("{name}.members")
}

/// The numbers of the records in a directory of members, ascending.
pub(crate) fn positions(members: &Dir) -> io::Result<Vec<u32>> {
    let number = |file: OsString| file.to_str()?.strip_suffix(".json")?.parse().ok();
    let mut positions: Vec<u32> = members.names()?.into_iter().filter_map(number).collect();
    positions.sort_unstable();
    Ok(positions)
}

/// Whose records are in a directory, unsorted.
#[derive(Debug, Default)]
pub(crate) struct RecordNames {
    pub(crate) names: Vec<LockName>,
    /// Files that are called like a record, and whose name is no lock's: another program made them.
    pub(crate) odd: Vec<OsString>,
}

/// Names of all records in the directory.
pub(crate) fn names(dir: &Dir) -> io::Result<RecordNames> {
    let mut all = RecordNames::default();
    for file in dir.names()? {
        let Some(stem) = file.as_bytes().strip_suffix(b".json") else { continue };
        match LockName::from_stem(stem).or_else(|| in_record(dir, stem)) {
            Some(name) => all.names.push(name),
            None => all.odd.push(file),
        }
    }
    Ok(all)
}

/// The name of a record whose file has only a hash of it.
fn in_record(dir: &Dir, stem: &[u8]) -> Option<LockName> {
    let stem = std::str::from_utf8(stem).ok().filter(|stem| is_hashed(stem.as_bytes()))?;
    let Ok(Opened::File(file)) = dir.open_file(&file_name(stem), OFlags::RDONLY) else { return None };
    let record: serde_json::Value = serde_json::from_slice(&read_bytes(&file).ok()?).ok()?;
    LockName::of(record.get("name")?.as_str()?).filter(|name| name.file() == stem)
}

/// Names that have a pulse file and no record, unsorted; not those of which their file has only a hash.
pub(crate) fn names_without(dir: &Dir) -> io::Result<Vec<LockName>> {
    let files = dir.names()?;
    let stem = |file: &OsString, ending: &[u8]| file.as_bytes().strip_suffix(ending).map(<[u8]>::to_vec);
    let recorded: HashSet<Vec<u8>> = files.iter().filter_map(|file| stem(file, b".json")).collect();
    let pulses = files.iter().filter_map(|file| stem(file, b".pulse"));
    Ok(pulses.filter(|stem| !recorded.contains(stem)).filter_map(|stem| LockName::from_stem(&stem)).collect())
}
