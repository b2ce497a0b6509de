//! `run --tree`: the supervisor together with its shim, and the shim alone, with and without
//! somebody who lets it go.

use crate::points::{Fault, failures, kills, points_in};
use crate::support::{needs, run};
use crate::world::{Before, CODES, Extent, HANGS, World, points, try_all};

const TREE: [&str; 6] = ["run", "--tree", "sync", "sh", "-c", "echo ran"];

fn one(fault: &Fault, before: Before) -> bool {
    let mut world = World::new(before);
    let done = run(&mut world.traced(&["-e", &fault.inject()], "orion-lock", &TREE));
    let what = format!("run --tree over {before:?}: {fault}");
    assert_ne!(done.code, HANGS, "{what}: hangs: {done:?}");
    let ran = done.stdout.contains("ran");
    assert!(done.code != 0 || ran, "{what}: 0, and nothing ran: {done:?}");
    if !fault.is_kill() {
        assert!(CODES.contains(&done.code) || done.code == 75, "{what}: a code that is not ours: {done:?}");
        assert!(!done.stderr.contains("a bug"), "{what}: {done:?}");
    }
    world.is_tidy(&what, fault);
    if let Some(mut holder) = world.holder.take() {
        assert!(!ran, "{what}: two holders: {done:?}");
        world.tool.precheck(&["-q", "sync"]).expect(75);
        holder.kill();
    }
    // strace ends with the last of them, so nobody is left who could hold it.
    world.is_sound(&what);
    world.was_hit()
}

#[test]
fn a_tree_killed_or_failing_anywhere_leaves_the_lock_free() {
    if !needs("strace") {
        return;
    }
    for before in [Before::Dead, Before::Live] {
        let points = points(before, "orion-lock", &TREE);
        try_all(&format!("tree over {before:?}, killed"), Extent::Some, &kills(&points), |fault| {
            one(fault, before)
        });
        try_all(&format!("tree over {before:?}, failing"), Extent::Some, &failures(&points), |fault| {
            one(fault, before)
        });
    }
}

/// The shim as a supervisor starts it: the gate at 3, the answer at 4.
fn shim(gate: &str, inject: &str) -> String {
    let shim = "\"$OL\" tree-shim --gate=3 --answer=4 --mask=0 -- sh -c 'echo ran'";
    format!("strace -f -qq -o trace {inject} {shim} 3< {gate} 4> answer")
}

const OPENED: &str = "<(printf g)";
const DESERTED: &str = "<(:)";

#[test]
fn a_shim_killed_or_failing_anywhere_runs_nothing_unless_let_go() {
    if !needs("strace") {
        return;
    }
    for gate in [OPENED, DESERTED] {
        let world = World::new(Before::Nothing);
        let call = |world: &World, inject: &str| {
            run(world.tool.script(&shim(gate, inject)).current_dir(world.tool.path("")))
        };
        let plain = call(&world, "");
        assert_eq!(
            (plain.code, plain.stdout.contains("ran")),
            if gate == OPENED { (0, true) } else { (71, false) }
        );
        let points = points_in(&world.trace());
        let one = |fault: &Fault| {
            let world = World::new(Before::Nothing);
            let done = call(&world, &format!("-e {}", fault.inject()));
            let what = format!("shim at {gate}: {fault}");
            let ran = done.stdout.contains("ran");
            assert!(!ran || gate == OPENED, "{what}: ran without a lock: {done:?}");
            assert_eq!(ran, done.code == 0, "{what}: {done:?}");
            let usage = done.code == 64;
            assert!(!usage, "{what}: the system's fault, and a person is blamed: {done:?}");
            assert!(!done.stderr.contains("a bug"), "{what}: {done:?}");
            world.was_hit()
        };
        try_all(&format!("shim at {gate}, killed"), Extent::Some, &kills(&points), one);
        try_all(&format!("shim at {gate}, failing"), Extent::Some, &failures(&points), one);
    }
}
