//! What an agent said about itself, as it stands in the pane option `@orion_state`: one word, the
//! second it was said in, and `key=value` words that say who set it and what was said before.
//!
//! `idle 1796029924 by=hook busy=4 busyat=1796029801 idle=3 idleat=1796029924 none=1 first=1796020000`
//!
//! Old marks have only the word and the second. Keys that are not known are skipped, so that a newer
//! `orion-mark` can add some. A known key with a bad value, or one that stands there twice, makes the whole
//! mark unknown, and unknown keeps.

use crate::model::time::WallTime;
use std::fmt::{self, Display};

/// Longer texts are not marks of ours.
const LONGEST: usize = 1024;
/// Seconds that still fit into milliseconds.
const LAST_SECOND: u64 = u64::MAX / 1000;

/// The first word of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkWord {
    /// A turn runs; or the run has only been claimed, see [`AgentMark::by`].
    Busy,
    /// The turn is over.
    Idle,
    /// It waits for a person.
    Question,
    /// The agent has ended its session.
    Ended,
    /// The turn is over and work of the agent goes on in the background ([`AgentMark::tasks`]).
    Working,
    /// Hooks speak here, and no turn has begun yet.
    Ready,
}

impl MarkWord {
    const ALL: [Self; 6] = [Self::Busy, Self::Idle, Self::Question, Self::Ended, Self::Working, Self::Ready];

    /// As it stands in the option.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Idle => "idle",
            Self::Question => "question",
            Self::Ended => "ended",
            Self::Working => "working",
            Self::Ready => "ready",
        }
    }
}

/// Who set a mark (`by=`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MarkedBy {
    /// A hook of the agent itself.
    Hook,
    /// `orion-mark claim`, before the agent ran: nothing is known about any turn.
    Claim,
    /// The mark does not say: set by hand or by an older version.
    NotSaid,
    /// A word that this version does not know.
    Other(String),
}

/// How often hooks said one thing here, and when the last time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MarkCount {
    pub(crate) count: u64,
    pub(crate) last: Option<WallTime>,
}

impl MarkCount {
    fn add(&mut self, now: WallTime) {
        self.count = self.count.saturating_add(1);
        self.last = Some(now);
    }
}

/// The process that set a mark (`marker=PID:START`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MarkSetter {
    pub(crate) pid: u32,
    pub(crate) start_ticks: u64,
}

/// One mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AgentMark {
    pub(crate) word: MarkWord,
    /// When it was said; whole seconds.
    pub(crate) at: WallTime,
    pub(crate) by: MarkedBy,
    /// Pieces of work that go on in the background, by what was told last (`tasks=`).
    pub(crate) tasks: Option<u64>,
    /// Marks that a turn runs, set by hooks (`busy=`, `busyat=`).
    pub(crate) busy: MarkCount,
    /// Marks that a turn has ended, set by hooks (`idle=`, `idleat=`).
    pub(crate) idle: MarkCount,
    /// The agent said that no background work runs (`none=1`).
    pub(crate) none: bool,
    /// The first mark that a turn runs (`first=`).
    pub(crate) first: Option<WallTime>,
    pub(crate) marker: Option<MarkSetter>,
}

/// What an end of turn says about work in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Background {
    /// Nothing: agents that do not know the question.
    NotSaid,
    /// None runs and no wake-up is planned.
    None,
    /// This many run or are planned.
    Some(u64),
}

/// One thing that is said to a pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AgentSaid {
    /// `orion-mark claim`: a new run begins here.
    Claimed,
    /// The agent has started and its hooks work (SessionStart).
    Ready,
    /// A turn runs (UserPromptSubmit, PreToolUse, …).
    Busy,
    /// A turn has ended (Stop, StopFailure).
    Idle(Background),
    /// It still waits at its prompt (`idle_prompt`).
    Reminder,
    /// It waits for a person.
    Question,
    /// Its session has ended.
    Ended,
}

impl AgentMark {
    /// A mark with nothing before it.
    pub(crate) fn new(word: MarkWord, at: WallTime, by: MarkedBy) -> Self {
        Self {
            word,
            at,
            by,
            tasks: None,
            busy: MarkCount::default(),
            idle: MarkCount::default(),
            none: false,
            first: None,
            marker: None,
        }
    }

    /// Has a hook of the agent ever spoken here?
    pub(crate) fn is_hooked(&self) -> bool {
        self.by == MarkedBy::Hook || self.busy.count > 0 || self.idle.count > 0
    }

