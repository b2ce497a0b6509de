//! A whole night: two machines, agents of every kind, a quota that is over, kills, what agents leave, a token
//! that ends, a tracker that goes away twice, and a person who edits, cancels, closes and queues again. In the
//! morning nothing was worked by two at once, nothing is stranded, nothing failed or was called ready because
//! of the quota, and the log has one claim and one end for every time that a ticket was begun.

#[path = "support/claims.rs"]
mod claims;
#[path = "support/desks.rs"]
mod desks;
#[path = "support/remote.rs"]
mod remote;
mod support;
#[path = "support/tracker_server.rs"]
mod tracker_server;

use desks::Desk;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{KillOnDrop, eventually};

/// What an agent does, by its ticket's number and by how often it was there before.
const AGENT: &str = r#"cd $D; k=$ORION_TICKET; number=${k##*-}
mkdir busy-$k 2>/dev/null || echo "$k" >> doubles
n=$(wc -l < count-$k 2>/dev/null || echo 0); echo x >> count-$k
if [ -e quota ]; then rmdir busy-$k; echo "usage limit reached" >&2; exit 1; fi
sleep 1
case $((number % 7)).$n in
  1.0) rmdir busy-$k; exit 75 ;;
  2.0) rmdir busy-$k; kill -9 $$ ;;
  3.0) (setsid sh -c 'sleep 0.4; rmdir busy-'$k) </dev/null >/dev/null 2>&1 & exit 0 ;;
  4.*) rmdir busy-$k; exit 3 ;;
  5.0) kill -9 $PPID; sleep 0.5; rmdir busy-$k; exit 0 ;;
esac
rmdir busy-$k"#;

/// A watch in the background; killed with the test.
struct Watch(std::process::Child, KillOnDrop);

impl Watch {
    fn start(mut command: Command, log: &Path) -> Self {
        let log = std::fs::File::options().append(true).create(true).open(log).expect("log");
        command.stdout(Stdio::null()).stderr(log).stdin(Stdio::null());
        let child = command.spawn().expect("watch");
        let guard = KillOnDrop::of(child.id());
        Self(child, guard)
    }

    fn stop(mut self) -> Option<i32> {
        self.1.signal(Signal::TERM);
        eventually("a watch drains", || self.1.ended());
        self.0.wait().expect("wait").code()
    }
}

struct Night {
    desk: Desk,
    keys: Vec<String>,
    dir: PathBuf,
    machines: [PathBuf; 2],
    logs: [PathBuf; 2],
    /// Closed or cancelled by the person.
    ended: Vec<String>,
}

impl Night {
    fn with(kind: &str, tickets: usize) -> Self {
        let desk = Desk::with(kind, tickets);
        let keys = (1..=tickets).map(|number| desk.key(number)).collect();
        let path = |name: &str| desk.tool().path(name);
        let dir = path("work");
        std::fs::create_dir(&dir).expect("mkdir");
        let night = Self {
            keys,
            dir,
            machines: [desk.tool().dir(), path("other")],
            logs: [path("log-1"), path("log-2")],
            ended: Vec::new(),
            desk,
        };
        night.token("first-of-the-night");
        let file = night.desk.tool().path("claim.toml");
        let text = format!(
            "timeout = \"5s\"\npatience = \"0s\"\nsettle = \"2s\"\ntoken_file = {:?}\n",
            night.desk.tool().path("token")
        );
        std::fs::write(file, text).expect("settings");
        night
    }

    /// From now on the server takes this token, and no other.
    fn token(&self, token: &str) {
        let path = self.desk.tool().path("token");
        let mut options = std::fs::File::options();
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.write(true).create(true).truncate(true).open(&path);
        std::io::Write::write_all(&mut file.expect("token"), token.as_bytes()).expect("token");
        if let Desk::Server(remote) = &self.desk {
            remote.server.world().accepts = Some(token.to_owned());
        }
    }

    fn command(&self, machine: usize, args: &[&str]) -> Command {
        let mut command = self.desk.machine(&self.machines[machine], args);
        for name in ["GH_TOKEN", "GITLAB_TOKEN", "GITEA_TOKEN", "JIRA_TOKEN"] {
            command.env_remove(name);
        }
        command.env("D", &self.dir).env("ORION_CLAIM_CONFIG", self.desk.tool().path("claim.toml"));
        command
    }

    fn watch(&self, machine: usize) -> Watch {
        let args = "watch --every 200ms --max 3 --quick 900ms --retry-after 1s";
        let mut args: Vec<&str> = args.split(' ').collect();
        args.extend(["bash", "-c", AGENT]);
        Watch::start(self.command(machine, &args), &self.logs[machine])
    }

    fn at(&self, labels: &[&str]) -> Option<String> {
        let free = |key: &&String| !self.ended.contains(key) && self.desk.labels(key) == labels;
        self.keys.iter().rev().find(free).cloned()
    }

    /// A person closes one ticket, cancels another, queues a failed one again.
    fn person(&mut self, turn: usize) {
        if let Some(key) = self.at(&["orion-queue"]) {
            if turn.is_multiple_of(2) {
                self.desk.close(&key);
            } else {
                self.desk.put(&key, &[]);
            }
            self.ended.push(key);
        }
        if let Some(key) = self.at(&["orion-failed"]) {
            self.desk.put(&key, &["orion-failed", "orion-queue"]);
        }
    }

