//! What each step does to the world. A step that cannot be taken now gives nothing;
//! one that others decide gives every way it can go.

use super::model::{Content, Guard, Id, Mutation, Pc, RecordFile, World};

/// How often an acquire starts over (the program: 5).
const ATTEMPTS: u8 = 3;

/// What happens between two worlds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Step(usize, Pc),
    Killed(usize, Pc, bool),
    Cleaned(&'static str),
    Swapped,
    ChildEnds,
}

impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Step(who, pc) => write!(f, "{who}: {pc:?}"),
            Self::Killed(who, pc, left) => write!(f, "{who}: killed at {pc:?}, child lives: {left}"),
            Self::Cleaned(what) => write!(f, "a cleaner unlinks the {what}"),
            Self::Swapped => f.write_str("the directory is swapped"),
            Self::ChildEnds => f.write_str("a child ends"),
        }
    }
}

/// Every world that can follow.
pub(crate) fn successors(world: &World, mutation: Mutation) -> Vec<(Event, Result<World, &'static str>)> {
    let mut all = Vec::new();
    for who in 0..2 {
        let pc = world.processes[who].pc;
        for next in step(world, who, mutation) {
            all.push((Event::Step(who, pc), next));
        }
        if !matches!(pc, Pc::Crashed | Pc::Idle) {
            for left_behind in [false, true] {
                if let Some(next) = crash(world, who, left_behind) {
                    all.push((Event::Killed(who, pc, left_behind), Ok(next)));
                }
            }
        }
    }
    let there = &world.dirs[world.current];
    for (what, is_there) in [("guard", there.guard), ("record", there.record), ("pulse file", there.pulse)] {
        let spared = world.owner_only && what != "guard";
        if world.cleanings == 0 || is_there.is_none() || spared {
            continue;
        }
        let mut next = world.clone();
        next.cleanings -= 1;
        next.pristine = false;
        let dir = &mut next.dirs[world.current];
        match what {
            "guard" => dir.guard = None,
            "record" => dir.record = None,
            _ => dir.pulse = None,
        }
        all.push((Event::Cleaned(what), Ok(next)));
    }
    // Nobody can help a live holder whose record is taken away with its directory.
    let held = world.processes.iter().any(|p| p.pc == Pc::Holding || p.releasing) || !world.pulses.is_empty();
    if world.swaps > 0 && !held {
        let mut next = world.clone();
        next.swaps -= 1;
        next.pristine = false;
        next.current = 1;
        all.push((Event::Swapped, Ok(next)));
    }
    for place in 0..world.pulses.len() {
        let mut next = world.clone();
        next.pulses.remove(place);
        all.push((Event::ChildEnds, Ok(next)));
    }
    all
}

fn crash(world: &World, who: usize, left_behind: bool) -> Option<World> {
    let process = &world.processes[who];
    // Only a command that runs has children, and they have its pulse.
    let runs = process.pc == Pc::Holding;
    if left_behind && !runs {
        return None;
    }
    let mut next = world.clone();
    next.close(who);
    if left_behind {
        next.pulses.extend(process.pulse.map(|file| (process.token, file)));
    }
    let process = &mut next.processes[who];
    (process.pc, process.releasing, process.placed, process.pulse) = (Pc::Crashed, false, None, None);
    Some(next)
}

type Next = Vec<Result<World, &'static str>>;

