//! Is anybody still holding it? Three answers, and free: never a bool.
//!
//! The rules and their numbers are those of the manual orion(7), LIVENESS. The
//! verdict falls in two steps, so that a caller looks only where a look proves
//! something: [`scope`] says from the record and from ourselves how the owners are
//! to be looked at, [`judge`] decides from what was seen.

use crate::model::host::{INITIAL_PID_NS, INITIAL_TIME_NS};
use crate::model::identity::ProcessIdentity;
use crate::model::observation::{
    Found, Here, KillFacts, OwnerFacts, PidFdFacts, ProcFacts, PulseFacts, SearchFacts,
};
use crate::model::record::{BadRecord, Record};

/// How the owners of a record are to be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Rule 2: the machine was restarted since; all of them are dead without a look.
    Restarted(&'static str),
    /// Rule 3: another pid namespace, but we are in the initial one and see everybody.
    Search,
    /// Rule 3: another pid namespace in a directory used by one container at a time.
    Private,
    /// Rules 4 and 5: same namespace, look each one up by number.
    ByNumber,
    /// No look can prove anything.
    Unclear(Doubt),
}

/// Why nothing can be proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    ProcNotOurs,
    OtherMachine,
    NoBootId,
    OtherContainer,
    OtherTimeNamespace,
    HiddenProcess,
    /// The pulse could not be asked, so what the owner started may still work.
    NoPulseAnswer,
    /// The pulse file was removed, and whoever carries it may be out of sight.
    PulseLost,
    Refused(String),
    Unreadable(String),
    NotAFile(&'static str),
}

impl Doubt {
    /// For a message, after "cannot tell whether pid 812 still runs".
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::ProcNotOurs => "/proc here describes another pid namespace, or is not mounted".into(),
            Self::OtherMachine => "its record is from another machine".into(),
            Self::NoBootId => "one side has no boot id".into(),
            Self::OtherContainer => "its record is from another container".into(),
            Self::OtherTimeNamespace => "its record is from another time namespace".into(),
            Self::HiddenProcess => "/proc hides processes of others".into(),
            Self::NoPulseAnswer => "its pulse file cannot be asked whether work it started goes on".into(),
            Self::PulseLost => {
                "its pulse file was removed, and not every process that may carry it can be looked at".into()
            }
            Self::Refused(why) => format!("the system refused a look: {why}"),
            Self::Unreadable(why) => format!("its record cannot be read: {why}"),
            Self::NotAFile(what) => format!("its record is {what}"),
        }
    }
}

/// What the answer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// No record, or a released one.
    Free,
    /// Proved: this owner runs.
    Live(Through),
    /// Proved: every owner has ended and nobody carries the pulse.
    Dead,
    /// Neither.
    Unknown(Doubt),
    /// A newer format: not ours to judge.
    Newer(u64),
    /// Bytes that no version of ours wrote; why.
    Corrupt(String),
}

/// Through whom it is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Through {
    /// The owner at this place of `owners`.
    Owner(usize),
    /// A process that an owner started, which carries the pulse; every owner is proved to have ended.
    Descendant,
    /// Somebody who carries the pulse; whether an owner runs is not known.
    Carrier,
}

/// The answer with its evidence, rule by rule, for `-v`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Judgement {
    pub(crate) state: State,
    pub(crate) evidence: Vec<String>,
}

