//! What stands under a name, judged: facts from the system, the verdict from them.

use super::Records;
use crate::model::event::Event;
use crate::model::host::{HostIdentity, INITIAL_PID_NS};
use crate::model::identity::ProcessIdentity;
use crate::model::name::LockName;
use crate::model::observation::{Found, Here, OwnerFacts, PulseFacts};
use crate::model::record::{PulseFile, Record, VIA_RUN};
use crate::model::token::GuardToken;
use crate::os::fdinfo::LockHolders;
use crate::os::process::{self, Pin};
use crate::os::pulse::{self, PulseAnswer};
use crate::os::{clock, guard, host, observe};
use crate::verdict::liveness::{Judgement, Scope, State, judge, scope};
use crate::verdict::ownership::Credential;

/// A record with its verdict.
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) found: Found,
    pub(crate) judgement: Judgement,
    /// The token that was judged: the record's, or without one the guard's.
    pub(crate) token: Option<u64>,
}

impl Judged {
    /// The record, where there is one that parses.
    pub(crate) fn record(&self) -> Option<&Record> {
        self.found.stored().map(|stored| &stored.record)
    }

    /// The verdict.
    pub(crate) fn state(&self) -> &State {
        &self.judgement.state
    }
}

impl Records {
    /// Ourselves, with a "now" that is later than everything read before the call.
    pub(super) fn here(&self, record: Option<&Record>) -> Here {
        let fixed = self.fixed();
        let foreign = record.is_some_and(|record| record.host.pid_ns != fixed.host.pid_ns);
        Here {
            host: HostIdentity { boottime_us: clock::boottime_us(), ..fixed.host.clone() },
            unread: fixed.unread.as_ref().map(crate::error::reason),
            proc_is_ours: fixed.proc_is_ours,
            local: self.state.local,
            network: self.state.network,
            // A look of its own, and it matters only for records from elsewhere.
            private: foreign && self.state.is_private(),
            // Costs a reading of mountinfo, and matters only for records from elsewhere.
            sees_everybody: foreign && host::sees_everybody(),
            pidfs: fixed.me.as_ref().is_ok_and(|me| me.pidfs_ino.is_some()),
        }
    }

    /// Judges what was read just before; `guard` is what the guard says, where there is one.
    pub(super) fn judge(&self, name: &LockName, found: Found, guard: Option<GuardToken>) -> Judged {
        let (here, owners) = self.facts(&found);
        let mut judgement = judge(&found, &here, &owners, PulseFacts::NotAsked);
        let token = match &found {
            Found::Record(stored) => Some(stored.record.token),
            _ => guard.and_then(GuardToken::number),
        };
        let asks = match judgement.state {
            State::Live(_) | State::Newer(_) => false,
            State::Free => matches!(found, Found::Nothing),
            State::Dead | State::Unknown(_) | State::Corrupt(_) => true,
        };
        if asks {
            let pulse = self.ask_pulse(name, &found, &here, token);
            judgement = judge(&found, &here, &owners, pulse);
        }
        Judged { found, judgement, token }
    }

    /// Judges a missing first record beside others: a pulse that is none of theirs is of a run whose record
    /// was removed, whatever came after it.
    pub(super) fn judge_missing(&self, name: &LockName, theirs: &[u64], guard: Option<GuardToken>) -> Judged {
        let removed = pulse::another(self.folder(), name.file(), theirs);
        let last = guard.and_then(GuardToken::number);
        let pulse = match removed {
            Some(_) => PulseFacts::Held,
            None if last.is_some_and(|last| theirs.contains(&last)) => PulseFacts::Free,
            None => return self.judge(name, Found::Nothing, guard),
        };
        let judgement = judge(&Found::Nothing, &self.here(None), &[], pulse);
        Judged { found: Found::Nothing, judgement, token: removed.or(last) }
    }

    /// Judges identity alone: the pulse is not asked.
    pub(crate) fn judge_identity(&self, found: &Found) -> Judgement {
        let (here, owners) = self.facts(found);
        judge(found, &here, &owners, PulseFacts::NotAsked)
    }