    fn play(&mut self, limit: Duration) {
        let watches = [self.watch(0), self.watch(1)];
        let end = Instant::now() + limit;
        let quota = self.dir.join("quota");
        for turn in 0..6 {
            std::thread::sleep(Duration::from_millis(700));
            match turn {
                0 | 4 => self.desk.away(|| std::thread::sleep(Duration::from_millis(300))),
                1 => std::fs::write(&quota, "").expect("quota"),
                2 => {
                    for log in &self.logs {
                        let text = || std::fs::read_to_string(log).unwrap_or_default();
                        eventually("the breaker opens", || text().contains("the breaker of watch is open"));
                    }
                    std::fs::remove_file(&quota).expect("quota");
                }
                3 => self.token("second-of-the-night"),
                _ => {}
            }
            self.person(turn);
        }
        let settled = |key: &String| {
            let labels = self.desk.labels(key);
            labels.is_empty() || labels == ["orion-ready"] || labels == ["orion-failed"]
        };
        while !self.keys.iter().all(settled) {
            let left: Vec<_> = self
                .keys
                .iter()
                .filter(|key| !settled(key))
                .map(|key| (key, self.desk.labels(key)))
                .collect();
            let log = std::fs::read_to_string(&self.logs[0]).unwrap_or_default();
            assert!(Instant::now() < end, "left: {left:?}\n{log}");
            std::thread::sleep(Duration::from_millis(100));
        }
        for (watch, log) in watches.into_iter().zip(&self.logs) {
            assert_eq!(watch.stop(), Some(0), "{}", std::fs::read_to_string(log).unwrap_or_default());
        }
    }

    fn is_well_in_the_morning(&self) {
        let doubles = std::fs::read_to_string(self.dir.join("doubles")).unwrap_or_default();
        assert!(doubles.is_empty(), "two at once: {doubles}");
        for machine in [0, 1] {
            let pass = support::run(&mut self.command(machine, &["reconcile", "--json"])).expect(0).json();
            assert_eq!(pass["tickets"].as_array().map(Vec::len), Some(0), "left behind: {pass}");
        }
        for key in &self.keys {
            let claims = self.logged_claims(key);
            if self.ended.contains(key) {
                continue;
            }
            let number: usize = key.rsplit('-').next().and_then(|text| text.parse().ok()).expect("number");
            // Only what says 3 by itself failed; nothing failed or was called ready because of the quota.
            let expected = if number % 7 == 4 { "orion-failed" } else { "orion-ready" };
            let status = |machine| support::run(&mut self.command(machine, &["status", key])).stdout;
            let shown = || format!("{claims:?}\n{}\n{}", status(0), status(1));
            assert_eq!(self.desk.labels(key), [expected], "{key}: {}", shown());
        }
    }

    /// Every claim of a ticket in the logs of both machines has one end, which says why; and a ticket was
    /// labelled as being worked on once for each of them that was won.
    fn logged_claims(&self, key: &str) -> BTreeMap<(usize, u64), String> {
        let mut claims = BTreeMap::new();
        for machine in [0, 1] {
            let log =
                support::run(&mut self.command(machine, &["log", "--json", "-n", "1000", key])).expect(0);
            for row in log.json()["events"].as_array().expect("events") {
                let event = &row["event"];
                let claim = (machine, event["token"].as_u64().unwrap_or(0));
                let detail = event["detail"].as_str().unwrap_or_default().to_owned();
                match event["event"].as_str() {
                    Some("acquired") => {
                        assert!(claims.insert(claim, String::new()).is_none(), "{key}: {row} twice");
                    }
                    Some("released") if detail.starts_with("back in the queue") => {
                        assert_eq!(claims.get(&claim).map(String::as_str), Some("failed"), "{key}: {row}");
                        claims.insert(claim, detail);
                    }
                    Some("released") => {
                        assert_eq!(claims.insert(claim, detail).as_deref(), Some(""), "{key}: {row}");
                    }
                    Some("refused") => {}
                    _ => panic!("{key}: {row}"),
                }
            }
        }
        assert!(claims.values().all(|end| !end.is_empty()), "{key}: one without an end: {claims:?}");
        let won = claims.values().filter(|end| *end != "lost").count();
        // One that was cut short by the tracker may have got so far, or not.
        let perhaps = claims.values().filter(|end| *end == "aside").count();
        let on = match &self.desk {
            Desk::Files(board) => {
                let history = board.tool.path("tickets").join(format!("{key}.history.jsonl"));
                let text = std::fs::read_to_string(history).unwrap_or_default();
                text.lines().filter(|it| it.contains("\"labeled\"") && it.contains("orion-working")).count()
            }
            Desk::Server(remote) => remote.server.world().times_on(key, "orion-working"),
            Desk::Program(_) => won,
        };
        assert!((won - perhaps..=won).contains(&on), "{key}: begun {on} times, the log says {claims:?}");
        claims
    }
}

fn night(kind: &str) {
    // scripts/torture has the time for a whole one.
    let whole = std::env::var_os("ORION_TORTURE").is_some();
    let tickets = std::env::var("ORION_NIGHT").ok().and_then(|text| text.parse().ok());
    let tickets = tickets.unwrap_or(if whole { 60 } else { 14 });
    let mut night = Night::with(kind, tickets);
    night.play(Duration::from_secs(if tickets > 20 { 600 } else { 120 }));
    night.is_well_in_the_morning();
}

#[test]
fn a_night_on_files() {
    night("file");
}

#[test]
fn a_night_on_github() {
    night("github");
}

#[test]
fn a_night_on_gitlab() {
    night("gitlab");
}

#[test]
fn a_night_on_gitea() {
    night("gitea");
}

#[test]
fn a_night_on_jira() {
    night("jira");
}
