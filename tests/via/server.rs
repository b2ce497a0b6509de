//! A PostgreSQL of a test's own, on a socket in its own directory and on a loopback port.

use crate::support::{Done, LONG, Running, Tool, allowed, run};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

/// Where the server's programs are: in ORION_TEST_POSTGRES, or the newest that is installed.
pub(crate) fn bin() -> Option<PathBuf> {
    if let Some(chosen) = std::env::var_os("ORION_TEST_POSTGRES") {
        return Some(PathBuf::from(chosen));
    }
    let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .ok()?
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let number = path.file_name()?.to_str()?.parse().ok()?;
            Some((number, path.join("bin")))
        })
        .filter(|(number, path)| *number >= 14 && path.join("postgres").is_file())
        .collect();
    versions.sort();
    versions.pop().map(|(_, path)| path)
}

/// May a test that needs a server run?
pub(crate) fn needs_postgres() -> bool {
    allowed(bin().is_some(), "PostgreSQL 14 or later is not installed (package postgresql)")
}

/// A program of the server, as a user that it accepts: it refuses root.
pub(crate) fn as_postgres(program: impl AsRef<std::ffi::OsStr>) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "--"]).arg(program);
    command
}

fn give_to_postgres(path: &Path) {
    if rustix::process::geteuid().is_root() {
        run(Command::new("chown").args(["-R", "postgres:postgres"]).arg(path)).expect(0);
    }
}

/// A cluster as initdb(1) makes it, with the roles and the database of the tests. Copied for each server.
fn template() -> &'static Path {
    static TEMPLATE: OnceLock<PathBuf> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let home = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let version = run(Command::new(bin().unwrap().join("postgres")).arg("--version")).expect(0).stdout;
        let version: String = version.chars().filter(|c| c.is_ascii_digit() || *c == '.').collect();
        let done = home.join(format!("cluster-{version}-1"));
        if !done.exists() {
            let temp = tempfile::Builder::new().prefix("orion-initdb-").tempdir().unwrap();
            give_to_postgres(temp.path());
            let data = temp.path().join("data");
            let mut initdb = as_postgres(bin().unwrap().join("initdb"));
            initdb
                .args(["-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C", "-D"])
                .arg(&data);
            run(initdb.current_dir("/")).expect(0);
            // Two test programs may do this at once; whoever is second finds it done.
            let mine = home.join(format!("cluster-{version}-{}", std::process::id()));
            run(Command::new("cp").arg("-a").arg(&data).arg(&mine)).expect(0);
            if std::fs::rename(&mine, &done).is_err() {
                std::fs::remove_dir_all(&mine).unwrap();
            }
        }
        done
    })
}

/// A server.
#[derive(Debug)]
pub(crate) struct Postgres {
    temp: tempfile::TempDir,
    pub(crate) port: u16,
    options: Vec<String>,
    /// The network namespace it lives in.
    netns: Option<String>,
    child: Option<Child>,
}

impl Postgres {
    /// Starts one with the locks set up, for the role `job`.
    #[track_caller]
    pub(crate) fn start() -> Self {
        Self::bare(None, &[]).with_locks()
    }

    /// As [`Postgres::start`], in a network namespace and with more options.
    #[track_caller]
    pub(crate) fn start_in(netns: &str, options: &[&str]) -> Self {
        Self::bare(Some(netns), options).with_locks()
    }

    fn with_locks(self) -> Self {
        let server = self;
        let tool = Tool::new();
        let init = ["--via", &server.url("postgres"), "init", "--grant", "job", "--max-grace", "60s"];
        tool.lock(&init).expect(0).silent();
        server
    }

    /// Starts one without the locks, with more options for the server.
    #[track_caller]
    fn bare(netns: Option<&str>, options: &[&str]) -> Self {
        let temp = tempfile::Builder::new().prefix("orion-pg-").tempdir().unwrap();
        run(Command::new("cp").arg("-a").arg(template()).arg(temp.path().join("data"))).expect(0);
        let mut server = Self::at(temp, netns, options);
        server.start_again();
        server.sql("create role job login; create database locks");
        server
    }

    /// A server on a data directory `data` below `temp`, not started yet.
    fn at(temp: tempfile::TempDir, netns: Option<&str>, options: &[&str]) -> Self {
        give_to_postgres(temp.path());
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        Self {
            temp,
            port,
            options: options.iter().map(|it| (*it).to_owned()).collect(),
            netns: netns.map(str::to_owned),
            child: None,
        }
    }

    /// The directory of its socket.
    pub(crate) fn dir(&self) -> &Path {
        self.temp.path()
    }

    /// Its socket.
    pub(crate) fn door(&self) -> PathBuf {
        self.dir().join(format!(".s.PGSQL.{}", self.port))
    }

    /// Runs SQL in the database of the locks through another socket in the directory.
    #[track_caller]
    pub(crate) fn sql_by(&self, port: &str, text: &str) -> String {
        let mut psql = Command::new("psql");
        psql.args(["-XAtq", "-U", "postgres", "-d", "locks", "-p", port, "-h"]).arg(self.dir());
        run(psql.args(["-c", text])).expect(0).stdout
    }

    /// The directory of its data.
    pub(crate) fn data(&self) -> PathBuf {
        self.temp.path().join("data")
    }

