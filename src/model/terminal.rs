//! A terminal of a runner: facts only, each with its own way of being unknown.

use crate::model::identity::ProcessIdentity;
use crate::model::mark::AgentMark;
use crate::model::time::WallTime;
use std::time::Duration;

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
    pub(crate) viewer: Viewer,
    /// The runner's id of a session that was made for one run: all its terminals close together or none does.
    pub(crate) session: Option<String>,
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
    /// It has no tag of its own and stands in the session that was made for a run of this named automation.
    Part(String),
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

/// Somebody who looks at a terminal through the runner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Viewer {
    /// A client shows a session that has it.
    pub(crate) attached: bool,
    /// When such a client last did something.
    pub(crate) active: Option<WallTime>,
    /// It scrolls, selects or searches (a mode of the runner).
    pub(crate) in_mode: bool,
    /// When a client last came: programs repaint then.
    pub(crate) came: Option<WallTime>,
}

/// What the runner, or the agent itself, says about its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    /// It costs a call to know.
    NotAsked,
    /// Idle now, says the runner.
    Yes(String),
    /// What stands in its mark.
    Marked(AgentMark),
    /// There is no mark at all.
    Unmarked,
    /// Proved to be at work, says the runner.
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
    /// The runner tells no process of it: no veto from here, no wait afterwards.
    Unmapped,
    Seen(Activity),
    Unreadable(String),
}

/// The processes of one terminal over a short sample.
#[derive(Clone, Debug, Default)]
pub(crate) struct Activity {
    /// How long they were watched; zero: nothing was compared.
    pub(crate) sample: Duration,
    /// Foreground group of the terminal, -1 for none.
    pub(crate) foreground: i32,
    /// The first process, then everybody in its session, on its terminal, or descended from those, then
    /// whoever else carries the pulse of its run.
    pub(crate) members: Vec<Member>,
    /// Established TCP connections of all of them; `None` was not looked for, or cannot be seen.
    pub(crate) connections: Option<usize>,
}

/// One process of a terminal.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) comm: String,
    pub(crate) state: char,
    pub(crate) leader: bool,
    pub(crate) group: i32,
    /// From its start ticks: good to about a second against other clocks, to a tick against each other.
    pub(crate) started: WallTime,
    /// Processor time in the sample.
    pub(crate) cpu: Duration,
    pub(crate) storage: Storage,
    /// Its standard input is the terminal of the pane.
    pub(crate) on_terminal: bool,
    /// For how long, seen over passes, it used no processor time and moved no byte.
    pub(crate) quiet: Option<Duration>,
}

/// Bytes a process moved from and to storage in the sample (`read_bytes`, `write_bytes` of
/// proc_pid_io(5)). What goes through pipes, sockets and event counters is not in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    Moved(u64),
    /// /proc does not let us see.
    Unreadable,
    /// Nothing was compared, or this kernel does not count.
    NotCounted,
}

/// What is known about the processes of one kind of agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AgentRules {
    /// Names its process goes by (`/proc/PID/comm`).
    pub(crate) names: Vec<String>,
    /// Names of processes that belong to it while it is idle.
    pub(crate) residents: Vec<String>,
}

/// The look immediately before the close.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    NotAsked,
    Same,
    Changed(String),
    Unreadable(String),
}