fn step(world: &World, who: usize, mutation: Mutation) -> Next {
    let mut next = world.clone();
    let process = world.processes[who].clone();
    let dir = process.dir;
    let go = |mut next: World, pc: Pc| {
        next.processes[who].pc = pc;
        vec![Ok(next)]
    };
    match process.pc {
        Pc::Crashed => {
            if process.restarts == 0 {
                return Vec::new();
            }
            let reborn = &mut next.processes[who];
            (reborn.id, reborn.pc, reborn.token, reborn.stale) = (world.next_id, Pc::Idle, 0, None);
            (reborn.attempts, reborn.restarts) = (0, process.restarts - 1);
            next.next_id += 1;
            vec![Ok(next)]
        }
        Pc::Idle => {
            let mut all = Vec::new();
            if process.acquires > 0 {
                let mut next = next.clone();
                let starting = &mut next.processes[who];
                (starting.acquires, starting.attempts, starting.dir) =
                    (process.acquires - 1, 0, world.current);
                all.extend(go(next, Pc::OpenGuard));
            }
            if process.stale.is_some() {
                next.processes[who].releasing = true;
                all.extend(go(next, Pc::OpenGuard));
            }
            all
        }
        Pc::OpenGuard => {
            let guard = next.dirs[dir].guard.unwrap_or_else(|| {
                next.guards.push(Guard::default());
                index(next.guards.len())
            });
            next.dirs[dir].guard = Some(guard);
            next.processes[who].guard = Some(guard);
            go(next, Pc::LockGuard)
        }
        Pc::LockGuard => {
            let guard = &mut next.guards[at(process.guard)];
            if guard.flock.is_some() {
                return Vec::new();
            }
            guard.flock = Some(process.id);
            go(next, Pc::FirstLook)
        }
        Pc::FirstLook => {
            if world.dirs[dir].guard == process.guard {
                go(next, if process.releasing { Pc::ReleaseRead } else { Pc::Read })
            } else {
                next.close(who);
                go(next, Pc::OpenGuard)
            }
        }
        Pc::Read | Pc::ReleaseRead => {
            let old = world.dirs[dir].record;
            next.processes[who].old = old;
            next.processes[who].read = old.and_then(|old| world.records[usize::from(old)].content);
            next.processes[who].empty = old.is_some() && next.processes[who].read.is_none();
            if process.pc == Pc::Read { go(next, Pc::Judge) } else { release_judged(next, who, mutation) }
        }
        Pc::Judge => judged(next, who, mutation),
        Pc::WriteToken => {
            next.guards[at(process.guard)].token = process.token;
            // And then leaves its pulse, on the file at its name or on a new one.
            if process.pulse.is_none() && !world.owner_only {
                let file = next.dirs[dir].pulse.unwrap_or(next.next_pulse);
                (next.dirs[dir].pulse, next.processes[who].pulse) = (Some(file), Some(file));
                next.next_pulse = next.next_pulse.max(file + 1);
            }
            let stands = process.placed.is_some() && process.read == process.placed;
            if stands && mutation != Mutation::AdoptUnclaimed {
                return go(next, Pc::ClaimOld);
            }
            let last = stands || mutation == Mutation::RecordBeforeToken;
            go(next, if last { Pc::SecondLook } else { Pc::CreateTemp })
        }
        Pc::CreateTemp | Pc::ReleaseTemp => {
            next.records.push(RecordFile::default());
            next.dirs[dir].temp = Some(index(next.records.len()));
            next.processes[who].temp = next.dirs[dir].temp;
            next.processes[who].placed = Some(Content {
                owner: process.id,
                token: process.token,
                released: process.pc == Pc::ReleaseTemp,
                pulse: process.pulse,
            });
            next.processes[who].read = None;
            go(next, if process.pc == Pc::CreateTemp { Pc::WriteTemp } else { Pc::ReleaseClaim })
        }
        Pc::WriteTemp => {
            next.records[at(process.temp)].content = process.placed;
            go(next, if process.old.is_some() { Pc::ClaimOld } else { Pc::Place })
        }
        Pc::ClaimOld => {
            if mutation == Mutation::NoRecordClaim {
                return go(next, Pc::UnlinkOld);
            }
            let old = &mut next.records[at(process.old)];
            if old.flock.is_some_and(|holder| holder != process.id) {
                return again(next, who);
            }
            old.flock = Some(process.id);
            go(next, Pc::LookAtOld)
        }
        Pc::LookAtOld => {
            let written = world.records[at(process.old)].content.is_some();
            let changed = process.empty && written && mutation != Mutation::EmptyIsEmpty;
            if world.dirs[dir].record != process.old || changed {
                return again(next, who);
            }
            // Ours from an earlier pass stays where it is.
            let stands = process.placed.is_some() && process.read == process.placed;
            go(next, if stands { Pc::SecondLook } else { Pc::UnlinkOld })
        }
        Pc::UnlinkOld => {
            next.dirs[dir].record = None;
            go(next, Pc::Place)
        }
        Pc::Place => {
            let taken = world.dirs[dir].record.is_some() && mutation != Mutation::RenameOver;
            let Some(temp) = world.dirs[dir].temp.filter(|_| !taken) else { return again(next, who) };
            next.dirs[dir].record = Some(temp);
            next.dirs[dir].temp = None;
            let token = next.records[usize::from(temp)].content.map_or(0, |content| content.token);
            if world.pristine && token > 0 && token <= world.highest_placed {
                return vec![Err("a token was used again")];
            }
            next.highest_placed = next.highest_placed.max(token);
            go(next, Pc::ReadBack)
        }
        Pc::ReadBack => {
            let there = world.dirs[dir].record.and_then(|record| world.records[usize::from(record)].content);
            if there != process.placed {
                return again(next, who);
            }
            go(next, if mutation == Mutation::RecordBeforeToken { Pc::WriteToken } else { Pc::SecondLook })
        }
        Pc::SecondLook => {
            let current = world.current == dir && world.dirs[dir].guard == process.guard;
            if !current && mutation != Mutation::NoSecondLook {
                return again(next, who);
            }
            next.close(who);
            (next.processes[who].placed, next.processes[who].attempts) = (None, 0);
            go(next, Pc::Holding)
        }
        // Not taken: a record of ours must not stand there. It is removed by whoever has its flock.
        Pc::TakeBack => {
            let there = world.dirs[dir].record.map(|record| world.records[usize::from(record)].clone());
            if there.is_some_and(|record| record.flock.is_none() && record.content == process.placed) {
                next.dirs[dir].record = None;
            }
            (next.processes[who].placed, next.processes[who].pulse) = (None, None);
            go(next, Pc::Idle)
        }
        Pc::Holding => {
            next.processes[who].releasing = true;
            go(next, Pc::OpenGuard)
        }
        Pc::ReleaseClaim => {
            next.records[at(process.temp)].content = process.placed;
            let old = &mut next.records[at(process.old)];
            let ours = old.flock.is_none() && world.dirs[dir].record == process.old;
            old.flock = Some(process.id);
            if ours { go(next, Pc::ReleaseRename) } else { again(next, who) }
        }
        Pc::ReleaseRename => {
            next.dirs[dir].record = next.dirs[dir].temp.take().or(next.dirs[dir].record);
            released(next, who)
        }
    }
}

