//! acquire, release, tick and break, as a script calls them: killed or failing anywhere, the
//! script's lock is as the exit code says, and a killed call leaves it to the record.

use crate::points::{Fault, failures, kills, points_in};
use crate::support::{Running, needs};
use crate::world::{Before, CODES, Extent, World, try_all};

/// A call on a lock that a script holds, or wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Acquire,
    Release,
    Tick,
    Break,
}

impl Step {
    /// The script; `inject` are options of strace.
    fn script(self, inject: &str) -> String {
        let traced = format!("strace -f -qq -o trace {inject} \"$OL\"");
        let take = "acquire --owner $$ --print-token sync >token";
        let call = match self {
            Self::Acquire => return format!("{traced} {take}; echo up $?; read -r end"),
            Self::Release => "release --owner $$ sync",
            Self::Tick => "tick --token $(<token) --every 60s sync",
            Self::Break => "break --owner-is-alive --yes --token $(<token) sync",
        };
        format!("\"$OL\" {take} || exit; {traced} {call}; echo up $?; read -r end")
    }

    fn start(self, world: &World, inject: &str) -> Running {
        Running::start(world.tool.script(&self.script(inject)).current_dir(world.tool.path("")))
    }

    /// Does the code tell the truth about the lock?
    fn judge(self, world: &World, code: i32, what: &str) {
        let held = world.tool.precheck(&["-q", "sync"]).code == 75;
        let killed = code == 137;
        match self {
            Self::Acquire if code == 0 => assert!(held, "{what}: said acquired, and is not"),
            Self::Acquire => assert!(!held || killed, "{what}: said no ({code}), and is held"),
            Self::Release | Self::Break if code == 0 => assert!(!held, "{what}: said free, and is held"),
            Self::Release | Self::Break => {}
            Self::Tick => {
                // A kill between the old record and the new one must not lose the lock.
                assert!(held, "{what}: a tick lost the lock ({code})");
                let promise = world.tool.record("sync")["last_tick"]["every_s"].as_u64();
                assert!(code != 0 || promise == Some(60), "{what}: said ticked, and has not");
            }
        }
    }
}

fn everywhere(step: Step) {
    if !needs("strace") {
        return;
    }
    let world = World::new(Before::Dead);
    step.start(&world, "").end();
    let points = points_in(&world.trace());
    let one = |fault: &Fault| {
        let world = World::new(Before::Dead);
        let what = format!("{step:?}: {fault}");
        let mut script = step.start(&world, &format!("-e {}", fault.inject()));
        let code = script.line.strip_prefix("up ").and_then(|code| code.parse().ok()).expect("a code");
        assert!(CODES.contains(&code) || (code == 137 && fault.is_kill()), "{what}: {code}");
        step.judge(&world, code, &what);
        world.is_tidy(&what, fault);
        script.kill();
        world.is_sound(&what);
        world.was_hit()
    };
    // The call that decides who works: a sample of its faults once missed the one that mattered.
    let extent = if step == Step::Acquire { Extent::All } else { Extent::Some };
    try_all(&format!("{step:?}, killed"), extent, &kills(&points), one);
    try_all(&format!("{step:?}, failing"), extent, &failures(&points), one);
}

#[test]
fn acquire_agrees_with_its_code() {
    everywhere(Step::Acquire);
}

#[test]
fn release_agrees_with_its_code() {
    everywhere(Step::Release);
}

#[test]
fn a_tick_never_loses_the_lock() {
    everywhere(Step::Tick);
}

#[test]
fn break_agrees_with_its_code() {
    everywhere(Step::Break);
}
