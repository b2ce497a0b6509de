//! What `run --tree` starts in the command's place. It waits until the record that
//! names it is in place, and then becomes the command: same pid, same start.

use super::Call;
use super::run::{cannot_run_status, command};
use crate::cli::ending::Shim;
use crate::error::{Error, Kind};
use crate::exit::Status;
use crate::os::gate::Waiting;
use crate::os::signals::Mask;
use std::os::unix::process::CommandExt;

/// Does not return when all goes well.
pub(super) fn shim(call: Call, args: &Shim) -> Result<Status, Error> {
    let mask = Mask::parse(&args.mask);
    let (Some(mask), Ok(mut waiting)) = (mask, Waiting::take_over(args.gate, args.answer)) else {
        return Err(Error::usage("this is what 'run --tree' starts; it is not for people")
            .hint("orion-lock run --tree NAME CMD [ARG...]"));
    };
    if !waiting.is_opened() {
        return Err(Error::new(
            Kind::System,
            "the supervisor ended before the lock was in place, so nothing was run",
        ));
    }
    drop(call.file_size);
    // A signal that came while we waited arrives here, before the command.
    let failed = match mask.give_back() {
        Ok(()) => command(&args.command).exec(),
        Err(error) => error,
    };
    waiting.failed(&failed);
    Ok(cannot_run_status(&failed))
}
