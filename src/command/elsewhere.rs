//! The way to the locks of many machines: these tools link no TLS and know no database. They become `orion-via`,
//! which stands beside them, is of the same version, and reads the same arguments.

use crate::env;
use crate::error::{Error, reason};
use std::ffi::OsString;
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
    let helper = std::fs::read_link("/proc/self/exe").ok().and_then(|exe| Some(exe.parent()?.join(HELPER)));
    let Some(helper) = helper else {
        return Error::config(format!("{HELPER} cannot be found: /proc/self/exe cannot be read"));
    };
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let failed = Command::new(&helper).arg(tool).arg(env!("CARGO_PKG_VERSION")).args(arguments).exec();
    Error::config(format!("{} cannot be run: {}", helper.display(), reason(&failed))).hint(
        "locks on a database need that program of the same version there (feature and package: postgres)",
    )
}

/// An option that has a meaning only with a database.
pub(crate) fn only_with_via(option: &str) -> Error {
    Error::usage(format!("{option} is for locks of many machines")).hint("--via WHERE; see man orion-via")
}
