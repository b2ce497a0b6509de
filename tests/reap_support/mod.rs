//! A real tmux on a socket of its own, and panes that can be tagged and marked.
#![allow(dead_code, reason = "every test program uses another part of it")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

use crate::support::{Done, KillOnDrop, Tool, eventually, run};
use serde_json::Value;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The silence the tests ask for: short, and more than the whole seconds of tmux.
pub(crate) const IDLE: u64 = 2;

/// One tmux server; killed at the end of the test.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) tool: Tool,
    pub(crate) socket: PathBuf,
}

/// A pane as it began.
#[derive(Clone, Debug)]
pub(crate) struct Pane {
    pub(crate) id: String,
    pub(crate) pid: u32,
    pub(crate) tty: String,
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Field 22 of its stat line.
pub(crate) fn start_ticks(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let rest = &stat[stat.rfind(')').unwrap() + 2..];
    rest.split(' ').nth(19).unwrap().to_owned()
}

/// Is the process with this number and start gone, or a zombie?
pub(crate) fn is_gone(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.map_or(true, |stat| stat[stat.rfind(')').unwrap()..].starts_with(") Z"))
}

impl Server {
    /// A server whose first pane belongs to nobody, so that it lives as long as the test.
    pub(crate) fn new() -> Self {
        let tool = Tool::new();
        let socket = tool.path("tmux");
        let server = Self { tool, socket };
        server.tmux(&["new-session", "-d", "-s", "main", "-x", "80", "-y", "24", "sleep 100000"]);
        server
    }

    /// A tmux command; fails the test if tmux does.
    #[track_caller]
    pub(crate) fn tmux<S: AsRef<OsStr>>(&self, args: &[S]) -> String {
        run(self.tmux_command().args(args)).expect(0).stdout
    }

    pub(crate) fn tmux_command(&self) -> Command {
        let mut command = self.tool.command("tmux");
        command.env_remove("TMUX").env_remove("TMUX_PANE");
        command.args(["-u", "-f", "/dev/null", "-S"]).arg(&self.socket);
        command
    }

    /// A pane in a window of its own.
    #[track_caller]
    pub(crate) fn pane(&self, command: &str) -> Pane {
        self.pane_in("main", command)
    }

    #[track_caller]
    pub(crate) fn pane_in(&self, session: &str, command: &str) -> Pane {
        let target = format!("={session}:");
        let text = self.tmux(&[
            "new-window",
            "-d",
            "-P",
            "-F",
            "#{pane_id} #{pane_pid} #{pane_tty}",
            "-t",
            &target,
            command,
        ]);
        let mut words = text.split_whitespace().map(str::to_owned);
        Pane {
            id: words.next().unwrap(),
            pid: words.next().unwrap().parse().unwrap(),
            tty: words.next().unwrap(),
        }
    }

    /// Sets a pane's own option.
    #[track_caller]
    pub(crate) fn set(&self, pane: &Pane, option: &str, value: &str) {
        self.tmux(&["set-option", "-p", "-t", &pane.id, option, value]);
    }

    /// Tags it as a run of `automation`, as orion-mark does.
    #[track_caller]
    pub(crate) fn tag(&self, pane: &Pane, automation: &str) {
        let tag = format!("{automation} {} {} {}", pane.id, pane.pid, start_ticks(pane.pid));
        self.set(pane, "@orion_run", &tag);
    }

    /// A tagged pane that is marked idle as soon as it began.
    #[track_caller]
    pub(crate) fn finished(&self, automation: &str, command: &str) -> Pane {
        let pane = self.pane(command);
        self.tag(&pane, automation);
        self.set(&pane, "@orion_state", &format!("idle {}", now()));
        pane
    }

