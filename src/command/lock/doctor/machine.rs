//! What the kernel and the namespaces give us.

use super::{Checks, DoctorFinding};
use crate::command::local_time;
use crate::error::reason;
use crate::model::host::{INITIAL_PID_NS, INITIAL_TIME_NS};
use crate::os::process::PidFd;
use crate::os::{clock, helper_thread, host, proc};
use rustix::process::{Resource, getrlimit};
use std::sync::mpsc;
use std::time::Duration;

/// The beginning of 2025: a clock before it was never set.
const LONG_AGO: u64 = 1_735_689_600;

/// The highest number the pulse's descriptor is tried at, and what is left for others.
const DESCRIPTORS: (u64, u64) = (221, 21);

pub(super) fn check(checks: &mut Checks) {
    checks.add("proc", proc_is_ours());
    let here = host::identity();
    checks.add(
        "boot-id",
        here.boot_id.clone().ok_or_else(|| {
            fail(
                "/proc/sys/kernel/random/boot_id is missing or not the kernel's",
                "do not mount over it: a restart cannot be told without it",
            )
        }),
    );
    checks.advise(
        "machine-id",
        here.machine_id.clone().ok_or_else(|| {
            fail(
                "/etc/machine-id is missing or empty; directories on local disks do without",
                "systemd-machine-id-setup",
            )
        }),
    );
    let pidfd = PidFd::open(std::process::id());
    checks.add(
        "pidfd",
        pidfd.as_ref().map(|_| "pidfd_open works".to_owned()).map_err(|errno| {
            fail(
                &format!("pidfd_open: {}", errno.desc().to_lowercase()),
                "use a kernel of 5.3 or later, and no filter against it; locks go by start times until then, the rest does not work",
            )
        }),
    );
    checks.advise(
        "pidfs",
        match pidfd.ok().and_then(|fd| fd.inode()) {
            Some(inode) => Ok(format!("processes have inodes of their own (ours is {inode})")),
            None => Err(fail("no pidfs inodes", "a kernel before 6.9; start times tell processes apart")),
        },
    );
    checks.advise("pid-namespace", namespace(here.pid_ns, INITIAL_PID_NS, "pid"));
    checks.advise("time-namespace", namespace(here.time_ns, INITIAL_TIME_NS, "time"));
    checks.advise(
        "hidepid",
        if host::sees_everybody() {
            Ok("every process can be seen".into())
        } else {
            Err(fail(
                "/proc hides processes of others",
                "runs of your own are seen all the same; a shared directory needs hidepid=0",
            ))
        },
    );
    checks.add("boot-clock", boot_clock());
    checks.add("wall-clock", wall_clock());
    checks.add("descriptors", descriptors());
    checks.advise("threads", threads());
    checks.advise("signals", signals());
}

pub(super) fn fail(what: &str, advice: &str) -> (String, String) {
    (what.to_owned(), advice.to_owned())
}

fn proc_is_ours() -> DoctorFinding {
    if proc::is_ours() && host::myself().is_ok() {
        Ok("/proc describes our own pid namespace".into())
    } else {
        Err(fail(
            "/proc is missing or of another pid namespace, so nobody can be judged",
            "mount one: unshare --mount-proc, or mount -t proc proc /proc",
        ))
    }
}

fn namespace(found: Option<u64>, initial: u64, kind: &str) -> DoctorFinding {
    match found {
        None => Ok(format!("this kernel has no {kind} namespaces")),
        Some(inode) if inode == initial => Ok(format!("the machine's own {kind} namespace")),
        Some(inode) => Err(fail(
            &format!("a {kind} namespace of a container ({inode})"),
            "a run that ends with its container needs 'orion-lock break', unless only one container at a time uses the directory: orion-lock where --mark-private",
        )),
    }
}

fn boot_clock() -> DoctorFinding {
    let (boot, awake) = (clock::boottime_us(), clock::monotonic_us());
    if boot == 0 || awake == 0 {
        return Err(fail("CLOCK_BOOTTIME or CLOCK_MONOTONIC does not run", "this kernel is not supported"));
    }
    Ok(format!("{}s since the start of the machine", boot / 1_000_000))
}

fn wall_clock() -> DoctorFinding {
    let now = clock::wall();
    if now.seconds() < LONG_AGO {
        return Err(fail(
            &format!("the clock says {}", local_time::show_long(now)),
            "set it (timedatectl set-ntp true): times in the log would mislead",
        ));
    }
    Ok(local_time::show_long(now))
}

fn descriptors() -> DoctorFinding {
    let limit = getrlimit(Resource::Nofile).current;
    let shown = limit.map_or_else(|| "no limit".to_owned(), |limit| format!("at most {limit} open files"));
    match limit {
        Some(limit) if limit < DESCRIPTORS.1 => Err(fail(
            &format!("{shown}, too few for a run and its pulse"),
            "raise it: ulimit -n 1024, or LimitNOFILE= in the unit",
        )),
        Some(limit) if limit < DESCRIPTORS.0 => Ok(format!("{shown}; the pulse takes a low number")),
        _ => Ok(shown),
    }
}

fn threads() -> DoctorFinding {
    let (sender, receiver) = mpsc::channel();
    let started = helper_thread::start("doctor", move || sender.send(()).unwrap_or_default());
    match started {
        Ok(()) if receiver.recv_timeout(Duration::from_secs(10)).is_ok() => {
            Ok("a helper thread starts".into())
        }
        Ok(()) => Err(fail("a helper thread does not run", "is the machine overloaded?")),
        Err(error) => Err(fail(
            &format!("no helper thread: {}", reason(&error)),
            "raise the limit of processes (ulimit -u); waiters look 50 times a second without",
        )),
    }
}

/// What a caller left blocked or ignored reaches every command that is run.
fn signals() -> DoctorFinding {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok()).unwrap_or(0)
    };
    let (blocked, ignored) = (mask("SigBlk:"), mask("SigIgn:"));
    let has = |mask: u64, signal: i32| mask >> (signal - 1) & 1 == 1;
    let (term, child) = (nix::libc::SIGTERM, nix::libc::SIGCHLD);
    if has(blocked, term) || has(ignored, term) {
        return Err(fail(
            "TERM is blocked or ignored by whoever started us",
            "a run started the same way cannot be ended with TERM; start it from elsewhere",
        ));
    }
    if has(ignored, child) {
        return Err(fail(
            "CHLD is ignored by whoever started us",
            "programs that wait for their children may fail; start them from elsewhere",
        ));
    }
    Ok("TERM and CHLD are neither blocked nor ignored".into())
}
