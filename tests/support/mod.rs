//! What the tests that run real programs share: a private state directory, a way
//! to run a tool and see everything it said, processes that cannot outlive a
//! test, and waiting for facts instead of sleeping.
#![allow(dead_code, unused_imports, reason = "every test program uses another part of it")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod background;
pub(crate) mod bounded;
mod running;

pub(crate) use background::Background;
pub(crate) use running::{KillOnDrop, Running};
use serde_json::Value;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The upper bound of every wait: generous, because the machine may be loaded.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The directory of the binaries under test: the installed ones if ORION_TEST_BIN_DIR says so.
pub(crate) fn bin_dir() -> PathBuf {
    let built = || Path::new(env!("CARGO_BIN_EXE_orion-lock")).parent().unwrap().to_owned();
    std::env::var_os("ORION_TEST_BIN_DIR").map_or_else(built, PathBuf::from)
}

/// The path of one of our programs.
pub(crate) fn bin(tool: &str) -> PathBuf {
    bin_dir().join(tool)
}

/// May this test run? Without `tool` in PATH it is skipped, and under CI it fails.
pub(crate) fn needs(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(tool).is_file());
    allowed(found, &format!("{tool} is not installed"))
}

/// As [`needs`], for the rights of root.
pub(crate) fn needs_root() -> bool {
    allowed(rustix::process::geteuid().is_root(), "not root")
}

/// As [`needs`], for namespaces of our own; `flags` as for unshare(1).
pub(crate) fn needs_unshare(flags: &[&str]) -> bool {
    let works =
        Command::new("unshare").args(flags).arg("true").output().is_ok_and(|out| out.status.success());
    allowed(works, &format!("unshare {} is not possible here", flags.join(" ")))
}

/// Says why a test is skipped, or fails it under CI.
pub(crate) fn allowed(possible: bool, why: &str) -> bool {
    if !possible {
        assert!(std::env::var_os("CI").is_none(), "{why}, and under CI nothing is skipped");
        say(&format!("skipped: {why}"));
    }
    possible
}

/// A line for whoever reads the output of the tests.
#[allow(clippy::print_stdout, clippy::disallowed_macros, reason = "a test speaks to its reader")]
pub(crate) fn say(line: &str) {
    println!("{line}");
}

/// Waits until a fact is there.
pub(crate) fn eventually(what: &str, fact: impl Fn() -> bool) {
    let end = Instant::now() + LONG;
    while !fact() {
        assert!(Instant::now() < end, "it did not come: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// How a program ended and what it said.
#[derive(Debug)]
pub(crate) struct Done {
    /// Its exit code; 128 + N for a death by signal, as a shell says it.
    pub(crate) code: i32,
    /// What it wrote to stdout, lossy.
    pub(crate) stdout: String,
    /// What it wrote to stderr, lossy.
    pub(crate) stderr: String,
}

impl Done {
    pub(crate) fn of(status: ExitStatus, stdout: &[u8], stderr: &[u8]) -> Self {
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code, stdout: text(stdout), stderr: text(stderr) }
    }

    /// Fails unless it ended with `code`; gives itself back.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// Fails unless stderr holds `text`.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "expected on stderr: {text}\nstderr: {}", self.stderr);
        self
    }

    /// Fails unless stderr is empty: success is silent.
    #[track_caller]
    pub(crate) fn silent(self) -> Self {
        assert_eq!(self.stderr, "", "expected silence (exit {})", self.code);
        self
    }

    /// Fails unless stderr is exactly one line.
    #[track_caller]
    pub(crate) fn one_line(self) -> Self {
        assert_eq!(self.stderr.trim_end().lines().count(), 1, "expected one line: {}", self.stderr);
        assert!(self.stderr.ends_with('\n'), "a whole line: {}", self.stderr);
        self
    }

    /// Fails unless stdout holds `text`.
    #[track_caller]
    pub(crate) fn prints(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "expected on stdout: {text}\nstdout: {}", self.stdout);
        self
    }

    /// stdout as one JSON document, `"schema":1` first.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert!(self.stdout.starts_with("{\"schema\":1"), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error} in {}\nstderr: {}", self.stdout, self.stderr))
    }

    /// The number on stdout, as `--print-token` writes it.
    #[track_caller]
    pub(crate) fn token(&self) -> u64 {
        self.stdout.trim().parse().unwrap_or_else(|_| panic!("no token: {self:?}"))
    }
}

/// Runs a command to its end, which must come within two minutes.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> Done {
    let out = bounded::output(command, 2 * LONG);
    Done::of(out.status, &out.stdout, &out.stderr)
}

/// A private state directory, and our tools as they see it.
#[derive(Debug)]
pub(crate) struct Tool {
    temp: tempfile::TempDir,
}

impl Default for Tool {
    fn default() -> Self {
        Self::new()
    }
}