/// Rules 1 to 3: from the record and ourselves alone.
pub(crate) fn scope(record: &Record, here: &Here) -> Scope {
    if !here.proc_is_ours {
        return Scope::Unclear(Doubt::ProcNotOurs);
    }
    // Not read is not absent: two absent ids would count as equal.
    if let Some(why) = &here.unread {
        return Scope::Unclear(Doubt::Refused(why.clone()));
    }
    let (theirs, ours) = (&record.host, &here.host);
    let one_machine = theirs.machine_id.is_some() && theirs.machine_id == ours.machine_id;
    let same_kernel = !here.network && (here.local || one_machine);
    // A namespace that one side alone does not know may have a clock of its own.
    let one_clock = |stamp: Option<u64>| {
        stamp == ours.time_ns && ours.time_ns.is_none_or(|inode| inode == INITIAL_TIME_NS)
    };
    let later = |(boottime_us, time_ns)| one_clock(time_ns) && boottime_us > ours.boottime_us;
    if same_kernel && record.boot_stamps().any(later) {
        return Scope::Restarted("it was written later after a boot than it is now");
    }
    match (&theirs.boot_id, &ours.boot_id) {
        (Some(a), Some(b)) if a == b => {}
        (Some(_), Some(_)) if same_kernel => return Scope::Restarted("another boot id on this machine"),
        (Some(_), Some(_)) => return Scope::Unclear(Doubt::OtherMachine),
        (None, None) => {}
        _ => return Scope::Unclear(Doubt::NoBootId),
    }
    if theirs.pid_ns == ours.pid_ns {
        return Scope::ByNumber;
    }
    let inodes_known = record.owners.iter().all(|owner| owner.pidfs_ino.is_some());
    if ours.pid_ns == Some(INITIAL_PID_NS) && inodes_known && here.pidfs && here.sees_everybody {
        Scope::Search
    } else if here.private {
        Scope::Private
    } else {
        Scope::Unclear(Doubt::OtherContainer)
    }
}

/// Every rule: `owners` holds what was seen of each owner of the record, as [`scope`] asked;
/// `pulse` is asked last and needed only when the owners are not LIVE.
pub(crate) fn judge(found: &Found, here: &Here, owners: &[OwnerFacts], pulse: PulseFacts) -> Judgement {
    let plain = |state, line: String| Judgement { state, evidence: vec![line] };
    let record = match found {
        Found::Nothing => return nothing(pulse),
        Found::Unreadable(why) => {
            return plain(
                State::Unknown(Doubt::Unreadable(why.clone())),
                format!("rule 1: unreadable: {why}"),
            );
        }
        Found::NotAFile(what) => {
            return plain(State::Unknown(Doubt::NotAFile(what)), format!("rule 1: {what}"));
        }
        Found::Bad(BadRecord::Newer(schema)) => {
            return plain(State::Newer(*schema), format!("rule 1: schema {schema} is newer"));
        }
        Found::Bad(BadRecord::Corrupt(why)) => return corrupt(why, pulse),
        Found::Record(stored) => &stored.record,
    };
    if record.released_at.is_some() {
        return plain(State::Free, "rule 0: its record says that it was released".to_owned());
    }
    let scope = scope(record, here);
    let mut evidence = vec![describe(&scope)];
    let identity = by_identity(record, here, &scope, owners, &mut evidence);
    if matches!(identity, State::Live(_)) || matches!(scope, Scope::Unclear(Doubt::ProcNotOurs)) {
        return Judgement { state: identity, evidence };
    }
    let restarted = matches!(scope, Scope::Restarted(_));
    let state = match (pulse, &identity) {
        (PulseFacts::Held, State::Dead) => {
            evidence.push("rule 6: a process it started carries the pulse: LIVE".into());
            State::Live(Through::Descendant)
        }
        (PulseFacts::Held, _) => {
            evidence.push("rule 6: something of its run carries the pulse: LIVE".into());
            State::Live(Through::Carrier)
        }
        (PulseFacts::Unclear, State::Dead) if !restarted => {
            evidence.push("rule 6: the pulse cannot be asked: UNKNOWN".into());
            State::Unknown(Doubt::NoPulseAnswer)
        }
        (PulseFacts::Lost, State::Dead) if !restarted => {
            evidence.push(
                "rule 6: the pulse file was removed, and not everybody could be looked at: UNKNOWN".into(),
            );
            State::Unknown(Doubt::PulseLost)
        }
        (PulseFacts::NotAsked, _) => identity,
        (PulseFacts::Free | PulseFacts::Unclear | PulseFacts::Lost, _) => {
            evidence.push("rule 6: nobody is seen to carry the pulse".into());
            identity
        }
    };
    Judgement { state, evidence }
}