    /// Waits until every window has been silent long enough, and takes the eight seconds off
    /// the terminal devices, whose stamps may be set by their owner.
    pub(crate) fn settle(&self, but: &[&Pane]) {
        let mine = |line: &str| !but.iter().any(|pane| line.starts_with(&format!("{} ", pane.id)));
        eventually("silence", || {
            let list = self.tmux(&["list-panes", "-a", "-F", "#{pane_id} #{window_activity}"]);
            list.lines().filter(|line| mine(line)).all(|line| {
                let at: u64 = line.split(' ').nth(1).unwrap().parse().unwrap();
                at + IDLE + 1 < now()
            })
        });
        for line in self.tmux(&["list-panes", "-a", "-F", "#{pane_id} #{pane_tty}"]).lines() {
            if mine(line) {
                run(Command::new("touch").args(["-d", "1 hour ago", line.split(' ').nth(1).unwrap()]));
            }
        }
    }

    /// orion-reap for this server and the automation `nightly`, with a short silence.
    pub(crate) fn reaper<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let idle = format!("{IDLE}s");
        let mut command = self.tool.tool("orion-reap", &["--runner", "tmux", "--force"]);
        if !args.iter().any(|arg| arg.as_ref() == "--idle") {
            command.args(["--idle", &idle]);
        }
        command.env_remove("TMUX").env_remove("TMUX_PANE");
        command.arg("--tmux-socket").arg(&self.socket).args(args);
        command
    }

    /// One pass, as JSON.
    #[track_caller]
    pub(crate) fn reap<S: AsRef<OsStr>>(&self, args: &[S]) -> Outcome {
        let mut command = self.reaper(args);
        command.args(["--json", "--automation", "nightly"]);
        Outcome(run(&mut command).expect(0).json())
    }

    /// Every pane there is.
    pub(crate) fn panes(&self) -> Vec<String> {
        self.tmux(&["list-panes", "-a", "-F", "#{pane_id}"]).lines().map(str::to_owned).collect()
    }

    /// Writes a program into a directory that goes before PATH; gives that PATH.
    pub(crate) fn in_path(&self, name: &str, script: &str) -> String {
        path_with(&self.tool, name, script)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        run(self.tmux_command().arg("kill-server"));
    }
}

/// Writes a program into a directory that goes before PATH; gives that PATH.
pub(crate) fn path_with(tool: &Tool, name: &str, script: &str) -> String {
    let dir = tool.path("bin");
    std::fs::create_dir_all(&dir).unwrap();
    write_program(&dir.join(name), script);
    format!("{}:{}", dir.display(), std::env::var("PATH").unwrap())
}

/// An executable script.
pub(crate) fn write_program(path: &Path, script: &str) {
    std::fs::write(path, script).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

/// Where the real program is, for stand-ins that pass most calls on.
pub(crate) fn real(program: &str) -> String {
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file());
    found.unwrap().display().to_string()
}

/// What a pass said.
#[derive(Debug)]
pub(crate) struct Outcome(pub(crate) Value);

impl Outcome {
    pub(crate) fn of(done: &Done) -> Self {
        Self(done.json())
    }

    /// `closed`, `would_close`, or the reason it was kept.
    #[track_caller]
    pub(crate) fn fate(&self, id: &str) -> String {
        let terminals = self.0["terminals"].as_array().unwrap();
        let terminal = terminals.iter().find(|one| one["id"] == id);
        let terminal = terminal.unwrap_or_else(|| panic!("{id} is not in {}", self.0));
        terminal["reason"].as_str().or(terminal["action"].as_str()).unwrap().to_owned()
    }

    #[track_caller]
    pub(crate) fn evidence(&self, id: &str) -> String {
        let terminals = self.0["terminals"].as_array().unwrap();
        let terminal = terminals.iter().find(|one| one["id"] == id).unwrap();
        terminal["evidence"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn summary(&self, key: &str) -> u64 {
        self.0["summary"][key].as_u64().unwrap()
    }

    pub(crate) fn warnings(&self) -> String {
        self.0["warnings"].to_string()
    }
}

/// A process that must be alive now; killed at the end of the test.
#[track_caller]
pub(crate) fn alive(pid: u32) -> KillOnDrop {
    let process = KillOnDrop::of(pid);
    assert!(!process.ended(), "pid {pid} should live");
    process
}
