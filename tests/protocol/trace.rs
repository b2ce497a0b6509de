//! The real programs beside the model: their system calls, seen by strace(1), must be a way that the
//! model can go, with the same end. So a step that is left out of the source, or put in another
//! place, shows here, and the proofs about the model stay proofs about the program.

use super::steps::{self, Event};
use super::{Mutation, World};
use crate::model::{Directory, Pc};
use crate::support::{KillOnDrop, Running, Tool, bin, eventually, needs, run};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// The steps of one program in order, by the names of the model, for the lock `x`.
fn steps_of(trace: &str, releases: bool) -> Vec<Pc> {
    let pick = |acquire, release| if releases { release } else { acquire };
    let (mut steps, mut inside, mut placed) = (Vec::new(), false, false);
    for line in trace.lines() {
        let (call, rest) = line.split_once('(').unwrap_or_default();
        let done = !rest.contains(" = -1");
        let names = |name: &str| rest.contains(&format!("\"{name}\"")) || rest.contains(&format!("/{name}>"));
        let step = match call {
            "openat" if names("x.guard") && done => Pc::OpenGuard,
            "flock" if names("x.guard") && rest.contains("LOCK_EX") && done => Pc::LockGuard,
            "flock" if names("x.guard") => {
                inside = false;
                continue;
            }
            // By the descriptor of the directory first, by the full path at the end.
            "newfstatat" if rest.contains(", \"x.guard\"") => Pc::FirstLook,
            "newfstatat" if rest.contains("/locks/x.guard\"") => Pc::SecondLook,
            _ if !inside => continue,
            "openat" if names("x.json") && !placed => pick(Pc::Read, Pc::ReleaseRead),
            "openat" if names("x.json") => Pc::ReadBack,
            "pwrite64" if names("x.guard") => Pc::WriteToken,
            "openat" if names(".x.tmp") && done => pick(Pc::CreateTemp, Pc::ReleaseTemp),
            "write" if names(".x.tmp") && !releases => Pc::WriteTemp,
            "flock" if names("x.json") => pick(Pc::ClaimOld, Pc::ReleaseClaim),
            "newfstatat" if names("x.json") && !releases => Pc::LookAtOld,
            "unlinkat" if names("x.json") => Pc::UnlinkOld,
            "renameat2" if names(".x.tmp") && !releases => Pc::Place,
            "renameat" | "renameat2" if names(".x.tmp") && releases => Pc::ReleaseRename,
            _ => continue,
        };
        // What is read before the guard is won decides nothing.
        inside |= step == Pc::OpenGuard;
        placed = if step == Pc::Place { done } else { placed && step != Pc::OpenGuard };
        steps.push(step);
    }
    steps
}

/// All worlds after these labels of the model's steps, whatever it does in between that is not a system call.
fn replay(start: World, labels: &[Event]) -> Result<HashSet<World>, String> {
    let mut worlds = closure(HashSet::from([start]));
    for (at, label) in labels.iter().enumerate() {
        let next: HashSet<World> = worlds
            .iter()
            .flat_map(|world| steps::successors(world, Mutation::None))
            .filter(|(what, _)| what == label)
            .map(|(_, world)| world.map(World::canonical).map_err(str::to_owned))
            .collect::<Result<_, _>>()?;
        if next.is_empty() {
            let way = labels[..at].iter().map(Event::to_string).collect::<Vec<_>>().join("\n");
            return Err(format!("the model cannot do this here: {label}\nafter:\n{way}"));
        }
        worlds = closure(next);
    }
    Ok(worlds)
}

/// Taking a record back is one more look, which changes nothing where none of ours stands there.
fn silent(event: Event) -> bool {
    matches!(event, Event::Step(_, Pc::Judge | Pc::Idle | Pc::Holding | Pc::TakeBack))
}

