//! Several members of one name: slots, shares, and one who needs it alone and waits. What the other model
//! shows of one record (its flock, its temp file, its release) is one step here; what is added is which
//! records are read, who is judged, which slot is taken, who stands in line, and two guards at a time.

/// Index of an inode, or of a process's incarnation.
pub(crate) type Id = u8;

/// How many places for records there are, and how many may hold slots at a time.
pub(crate) const PLACES: usize = 3;
pub(crate) const SLOTS: usize = 2;
/// How often an acquire starts over (the program: 5).
pub(crate) const ATTEMPTS: u8 = 3;

/// A protocol that lacks one of its rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    None,
    /// Only the first record is read.
    FirstRecordOnly,
    /// Every record counts, whether its owner lives or not.
    NotJudged,
    /// Death of the owner is enough; the pulse of that member is not asked.
    NoPulse,
    /// The slot is the number of those who are there, plus one.
    SlotByCount,
    /// Who comes beside others does not look whether one of them needs it alone.
    ExclusiveIgnored,
    /// Who needs it alone asks only whether slots are full.
    ExclusiveBeside,
    /// Nobody looks whether somebody waits who needs it alone.
    WaiterIgnored,
    /// Everybody who waits goes before who waits for it alone.
    EverybodyInTurn,
    /// A waiter that was killed is still counted.
    KilledWaiterCounts,
    /// A dead first record is removed before the new one is there, beside others.
    FirstMayBeMissing,
    /// Who finds his own record under a new guard takes it, whoever else is there.
    AdmissionOnce,
    /// Who finds his own record under a new guard does not compare slots.
    SlotOnce,
    /// Who finds his own record under a new guard reads no others beside it.
    OwnRecordOnly,
    /// The guard's token stands for nobody where another record is there.
    RemovedIsGone,
    /// Where the first record is missing beside others, the guard's token alone is asked for.
    OthersAreKnown,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    Slots,
    Shared,
    Exclusive,
    /// A version that knows no members: it reads the first record and refuses what it does not know.
    Older,
}

impl Mode {
    pub(crate) const fn beside(self) -> bool {
        matches!(self, Self::Slots | Self::Shared)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Record {
    pub(crate) owner: Id,
    pub(crate) token: u8,
    pub(crate) mode: Mode,
    pub(crate) slot: Option<u8>,
    pub(crate) released: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Guard {
    pub(crate) token: u8,
    pub(crate) flock: Option<Id>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Pc {
    Idle,
    /// In line, between two attempts.
    Waiting,
    OpenGuard,
    LockGuard,
    ReadFirst,
    ReadOthers,
    Judge,
    Clear,
    WriteToken,
    UnlinkOld,
    Place,
    Replace,
    Confirm,
    Adopt,
    TakeBack,
    Holding,
    Crashed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) id: Id,
    pub(crate) pc: Pc,
    pub(crate) mode: Mode,
    pub(crate) waits: bool,
    pub(crate) guard: Option<Id>,
    pub(crate) read: [Option<Record>; PLACES],
    /// Where the new record goes, and what stands there.
    pub(crate) place: usize,
    pub(crate) old: Option<Record>,
    pub(crate) slot: Option<u8>,
    pub(crate) token: u8,
    pub(crate) pulse: Option<u8>,
    pub(crate) placed: Option<(usize, Record)>,
    /// It joined the line when somebody stood there who needs it alone, and still does.
    pub(crate) behind: bool,
    pub(crate) attempts: u8,
    pub(crate) acquires: u8,
    pub(crate) restarts: u8,
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) guards: Vec<Guard>,
    pub(crate) guard: Option<Id>,
    pub(crate) places: [Option<Record>; PLACES],
    pub(crate) processes: [Process; 3],
    /// What was left behind by members, each with the record that it was started under.
    pub(crate) left: Vec<Record>,
    /// Who stands in line, in the order in which they came.
    pub(crate) line: Vec<usize>,
    /// Waiters that were killed; nobody should count them.
    pub(crate) ghosts: u8,
    pub(crate) next_id: Id,
    pub(crate) cleanings: u8,
    pub(crate) pristine: bool,
    pub(crate) clock: u8,
}

/// What happens between two worlds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Step(usize, Pc),
    Killed(usize, Pc, bool),
    Cleaned(Option<usize>),
    LeftEnds,
}

impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Step(who, pc) => write!(f, "{who}: {pc:?}"),
            Self::Killed(who, pc, left) => write!(f, "{who}: killed at {pc:?}, child lives: {left}"),
            Self::Cleaned(None) => f.write_str("a cleaner unlinks the guard"),
            Self::Cleaned(Some(place)) => write!(f, "a cleaner unlinks record {place}"),
            Self::LeftEnds => f.write_str("a child ends"),
        }
    }
}

