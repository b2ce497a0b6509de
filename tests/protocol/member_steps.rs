//! What each step of a member does to the world. A step that cannot be taken now gives nothing.

use super::members::{ATTEMPTS, Event, Guard, Id, Mode, Mutation, PLACES, Pc, Record, SLOTS, World};

type Next = Result<World, &'static str>;

impl World {
    /// Every world that can follow.
    pub(crate) fn successors(&self, mutation: Mutation) -> Vec<(Event, Next)> {
        let mut all = Vec::new();
        for who in 0..self.processes.len() {
            let pc = self.processes[who].pc;
            all.extend(self.step(who, mutation).into_iter().map(|next| (Event::Step(who, pc), next)));
            if !matches!(pc, Pc::Crashed | Pc::Idle) {
                all.push((Event::Killed(who, pc, false), Ok(self.killed(who, false, mutation))));
            }
            if pc == Pc::Holding {
                all.push((Event::Killed(who, pc, true), Ok(self.killed(who, true, mutation))));
            }
        }
        for place in 0..self.left.len() {
            let mut next = self.clone();
            next.left.remove(place);
            all.push((Event::LeftEnds, Ok(next)));
        }
        if self.cleanings > 0 {
            all.extend(self.cleaned());
        }
        all
    }

    fn killed(&self, who: usize, left: bool, mutation: Mutation) -> Self {
        let mut next = self.clone();
        if left {
            next.left.push(next.processes[who].as_record());
        }
        next.close(who);
        let stood = next.line.iter().position(|it| *it == who);
        if let Some(place) = stood {
            next.line.remove(place);
            let counts = mutation == Mutation::KilledWaiterCounts && !next.processes[who].mode.beside();
            next.ghosts += u8::from(counts);
        }
        let process = &mut next.processes[who];
        (process.pc, process.placed, process.pulse, process.behind) = (Pc::Crashed, None, None, false);
        next
    }

    /// The guard, or, while nobody is in the middle of coming in, the record of the last token or the first one
    /// beside others. Whoever loses another record is known by nothing once the next token is in the guard.
    fn cleaned(&self) -> Vec<(Event, Next)> {
        let mut all = Vec::new();
        let mut clean = |what: Option<usize>, act: &dyn Fn(&mut Self)| {
            let mut next = self.clone();
            (next.cleanings, next.pristine) = (next.cleanings - 1, false);
            act(&mut next);
            all.push((Event::Cleaned(what), Ok(next)));
        };
        if self.guard.is_some() {
            clean(None, &|next| next.guard = None);
        }
        let last = self.guard.map(|guard| self.guards[usize::from(guard)].token);
        let in_between = self.guards.iter().any(|guard| guard.flock.is_some());
        for place in (0..PLACES).filter(|_| !in_between) {
            let Some(record) = self.places[place] else { continue };
            let beside_others = place == 0 && self.places[1..].iter().any(Option::is_some);
            if beside_others || Some(record.token) == last {
                clean(Some(place), &|next| next.places[place] = None);
            }
        }
        all
    }

