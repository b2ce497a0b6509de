//! The system calls of a program, out of a trace of it.

use std::collections::{BTreeMap, BTreeSet};

/// One system call: its kind, which one of that kind in its process or thread (as strace's
/// `when=` counts), and how it looked.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) call: String,
    pub(crate) number: usize,
    line: String,
}

/// What happens at a point.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) point: Point,
    /// `signal=KILL` or `error=ENOSPC`, as strace wants it.
    pub(crate) what: String,
}

impl Fault {
    /// The option for strace.
    pub(crate) fn inject(&self) -> String {
        format!("inject={}:{}:when={}", self.point.call, self.what, self.point.number)
    }

    pub(crate) fn is_kill(&self) -> bool {
        self.what == KILL
    }

    /// Could a temp file be left, because this is a kill or because it cannot be unlinked?
    pub(crate) fn may_leave_a_temp_file(&self) -> bool {
        self.is_kill() || self.point.call.starts_with("unlink")
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} at {} {}: {}", self.what, self.point.call, self.point.number, self.point.line)
    }
}

const KILL: &str = "signal=KILL";

/// Calls that cannot fail, or whose failure is not ours to survive (memory of the program itself).
const NEVER: [&str; 26] = [
    "brk",
    "mmap",
    "mremap",
    "munmap",
    "mprotect",
    "exit_group",
    "exit",
    "rt_sigreturn",
    "arch_prctl",
    "set_tid_address",
    "set_robust_list",
    "rseq",
    "prlimit64",
    "getrandom",
    "madvise",
    "futex",
    "getpid",
    "getppid",
    "gettid",
    "getuid",
    "geteuid",
    "getegid",
    "sched_getaffinity",
    "sigaltstack",
    "restart_syscall",
    "uname",
];

/// The errors a call is made to give, those that this one can give.
fn errors(point: &Point) -> &'static [&'static str] {
    match point.call.as_str() {
        "openat" if point.line.contains("O_CREAT") => &["EMFILE", "EACCES", "EIO", "ENOSPC", "EROFS"],
        // What may never be read there is absent, also for every later judge; once is not never.
        "openat" if point.line.contains("/proc/sys") => &["EMFILE", "EIO"],
        "openat" => &["EMFILE", "EACCES", "EIO"],
        "write" | "pwrite64" => &["ENOSPC", "EIO", "EINTR"],
        "read" | "pread64" => &["EIO", "EINTR"],
        "flock" => &["ENOLCK", "EINTR"],
        "fcntl" => &["EMFILE", "ENOLCK", "EINVAL"],
        "renameat2" | "rename" | "renameat" => &["ENOSPC", "EIO", "EINVAL", "EROFS"],
        "unlinkat" | "unlink" | "linkat" => &["EACCES", "EIO", "EROFS"],
        "mkdirat" | "mkdir" => &["ENOSPC", "EACCES", "EROFS"],
        "pidfd_open" => &["EMFILE", "ENOSYS", "EPERM"],
        "fstat" | "newfstatat" | "statx" | "lseek" => &["EIO", "EACCES"],
        "fchmod" | "fchmodat" | "fchmodat2" => &["EPERM", "EIO"],
        "clone3" | "clone" | "vfork" => &["EAGAIN"],
        "execve" => &["ENOENT", "EACCES", "ENOMEM"],
        "poll" | "ppoll" => &["EINTR", "ENOMEM"],
        // Signal numbers are constants of ours and of std, so these cannot fail; a death there can be.
        "rt_sigaction" | "rt_sigprocmask" => &[],
        // Linux closes whatever it answers (close(2)), and an injected error would not.
        "close" => &[],
        "pipe2" | "signalfd4" => &["EMFILE"],
        _ => &["EIO"],
    }
}

/// Every point between the first look at the state directory (or at a shim's gate) and the end or the
/// next program, of every process and thread; each kind and number once.
pub(crate) fn points_in(trace: &str) -> Vec<Point> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut execs: BTreeMap<&str, usize> = BTreeMap::new();
    // A trace of some paths only is inside from its first line.
    let (mut seen, mut points, mut inside) = (BTreeSet::new(), Vec::new(), !trace.contains("execve("));
    for line in trace.lines().filter(|line| !line.contains("resumed>")) {
        let Some((pid, text)) = line.split_once(' ') else { continue };
        let Some((call, _)) = text.trim_start().split_once('(') else { continue };
        if !call.starts_with(|c: char| c.is_ascii_lowercase()) || execs.get(pid) > Some(&1) {
            continue;
        }
        let number = counts.entry((pid, call)).or_default();
        *number += 1;
        inside |= text.contains("/state")
            || text.contains("rt_sigprocmask(SIG_BLOCK, [XFSZ]")
            || text.contains("/proc/self/fd/");
        if inside && !NEVER.contains(&call) && seen.insert((call.to_owned(), *number)) {
            points.push(Point { call: call.to_owned(), number: *number, line: text.trim().to_owned() });
        }
        *execs.entry(pid).or_default() += usize::from(call == "execve" && text.ends_with("= 0"));
    }
    assert!(points.len() > 10, "{trace}");
    points
}

/// A kill at every point.
pub(crate) fn kills(points: &[Point]) -> Vec<Fault> {
    points.iter().map(|point| Fault { point: point.clone(), what: KILL.to_owned() }).collect()
}

/// Every pair of a point and an error.
pub(crate) fn failures(points: &[Point]) -> Vec<Fault> {
    let pairs = points.iter().flat_map(|point| errors(point).iter().map(move |error| (point, error)));
    pairs.map(|(point, error)| Fault { point: point.clone(), what: format!("error={error}") }).collect()
}
