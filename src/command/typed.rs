//! What was typed, checked: names of locks, and the code for "busy".

use crate::error::Error;
use crate::exit::{Exit, Status, may_mean_busy};
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
            Some("for example: sync, nightly-backup, feature/login")
        };
        let error = Error::usage(format!("'{shown}' {}{why}", if hint.is_some() { "is " } else { "" }));
        match hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    })
}

/// Why `-E 0` is refused, and what to do instead.
type WhyNotZero = (&'static str, &'static str);

/// Where a refusal that looks like a success would be taken for an acquired lock.
pub(crate) const NOT_ACQUIRED: WhyNotZero =
    ("-E 0 would make a refusal look like an acquired lock", "use another code, 1 to 63");

/// The code for "busy": 75 or what `-E` says.
///
/// # Errors
/// USAGE: the code means something else already, or it is 0 and that is refused.
pub(crate) fn busy_code(code: Option<u8>, not_zero: Option<WhyNotZero>) -> Result<Status, Error> {
    match (code, not_zero) {
        (None, _) => Ok(Exit::Skip.into()),
        (Some(0), Some((what, hint))) => Err(Error::usage(what).hint(hint)),
        (Some(code), _) if may_mean_busy(code) => Ok(Status::chosen(code)),
        (Some(code), _) => {
            let lowest = u8::from(not_zero.is_some());
            Err(Error::usage(format!("-E {code} has a meaning already"))
                .hint(format!("use {lowest} to 63, 75, or 79 to 125")))
        }
    }
}
