//! The precheck: 75 only on proof, and when it goes past a live holder it says so.

use crate::points::{Fault, Point, failures, points_in};
use crate::support::{Done, needs, run};
use crate::world::{self, Before, Extent, World, try_all};

/// What it does in the state directory. It judges in a thread, and strace counts calls by thread: without
/// the paths the first of each kind would be those of the dynamic loader.
fn options(world: &World) -> Vec<String> {
    let dir = world.tool.dir();
    let files = ["", "locks", "locks/sync.json", "locks/sync.pulse", "log"];
    files.iter().flat_map(|file| ["-P".to_owned(), dir.join(file).display().to_string()]).collect()
}

fn traced(world: &World, more: &[String]) -> Done {
    let all = [options(world), more.to_vec()].concat();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    run(&mut world.traced(&all, "orion-precheck", &["sync"]))
}

fn points(before: Before) -> Vec<Point> {
    let world = World::new(before);
    traced(&world, &[]);
    points_in(&world.trace())
}

#[test]
fn a_precheck_whose_calls_fail_is_never_silent_about_it() {
    if !needs("strace") {
        return;
    }
    for before in [Before::Dead, Before::Live] {
        try_all(
            &format!("precheck over {before:?}, failing at its files"),
            Extent::Some,
            &failures(&points(before)),
            |fault| {
                let world = World::new(before);
                let done = traced(&world, &["-e".to_owned(), fault.inject()]);
                judge(world, &done, fault)
            },
        );
        let everywhere = failures(&world::points(before, "orion-precheck", &["sync"]));
        try_all(&format!("precheck over {before:?}, failing anywhere"), Extent::Some, &everywhere, |fault| {
            let world = World::new(before);
            let done = run(&mut world.traced(&["-e", &fault.inject()], "orion-precheck", &["sync"]));
            // What the loader says, before there is a program of ours.
            !done.stderr.contains("shared libraries") && judge(world, &done, fault)
        });
    }
}

fn judge(mut world: World, done: &Done, fault: &Fault) -> bool {
    let what = format!("precheck: {fault}");
    let Some(mut holder) = world.holder.take() else {
        assert_eq!(done.code, 0, "{what}: {done:?}");
        return world.was_hit();
    };
    assert!(done.code == 75 || done.code == 0, "{what}: {done:?}");
    let mute = world.trace().lines().any(|line| line.contains("write(2,") && line.contains("(INJECTED)"));
    let said = done.stderr.contains("not guarding");
    assert!(done.code == 75 || mute || said, "{what}: silent: {done:?}");
    holder.kill();
    world.was_hit()
}
