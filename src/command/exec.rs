//! Becoming the command that a tool was asked to run.

use crate::error::{Error, Kind, reason};
use crate::exit::{CANNOT_EXECUTE, NOT_FOUND, Status};
use crate::os::process::{self, PIDFD_HINT};
use crate::report::{Report, escape};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// An option behind the last operand is nobody's command. `usage` is the line to type.
///
/// # Errors
/// [`crate::error::Kind::Usage`].
pub(crate) fn check(command: &[OsString], usage: &str) -> Result<(), Error> {
    let first = command.first().map(|word| word.as_bytes()).unwrap_or_default();
    if first.is_empty() {
        return Err(Error::usage("the command is empty").hint(usage));
    }
    if first.starts_with(b"-") {
        return Err(Error::usage(format!("'{}' stands where the command belongs", escape(first, 60)))
            .hint(format!("options go first: {usage}")));
    }
    Ok(())
}

/// As [`check`], for lines of flock(1): `-c STRING` in the place of a command is what sh is to run.
///
/// # Errors
/// As [`check`], and `-c` with anything but one string.
pub(crate) fn words(command: Vec<OsString>, usage: &str) -> Result<Vec<OsString>, Error> {
    if command.first().is_some_and(|first| first == "-c" || first == "--command") {
        let [_, string] = command.as_slice() else {
            return Err(
                Error::usage("-c takes exactly one string").hint("orion-lock run NAME -c 'CMD | CMD'")
            );
        };
        return Ok(vec!["sh".into(), "-c".into(), string.clone()]);
    }
    check(&command, usage)?;
    Ok(command)
}

/// Becomes the command; comes back only with the reason why not.
pub(crate) fn exec(words: &[OsString]) -> io::Error {
    command(words).exec()
}

/// Puts these into its environment; an empty value takes the name out of it.
pub(crate) fn export(command: &mut Command, exports: Vec<(&'static str, OsString)>) {
    for (name, value) in exports {
        if value.is_empty() {
            command.env_remove(name);
        } else {
            command.env(name, value);
        }
    }
}

/// The command of these words, to be added to.
pub(crate) fn command(words: &[OsString]) -> Command {
    let (program, arguments) =
        words.split_first().map_or((OsString::new(), &[][..]), |(first, rest)| (first.clone(), rest));
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// The name the kernel will give the process after exec: the file's, cut at 15 bytes (prctl(2), PR_SET_NAME).
pub(crate) fn comm_of(command: &[OsString]) -> String {
    let path = command.first().map(|word| word.as_bytes()).unwrap_or_default();
    let file = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    String::from_utf8_lossy(&file[..file.len().min(15)]).into_owned()
}

/// Says why, and gives the status as a shell reports it: 127 not found, 126 cannot be executed.
pub(crate) fn cannot_run(report: &Report, words: &[OsString], error: &io::Error) -> Status {
    let shown = escape(words.first().map(|word| word.as_bytes()).unwrap_or_default(), 120);
    report.warning(&format!("{shown}: {}", reason(error)));
    status(error)
}

/// The same without a word.
pub(crate) fn status(error: &io::Error) -> Status {
    if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_EXECUTE }
}

/// The file that a command's first word stands for, as execvp(3) finds it.
pub(crate) fn find(word: &OsString) -> Option<PathBuf> {
    if word.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(word));
    }
    let path = crate::env::value(crate::env::name::PATH)?;
    std::env::split_paths(&path).map(|directory| directory.join(word)).find(|file| file.is_file())
}

/// Who stands by needs a descriptor for its child. To be asked before anything is taken or run.
///
/// # Errors
/// OSERR with the system call and who may forbid it.
pub(super) fn needs_pidfds(what: &str) -> Result<(), Error> {
    process::pidfds_are_allowed()
        .map_err(|why| Error::new(Kind::System, format!("{what}: nothing was run: {why}")).hint(PIDFD_HINT))
}