/// No record: free, unless the pulse of the last token is carried. Then somebody removed the record of a
/// run that lives.
fn nothing(pulse: PulseFacts) -> Judgement {
    let mut evidence = vec!["rule 0: no record".to_owned()];
    let state = if pulse == PulseFacts::Held {
        evidence
            .push("rule 0: the pulse of the last token is carried, so the record was removed: LIVE".into());
        State::Live(Through::Carrier)
    } else {
        State::Free
    };
    Judgement { state, evidence }
}

/// A corrupt record is nobody's, unless a run of it still carries the pulse.
fn corrupt(why: &str, pulse: PulseFacts) -> Judgement {
    let mut evidence = vec![format!("rule 1: corrupt: {why}")];
    let state = match pulse {
        PulseFacts::Held => {
            evidence.push("rule 6: somebody carries the pulse: LIVE".into());
            State::Live(Through::Carrier)
        }
        PulseFacts::Unclear | PulseFacts::Lost => {
            evidence.push("rule 6: the pulse cannot be asked: UNKNOWN".into());
            State::Unknown(Doubt::NoPulseAnswer)
        }
        PulseFacts::Free | PulseFacts::NotAsked => State::Corrupt(why.to_owned()),
    };
    Judgement { state, evidence }
}

/// Rules 2 to 5: LIVE if any owner is, DEAD only if all are, else UNKNOWN.
fn by_identity(
    record: &Record,
    here: &Here,
    scope: &Scope,
    owners: &[OwnerFacts],
    evidence: &mut Vec<String>,
) -> State {
    match scope {
        Scope::Restarted(_) | Scope::Private => return State::Dead,
        Scope::Unclear(doubt) => return State::Unknown(doubt.clone()),
        Scope::Search | Scope::ByNumber => {}
    }
    let time_differs = record.host.time_ns != here.host.time_ns;
    let mut doubt = None;
    for (place, owner) in record.owners.iter().enumerate() {
        let facts = owners.get(place).unwrap_or(&OwnerFacts::NotLooked);
        let (answer, line) = one_owner(owner, facts, time_differs);
        evidence.push(format!("{line} (pid {})", owner.pid));
        match answer {
            OwnerAnswer::Live => return State::Live(Through::Owner(place)),
            OwnerAnswer::Dead => {}
            OwnerAnswer::Unknown(why) => doubt = doubt.or(Some(why)),
        }
    }
    doubt.map_or(State::Dead, State::Unknown)
}

/// One owner's share of the verdict.
enum OwnerAnswer {
    Live,
    Dead,
    Unknown(Doubt),
}

fn one_owner(owner: &ProcessIdentity, facts: &OwnerFacts, time_differs: bool) -> (OwnerAnswer, String) {
    match facts {
        OwnerFacts::NotLooked => (
            OwnerAnswer::Unknown(Doubt::Refused("no look was made".into())),
            "no look was made: UNKNOWN".into(),
        ),
        OwnerFacts::ByPidFd(facts) => by_pidfd(facts),
        OwnerFacts::BySearch(facts) => by_search(*facts),
        OwnerFacts::ByProc(..) if time_differs => (
            OwnerAnswer::Unknown(Doubt::OtherTimeNamespace),
            "rule 5: start ticks of another time namespace: UNKNOWN".into(),
        ),
        OwnerFacts::ByProc(proc, kill) => by_proc(owner, proc, *kill),
    }
}

