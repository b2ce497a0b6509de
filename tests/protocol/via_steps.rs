//! Every step of the model of a lock on a database.

use crate::world::{Answer, Ask, Call, G, Host, Mutation, Settling, Tree, World};

pub(crate) type Next = (What, Result<World, String>);

/// A step, for people.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "for people: read by Debug")]
pub(crate) enum What {
    Start,
    Time,
    Host(usize, &'static str),
    Hears(usize, Ask, Answer),
    HearsNothing(usize),
    Sends(usize, Ask),
    Does(usize, Ask),
    Late(Ask),
    LateLost,
    SessionEnds(u8),
    Restart,
    Promoted,
    PromotedWithout,
}

impl World {
    /// Every way on from here.
    pub(crate) fn successors(&self, mutation: Mutation) -> Vec<Next> {
        let mut all: Vec<Next> = Vec::new();
        let fence = Self::fence(mutation);
        let overdue = |host: &Host| host.tree.is_some_and(|tree| !tree.stopped && tree.age >= fence);
        if mutation == Mutation::NoGuardian || !self.hosts.iter().any(overdue) {
            all.push((What::Time, Ok(self.later())));
        }
        for at in 0..2 {
            self.of_host(at, mutation, &mut all);
        }
        if let Some(call) = self.late {
            let mut next = Self { late: None, ..self.clone() };
            if self.has(call.session) {
                let done = next.answer(&call, mutation).map(|_| next);
                all.push((What::Late(call.ask), done));
            }
            all.push((What::LateLost, Ok(Self { late: None, ..self.clone() })));
        }
        for session in (0..self.sessions).filter(|session| self.has(*session)) {
            let used = self.hosts.iter().any(|host| host.session == Some(session));
            if !used || self.cuts > 0 {
                let mut next = self.clone();
                next.cuts -= u8::from(used);
                next.end(session);
                all.push((What::SessionEnds(session), Ok(next)));
            }
        }
        if self.crashes > 0 {
            let next = Self { alive: 0, lock: None, crashes: self.crashes - 1, ..self.clone() };
            all.push((What::Restart, Ok(next)));
        }
        if self.failovers > 0 {
            let next =
                Self { alive: 0, lock: None, young: true, failovers: self.failovers - 1, ..self.clone() };
            all.push((What::Promoted, Ok(next.clone())));
            all.push((What::PromotedWithout, Ok(Self { row: self.before, ..next })));
        }
        all
    }

    /// One step of time, and no more than anybody counts.
    pub(crate) fn later(&self) -> Self {
        let mut next = self.clone();
        for host in &mut next.hosts {
            host.call = host.call.map(|call| Call { age: (call.age + 1).min(G + 1), ..call });
            host.tree = host.tree.map(|tree| Tree { age: (tree.age + 1).min(G + 1), ..tree });
            host.settling = host.settling.map(|it| Settling { waited: (it.waited + 1).min(G), ..it });
        }
        next
    }

