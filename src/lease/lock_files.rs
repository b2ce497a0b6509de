//! The lock files of a role, opened.

use super::observe::show;
use crate::error::{Error, Kind};
use crate::os::dir::Opened;
use crate::os::store::{LockKind, LockPlace};
use std::fs::File;
use std::io;

pub(super) fn lock_error(lock: &LockPlace, error: &io::Error) -> Error {
    Error::io(&show(&lock.path()), error)
}

/// Opens a lock file of the store, making it when missing. `None`: one that stands for
/// another mount, is not there, and cannot be made.
pub(super) fn open(lock: &LockPlace) -> Result<Option<(File, bool)>, Error> {
    match lock.open_or_create() {
        Ok(Opened::File(file)) => Ok(Some((file, false))),
        Ok(Opened::NotAFile(what)) => {
            Err(Error::new(Kind::CannotCreate, format!("{} is {what}, not a lock file", show(&lock.path())))
                .hint("move it out of the way"))
        }
        Ok(Opened::Missing) => Err(lock_error(lock, &io::ErrorKind::NotFound.into())),
        Err(error) if lock.kind == LockKind::OtherMount => match lock.open_to_read() {
            Ok(Opened::File(file)) => Ok(Some((file, true))),
            Ok(Opened::Missing) => Ok(None),
            _ => Err(lock_error(lock, &error)),
        },
        Err(error) => Err(lock_error(lock, &error)),
    }
}
