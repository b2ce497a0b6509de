//! Three hosts as network namespaces on a bridge, one job that wants to run everywhere, and faults by chance. Whoever
//! runs writes its token every few milliseconds into one file: a token that comes back after a higher one has acted
//! beside its successor. With the guardians stopped and the grace taken away it must find that.

use crate::server::{Postgres, needs_postgres};
use crate::support::{KillOnDrop, Tool, needs, needs_root, run, say};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A deterministic source of chance, so that a failure can be repeated (Numerical Recipes' constants).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Namespaces: a switch with the server, and the hosts.
struct Net {
    tag: String,
}

impl Net {
    const HOSTS: usize = 3;

    fn new() -> Self {
        let net = Self { tag: format!("orion{}", std::process::id()) };
        let switch = net.name("sw");
        run(ip(&["netns", "add", &switch])).expect(0);
        run(ip(&["-n", &switch, "link", "add", "br0", "type", "bridge"])).expect(0);
        run(ip(&["-n", &switch, "addr", "add", "10.9.0.1/24", "dev", "br0"])).expect(0);
        for device in ["lo", "br0"] {
            run(ip(&["-n", &switch, "link", "set", device, "up"])).expect(0);
        }
        for host in 0..Self::HOSTS {
            let (name, port) = (net.name(&format!("h{host}")), format!("port{host}"));
            run(ip(&["netns", "add", &name])).expect(0);
            let pair =
                ["-n", &switch, "link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns", &name];
            run(ip(&pair)).expect(0);
            run(ip(&["-n", &switch, "link", "set", &port, "master", "br0", "up"])).expect(0);
            run(ip(&["-n", &name, "addr", "add", &format!("10.9.0.{}/24", host + 2), "dev", "eth0"]))
                .expect(0);
            run(ip(&["-n", &name, "link", "set", "eth0", "up"])).expect(0);
        }
        net
    }

    fn name(&self, what: &str) -> String {
        format!("{}{what}", self.tag)
    }

    /// Plugs a host out of the bridge, or in again.
    fn plug(&self, host: usize, up: bool) {
        let (switch, port) = (self.name("sw"), format!("port{host}"));
        run(ip(&["-n", &switch, "link", "set", &port, if up { "up" } else { "down" }])).expect(0);
    }

    fn inside(&self, host: usize, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(&format!("h{host}"))]).arg(program);
        command
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for what in ["sw", "h0", "h1", "h2"] {
            ip(&["netns", "del", &self.name(what)]).output().ok();
        }
    }
}

fn ip(args: &[&str]) -> &'static mut Command {
    let command = Box::leak(Box::new(Command::new("ip")));
    command.args(args)
}

/// A host that starts the job again and again.
struct Worker {
    child: Child,
    facts: PathBuf,
}

impl Worker {
    /// Supervisor and guardian of the run that is there now, if any.
    fn processes(&self) -> Option<(u32, u32)> {
        let text = std::fs::read_to_string(&self.facts).ok()?;
        let last = text.lines().rev().find(|line| line.contains("\"acquired\""))?;
        let fact: serde_json::Value = serde_json::from_str(last).ok()?;
        let number = |key: &str| fact[key].as_u64().and_then(|pid| u32::try_from(pid).ok());
        let (supervisor, guardian) = (number("supervisor")?, number("guardian")?);
        let is = |pid: u32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            // Ours by this very file, so that a number that is somebody else's now is left alone.
            let line = String::from_utf8_lossy(&line).into_owned();
            line.contains("orion-via") && line.contains(&*self.facts.with_extension("py").to_string_lossy())
        };
        (is(supervisor) && is(guardian)).then_some((supervisor, guardian))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        if let Some((supervisor, guardian)) = self.processes() {
            KillOnDrop::of(guardian).signal(Signal::CONT);
            KillOnDrop::of(supervisor).kill();
        }
    }
}

const WRITER: &str = "import os, time, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
line = (os.environ['ORION_LOCK_TOKEN'] + '\\n').encode()
end = time.monotonic() + 4
while time.monotonic() < end:
    os.write(fd, line)
    time.sleep(0.002)
";

