//! The lock protocol as a machine of small steps, one per system call that others
//! can come between. What is modelled: the guard with its token, the record with
//! its flock, the fixed temp name, the pulse file and who carries a pulse, release,
//! a cleaner that unlinks the guard, the record or the pulse file, and a directory swapped under a contender.
//! While nothing is cleaned the clock stands still: tokens must rise by guard and record alone.

/// Index of an inode, or of a process's incarnation.
pub(crate) type Id = u8;

/// A protocol that lacks one of its rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    None,
    /// "Acquired" is said without looking at the guard again by its full path.
    NoSecondLook,
    /// The record is placed before the token is in the guard.
    RecordBeforeToken,
    /// The old record is removed without a flock on it and without looking whether it still is the one judged.
    NoRecordClaim,
    /// The new record goes over whatever is there.
    RenameOver,
    /// Death of the owner is enough; the pulse is not asked.
    NoPulse,
    /// A pulse counts only on the file that stands at its name, whatever file the record names.
    PulseByNameOnly,
    /// Without a record it is free, whatever the guard's token stands for.
    NoRecordIsFree,
    /// Without a record and without a token it is free, whoever carries a pulse.
    NoTokenIsFree,
    /// A record that was empty when it was read is taken away without reading it again.
    EmptyIsEmpty,
    /// "Acquired" is said of a record of our own that stands there, without a flock on it.
    AdoptUnclaimed,
    /// "Acquired" is said of a record of our own that stands there, whoever the guard's token stands for.
    AdoptBesideAnother,
    /// Release writes without comparing tokens.
    ReleaseAnybody,
}

/// What a record file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Content {
    pub(crate) owner: Id,
    pub(crate) token: u8,
    pub(crate) released: bool,
    /// The file that its pulse was taken on.
    pub(crate) pulse: Option<Id>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Guard {
    pub(crate) token: u8,
    pub(crate) flock: Option<Id>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct RecordFile {
    /// `None`: created and not written yet.
    pub(crate) content: Option<Content>,
    pub(crate) flock: Option<Id>,
}

/// One directory: what its three names lead to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Directory {
    pub(crate) guard: Option<Id>,
    pub(crate) record: Option<Id>,
    pub(crate) temp: Option<Id>,
    pub(crate) pulse: Option<Id>,
}

/// Where a contender stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Pc {
    Idle,
    OpenGuard,
    LockGuard,
    FirstLook,
    Read,
    Judge,
    WriteToken,
    CreateTemp,
    WriteTemp,
    ClaimOld,
    LookAtOld,
    UnlinkOld,
    Place,
    ReadBack,
    SecondLook,
    TakeBack,
    Holding,
    ReleaseRead,
    ReleaseTemp,
    ReleaseClaim,
    ReleaseRename,
    Crashed,
}

/// A contender.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    /// Unique per incarnation: a restarted process is another owner.
    pub(crate) id: Id,
    pub(crate) pc: Pc,
    /// Is it releasing (the guard is taken for that)?
    pub(crate) releasing: bool,
    /// The directory it has open.
    pub(crate) dir: usize,
    pub(crate) guard: Option<Id>,
    /// The record file it has open, and what it read there.
    pub(crate) old: Option<Id>,
    pub(crate) read: Option<Content>,
    /// The record file was there and not written yet when it was read.
    pub(crate) empty: bool,
    /// The temp file it created, wherever its name went.
    pub(crate) temp: Option<Id>,
    pub(crate) token: u8,
    /// The file on which it carries the pulse of that token.
    pub(crate) pulse: Option<Id>,
    /// Bytes of ours that were put in place in this acquire.
    pub(crate) placed: Option<Content>,
    /// A token it released before, shown once more by a second call of release.
    pub(crate) stale: Option<u8>,
    pub(crate) attempts: u8,
    pub(crate) acquires: u8,
    pub(crate) restarts: u8,
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) guards: Vec<Guard>,
    pub(crate) records: Vec<RecordFile>,
    pub(crate) dirs: [Directory; 2],
    /// Where the path leads.
    pub(crate) current: usize,
    pub(crate) processes: [Process; 2],
    /// Tokens whose pulse a child left behind still carries, each with its file.
    pub(crate) pulses: Vec<(u8, Id)>,
    pub(crate) next_pulse: Id,
    pub(crate) next_id: Id,
    pub(crate) cleanings: u8,
    pub(crate) swaps: u8,
    pub(crate) owner_only: bool,
    /// Nothing was cleaned yet, so tokens must rise by themselves.
    pub(crate) pristine: bool,
    /// Stands for the clock once something was cleaned: no two tokens in one millisecond.
    pub(crate) clock: u8,
    pub(crate) highest_placed: u8,
}

impl World {
    /// A dead owner's record with token 1, two contenders that acquire that often, each killed at most once.
    pub(crate) fn new(cleanings: u8, swaps: u8, acquires: [u8; 2]) -> Self {
        Self::with_restarts(cleanings, swaps, acquires, 1)
    }

    /// As [`World::new`], for runs that leave no pulse. Nobody can help them when their record is removed, so
    /// only the guard is.
    pub(crate) fn without_pulse(mut self) -> Self {
        self.owner_only = true;
        self
    }