    /// The mark after something was said at `now`; `before` is what stood there, if it could be read.
    ///
    /// Only an end of turn that speaks about background work ends what was told about that: neither a
    /// reminder a minute later nor a turn that was cut short turns `working` into `idle`.
    pub(crate) fn after(before: Option<&Self>, said: AgentSaid, now: WallTime) -> Self {
        let now = WallTime(now.0 - now.0 % 1000);
        if said == AgentSaid::Claimed {
            return Self::new(MarkWord::Busy, now, MarkedBy::Claim);
        }
        let mut mark = before.cloned().unwrap_or_else(|| Self::new(MarkWord::Ready, now, MarkedBy::Hook));
        let only_claimed = !mark.is_hooked() && mark.by == MarkedBy::Claim;
        mark.by = MarkedBy::Hook;
        mark.marker = None;
        let say = |mark: &mut Self, word| {
            mark.word = word;
            mark.at = now;
        };
        // Nothing about background work: what was told before holds.
        let said_nothing = |mark: &mut Self| match mark.tasks {
            Some(_) if mark.word == MarkWord::Working => {}
            Some(_) => say(mark, MarkWord::Working),
            None => say(mark, MarkWord::Idle),
        };
        match said {
            AgentSaid::Claimed => {}
            // Also after a session was cleared or resumed: that neither begins a turn nor ends one.
            AgentSaid::Ready if only_claimed || before.is_none() => say(&mut mark, MarkWord::Ready),
            AgentSaid::Ready => {}
            AgentSaid::Busy => {
                say(&mut mark, MarkWord::Busy);
                mark.busy.add(now);
                mark.first = mark.first.or(Some(now));
                // Work that was told stays told: a turn that is cut short says nothing about it.
                mark.none = false;
            }
            AgentSaid::Idle(background) => {
                mark.idle.add(now);
                match background {
                    Background::NotSaid => said_nothing(&mut mark),
                    Background::None | Background::Some(0) => {
                        say(&mut mark, MarkWord::Idle);
                        (mark.none, mark.tasks) = (true, None);
                    }
                    Background::Some(tasks) => {
                        say(&mut mark, MarkWord::Working);
                        (mark.none, mark.tasks) = (false, Some(tasks));
                    }
                }
            }
            // A question stays one.
            AgentSaid::Reminder if matches!(mark.word, MarkWord::Question | MarkWord::Ended) => {}
            AgentSaid::Reminder => {
                mark.idle.add(now);
                said_nothing(&mut mark);
            }
            AgentSaid::Question => say(&mut mark, MarkWord::Question),
            AgentSaid::Ended => say(&mut mark, MarkWord::Ended),
        }
        mark
    }

    /// Reads a mark.
    ///
    /// # Errors
    /// What is wrong with it, for people: lower case, no full stop.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err("it is longer than any mark".to_owned());
        }
        let mut words = text.split(' ');
        let first = words.next().unwrap_or_default();
        let word = MarkWord::ALL.into_iter().find(|word| word.as_str() == first);
        let word = word.ok_or_else(|| format!("it begins with {first:?}"))?;
        let at = words.next().and_then(second).ok_or("no time stands behind its word")?;
        let mut mark = Self::new(word, at, MarkedBy::NotSaid);
        let mut seen: Vec<&str> = Vec::new();
        for (place, word) in words.enumerate() {
            let (key, value) = match word.split_once('=') {
                Some(pair) => pair,
                None if place == 0 && mark.word == MarkWord::Working => ("tasks", word),
                None => return Err(format!("{word:?} in it has no key")),
            };
            if seen.contains(&key) {
                return Err(format!("{key} stands in it twice"));
            }
            seen.push(key);
            mark.read(key, value).ok_or_else(|| format!("{key}={value} in it is not understood"))?;
        }
        Ok(mark)
    }

    /// `None` for a bad value.
    fn read(&mut self, key: &str, value: &str) -> Option<()> {
        match key {
            "by" => {
                self.by = match value {
                    "" => return None,
                    "hook" => MarkedBy::Hook,
                    "claim" => MarkedBy::Claim,
                    other => MarkedBy::Other(other.to_owned()),
                }
            }
            "tasks" => self.tasks = Some(number(value)?),
            "busy" => self.busy.count = number(value)?,
            "busyat" => self.busy.last = Some(second(value)?),
            "idle" => self.idle.count = number(value)?,
            "idleat" => self.idle.last = Some(second(value)?),
            "none" => {
                self.none = match value {
                    "1" => true,
                    "0" => false,
                    _ => return None,
                }
            }
            "first" => self.first = Some(second(value)?),
            "marker" => {
                let (pid, start) = value.split_once(':')?;
                let pid = u32::try_from(number(pid)?).ok()?;
                self.marker = Some(MarkSetter { pid, start_ticks: number(start)? });
            }
            _ => {}
        }
        Some(())
    }
}

/// The text for the option.
impl Display for AgentMark {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.word.as_str(), self.at.seconds())?;
        match &self.by {
            MarkedBy::Hook => write!(out, " by=hook")?,
            MarkedBy::Claim => write!(out, " by=claim")?,
            MarkedBy::Other(other) => write!(out, " by={other}")?,
            MarkedBy::NotSaid => {}
        }
        if let Some(tasks) = self.tasks {
            write!(out, " tasks={tasks}")?;
        }
        for (name, tally) in [("busy", self.busy), ("idle", self.idle)] {
            if tally.count > 0 {
                write!(out, " {name}={}", tally.count)?;
            }
            if let Some(last) = tally.last {
                write!(out, " {name}at={}", last.seconds())?;
            }
        }
        if self.none {
            write!(out, " none=1")?;
        }
        if let Some(first) = self.first {
            write!(out, " first={}", first.seconds())?;
        }
        if let Some(marker) = self.marker {
            write!(out, " marker={}:{}", marker.pid, marker.start_ticks)?;
        }
        Ok(())
    }
}

/// Digits only: `parse` would take a sign.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn second(text: &str) -> Option<WallTime> {
    number(text).filter(|second| *second <= LAST_SECOND).map(|second| WallTime(second * 1000))
}

#[cfg(test)]
#[path = "mark_tests.rs"]
mod tests;
