//! Starting the command so that nothing of it runs before the record names it: the
//! child is ourselves, waits for one byte on a pipe, and then becomes the command.
//! End of file instead means that the supervisor is gone: 71, and nothing runs.

use super::Call;
use crate::cli::claim::Become;
use crate::error::{Error, Kind, reason};
use crate::exit::{CANNOT_EXECUTE, NOT_FOUND, Status};
use crate::os::signals::Mask;
use crate::report::{Report, escape};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

/// This very program, even when its file was replaced.
pub(super) const OURSELVES: &str = "/proc/self/exe";

/// A child that waits for its word.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) child: Child,
    word: File,
}

/// Starts the child; `exports` go to its environment, and `mask` is what it unblocks.
///
/// # Errors
/// OSERR: no pipe or no process to be had.
pub(super) fn start(
    command: &[OsString],
    exports: Vec<(&'static str, OsString)>,
    mask: Mask,
) -> Result<Waiting, Error> {
    let failed =
        |error: io::Error| Error::new(Kind::System, format!("cannot start a process: {}", reason(&error)));
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
    fcntl_setfd(&read, FdFlags::empty()).map_err(|error| failed(error.into()))?;
    let child = Command::new(OURSELVES)
        .arg0("orion-claim")
        .arg("become")
        .arg(read.as_raw_fd().to_string())
        .arg(mask.to_text())
        .arg("--")
        .args(command)
        .envs(exports)
        .spawn()
        .map_err(failed)?;
    Ok(Waiting { child, word: File::from(write) })
}

impl Waiting {
    /// Lets it become the command.
    pub(super) fn go(mut self) -> Child {
        // Nobody reads: the child has ended, and its status says so.
        drop(self.word.write_all(b"."));
        self.child
    }

    /// Sends it home: nothing runs.
    pub(super) fn cancel(self) {
        let Self { mut child, word } = self;
        drop(word);
        drop(child.wait());
    }
}

/// The hidden subcommand: waits, then becomes the command.
pub(super) fn become_command(call: Call, args: &Become) -> Result<Status, Error> {
    let failed =
        |error: io::Error| Error::new(Kind::System, format!("the word to start: {}", reason(&error)));
    let mask = Mask::parse(&args.mask).ok_or_else(|| Error::usage("internal: no mask"))?;
    let mut pipe = File::open(format!("/proc/self/fd/{}", args.pipe)).map_err(failed)?;
    nix::unistd::close(args.pipe).map_err(|errno| failed(errno.into()))?;
    let mut word = [0];
    if pipe.read(&mut word).map_err(failed)? == 0 {
        return Err(Error::new(Kind::System, "whoever claimed the ticket is gone; nothing was run"));
    }
    drop(pipe);
    drop(call.file_size);
    mask.give_back().map_err(failed)?;
    let (program, arguments) =
        args.command.split_first().ok_or_else(|| Error::usage("internal: no command"))?;
    let error = Command::new(program).args(arguments).exec();
    call.report.warn(&format!("{}: {}", escape(program.as_bytes(), 120), reason(&error)));
    Ok(status_of(&error))
}

/// As a shell reports it.
fn status_of(error: &io::Error) -> Status {
    if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_EXECUTE }
}

/// Can the command be run at all? Asked before a ticket is claimed for it, so that a
/// mistyped word does not send every ticket to failed. `None`: it can.
pub(super) fn unusable(report: &Report, command: &[OsString]) -> Option<Status> {
    let program = command.first().map(OsString::as_os_str).unwrap_or_default();
    let found = if program.as_bytes().contains(&b'/') {
        is_program(Path::new(program))
    } else {
        let path = crate::env::value("PATH").unwrap_or_else(|| OsString::from("/bin:/usr/bin"));
        let found = std::env::split_paths(&path).map(|dir| is_program(&dir.join(program)));
        found.fold(Err(io::ErrorKind::NotFound.into()), |best, one| match (&best, &one) {
            (Ok(()), _) => best,
            (Err(_), Err(error)) if error.kind() == io::ErrorKind::NotFound => best,
            _ => one,
        })
    };
    let error = found.err()?;
    let shown = escape(program.as_bytes(), 120);
    let why =
        if error.kind() == io::ErrorKind::NotFound { "no such command".to_owned() } else { reason(&error) };
    report.warn(&format!("{shown}: {why}; no ticket was claimed"));
    Some(status_of(&error))
}

fn is_program(path: &Path) -> io::Result<()> {
    let meta = std::fs::metadata(path)?;
    if !meta.is_file() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(rustix::fs::access(path, rustix::fs::Access::EXEC_OK)?)
}

/// An option behind the key is nobody's command.
///
/// # Errors
/// USAGE.
pub(super) fn check(command: &[OsString]) -> Result<(), Error> {
    let first = command.first().map(|word| OsStr::as_bytes(word)).unwrap_or_default();
    if first.is_empty() || first.starts_with(b"-") {
        return Err(Error::usage(format!("'{}' stands where the command belongs", escape(first, 60)))
            .hint("options go before the key: orion-claim run --stage build KEY CMD"));
    }
    Ok(())
}
