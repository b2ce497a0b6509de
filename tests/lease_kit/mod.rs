//! What the tests of `orion-lease` share: the binary, a store in a directory of its
//! own, residents of another make, and waiting for facts instead of for time.

#![allow(dead_code, reason = "every test crate uses its part of this")]

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// Far more than anything here takes, on a machine that does ten other things.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The shortest silence that counts.
pub(crate) const BRIEFLY: &str = "1s";

/// The program under test, from `ORION_TEST_BIN_DIR` where that is set.
pub(crate) fn program() -> PathBuf {
    match std::env::var_os("ORION_TEST_BIN_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => Path::new(&dir).join("orion-lease"),
        None => PathBuf::from(env!("CARGO_BIN_EXE_orion-lease")),
    }
}

/// A directory with a store in it.
pub(crate) struct Scene {
    dir: tempfile::TempDir,
    pub(crate) store: PathBuf,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let path = fs::canonicalize(dir.path()).expect("its path");
        Self { store: path.join("journal.db"), dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.store.with_file_name(name)
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.path("journal.db.resident.lock")
    }

    pub(crate) fn payload(&self) -> String {
        fs::read_to_string(self.lock()).expect("the payload")
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.payload()).expect("the payload")
    }

    /// `orion-lease WORDS` in a process group of its own, so that nothing meant for
    /// it reaches the test.
    pub(crate) fn lease<I: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = I>) -> Command {
        let mut command = Command::new(program());
        command.args(words).current_dir(self.dir.path()).process_group(0).stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    pub(crate) fn call<I: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = I>) -> Answer {
        Answer::of(self.lease(words).output().expect("orion-lease"))
    }

    pub(crate) fn probe(&self) -> Answer {
        self.call(["probe", "journal.db"])
    }

    /// A resident under `run`: a shell that says its pid and then does as told.
    pub(crate) fn resident(&self, options: &[&str], script: &str) -> Actor {
        let mut words = vec!["run"];
        words.extend(options);
        let script = format!("echo $$; {script}");
        words.extend(["journal.db", "bash", "-c", &script]);
        Actor::start(&mut self.lease(words))
    }

    /// A resident of another make that ticked once, after its start, and is silent since: long
    /// enough for [`BRIEFLY`]. `fields` are more fields of its payload.
    pub(crate) fn silent_stranger(&self, lock: &str, fields: &str, before: &str) -> Actor {
        let actor = self.stranger(lock, "{}", before);
        let comma = if fields.is_empty() { "" } else { "," };
        let payload = format!("{{\"pid\":{},{}{comma}{fields}}}", actor.pid, tick_fields(0));
        fs::write(self.path(lock), payload).expect("payload");
        until("it is silent", || self.call(["probe", "--stuck-after", BRIEFLY, "journal.db"]).code == 76);
        actor
    }

    /// A resident of another make: a process that holds the flock and writes this
    /// payload, `PID` in it replaced by its own number, and then sleeps.
    pub(crate) fn stranger(&self, lock: &str, payload: &str, before: &str) -> Actor {
        let script = format!(
            "exec 9<>{lock}; flock -n 9 || exit 1; {before} printf %s \"${{1//PID/$$}}\" >{lock}; \
             echo $$; exec sleep 1000"
        );
        let mut command = Command::new("bash");
        command.args(["-c", &script, "stranger", payload]).current_dir(self.dir.path()).process_group(0);
        let actor = Actor::start(&mut command);
        until("it sleeps", || {
            fs::read_to_string(format!("/proc/{}/comm", actor.pid)).is_ok_and(|comm| comm == "sleep\n")
        });
        actor
    }
}

