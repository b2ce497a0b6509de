//! Progress reports: a new `last_tick` in the payload.

use super::observe::show;
use crate::error::{Error, Kind};
use crate::model::lease::{GUARDIAN, MAX_PAYLOAD, Payload, TickStamp};
use crate::model::stamp::Stamp;
use crate::os::dir::Opened;
use crate::os::payload_file::{PayloadReading, read_payload, write_payload};
use crate::os::store::{LockPlace, StorePlace};
use crate::os::{clock, fdinfo, host, proc};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
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
    let mut why_not = None;
    for (_, lock) in place.own() {
        let path = show(&lock.path());
        match open(lock, &path).and_then(|file| Ok((holder_for(callers, &file, &place.store)?, file))) {
            Ok((holder, file)) => return tick_all(holder, &file, lock),
            // The role may hang on the other name alone, as that of the Go program does.
            Err(error) => drop(why_not.get_or_insert(error)),
        }
    }
    Err(why_not.unwrap_or_else(|| Error::new(Kind::NotOwner, "there is no lock file")))
}

fn open(lock: &LockPlace, path: &str) -> Result<File, Error> {
    match lock.open_to_write() {
        Ok(Opened::File(file)) => Ok(file),
        Ok(Opened::Missing) => {
            Err(Error::new(Kind::NotOwner, format!("{path} is gone, and the role with it")))
        }
        Ok(Opened::NotAFile(what)) => {
            Err(Error::new(Kind::NotOwner, format!("{path} is {what}; the role is gone")))
        }
        Err(error) => Err(Error::io(path, &error)),
    }
}

/// The process that holds the lock file and for which one of `callers` may tick.
fn holder_for(callers: &[u32], file: &File, store: &Path) -> Result<u32, Error> {
    let mut hidden = !proc::is_ours();
    for caller in callers {
        match may_tick(*caller, file) {
            Ok(Some(holder)) => return Ok(holder),
            Ok(None) => {}
            Err(error) if proc::is_gone(&error) => {}
            Err(_) => hidden = true,
        }
    }
    if hidden {
        let what = format!("cannot see whether the caller serves {}", show(store));
        return Err(Error::new(Kind::CannotTell, what).hint("tick as the user who holds the role"));
    }
    Err(Error::new(
        Kind::NotOwner,
        format!("only the process that serves {} and the command it was started for may tick", show(store)),
    ))
}

/// A role has one payload in each of its lock files; whoever reads one of them must find the tick.
fn tick_all(holder: u32, file: &File, lock: &LockPlace) -> Result<(), Error> {
    let path = lock.path();
    let outcome = write_tick(file, &show(&path));
    for other in other_locks(file).into_iter().filter(|other| *other != path) {
        // Only what the same process holds: the text of a payload gives no right to a file.
        if let Ok(Opened::File(other_file)) = LockPlace::at(&other).and_then(|lock| lock.open_to_write())
            && fdinfo::holds(holder, &other_file, fdinfo::exclusive_flock).unwrap_or(false)
        {
            write_tick(&other_file, &show(&other))?;
        }
    }
    outcome
}

fn other_locks(file: &File) -> Vec<PathBuf> {
    match read_payload(file, PATIENCE) {
        Ok(PayloadReading::Stable(bytes)) => Payload::parse(&bytes).map_or(Vec::new(), |payload| {
            payload.locks().into_iter().map(PathBuf::from).filter(|path| path.is_absolute()).collect()
        }),
        _ => Vec::new(),
    }
}

/// Whose tick it would be: that of the holder.
fn may_tick(pid: u32, file: &File) -> io::Result<Option<u32>> {
    if fdinfo::holds(pid, file, fdinfo::exclusive_flock)? {
        return Ok(Some(pid));
    }
    let guardian = proc::stat(pid)?.ppid;
    let arguments = proc::cmdline(guardian)?;
    if arguments.get(1).is_none_or(|argument| argument != GUARDIAN.as_bytes()) {
        return Ok(None);
    }
    let holder = proc::stat(guardian)?.ppid;
    Ok(fdinfo::holds(holder, file, fdinfo::exclusive_flock)?.then_some(holder))
}

/// Writes a tick into the payload of a lock file that the caller has a right to.
///
/// # Errors
/// As [`tick_for`].
pub(crate) fn write_tick(file: &File, path: &str) -> Result<(), Error> {
    let io = |error: &io::Error| Error::io(path, error);
    let bytes = match read_payload(file, PATIENCE).map_err(|error| io(&error))? {
        PayloadReading::Stable(bytes) => bytes,
        PayloadReading::Torn | PayloadReading::TooLong => Vec::new(),
    };
    let Some(payload) = Payload::parse(&bytes) else {
        return Err(Error::new(Kind::Io, format!("{path} holds no payload that a tick could be added to")));
    };
    let now = Stamp::of(SystemTime::now());
    let clocks = TickStamp {
        boot_id: host::boot_id(),
        time_ns: host::time_namespace(),
        monotonic_us: Some(clock::monotonic_us()),
        boottime_us: Some(clock::boottime_us()),
        ..TickStamp::default()
    };
    let ticked = payload.ticked(now, clocks).to_bytes();
    if ticked.len() > MAX_PAYLOAD {
        return Err(Error::new(Kind::Io, format!("{path} has no room for a tick (16 KiB at most)")));
    }
    write_payload(file, &ticked).map_err(|error| io(&error))
}
