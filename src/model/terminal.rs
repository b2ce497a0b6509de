//! A terminal of a runner: facts only, each with its own way of being unknown.

use crate::model::identity::ProcessIdentity;
use crate::model::time::WallTime;

/// One terminal as a runner lists it. What is dear to find out starts as "not asked".
#[derive(Clone, Debug)]
pub(crate) struct Terminal {
    /// The runner's own id: `%3`, `term_…`; what it is closed by.
    pub(crate) id: String,
    /// Text for people, as the runner gave it: never a key, escaped before it is shown.
    pub(crate) title: String,
    pub(crate) belongs: Belongs,
    /// We run in it.
    pub(crate) own: bool,
    /// Its process has ended and the runner keeps the screen.
    pub(crate) dead: bool,
    /// The first process, where the runner tells.
    pub(crate) leader: Option<ProcessIdentity>,
    /// Device number of the terminal, where known.
    pub(crate) tty: Option<i32>,
    /// When the run in it began.
    pub(crate) started: Option<WallTime>,
    pub(crate) output: Output,
    pub(crate) idle: Idle,
    /// The next run of its automation goes into this very terminal.
    pub(crate) newest_of_reuse: bool,
    /// Closing it makes another one look active: it goes last.
    pub(crate) close_last: bool,
    pub(crate) processes: Processes,
    pub(crate) again: Again,
}

/// Whose run a terminal shows, by an exact join of ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Belongs {
    /// A run of this named automation.
    Named(String),
    /// A run of an automation that was not named.
    Other(String),
    /// No run is known for it.
    NoRun,
    /// It carries a tag or ids that name another pane or process (inherited, respawned, recycled).
    NotItsOwn(String),
    /// The name means several automations, and not all of them are meant.
    Ambiguous(String),
    /// The run has not got its terminal yet, or never had one.
    Starting(String),
    /// The run's terminal was retired and taken up again with another process.
    Resumed(String),
    /// What would prove it could not be read.
    Unreadable(String),
}

/// When something was last printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Output {
    /// The latest moment at which something may have been printed or typed; `None` is unknown.
    pub(crate) moved: Option<WallTime>,
    /// The program printed nothing later than this: the earliest such bound of all clocks.
    pub(crate) printed_by: Option<WallTime>,
    /// Which clock said so, or why there is none.
    pub(crate) source: String,
}

/// What the runner, or the agent itself, says about its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    /// It costs a call to know.
    NotAsked,
    /// Idle now, says the runner.
    Yes(String),
    /// The agent said "idle" at this time.
    MarkedAt(WallTime),
    /// Proved to be at work.
    Busy(String),
    /// It waits for a person.
    Question(String),
    /// Not idle, or never said so.
    No(String),
    /// It could not be asked, or the answer was not understood.
    Unreadable(String),
}

/// What /proc says about the processes of a terminal.
#[derive(Clone, Debug)]
pub(crate) enum Processes {
    NotAsked,
    /// No process is known for it: no veto from here, no wait afterwards.
    Unmapped,
    Seen(Activity),
    Unreadable(String),
}

/// The processes of one terminal over a short sample.
#[derive(Clone, Debug)]
pub(crate) struct Activity {
    /// Process group of the first process.
    pub(crate) own_group: i32,
    /// Foreground group of the terminal, -1 for none.
    pub(crate) foreground: i32,
    /// The first process, then everybody in its session, on its terminal, or descended from those.
    pub(crate) members: Vec<Member>,
}

/// One process of a terminal.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) pid: u32,
    pub(crate) comm: String,
    pub(crate) state: char,
    pub(crate) leader: bool,
    /// From its start ticks: good to about a second.
    pub(crate) started: WallTime,
    /// Processor time in the sample, in clock ticks.
    pub(crate) cpu_ticks: u64,
    /// Bytes written in the sample; `None` where /proc does not let us see.
    pub(crate) wrote: Option<u64>,
}

/// The look immediately before the close.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    NotAsked,
    Same,
    Changed(String),
    Unreadable(String),
}
