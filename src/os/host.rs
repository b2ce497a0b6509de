//! Facts about this machine, this boot and the namespaces we are in.

use crate::model::host::{HostIdentity, INITIAL_PID_NS, INITIAL_USER_NS, real_machine_id};
use crate::model::identity::ProcessIdentity;
use crate::model::record::AwakeTime;
use crate::os::process::PidFd;
use crate::os::{clock, proc};
use rustix::fs::{fstatfs, stat};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// `f_type` of procfs (linux/magic.h).
const PROC_MAGIC: u64 = 0x9fa0;

/// The host part of an identity; "now" is the boot time stamp in it.
pub(crate) fn identity() -> HostIdentity {
    observe(true).0
}

/// As [`identity`], without the machine's id and name unless they are `named`, and with the error of a reading that failed for a reason that may pass
/// (EMFILE, EIO …). What is not there or not shown to us is absent, and no error.
pub(crate) fn observe(named: bool) -> (HostIdentity, Option<io::Error>) {
    let (machine_id, hostname, mut unread) = if named { machine() } else { (None, String::new(), None) };
    let host = HostIdentity {
        boot_id: known(read_boot_id(), &mut unread),
        machine_id,
        state_id: None,
        hostname,
        pid_ns: known(namespace("pid"), &mut unread),
        time_ns: known(namespace("time"), &mut unread),
        boottime_us: clock::boottime_us(),
    };
    (host, unread)
}

/// The machine's id and name; with an error as [`observe`] gives it.
pub(crate) fn machine() -> (Option<String>, String, Option<io::Error>) {
    let mut unread = None;
    (known(machine_id(), &mut unread), hostname(), unread)
}

/// The value, or absent; an error that may pass is kept.
fn known<T>(reading: io::Result<Option<T>>, unread: &mut Option<io::Error>) -> Option<T> {
    reading.unwrap_or_else(|error| {
        if may_pass(&error) {
            *unread = Some(error);
        }
        None
    })
}

/// Is it an error that says nothing about what was looked for: no descriptor left, no memory, a bad disk?
pub(crate) fn may_pass(error: &io::Error) -> bool {
    use nix::libc::{EAGAIN, EINTR, EIO, EMFILE, ENFILE, ENOMEM};
    matches!(error.raw_os_error(), Some(EAGAIN | EINTR | EIO | EMFILE | ENFILE | ENOMEM))
}

/// The boot id, only if that file is really procfs: container runtimes mount a file of their own over it.
pub(crate) fn boot_id() -> Option<String> {
    read_boot_id().ok().flatten()
}

fn read_boot_id() -> io::Result<Option<String>> {
    let file = File::open("/proc/sys/kernel/random/boot_id")?;
    if u64::try_from(fstatfs(&file)?.f_type).ok() != Some(PROC_MAGIC) {
        return Ok(None);
    }
    let mut text = String::with_capacity(64);
    file.take(64).read_to_string(&mut text)?;
    Ok(Some(text.trim().to_owned()).filter(|id| !id.is_empty()))
}

/// The time namespace we are in (time_namespaces(7)); 0 on a kernel that has none (before
/// 5.6), `None` when that cannot be read.
pub(crate) fn time_namespace() -> Option<u64> {
    match namespace("time") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => namespace("pid").ok().flatten().map(|_| 0),
        other => other.ok().flatten(),
    }
}

fn machine_id() -> io::Result<Option<String>> {
    let bytes = proc::read_file("/etc/machine-id")?;
    Ok(std::str::from_utf8(&bytes).ok().and_then(real_machine_id))
}

/// The machine's name; shown only.
pub(crate) fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn namespace(kind: &str) -> io::Result<Option<u64>> {
    Ok(Some(stat(format!("/proc/self/ns/{kind}"))?.st_ino))
}

/// CLOCK_MONOTONIC now, with the namespace that it is read in.
pub(crate) fn awake_time() -> AwakeTime {
    AwakeTime { monotonic_us: clock::monotonic_us(), time_ns: namespace("time").ok().flatten() }
}

/// Does `/proc` show the processes of everybody? Proved, not assumed: no `hidepid` and no `subset` among the
/// options of the mount that is read (proc(5)), or the right that sees through them. Being uid 0 proves
/// nothing: root of another user namespace, or of a service without that right, is shown its own only.
pub(crate) fn sees_everybody() -> bool {
    fs::read("/proc/self/mountinfo").is_ok_and(|text| !hides_processes(&text)) || traces_everybody()
}

