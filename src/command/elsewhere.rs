//! The way to the locks of many machines: these tools link no TLS and know no database. They become `orion-via`,
//! which stands beside them, is of the same version, and reads the same arguments.

use crate::env;
use crate::error::{Error, reason};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The helper's file.
const HELPER: &str = "orion-via";

/// Is a database meant: by `--via`, or by ORION_VIA?
pub(crate) fn is_meant(typed: Option<&str>) -> bool {
    typed.is_some() || env::value(env::name::VIA).is_some()
}

/// Becomes the helper as `tool` (`lock`, `precheck`); comes back only with the reason why not.
pub(crate) fn become_helper(tool: &str) -> Error {
    match helper(tool) {
        Ok(mut command) => cannot_run(&command.args(std::env::args_os().skip(1)).exec()),
        Err(error) => error,
    }
}

/// The helper as `tool`, still without arguments.
///
/// # Errors
/// CONFIG: nobody can tell where it is.
pub(crate) fn helper(tool: &str) -> Result<Command, Error> {
    let helper = std::fs::read_link("/proc/self/exe").ok().and_then(|exe| Some(exe.parent()?.join(HELPER)));
    let helper = helper
        .ok_or_else(|| Error::config(format!("{HELPER} cannot be found: /proc/self/exe cannot be read")))?;
    let mut command = Command::new(helper);
    command.arg(tool).arg(env!("CARGO_PKG_VERSION"));
    Ok(command)
}

/// The helper is not there, or is no program.
pub(crate) fn cannot_run(error: &std::io::Error) -> Error {
    Error::config(format!("{HELPER} beside this program cannot be run: {}", reason(error))).hint(
        "locks on a database need that program of the same version there (feature and package: postgres)",
    )
}

/// An option that has a meaning only with a database.
pub(crate) fn only_with_via(option: &str) -> Error {
    Error::usage(format!("{option} is for locks of many machines")).hint("--via WHERE; see man orion-via")
}
