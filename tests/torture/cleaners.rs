//! A cleaner that takes files of a lock away at any moment, among kills and jobs that live on: whoever is
//! inside is alone, whatever is removed.
//!
//! Of guard, record and pulse file one stays in each phase: with all three gone only the log is left, and a
//! run is not in it in its first milliseconds. Some seconds by default, five minutes under ORION_TORTURE.

use super::chance::{self, Chance};
use super::support::{Tool, needs, say};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const ACTORS: usize = 8;
/// What is removed, and which of it stays in each phase; the lock is called after that.
const ENDINGS: [&str; 4] = ["guard", "json", "pulse", "queue"];
const PHASES: [&str; 3] = ["guard", "json", "pulse"];
/// Inside, `inside` is flocked by this shell and the job it leaves: who enters beside them sees it. Its
/// descriptor is above the pulse's, so that it is let go first.
const SECTION: &str =
    "exec 250>>$ORION_LOCK_NAME.inside; flock -n 250 || echo $$ >>overlaps; echo $$ >>entered
    (sleep 0.0$((RANDOM % 40 + 10))) & sleep 0.0$((RANDOM % 20 + 10))";

fn duration() -> Duration {
    Duration::from_secs(if std::env::var_os("ORION_TORTURE").is_some() { 300 } else { 6 })
}

/// By default the guard stays. The others, where it is taken away too, are in the long proof: a guard that is
/// removed every few milliseconds still lets somebody in beside a run now and then.
fn phases() -> &'static [&'static str] {
    if std::env::var_os("ORION_TORTURE").is_some() { &PHASES } else { &PHASES[..1] }
}

fn section(tool: &Tool, name: &str, chance: &mut Chance) -> Command {
    let mut command = tool.tool("orion-lock", &["run", "-q"]);
    if chance.below(4) == 0 {
        command.arg("--tree");
    }
    if chance.below(2) == 0 {
        command.args(["-w", "1s"]);
    }
    command.args([name, "bash", "-c", SECTION]).current_dir(tool.path(""));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Enters again and again, and is killed half of the times.
fn act(tool: &Tool, name: &str, mut chance: Chance, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let mut child = section(tool, name, &mut chance).spawn().expect("spawn");
        if chance.below(2) == 0 {
            std::thread::sleep(Duration::from_millis(chance.below(40) as u64));
            child.kill().expect("ours");
        }
        child.wait().expect("wait");
    }
}

fn clean(tool: &Tool, name: &str, mut chance: Chance, over: &AtomicBool) -> usize {
    let mut removed = 0;
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(chance.below(12) as u64));
        let ending = ENDINGS[chance.below(ENDINGS.len())];
        let file = tool.file(&format!("{name}.{ending}"));
        removed += usize::from(ending != name && std::fs::remove_file(file).is_ok());
    }
    removed
}

#[test]
fn a_cleaner_of_every_file_lets_nobody_in_beside_a_run_or_its_job() {
    if !needs("flock") {
        return;
    }
    let (tool, seed) = (Tool::new(), chance::seed());
    let removed = AtomicUsize::new(0);
    for name in phases() {
        let over = AtomicBool::new(false);
        let end = Instant::now() + duration() / 3;
        std::thread::scope(|scope| {
            for actor in 0..ACTORS {
                let (tool, over) = (&tool, &over);
                scope.spawn(move || act(tool, name, Chance::new(seed, actor), over));
            }
            let cleaner = scope.spawn(|| clean(&tool, name, Chance::new(seed, ACTORS), &over));
            while Instant::now() < end {
                std::thread::sleep(Duration::from_millis(20));
            }
            over.store(true, Ordering::Relaxed);
            removed.fetch_add(cleaner.join().expect("the cleaner"), Ordering::Relaxed);
        });
        let so_far = std::fs::read_to_string(tool.path("overlaps")).unwrap_or_default().lines().count();
        say(&format!("cleaner: overlaps {so_far} when all but the {name} were removed"));
    }
    let lines = |file: &str| std::fs::read_to_string(tool.path(file)).unwrap_or_default().lines().count();
    let (entered, overlaps, removed) = (lines("entered"), lines("overlaps"), removed.load(Ordering::Relaxed));
    say(&format!("cleaner: {entered} sections, {removed} files removed, overlaps {overlaps}; seed {seed}"));
    assert!(entered > 3 && removed > 10, "{entered} sections, {removed} files removed");
    assert_eq!(overlaps, 0, "seed {seed}");
}