    fn facts(&self, found: &Found) -> (Here, Vec<OwnerFacts>) {
        let record =
            found.stored().map(|stored| &stored.record).filter(|record| record.released_at.is_none());
        // Where nobody is recorded, nobody is compared with us.
        let Some(_) = record else { return (Here::default(), Vec::new()) };
        let here = self.here(record);
        let owners = record.map_or_else(Vec::new, |record| match scope(record, &here) {
            Scope::ByNumber => {
                record.owners.iter().map(|owner| observe::by_number(owner, here.pidfs)).collect()
            }
            Scope::Search => observe::by_search(&record.owners),
            Scope::Restarted(_) | Scope::Private | Scope::Unclear(_) => {
                vec![OwnerFacts::NotLooked; record.owners.len()]
            }
        });
        (here, owners)
    }

    /// Asks the pulse file, and where it was taken away, everybody who may have it open.
    fn ask_pulse(&self, name: &LockName, found: &Found, here: &Here, token: Option<u64>) -> PulseFacts {
        let record = found.stored().map(|stored| &stored.record);
        let by_name = record.map(|record| record.token).or(token.filter(|_| matches!(found, Found::Nothing)));
        let answer = pulse::ask(self.folder(), name.file(), by_name, record.and_then(|it| it.pulse));
        match (answer, record, token) {
            (PulseAnswer::Removed, Some(record), _) => {
                let seen = self.search(name, record);
                match seen.pids.as_slice() {
                    [_, ..] => PulseFacts::Held,
                    [] if seen.blind || !sees_carriers(record, here) => PulseFacts::Lost,
                    [] => PulseFacts::Free,
                }
            }
            (PulseAnswer::Removed, None, _) => PulseFacts::Unclear,
            // The record is gone, and so may be the file; the guard still has the token, or the log.
            (PulseAnswer::Said(PulseFacts::Free), None, token) => {
                match token.or_else(|| self.logged_token(name)) {
                    Some(token) if !pulse::search(name.file(), token, None, None).pids.is_empty() => {
                        PulseFacts::Held
                    }
                    _ => PulseFacts::Free,
                }
            }
            (PulseAnswer::Said(facts), ..) => facts,
        }
    }

    fn search(&self, name: &LockName, record: &Record) -> LockHolders {
        // A run hands its pulse down to what it starts, and to nobody who was there before.
        let one_clock = record.host.time_ns == self.fixed().host.time_ns;
        let oldest = record.owners.iter().map(|owner| owner.start_ticks).min();
        let since = oldest.filter(|_| one_clock && record.via() == Some(VIA_RUN));
        pulse::search(name.file(), record.token, record.pulse, since)
    }

    /// The token of the last run in the log, unless that says how it ended: where guard and record were both
    /// taken away, it is all that is left. A name that was never held has no log.
    fn logged_token(&self, name: &LockName) -> Option<u64> {
        let events = self.read_log(name.file());
        let token = events.iter().rev().find(|event| event.event == "acquired")?.token?;
        let over = |event: &Event| {
            event.token == Some(token) && matches!(event.event.as_str(), "released" | "broken" | "ended")
        };
        (!events.iter().any(over)).then_some(token)
    }

    /// Processes that are seen to carry the pulse by which a name is held.
    pub(crate) fn carriers(&self, name: &LockName, judged: &Judged) -> LockHolders {
        match (judged.record(), judged.token) {
            (Some(record), _) => {
                let at_its_name = pulse::carriers(self.folder(), name.file(), Some(record.token));
                self.or_search(at_its_name, || match record.pulse {
                    Some(taken) if !self.is_there(name, taken) => self.search(name, record),
                    _ => LockHolders::default(),
                })
            }
            (None, token) if matches!(judged.found, Found::Nothing) => {
                self.or_search(pulse::carriers(self.folder(), name.file(), token), || {
                    let token = token.or_else(|| self.logged_token(name));
                    token.map_or_else(LockHolders::default, |token| {
                        pulse::search(name.file(), token, None, None)
                    })
                })
            }
            _ => pulse::carriers(self.folder(), name.file(), None),
        }
    }

    /// Does anybody carry the pulse of a token, whatever the owners do?
    pub(crate) fn pulse(&self, name: &LockName, token: u64) -> PulseFacts {
        let found = self.look_for(name, &Credential::Token(token)).found;
        let here = self.here(found.stored().map(|stored| &stored.record));
        match found.stored() {
            Some(stored) if stored.record.token == token => self.ask_pulse(name, &found, &here, Some(token)),
            _ => self.ask_pulse(name, &Found::Nothing, &here, Some(token)),
        }
    }

