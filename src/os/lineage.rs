//! The callers of this process as numbers and names, without the arguments that
//! [`super::process::ancestors`] reads as well: a mark is set many times in a turn.

use crate::os::proc::{self, ProcStat};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;

/// A tree is a tree; the bound only guards against a chain that is re-parented while we climb.
const DEPTH: usize = 256;

/// Programs that only start others.
const SHELLS: [&str; 12] =
    ["sh", "bash", "dash", "zsh", "fish", "ksh", "mksh", "ash", "busybox", "env", "timeout", "orion-lock"];

/// The callers of this process, parent first.
///
/// # Errors
/// `/proc` cannot be read.
pub(crate) fn callers() -> io::Result<Vec<ProcStat>> {
    let mut chain: Vec<ProcStat> = Vec::new();
    let mut pid = proc::stat(std::process::id())?.ppid;
    while pid > 0 && chain.len() < DEPTH {
        let stat = match proc::stat(pid) {
            Ok(stat) => stat,
            Err(error) if proc::is_gone(&error) => break,
            Err(error) => return Err(error),
        };
        pid = stat.ppid;
        chain.push(stat);
    }
    Ok(chain)
}

/// The nearest caller that is not a shell: the agent whose hook this is.
pub(crate) fn agent(chain: &[ProcStat]) -> Option<&ProcStat> {
    chain.iter().find(|one| !SHELLS.contains(&one.comm.as_str()))
}

/// The value of one variable in the environment that a process was started with. Nothing else of that
/// environment is kept: it may hold secrets.
pub(crate) fn variable(pid: u32, name: &str) -> Option<OsString> {
    let bytes = proc::read_file(proc::path(pid, "environ")).ok()?;
    let mut words = bytes.split(|byte| *byte == 0);
    let value = words.find_map(|word| word.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    Some(OsString::from_vec(value.to_vec()))
}
