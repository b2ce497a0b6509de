//! What `run --tree` starts in the command's place. It waits until the record that
//! names it is in place, and then becomes the command: same pid, same start.

use super::LockCall;
use super::run::command;
use crate::cli::shared::ShimArgs;
use crate::command::exec;
use crate::error::{Error, Kind, reason};
use crate::exit::Status;
use crate::os::mask::SignalMask;
use crate::os::start_barrier::WaitingShim;
use std::os::unix::process::CommandExt;

/// Does not return when all goes well.
pub(super) fn shim(call: LockCall, args: &ShimArgs) -> Result<Status, Error> {
    let Some(mask) = SignalMask::parse(&args.mask) else {
        return Err(Error::usage("this is what 'run --tree' starts; it is not for people")
            .hint("orion-lock run --tree NAME CMD [ARG...]"));
    };
    let mut waiting = WaitingShim::take_over(args.gate, args.answer).map_err(|error| {
        Error::new(Kind::System, format!("nothing was run: the pipe to the supervisor: {}", reason(&error)))
    })?;
    if !waiting.is_opened() {
        return Err(Error::new(
            Kind::System,
            "the supervisor gave up or ended before the lock was in place, so nothing was run",
        ));
    }
    drop(call.file_size);
    // A signal that came while we waited arrives here, before the command.
    let failed = match mask.give_back() {
        Ok(()) => command(&args.command).exec(),
        Err(error) => error,
    };
    waiting.failed(&failed);
    Ok(exec::status(&failed))
}
