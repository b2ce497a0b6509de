//! A directory inside the state directory to try things in, and what its file
//! system does: modes, flock, byte locks, events.

use super::machine::fail;
use super::place::io;
use super::{Checks, DoctorFinding};
use crate::model::observation::PulseFacts;
use crate::os::clock;
use crate::os::dir::{Dir, Opened};
use crate::os::flock::{self, Mode};
use crate::os::helper_thread::Wakeup;
use crate::os::inotify::Inotify;
use crate::os::process::wait_any;
use crate::os::pulse::{self, Left, PulseAnswer, Watched};
use crate::os::state_dir::{DirMark, StateDir, mark};
use rustix::fs::{OFlags, fstat};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const PREFIX: &str = ".doctor-";
/// Locked by the doctor at work, so that the next one knows what was left behind.
const AT_WORK: &str = "at-work";
const ADVICE: &str = "use a local file system: --dir, or /etc/orion/dir for all";

pub(super) struct Scratch {
    path: PathBuf,
    dir: Dir,
    #[expect(dead_code, reason = "held for its lock")]
    at_work: File,
}

/// Makes it and looks at the file system through it; `None` when it cannot be made.
pub(super) fn check(checks: &mut Checks, state: &StateDir) -> Option<Scratch> {
    sweep(state);
    let scratch = match Scratch::new(state) {
        Ok(scratch) => scratch,
        Err(error) => {
            checks.add("create", Err(io(&error, "make room, or give this user the right to write there")));
            return None;
        }
    };
    checks.add("create", scratch.modes());
    checks.add("flock", scratch.flock());
    checks.advise("flock-second-mount", scratch.flock_second_mount());
    checks.advise("pulse", scratch.pulse());
    checks.advise("pulse-wait", scratch.pulse_wait());
    checks.advise("inotify", scratch.inotify());
    Some(scratch)
}

/// Removes what a killed doctor left behind.
fn sweep(state: &StateDir) {
    for name in state.dir.names().unwrap_or_default() {
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else { continue };
        let Ok(dir) = state.dir.sub(name, false) else { continue };
        match dir.open_file(AT_WORK, OFlags::RDWR) {
            Ok(Opened::File(file)) if flock::try_lock(&file, Mode::Exclusive).unwrap_or(false) => {
                std::fs::remove_dir_all(dir.path()).unwrap_or_default();
            }
            // Killed, or only just begun: then it begins again.
            Ok(Opened::Missing) => std::fs::remove_dir(dir.path()).unwrap_or_default(),
            _ => {}
        }
    }
}

impl Scratch {
    fn new(state: &StateDir) -> std::io::Result<Self> {
        let (dir, at_work) = Self::begin(state)?;
        let path = std::path::absolute(dir.path())?;
        for (wanted, kind) in [(state.network, DirMark::Network), (state.is_private(), DirMark::Private)] {
            if wanted {
                mark(&path, kind).map_err(|error| std::io::Error::other(error.to_string()))?;
            }
        }
        Ok(Self { path, dir, at_work })
    }