/// Rule 4: the pidfd decides alone. Right for zombies, for a dead leader with live threads, under hidepid.
fn by_pidfd(facts: &PidFdFacts) -> (OwnerAnswer, String) {
    match facts {
        PidFdFacts::Absent => (OwnerAnswer::Dead, "rule 4: no process has the number: DEAD".into()),
        PidFdFacts::OtherInode => (OwnerAnswer::Dead, "rule 4: another process has the number: DEAD".into()),
        PidFdFacts::SameInode { ended: true } => {
            (OwnerAnswer::Dead, "rule 4: its pidfd says ended: DEAD".into())
        }
        PidFdFacts::SameInode { ended: false } => {
            (OwnerAnswer::Live, "rule 4: same pidfd inode, running: LIVE".into())
        }
        PidFdFacts::Refused(why) => {
            (OwnerAnswer::Unknown(Doubt::Refused(why.clone())), format!("rule 4: pidfd_open: {why}: UNKNOWN"))
        }
    }
}

/// Rule 3, from the initial pid namespace.
fn by_search(facts: SearchFacts) -> (OwnerAnswer, String) {
    match facts {
        SearchFacts::Running => (OwnerAnswer::Live, "rule 3: found among all processes: LIVE".into()),
        SearchFacts::Ended => (OwnerAnswer::Dead, "rule 3: found, and its pidfd says ended: DEAD".into()),
        SearchFacts::Missing => (OwnerAnswer::Dead, "rule 3: not found in two complete passes: DEAD".into()),
        SearchFacts::Incomplete => {
            (OwnerAnswer::Unknown(Doubt::OtherContainer), "rule 3: a pass was not complete: UNKNOWN".into())
        }
    }
}

/// Rule 5: without pidfs.
fn by_proc(owner: &ProcessIdentity, proc: &ProcFacts, kill: KillFacts) -> (OwnerAnswer, String) {
    match (proc, kill) {
        (ProcFacts::Absent, KillFacts::Absent) => {
            (OwnerAnswer::Dead, "rule 5: /proc and kill say there is none: DEAD".into())
        }
        (ProcFacts::Absent, KillFacts::Present | KillFacts::Unclear) => (
            OwnerAnswer::Unknown(Doubt::HiddenProcess),
            "rule 5: nothing in /proc, but the number is taken: UNKNOWN".into(),
        ),
        (ProcFacts::Unreadable(why), _) => {
            (OwnerAnswer::Unknown(Doubt::Refused(why.clone())), format!("rule 5: /proc: {why}: UNKNOWN"))
        }
        (ProcFacts::Seen { start_ticks, tgid, all_threads_dead }, _) => {
            if *tgid != owner.pid {
                (OwnerAnswer::Dead, "rule 5: the number is a thread's now: DEAD".into())
            } else if *start_ticks != owner.start_ticks {
                (OwnerAnswer::Dead, "rule 5: another start time: DEAD".into())
            } else if *all_threads_dead {
                (OwnerAnswer::Dead, "rule 5: every thread is a zombie: DEAD".into())
            } else {
                (OwnerAnswer::Live, "rule 5: same number and start time: LIVE".into())
            }
        }
    }
}

fn describe(scope: &Scope) -> String {
    match scope {
        Scope::Restarted(why) => format!("rule 2: {why}: DEAD"),
        Scope::Search => "rule 3: another pid namespace, searched from the initial one".into(),
        Scope::Private => "rule 3: another pid namespace, directory marked private: DEAD".into(),
        Scope::ByNumber => "rule 2: same boot, same pid namespace".into(),
        Scope::Unclear(doubt) => format!("rules 1 to 3: {}: UNKNOWN", doubt.reason()),
    }
}

#[cfg(test)]
#[path = "liveness_owner_tests.rs"]
mod owner_tests;
#[cfg(test)]
#[path = "liveness_tests.rs"]
mod tests;
#[cfg(test)]
#[path = "liveness_told_tests.rs"]
mod told_tests;
#[cfg(test)]
#[path = "liveness_world.rs"]
mod world;