/// What a call gave.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Answer {
    pub(crate) fn of(output: Output) -> Self {
        use std::os::unix::process::ExitStatusExt;
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        let code = output.status.code().or(output.status.signal().map(|signal| -signal));
        Self { code: code.expect("a status"), out: text(output.stdout), err: text(output.stderr) }
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A process that says "ready" by its first line, which is its pid.
pub(crate) struct Actor {
    pub(crate) child: Child,
    /// The pid on its first line: of the command where that is not the child.
    pub(crate) pid: u32,
    pub(crate) stdin: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
}

impl Actor {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self::start_after(command, |line| Some(line.parse().expect("a pid")))
    }

    /// Skips lines until `pid` finds it in one.
    pub(crate) fn start_after(command: &mut Command, pid: impl Fn(&str) -> Option<u32>) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process");
        let stdin = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().expect("its output"));
        let mut actor = Self { child, pid: 0, stdin, lines };
        while actor.pid == 0 {
            let line = actor.line();
            assert!(
                !line.is_empty() || state(actor.child.id()).is_some_and(|state| state != 'Z'),
                "it ended"
            );
            actor.pid = pid(line.trim()).unwrap_or(0);
        }
        actor
    }

    /// The next line; empty at the end.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    pub(crate) fn tell(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("its input");
        writeln!(stdin, "{line}").expect("told");
    }

    /// Sends a signal to the child itself.
    pub(crate) fn signal(&self, signal: &str) {
        send(signal, self.child.id());
    }

    /// Waits for the child's end: its status, or minus the signal.
    pub(crate) fn end(&mut self) -> i32 {
        use std::os::unix::process::ExitStatusExt;
        let end = Instant::now() + LONG;
        loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                return status.code().or(status.signal().map(|signal| -signal)).expect("a status");
            }
            assert!(Instant::now() < end, "it does not end");
            nap();
        }
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        // A command whose supervisor was killed is ended by its guardian; a stranger's was the child.
    }
}

/// A child that does not outlive the test, also when that fails.
pub(crate) struct Owned(Child);

impl Owned {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("a process"),
        )
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Sends a signal to a process that the test has started.
pub(crate) fn send(signal: &str, pid: u32) {
    let status = Command::new("kill").args([format!("-{signal}"), pid.to_string()]).status();
    assert!(status.expect("kill").success(), "kill -{signal} {pid}");
}

/// Waits until a waiter blocks: in a helper thread, which is its second.
pub(crate) fn until_it_blocks(waiter: u32) {
    until("it blocks on the lock", || {
        fs::read_dir(format!("/proc/{waiter}/task")).is_ok_and(|tasks| tasks.count() > 1)
    });
}

/// The state letter of a process; `None` when it is gone.
pub(crate) fn state(pid: u32) -> Option<char> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit(") ").next()?.chars().next()
}

/// Neither there nor a zombie's remains.
pub(crate) fn is_gone(pid: u32) -> bool {
    matches!(state(pid), None | Some('Z' | 'X'))
}

pub(crate) fn parent(pid: u32) -> u32 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).expect("stat");
    let rest = text.rsplit(") ").next().expect("fields");
    rest.split(' ').nth(1).expect("ppid").parse().expect("a number")
}

/// Waits until something is so.
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !so() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        nap();
    }
}

/// Between two looks; never "long enough".
pub(crate) fn nap() {
    std::thread::sleep(Duration::from_millis(2));
}

/// Clocks and the boot, as a tick carries them.
pub(crate) fn monotonic_us() -> u64 {
    micros(nix::time::ClockId::CLOCK_MONOTONIC)
}

pub(crate) fn boottime_us() -> u64 {
    micros(nix::time::ClockId::CLOCK_BOOTTIME)
}

/// The time namespace of the tests; 0 on a kernel that has none.
pub(crate) fn time_ns() -> u64 {
    std::os::linux::fs::MetadataExt::st_ino(&match fs::metadata("/proc/self/ns/time") {
        Ok(namespace) => namespace,
        Err(_) => return 0,
    })
}

fn micros(clock: nix::time::ClockId) -> u64 {
    let time = nix::time::clock_gettime(clock).expect("clock");
    u64::try_from(time.tv_sec()).expect("seconds") * 1_000_000
        + u64::try_from(time.tv_nsec()).expect("nanos") / 1000
}

pub(crate) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("boot id").trim().to_owned()
}

pub(crate) fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_nanos(time).to_string()
}

/// Fields of a tick that was `awake_ago` seconds ago, for a payload of a stranger.
pub(crate) fn tick_fields(awake_ago: u64) -> String {
    let at = rfc3339(SystemTime::now() - Duration::from_secs(awake_ago));
    let before = |now: u64| now.saturating_sub(awake_ago * 1_000_000);
    let (monotonic, boottime) = (before(monotonic_us()), before(boottime_us()));
    format!(
        r#""last_tick":"{at}","orion":{{"boot_id":"{}","time_ns":{},"monotonic_us":{monotonic},"boottime_us":{boottime},"of":"{at}"}}"#,
        boot_id(),
        time_ns(),
    )
}
