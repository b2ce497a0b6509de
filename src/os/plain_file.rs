//! Small files that several processes and a person share: read whole, replaced
//! whole, never through a link.

use crate::os::flock::{self, Mode};
use nix::libc;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

/// Tells one state of a file from the next, as far as the system can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    /// The inode: another one after every replacement.
    pub(crate) inode: u64,
    /// Bytes.
    pub(crate) size: u64,
    /// Last change of the content, nanoseconds since 1970.
    pub(crate) modified_ns: i128,
}

impl FileStamp {
    fn of(meta: &fs::Metadata) -> Self {
        let modified_ns = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
        Self { inode: meta.ino(), size: meta.size(), modified_ns }
    }
}

/// A file as it was read.
#[derive(Debug)]
pub(crate) struct Content {
    /// The whole of it.
    pub(crate) bytes: Vec<u8>,
    /// Which state this was.
    pub(crate) stamp: FileStamp,
    /// Permission bits.
    pub(crate) mode: u32,
}

/// Reads a regular file of at most `cap` bytes.
///
/// # Errors
/// ELOOP for a link, EINVAL for what is not a regular file, EFBIG above the cap.
pub(crate) fn read(path: &Path, cap: u64) -> io::Result<Content> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let meta = regular(&file)?;
    let mut bytes = Vec::with_capacity(usize::try_from(meta.size().min(cap)).unwrap_or(0) + 1);
    (&file).take(cap.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > cap {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    Ok(Content { bytes, stamp: FileStamp::of(&meta), mode: meta.permissions().mode() & 0o7777 })
}

/// The last `most` bytes of a regular file.
///
/// # Errors
/// As [`read`].
pub(crate) fn end(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let size = regular(&file)?.size();
    let mut bytes = vec![0; usize::try_from(size.min(most)).unwrap_or(0)];
    let read = file.read_at(&mut bytes, size.saturating_sub(most))?;
    bytes.truncate(read);
    Ok(bytes)
}

/// The state of a file now.
///
/// # Errors
/// ENOENT and the like.
pub(crate) fn stamp(path: &Path) -> io::Result<FileStamp> {
    fs::symlink_metadata(path).map(|meta| FileStamp::of(&meta))
}

/// Writes a new file beside the one that it shall replace, and gives its state. Synced
/// before anybody can see it: these are somebody's words, not our own records.
///
/// # Errors
/// What the system answers; nothing is left behind then.
pub(crate) fn draft(temp: &Path, bytes: &[u8], mode: u32) -> io::Result<FileStamp> {
    match fs::remove_file(temp) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(temp)?;
        // The umask has had its say in open.
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.write_all(bytes)?;
        file.sync_data()?;
        Ok(FileStamp::of(&file.metadata()?))
    })();
    if written.is_err() {
        drop(fs::remove_file(temp));
    }
    written
}

/// Replaces a file of our own by way of `temp` beside it; whatever stood there is gone.
///
/// # Errors
/// What the system answers; the old file is then still there.
pub(crate) fn replace(path: &Path, temp: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    draft(temp, bytes, mode)?;
    let renamed = fs::rename(temp, path);
    if renamed.is_err() {
        drop(fs::remove_file(temp));
    }
    renamed
}

/// What became of a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    /// It stands in the file's place.
    Ours,
    /// Somebody changed the file since it was read: theirs stands, and the draft is gone.
    Theirs,
}

/// Puts a draft in the place of a file that still holds the bytes `read`. The two files are
/// exchanged (renameat2(2), `RENAME_EXCHANGE`, Linux 3.15), so that whatever somebody saved in
/// the meantime comes out, is seen, and goes back in.
///
/// # Errors
/// What the system answers; ENOENT when somebody removed the file.
pub(crate) fn place(path: &Path, temp: &Path, read: &[u8]) -> io::Result<Placed> {
    let draft = stamp(temp)?;
    match exchange(temp, path) {
        Ok(()) => {}
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::OPNOTSUPP) => {
            // No exchange on this file system: a last look, and an instant that nobody guards.
            if self::read(path, u64::MAX - 1)?.bytes != read {
                fs::remove_file(temp)?;
                return Ok(Placed::Theirs);
            }
            fs::rename(temp, path)?;
            return Ok(Placed::Ours);
        }
        Err(error) => return Err(error.into()),
    }
    take_back(path, temp, draft.inode, |came_out| came_out == read)
}

