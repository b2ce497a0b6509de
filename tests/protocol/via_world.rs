//! The protocol of a lock on a database as a model: its parts, and what the server does.

/// A rule that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    None,
    /// A claimant takes a cut row at once.
    NoGrace,
    /// The tree works on as long as a claimant waits.
    FenceIsGrace,
    /// The guardian stops nothing.
    NoGuardian,
    /// Proof counts from the answer, not from the question.
    ProofFromAnswer,
    /// A claimant does not see that the holder came back.
    NoGeneration,
    /// The token alone says whose a row is.
    NoNonce,
    /// A server that was promoted is as good as before.
    NoTimeline,
    /// A row whose lock is free is free.
    CutIsFree,
    /// The lock is given back before the tree is gone.
    ReleaseBeforeEnd,
    /// A tree that was stopped goes on when a server that was promoted says that the row is its.
    StoppedGoesOn,
    /// A holder that finds a later token attaches all the same.
    AttachOverLater,
}

/// A session that the server does not have any more.
pub(crate) const GONE: u8 = 15;
pub(crate) const F: u8 = 1;
pub(crate) const G: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Row {
    pub(crate) token: u8,
    pub(crate) generation: u8,
    pub(crate) nonce: u8,
    pub(crate) backend: Option<u8>,
    pub(crate) released: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ask {
    Take(Option<(u8, u8)>),
    Look,
    Unlock,
    Beat,
    Attach,
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    Taken(u8),
    Held,
    /// What is to be settled, and whether it was given back before.
    Cut((u8, u8), bool),
    Seen {
        row: (u8, u8),
        released: bool,
        ours: bool,
    },
    /// Whether the server was promoted since the last take.
    Ok(bool),
    Contended,
    Lost,
    Adrift,
    Done,
}

/// A question, who asks, and how long ago it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Call {
    pub(crate) ask: Ask,
    pub(crate) session: u8,
    /// Of the run: token and nonce.
    pub(crate) run: (u8, u8),
    pub(crate) age: u8,
    pub(crate) answer: Option<Answer>,
}

/// A run's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tree {
    pub(crate) token: u8,
    /// Since the last proof was sent.
    pub(crate) age: u8,
    pub(crate) stopped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Settling {
    pub(crate) first: (u8, u8),
    pub(crate) was_released: bool,
    pub(crate) waited: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Host {
    pub(crate) session: Option<u8>,
    pub(crate) call: Option<Call>,
    pub(crate) settling: Option<Settling>,
    pub(crate) over: Option<(u8, u8)>,
    pub(crate) tree: Option<Tree>,
    /// The token that is to be given back.
    pub(crate) releasing: Option<u8>,
    pub(crate) runs: u8,
    pub(crate) connects: u8,
    pub(crate) attaches: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) hosts: [Host; 2],
    pub(crate) row: Row,
    /// The row before the last take.
    pub(crate) before: Row,
    pub(crate) young: bool,
    /// The session that has the advisory lock.
    pub(crate) lock: Option<u8>,
    /// Sessions that the server has.
    pub(crate) alive: u16,
    pub(crate) sessions: u8,
    /// A question of a client that is gone, still on its way.
    pub(crate) late: Option<Call>,
    /// The holder attached while somebody settled.
    pub(crate) touched: bool,
    pub(crate) cuts: u8,
    pub(crate) crashes: u8,
    pub(crate) failovers: u8,
    pub(crate) host_crashes: u8,
}

impl World {
    pub(crate) fn new(
        [cuts, crashes, failovers, host_crashes]: [u8; 4],
        runs: [u8; 2],
        connects: [u8; 2],
    ) -> Self {
        let host = |at: usize| Host {
            session: None,
            call: None,
            settling: None,
            over: None,
            tree: None,
            releasing: None,
            runs: runs[at],
            connects: connects[at],
            attaches: connects[at],
        };
        Self {
            hosts: [0, 1].map(host),
            row: Row::default(),
            before: Row::default(),
            young: false,
            lock: None,
            alive: 0,
            sessions: 0,
            late: None,
            touched: false,
            cuts,
            crashes,
            failovers,
            host_crashes,
        }
    }

    pub(crate) fn has(&self, session: u8) -> bool {
        self.alive & (1 << session) != 0
    }

    pub(crate) fn end(&mut self, session: u8) {
        self.alive &= !(1 << session);
        if self.lock == Some(session) {
            self.lock = None;
        }
    }

    pub(crate) fn get_lock(&mut self, session: u8) -> bool {
        let got = self.lock.is_none_or(|lock| lock == session);
        if got {
            self.lock = Some(session);
        }
        got
    }

