//! Whatever a run leaves behind, however it ends, on whatever tracker: the ticket moves when the last of it
//! has ended, and not before. By default every tracker meets every shape and every end once, in pairs that
//! differ from tracker to tracker; scripts/torture plays all of them.

#[path = "support/claims.rs"]
mod claims;
#[path = "support/desks.rs"]
mod desks;
#[path = "support/remote.rs"]
mod remote;
mod support;
#[path = "support/tracker_server.rs"]
mod tracker_server;

use desks::{Desk, KINDS};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::{KillOnDrop, Running, eventually};

/// The work: one line when it begins, one when it ends, and a complaint when another one is there.
const WORKER: &str = r#"#!/bin/bash
dir=$1
if mkdir "$dir/busy" 2>/dev/null; then :; else echo "two at once" >> "$dir/doubles"; fi
leave() { rmdir "$dir/busy" 2>/dev/null; echo ended >> "$dir/log"; exit 0; }
if [[ ${2-} == deaf ]]; then trap '' TERM; else trap leave TERM; fi
echo $BASHPID > "$dir/pid"; echo began >> "$dir/log"
while [[ ! -e $dir/stop ]]; do read -rt 0.05 <> <(:) || :; done
leave
"#;

/// How the work is left behind.
const SHAPES: [(&str, &str); 5] = [
    ("pipeline", "\"$W\" \"$D\" | cat &"),
    ("setsid", "setsid \"$W\" \"$D\" </dev/null >/dev/null 2>&1 &"),
    ("double fork", "( ( setsid \"$W\" \"$D\" </dev/null >/dev/null 2>&1 & ) & )"),
    ("deaf", "\"$W\" \"$D\" deaf &"),
    // Meant to stay: with --owner-only.
    ("daemon", "setsid \"$W\" \"$D\" </dev/null >/dev/null 2>&1 &"),
];

/// How a claim ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Exit(i32, &'static str),
    Told(Signal),
    TimeOver,
    KillAfter,
    SecondSignalOfWatch,
    Release,
    Reconcile,
    Free,
}

const WAYS: [Way; 11] = [
    Way::Exit(0, "orion-ready"),
    Way::Exit(75, "orion-queue"),
    Way::Exit(3, "orion-failed"),
    Way::Told(Signal::TERM),
    Way::Told(Signal::HUP),
    Way::TimeOver,
    Way::KillAfter,
    Way::SecondSignalOfWatch,
    Way::Release,
    Way::Reconcile,
    Way::Free,
];

struct Scene {
    desk: Desk,
    key: String,
    what: String,
    start: &'static str,
    shape: &'static str,
}

