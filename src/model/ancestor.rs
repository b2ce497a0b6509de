//! The callers of a process, as possible owners of a lock.

use crate::model::shell::{Grammar, ShellCall};

/// One process on the way up from the caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ancestor {
    pub(crate) pid: u32,
    pub(crate) comm: String,
    /// File name of its executable; `None` where that cannot be read.
    pub(crate) exe: Option<String>,
    pub(crate) args: Vec<Vec<u8>>,
    /// 0: no controlling terminal.
    pub(crate) tty_nr: i32,
    /// Its parent is pid 1 or a user manager (`systemd --user`).
    pub(crate) under_manager: bool,
}

/// Programs that run a script named by their first plain argument.
const INTERPRETERS: [&str; 8] = ["python", "node", "perl", "ruby", "deno", "bun", "php", "tclsh"];

/// Programs that run another one and end with it: they never outlast the call, so none is an owner by its name.
const WRAPPERS: [&str; 34] = [
    "sudo",
    "doas",
    "su",
    "runuser",
    "pkexec",
    "env",
    "timeout",
    "nice",
    "ionice",
    "chrt",
    "taskset",
    "setpriv",
    "setsid",
    "nohup",
    "stdbuf",
    "time",
    "unshare",
    "nsenter",
    "chroot",
    "flock",
    "xargs",
    "strace",
    "ltrace",
    "script",
    "unbuffer",
    "systemd-run",
    "systemd-inhibit",
    "cgexec",
    "prlimit",
    "numactl",
    "fakeroot",
    "faketime",
    "dbus-run-session",
    "catchsegv",
];

impl Ancestor {
    /// The file name of its first argument.
    fn program(&self) -> Option<String> {
        let first = self.args.first()?;
        let name = String::from_utf8_lossy(first.rsplit(|byte| *byte == b'/').next()?).into_owned();
        Some(name.trim_start_matches('-').to_owned())
    }

    /// How it was started, if it is a shell: by the name it was called by, or by its executable's.
    fn shell(&self) -> Option<ShellCall<'_>> {
        let arguments = self.args.get(1..).unwrap_or_default();
        let program = self.program();
        match program.as_deref() {
            // One file for many programs: the first argument says which.
            Some("busybox" | "toybox") => {
                let applet = std::str::from_utf8(arguments.first()?).ok()?;
                Grammar::of(applet).map(|grammar| grammar.read(&arguments[1..]))
            }
            name => {
                let grammar = name.and_then(Grammar::of).or_else(|| Grammar::of(self.exe.as_deref()?))?;
                Some(grammar.read(arguments))
            }
        }
    }

    /// The script it runs, if it is an interpreter.
    fn script(&self) -> Option<String> {
        let script: &[u8] = match self.shell() {
            Some(call) => call.script?,
            None => {
                let program = self.program()?;
                let stem = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
                if !INTERPRETERS.contains(&program.as_str()) && !INTERPRETERS.contains(&stem) {
                    return None;
                }
                self.args.iter().skip(1).find(|arg| !arg.starts_with(b"-"))?
            }
        };
        Some(String::from_utf8_lossy(script.rsplit(|byte| *byte == b'/').next()?).into_owned())
    }

    /// Is it called `name`: by comm, executable or script?
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.comm == name
            || self.exe.as_deref() == Some(name)
            || self.program().as_deref() == Some(name)
            || (!self.is_one_shot() && self.script().as_deref() == Some(name))
    }

    /// A shell started for one command (`sh -c …`): gone when that returns.
    pub(crate) fn is_one_shot(&self) -> bool {
        self.shell().is_some_and(|call| call.one_shot)
    }

    /// A program that runs another one and ends with it (`sudo`, `timeout`).
    pub(crate) fn is_wrapper(&self) -> bool {
        let names = [Some(self.comm.clone()), self.exe.clone(), self.program()];
        names.into_iter().flatten().any(|name| WRAPPERS.contains(&name.as_str()))
    }

    /// A daemon that many sessions share: no terminal, started by a manager.
    pub(crate) fn is_shared_daemon(&self) -> bool {
        self.tty_nr == 0 && self.under_manager
    }

    /// For messages: `claude (pid 812)`.
    pub(crate) fn show(&self) -> String {
        format!("{} (pid {})", self.handle(), self.pid)
    }

    /// What a person would type to mean it.
    pub(crate) fn handle(&self) -> String {
        self.script().filter(|_| !self.is_one_shot()).unwrap_or_else(|| self.comm.clone())
    }
}