/// CAP_SYS_PTRACE (capabilities(7)) in effect, and in the user namespace that everybody is below.
fn traces_everybody() -> bool {
    const SYS_PTRACE: u32 = 19;
    let initial = namespace("user").ok().flatten() == Some(INITIAL_USER_NS);
    let effective = || {
        let text = proc::read_file("/proc/self/status").ok()?;
        let line = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"CapEff:"))?;
        u64::from_str_radix(std::str::from_utf8(line).ok()?.trim(), 16).ok()
    };
    initial && effective().is_some_and(|set| set & (1 << SYS_PTRACE) != 0)
}

/// Does the procfs that is read at `/proc` hide processes, by the text of a mountinfo file? What cannot be
/// read, or is not there, hides them.
pub(crate) fn hides_processes(mountinfo: &[u8]) -> bool {
    use procfs::FromBufRead;
    let Ok(mounts) = procfs::process::MountInfos::from_buf_read(mountinfo) else { return true };
    // The last one there lies on top (proc_pid_mountinfo(5)).
    let top = mounts.0.iter().rfind(|mount| mount.mount_point == Path::new("/proc"));
    top.filter(|mount| mount.fs_type == "proc" && mount.root == "/").is_none_or(|mount| {
        let option = |name: &str| mount.super_options.get(name).map(|value| value.as_deref().unwrap_or(""));
        option("subset").is_some() || option("hidepid").is_some_and(|value| !matches!(value, "0" | "off"))
    })
}

/// Our own identity, as an owner. As [`crate::os::process::identify`] without the
/// readings that are known.
pub(crate) fn myself() -> io::Result<ProcessIdentity> {
    let pid = std::process::id();
    let stat = proc::parse_stat(&proc::read_file("/proc/self/stat")?)?;
    if stat.pid != pid {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    }
    let pidfs_ino = match PidFd::open(pid) {
        Ok(fd) => fd.inode(),
        // An owner without it would be judged by less than it could have been.
        Err(errno) if may_pass(&errno.into()) => return Err(errno.into()),
        Err(_) => None,
    };
    Ok(ProcessIdentity {
        pid,
        start_ticks: stat.start_ticks,
        pidfs_ino,
        // Started through /proc/self/exe, as our own helpers are, the kernel calls us "exe".
        comm: if stat.comm == "exe" { own_name().unwrap_or(stat.comm) } else { stat.comm },
        uid: rustix::process::geteuid().as_raw(),
    })
}

/// Are we in a pid namespace other than the initial one? Where the kernel has none, we are not.
pub(crate) fn in_container() -> bool {
    container().is_some()
}

/// The inode of our pid namespace, where that is not the initial one.
pub(crate) fn container() -> Option<u64> {
    namespace("pid").ok().flatten().filter(|inode| *inode != INITIAL_PID_NS)
}

fn own_name() -> Option<String> {
    let file = fs::read_link("/proc/self/exe").ok()?;
    Some(file.file_name()?.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidepid_and_subset_are_found_on_the_mount_that_is_read() {
        let at = |point: &str, options: &str| {
            format!("22 1 0:20 / {point} rw,nosuid shared:5 - proc proc {options}\n")
        };
        let line = |options: &str| at("/proc", options);
        assert!(!hides_processes(line("rw").as_bytes()));
        assert!(!hides_processes(line("rw,hidepid=0").as_bytes()));
        assert!(!hides_processes(line("rw,hidepid=off").as_bytes()));
        for options in
            ["rw,hidepid=2", "rw,hidepid=invisible", "rw,gid=4,hidepid=ptraceable", "rw,subset=pid"]
        {
            assert!(hides_processes(line(options).as_bytes()), "{options}");
            assert!(!hides_processes((at("/jail/proc", options) + &line("rw")).as_bytes()), "elsewhere");
            assert!(hides_processes((line("rw") + &line(options)).as_bytes()), "mounted over");
            assert!(!hides_processes((line(options) + &line("rw")).as_bytes()), "hidden itself");
        }
        assert!(hides_processes(b"what is this"), "unreadable hides");
        assert!(hides_processes(at("/jail/proc", "rw").as_bytes()), "nothing at /proc");
        let bound = "22 1 0:20 /sys /proc rw - proc proc rw\n";
        assert!(hides_processes(bound.as_bytes()), "a part of it");
        assert!(hides_processes(b"22 1 0:20 / /proc rw - tmpfs none rw\n"), "another file system");
    }

    #[test]
    fn this_host_has_a_boot_and_namespaces() {
        let here = identity();
        assert!(here.boot_id.is_some() && here.pid_ns.is_some() && here.boottime_us > 0);
        assert!(myself().expect("stat").same(&crate::os::process::identify(std::process::id()).expect("me")));
    }

    proptest::proptest! {
        #[test]
        fn no_mountinfo_crashes_the_reader(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            let _ = hides_processes(&bytes);
        }
    }
}
