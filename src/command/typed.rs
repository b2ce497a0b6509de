//! What was typed, checked: names of locks, and the code for "busy".

use crate::cli::shared::Busy;
use crate::error::Error;
use crate::exit::{Status, may_mean_busy};
use crate::model::name::LockName;
use crate::report::escape;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// A name that a person typed.
pub(crate) fn name(text: &OsStr) -> Result<LockName, Error> {
    LockName::parse(text).map_err(|why| {
        let shown = escape(text.as_bytes(), 60);
        let hint = if why.starts_with("reads as a duration") {
            None
        } else {
            Some("for example: sync, nightly-backup, ticket.42")
        };
        let error = Error::usage(format!("'{shown}' {}{why}", if hint.is_some() { "is " } else { "" }));
        match hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    })
}

/// The code for "busy": 75 or what `-E` says.
pub(crate) fn busy_code(busy: &Busy, zero_allowed: bool) -> Result<Status, Error> {
    match busy.busy_code {
        None => Ok(crate::exit::Exit::Skip.into()),
        Some(0) if !zero_allowed => Err(Error::usage("-E 0 would make a refusal look like an acquired lock")
            .hint("use another code, 1 to 63")),
        Some(code) if may_mean_busy(code) => Ok(Status::chosen(code)),
        Some(code) => {
            Err(Error::usage(format!("-E {code} has a meaning already"))
                .hint("use 0 to 63, 75, or 79 to 125"))
        }
    }
}