impl Tool {
    /// A fresh one; the state directory itself does not exist yet.
    pub(crate) fn new() -> Self {
        Self { temp: tempfile::Builder::new().prefix("orion-test-").tempdir().unwrap() }
    }

    /// As [`Tool::new`] on a file system under this path.
    pub(crate) fn on(path: &Path) -> Self {
        Self { temp: tempfile::Builder::new().prefix("orion-test-").tempdir_in(path).unwrap() }
    }

    /// Room for a test's own files.
    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.temp.path().join(file)
    }

    /// The state directory.
    pub(crate) fn dir(&self) -> PathBuf {
        self.path("state")
    }

    /// A file of a lock: `file("x.json")`.
    pub(crate) fn file(&self, file: &str) -> PathBuf {
        self.dir().join("locks").join(file)
    }

    /// The record of a lock as JSON.
    #[track_caller]
    pub(crate) fn record(&self, name: &str) -> Value {
        let path = self.file(&format!("{name}.json"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
    }

    /// Writes bytes in a record's place.
    pub(crate) fn write_record(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::create_dir_all(self.dir().join("locks")).unwrap();
        for dir in [self.dir(), self.dir().join("locks")] {
            std::fs::set_permissions(dir, PermissionsExt::from_mode(0o700)).unwrap();
        }
        std::fs::write(self.file(&format!("{name}.json")), bytes).unwrap();
    }

    /// Changes the record in place.
    pub(crate) fn edit_record(&self, name: &str, edit: impl FnOnce(&mut Value)) {
        let mut record = self.record(name);
        edit(&mut record);
        self.write_record(name, record.to_string());
    }

    /// Names in the `locks` directory, sorted; empty when there is none.
    pub(crate) fn files(&self) -> Vec<String> {
        names_in(&self.dir().join("locks"))
    }

    /// A command that sees this state directory, a plain locale and none of our variables from outside.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("ORION_") {
                command.env_remove(&name);
            }
        }
        command.env("ORION_DIR", self.dir()).env("LC_ALL", "C").env("TZ", "UTC").env_remove("SUDO_USER");
        command.env("OL", bin("orion-lock")).env("OP", bin("orion-precheck"));
        command.stdin(Stdio::null());
        command
    }

    /// One of our tools with arguments, ready to be changed further.
    pub(crate) fn tool<S: AsRef<OsStr>>(&self, tool: &str, args: &[S]) -> Command {
        let mut command = self.command(bin(tool));
        command.args(args);
        command
    }

    /// Runs `orion-lock`.
    #[track_caller]
    pub(crate) fn lock<S: AsRef<OsStr>>(&self, args: &[S]) -> Done {
        run(&mut self.tool("orion-lock", args))
    }

    /// Runs `orion-precheck`.
    #[track_caller]
    pub(crate) fn precheck<S: AsRef<OsStr>>(&self, args: &[S]) -> Done {
        run(&mut self.tool("orion-precheck", args))
    }

    /// A bash script of this text in a file of its own, so that its shell is no one-shot shell. It
    /// finds our binaries as `$OL` and `$OP`.
    pub(crate) fn script(&self, text: &str) -> Command {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let path = self.path(&format!("script-{}.sh", NUMBER.fetch_add(1, Ordering::Relaxed)));
        std::fs::write(&path, text).unwrap();
        let mut command = self.command("bash");
        command.arg(path);
        command
    }

    /// Runs [`Tool::script`].
    #[track_caller]
    pub(crate) fn sh(&self, text: &str) -> Done {
        run(&mut self.script(text))
    }

    /// A script in namespaces of its own; `flags` as for unshare(1).
    pub(crate) fn unshared(&self, flags: &[&str], text: &str) -> Command {
        let script = self.script(text);
        let mut command = self.command("unshare");
        command.args(flags).arg("--").arg(script.get_program()).args(script.get_args());
        command
    }

    /// Runs `orion-lock run NAME` with a command that says it is there and lives until its stdin closes.
    #[track_caller]
    pub(crate) fn hold(&self, name: &str) -> Running {
        self.hold_with(&["run", name, "sh", "-c", "echo up; read -r end; exit 0"])
    }

    /// As [`Tool::hold`] with arguments of your own; the command must write one line.
    #[track_caller]
    pub(crate) fn hold_with<S: AsRef<OsStr>>(&self, args: &[S]) -> Running {
        Running::start(&mut self.tool("orion-lock", args))
    }

    /// The identity of a record whose owner was killed: a lock held by a dead owner.
    #[track_caller]
    pub(crate) fn leave_dead(&self, name: &str) -> Value {
        let mut holder = self.hold(name);
        holder.kill();
        self.record(name)
    }
}

/// Names in a directory, sorted; empty when there is none.
pub(crate) fn names_in(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