    /// Makes the directory and says that it is in use; another doctor's sweep may come in between.
    fn begin(state: &StateDir) -> std::io::Result<(Dir, File)> {
        let mut last = std::io::ErrorKind::NotFound.into();
        for _ in 0..10 {
            // A pid alone would be another doctor's in another container.
            let name = format!("{PREFIX}{}-{}", std::process::id(), clock::boottime_us());
            let dir = state.dir.sub(&name, true)?;
            match dir.create(AT_WORK) {
                Ok(file) if flock::try_lock(&file, Mode::Exclusive)? && dir.leads_to(AT_WORK, &file)? => {
                    return Ok((dir, file));
                }
                Ok(_) => {}
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes it away again.
    pub(super) fn remove(self, checks: &mut Checks) {
        let removed = std::fs::remove_dir_all(&self.path);
        checks.add(
            "clean-up",
            removed.map(|()| "nothing is left behind".to_owned()).map_err(|error| {
                fail(
                    &format!("{}: {}", self.path.display(), crate::error::reason(&error)),
                    "remove it by hand",
                )
            }),
        );
    }

    fn modes(&self) -> DoctorFinding {
        let wanted = if self.dir.shared { 0o660 } else { 0o600 };
        let mut file = self.dir.create("modes").map_err(|error| io(&error, ADVICE))?;
        file.write_all(&[b'x'; 4096]).map_err(|error| io(&error, "make room"))?;
        let mode = fstat(&file).map_err(|error| io(&error.into(), ADVICE))?.st_mode & 0o7777;
        if mode != wanted {
            return Err(fail(&format!("a new file has mode {mode:04o} instead of {wanted:04o}"), ADVICE));
        }
        self.dir.rename("modes", "moved").map_err(|error| io(&error, ADVICE))?;
        let taken = self.dir.create("modes").and_then(|_| self.dir.rename_to_free("modes", "moved"));
        if taken.is_ok() {
            return Err(fail("a rename to a taken name went through", ADVICE));
        }
        Ok(format!("files are made with mode {wanted:04o}, and names are taken once"))
    }

    fn open(&self, name: &str) -> std::io::Result<File> {
        match self.dir.open_or_create(name, OFlags::RDWR)? {
            Opened::File(file) => Ok(file),
            Opened::Missing | Opened::NotAFile(_) => Err(std::io::ErrorKind::InvalidData.into()),
        }
    }

    fn flock(&self) -> DoctorFinding {
        let lock = || -> std::io::Result<(bool, bool, bool)> {
            let (first, second) = (self.open("flock")?, self.open("flock")?);
            let taken = flock::try_lock(&first, Mode::Exclusive)?;
            let twice = flock::try_lock(&second, Mode::Exclusive)?;
            drop(first);
            Ok((taken, twice, flock::try_lock(&second, Mode::Exclusive)?))
        };
        match lock() {
            Ok((true, false, true)) => Ok("one at a time, and free after a close".into()),
            Ok(_) => Err(fail("two had it at once, or a close did not free it", ADVICE)),
            Err(error) => Err(io(&error, ADVICE)),
        }
    }

    /// A second view of the directory, as a container has it. Needs namespaces of our own.
    fn flock_second_mount(&self) -> DoctorFinding {
        let file = self.open("second").map_err(|error| io(&error, ADVICE))?;
        let locked = flock::try_lock(&file, Mode::Exclusive).map_err(|error| io(&error, ADVICE))?;
        self.dir.sub("view", true).map_err(|error| io(&error, ADVICE))?;
        let script = r#"mount --bind "$1" "$1/view" || exit 3; flock -n "$1/view/second" true"#;
        let flags: &[&str] = if rustix::process::geteuid().is_root() {
            &["--mount"]
        } else {
            &["--user", "--map-root-user", "--mount"]
        };
        let untried = |why: &str| {
            fail(&format!("not tried, {why}"), "only containers that mount the directory need it")
        };
        let mut command = Command::new("unshare");
        command.args(flags).args(["/bin/sh", "-c", script, "sh"]).arg(&self.path);
        let answer = super::around::ask(&mut command).map_err(|why| untried(&why))?;
        match answer.status.code() {
            Some(1) if locked && answer.stderr.is_empty() => {
                Ok("a lock holds in a second mount of the directory too".into())
            }
            Some(0) => Err(fail(
                "a second mount of the directory gave the same lock again",
                "let every container use one and the same mount",
            )),
            _ => Err(untried("a mount of our own is not allowed here")),
        }
    }

    fn pulse(&self) -> DoctorFinding {
        let without = "what a killed wrapper leaves behind does not hold the lock here";
        let fd = pulse::open(&self.dir, "doctor").map_err(|error| io(&error, without))?;
        match pulse::lock(fd, 7).map_err(|error| io(&error, without))? {
            Left::Unsupported => Err(fail("this file system has no such byte locks", without)),
            Left::Pulse(pulse) => {
                let seen = [Some(7), Some(8), None].map(|token| pulse::ask(&self.dir, "doctor", token, None));
                pulse.close();
                let after = pulse::ask(&self.dir, "doctor", None, None);
                let wanted = [PulseFacts::Held, PulseFacts::Free, PulseFacts::Held].map(PulseAnswer::Said);
                if seen == wanted && after == PulseAnswer::Said(PulseFacts::Free) {
                    Ok("a byte stands for its token, and is free after a close".into())
                } else {
                    Err(fail("byte locks are not seen as they are", without))
                }
            }
        }
    }

    fn pulse_wait(&self) -> DoctorFinding {
        let without = "waiters look 50 times a second instead";
        let waited = || -> std::io::Result<bool> {
            let bell = Wakeup::new()?;
            let Left::Pulse(pulse) = pulse::lock(pulse::open(&self.dir, "doctor")?, 9)? else {
                return Ok(false);
            };
            let watched = Watched::start(&self.dir, "doctor", 9, &bell)?;
            let early = !watched.waits();
            pulse.close();
            let rung = !wait_any(&[bell.as_fd()], Some(Duration::from_secs(5)))?.is_empty();
            Ok(!early && rung && !watched.failed())
        };
        match waited() {
            Ok(true) => Ok("the end of a byte lock wakes who waits for it".into()),
            Ok(false) => Err(fail("the end of a byte lock wakes nobody", without)),
            Err(error) => Err(io(&error, without)),
        }
    }

    fn inotify(&self) -> DoctorFinding {
        let limit = "raise fs.inotify.max_user_instances (sysctl); waiters look 50 times a second until then";
        let watch = Inotify::watch(&self.dir).map_err(|error| io(&error, limit))?;
        let seen = self.open("before").and_then(|_| self.dir.rename("before", "after")).and_then(|()| {
            let fds: Vec<_> = watch.fd().into_iter().collect();
            Ok(!wait_any(&fds, Some(Duration::from_secs(5)))?.is_empty()
                && watch.drain(|file| file == b"after"))
        });
        match seen {
            Ok(true) => Ok("a change is seen when it happens".into()),
            Ok(false) => Err(fail("changes are not seen", "waiters look once a second")),
            Err(error) => Err(io(&error, limit)),
        }
    }
}