fn closure(mut worlds: HashSet<World>) -> HashSet<World> {
    let mut fresh: Vec<World> = worlds.iter().cloned().collect();
    while let Some(world) = fresh.pop() {
        for (what, next) in steps::successors(&world, Mutation::None) {
            if let (true, Ok(next)) = (silent(what), next.map(World::canonical))
                && worlds.insert(next.clone())
            {
                fresh.push(next);
            }
        }
    }
    worlds
}

fn labels(who: usize, steps: &[Pc]) -> Vec<Event> {
    steps.iter().map(|step| Event::Step(who, *step)).collect()
}

/// What `strace` writes for one of our programs; `options` for an injection.
fn strace(tool: &Tool, trace: &Path, options: &[&str]) -> std::process::Command {
    let mut command = tool.command("strace");
    command.args(["-qq", "-y", "-s", "16", "-o"]).arg(trace).args(options);
    command
}

fn read(trace: &Path) -> String {
    std::fs::read_to_string(trace).unwrap_or_default()
}

/// The model's world before anything: nothing there, or a dead owner's record.
fn world(dead: bool, cleanings: u8) -> World {
    let mut world = World::new(cleanings, 0, [1, 1]);
    if !dead {
        (world.dirs[0], world.highest_placed) = (Directory::default(), 0);
    }
    world.canonical()
}

#[test]
fn what_the_programs_do_is_a_way_of_the_model() {
    if !needs("strace") {
        return;
    }
    for dead in [false, true] {
        let tool = Tool::new();
        if dead {
            tool.leave_dead("x");
        } else {
            // The directories are there already, as for every call but the very first.
            tool.lock(&["run", "other", "true"]).expect(0);
        }
        let (first, second, third) = (tool.path("first"), tool.path("second"), tool.path("third"));
        let script = format!(
            "{} \"$OL\" acquire --owner $$ x || exit; echo up; read -r end; {} \"$OL\" release --owner $$ x; echo released; read -r end",
            words(&strace(&tool, &first, &[])),
            words(&strace(&tool, &third, &[])),
        );
        let mut holder = Running::start(&mut tool.script(&script));
        run(strace(&tool, &second, &[]).arg(bin("orion-lock")).args(["run", "x", "true"])).expect(75);
        holder.tell("release");
        assert_eq!(holder.next_line(), "released");
        let mut way = labels(0, &steps_of(&read(&first), false));
        assert!(way.len() >= 10, "{way:?}");
        let held = replay(world(dead, 0), &way).unwrap_or_else(|why| panic!("acquire, dead: {dead}: {why}"));
        assert!(
            held.iter().any(|world| world.processes[0].pc == Pc::Holding),
            "acquired, and not in the model"
        );
        way.extend(labels(1, &steps_of(&read(&second), false)));
        let refused =
            replay(world(dead, 0), &way).unwrap_or_else(|why| panic!("refusal, dead: {dead}: {why}"));
        assert!(refused.iter().all(|world| world.processes[1].pc != Pc::Holding), "{way:?}");
        way.extend(labels(0, &steps_of(&read(&third), true)));
        let free = replay(world(dead, 0), &way).unwrap_or_else(|why| panic!("release, dead: {dead}: {why}"));
        assert!(
            free.iter().any(|world| world.processes[0].stale.is_some()),
            "released, and not in the model"
        );
    }
}

/// A command line for a shell.
fn words(command: &std::process::Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| format!("'{}'", word.to_string_lossy())).collect::<Vec<_>>().join(" ")
}

/// A run that is stopped behind its `nth` use of a system call, and its trace.
fn stopped(tool: &Tool, call: &str, nth: usize) -> (Running, PathBuf, KillOnDrop) {
    let trace = tool.path("stopped");
    let inject = format!("inject={call}:signal=SIGSTOP:when={nth}");
    // The shell says which process strace is, so that it can be found when it has said nothing else yet.
    let mut command = tool.command("sh");
    command.args(["-c", "echo $$; exec \"$0\" \"$@\""]);
    let strace = strace(tool, &trace, &["-e", &inject]);
    command.arg(strace.get_program()).args(strace.get_args());
    command.arg(bin("orion-lock")).args(["run", "x", "echo", "ran"]);
    let running = Running::start(&mut command);
    eventually("the stop", || read(&trace).contains("stopped by SIGSTOP"));
    let children = format!("/proc/{0}/task/{0}/children", running.number());
    let tracee = std::fs::read_to_string(children).expect("strace").trim().parse().expect("one child");
    (running, trace, KillOnDrop::of(tracee))
}