    /// Starts it, and waits until it answers.
    #[track_caller]
    pub(crate) fn start_again(&mut self) {
        let program = as_postgres(bin().unwrap().join("postgres"));
        let mut command = match &self.netns {
            None => program,
            Some(netns) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", netns]).arg(program.get_program()).args(program.get_args());
                command
            }
        };
        command.arg("-D").arg(self.data()).arg("-k").arg(self.dir()).args(["-p", &self.port.to_string()]);
        for option in ["shared_buffers=16MB", "max_wal_size=64MB", "listen_addresses=127.0.0.1"] {
            command.args(["-c", option]);
        }
        for option in &self.options {
            command.args(["-c", option]);
        }
        command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
        let log = std::fs::File::options().append(true).create(true).open(self.dir().join("log")).unwrap();
        command.stderr(log);
        self.child = Some(command.spawn().unwrap());
        let end = Instant::now() + LONG;
        while self.try_sql("postgres", "select 1").code != 0 {
            let ended = self.child.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < end, "no server: {}", self.log());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// What it wrote.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir().join("log")).unwrap_or_default()
    }

    /// Sends its first process a signal and waits for its end: INT is fast, QUIT immediate, KILL a crash.
    #[track_caller]
    pub(crate) fn stop(&mut self, signal: Signal) {
        let Some(mut child) = self.child.take() else { return };
        let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
        let fd = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        pidfd_send_signal(&fd, signal).unwrap();
        child.wait().unwrap();
        // After a crash its other processes notice in a moment.
        std::fs::remove_file(self.data().join("postmaster.pid")).ok();
    }

    /// Sends a signal to it and everything below it.
    pub(crate) fn signal_all(&self, signal: Signal) {
        let root = self.child.as_ref().unwrap().id();
        let mut pids = vec![root];
        let children = std::fs::read_to_string(format!("/proc/{root}/task/{root}/children")).unwrap();
        pids.extend(children.split_ascii_whitespace().map(|pid| pid.parse::<u32>().unwrap()));
        for pid in pids {
            if let Ok(fd) = pidfd_open(Pid::from_raw(pid.cast_signed()).unwrap(), PidfdFlags::empty()) {
                pidfd_send_signal(&fd, signal).unwrap_or_default();
            }
        }
    }

    /// The URL by its socket.
    pub(crate) fn url(&self, role: &str) -> String {
        format!("postgres://{role}@/locks?host={}&port={}", self.dir().display(), self.port)
    }

    /// Runs SQL in a database.
    pub(crate) fn try_sql(&self, database: &str, text: &str) -> Done {
        let mut psql = Command::new("psql");
        psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", database, "-h"]).arg(self.dir());
        psql.args(["-p", &self.port.to_string()]);
        for part in text.split("; ") {
            psql.args(["-c", part]);
        }
        run(&mut psql)
    }

    /// Runs SQL as the superuser, in the database of the locks where there is one.
    #[track_caller]
    pub(crate) fn sql(&self, text: &str) -> String {
        let locks = self.try_sql("postgres", "select 1 from pg_database where datname = 'locks'").stdout;
        let database = if locks.is_empty() { "postgres" } else { "locks" };
        self.try_sql(database, text).expect(0).stdout.trim_end().to_owned()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.signal_all(Signal::CONT);
            self.stop(Signal::QUIT);
        }
    }
}

/// A host: a state directory, and the database.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) tool: Tool,
    pub(crate) url: String,
}

impl Host {
    pub(crate) fn new(server: &Postgres) -> Self {
        Self { tool: Tool::new(), url: server.url("job") }
    }

    /// `orion-lock --via URL …`, ready to be changed further.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut all = vec!["--via", &self.url];
        all.extend(args);
        self.tool.tool("orion-lock", &all)
    }

    #[track_caller]
    pub(crate) fn lock(&self, args: &[&str]) -> Done {
        run(&mut self.command(args))
    }

    /// `orion-precheck --via URL …`
    #[track_caller]
    pub(crate) fn precheck(&self, args: &[&str]) -> Done {
        let mut all = vec!["--via", &self.url];
        all.extend(args);
        run(&mut self.tool.tool("orion-precheck", &all))
    }

    /// A run whose command says that it is up and lives until its stdin closes.
    #[track_caller]
    pub(crate) fn hold(&self, options: &[&str], name: &str) -> Running {
        let mut args = vec!["run"];
        args.extend(options);
        args.extend([name, "sh", "-c", "echo $$; read -r end; exit 0"]);
        Running::start(&mut self.command(&args))
    }

    /// The token of the holder.
    #[track_caller]
    pub(crate) fn token(&self, name: &str) -> u64 {
        self.lock(&["status", "--json", name]).json()["token"].as_u64().expect("a token")
    }

    /// `free`, `held`, `cut`, …
    #[track_caller]
    pub(crate) fn state(&self, name: &str) -> String {
        self.lock(&["status", "--json", name]).json()["state"].as_str().expect("a state").to_owned()
    }
}

/// The facts of a status file.
pub(crate) fn facts(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let facts = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    facts.map(|fact| fact["fact"].as_str().unwrap().to_owned()).collect()
}

/// The pid of the guardian, as the status file says it.
#[track_caller]
pub(crate) fn guardian(path: &Path) -> u32 {
    let text = std::fs::read_to_string(path).unwrap();
    let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    u32::try_from(first["guardian"].as_u64().unwrap()).unwrap()
}
