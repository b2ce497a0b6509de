//! A small world of machines, boots, namespaces and observers: the verdict may be
//! undecided in it, but never wrong, and less evidence never decides.

use super::tests::{CONTAINER, OTHER_BOOT, found, here, record, refused, scope_of, seen, verdict};
use super::*;
use crate::model::host::HostIdentity;
use crate::model::observation::{KillFacts as K, PidFdFacts as F, ProcFacts as P, SearchFacts as S};
use proptest::prelude::*;
use serde_json::{Value, json};

#[test]
fn what_could_not_be_read_now_is_not_absent() {
    let mut value = record();
    value["host"]["boot_id"] = Value::Null;
    let here = Here {
        host: HostIdentity { boot_id: None, ..here().host },
        unread: Some("too many open files".into()),
        ..here()
    };
    for owner in [OwnerFacts::NotLooked, OwnerFacts::ByPidFd(F::OtherInode)] {
        assert_eq!(verdict(&value, &here, &[owner], PulseFacts::Free), "unknown");
    }
}

/// The truth about one owner, one observer and what lies between them.
#[derive(Clone, Debug)]
struct World {
    value: Value,
    here: Here,
    owner: OwnerFacts,
    pulse: PulseFacts,
    alive: bool,
}

/// Worlds as they can be: a local directory is seen by one machine; a number in another
/// namespace may be anybody's; whoever may not look is told nothing.
fn worlds() -> impl Strategy<Value = World> {
    let flags = proptest::collection::vec(any::<bool>(), 19);
    (flags, 0..4_u8, 0..3_u8).prop_map(|(flag, spaces, stranger)| {
        let [local, network, same_machine, same_boot, private, their_pidfs, our_pidfs] = flag[..7] else {
            unreachable!("nineteen flags")
        };
        let [may_look, sees_all, owner_runs, child_runs, may_ask, same_time, hide_theirs] = flag[7..14]
        else {
            unreachable!("nineteen flags")
        };
        let [hide_ours, machine_ids, rolled_back, thread, number_taken] = flag[14..] else {
            unreachable!("nineteen flags")
        };
        let same_machine = same_machine || (local && !network);
        let same_kernel = same_machine && same_boot;
        let (theirs, ours) = match spaces {
            0 => (INITIAL_PID_NS, INITIAL_PID_NS),
            1 => (CONTAINER, INITIAL_PID_NS),
            2 => (INITIAL_PID_NS, CONTAINER),
            _ => (CONTAINER, CONTAINER + 1),
        };
        // What runs there after a restart of this machine, or in a second container of a private directory, is over.
        let over = (same_machine && !same_boot) || (private && theirs != ours);
        let (owner_runs, child_runs) = (owner_runs && !over, child_runs && !over);
        let mut value = record();
        let mut here = here();
        let host = &mut value["host"];
        host["pid_ns"] = json!(theirs);
        // Hidden on both sides nothing tells two boots apart; that limit is in the manual.
        if hide_theirs {
            host["boot_id"] = Value::Null;
        } else if !same_kernel {
            host["boot_id"] = json!(OTHER_BOOT);
        }
        if !same_time {
            host["time_ns"] = json!(4_026_531_999_u64);
        }
        let one_run = same_machine && (same_boot || !rolled_back);
        if !one_run || !same_time {
            host["boottime_us"] = json!(9_000_000_000_u64);
        }
        if !machine_ids {
            host["machine_id"] = Value::Null;
        } else if !same_machine {
            host["machine_id"] = json!("f".repeat(32));
        }
        if !their_pidfs {
            value["owners"][0]["pidfs_ino"] = Value::Null;
        }
        here.host.boot_id = here.host.boot_id.filter(|_| !hide_ours || hide_theirs);
        here.host.pid_ns = Some(ours);
        (here.local, here.network, here.private) = (local, network, private);
        (here.pidfs, here.sees_everybody) = (our_pidfs, sees_all);
        // Where the number means the owner, the look shows the owner, else whoever has the number.
        let there = same_kernel && theirs == ours;
        let (is_owner, taken) = if there && owner_runs { (true, true) } else { (false, number_taken) };
        let record = found(&value);
        let record = &record.stored().expect("a record").record;
        let owner = match scope(record, &here) {
            Scope::Search if !may_look => OwnerFacts::BySearch(S::Incomplete),
            Scope::Search if same_kernel && owner_runs => OwnerFacts::BySearch(S::Running),
            Scope::Search => OwnerFacts::BySearch(S::Missing),
            Scope::ByNumber if our_pidfs && their_pidfs => OwnerFacts::ByPidFd(match (may_look, taken) {
                (false, _) => F::Refused("too many open files".into()),
                (true, false) => F::Absent,
                (true, true) if is_owner => F::SameInode { ended: false },
                (true, true) if there && stranger == 0 => F::SameInode { ended: true },
                (true, true) => F::OtherInode,
            }),
            Scope::ByNumber => match (may_look, taken) {
                (false, true) => OwnerFacts::ByProc(P::Absent, K::Present),
                (false, false) => OwnerFacts::ByProc(P::Unreadable("no".into()), K::Unclear),
                (true, false) => OwnerFacts::ByProc(P::Absent, K::Absent),
                (true, true) if is_owner => {
                    OwnerFacts::ByProc(seen(if same_time { 7 } else { 1007 }, 812, false), K::Present)
                }
                (true, true) if stranger == 0 => OwnerFacts::ByProc(seen(7, 812, true), K::Present),
                (true, true) => OwnerFacts::ByProc(seen(8, if thread { 3 } else { 812 }, false), K::Present),
            },
            _ => OwnerFacts::NotLooked,
        };
        let pulse = match (may_ask, same_kernel && child_runs) {
            (false, _) => PulseFacts::Unclear,
            (true, true) => PulseFacts::Held,
            (true, false) => PulseFacts::Free,
        };
        // A pulse of another kernel cannot be seen; nothing there may be called dead because of that.
        World { value, here, owner, pulse, alive: owner_runs || child_runs }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn in_no_world_is_the_verdict_wrong(world in worlds()) {
        let owners = [world.owner.clone()];
        match verdict(&world.value, &world.here, &owners, world.pulse) {
            "live" | "descendant" | "carrier" => prop_assert!(world.alive, "called live: {world:?}"),
            "dead" => prop_assert!(!world.alive, "called dead: {world:?}"),
            _ => {}
        }
    }

    /// Any fact, and any two of them, on either side: what is left never proves more than all of them did.
    #[test]
    fn taking_a_fact_away_decides_nothing(world in worlds(), first in 0..FACTS, second in 0..FACTS) {
        let strong = verdict(&world.value, &world.here, std::slice::from_ref(&world.owner), world.pulse);
        let mut less = world.clone();
        take_away(&mut less, first);
        take_away(&mut less, second);
        // Another scope asks for another look; what was not asked for was not seen.
        let same_scope = scope_of(&world.value, &world.here) == scope_of(&less.value, &less.here);
        let owner = if same_scope { less.owner.clone() } else { OwnerFacts::NotLooked };
        let weak = verdict(&less.value, &less.here, &[owner], less.pulse);
        let held = |word: &str| matches!(word, "live" | "descendant" | "carrier");
        prop_assert!(
            weak == strong || weak == "unknown" || (held(strong) && weak == "carrier")
                || (strong == "live" && weak == "descendant"),
            "{strong} became {weak}: {world:?} without {first} and {second}"
        );
    }
}

/// How many facts [`take_away`] knows.
const FACTS: usize = 17;

/// Takes one fact away from a world: what is not known any more is absent, or said to be unread.
fn take_away(world: &mut World, fact: usize) {
    let host = &mut world.value["host"];
    match fact {
        0 => host["machine_id"] = Value::Null,
        1 => world.here.host.machine_id = None,
        // Absent on both sides is a kernel that never had one; a fact is lost on one side.
        2 if world.here.host.boot_id.is_some() => host["boot_id"] = Value::Null,
        3 if !host["boot_id"].is_null() => {
            world.here.host.boot_id = None;
        }
        4 if world.here.host.time_ns.is_some() => host["time_ns"] = Value::Null,
        5 if !host["time_ns"].is_null() => world.here.host.time_ns = None,
        6 => world.here.local = false,
        // The mark is proof of its own, asked only where a search is impossible.
        7 => (world.here.sees_everybody, world.here.private) = (false, false),
        8 => world.here.private = false,
        9 if world.pulse == PulseFacts::Free => world.pulse = PulseFacts::Unclear,
        10 if world.pulse == PulseFacts::Free => world.pulse = PulseFacts::Lost,
        11 => world.pulse = PulseFacts::Unclear,
        12 => world.here.proc_is_ours = false,
        13 => world.here.unread = Some("too many open files".into()),
        14 => {
            let owner = std::mem::replace(&mut world.owner, OwnerFacts::NotLooked);
            world.owner = match owner {
                OwnerFacts::ByPidFd(_) => refused(),
                OwnerFacts::ByProc(_, kill) => OwnerFacts::ByProc(P::Unreadable("no".into()), kill),
                OwnerFacts::BySearch(_) => OwnerFacts::BySearch(S::Incomplete),
                OwnerFacts::NotLooked => OwnerFacts::NotLooked,
            };
        }
        15 => {
            if let OwnerFacts::ByProc(P::Absent, kill) = &mut world.owner {
                *kill = K::Unclear;
            }
        }
        16 => world.owner = OwnerFacts::NotLooked,
        _ => {}
    }
}