/// What an acquire does with what it read.
fn judged(mut next: World, who: usize, mutation: Mutation) -> Next {
    let process = next.processes[who].clone();
    if process.placed.is_some() && process.read == process.placed {
        // Somebody came in by this guard, and his record was removed.
        let last = next.guards[at(process.guard)].token;
        let another = last != process.token && next.carriers().iter().any(|(token, _)| *token == last);
        if another && mutation != Mutation::AdoptBesideAnother {
            next.close(who);
            next.processes[who].pc = Pc::TakeBack;
            return vec![Ok(next)];
        }
        // Ours from an earlier pass: the new guard gets the token, unless it knows a later one.
        let known = next.guards[at(process.guard)].token >= process.token;
        let stands = if mutation == Mutation::AdoptUnclaimed { Pc::SecondLook } else { Pc::ClaimOld };
        next.processes[who].pc = if known { stands } else { Pc::WriteToken };
        return vec![Ok(next)];
    }
    // What it carried for an earlier try stands for nobody.
    next.processes[who].pulse = None;
    if is_live(&next, who, mutation) {
        next.close(who);
        (next.processes[who].pc, next.processes[who].placed) = (Pc::Idle, None);
        return vec![Ok(next)];
    }
    let known = process.read.map_or(0, |content| content.token).max(next.guards[at(process.guard)].token);
    let known = if next.pristine { known } else { known.max(next.clock) };
    next.processes[who].token = known + 1;
    next.clock = next.clock.max(known + 1);
    next.processes[who].pc =
        if mutation == Mutation::RecordBeforeToken { Pc::CreateTemp } else { Pc::WriteToken };
    vec![Ok(next)]
}

/// The verdict on what was read: the owner, then the pulse, wherever its file is.
fn is_live(world: &World, who: usize, mutation: Mutation) -> bool {
    let process = &world.processes[who];
    let at_its_name = world.dirs[process.dir].pulse;
    let carriers = world.carriers();
    let carried = |token: u8, file: Option<Id>| carriers.iter().any(|(t, f)| *t == token && Some(*f) == file);
    match process.read {
        Some(content) => {
            let by_file = mutation != Mutation::PulseByNameOnly && carried(content.token, content.pulse);
            let pulse = mutation != Mutation::NoPulse && (by_file || carried(content.token, at_its_name));
            !content.released && (world.alive(content.owner) || pulse)
        }
        None if mutation == Mutation::NoRecordIsFree => false,
        None => match world.guards[at(process.guard)].token {
            0 => {
                mutation != Mutation::NoTokenIsFree
                    && carriers.iter().any(|(_, file)| Some(*file) == at_its_name)
            }
            token => carriers.iter().any(|(carried, _)| *carried == token),
        },
    }
}

/// What a release does with what it read: only its own token gives the right.
fn release_judged(mut next: World, who: usize, mutation: Mutation) -> Next {
    let process = next.processes[who].clone();
    let token = process.stale.unwrap_or(process.token);
    let mine = process.read.is_some_and(|content| {
        !content.released && (content.token == token || mutation == Mutation::ReleaseAnybody)
    });
    if mine {
        next.processes[who].token = process.read.map_or(token, |content| content.token);
        next.processes[who].pc = Pc::ReleaseTemp;
        return vec![Ok(next)];
    }
    released(next, who)
}

fn released(mut next: World, who: usize) -> Next {
    next.close(who);
    let process = &mut next.processes[who];
    // One more call with the same token, later: an exit trap that fires twice.
    process.stale = if process.stale.is_none() { Some(process.token) } else { None };
    process.pulse = None;
    (process.pc, process.releasing, process.placed) = (Pc::Idle, false, None);
    vec![Ok(next)]
}

/// Starts over. Our bytes may stand there all the same: put by us, or by somebody with
/// another guard who took our temp file for his.
fn again(mut next: World, who: usize) -> Next {
    next.close(who);
    let process = &mut next.processes[who];
    process.attempts += 1;
    if process.attempts >= ATTEMPTS && !process.releasing {
        process.pc = Pc::TakeBack;
    } else {
        process.pc = Pc::OpenGuard;
    }
    vec![Ok(next)]
}

fn at(id: Option<Id>) -> usize {
    usize::from(id.expect("opened before"))
}

fn index(length: usize) -> Id {
    Id::try_from(length - 1).expect("few inodes")
}