impl Scene {
    fn new(kind: &str, (shape, start): (&'static str, &'static str), way: Way) -> Self {
        let desk = Desk::with(kind, 1);
        let worker = desk.tool().path("worker");
        std::fs::write(&worker, WORKER).expect("worker");
        std::fs::set_permissions(&worker, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("mode");
        std::fs::create_dir(desk.tool().path("work")).expect("mkdir");
        let key = desk.key(1);
        Self { desk, key, what: format!("{kind}, {shape}, {way:?}"), start, shape }
    }

    fn stays(&self) -> bool {
        self.shape == "daemon"
    }

    fn dir(&self) -> PathBuf {
        self.desk.tool().path("work")
    }

    fn logged(&self, word: &str) -> bool {
        std::fs::read_to_string(self.dir().join("log")).is_ok_and(|log| log.contains(word))
    }

    fn works(&self) -> bool {
        self.dir().join("busy").exists()
    }

    fn say(&self, file: &str) {
        std::fs::write(self.dir().join(file), "").expect("file");
    }

    /// `run` or `watch` with a command that leaves the work behind; its first line is its pid.
    fn command(&self, args: &[&str], then: &str) -> Command {
        let script =
            format!("{}\nuntil grep -qs began $D/log; do sleep 0.02; done; echo $$; {then}", self.start);
        let mut all = args.to_vec();
        if self.stays() {
            all.push("--owner-only");
        }
        if args[0] == "run" {
            all.push(&self.key);
        }
        all.extend(["bash", "-c", &script]);
        self.with_work(self.desk.command(&all))
    }

    fn with_work(&self, mut command: Command) -> Command {
        command.env("W", self.desk.tool().path("worker")).env("D", self.dir());
        command
    }

    fn decided(&self) -> bool {
        self.desk.record(&self.key)["attrs"]["result"].is_object()
    }

    /// Nobody else gets the ticket while the work goes on.
    #[track_caller]
    fn is_kept(&self) {
        let what = &self.what;
        assert!(self.works(), "{what}: the work goes on");
        self.desk.claim(&["reconcile"]);
        assert_eq!(self.desk.claim(&["run", &self.key, "true"]).code, 75, "{what}");
        assert_eq!(self.desk.labels(&self.key), ["orion-working"], "{what}");
        assert!(self.works(), "{what}: nobody ended it");
    }

    /// Moved: while the work goes on where it is meant to stay, else after its end.
    #[track_caller]
    fn is_at(&self, label: &str) {
        let what = &self.what;
        assert_eq!(self.desk.labels(&self.key), [label], "{what}");
        assert_eq!(self.works(), self.stays(), "{what}");
        assert!(!self.dir().join("doubles").exists(), "{what}: two at once");
    }

    /// By the passes from now on.
    #[track_caller]
    fn comes_to(&self, label: &str) {
        eventually(&self.what, || {
            self.desk.claim(&["reconcile"]);
            self.desk.labels(&self.key) == [label]
        });
    }

    fn play(&self, way: Way) {
        match way {
            Way::Exit(status, label) => {
                let mut run = Running::start(&mut self.command(&["run"], &format!("exit {status}")));
                if !self.stays() {
                    eventually(&self.what, || self.decided());
                    self.is_kept();
                    self.say("stop");
                }
                run.end().expect(status);
                self.is_at(label);
            }
            Way::Told(signal) => {
                let mut run = Running::start(&mut self.command(&["run"], "sleep 1000"));
                run.signal(signal);
                if self.shape == "deaf" {
                    eventually(&self.what, || self.decided());
                    self.is_kept();
                    self.say("stop");
                }
                run.end();
                self.is_at("orion-queue");
                assert!(self.stays() || self.logged("ended"), "{}", self.what);
            }
            Way::TimeOver => {
                let args = ["run", "--max-run", "900ms", "--kill-after", "200ms"];
                let mut run = Running::start(&mut self.command(&args, "sleep 1000"));
                run.end();
                self.clear_killed();
                self.is_at("orion-failed");
            }
            Way::KillAfter => {
                let mut run =
                    Running::start(&mut self.command(&["run", "--kill-after", "200ms"], "sleep 1000"));
                run.signal(Signal::TERM);
                run.end();
                self.clear_killed();
                self.is_at("orion-queue");
            }
            Way::SecondSignalOfWatch => self.watch(),
            Way::Release => self.release(),
            Way::Reconcile | Way::Free => self.killed(way),
        }
    }

    /// One that was killed could not take its sign down, and it is gone.
    #[track_caller]
    fn clear_killed(&self) {
        assert!(self.shape != "deaf" || !self.logged("ended"), "{}: it is deaf", self.what);
        let pid = std::fs::read_to_string(self.dir().join("pid")).expect("pid");
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        if stat.is_empty() || stat.contains(") Z ") {
            drop(std::fs::remove_dir(self.dir().join("busy")));
        }
    }

    fn watch(&self) {
        let log = self.desk.tool().path("log");
        let mut watch = self.command(&["watch", "--every", "1s", "--kill-after", "300ms"], "sleep 1000");
        watch.stdin(Stdio::null()).stdout(Stdio::null()).stderr(std::fs::File::create(&log).expect("log"));
        let mut child = watch.spawn().expect("watch");
        let guard = KillOnDrop::of(child.id());
        eventually(&self.what, || self.logged("began"));
        guard.signal(Signal::TERM);
        eventually(&self.what, || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("draining")));
        guard.signal(Signal::TERM);
        eventually(&self.what, || guard.ended());
        assert_eq!(child.wait().expect("watch").code(), Some(0), "{}", self.what);
        self.clear_killed();
        self.is_at("orion-queue");
    }