    fn step(&self, who: usize, mutation: Mutation) -> Vec<Next> {
        let mut next = self.clone();
        let process = self.processes[who].clone();
        let go = |mut next: Self, pc: Pc| {
            next.processes[who].pc = pc;
            vec![Ok(next)]
        };
        match process.pc {
            Pc::Crashed => {
                if process.restarts == 0 {
                    return Vec::new();
                }
                let reborn = &mut next.processes[who];
                (reborn.id, reborn.restarts) = (self.next_id, process.restarts - 1);
                next.next_id += 1;
                go(next, Pc::Idle)
            }
            Pc::Idle => {
                if process.acquires == 0 {
                    return Vec::new();
                }
                next.processes[who].acquires -= 1;
                go(next, Pc::OpenGuard)
            }
            Pc::Waiting => {
                // It looks whether anybody is left before it before it looks at the records.
                let before = self.exclusive_waits() || self.ghosts > 0;
                next.processes[who].behind &= before && process.mode.beside();
                go(next, Pc::OpenGuard)
            }
            Pc::OpenGuard => {
                let guard = self.guard.unwrap_or_else(|| {
                    next.guards.push(Guard::default());
                    Id::try_from(next.guards.len() - 1).expect("few")
                });
                (next.guard, next.processes[who].guard) = (Some(guard), Some(guard));
                go(next, Pc::LockGuard)
            }
            Pc::LockGuard => {
                let guard = &mut next.guards[at(process.guard)];
                if guard.flock.is_some() {
                    return Vec::new();
                }
                if self.guard != process.guard {
                    return go(next, Pc::OpenGuard);
                }
                guard.flock = Some(process.id);
                go(next, Pc::ReadFirst)
            }
            Pc::ReadFirst => {
                let first = self.places[0];
                next.processes[who].read = [first, None, None];
                let members = first.is_none_or(|first| first.mode.beside());
                let beside_own = process.placed.is_some() && mutation != Mutation::OwnRecordOnly;
                let reads = (members || beside_own) && process.mode != Mode::Older;
                go(
                    next,
                    if reads && mutation != Mutation::FirstRecordOnly { Pc::ReadOthers } else { Pc::Judge },
                )
            }
            Pc::ReadOthers => {
                next.processes[who].read[1..].copy_from_slice(&self.places[1..]);
                go(next, Pc::Judge)
            }
            Pc::Judge => self.judged(who, mutation),
            Pc::Clear => {
                for place in 1..PLACES {
                    if process.read[place].is_some() && self.places[place] != process.read[place] {
                        return again(next, who);
                    }
                    if process.read[place].is_some() {
                        next.places[place] = None;
                    }
                }
                go(next, Pc::WriteToken)
            }
            Pc::WriteToken => {
                next.guards[at(process.guard)].token = process.token;
                next.processes[who].pulse = Some(process.token);
                next.processes[who].placed = Some((process.place, process.as_record()));
                let others = process.place == 0 && self.others_are_there(who, mutation);
                let replace = others && mutation != Mutation::FirstMayBeMissing;
                go(
                    next,
                    match process.old {
                        Some(_) if replace => Pc::Replace,
                        Some(_) => Pc::UnlinkOld,
                        None => Pc::Place,
                    },
                )
            }
            Pc::UnlinkOld | Pc::Replace => {
                if self.places[process.place] != process.old {
                    return again(next, who);
                }
                let replaced = (process.pc == Pc::Replace).then(|| process.as_record());
                next.places[process.place] = replaced;
                go(next, if replaced.is_some() { Pc::Confirm } else { Pc::Place })
            }
            Pc::Place => {
                if self.places[process.place].is_some() {
                    return again(next, who);
                }
                next.places[process.place] = Some(process.as_record());
                go(next, Pc::Confirm)
            }
            Pc::Confirm | Pc::Adopt => {
                let Some((place, record)) = process.placed else { return again(next, who) };
                if process.pc == Pc::Adopt && self.guards[at(process.guard)].token < record.token {
                    next.guards[at(process.guard)].token = record.token;
                }
                if self.places[place] != Some(record) || self.guard != process.guard {
                    return again(next, who);
                }
                next.close(who);
                next.line.retain(|it| *it != who);
                let holds = &mut next.processes[who];
                (holds.token, holds.slot, holds.placed) = (record.token, record.slot, None);
                (holds.attempts, holds.behind) = (0, false);
                go(next, Pc::Holding)
            }
            Pc::TakeBack => {
                take_back(&mut next, who);
                next.processes[who].pulse = None;
                not_taken(next, who)
            }
            Pc::Holding => {
                // The release, under the guard; the other model has its steps.
                let guard = self.guard.map(|guard| self.guards[usize::from(guard)]);
                if guard.is_some_and(|guard| guard.flock.is_some()) {
                    return Vec::new();
                }
                for place in &mut next.places {
                    if let Some(record) = place.as_mut().filter(|it| it.token == process.token) {
                        record.released = true;
                    }
                }
                next.processes[who].pulse = None;
                go(next, Pc::Idle)
            }
        }
    }

    /// Is it there? `None` for one that is gone.
    fn there(&self, record: Option<Record>, mutation: Mutation) -> Option<Record> {
        record.filter(|record| {
            let pulse = mutation != Mutation::NoPulse && self.carried(record.token);
            let judged = self.alive(record.owner) || pulse || mutation == Mutation::NotJudged;
            !record.released && judged
        })
    }

    fn others_are_there(&self, who: usize, mutation: Mutation) -> bool {
        let process = &self.processes[who];
        process.read.iter().skip(1).any(|record| self.there(*record, mutation).is_some())
    }

    /// A run that lives and whose record was removed: by the guard's token, and where the first record is
    /// missing beside others, by a pulse that is none of theirs.
    fn removed_lives(&self, who: usize, mutation: Mutation) -> bool {
        let read = &self.processes[who].read;
        let last = self.guards[at(self.processes[who].guard)].token;
        let known = |token: u8| read.iter().flatten().any(|record| record.token == token);
        let others = read.iter().skip(1).any(Option::is_some);
        match read[0] {
            Some(_) if mutation == Mutation::RemovedIsGone => false,
            Some(_) => last != 0 && !known(last) && self.carried(last),
            None if others && mutation != Mutation::OthersAreKnown => {
                self.carriers().any(|token| !known(token))
            }
            None if last == 0 => self.carriers().next().is_some(),
            None => !known(last) && self.carried(last),
        }
    }