/// One contender is stopped after each step of its way, the guard is taken away, another one comes and
/// stays, and the first goes on: in the model the same, and never both.
#[test]
fn a_contender_that_is_overtaken_goes_a_way_of_the_model() {
    if !needs("strace") {
        return;
    }
    let dry = Tool::new();
    dry.leave_dead("x");
    run(strace(&dry, &dry.path("dry"), &[]).arg(bin("orion-lock")).args(["run", "x", "true"])).expect(0);
    let calls = read(&dry.path("dry"));
    let calls: Vec<&str> = calls.lines().collect();
    let mut tried = 0;
    for at in 0..calls.len() - 1 {
        // Between winning the guard and the last look at it, where all that belongs to a step is over:
        // a look is two calls.
        let so_far = steps_of(&calls[..=at].join("\n"), false);
        let is_over = steps_of(&calls[..=at + 1].join("\n"), false).len() > so_far.len();
        if !is_over || !so_far.contains(&Pc::LockGuard) || so_far.contains(&Pc::SecondLook) {
            continue;
        }
        let call = calls[at].split('(').next().unwrap_or_default();
        let nth = calls[..=at].iter().filter(|line| line.starts_with(&format!("{call}("))).count();
        let tool = Tool::new();
        tool.leave_dead("x");
        let (mut first, trace, tracee) = stopped(&tool, call, nth);
        let before = steps_of(&read(&trace), false);
        assert_eq!(before, so_far, "stopped behind {call} number {nth}");
        std::fs::remove_file(tool.file("x.guard")).expect("the guard");
        let other = tool.path("other");
        // It runs and stays, or says how it ended.
        let mut command = tool.command("sh");
        command.args(["-c", "\"$0\" \"$@\" || echo ended $?"]);
        let traced = strace(&tool, &other, &[]);
        command.arg(traced.get_program()).args(traced.get_args()).arg(bin("orion-lock"));
        let second = Running::start(command.args(["run", "x", "sh", "-c", "echo up; read -r end"]));
        let overtaken = steps_of(&read(&other), false);
        tracee.signal(rustix::process::Signal::CONT);
        let done = first.end();
        let (first_ran, second_runs) = (done.stdout.contains("ran"), second.line == "up");
        assert!(first_ran != second_runs, "behind {call} number {nth}: {done:?}, and {}", second.line);
        tried += 1;
        if second.line == "ended 71" {
            // The first had the old record in its hands for longer than the second may try, which is more
            // often than the model does.
            continue;
        }
        let mut all = steps_of(&read(&trace), false);
        if !first_ran
            && all.len() >= before.len() + 8
            && all[all.len() - 4..] == all[all.len() - 8..all.len() - 4]
        {
            // Refused after it had put a record in place: it looks once more whether one of its own is left
            // behind, which changes nothing here.
            all.truncate(all.len() - 4);
        }
        let cleaned = vec![Event::Cleaned("guard")];
        let way =
            [labels(0, &before), cleaned, labels(1, &overtaken), labels(0, &all[before.len()..])].concat();
        let after = replay(world(true, 1), &way)
            .unwrap_or_else(|why| panic!("overtaken behind {call} number {nth}: {why}\n{done:?}"));
        let end =
            |world: &World| (0..2).map(|who| world.processes[who].pc == Pc::Holding).collect::<Vec<_>>();
        assert!(after.iter().any(|world| end(world) == [first_ran, second_runs]), "{way:?}");
    }
    assert!(tried >= 8, "only {tried} places were tried");
}