    fn release(&self) {
        let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/orion.bash");
        let (claim, release) = if self.stays() {
            ("orion-claim acquire --owner $$ $K", "orion-claim release --owner $$ --to ready $K")
        } else {
            ("orion_claim $K", "orion_claim_release ready")
        };
        let mut script = self.with_work(self.desk.tool().script(&format!(
            ". {}\n{claim} || exit\n{}\nuntil grep -qs began $D/log; do sleep 0.02; done\n{release} || exit\necho released\nwait\n",
            library.display(),
            self.start
        )));
        let path = format!("{}:{}", support::bin_dir().display(), std::env::var("PATH").unwrap_or_default());
        script.env("PATH", path).env("K", &self.key).env("ORION_DIR", self.desk.tool().dir());
        let mut running = Running::start(script.envs(self.desk.environment()));
        assert_eq!(running.line, "released", "{}", self.what);
        if self.stays() {
            self.is_at("orion-ready");
            return;
        }
        self.is_kept();
        self.say("stop");
        running.end().expect(0).says("when what still works on it has ended");
        self.comes_to("orion-ready");
        self.is_at("orion-ready");
    }

    /// The tool is killed, and its command ends; the work is left.
    fn killed(&self, way: Way) {
        let then = "until [[ -e $D/leave ]]; do sleep 0.02; done";
        let mut run = Running::start(&mut self.command(&["run"], then));
        let command = KillOnDrop::of(run.number());
        run.kill();
        self.say("leave");
        eventually(&self.what, || command.ended());
        if way == Way::Free && !self.stays() {
            self.is_kept();
            let free = self.desk.claim(&["free", "--yes", &self.key]).expect(0);
            assert!(free.stderr.contains("freed while these still run"), "{}: {free:?}", self.what);
            assert_eq!(self.desk.labels(&self.key), ["orion-queue"], "{}", self.what);
            assert!(self.works(), "{}: free ends nobody", self.what);
            return;
        }
        if way == Way::Free {
            self.desk.claim(&["free", "--yes", &self.key]).expect(0);
        } else if !self.stays() {
            self.is_kept();
            self.say("stop");
        }
        self.comes_to("orion-queue");
        self.is_at("orion-queue");
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        drop(std::fs::write(self.dir().join("stop"), ""));
        // Deaf or not, it sees the file.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while self.works() && std::time::Instant::now() < end {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

fn on(kind: &str) {
    let place = KINDS.iter().position(|known| *known == kind).expect("a kind");
    let whole = std::env::var_os("ORION_TORTURE").is_some();
    for (turn, way) in WAYS.into_iter().enumerate() {
        // A program is started for every question: each shape once is enough of that.
        if kind == "command" && !whole && turn % 2 == 0 {
            continue;
        }
        for (at, shape) in SHAPES.into_iter().enumerate() {
            if whole || at == (turn + place) % SHAPES.len() {
                Scene::new(kind, shape, way).play(way);
            }
        }
    }
}

#[test]
fn what_is_left_behind_keeps_a_ticket_of_files() {
    on("file");
}

#[test]
fn what_is_left_behind_keeps_a_ticket_of_a_program() {
    if support::needs("python3") {
        on("command");
    }
}

#[test]
fn what_is_left_behind_keeps_a_ticket_of_github() {
    on("github");
}

#[test]
fn what_is_left_behind_keeps_a_ticket_of_gitlab() {
    on("gitlab");
}

#[test]
fn what_is_left_behind_keeps_a_ticket_of_gitea() {
    on("gitea");
}

#[test]
fn what_is_left_behind_keeps_a_ticket_of_jira() {
    on("jira");
}
