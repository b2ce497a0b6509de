//! What the guardian starts in the command's place: it dies with its guardian, waits for its record, and becomes
//! the command.

use crate::cli::via::ViaShimArgs;
use crate::command::exec;
use crate::error::{Error, Kind, reason};
use crate::exit::Status;
use crate::os::child;
use crate::os::mask::SignalMask;
use crate::os::start_barrier::WaitingShim;

/// Does not return when all goes well.
pub(super) fn shim(args: &ViaShimArgs) -> Result<Status, Error> {
    let system =
        |error: std::io::Error| Error::new(Kind::System, format!("nothing was run: {}", reason(&error)));
    let Some(mask) = SignalMask::parse(&args.mask) else {
        return Err(Error::usage("this is what a guardian starts; it is not for people"));
    };
    if !child::die_with_parent(args.parent).map_err(system)? {
        return Err(Error::new(Kind::System, "the guardian has ended, so nothing was run"));
    }
    let mut waiting = WaitingShim::take_over(args.gate, args.answer).map_err(system)?;
    if !waiting.is_opened() {
        return Err(Error::new(Kind::System, "the supervisor gave up or ended, so nothing was run"));
    }
    let failed = match mask.give_back() {
        Ok(()) => exec::exec(&args.command),
        Err(error) => error,
    };
    waiting.failed(&failed);
    Ok(exec::status(&failed))
}
