//! The lock protocol, explored to the end: two contenders, each killed at any step
//! (with or without a child that lives on) and started again, release, a release
//! called twice, a cleaner that unlinks the guard, the record or the pulse file at any moment, a directory
//! swapped at any moment. Never two holders, never a token twice.
//!
//! Each mutation takes one rule away; the exploration must then find a way to break
//! the invariant. So no rule is there for nothing.

#[path = "protocol/member_steps.rs"]
mod member_steps;
#[path = "protocol/members.rs"]
mod members;
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

/// Something that goes on in small steps.
trait Machine: Sized + Hash {
    type Mutation: Copy;
    type Event: std::fmt::Display;
    fn successors(&self, mutation: Self::Mutation) -> Vec<(Self::Event, Result<Self, &'static str>)>;
    /// Worlds that nobody can tell apart are one.
    fn canonical(self) -> Self;
    /// Why this world must not be, if so.
    fn violation(&self) -> Option<&'static str>;
}

impl Machine for World {
    type Mutation = Mutation;
    type Event = Event;
    fn successors(&self, mutation: Mutation) -> Vec<(Event, Result<Self, &'static str>)> {
        steps::successors(self, mutation)
    }
    fn canonical(self) -> Self {
        self.canonical()
    }
    fn violation(&self) -> Option<&'static str> {
        self.violation()
    }
}

impl Machine for members::World {
    type Mutation = members::Mutation;
    type Event = members::Event;
    fn successors(&self, mutation: members::Mutation) -> Vec<(members::Event, Result<Self, &'static str>)> {
        self.successors(mutation)
    }
    fn canonical(self) -> Self {
        self.canonical()
    }
    fn violation(&self) -> Option<&'static str> {
        self.violation()
    }
}

/// Breadth first, so that what it finds is a shortest way. Gives the number of states, or the way to a violation.
/// What is known is known by 64 bits of it: in a million states two are taken for one with a chance of 1 to 30 million.
fn explore<M: Machine>(start: M, mutation: M::Mutation) -> Result<usize, String> {
    let mut known: HashSet<u64> = HashSet::from([fingerprint(&start)]);
    // How a world was reached: from which one, by which step.
    let mut reached: Vec<(usize, Option<M::Event>)> = vec![(0, None)];
    let mut queue = VecDeque::from([(0, start)]);
    while let Some((from, world)) = queue.pop_front() {
        for (what, next) in world.successors(mutation) {
            let next = next.map_err(|why| format!("{why}\n{}\n{what}", way(&reached, from)))?.canonical();
            if !known.insert(fingerprint(&next)) {
                continue;
            }
            if let Some(why) = next.violation() {
                return Err(format!("{why}\n{}\n{what}", way(&reached, from)));
            }
            reached.push((from, Some(what)));
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

fn way<E: std::fmt::Display>(reached: &[(usize, Option<E>)], mut at: usize) -> String {
    let mut steps = Vec::new();
    while let (from, Some(what)) = &reached[at] {
        steps.push(what.to_string());
        at = *from;
    }
    steps.push("start".into());
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
        found_out(size.world(), mutation);
    }
}

/// Who contends, and what else may happen.
fn members(modes: [(members::Mode, bool); 3], cleanings: u8, left: bool) -> members::World {
    let (acquires, restarts) = if std::env::var_os("ORION_TORTURE").is_some() { (2, 1) } else { (1, 0) };
    members::World::new(modes, cleanings, [acquires; 3], restarts, left)
}

/// Three for two slots; two of which one waits, and one who waits for it alone; a share; an older version.
const CONTENDERS: [[(members::Mode, bool); 3]; 4] = {
    use members::Mode::{Exclusive, Older, Shared, Slots};
    [
        [(Slots, false), (Slots, false), (Slots, false)],
        [(Slots, false), (Slots, true), (Exclusive, true)],
        [(Shared, true), (Slots, false), (Exclusive, true)],
        [(Slots, false), (Slots, false), (Older, false)],
    ]
};

#[test]
fn members_have_a_slot_each_and_nobody_is_beside_one_who_needs_it_alone() {
    let torture = std::env::var_os("ORION_TORTURE").is_some();
    for (at, contenders) in CONTENDERS.into_iter().enumerate() {
        for (cleanings, left) in [(0, true), (1, false)] {
            // A version that knows no members knows no removed record of one either.
            if cleanings > 0 && (at == 3 || (at == 2 && !torture)) {
                continue;
            }
            let start = members(contenders, cleanings, left);
            let states = explore(start, members::Mutation::None).unwrap_or_else(|way| panic!("{way}"));
            say(&format!("{states} states of members, {cleanings} cleanings, {contenders:?}"));
            assert!(states > 1_000);
        }
    }
}

#[test]
fn every_rule_of_members_is_needed() {
    use members::Mutation::*;
    for (mutation, contenders, cleanings) in [
        (FirstRecordOnly, 0, 0),
        (NotJudged, 0, 0),
        (NoPulse, 0, 0),
        (SlotByCount, 0, 0),
        (ExclusiveIgnored, 1, 0),
        (ExclusiveBeside, 1, 0),
        (WaiterIgnored, 1, 0),
        (EverybodyInTurn, 1, 0),
        (KilledWaiterCounts, 1, 0),
        (FirstMayBeMissing, 3, 0),
        (AdmissionOnce, 1, 1),
        (RemovedIsGone, 0, 1),
        (OthersAreKnown, 0, 1),
    ] {
        let start = members(CONTENDERS[contenders], cleanings, cleanings == 0);
        found_out(start, mutation);
    }
    // These take two cleanings, and minutes.
    if std::env::var_os("ORION_TORTURE").is_some() {
        for (mutation, contenders) in [(SlotOnce, 0), (OwnRecordOnly, 1)] {
            found_out(members::World::new(CONTENDERS[contenders], 2, [1; 3], 0, false), mutation);
        }
    }
}

fn found_out<M: Machine<Mutation: std::fmt::Debug>>(start: M, mutation: M::Mutation) {
    let way = explore(start, mutation).expect_err(&format!("{mutation:?} must be found out"));
    let why = way.lines().next().unwrap_or_default();
    say(&format!("without a rule, {mutation:?}: {} steps to: {why}", way.lines().count() - 1));
}
