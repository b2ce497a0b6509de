//! Facts about this machine, this boot and the namespaces we are in.

use crate::model::host::{HostIdentity, INITIAL_PID_NS, real_machine_id};
use crate::model::identity::ProcessIdentity;
use crate::os::process::PidFd;
use crate::os::{clock, proc};
use rustix::fs::{fstatfs, stat};
use std::fs::{self, File};
use std::io::{self, Read};

/// `f_type` of procfs (linux/magic.h).
const PROC_MAGIC: u64 = 0x9fa0;

/// The host part of an identity; "now" is the boot time stamp in it.
pub(crate) fn identity() -> HostIdentity {
    observe().0
}

/// As [`identity`], with the error of a reading that failed for a reason that may pass
/// (EMFILE, EIO …). What is not there or not shown to us is absent, and no error.
pub(crate) fn observe() -> (HostIdentity, Option<io::Error>) {
    let mut unread = None;
    let host = HostIdentity {
        boot_id: known(read_boot_id(), &mut unread),
        machine_id: known(machine_id(), &mut unread),
        state_id: None,
        hostname: hostname(),
        pid_ns: known(namespace("pid"), &mut unread),
        time_ns: known(namespace("time"), &mut unread),
        boottime_us: clock::boottime_us(),
    };
    (host, unread)
}

/// The value, or absent; an error that may pass is kept.
fn known<T>(reading: io::Result<Option<T>>, unread: &mut Option<io::Error>) -> Option<T> {
    use nix::libc::{EAGAIN, EINTR, EIO, EMFILE, ENFILE, ENOMEM};
    reading.unwrap_or_else(|error| {
        if matches!(error.raw_os_error(), Some(EAGAIN | EINTR | EIO | EMFILE | ENFILE | ENOMEM)) {
            *unread = Some(error);
        }
        None
    })
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

/// Does `/proc` show the processes of everybody? Root sees all; others only without
/// `hidepid` in the mount options of `/proc` (proc(5)).
pub(crate) fn sees_everybody() -> bool {
    rustix::process::geteuid().is_root()
        || fs::read("/proc/self/mountinfo").is_ok_and(|text| !hides_processes(&text))
}

/// Does any mount of procfs in the text of a mountinfo file hide processes? An
/// option we cannot read counts as one that hides.
pub(crate) fn hides_processes(mountinfo: &[u8]) -> bool {
    use procfs::FromBufRead;
    let Ok(mounts) = procfs::process::MountInfos::from_buf_read(mountinfo) else { return true };
    mounts.0.iter().filter(|mount| mount.fs_type == "proc").any(|mount| {
        let hidepid = mount.super_options.get("hidepid");
        hidepid.is_some_and(|value| !matches!(value.as_deref(), Some("0" | "off")))
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
    Ok(ProcessIdentity {
        pid,
        start_ticks: stat.start_ticks,
        pidfs_ino: PidFd::open(pid).ok().and_then(|fd| fd.inode()),
        // Started through /proc/self/exe, as our own helpers are, the kernel calls us "exe".
        comm: if stat.comm == "exe" { own_name().unwrap_or(stat.comm) } else { stat.comm },
        uid: rustix::process::geteuid().as_raw(),
    })
}

/// Are we in a pid namespace other than the initial one? Where the kernel has none, we are not.
pub(crate) fn in_container() -> bool {
    namespace("pid").ok().flatten().is_some_and(|inode| inode != INITIAL_PID_NS)
}

fn own_name() -> Option<String> {
    let file = fs::read_link("/proc/self/exe").ok()?;
    Some(file.file_name()?.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidepid_is_found_in_mountinfo() {
        let line = |options: &str| format!("22 1 0:20 / /proc rw,nosuid shared:5 - proc proc {options}\n");
        assert!(!hides_processes(line("rw").as_bytes()));
        assert!(!hides_processes(line("rw,hidepid=0").as_bytes()));
        for options in ["rw,hidepid=2", "rw,hidepid=invisible", "rw,gid=4,hidepid=ptraceable"] {
            assert!(hides_processes(line(options).as_bytes()), "{options}");
        }
        assert!(hides_processes(b"what is this"), "unreadable hides");
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
