//! Programs that keep terminals: list them, say idle, close one. Facts out; what
//! they mean is decided elsewhere. Another runner is one more file with a [`Runner`].

pub(crate) mod command;
mod field;
pub(crate) mod orca;
pub(crate) mod pane_mark;
pub(crate) mod tmux;

use crate::model::duration;
use crate::model::terminal::Terminal;
use crate::os::call::{self, CallAnswer, NoAnswer};
use std::collections::HashSet;
use std::process::Command;
use std::time::{Duration, Instant};

/// Time for calls: all of them together end at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    end: Instant,
    /// No single call gets more than this.
    most: Duration,
}

impl Budget {
    /// Calls until `end`, none longer than `most`.
    pub(crate) fn new(end: Instant, most: Duration) -> Self {
        Self { end, most }
    }

    /// What is left.
    pub(crate) fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// The same with an earlier end.
    pub(crate) fn until(self, end: Instant) -> Self {
        Self { end: self.end.min(end), ..self }
    }

    /// When it is over.
    pub(crate) fn end(&self) -> Instant {
        self.end
    }

    /// Calls a program within what is left.
    pub(crate) fn call(&self, command: &mut Command) -> Result<CallAnswer, Fault> {
        let cap = self.left().min(self.most);
        let name = command.get_program().to_string_lossy().into_owned();
        if cap.is_zero() {
            return Err(Fault::Deadline);
        }
        call::call(command, cap).map_err(|no| match no {
            NoAnswer::NotFound => Fault::Unavailable(format!("{name} was not found")),
            NoAnswer::TimedOut if self.left().is_zero() => Fault::Deadline,
            NoAnswer::TimedOut => {
                Fault::Unavailable(format!("{name} gave no answer within {}", duration::show(cap)))
            }
            NoAnswer::TooMuch => Fault::Unavailable(format!("{name} wrote more than 64 MiB")),
            NoAnswer::Failed(error) => {
                Fault::Unavailable(format!("{name} could not be run: {}", crate::error::reason(&error)))
            }
        })
    }
}

/// Why a runner said nothing. Every one of these means "unknown", never "no terminals".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing listens there.
    NoServer(String),
    /// No answer, or one that cannot be trusted.
    Unavailable(String),
    /// Our own time is over.
    Deadline,
}

impl Fault {
    /// For people; not escaped.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::NoServer(text) | Self::Unavailable(text) => text.clone(),
            Self::Deadline => "the deadline came before its answer".to_owned(),
        }
    }
}

/// Every terminal of a runner, and what a person should know about the list.
#[derive(Debug, Default)]
pub(crate) struct TerminalListing {
    pub(crate) terminals: Vec<Terminal>,
    pub(crate) warnings: Vec<String>,
    /// The runner gives a precheck of the named automations this long.
    pub(crate) precheck_limit: Option<Duration>,
}

/// What came of asking for a close. None of them proves anything about processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// The runner took the request.
    Asked,
    /// It was not there any more.
    Gone,
    /// The runner found it changed and left it.
    Refused(String),
    /// The runner could not.
    Failed(String),
}

/// A program that keeps terminals. No text it gives is escaped. After the list, several threads ask at once.
pub(crate) trait Runner: Send + Sync {
    /// For people: which runner, and which of several servers.
    fn label(&self) -> String;

    /// Every terminal with its cheap facts; `named` are the automations whose runs may be closed.
    fn list(&mut self, named: &[String], budget: Budget) -> Result<TerminalListing, Fault>;

    /// Fills in [`Terminal::idle`] where the list could not.
    fn ask_idle(&self, terminal: &mut Terminal, budget: Budget);

    /// Finds the first process of terminals whose list does not tell it.
    fn map_processes(&self, _terminals: &mut [&mut Terminal]) {}

    /// The look immediately before the close: fills in [`Terminal::again`].
    fn look_again(&self, terminal: &mut Terminal, budget: Budget);

    /// What is on its screen and above it; `None` where the runner has no way to say.
    fn text(&self, terminal: &Terminal, budget: Budget) -> Result<Option<Vec<u8>>, Fault>;

    /// Closes exactly this terminal, guarded where the runner can.
    fn close(&self, terminal: &Terminal, budget: Budget) -> Closing;

    /// The ids that exist now, and no less: for looking whether a close has worked.
    fn present(&self, budget: Budget) -> Result<HashSet<String>, Fault>;
}

/// The first line a program wrote, for a message.
fn first_line(bytes: &[u8]) -> String {
    let line = bytes.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty());
    String::from_utf8_lossy(line.unwrap_or_default().trim_ascii()).chars().take(200).collect()
}