/// After an exchange: what came out stands in `temp`. Unless it `is_known`, it goes back in. `ours`
/// is the inode that was put in.
///
/// # Errors
/// What the system answers.
pub(crate) fn take_back(
    path: &Path,
    temp: &Path,
    mut ours: u64,
    is_known: impl Fn(&[u8]) -> bool,
) -> io::Result<Placed> {
    let mut placed = Placed::Theirs;
    if read(temp, u64::MAX - 1).is_ok_and(|content| is_known(&content.bytes)) {
        placed = Placed::Ours;
    } else {
        loop {
            let newer = stamp(temp)?.inode;
            exchange(temp, path)?;
            // Whatever comes out that we did not put in was saved since, and is newer still.
            if stamp(temp)?.inode == ours {
                break;
            }
            ours = newer;
        }
    }
    fs::remove_file(temp)?;
    Ok(placed)
}

fn exchange(one: &Path, other: &Path) -> rustix::io::Result<()> {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)
}

/// Appends to a file in one write, and makes it with `mode` where it is missing.
///
/// # Errors
/// What the system answers. After ENOSPC the last line may be torn.
pub(crate) fn append(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.append(true);
    open_or_make(path, options, mode)?.write_all(bytes)
}

/// Takes back what was appended since a file had `size` bytes.
///
/// # Errors
/// What the system answers; a missing file of no bytes is none.
pub(crate) fn cut(path: &Path, size: u64) -> io::Result<()> {
    match OpenOptions::new().write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && size == 0 => Ok(()),
        opened => opened?.set_len(size),
    }
}

/// A lock file that stays: opened where it exists, made where it does not, locked,
/// and only believed while the path still means this inode. `None`: somebody else
/// kept it for the whole of `timeout`.
///
/// # Errors
/// What the system answers.
pub(crate) fn locked(path: &Path, mode: u32, timeout: Duration) -> io::Result<Option<File>> {
    for _ in 0..5 {
        let Some(file) = flock::lock_within(open(path, mode)?, Mode::Exclusive, timeout)? else {
            return Ok(None);
        };
        match fs::symlink_metadata(path) {
            Ok(meta) if meta.ino() == file.metadata()?.ino() => return Ok(Some(file)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from_raw_os_error(libc::EAGAIN))
}

fn open(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    open_or_make(path, options, mode)
}

/// Opens what exists; makes it only where nothing is, with exactly this mode: who
/// shares the directory shares the files, whatever the umask of the first.
fn open_or_make(path: &Path, mut options: OpenOptions, mode: u32) -> io::Result<File> {
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match options.clone().create_new(true).mode(mode).open(path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options.open(path)?,
                made => {
                    let made = made?;
                    made.set_permissions(fs::Permissions::from_mode(mode))?;
                    made
                }
            }
        }
        opened => opened?,
    };
    regular(&file)?;
    Ok(file)
}

/// Puts a note into a locked file, or empties it with no bytes.
///
/// # Errors
/// What the system answers.
pub(crate) fn overwrite(file: &File, bytes: &[u8]) -> io::Result<()> {
    // Emptied first: a kill in between leaves no note, never half of an old one.
    file.set_len(0)?;
    if bytes.is_empty() { Ok(()) } else { file.write_all_at(bytes, 0) }
}

fn regular(file: &File) -> io::Result<fs::Metadata> {
    let meta = file.metadata()?;
    if meta.is_file() { Ok(meta) } else { Err(io::Error::from_raw_os_error(libc::EINVAL)) }
}
