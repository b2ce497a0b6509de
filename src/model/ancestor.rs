//! The callers of a process, as candidates for owning a lock.

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
const INTERPRETERS: [&str; 16] = [
    "sh", "bash", "dash", "zsh", "ksh", "ash", "busybox", "python", "python3", "node", "perl", "ruby",
    "deno", "bun", "php", "tclsh",
];
const SHELLS: [&str; 7] = ["sh", "bash", "dash", "zsh", "ksh", "ash", "busybox"];

impl Ancestor {
    /// The file name of its first argument.
    fn program(&self) -> Option<String> {
        let first = self.args.first()?;
        let name = String::from_utf8_lossy(first.rsplit(|byte| *byte == b'/').next()?).into_owned();
        Some(name.trim_start_matches('-').to_owned())
    }

    /// The script it runs, if it is an interpreter.
    fn script(&self) -> Option<String> {
        let program = self.program()?;
        let stem = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        if !INTERPRETERS.contains(&program.as_str()) && !INTERPRETERS.contains(&stem) {
            return None;
        }
        let script = self.args.iter().skip(1).find(|arg| !arg.starts_with(b"-"))?;
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
        let Some(program) = self.program() else { return false };
        let options =
            self.args.iter().skip(1).take_while(|arg| arg.starts_with(b"-") || arg.starts_with(b"+"));
        SHELLS.contains(&program.as_str())
            && options.into_iter().any(|arg| !arg.starts_with(b"--") && arg.contains(&b'c'))
    }

    /// A daemon that many sessions share: no terminal, started by a manager.
    pub(crate) fn is_shared_daemon(&self) -> bool {
        self.tty_nr == 0 && self.under_manager
    }

    /// For messages: `claude (pid 812)`.
    pub(crate) fn show(&self) -> String {
        let name = self.script().filter(|_| !self.is_one_shot()).unwrap_or_else(|| self.comm.clone());
        format!("{name} (pid {})", self.pid)
    }

    /// What a person would type to mean it.
    pub(crate) fn handle(&self) -> String {
        self.script().filter(|_| !self.is_one_shot()).unwrap_or_else(|| self.comm.clone())
    }
}
