//! Whose mark is it? An agent that an agent started as a tool has the same hooks and stands in the same pane,
//! but the end of its turn is not the end of the run.

use crate::model::mark::{AgentMark, MarkSetter};

/// Who speaks to a pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// The pane's agent, as far as anybody knows.
    Own,
    /// An agent that the pane's agent started: what it says is about itself.
    Nested,
    /// A process without a terminal: a daemon that one agent started may run the hooks of all of them.
    Daemon,
}

/// `before` is the mark that stands there; `agent` the process whose hook speaks, if it is not just a shell,
/// and whether it has a terminal; `callers` everybody above that hook, nearest first.
///
/// The pane's agent is the one that set the last mark. It is the speaker's caller only if the speaker is not it.
pub(crate) fn speaker(
    before: Option<&AgentMark>,
    agent: Option<MarkSetter>,
    has_terminal: bool,
    callers: &[MarkSetter],
) -> Speaker {
    if agent.is_some() && !has_terminal {
        return Speaker::Daemon;
    }
    let Some((first, agent)) = before.and_then(|mark| mark.marker).zip(agent) else {
        return Speaker::Own;
    };
    let place = |of: MarkSetter| callers.iter().position(|caller| *caller == of);
    match (place(agent), place(first)) {
        (Some(agent), Some(first)) if first > agent => Speaker::Nested,
        _ => Speaker::Own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::mark::{MarkWord, MarkedBy};
    use crate::model::time::WallTime;

    fn process(pid: u32) -> MarkSetter {
        MarkSetter { pid, start_ticks: u64::from(pid) * 10 }
    }

    fn by(pid: u32) -> AgentMark {
        let mut mark = AgentMark::new(MarkWord::Busy, WallTime(1000), MarkedBy::Hook);
        mark.marker = Some(process(pid));
        mark
    }

    #[test]
    fn an_agent_below_the_panes_agent_is_nested_and_nobody_else() {
        // The hook, a shell (9), the inner agent (8), a shell (7), the outer agent (6), the pane's first process (5).
        let callers = [process(9), process(8), process(7), process(6), process(5)];
        let says = |before: Option<&AgentMark>, agent| speaker(before, agent, true, &callers);
        assert_eq!(says(Some(&by(6)), Some(process(8))), Speaker::Nested);
        assert_eq!(says(Some(&by(8)), Some(process(8))), Speaker::Own, "its own mark before");
        assert_eq!(says(Some(&by(8)), Some(process(6))), Speaker::Own, "the outer one speaks for the pane");
        assert_eq!(says(Some(&by(4)), Some(process(8))), Speaker::Own, "an agent that has ended");
        assert_eq!(says(None, Some(process(8))), Speaker::Own);
        assert_eq!(speaker(None, Some(process(8)), false, &callers), Speaker::Daemon);
        assert_eq!(speaker(None, None, false, &callers), Speaker::Own);
        assert_eq!(says(Some(&by(6)), None), Speaker::Own, "a person's shell");
        let mut reused = by(6);
        reused.marker = Some(MarkSetter { pid: 6, start_ticks: 1 });
        assert_eq!(says(Some(&reused), Some(process(8))), Speaker::Own, "another process with that number");
    }
}
