//! Where a ticket goes when the command of a run has ended. Its status says where; the
//! end of the last process that it started says when, and that is not decided here.

use crate::model::claim::Goal;

/// How a process ended, as wait(2) tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandEnd {
    /// Its exit status.
    pub(crate) code: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
}

/// Was the run told to end, and by whom? The first of them counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Nothing,
    /// TERM or HUP: the system ended it, and not its work.
    BySystem,
    /// INT or QUIT: a person stopped it.
    ByPerson,
    /// `--max-run` was over.
    TimeOver,
}

/// Where the ticket goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    To(Goal),
    /// Killed by a signal that did not come through us: a death like that of a killed run.
    Died(i32),
}

impl CommandEnd {
    /// The signal it died of. A shell reports the death of its last command as 128 + N (signal(7) has 64).
    pub(crate) fn died_of(self) -> Option<i32> {
        self.signal.or_else(|| self.code.filter(|code| (129..=192).contains(code)).map(|code| code - 128))
    }
}

/// Decides; `success` is where status 0 leads.
pub(crate) fn destination(end: CommandEnd, told: Told, success: Goal) -> Destination {
    match (end.code, told) {
        (_, Told::TimeOver) => Destination::To(Goal::Failed),
        (Some(0), _) => Destination::To(success),
        (Some(75), _) | (_, Told::BySystem) => Destination::To(Goal::Queue),
        (_, Told::ByPerson) => Destination::To(Goal::Failed),
        (_, Told::Nothing) => match end.died_of() {
            Some(signal) => Destination::Died(signal),
            None => Destination::To(Goal::Failed),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_says_where_a_ticket_goes() {
        let code = |code| CommandEnd { code: Some(code), signal: None };
        let signal = |signal| CommandEnd { code: None, signal: Some(signal) };
        let to = |end, told| destination(end, told, Goal::CiWait);
        let goal = Destination::To;
        assert_eq!(to(code(0), Told::Nothing), goal(Goal::CiWait));
        assert_eq!(to(code(75), Told::Nothing), goal(Goal::Queue));
        assert_eq!(to(code(1), Told::Nothing), goal(Goal::Failed));
        assert_eq!(to(code(128), Told::Nothing), goal(Goal::Failed), "no signal has number 0");
        assert_eq!(to(code(255), Told::Nothing), goal(Goal::Failed), "nor 127");
        assert_eq!(to(signal(9), Told::Nothing), Destination::Died(9), "killed from outside");
        assert_eq!(to(code(137), Told::Nothing), Destination::Died(9), "as a shell says it");
        assert_eq!(to(signal(15), Told::BySystem), goal(Goal::Queue), "ended by the system");
        assert_eq!(to(signal(9), Told::BySystem), goal(Goal::Queue), "by --kill-after");
        assert_eq!(to(code(1), Told::BySystem), goal(Goal::Queue));
        assert_eq!(to(code(0), Told::BySystem), goal(Goal::CiWait), "it was through all the same");
        assert_eq!(to(code(2), Told::ByPerson), goal(Goal::Failed));
        assert_eq!(to(signal(2), Told::ByPerson), goal(Goal::Failed), "a person stopped it");
        for end in [code(0), code(75), signal(15)] {
            assert_eq!(to(end, Told::TimeOver), goal(Goal::Failed), "--max-run");
        }
    }
}