/// Runs the hosts under faults for some time; how often a token came back, how often the lock changed hands, and how
/// many faults there were.
fn act(seconds: u64, seed: u64, fenced: bool) -> (usize, usize, usize) {
    let net = Net::new();
    let server = Postgres::start_in(&net.name("sw"), &["listen_addresses=*", "max_connections=40"]);
    std::fs::write(
        server.data().join("pg_hba.conf"),
        "local all all trust\nhost all all 10.9.0.0/24 trust\n",
    )
    .unwrap();
    server.sql("select pg_reload_conf()");
    if !fenced {
        // The claimants' side of the promise is taken away in the row.
        server.sql(
            "create function orion.no_grace() returns trigger language plpgsql as \
             $f$begin new.grace_ms := 1;return new;end$f$; \
             create trigger no_grace before update on orion.lock for each row execute function orion.no_grace()",
        );
    }
    let tool = Tool::new();
    let witness = tool.path("witness");
    std::fs::write(&witness, "").unwrap();
    let url = format!("postgres://job@10.9.0.1:{}/locks?insecure=yes", server.port);
    let workers: Vec<Worker> =
        (0..Net::HOSTS).map(|host| worker(&net, &tool, host, &url, &witness)).collect();
    let (mut chance, mut faults) = (Chance(seed), 0);
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(300 + chance.below(700)));
        let host = usize::try_from(chance.below(3)).unwrap();
        let held = workers.iter().find_map(Worker::processes);
        let target = held.unwrap_or((0, 0));
        faults += 1;
        if !fenced {
            // Nobody keeps the holder's side of it.
            for worker in &workers {
                if let Some((_, guardian)) = worker.processes() {
                    let guardian = KillOnDrop::of(guardian);
                    guardian.signal(Signal::STOP);
                    std::mem::forget(guardian);
                }
            }
        }
        match chance.below(6) {
            0 | 1 => {
                net.plug(host, false);
                if chance.below(2) == 0 {
                    // The server notices at once.
                    let address = format!("10.9.0.{}", host + 2);
                    server.sql(&format!("select count(pg_terminate_backend(pid)) from pg_stat_activity where client_addr = '{address}'"));
                }
                std::thread::sleep(Duration::from_millis(500 + chance.below(4000)));
                net.plug(host, true);
            }
            2 => {
                server.sql(
                    "select count(pg_terminate_backend(pid)) from pg_stat_activity where usename = 'job'",
                );
            }
            3 if held.is_some() => KillOnDrop::of(target.0).signal(Signal::KILL),
            4 if held.is_some() => KillOnDrop::of(target.1).signal(Signal::KILL),
            5 if held.is_some() => {
                let supervisor = KillOnDrop::of(target.0);
                supervisor.signal(Signal::STOP);
                std::thread::sleep(Duration::from_millis(500 + chance.below(3000)));
                supervisor.signal(Signal::CONT);
                std::mem::forget(supervisor);
            }
            _ => faults -= 1,
        }
    }
    drop(workers);
    let text = std::fs::read_to_string(&witness).unwrap();
    let tokens: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
    let (mut back, mut changes, mut highest) = (0, 0, 0);
    for token in tokens {
        if token < highest {
            back += 1;
        } else if token > highest {
            (highest, changes) = (token, changes + 1);
        }
    }
    (back, changes, faults)
}

fn worker(net: &Net, tool: &Tool, host: usize, url: &str, witness: &Path) -> Worker {
    let facts = tool.path(&format!("facts{host}"));
    let writer = facts.with_extension("py");
    std::fs::write(&writer, WRITER).unwrap();
    let line = "while :; do $OL -q --via $URL run --fence 1200ms --grace 2200ms -w 2s --status-file $FACTS x \
                python3 $WRITER $WITNESS; sleep 0.05; done";
    let mut command = net.inside(host, "sh");
    command.args(["-c", line]).env("OL", crate::support::bin("orion-lock")).env("URL", url);
    command.env("ORION_DIR", tool.path(&format!("state{host}"))).env("FACTS", &facts);
    command.env("WRITER", &writer).env("WITNESS", witness);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Worker { child: command.spawn().unwrap(), facts }
}

#[test]
fn no_two_hosts_act_at_once_under_faults() {
    if !needs_postgres() || !needs_root() || !needs("ip") || !needs("python3") {
        return;
    }
    let long = std::env::var_os("ORION_TORTURE").is_some();
    let (back, changes, faults) = act(if long { 600 } else { 26 }, 20_261_201, true);
    say(&format!(
        "{faults} faults, the lock changed hands {changes} times, {back} writes under an old token"
    ));
    assert_eq!(back, 0, "somebody acted beside its successor");
    assert!(changes >= 3 && faults >= 5, "{changes} changes, {faults} faults");
    let (back, _, faults) = act(if long { 120 } else { 14 }, 20_261_202, false);
    say(&format!("without fence and grace: {faults} faults, {back} writes under an old token"));
    assert!(back > 0, "a witness that sees nothing proves nothing");
}
