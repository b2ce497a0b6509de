//! Starting the command of a claimed ticket.

use super::ClaimCall;
use crate::cli::shared::ShimArgs;
use crate::command::{exec, shim};
use crate::error::{Error, reason};
use crate::exit::{CANNOT_EXECUTE, NOT_FOUND, Status};
use crate::report::{Report, escape};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// The hidden subcommand; does not return when all goes well.
pub(super) fn shim(call: ClaimCall, args: &ShimArgs) -> Result<Status, Error> {
    let typed = Error::usage("this is what 'run' starts; it is not for people")
        .hint("orion-claim run KEY CMD [ARG...]");
    let gone = "whoever claimed the ticket is gone, so nothing was run";
    shim::become_command(call.file_size, args, typed, gone)
}

/// Can the command be run at all? Asked before a ticket is claimed for it. `None`: it can.
pub(super) fn unusable(report: &Report, command: &[OsString]) -> Option<Status> {
    let program = command.first()?;
    let (why, status) = match exec::find(program) {
        Some(file) => match rustix::fs::access(&file, rustix::fs::Access::EXEC_OK) {
            Ok(()) => return None,
            Err(rustix::io::Errno::NOENT) => ("no such file".to_owned(), NOT_FOUND),
            Err(error) => (reason(&error.into()), CANNOT_EXECUTE),
        },
        None => ("no such command".to_owned(), NOT_FOUND),
    };
    report.warning(&format!("{}: {why}; no ticket was claimed", escape(program.as_bytes(), 120)));
    Some(status)
}