impl World {
    /// Two members that died: the first left nothing, what the second started still works (`left`).
    pub(crate) fn new(
        modes: [(Mode, bool); 3],
        cleanings: u8,
        acquires: [u8; 3],
        restarts: u8,
        left: bool,
    ) -> Self {
        let process = |who: usize| Process {
            id: Id::try_from(who + 1).expect("three"),
            pc: Pc::Idle,
            mode: modes[who].0,
            waits: modes[who].1,
            guard: None,
            read: [None; PLACES],
            place: 0,
            old: None,
            slot: None,
            token: 0,
            pulse: None,
            placed: None,
            behind: false,
            attempts: 0,
            acquires: acquires[who],
            restarts,
        };
        let dead =
            |token, slot| Record { owner: 0, token, mode: Mode::Slots, slot: Some(slot), released: false };
        Self {
            guards: vec![Guard { token: 2, flock: None }],
            guard: Some(0),
            places: [Some(dead(1, 1)), Some(dead(2, 2)), None],
            processes: [process(0), process(1), process(2)],
            left: if left { vec![dead(2, 2)] } else { Vec::new() },
            line: Vec::new(),
            ghosts: 0,
            next_id: 4,
            cleanings,
            pristine: true,
            clock: 2,
        }
    }

    /// Those who work, by the records under which they began.
    pub(crate) fn holders(&self) -> Vec<Record> {
        let own = self.processes.iter().filter(|it| it.pc == Pc::Holding).map(|it| it.as_record());
        own.chain(self.left.iter().copied()).collect()
    }

    /// Why this world must not be, if so.
    pub(crate) fn violation(&self) -> Option<&'static str> {
        let holders = self.holders();
        if holders.len() > 1 && holders.iter().any(|holder| !holder.mode.beside()) {
            return Some("somebody beside one who needs it alone");
        }
        let mut slots: Vec<u8> = holders.iter().filter_map(|holder| holder.slot).collect();
        slots.sort_unstable();
        if slots.windows(2).any(|pair| pair[0] == pair[1]) {
            return Some("one slot twice");
        }
        slots.iter().any(|slot| usize::from(*slot) > SLOTS).then_some("more than there are slots")
    }

    pub(crate) fn alive(&self, owner: Id) -> bool {
        self.processes.iter().any(|it| it.id == owner && it.pc != Pc::Crashed)
    }

    pub(crate) fn carried(&self, token: u8) -> bool {
        self.carriers().any(|carried| carried == token)
    }

    pub(crate) fn carriers(&self) -> impl Iterator<Item = u8> {
        let alive = self.processes.iter().filter(|it| it.pc != Pc::Crashed).filter_map(|it| it.pulse);
        alive.chain(self.left.iter().map(|left| left.token))
    }

    /// Does somebody wait who needs it alone?
    pub(crate) fn exclusive_waits(&self) -> bool {
        self.line.iter().any(|who| !self.processes[*who].mode.beside())
    }

    pub(crate) fn close(&mut self, who: usize) {
        let id = self.processes[who].id;
        self.guards.iter_mut().filter(|it| it.flock == Some(id)).for_each(|it| it.flock = None);
        let process = &mut self.processes[who];
        (process.guard, process.read, process.old) = (None, [None; PLACES], None);
        (process.place, process.slot) = (0, process.slot.filter(|_| process.placed.is_some()));
    }

    /// Guards to which nothing leads are forgotten, and what a process no more needs.
    pub(crate) fn canonical(mut self) -> Self {
        let ids = self.processes.iter().map(|it| it.guard).chain([self.guard]);
        let mut order: Vec<Id> = Vec::new();
        for id in ids.flatten() {
            if !order.contains(&id) {
                order.push(id);
            }
        }
        let new = |id: Option<Id>| {
            let place = order.iter().position(|known| Some(*known) == id);
            place.map(|place| Id::try_from(place).expect("few"))
        };
        for process in &mut self.processes {
            process.guard = new(process.guard);
            if matches!(process.pc, Pc::Idle | Pc::Crashed | Pc::Waiting) {
                (process.token, process.slot, process.attempts) = (0, None, 0);
            }
        }
        self.guard = new(self.guard);
        self.guards = order.iter().map(|id| self.guards[usize::from(*id)]).collect();
        self.left.sort_unstable_by_key(|left| left.token);
        self
    }
}

impl Process {
    /// What it writes, or wrote, as its record.
    pub(crate) fn as_record(&self) -> Record {
        Record { owner: self.id, token: self.token, mode: self.mode, slot: self.slot, released: false }
    }
}