    fn judged(&self, who: usize, mutation: Mutation) -> Vec<Next> {
        let mut next = self.clone();
        let process = &self.processes[who];
        let last = self.guards[at(process.guard)].token;
        let ours = process.placed.filter(|(place, record)| process.read[*place] == Some(*record));
        let alone = process.read.iter().flatten().count() == 1;
        let adopt = |mut next: Self| {
            next.processes[who].pc = Pc::Adopt;
            vec![Ok(next)]
        };
        if let Some((_, record)) = ours
            && ((alone && (last == 0 || last == record.token)) || mutation == Mutation::AdmissionOnce)
        {
            return adopt(next);
        }
        if ours.is_none() {
            next.processes[who].pulse = None;
        }
        let mut there = [None; PLACES];
        for (place, record) in process.read.iter().enumerate() {
            let own = ours.is_some_and(|(at, _)| at == place);
            there[place] = next.there(*record, mutation).filter(|_| !own);
        }
        let removed = next.removed_lives(who, mutation);
        let count = there.iter().flatten().count() + usize::from(removed);
        let exclusive = there.iter().flatten().any(|it| !it.mode.beside()) || removed;
        let held = match process.mode {
            Mode::Older => removed || process.read[0].is_some_and(|it| it.mode.beside()) || count > 0,
            Mode::Exclusive if mutation == Mutation::ExclusiveBeside => exclusive || count >= SLOTS,
            Mode::Exclusive => count > 0,
            Mode::Slots => (exclusive && mutation != Mutation::ExclusiveIgnored) || count >= SLOTS,
            Mode::Shared => exclusive && mutation != Mutation::ExclusiveIgnored,
        };
        let stands = self.line.contains(&who);
        let in_turn = stands && (!process.behind || mutation == Mutation::EverybodyInTurn);
        let counted = self.exclusive_waits() || self.ghosts > 0;
        let waits = process.mode.beside() && !in_turn && counted && mutation != Mutation::WaiterIgnored;
        if held || waits {
            if self.pristine && !self.is_a_reason(who) {
                return vec![Err("refused where nobody is in the way")];
            }
            next.close(who);
            next.processes[who].pc = Pc::TakeBack;
            return vec![Ok(next)];
        }
        if self.passes(who) {
            return vec![Err("somebody went before one who waits for it alone")];
        }
        if let Some((_, record)) = ours {
            let twice = there.iter().flatten().any(|it| it.slot.is_some() && it.slot == record.slot);
            if twice && mutation != Mutation::SlotOnce {
                take_back(&mut next, who);
                next.processes[who].placed = None;
                return again(next, who);
            }
            return adopt(next);
        }
        let lowest = || (1..).find(|slot| there.iter().flatten().all(|it| it.slot != Some(*slot)));
        let by_count = || u8::try_from(count + 1).ok();
        let enters = &mut next.processes[who];
        enters.slot = match process.mode {
            Mode::Slots if mutation == Mutation::SlotByCount => by_count(),
            Mode::Slots => lowest(),
            _ => None,
        };
        enters.place = if process.mode.beside() {
            (0..PLACES).find(|place| there[*place].is_none()).unwrap_or(PLACES - 1)
        } else {
            0
        };
        enters.old = process.read[enters.place];
        let known = process.read.iter().flatten().map(|it| it.token).max().unwrap_or(0).max(last);
        enters.token = 1 + if self.pristine { known } else { known.max(self.clock) };
        let clears = process.mode == Mode::Exclusive && process.read.iter().skip(1).any(Option::is_some);
        enters.pc = if clears { Pc::Clear } else { Pc::WriteToken };
        next.clock = next.clock.max(next.processes[who].token);
        vec![Ok(next)]
    }

    /// Is there one for refusing him, seen from above?
    fn is_a_reason(&self, who: usize) -> bool {
        let (holders, mode) = (self.holders(), self.processes[who].mode);
        let exclusive = holders.iter().any(|holder| !holder.mode.beside());
        let waits = mode.beside() && self.exclusive_waits();
        match mode {
            // It refuses what it does not know, also of the dead.
            Mode::Older => true,
            Mode::Exclusive => !holders.is_empty(),
            Mode::Slots => exclusive || waits || holders.len() >= SLOTS,
            Mode::Shared => exclusive || waits,
        }
    }

    /// Would he, coming in now, go before somebody who needs it alone and came first?
    fn passes(&self, who: usize) -> bool {
        let before = self.line.iter().take_while(|it| **it != who);
        let exclusive = before.filter(|it| !self.processes[**it].mode.beside()).count() > 0;
        self.processes[who].mode.beside() && exclusive
    }
}

fn take_back(next: &mut World, who: usize) {
    if let Some((place, record)) = next.processes[who].placed
        && next.places[place] == Some(record)
    {
        next.places[place] = None;
    }
}

/// Told no: who waits joins the line, behind those who need it alone, unless he stands there.
fn not_taken(mut next: World, who: usize) -> Vec<Next> {
    let behind = next.exclusive_waits() || next.ghosts > 0;
    let stands = next.line.contains(&who);
    let process = &mut next.processes[who];
    (process.placed, process.attempts) = (None, 0);
    if !process.waits {
        process.pc = Pc::Idle;
        return vec![Ok(next)];
    }
    process.pc = Pc::Waiting;
    if !stands {
        process.behind = behind && process.mode.beside();
        next.line.push(who);
    }
    vec![Ok(next)]
}

fn again(mut next: World, who: usize) -> Vec<Next> {
    next.close(who);
    let process = &mut next.processes[who];
    process.attempts += 1;
    process.pc = if process.attempts >= ATTEMPTS { Pc::TakeBack } else { Pc::OpenGuard };
    vec![Ok(next)]
}

fn at(id: Option<Id>) -> usize {
    usize::from(id.expect("opened before"))
}
