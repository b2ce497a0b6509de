//! The clocks of a pseudo-terminal: when it was last written to, and read from.

use crate::model::time::WallTime;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;

/// The kernel renews a terminal's stamps only in steps of eight seconds (tty_io.c, `tty_update_time`).
const BUCKET: u64 = 8;

/// Upper bounds: nothing was written, or read, later than these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PtyClocks {
    pub(crate) written_by: WallTime,
    pub(crate) read_by: WallTime,
}

/// Reads the clocks of the terminal at `path`, if that is the device `tty_nr` of a process.
///
/// # Errors
/// What `stat` answered, and `InvalidData` when the path is another device: terminal
/// numbers are used again at once, and another devpts has its own.
pub(crate) fn clocks(path: &str, tty_nr: i32) -> io::Result<PtyClocks> {
    let meta = fs::metadata(path)?;
    if !meta.file_type().is_char_device() || meta.rdev() != device(tty_nr) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(PtyClocks {
        written_by: bound(meta.mtime(), meta.mtime_nsec()),
        read_by: bound(meta.atime(), meta.atime_nsec()),
    })
}

/// A stamp with nanoseconds is the creation: nothing has happened since.
fn bound(seconds: i64, nanos: i64) -> WallTime {
    let seconds = u64::try_from(seconds).unwrap_or(0);
    if nanos != 0 {
        return WallTime(seconds * 1000 + u64::try_from(nanos / 1_000_000).unwrap_or(0));
    }
    WallTime((seconds - seconds % BUCKET + BUCKET) * 1000)
}

/// `tty_nr` of /proc/PID/stat as the `st_rdev` of its device: minor in bits 0–7 and
/// 20–31, major in 8–19 (proc_pid_stat(5)).
fn device(tty_nr: i32) -> u64 {
    let bits = u64::from(tty_nr.cast_unsigned());
    rustix::fs::makedev(
        u32::try_from(bits >> 8 & 0xfff).unwrap_or(0),
        u32::try_from(bits & 0xff | bits >> 12 & 0xf_ff00).unwrap_or(0),
    )
}

/// The name of the pseudo-terminal with this `tty_nr`, as a link in `/proc/PID/fd` shows it; `None` for others.
pub(crate) fn name(tty_nr: i32) -> Option<PathBuf> {
    let device = device(tty_nr);
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    // 136 to 143 are the Unix98 terminals (devices.txt of the kernel).
    let number = major.checked_sub(136).filter(|page| *page < 8)? * 256 + minor;
    Some(PathBuf::from(format!("/dev/pts/{number}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_round_up_to_the_end_of_their_bucket() {
        assert_eq!(bound(1600, 0), WallTime(1_608_000));
        assert_eq!(bound(1607, 0), WallTime(1_608_000));
        assert_eq!(bound(1607, 5_000_000), WallTime(1_607_005), "creation");
    }

    #[test]
    fn terminal_numbers_have_more_than_eight_bits() {
        assert_eq!(device(34_820), rustix::fs::makedev(136, 4));
        assert_eq!(device(1_083_436), rustix::fs::makedev(136, 300));
        assert_eq!(name(34_820), Some("/dev/pts/4".into()));
        assert_eq!(name(1_083_436), Some("/dev/pts/300".into()));
        assert_eq!((name(0), name(1025)), (None, None), "none, and the console");
    }
}