    /// As [`World::new`]; a contender that was killed comes again that often.
    pub(crate) fn with_restarts(cleanings: u8, swaps: u8, acquires: [u8; 2], restarts: u8) -> Self {
        let process = |id: Id| Process {
            id,
            pc: Pc::Idle,
            releasing: false,
            dir: 0,
            guard: None,
            old: None,
            read: None,
            empty: false,
            temp: None,
            token: 0,
            pulse: None,
            placed: None,
            stale: None,
            attempts: 0,
            acquires: acquires[usize::from(id - 1)],
            restarts,
        };
        let dead = RecordFile {
            content: Some(Content { owner: 0, token: 1, released: false, pulse: None }),
            flock: None,
        };
        Self {
            guards: vec![Guard { token: 1, flock: None }],
            records: vec![dead],
            dirs: [
                Directory { guard: Some(0), record: Some(0), ..Directory::default() },
                Directory::default(),
            ],
            current: 0,
            processes: [process(1), process(2)],
            pulses: Vec::new(),
            next_pulse: 0,
            next_id: 3,
            cleanings,
            swaps,
            owner_only: false,
            pristine: true,
            clock: 1,
            highest_placed: 1,
        }
    }

    /// Why this world must not be, if so.
    pub(crate) fn violation(&self) -> Option<&'static str> {
        let holding = self.processes.iter().filter(|process| self.holds(process)).count();
        (holding + self.pulses.len() > 1).then_some("two holders")
    }

    fn holds(&self, process: &Process) -> bool {
        // While it releases it still holds, until the released record is in place.
        process.pc == Pc::Holding || (process.releasing && process.stale.is_none())
    }

    pub(crate) fn alive(&self, owner: Id) -> bool {
        self.processes.iter().any(|process| process.id == owner && process.pc != Pc::Crashed)
    }

    /// Who carries a pulse: the token and the file.
    pub(crate) fn carriers(&self) -> Vec<(u8, Id)> {
        let alive = self.processes.iter().filter(|process| process.pc != Pc::Crashed);
        let own = alive.filter_map(|process| Some((process.token, process.pulse?)));
        own.chain(self.pulses.iter().copied()).collect()
    }

    /// Closes what a process has open; its flocks end with that.
    pub(crate) fn close(&mut self, who: usize) {
        let id = self.processes[who].id;
        self.guards.iter_mut().filter(|guard| guard.flock == Some(id)).for_each(|guard| guard.flock = None);
        self.records
            .iter_mut()
            .filter(|record| record.flock == Some(id))
            .for_each(|record| record.flock = None);
        let process = &mut self.processes[who];
        (process.guard, process.old, process.read, process.temp) = (None, None, None, None);
    }

    /// The same world without inodes that nothing leads to, numbered in a fixed order:
    /// worlds that nobody can tell apart are one.
    pub(crate) fn canonical(mut self) -> Self {
        self.note_what_is_given_back();
        let [a, b] = &self.dirs;
        let [p, q] = &self.processes;
        let guards = order([a.guard, b.guard, p.guard, q.guard]);
        let records = order([a.record, b.record, a.temp, b.temp, p.old, q.old, p.temp, q.temp]);
        let renumber = |order: &[Id], id: Option<Id>| id.map(|id| position(order, id));
        for dir in &mut self.dirs {
            dir.guard = renumber(&guards, dir.guard);
            (dir.record, dir.temp) = (renumber(&records, dir.record), renumber(&records, dir.temp));
        }
        for process in &mut self.processes {
            process.guard = renumber(&guards, process.guard);
            (process.old, process.temp) = (renumber(&records, process.old), renumber(&records, process.temp));
        }
        self.guards = guards.iter().map(|id| self.guards[usize::from(*id)].clone()).collect();
        self.records = records.iter().map(|id| self.records[usize::from(*id)].clone()).collect();
        self.renumber_pulses();
        self.pulses.sort_unstable();
        self
    }

    /// Somebody with another guard may take the temp file of a release for his and place it: then that is done.
    fn note_what_is_given_back(&mut self) {
        let there = self.dirs.iter().filter_map(|dir| self.records[usize::from(dir.record?)].content);
        let released: Vec<u8> =
            there.filter(|content| content.released).map(|content| content.token).collect();
        for process in self.processes.iter_mut().filter(|it| it.releasing && it.stale.is_none()) {
            process.stale = Some(process.token).filter(|token| released.contains(token));
        }
    }

    /// Pulse files too are told apart and nothing else.
    fn renumber_pulses(&mut self) {
        let written = |content: &Option<Content>| content.and_then(|content| content.pulse);
        let mut known: Vec<Option<Id>> = self.dirs.iter().map(|dir| dir.pulse).collect();
        for process in &self.processes {
            known.extend([process.pulse, written(&process.read), written(&process.placed)]);
        }
        known.extend(self.records.iter().map(|record| written(&record.content)));
        known.extend(self.pulses.iter().map(|(_, file)| Some(*file)));
        let order = order(known);
        let new = |id: &mut Option<Id>| *id = id.map(|id| position(&order, id));
        let in_content = |content: &mut Option<Content>| {
            if let Some(content) = content {
                content.pulse = content.pulse.map(|id| position(&order, id));
            }
        };
        self.dirs.iter_mut().for_each(|dir| new(&mut dir.pulse));
        for process in &mut self.processes {
            new(&mut process.pulse);
            in_content(&mut process.read);
            in_content(&mut process.placed);
        }
        self.records.iter_mut().for_each(|record| in_content(&mut record.content));
        self.pulses.iter_mut().for_each(|(_, file)| *file = position(&order, *file));
        self.next_pulse = Id::try_from(order.len()).expect("few files");
    }
}

fn order(ids: impl IntoIterator<Item = Option<Id>>) -> Vec<Id> {
    let mut order: Vec<Id> = Vec::new();
    for id in ids.into_iter().flatten() {
        if !order.contains(&id) {
            order.push(id);
        }
    }
    order
}

fn position(order: &[Id], id: Id) -> Id {
    let place = order.iter().position(|known| *known == id).expect("listed");
    Id::try_from(place).expect("few inodes")
}