    /// Processes that are seen to carry the pulse of a token.
    pub(crate) fn carriers_of(&self, name: &LockName, token: u64) -> LockHolders {
        let judged = self.look_for(name, &Credential::Token(token));
        if judged.token == Some(token) {
            return self.carriers(name, &judged);
        }
        pulse::carriers(self.folder(), name.file(), Some(token))
    }

    fn or_search(&self, seen: LockHolders, search: impl FnOnce() -> LockHolders) -> LockHolders {
        if seen.pids.is_empty() { search() } else { seen }
    }

    /// Does the pulse file that was taken stand at its name?
    pub(super) fn is_there(&self, name: &LockName, taken: PulseFile) -> bool {
        pulse::at_name(self.folder(), name.file()) == Some(taken)
    }

    /// Does this process carry the pulse by which a name is held?
    pub(crate) fn carries(&self, name: &LockName, judged: &Judged, pid: u32) -> bool {
        let taken = judged.record().and_then(|record| record.pulse);
        judged.token.is_some_and(|token| pulse::carries(self.folder(), name.file(), token, taken, pid))
    }

    /// The number that an owner has in our pid namespace, as far as it can be seen that it is this one: a
    /// number of another namespace is somebody else's here.
    pub(crate) fn number_here(&self, record: &Record, owner: &ProcessIdentity) -> Option<u32> {
        let here = self.here(Some(record));
        match scope(record, &here) {
            Scope::ByNumber => Some(owner.pid),
            Scope::Restarted(_) | Scope::Private => None,
            Scope::Search | Scope::Unclear(_) => {
                // The inode of a pidfd is the same seen from everywhere, within one boot.
                let one_boot = record.host.boot_id.is_some() && record.host.boot_id == here.host.boot_id;
                match process::find(owner) {
                    Pin::Running(fd) if one_boot && here.proc_is_ours => Some(fd.pid()),
                    _ => None,
                }
            }
        }
    }

    /// Is the record of our own pid namespace and boot, so that its numbers are ours?
    pub(crate) fn numbers_are_ours(&self, record: &Record) -> bool {
        let (theirs, ours) = (&record.host, &self.fixed().host);
        theirs.pid_ns == ours.pid_ns && theirs.boot_id == ours.boot_id
    }

    /// Was it written since this machine started?
    pub(crate) fn is_of_this_boot(&self, record: &Record) -> bool {
        record.host.boot_id.is_some() && record.host.boot_id == self.fixed().host.boot_id
    }

    /// Is one of the owners of a record this process? Numbers are compared only where they are of here.
    pub(crate) fn is_owned_by(&self, record: &Record, process: &ProcessIdentity) -> bool {
        let ours = self.numbers_are_ours(record);
        let by_inode = |owner: &ProcessIdentity| {
            self.is_of_this_boot(record) && owner.pidfs_ino.is_some() && owner.pidfs_ino == process.pidfs_ino
        };
        record.owners.iter().any(|owner| if ours { owner.same(process) } else { by_inode(owner) })
    }

    /// Is one of the owners of a LIVE record among these processes, by number? LIVE was proved for the
    /// recorded identity, so that whoever has its number is it.
    pub(crate) fn is_owned_by_one_of(&self, record: &Record, pids: &[u32]) -> bool {
        if self.numbers_are_ours(record) {
            return record.owners.iter().any(|owner| pids.contains(&owner.pid));
        }
        let known: Vec<u64> = record.owners.iter().filter_map(|owner| owner.pidfs_ino).collect();
        let is_known = |pid: &u32| {
            process::PidFd::open(*pid)
                .ok()
                .and_then(|fd| fd.inode())
                .is_some_and(|inode| known.contains(&inode))
        };
        self.is_of_this_boot(record) && !known.is_empty() && pids.iter().any(is_known)
    }

    /// The last token of a name, read without its guard; for a name without a record.
    pub(crate) fn last_token(&self, name: &LockName) -> Option<GuardToken> {
        guard::peek(self.folder(), name.file())
    }
}

/// Is everybody who can have the pulse of this record below us visible? What an owner starts is in its
/// pid namespace or in one below it (pid_namespaces(7)), never above.
fn sees_carriers(record: &Record, here: &Here) -> bool {
    let below = here.host.pid_ns == Some(INITIAL_PID_NS) || record.host.pid_ns == here.host.pid_ns;
    below && here.proc_is_ours && host::sees_everybody()
}
