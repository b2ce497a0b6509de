//! Facts for the liveness verdict: what was seen, not what it means.

use crate::model::host::HostIdentity;
use crate::model::record::{BadRecord, Stored};

/// Ourselves and the directory, at the moment of judging.
#[derive(Clone, Debug, Default)]
pub(crate) struct Here {
    /// `boottime_us` is "now": read after the record was.
    pub(crate) host: HostIdentity,
    /// Why a fact of `host` that there is could not be read now; nothing can be compared then.
    pub(crate) unread: Option<String>,
    /// `/proc` describes our own pid namespace.
    pub(crate) proc_is_ours: bool,
    /// The directory is on a file system of this machine.
    pub(crate) local: bool,
    /// The directory is marked as shared between machines.
    pub(crate) network: bool,
    /// The directory is marked as used by one container at a time.
    pub(crate) private: bool,
    /// `/proc` shows every process: nothing is hidden on that mount, or we may see through it.
    pub(crate) sees_everybody: bool,
    /// Our pidfds carry inodes that tell processes apart.
    pub(crate) pidfs: bool,
}

/// What stood in the record's place.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    Nothing,
    Record(Box<Stored>),
    Bad(BadRecord),
    /// It could not be read; the reason in the system's words.
    Unreadable(String),
    /// A directory, FIFO, link or device.
    NotAFile(&'static str),
}

impl Found {
    /// The record, if it is one.
    pub(crate) fn stored(&self) -> Option<&Stored> {
        match self {
            Self::Record(stored) => Some(stored),
            _ => None,
        }
    }
}

/// What was seen of one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OwnerFacts {
    /// Looked at through a pidfd, with inodes on both sides.
    ByPidFd(PidFdFacts),
    /// Looked at through `/proc` and `kill(pid, 0)`.
    ByProc(ProcFacts, KillFacts),
    /// Searched among all processes by its pidfd inode.
    BySearch(SearchFacts),
    /// Not looked at: the scope says that a look would prove nothing.
    NotLooked,
}

/// `pidfd_open` of an owner's number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PidFdFacts {
    /// ESRCH, EINVAL or ENOENT: no process has this number.
    Absent,
    /// Any other errno, in the system's words.
    Refused(String),
    /// Another process has it.
    OtherInode,
    /// The recorded process has it; whether its pidfd polls as ended.
    SameInode { ended: bool },
}

/// `/proc/PID` of an owner's number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProcFacts {
    Absent,
    Unreadable(String),
    Seen {
        start_ticks: u64,
        tgid: u32,
        /// Two equal readings of `task/` that show only zombies and dead threads.
        all_threads_dead: bool,
    },
}

/// `kill(pid, 0)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KillFacts {
    /// ESRCH.
    Absent,
    /// Allowed, or EPERM or EACCES: somebody has the number.
    Present,
    /// Any other answer.
    Unclear,
}

/// A search of every process for one pidfd inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SearchFacts {
    Running,
    Ended,
    /// Not found on two complete passes.
    Missing,
    /// A pass could not look at everybody.
    Incomplete,
}

/// The read lock on the token's byte of the pulse file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PulseFacts {
    /// Not asked, because nothing depends on it.
    NotAsked,
    Held,
    Free,
    /// The file cannot be asked.
    Unclear,
    /// The file was removed, and not everybody who may carry it could be looked at.
    Lost,
}
