//! Who the owner is, and by which right a caller speaks: observed here, decided in
//! `verdict::owner`.

use crate::env;
use crate::error::{Error, reason};
use crate::model::ancestor::Ancestor;
use crate::model::identity::ProcessIdentity;
use crate::model::name::LockName;
use crate::os::{host, proc, process};
use crate::verdict::owner::{OwnerSpec, hint, pick};
use crate::verdict::ownership::Credential;

/// The owner that `acquire` was asked for, by an option or by `ORION_OWNER_PID`; there is no default.
///
/// # Errors
/// USAGE: nobody was named, or nobody who can own it.
pub(crate) fn chosen(
    owner: Option<&str>,
    for_pid: Option<u32>,
    short_lived: bool,
) -> Result<ProcessIdentity, Error> {
    if let Some(pid) = for_pid {
        return any(pid);
    }
    let callers = ancestors()?;
    let spec = match owner {
        Some(text) => Some(OwnerSpec::parse(text)),
        None => from_environment()?,
    };
    match spec {
        Some(spec) => among(&callers, &spec, short_lived),
        None => Err(missing(&callers)),
    }
}

/// The token or owner that was named, else the token that was `exported` for `what`, else `ORION_OWNER_PID`.
///
/// # Errors
/// USAGE: nothing of these is there, or it names nobody.
pub(crate) fn credential(
    token: Option<u64>,
    owner: Option<&str>,
    exported: impl FnOnce() -> Option<u64>,
    what: &str,
) -> Result<Credential, Error> {
    if let Some(token) = token {
        return Ok(Credential::Token(token));
    }
    let spec = match owner {
        Some(owner) => Some(OwnerSpec::parse(owner)),
        None => match exported() {
            Some(token) => return Ok(Credential::Token(token)),
            None => from_environment()?,
        },
    };
    match spec {
        Some(spec) => Ok(Credential::Owner(among(&ancestors()?, &spec, true)?)),
        None => Err(Error::usage(format!("whose {what}? No token was exported for it"))
            .hint("--token N, or --owner $$")),
    }
}

/// For `release`: the token, or the owner by its number. A name or the environment would be inherited by
/// whoever must not release.
///
/// # Errors
/// USAGE: neither, or the number is not a caller's.
pub(crate) fn explicit(token: Option<u64>, owner: Option<u32>, what: &str) -> Result<Credential, Error> {
    match (token, owner) {
        (Some(token), _) => Ok(Credential::Token(token)),
        (None, Some(pid)) => Ok(Credential::Owner(among(&ancestors()?, &OwnerSpec::Pid(pid), true)?)),
        (None, None) => Err(Error::usage(format!("whose {what}?")).hint("--token N, or --owner $$")),
    }
}

/// The callers of this process.
pub(crate) fn ancestors() -> Result<Vec<Ancestor>, Error> {
    process::ancestors().map_err(|error| Error::io("/proc", &error))
}

/// The pids of the callers, which is all that a refusal needs.
pub(crate) fn callers() -> Result<Vec<u32>, Error> {
    process::callers().map_err(|error| Error::io("/proc", &error))
}

/// The owner among the callers. `short_lived` allows a one-shot shell.
fn among(ancestors: &[Ancestor], wanted: &OwnerSpec, short_lived: bool) -> Result<ProcessIdentity, Error> {
    let owner = pick(wanted, ancestors, short_lived).map_err(|(what, hint)| Error::usage(what).hint(hint))?;
    identity(owner.pid)
}

/// `ORION_OWNER_PID`: a live caller, like `--owner`.
fn from_environment() -> Result<Option<OwnerSpec>, Error> {
    match env::value(env::name::OWNER_PID) {
        None => Ok(None),
        Some(value) => match value.to_str().map(OwnerSpec::parse) {
            Some(wanted @ OwnerSpec::Pid(_)) => Ok(Some(wanted)),
            _ => Err(Error::usage(format!("{} is not a pid: {}", env::name::OWNER_PID, value.display()))),
        },
    }
}

/// No owner was named: the message is the line to type.
fn missing(ancestors: &[Ancestor]) -> Error {
    Error::usage("who owns the lock? It is held until that process ends").hint(hint(ancestors))
}

/// Any process of this user, for `--for`.
fn any(pid: u32) -> Result<ProcessIdentity, Error> {
    let bad = |why: &str| Error::usage(format!("--for {pid}: {why}"));
    if proc::stat(pid).is_ok_and(|stat| stat.kernel) {
        return Err(bad("is a thread of the kernel, which never ends"));
    }
    match proc::tgid_and_uid(pid) {
        Ok((tgid, _)) if tgid != pid => {
            return Err(bad("is a thread, not a process").hint(format!("its process is {tgid}")));
        }
        Ok((_, uid)) if uid != rustix::process::geteuid().as_raw() => {
            return Err(bad(&format!("belongs to uid {uid}, not to you")));
        }
        Ok(_) => {}
        Err(error) if proc::is_gone(&error) => return Err(bad("there is no such process")),
        Err(error) => return Err(bad(&reason(&error))),
    }
    identity(pid)
}

fn identity(pid: u32) -> Result<ProcessIdentity, Error> {
    // In a container the first process is the job; on a machine it never ends.
    if pid == 1 && !host::in_container() {
        return Err(Error::usage("pid 1 is the system's first process and cannot own a lock"));
    }
    process::identify(pid).map_err(|error| match error.raw_os_error() {
        Some(nix::libc::ESRCH | nix::libc::ENOENT) => {
            Error::usage(format!("pid {pid} has ended (a zombie cannot own a lock)"))
        }
        Some(nix::libc::EINVAL) => Error::usage(format!("pid {pid} is a thread, not a process")),
        _ => Error::io(&format!("pid {pid}"), &error),
    })
}

/// The token that `run` exported for a name to what it started.
pub(crate) fn exported_token(name: &LockName) -> Option<u64> {
    let of_name = env::text(env::name::LOCKS).and_then(|all| {
        let pairs = all.split_ascii_whitespace().rev();
        pairs.filter_map(|pair| pair.rsplit_once(':')).find(|(held, _)| *held == name.file())?.1.parse().ok()
    });
    of_name.or_else(|| {
        let same = env::text(env::name::LOCK_NAME).is_some_and(|held| held == name.as_str());
        same.then(|| env::text(env::name::LOCK_TOKEN)?.parse().ok()).flatten()
    })
}
