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
use std::io::Write;

/// How a world was reached: from which one, by which step.
type Reached = (usize, String);

/// Breadth first, so that what it finds is a shortest way. Gives the number of states, or the way to a violation.
fn explore(start: World, mutation: Mutation) -> Result<usize, String> {
    let mut known: HashSet<World> = HashSet::from([start.clone()]);
    let mut reached: Vec<Reached> = vec![(0, "start".into())];
    let mut queue = VecDeque::from([(0, start)]);
    while let Some((from, world)) = queue.pop_front() {
        for (what, next) in steps::successors(&world, mutation) {
            let next = next.map_err(|why| format!("{why}\n{}\n{what}", way(&reached, from)))?.canonical();
            if let Some(why) = next.violation() {
                return Err(format!("{why}\n{}\n{what}", way(&reached, from)));
            }
            if known.insert(next.clone()) {
                reached.push((from, what));
                queue.push_back((reached.len() - 1, next));
            }
        }
    }
    Ok(known.len())
}

fn way(reached: &[Reached], mut at: usize) -> String {
    let mut steps = vec![reached[at].1.as_str()];
    while at != 0 {
        at = reached[at].0;
        steps.push(&reached[at].1);
    }
    steps.reverse();
    steps.join("\n")
}

fn say(line: &str) {
    writeln!(std::io::stderr(), "protocol: {line}").ok();
}

/// `ORION_TORTURE=1` explores twenty times as many states.
fn sizes() -> &'static [(u8, u8, [u8; 2])] {
    if std::env::var_os("ORION_TORTURE").is_some() {
        &[(0, 0, [2, 2]), (1, 0, [2, 2]), (0, 1, [2, 2]), (2, 0, [2, 1]), (1, 1, [1, 1])]
    } else {
        &[(0, 0, [2, 2]), (1, 0, [1, 2]), (0, 1, [1, 2])]
    }
}

#[test]
fn never_two_holders_and_never_a_token_twice() {
    for (cleanings, swaps, acquires) in sizes() {
        let start = World::new(*cleanings, *swaps, *acquires);
        let states = explore(start, Mutation::None).unwrap_or_else(|way| panic!("{way}"));
        say(&format!("{states} states with {cleanings} cleanings and {swaps} swaps, no violation"));
        assert!(states > 1_000);
    }
}

#[test]
fn every_rule_is_needed() {
    for (mutation, cleanings, swaps) in [
        (Mutation::NoSecondLook, 0, 1),
        (Mutation::RecordBeforeToken, 0, 0),
        (Mutation::NoRecordClaim, 1, 0),
        (Mutation::RenameOver, 1, 0),
        (Mutation::NoPulse, 0, 0),
        (Mutation::PulseByNameOnly, 1, 0),
        (Mutation::NoRecordIsFree, 1, 0),
        (Mutation::NoTokenIsFree, 2, 0),
        (Mutation::ReleaseAnybody, 0, 0),
    ] {
        let found = explore(World::new(cleanings, swaps, [2, 2]), mutation);
        let way = found.expect_err(&format!("{mutation:?} must be found out"));
        let why = way.lines().next().unwrap_or_default();
        say(&format!("without a rule, {mutation:?}: {} steps to: {why}", way.lines().count() - 1));
    }
}
