//! Starting a command so that nothing of it runs before the record names it: the child
//! is ourselves, waits at a barrier, and then becomes the command, same pid and same start.
//! A barrier that closes instead means that whoever started it is gone, and nothing runs.

use crate::cli::shared::ShimArgs;
use crate::command::exec;
use crate::error::{Error, Kind, reason};
use crate::exit::Status;
use crate::os::mask::{Blocked, SignalMask};
use crate::os::start_barrier::{StartBarrier, WaitingShim};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// This very program, even when its file was replaced.
pub(crate) const OURSELVES: &str = "/proc/self/exe";

/// Starts the child: `program` with the hidden `subcommand`. `exports` go to its environment, and `mask` is
/// what it unblocks. Its stderr is `stderr`, or ours.
///
/// # Errors
/// No pipe or no process to be had.
pub(crate) fn start(
    (program, subcommand): (&str, &str),
    words: &[OsString],
    exports: Vec<(&'static str, OsString)>,
    mask: SignalMask,
    stderr: Option<File>,
) -> io::Result<(Child, StartBarrier)> {
    let (barrier, ends) = StartBarrier::new()?;
    let (go, answer) = ends.numbers();
    let mut shim = Command::new(OURSELVES);
    shim.arg0(program).arg(subcommand);
    shim.args([format!("--gate={go}"), format!("--answer={answer}"), format!("--mask={}", mask.to_text())]);
    exec::export(&mut shim, exports);
    if let Some(stderr) = stderr {
        shim.stderr(stderr);
    }
    let child = shim.arg("--").args(words).spawn()?;
    Ok((child, barrier))
}

/// The hidden subcommand; does not return when all goes well. `typed` is the answer to a person who typed
/// it, `gone` what is said when whoever started us is gone.
///
/// # Errors
/// USAGE, or SYSTEM when nothing was run.
pub(crate) fn become_command(
    file_size: Blocked,
    args: &ShimArgs,
    typed: Error,
    gone: &str,
) -> Result<Status, Error> {
    let Some(mask) = SignalMask::parse(&args.mask) else { return Err(typed) };
    let mut waiting = match WaitingShim::take_over(args.gate, args.answer) {
        Ok(waiting) => waiting,
        // No such descriptor: nobody of ours started this.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(typed),
        Err(error) => return Err(Error::new(Kind::System, format!("the start barrier: {}", reason(&error)))),
    };
    if !waiting.is_opened() {
        return Err(Error::new(Kind::System, gone));
    }
    drop(file_size);
    // A signal that came while we waited arrives here, before the command.
    let failed = match mask.give_back() {
        Ok(()) => exec::exec(&args.command),
        Err(error) => error,
    };
    waiting.failed(&failed);
    Ok(exec::status(&failed))
}
