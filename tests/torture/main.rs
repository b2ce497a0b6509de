//! Fifty processes on five names, killed, stopped, continued, executing and forking at random, and a
//! checker that sees every critical section.
//!
//! Some seconds by default, ten minutes under ORION_TORTURE, ORION_STORM_SECONDS when that is set.

#[path = "../support/mod.rs"]
mod support;

mod chance;
mod checker;
mod cleaners;

use chance::Chance;
use checker::Seen;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::collections::HashMap;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::{LONG, Tool, bin_dir, needs, say};

const ACTORS: usize = 50;
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/torture/section.sh");
const LIBRARY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/orion.bash");

fn duration() -> Duration {
    let asked = std::env::var("ORION_STORM_SECONDS").ok().map(|text| text.parse().expect("a number"));
    let torture = std::env::var_os("ORION_TORTURE").map(|_| 600);
    Duration::from_secs(asked.or(torture).unwrap_or(8))
}

/// What the actors share with who torments them.
struct Storm {
    tool: Tool,
    /// The process of each actor; signalled only under this lock, where it is not reaped yet.
    actors: Vec<Mutex<Option<Child>>>,
    /// How often each actor got through.
    through: Vec<AtomicUsize>,
    /// The longest time from start to end of one that was let through, milliseconds.
    longest: AtomicU64,
    /// Pids that ended with 0.
    succeeded: Mutex<HashMap<u32, &'static str>>,
    odd: Mutex<Vec<String>>,
    killed: AtomicUsize,
    stopped: AtomicUsize,
    over: AtomicBool,
}

impl Storm {
    fn new() -> Self {
        let tool = Tool::new();
        std::fs::create_dir(tool.path("work")).expect("a directory");
        Self {
            tool,
            actors: (0..ACTORS).map(|_| Mutex::new(None)).collect(),
            through: (0..ACTORS).map(|_| AtomicUsize::new(0)).collect(),
            longest: AtomicU64::new(0),
            succeeded: Mutex::default(),
            odd: Mutex::default(),
            killed: AtomicUsize::new(0),
            stopped: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        }
    }

    /// One call as somebody would write it, and whether its process is the one that enters.
    fn command(&self, name: &str, chance: &mut Chance) -> (Command, bool) {
        let how = ["plain", "plain", "plain", "fork", "exec", "die"][chance.below(6)];
        let ms = chance.below(8).to_string();
        let way = chance.below(5);
        let mut command = if way == 0 {
            let mut command = self.tool.command("bash");
            command.args([SCRIPT, name, &format!("guard-{how}"), &ms]);
            command
        } else {
            let tree: &[&str] = if way == 1 { &["--tree"] } else { &[] };
            let mut command = self.tool.tool("orion-lock", &["run", "-q", "-w", "forever"]);
            command.args(tree).args([name, "bash", SCRIPT, name, how, &ms]);
            command
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let paths = std::iter::once(bin_dir()).chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(paths).expect("a PATH")).env("ORION_BASH", LIBRARY);
        command.current_dir(self.tool.path("work")).stdout(Stdio::null()).stderr(Stdio::null());
        (command, way != 1)
    }

    fn signal(&self, actor: usize, signal: Signal) -> bool {
        let child = self.actors[actor].lock().expect("no panic");
        let pid = child.as_ref().and_then(|child| Pid::from_raw(child.id().cast_signed()));
        pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
    }

    /// Tries again and again, also after the end of the storm until it got through once.
    fn act(&self, actor: usize, mut chance: Chance) {
        while !self.over.load(Ordering::Relaxed) || self.through[actor].load(Ordering::Relaxed) == 0 {
            let name = NAMES[chance.below(NAMES.len())];
            let (mut command, same) = self.command(name, &mut chance);
            let start = Instant::now();
            let child = command.spawn().expect("spawn");
            let pid = child.id();
            *self.actors[actor].lock().expect("no panic") = Some(child);
            let raw = Pid::from_raw(pid.cast_signed()).expect("a pid");
            // Without reaping it: until then its number is its own.
            waitid(WaitId::Pid(raw), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).expect("our child");
            let child = self.actors[actor].lock().expect("no panic").take();
            let status = child.expect("ours").wait().expect("wait");
            match (status.code(), status.signal()) {
                (Some(0), _) => {
                    self.through[actor].fetch_add(1, Ordering::Relaxed);
                    let took = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
                    self.longest.fetch_max(took, Ordering::Relaxed);
                    if same {
                        self.succeeded.lock().expect("no panic").insert(pid, name);
                    }
                }
                (Some(137), _) | (_, Some(9)) => {}
                odd => self.odd.lock().expect("no panic").push(format!("{command:?}: {odd:?}")),
            }
        }
    }