    /// What the server does with a question; one transaction.
    pub(crate) fn answer(&mut self, call: &Call, mutation: Mutation) -> Result<Answer, String> {
        let (session, (token, nonce)) = (call.session, call.run);
        let same = |row: &Row| mutation == Mutation::NoNonce || row.nonce == nonce;
        Ok(match call.ask {
            Ask::Take(over) => {
                if !self.get_lock(session) {
                    return Ok(Answer::Held);
                }
                let taken = self.row.token > 0 && !self.row.released && mutation != Mutation::CutIsFree;
                let generation = if mutation == Mutation::NoGeneration {
                    over.map_or(self.row.generation, |over| over.1)
                } else {
                    self.row.generation
                };
                let young = self.young && mutation != Mutation::NoTimeline;
                if over != Some((self.row.token, generation)) && (taken || young) {
                    self.row.backend = None;
                    self.touched = false;
                    return Ok(Answer::Cut(
                        (self.row.token, self.row.generation),
                        self.row.released || self.row.token == 0,
                    ));
                }
                if over.is_some() && self.touched && taken {
                    return Err("a holder that had come back was overtaken".to_owned());
                }
                self.before = self.row;
                let token = self.row.token + 1;
                self.row = Row { token, generation: 0, nonce, backend: Some(session), released: false };
                (self.young, self.touched) = (false, false);
                Answer::Taken(token)
            }
            Ask::Look => Answer::Seen {
                row: (self.row.token, self.row.generation),
                released: self.row.released,
                ours: self.lock == Some(session),
            },
            Ask::Unlock => {
                if self.lock == Some(session) {
                    self.lock = None;
                }
                Answer::Done
            }
            Ask::Beat if self.row.token != token || !same(&self.row) || self.row.released => Answer::Lost,
            Ask::Beat if self.row.backend != Some(session) || self.lock != Some(session) => Answer::Adrift,
            Ask::Beat => Answer::Ok(false),
            Ask::Attach => {
                let got = self.get_lock(session);
                let row = self.row;
                let of_other = (row.token > token && mutation != Mutation::AttachOverLater)
                    || (row.token == token && (!same(&row) || row.released))
                    || (row.token < token
                        && row.token > 0
                        && !row.released
                        && self.lock.is_some()
                        && self.lock == row.backend
                        && !got);
                if of_other {
                    if got {
                        self.lock = None;
                    }
                    return Ok(Answer::Lost);
                }
                if let Some(old) =
                    row.backend.filter(|old| !got && row.token == token && self.lock == Some(*old))
                {
                    // Our own half-open session.
                    self.end(old);
                }
                self.touched |= !got && self.lock.is_some();
                let generation = row.generation + 1;
                self.row = Row { token, generation, nonce, backend: Some(session), released: false };
                if got {
                    Answer::Ok(self.young && mutation != Mutation::StoppedGoesOn)
                } else {
                    Answer::Contended
                }
            }
            Ask::Release => {
                if self.row.token == token && same(&self.row) && !self.row.released {
                    (self.row.released, self.row.backend) = (true, None);
                    if self.lock == Some(session) {
                        self.lock = None;
                    }
                }
                Answer::Done
            }
        })
    }

    pub(crate) fn fence(mutation: Mutation) -> u8 {
        if mutation == Mutation::FenceIsGrace { G } else { F }
    }
}

impl World {
    /// The same world with sessions numbered anew, and without what cannot matter any more.
    pub(crate) fn canonical(mut self) -> Self {
        let mut names: Vec<u8> = Vec::new();
        let alive = self.alive;
        let mut name = |session: u8| -> Option<u8> {
            if alive & (1 << session) == 0 {
                return None;
            }
            let at = names.iter().position(|known| *known == session).unwrap_or_else(|| {
                names.push(session);
                names.len() - 1
            });
            u8::try_from(at).ok()
        };
        for host in &mut self.hosts {
            host.session = host.session.map(|session| name(session).unwrap_or(GONE));
            host.call = host.call.map(|call| {
                let proves = matches!(call.ask, Ask::Take(_) | Ask::Beat | Ask::Attach);
                let session = name(call.session).unwrap_or(GONE);
                Call { session, age: if proves { call.age } else { 0 }, ..call }
            });
            host.tree = host.tree.map(|tree| Tree { age: if tree.stopped { G } else { tree.age }, ..tree });
        }
        self.late = self.late.and_then(|call| Some(Call { session: name(call.session)?, age: 0, ..call }));
        self.lock = self.lock.and_then(&mut name);
        self.row.backend = self.row.backend.and_then(&mut name);
        self.before.backend = None;
        if self.failovers == 0 {
            self.before = Row::default();
        }
        self.sessions = u8::try_from(names.len()).unwrap_or(GONE);
        self.alive = (1 << names.len()) - 1;
        self
    }

    pub(crate) fn violation(&self) -> Option<String> {
        let act = |host: &Host| host.tree.is_some_and(|tree| !tree.stopped);
        if self.hosts.iter().all(act) {
            return Some("two trees act at once".to_owned());
        }
        None
    }
}
