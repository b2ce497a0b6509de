//! The payload of a lock file: read whole, and written without a torn moment.

use crate::model::lease::MAX_PAYLOAD;
use crate::os::mask::{self, Blocked};
use nix::sys::signal::Signal;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// How often a payload is read at least before it counts as torn.
const ATTEMPTS: u32 = 50;

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

#[cfg(test)]
mod tests {
    use super::*;

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
