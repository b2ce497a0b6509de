//! When a run's time is over. Pure: the time comes from the caller.

use std::time::Duration;

/// How long a run may take, and how long it may take to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// From the start; `None`: for ever.
    pub(crate) max_run: Option<Duration>,
    /// From the asking; `None`: it is asked and never killed.
    pub(crate) kill_after: Option<Duration>,
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    Nothing,
    /// Ask it to end.
    Ask,
    Kill,
}

impl Limits {
    /// What is due after `run` since the start.
    pub(crate) fn due(self, run: Duration) -> Due {
        match (self.max_run, self.kill_at()) {
            (_, Some(kill_at)) if run >= kill_at => Due::Kill,
            (Some(max_run), _) if run >= max_run => Due::Ask,
            _ => Due::Nothing,
        }
    }

    /// How long until something else is due.
    pub(crate) fn until_next(self, run: Duration) -> Option<Duration> {
        let next = match self.due(run) {
            Due::Nothing => self.max_run,
            Due::Ask => self.kill_at(),
            Due::Kill => None,
        };
        next.map(|next| next.saturating_sub(run))
    }

    fn kill_at(self) -> Option<Duration> {
        Some(self.max_run?.saturating_add(self.kill_after?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_asked_then_killed_and_never_killed_unless_wanted() {
        let seconds = Duration::from_secs;
        let none = Limits::default();
        assert_eq!((none.due(seconds(9_999)), none.until_next(seconds(0))), (Due::Nothing, None));
        let ask = Limits { max_run: Some(seconds(10)), kill_after: None };
        assert_eq!((ask.due(seconds(9)), ask.until_next(seconds(9))), (Due::Nothing, Some(seconds(1))));
        assert_eq!((ask.due(seconds(10)), ask.until_next(seconds(10))), (Due::Ask, None));
        assert_eq!(ask.due(seconds(9_999)), Due::Ask);
        let kill = Limits { kill_after: Some(seconds(5)), ..ask };
        assert_eq!((kill.due(seconds(12)), kill.until_next(seconds(12))), (Due::Ask, Some(seconds(3))));
        assert_eq!((kill.due(seconds(15)), kill.until_next(seconds(15))), (Due::Kill, None));
        let at_once = Limits { kill_after: Some(Duration::ZERO), ..ask };
        assert_eq!(at_once.due(seconds(10)), Due::Kill);
        let endless = Limits { kill_after: Some(Duration::MAX), ..ask };
        assert_eq!(endless.due(seconds(11)), Due::Ask);
    }
}