    /// Kills, stops and continues until the end.
    fn torment(&self, end: Instant, mut chance: Chance) {
        let mut asleep: Vec<(Instant, usize)> = Vec::new();
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(chance.below(30) as u64));
            let actor = chance.below(ACTORS);
            if chance.below(5) < 2 {
                self.killed.fetch_add(usize::from(self.signal(actor, Signal::KILL)), Ordering::Relaxed);
            } else if self.signal(actor, Signal::STOP) {
                self.stopped.fetch_add(1, Ordering::Relaxed);
                asleep.push((Instant::now() + Duration::from_millis(chance.below(200) as u64), actor));
            }
            let now = Instant::now();
            asleep.retain(|(until, actor)| {
                let sleeps = *until > now;
                if !sleeps {
                    self.signal(*actor, Signal::CONT);
                }
                sleeps
            });
        }
        for (_, actor) in asleep {
            self.signal(actor, Signal::CONT);
        }
        self.over.store(true, Ordering::Relaxed);
    }

    /// Somebody who asks all the time must get an answer, and only one of two.
    fn ask(&self) -> usize {
        let mut asked = 0;
        while !self.over.load(Ordering::Relaxed) {
            let done = self.tool.precheck(&["-q", NAMES[asked % NAMES.len()]]);
            if done.code != 0 && done.code != 75 {
                self.odd.lock().expect("no panic").push(format!("precheck: {done:?}"));
            }
            asked += 1;
            std::thread::sleep(Duration::from_millis(50));
        }
        asked
    }

    /// Nobody waits for ever: a storm that does not end is a failure, not a hang.
    fn end(&self, late: Instant, all_done: &AtomicBool) -> bool {
        while Instant::now() < late {
            if all_done.load(Ordering::Relaxed) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        for (actor, through) in self.through.iter().enumerate() {
            through.fetch_max(1, Ordering::Relaxed);
            self.signal(actor, Signal::KILL);
        }
        false
    }
}

#[test]
fn fifty_processes_on_five_names_never_overlap_and_none_starves() {
    if !needs("flock") {
        return;
    }
    let (duration, seed) = (duration(), chance::seed());
    say(&format!("storm: {} seconds, seed {seed}", duration.as_secs()));
    let storm = Storm::new();
    let all_done = AtomicBool::new(false);
    let end = Instant::now() + duration;
    let (asked, in_time) = std::thread::scope(|scope| {
        let actors: Vec<_> = (0..ACTORS)
            .map(|actor| {
                let (storm, chance) = (&storm, Chance::new(seed, actor));
                scope.spawn(move || storm.act(actor, chance))
            })
            .collect();
        let asker = scope.spawn(|| storm.ask());
        scope.spawn(|| storm.torment(end, Chance::new(seed, ACTORS)));
        let watcher = scope.spawn(|| storm.end(end + LONG, &all_done));
        for actor in actors {
            actor.join().expect("an actor");
        }
        all_done.store(true, Ordering::Relaxed);
        (asker.join().expect("the asker"), watcher.join().expect("the watcher"))
    });
    let seen: Vec<Seen> = NAMES.iter().map(|name| Seen::read(&storm.tool.path("work"), name)).collect();
    let sum = |count: &dyn Fn(&Seen) -> usize| seen.iter().map(count).sum::<usize>();
    let fewest = storm.through.iter().map(|count| count.load(Ordering::Relaxed)).min().unwrap_or(0);
    say(&format!(
        "storm: {} critical sections, {} of them to their end, overlaps {}; {} killed, {} stopped, {asked} prechecks; \
         fewest per process {fewest}, longest from start to end {} ms",
        sum(&|seen| seen.entered.len()),
        sum(&|seen| seen.left),
        sum(&|seen| seen.wrong.len()),
        storm.killed.load(Ordering::Relaxed),
        storm.stopped.load(Ordering::Relaxed),
        storm.longest.load(Ordering::Relaxed),
    ));
    for (name, seen) in NAMES.iter().zip(&seen) {
        assert!(seen.wrong.is_empty(), "{name}: {:#?}", seen.wrong);
    }
    for (pid, name) in storm.succeeded.lock().expect("no panic").iter() {
        let seen = seen.iter().any(|seen| seen.entered.contains(pid));
        assert!(seen, "{pid} said it had {name}, and was never inside");
    }
    let odd = storm.odd.lock().expect("no panic");
    assert!(odd.is_empty(), "unexpected ends: {odd:#?}");
    assert!(in_time && fewest > 0, "somebody starved");
    for name in NAMES {
        // What a fork left may take its milliseconds.
        storm.tool.lock(&["run", "-w", "10s", name, "true"]).expect(0);
    }
}