    pub(crate) fn of_host(&self, at: usize, mutation: Mutation, all: &mut Vec<Next>) {
        let host = &self.hosts[at];
        let mut add = |what: What, change: &dyn Fn(&mut Self)| {
            let mut next = self.clone();
            change(&mut next);
            all.push((what, Ok(next)));
        };
        if host.tree.is_some_and(|tree| !tree.stopped && tree.age >= Self::fence(mutation))
            && mutation != Mutation::NoGuardian
        {
            add(What::Host(at, "its guardian stops the tree"), &|next| {
                next.hosts[at].tree = host.tree.map(|tree| Tree { stopped: true, ..tree });
            });
        }
        if self.host_crashes > 0 && (host.tree.is_some() || host.settling.is_some()) {
            add(What::Host(at, "is gone"), &|next| {
                next.host_crashes -= 1;
                next.give_up(at);
                next.hosts[at] = Host { runs: 0, ..Self::new([0; 4], [0; 2], [0; 2]).hosts[0].clone() };
            });
        }
        if let Some(call) = host.call {
            if let Some(answer) = call.answer {
                add(What::Hears(at, call.ask, answer), &|next| {
                    next.hosts[at].call = None;
                    next.heard(at, &call, answer, mutation);
                });
            } else if self.has(call.session) {
                let mut next = self.clone();
                let answered = next.answer(&call, mutation).map(|answer| {
                    next.hosts[at].call = Some(Call { answer: Some(answer), ..call });
                    next
                });
                all.push((What::Does(at, call.ask), answered));
            }
            let mut next = self.clone();
            next.give_up(at);
            all.push((What::HearsNothing(at), Ok(next)));
            return;
        }
        if host.session.is_some_and(|session| !self.has(session)) {
            add(What::Host(at, "sees that its session is gone"), &|next| next.give_up(at));
            return;
        }
        let wants = host.runs > 0 || host.tree.is_some() || host.releasing.is_some();
        let Some(session) = host.session else {
            if wants && host.connects > 0 {
                add(What::Host(at, "connects"), &|next| {
                    next.hosts[at].connects -= 1;
                    next.hosts[at].session = Some(next.sessions);
                    next.alive |= 1 << next.sessions;
                    next.sessions += 1;
                });
            }
            return;
        };
        let mut send = |ask: Ask, token: u8| {
            let run = (token, u8::try_from(at).unwrap_or(0) * 8 + host.runs);
            let call = Call { ask, session, run, age: 0, answer: None };
            add(What::Sends(at, ask), &|next| {
                next.hosts[at].attaches -= u8::from(ask == Ask::Attach);
                next.hosts[at].call = Some(call);
            });
        };
        match (host.tree, host.releasing, host.settling) {
            (Some(tree), ..) => {
                if self.row.backend == Some(session) {
                    send(Ask::Beat, tree.token);
                } else if host.attaches > 0 {
                    send(Ask::Attach, tree.token);
                }
                if mutation == Mutation::ReleaseBeforeEnd {
                    send(Ask::Release, tree.token);
                }
            }
            (None, Some(token), _) => send(Ask::Release, token),
            (None, None, Some(settling)) => {
                send(Ask::Look, 0);
                if settling.waited >= G || mutation == Mutation::NoGrace {
                    send(Ask::Take(Some(settling.first)), 0);
                }
            }
            (None, None, None) if host.runs > 0 => send(Ask::Take(host.over), 0),
            (None, None, None) => {}
        }
        if host.tree.is_some_and(|tree| !tree.stopped) {
            add(What::Host(at, "its tree ends"), &|next| {
                let tree = next.hosts[at].tree.take();
                next.hosts[at].releasing = tree.map(|tree| tree.token);
            });
        }
    }

    /// The client closes its session; what it asked may still be on its way.
    pub(crate) fn give_up(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        let call = host.call.take().filter(|call| call.answer.is_none());
        self.late = call.or(self.late);
        host.session = None;
        host.settling = None;
    }

    pub(crate) fn heard(&mut self, at: usize, call: &Call, answer: Answer, mutation: Mutation) {
        let fence = Self::fence(mutation);
        let host = &mut self.hosts[at];
        let age = if mutation == Mutation::ProofFromAnswer { 0 } else { call.age };
        match (call.ask, answer) {
            (Ask::Take(_), Answer::Taken(token)) => {
                host.settling = None;
                host.over = None;
                host.tree = Some(Tree { token, age, stopped: age >= fence });
            }
            (Ask::Take(_), Answer::Cut(first, was_released)) => {
                host.settling = Some(Settling { first, was_released, waited: 0 });
            }
            (Ask::Look, Answer::Seen { row, released, ours }) => {
                let Some(settling) = host.settling else { return };
                let unchanged = row == settling.first
                    || (mutation == Mutation::NoGeneration && row.0 == settling.first.0);
                if !ours || !unchanged {
                    host.settling = None;
                    if let Some(session) = host.session {
                        let unlock = Call { ask: Ask::Unlock, session, run: (0, 0), age: 0, answer: None };
                        host.call = Some(unlock);
                    }
                } else if released && !settling.was_released {
                    host.settling = None;
                }
            }
            // Somebody may have taken it over, and that take was lost with the old server.
            (Ask::Attach, Answer::Ok(true))
                if host.tree.is_some_and(|tree| tree.stopped || tree.age >= fence) =>
            {
                host.tree = None;
                host.runs = host.runs.saturating_sub(1);
            }
            (Ask::Beat | Ask::Attach, Answer::Ok(_)) => {
                if let Some(tree) = &mut host.tree {
                    tree.age = tree.age.min(age);
                    tree.stopped = tree.age >= fence;
                }
            }
            (Ask::Beat | Ask::Attach, Answer::Lost) => {
                host.tree = None;
                host.runs = host.runs.saturating_sub(1);
            }
            (Ask::Beat, Answer::Adrift) => self.give_up(at),
            (Ask::Release, Answer::Done) if host.releasing.take().is_some() => {
                host.runs = host.runs.saturating_sub(1);
            }
            _ => {}
        }
    }
}
