//! "The work passed here": a new `last_tick` in the payload.

use super::observe::show;
use crate::error::{Error, Kind};
use crate::model::lease::{GUARDIAN, MAX_PAYLOAD, Payload};
use crate::model::stamp::Stamp;
use crate::os::dir::Opened;
use crate::os::store::{self, PayloadReading, StorePlace};
use crate::os::{clock, fdinfo, host, proc};
use std::fs::File;
use std::io;
use std::time::{Duration, SystemTime};

/// How long a tick tries to read a payload that is just being written.
const PATIENCE: Duration = Duration::from_millis(20);

/// Ticks for one of `callers`, which must be the holder of the store's role or
/// the command that the holder was started for.
///
/// # Errors
/// [`Kind::NotOwner`] when none of them is, or the lock file is gone;
/// [`Kind::CannotTell`] when that cannot be seen; [`Kind::CannotCreate`] or
/// [`Kind::Io`] when the tick cannot be written.
pub(crate) fn tick_for(place: &StorePlace, callers: &[u32]) -> Result<(), Error> {
    let path = show(&place.lock_path());
    let file = match store::open_to_write(&place.dir, &place.lock) {
        Ok(Opened::File(file)) => file,
        Ok(Opened::Missing) => {
            return Err(Error::new(Kind::NotOwner, format!("{path} is gone, and the role with it")));
        }
        Ok(Opened::NotAFile(what)) => {
            return Err(Error::new(Kind::NotOwner, format!("{path} is {what}; the role is gone")));
        }
        Err(error) => return Err(Error::io(&path, &error)),
    };
    let mut hidden = false;
    for caller in callers {
        match may_tick(*caller, &file) {
            Ok(true) => return write_tick(&file, &path),
            Ok(false) => {}
            Err(error) if proc::is_gone(&error) => {}
            Err(_) => hidden = true,
        }
    }
    if hidden {
        let what = format!("cannot see whether the caller serves {}", show(&place.store));
        return Err(Error::new(Kind::CannotTell, what).hint("tick as the user who holds the role"));
    }
    Err(Error::new(
        Kind::NotOwner,
        format!(
            "only the process that serves {} and the command it was started for may tick",
            show(&place.store)
        ),
    ))
}

fn may_tick(pid: u32, file: &File) -> io::Result<bool> {
    if fdinfo::holds(pid, file, fdinfo::exclusive_flock)? {
        return Ok(true);
    }
    let guardian = proc::stat(pid)?.ppid;
    let arguments = proc::cmdline(guardian)?;
    if arguments.get(1).is_none_or(|argument| argument != GUARDIAN.as_bytes()) {
        return Ok(false);
    }
    fdinfo::holds(proc::stat(guardian)?.ppid, file, fdinfo::exclusive_flock)
}

/// Writes a tick into the payload of a lock file that the caller has a right to.
///
/// # Errors
/// As [`tick_for`].
pub(crate) fn write_tick(file: &File, path: &str) -> Result<(), Error> {
    let io = |error: &io::Error| Error::io(path, error);
    let bytes = match store::read_payload(file, PATIENCE).map_err(|error| io(&error))? {
        PayloadReading::Stable(bytes) => bytes,
        PayloadReading::Torn | PayloadReading::TooLong => Vec::new(),
    };
    let Some(payload) = Payload::parse(&bytes) else {
        return Err(Error::new(Kind::Io, format!("{path} holds no payload that a tick could be added to")));
    };
    let now = Stamp::of(SystemTime::now());
    let ticked = payload.ticked(now, host::boot_id().as_deref(), clock::monotonic_us()).to_bytes();
    if ticked.len() > MAX_PAYLOAD {
        return Err(Error::new(Kind::Io, format!("{path} has no room for a tick (16 KiB at most)")));
    }
    store::write_payload(file, &ticked).map_err(|error| io(&error))
}
