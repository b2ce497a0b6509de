//! Starting the command so that nothing of it runs before the record names it: the
//! child is ourselves, waits at a gate, and then becomes the command. A gate that
//! closes instead means that the supervisor is gone: 71, and nothing runs.

use super::ClaimCall;
use crate::cli::claim::SHIM;
use crate::cli::shared::ShimArgs;
use crate::command::exec;
use crate::error::{Error, Kind, reason};
use crate::exit::{CANNOT_EXECUTE, NOT_FOUND, Status};
use crate::os::mask::SignalMask;
use crate::os::start_barrier::{StartBarrier, WaitingShim};
use crate::report::{Report, escape};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// This very program, even when its file was replaced.
pub(super) const OURSELVES: &str = "/proc/self/exe";

/// Starts the child; `exports` go to its environment, and `mask` is what it unblocks.
///
/// # Errors
/// No pipe or no process to be had.
pub(super) fn start(
    command: &[OsString],
    exports: Vec<(&'static str, OsString)>,
    mask: SignalMask,
) -> io::Result<(Child, StartBarrier)> {
    let (gate, ends) = StartBarrier::new()?;
    let (go, answer) = ends.numbers();
    let mut shim = Command::new(OURSELVES);
    shim.arg0("orion-claim").arg(SHIM);
    shim.args([format!("--gate={go}"), format!("--answer={answer}"), format!("--mask={}", mask.to_text())]);
    let child = shim.arg("--").args(command).envs(exports).spawn()?;
    Ok((child, gate))
}

/// The hidden subcommand; does not return when all goes well.
pub(super) fn shim(call: ClaimCall, args: &ShimArgs) -> Result<Status, Error> {
    let mask = SignalMask::parse(&args.mask);
    let (Some(mask), Ok(mut waiting)) = (mask, WaitingShim::take_over(args.gate, args.answer)) else {
        return Err(Error::usage("this is what 'run' starts; it is not for people")
            .hint("orion-claim run KEY CMD [ARG...]"));
    };
    if !waiting.is_opened() {
        return Err(Error::new(Kind::System, "whoever claimed the ticket is gone, so nothing was run"));
    }
    drop(call.file_size);
    // A signal that came while we waited arrives here, before the command.
    let failed = match mask.give_back() {
        Ok(()) => exec::exec(&args.command),
        Err(error) => error,
    };
    waiting.failed(&failed);
    Ok(CANNOT_EXECUTE)
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
    report.warn(&format!("{}: {why}; no ticket was claimed", escape(program.as_bytes(), 120)));
    Some(status)
}
