//! Randomness of the kernel.

use std::fs::File;
use std::io::{self, Read};

/// 128 random bits as 32 hex digits.
///
/// # Errors
/// `/dev/urandom` is missing or unreadable.
pub(crate) fn id() -> io::Result<String> {
    let mut random = [0_u8; 16];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A number from 0 up to, not including, 1; for jitter. 0.5 where there is no randomness.
pub(crate) fn fraction() -> f64 {
    let mut random = [0_u8; 4];
    match File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut random)) {
        Ok(()) => f64::from(u32::from_ne_bytes(random)) / (f64::from(u32::MAX) + 1.0),
        Err(_) => 0.5,
    }
}
