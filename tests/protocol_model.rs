//! The lock protocol, explored to the end: two contenders, each killed at any step
//! (with or without a child that lives on) and started again, release, a release
//! called twice, a cleaner that unlinks the guard, the record or the pulse file at any moment, a directory
//! swapped at any moment. Never two holders, never a token twice.
//!
//! Each mutation takes one rule away; the exploration must then find a way to break
//! the invariant. So no rule is there for nothing.

#[path = "protocol/model.rs"]
mod model;
#[path = "protocol/steps.rs"]
mod steps;
mod support;
#[path = "protocol/trace.rs"]
mod trace;

use model::{Mutation, World};
use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use steps::Event;

/// How a world was reached: from which one, by which step.
type Reached = (usize, Event);

/// Breadth first, so that what it finds is a shortest way. Gives the number of states, or the way to a violation.
/// What is known is known by 64 bits of it: in a million states two are taken for one with a chance of 1 to 30 million.
fn explore(start: World, mutation: Mutation) -> Result<usize, String> {
    let mut known: HashSet<u64> = HashSet::from([fingerprint(&start)]);
    let mut reached: Vec<Reached> = vec![(0, Event::Start)];
    let mut queue = VecDeque::from([(0, start)]);
    while let Some((from, world)) = queue.pop_front() {
        for (what, next) in steps::successors(&world, mutation) {
            let next = next.map_err(|why| format!("{why}\n{}\n{what}", way(&reached, from)))?.canonical();
            if !known.insert(fingerprint(&next)) {
                continue;
            }
            if let Some(why) = next.violation() {
                return Err(format!("{why}\n{}\n{what}", way(&reached, from)));
            }
            reached.push((from, what));
            queue.push_back((reached.len() - 1, next));
        }
    }
    Ok(known.len())
}

fn fingerprint(world: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}

fn way(reached: &[Reached], mut at: usize) -> String {
    let mut steps = vec![reached[at].1.to_string()];
    while at != 0 {
        at = reached[at].0;
        steps.push(reached[at].1.to_string());
    }
    steps.reverse();
    steps.join("\n")
}

fn say(line: &str) {
    writeln!(std::io::stderr(), "protocol: {line}").ok();
}

/// What is explored.
#[derive(Clone, Copy, Debug)]
struct Size {
    cleanings: u8,
    swaps: u8,
    /// How often each contender acquires, and how often it comes again after it was killed.
    acquires: [u8; 2],
    restarts: u8,
    /// The runs leave a pulse; those without one lose no record to the cleaner.
    pulse: bool,
}

const fn size(cleanings: u8, swaps: u8, acquires: [u8; 2], restarts: u8) -> Size {
    Size { cleanings, swaps, acquires, restarts, pulse: true }
}

const fn owner_only(cleanings: u8, acquires: [u8; 2], restarts: u8) -> Size {
    Size { pulse: false, ..size(cleanings, 0, acquires, restarts) }
}

impl Size {
    fn world(self) -> World {
        let world = World::with_restarts(self.cleanings, self.swaps, self.acquires, self.restarts);
        if self.pulse { world } else { world.without_pulse() }
    }
}

/// `ORION_TORTURE=1` explores twenty times as many states.
fn sizes() -> &'static [Size] {
    const LONG: [Size; 7] = [
        size(0, 0, [2, 2], 1),
        size(1, 0, [2, 2], 1),
        size(0, 1, [2, 2], 1),
        size(2, 0, [2, 1], 1),
        size(1, 1, [1, 1], 1),
        size(3, 0, [1, 1], 0),
        owner_only(2, [2, 2], 1),
    ];
    const QUICK: [Size; 5] = [
        size(0, 0, [2, 2], 1),
        size(1, 0, [1, 1], 1),
        size(0, 1, [1, 1], 1),
        size(2, 0, [1, 1], 0),
        owner_only(2, [1, 1], 0),
    ];
    if std::env::var_os("ORION_TORTURE").is_some() { &LONG } else { &QUICK }
}

#[test]
fn never_two_holders_and_never_a_token_twice() {
    for size in sizes() {
        let states = explore(size.world(), Mutation::None).unwrap_or_else(|way| panic!("{way}"));
        say(&format!("{states} states, no violation: {size:?}"));
        assert!(states > 1_000);
    }
}

/// The smallest world in which each is found. Where a pulse saves what a rule of the records should, it is
/// found among runs without one.
const MUTATIONS: [(Mutation, Size); 12] = [
    (Mutation::NoSecondLook, size(0, 1, [1, 1], 0)),
    (Mutation::RecordBeforeToken, size(0, 0, [2, 2], 1)),
    (Mutation::NoRecordClaim, owner_only(1, [1, 1], 0)),
    (Mutation::RenameOver, owner_only(1, [1, 1], 0)),
    (Mutation::NoPulse, size(0, 0, [1, 1], 0)),
    (Mutation::PulseByNameOnly, size(1, 0, [1, 1], 0)),
    (Mutation::NoRecordIsFree, size(1, 0, [1, 1], 0)),
    (Mutation::NoTokenIsFree, size(2, 0, [1, 1], 0)),
    (Mutation::EmptyIsEmpty, owner_only(2, [1, 1], 0)),
    (Mutation::AdoptUnclaimed, owner_only(2, [1, 1], 0)),
    (Mutation::AdoptBesideAnother, size(2, 0, [1, 1], 0)),
    (Mutation::ReleaseAnybody, size(0, 0, [2, 2], 0)),
];

#[test]
fn every_rule_is_needed() {
    for (mutation, size) in MUTATIONS {
        let found = explore(size.world(), mutation);
        let way = found.expect_err(&format!("{mutation:?} must be found out"));
        let why = way.lines().next().unwrap_or_default();
        say(&format!("without a rule, {mutation:?}: {} steps to: {why}", way.lines().count() - 1));
    }
}
