//! A lock and who holds it, made anew for every point.

use crate::points::{Fault, Point, points_in};
use crate::support::{self, Running, Tool, bin, run};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the lock looks like before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    Nothing,
    Dead,
    Live,
}

pub(crate) struct World {
    pub(crate) tool: Tool,
    pub(crate) holder: Option<Running>,
    pub(crate) last: u64,
}

/// What timeout(1) says of a call that hangs.
pub(crate) const HANGS: i32 = 124;

/// Exit codes that are ours; 126 and 127 say that the command could not be run.
pub(crate) const CODES: [i32; 9] = [0, 65, 69, 71, 73, 74, 78, 126, 127];

impl World {
    pub(crate) fn new(before: Before) -> Self {
        let tool = Tool::new();
        let holder = match before {
            Before::Nothing => None,
            Before::Dead => {
                tool.leave_dead("sync");
                None
            }
            Before::Live => Some(tool.hold("sync")),
        };
        let mut world = Self { tool, holder, last: 0 };
        world.last = world.newest();
        world
    }

    /// The newest token that guard or record know.
    pub(crate) fn newest(&self) -> u64 {
        let guard = std::fs::read_to_string(self.tool.file("sync.guard")).unwrap_or_default();
        let record = std::fs::read(self.tool.file("sync.json")).unwrap_or_default();
        let record: serde_json::Value = serde_json::from_slice(&record).unwrap_or_default();
        guard.trim().parse().unwrap_or(0).max(record["token"].as_u64().unwrap_or(0)).max(self.last)
    }

    /// The command under strace, with its injection; what strace itself says goes to a file.
    pub(crate) fn traced(&self, options: &[&str], program: &str, args: &[&str]) -> Command {
        // Its own process group, so that no hang outlives it.
        let mut command = self.tool.command("timeout");
        command
            .args(["-k", "1", "60", "strace", "-f", "-qq", "-o"])
            .arg(self.tool.path("trace"))
            .args(options);
        command.arg(bin(program)).args(args);
        command
    }

    pub(crate) fn trace(&self) -> String {
        std::fs::read_to_string(self.tool.path("trace")).unwrap_or_default()
    }

    /// Whether the fault happened: a run is not always the same to the last call.
    pub(crate) fn was_hit(&self) -> bool {
        let trace = self.trace();
        trace.contains("(INJECTED)") || trace.contains("killed by SIGKILL")
    }

    /// After an error nothing of ours lies about; a kill may leave the one fixed temp file.
    pub(crate) fn is_tidy(&self, what: &str, fault: &Fault) {
        let files = self.tool.files();
        let odd: Vec<&String> = files.iter().filter(|name| name.contains("tmp")).collect();
        let fixed = odd.iter().all(|name| *name == ".sync.tmp");
        assert!(odd.is_empty() || (fixed && fault.may_leave_a_temp_file()), "{what}: left {odd:?}");
    }

    /// The lock can be taken now, with a token above every other, and no file is left behind.
    pub(crate) fn is_sound(&self, what: &str) {
        let last = self.newest();
        let done = self.tool.sh("\"$OL\" acquire --owner $$ --print-token sync");
        assert_eq!(done.code, 0, "{what}: not free afterwards: {done:?}");
        assert!(done.token() > last, "{what}: a token went back: {} after {last}", done.token());
        let odd: Vec<String> = self.tool.files().into_iter().filter(|name| name.contains("tmp")).collect();
        assert!(odd.is_empty(), "{what}: {odd:?}");
    }
}

/// The points of a call in a world.
pub(crate) fn points(before: Before, program: &str, args: &[&str]) -> Vec<Point> {
    let world = World::new(before);
    run(&mut world.traced(&["-e", "trace=all"], program, args));
    points_in(&world.trace())
}

/// So many of each kind in the quick form.
const QUICK: usize = 24;

/// How many of the faults are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Every one, always.
    All,
    /// The same ones each time, evenly spread and every kind of call among them; all with ORION_TORTURE.
    Some,
}

impl Extent {
    fn choose(self, all: &[Fault]) -> Vec<&Fault> {
        if self == Self::All || std::env::var_os("ORION_TORTURE").is_some() {
            return all.iter().collect();
        }
        let step = all.len().div_ceil(QUICK);
        let mut calls = BTreeSet::new();
        let chosen =
            all.iter().enumerate().filter(|(at, fault)| calls.insert(&fault.point.call) || at % step == 0);
        chosen.map(|(_, fault)| fault).collect()
    }
}

/// Tries `work` on the faults, on a few threads, and says how many; `work` says whether the fault happened.
pub(crate) fn try_all(what: &str, extent: Extent, all: &[Fault], work: impl Fn(&Fault) -> bool + Sync) {
    let chosen = extent.choose(all);
    let next = AtomicUsize::new(0);
    let (hits, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(fault) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(fault)));
                    match tried {
                        Ok(hit) => drop(hits.fetch_add(usize::from(hit), Ordering::Relaxed)),
                        Err(panic) => {
                            let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                            failures.lock().expect("no panic").push(text);
                        }
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no panic");
    let hits = hits.into_inner() + failures.len();
    support::say(&format!("faults: {hits} of {} points tried: {what}", all.len()));
    let mut text = String::new();
    for failure in &failures {
        writeln!(text, "{failure}").expect("a string");
    }
    assert!(hits * 2 > chosen.len(), "{what}: only {hits} of {} faults happened", chosen.len());
    assert!(failures.is_empty(), "{what}: {} of {} points failed:\n{text}", failures.len(), chosen.len());
}
