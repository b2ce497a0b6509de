//! The protocol of a lock on a database, explored to the end: two hosts, one server, answers that are lost or late,
//! requests that arrive when nobody waits for them any more; sessions, hosts and the server end at any moment, and a
//! failover may lose the last take. Never two trees that act at once, and no holder that reached the server is overtaken.
//!
//! Time runs in whole steps: a tree acts for F steps after the last proof was *sent*, a claimant waits G steps of its own.
//! A step passes only when every guardian has stopped what is overdue. Each mutation takes one rule away and must be found.

#[path = "protocol/via_steps.rs"]
mod steps;
#[path = "protocol/via_world.rs"]
mod world;

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use steps::What;
use world::{Mutation, World};

fn explore(start: World, mutation: Mutation) -> Result<usize, String> {
    let fingerprint = |world: &World| {
        let mut hasher = DefaultHasher::new();
        world.hash(&mut hasher);
        hasher.finish()
    };
    let mut known: HashSet<u64> = HashSet::from([fingerprint(&start)]);
    let mut reached: Vec<(usize, What)> = vec![(0, What::Start)];
    let mut queue = VecDeque::from([(0, start)]);
    let way = |reached: &[(usize, What)], mut at: usize| {
        let mut steps = vec![format!("{:?}", reached[at].1)];
        while at != 0 {
            at = reached[at].0;
            steps.push(format!("{:?}", reached[at].1));
        }
        steps.reverse();
        steps.join("\n")
    };
    while let Some((from, world)) = queue.pop_front() {
        for (what, next) in world.successors(mutation) {
            let next = next.map_err(|why| format!("{why}\n{}\n{what:?}", way(&reached, from)))?.canonical();
            if !known.insert(fingerprint(&next)) {
                continue;
            }
            if let Some(why) = next.violation() {
                return Err(format!("{why}\n{}\n{what:?}", way(&reached, from)));
            }
            reached.push((from, what));
            queue.push_back((reached.len() - 1, next));
        }
    }
    Ok(known.len())
}

fn say(line: &str) {
    writeln!(std::io::stderr(), "protocol: via: {line}").ok();
}

/// Cuts of sessions, crashes of the server, failovers, hosts that are gone; runs and sessions of each host.
type Size = ([u8; 4], [u8; 2], [u8; 2]);

#[test]
fn never_two_trees_that_act() {
    let long: [Size; 6] = [
        ([2, 0, 0, 0], [1, 1], [3, 3]),
        ([1, 1, 0, 1], [1, 1], [3, 3]),
        ([1, 0, 1, 0], [1, 1], [3, 3]),
        ([0, 0, 2, 0], [1, 1], [3, 3]),
        ([0, 1, 1, 0], [1, 1], [3, 3]),
        ([1, 0, 0, 0], [2, 2], [3, 3]),
    ];
    let quick: [Size; 4] = [
        ([1, 0, 0, 0], [1, 1], [2, 1]),
        ([0, 1, 0, 1], [1, 1], [2, 1]),
        ([0, 0, 1, 0], [1, 1], [2, 1]),
        ([0, 0, 0, 0], [2, 1], [2, 1]),
    ];
    let sizes = if std::env::var_os("ORION_TORTURE").is_some() { &long[..] } else { &quick[..] };
    let mut all = 0;
    for (faults, runs, connects) in sizes {
        let start = std::time::Instant::now();
        let states = explore(World::new(*faults, *runs, *connects), Mutation::None)
            .unwrap_or_else(|way| panic!("{way}"));
        say(&format!(
            "{states} states, no violation: {faults:?} {runs:?} {connects:?} {:?}",
            start.elapsed()
        ));
        assert!(states > 1_000);
        all += states;
    }
    say(&format!("{all} states"));
}

#[test]
fn every_rule_is_needed() {
    let mutations: [(Mutation, Size); 11] = [
        (Mutation::StoppedGoesOn, ([0, 0, 1, 0], [1, 1], [2, 1])),
        (Mutation::NoGrace, ([1, 0, 0, 0], [1, 1], [2, 1])),
        (Mutation::FenceIsGrace, ([1, 0, 0, 0], [1, 1], [2, 1])),
        (Mutation::NoGuardian, ([1, 0, 0, 0], [1, 1], [2, 1])),
        (Mutation::ProofFromAnswer, ([1, 0, 0, 0], [1, 1], [2, 1])),
        (Mutation::NoGeneration, ([1, 0, 0, 0], [1, 1], [2, 1])),
        (Mutation::NoNonce, ([0, 0, 1, 0], [1, 1], [2, 1])),
        (Mutation::NoTimeline, ([0, 0, 1, 0], [1, 1], [2, 1])),
        (Mutation::CutIsFree, ([1, 0, 0, 0], [1, 1], [2, 1])),
        (Mutation::ReleaseBeforeEnd, ([0, 0, 0, 0], [1, 1], [1, 1])),
        (Mutation::AttachOverLater, ([1, 0, 0, 0], [1, 1], [2, 1])),
    ];
    let mut missed = Vec::new();
    for (mutation, (faults, runs, connects)) in mutations {
        match explore(World::new(faults, runs, connects), mutation) {
            Err(way) => {
                let why = way.lines().next().unwrap_or_default();
                say(&format!("without a rule, {mutation:?}: {} steps to: {why}", way.lines().count() - 1));
            }
            Ok(states) => missed.push(format!("{mutation:?} ({states} states)")),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
