//! The breaker of a watch: runs that end at once say something about us (a quota, a login, a
//! full disk) and not about their tickets. Pure: the time and the chance come from the caller.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;

/// Trials are never further apart than this.
const LONGEST: Duration = Duration::from_secs(1800);
/// So many endings of a row are remembered.
const REMEMBERED: usize = 50;

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BreakerRules {
    /// A run that ends within this time was quick; zero turns the breaker off.
    pub(crate) quick: Duration,
    /// Status 0 counts as well.
    pub(crate) quick_success: bool,
    /// So many distinct tickets in a row open it.
    pub(crate) trip: usize,
    /// Before the first trial.
    pub(crate) retry_after: Duration,
}

/// One quick ending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QuickEnd {
    /// The ticket.
    pub(crate) key: String,
    /// The claim's token.
    pub(crate) token: u64,
    /// The command's exit status.
    pub(crate) status: u8,
    /// The ticket went to failed because of it, and was not put back yet.
    pub(crate) failed: bool,
    /// When it ended, milliseconds since 1970.
    #[serde(default)]
    pub(crate) at_ms: u64,
    /// The file with the end of its stderr, where that was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stderr: Option<String>,
}

/// The state; it outlives the watch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Breaker {
    /// Quick endings in a row, oldest first.
    #[serde(default)]
    pub(crate) row: Vec<QuickEnd>,
    /// Since when it is open, seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) open_since: Option<u64>,
    /// When the next trial may be made, seconds since 1970.
    #[serde(default)]
    pub(crate) retry_at: u64,
    /// The pause before that trial, seconds.
    #[serde(default)]
    pub(crate) pause_s: u64,
    /// Quick successes in a row that were named already.
    #[serde(default)]
    pub(crate) named: bool,
    /// Tickets that failed because of us and are still to be put back, although the trouble is over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) owed: Vec<QuickEnd>,
}

/// What an ending changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BreakerTurn {
    Nothing,
    /// It opened.
    Opened,
    /// The trial was quick as well: a longer pause.
    StillOpen,
    /// A run was not quick.
    Closed,
    /// So many quick successes in a row, and nobody asked for them to count: to be named once.
    Doubtful,
}

/// What may be claimed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allowed {
    Everything,
    /// One ticket, to try.
    Trial,
    /// Nothing before this time, seconds since 1970.
    NotBefore(u64),
}

impl Breaker {
    /// A run has ended, after `ran`. `chance` is from 0 to 1.
    pub(crate) fn ended(
        &mut self,
        rules: BreakerRules,
        end: QuickEnd,
        ran: Duration,
        chance: f64,
    ) -> BreakerTurn {
        if rules.quick.is_zero() || end.status == 75 {
            return BreakerTurn::Nothing;
        }
        let now_s = end.at_ms / 1000;
        if ran >= rules.quick {
            let began_ms = end.at_ms.saturating_sub(u64::try_from(ran.as_millis()).unwrap_or(u64::MAX));
            if self.row.first().is_some_and(|first| began_ms < first.at_ms) {
                // From before the trouble: it says nothing about now.
                return BreakerTurn::Nothing;
            }
            let was_open = self.open_since.is_some();
            let mut before = std::mem::take(self);
            self.owed.append(&mut before.owed);
            if was_open {
                self.owed.extend(before.row.into_iter().filter(|end| end.failed));
            }
            return if was_open { BreakerTurn::Closed } else { BreakerTurn::Nothing };
        }
        let success = end.status == 0;
        let counts = |end: &QuickEnd| end.status != 0 || rules.quick_success;
        self.row.push(end);
        if self.row.len() > REMEMBERED {
            self.row.remove(0);
        }
        if self.open_since.is_some() {
            if success && !rules.quick_success {
                return BreakerTurn::Nothing;
            }
            self.wait(rules, now_s, chance, self.pause_s.saturating_mul(2));
            return BreakerTurn::StillOpen;
        }
        let tail = |wanted: &dyn Fn(&QuickEnd) -> bool| {
            let row = self.row.iter().rev().take_while(|end| wanted(end));
            row.map(|end| end.key.as_str()).collect::<BTreeSet<_>>().len()
        };
        if tail(&counts) >= rules.trip {
            self.open_since = Some(now_s);
            self.wait(rules, now_s, chance, rules.retry_after.as_secs());
            return BreakerTurn::Opened;
        }
        if tail(&|end| end.status == 0) >= rules.trip && !self.named {
            self.named = true;
            return BreakerTurn::Doubtful;
        }
        BreakerTurn::Nothing
    }

    fn wait(&mut self, rules: BreakerRules, now_s: u64, chance: f64, pause_s: u64) {
        let longest = LONGEST.max(rules.retry_after).as_secs();
        self.pause_s = pause_s.clamp(1, longest);
        // Never in step with other watches, and at most a fifth later.
        let jitter = (self.pause_s as f64 * chance.clamp(0.0, 1.0) / 5.0) as u64;
        self.retry_at = now_s + self.pause_s + jitter;
    }

    /// What may be claimed; `tries` says that a trial runs.
    pub(crate) fn allows(&self, tries: bool, now_s: u64) -> Allowed {
        match self.open_since {
            None => Allowed::Everything,
            Some(_) if tries => Allowed::NotBefore(u64::MAX),
            // A clock that was set back must not stop the work for years.
            Some(_) if now_s >= self.retry_at || self.retry_at - now_s > LONGEST.as_secs() * 2 => {
                Allowed::Trial
            }
            Some(_) => Allowed::NotBefore(self.retry_at),
        }
    }
}

/// How long a ticket that was given back with 75 is left alone: from `every` on, doubling to an hour.
pub(crate) fn back_off(times: u32, every: Duration) -> Duration {
    const HOUR: Duration = Duration::from_secs(3600);
    every.saturating_mul(1 << times.saturating_sub(1).min(20)).min(HOUR.max(every))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: BreakerRules = BreakerRules {
        quick: Duration::from_secs(30),
        quick_success: false,
        trip: 3,
        retry_after: Duration::from_secs(60),
    };

    fn end(key: &str, status: u8) -> QuickEnd {
        QuickEnd { key: key.into(), token: 1, status, failed: status != 0, at_ms: 1_000_000, stderr: None }
    }

    fn at(key: &str, status: u8, second: u64) -> QuickEnd {
        QuickEnd { at_ms: second * 1000, ..end(key, status) }
    }

    fn after(rules: BreakerRules, ends: &[(&str, u8, u64)]) -> (Breaker, Vec<BreakerTurn>) {
        let mut breaker = Breaker::default();
        // One after the other, the last one at 1000.
        let mut now = 1000 - ends.iter().skip(1).map(|(_, _, ran)| ran + 1).sum::<u64>();
        let mut turns = Vec::new();
        for (place, (key, status, ran)) in ends.iter().enumerate() {
            now += if place == 0 { 0 } else { ran + 1 };
            turns.push(breaker.ended(rules, at(key, *status, now), Duration::from_secs(*ran), 0.0));
        }
        (breaker, turns)
    }

    #[test]
    fn three_quick_ends_of_three_tickets_in_a_row_open_it() {
        use BreakerTurn::*;
        assert_eq!(after(RULES, &[("1", 1, 0), ("2", 2, 29), ("3", 137, 1)]).1, [Nothing, Nothing, Opened]);
        assert_eq!(
            after(RULES, &[("1", 1, 0), ("1", 1, 0), ("1", 1, 0)]).1,
            [Nothing; 3],
            "one ticket's own fault"
        );
        assert_eq!(
            after(RULES, &[("1", 1, 0), ("2", 1, 30), ("3", 1, 0), ("4", 1, 0)]).1,
            [Nothing; 4],
            "not in a row"
        );
        assert_eq!(
            after(RULES, &[("1", 1, 0), ("2", 75, 0), ("3", 1, 0), ("4", 1, 0)]).1.last(),
            Some(&Opened)
        );
        let off = BreakerRules { quick: Duration::ZERO, ..RULES };
        assert_eq!(after(off, &[("1", 1, 0), ("2", 1, 0), ("3", 1, 0)]).1, [Nothing; 3]);
    }

    #[test]
    fn quick_successes_count_only_where_that_was_asked_for_and_are_named_once() {
        use BreakerTurn::*;
        let zeros = [("1", 0, 0), ("2", 0, 0), ("3", 0, 0), ("4", 0, 0)];
        assert_eq!(after(RULES, &zeros).1, [Nothing, Nothing, Doubtful, Nothing]);
        let asked = BreakerRules { quick_success: true, ..RULES };
        assert_eq!(after(asked, &zeros[..3]).1, [Nothing, Nothing, Opened]);
        let mixed = [("1", 1, 0), ("2", 0, 0), ("3", 1, 0), ("4", 1, 0)];
        assert_eq!(after(RULES, &mixed).1, [Nothing; 4], "a success ends the row");
    }

    #[test]
    fn one_ticket_is_tried_later_and_later_and_one_long_run_closes_it() {
        let (mut breaker, _) = after(RULES, &[("1", 1, 0), ("2", 1, 0), ("3", 1, 0)]);
        assert_eq!(breaker.allows(false, 1059), Allowed::NotBefore(1060));
        assert_eq!(breaker.allows(false, 1060), Allowed::Trial);
        assert_eq!(breaker.allows(true, 1060), Allowed::NotBefore(u64::MAX), "one at a time");
        for pause in [120, 240, 480, 960, 1800, 1800] {
            assert_eq!(breaker.ended(RULES, at("4", 1, 2000), Duration::ZERO, 0.0), BreakerTurn::StillOpen);
            assert_eq!(breaker.retry_at, 2000 + pause);
        }
        breaker.ended(RULES, at("4", 1, 2000), Duration::ZERO, 1.0);
        assert_eq!(breaker.retry_at, 2000 + 1800 + 360, "a fifth of jitter");
        assert_eq!(
            breaker.allows(false, 10),
            Allowed::Trial,
            "the clock was set back by more than any pause"
        );
        let from_before = breaker.ended(RULES, at("9", 0, 3000), Duration::from_secs(2500), 0.0);
        assert_eq!(from_before, BreakerTurn::Nothing, "it began before the trouble did");
        breaker.row.iter_mut().for_each(|end| end.failed = false);
        assert_eq!(breaker.ended(RULES, at("4", 0, 3000), RULES.quick, 0.0), BreakerTurn::Closed);
        assert_eq!((breaker.allows(false, 3000), breaker), (Allowed::Everything, Breaker::default()));
    }

    #[test]
    fn what_is_at_a_bound_counts_as_it_is_said() {
        let open = || after(RULES, &[("1", 1, 0), ("2", 1, 0), ("3", 1, 0)]).0;
        let mut breaker = open();
        let first = breaker.row[0].at_ms / 1000;
        let long = first + 100;
        let turn = breaker.ended(RULES, at("4", 1, long), Duration::from_secs(100), 0.0);
        assert_eq!(turn, BreakerTurn::Closed, "it began as the first one ended");
        let mut breaker = open();
        let off = BreakerRules { quick: Duration::ZERO, ..RULES };
        assert_eq!(breaker.ended(off, at("4", 1, 2000), Duration::ZERO, 0.0), BreakerTurn::Nothing);
        assert_eq!(breaker, open(), "turned off: nothing is counted and nothing closes");
        let mut breaker = open();
        assert_eq!(breaker.ended(RULES, at("4", 0, 2000), Duration::ZERO, 0.0), BreakerTurn::Nothing);
        assert_eq!(breaker.retry_at, 1060, "a quick 0 is no answer");
        let asked = BreakerRules { quick_success: true, ..RULES };
        assert_eq!(breaker.ended(asked, at("5", 0, 2000), Duration::ZERO, 0.0), BreakerTurn::StillOpen);
        assert_eq!(breaker.retry_at, 2120);
    }

    #[test]
    fn what_could_not_be_put_back_is_owed_when_the_trouble_is_over() {
        let (mut breaker, _) = after(RULES, &[("1", 1, 0), ("2", 1, 0), ("3", 1, 0)]);
        breaker.row[0].failed = false;
        let long = |breaker: &mut Breaker| breaker.ended(RULES, at("4", 0, 3000), RULES.quick, 0.0);
        assert_eq!(long(&mut breaker), BreakerTurn::Closed);
        let owed = |breaker: &Breaker| breaker.owed.iter().map(|end| end.key.clone()).collect::<Vec<_>>();
        assert_eq!((owed(&breaker), breaker.row.len()), (vec!["2".to_owned(), "3".to_owned()], 0));
        assert_eq!(breaker.allows(false, 3000), Allowed::Everything);
        // A row that opened nothing failed by itself.
        breaker.ended(RULES, at("7", 1, 3001), Duration::ZERO, 0.0);
        assert_eq!(long(&mut breaker), BreakerTurn::Nothing);
        breaker.row.clear();
        assert_eq!(owed(&breaker), ["2", "3"]);
    }

    #[test]
    fn fifty_endings_are_remembered_the_last_ones() {
        let mut breaker = Breaker::default();
        for number in 1..=REMEMBERED as u64 {
            // One ticket: that opens nothing.
            breaker.ended(RULES, at("1", 1, number), Duration::ZERO, 0.0);
        }
        assert_eq!((breaker.row.len(), breaker.row[0].at_ms), (50, 1000));
        breaker.ended(RULES, at("1", 1, 51), Duration::ZERO, 0.0);
        assert_eq!((breaker.row.len(), breaker.row[0].at_ms, breaker.row[49].at_ms), (50, 2000, 51_000));
    }

    #[test]
    fn a_trial_that_is_too_far_away_was_meant_by_another_clock() {
        let until = |left: u64| {
            let now = 1_000_000_000_u64;
            Breaker { open_since: Some(1), retry_at: now + left, ..Breaker::default() }.allows(false, now)
        };
        assert_eq!(until(3600), Allowed::NotBefore(1_000_003_600), "twice the longest pause");
        assert_eq!(until(3601), Allowed::Trial);
        assert_eq!(until(0), Allowed::Trial);
    }

    #[test]
    fn the_pause_of_a_ticket_doubles_to_an_hour() {
        let every = Duration::from_secs(60);
        let minutes = |times| back_off(times, every).as_secs() / 60;
        assert_eq!([1, 2, 3, 6, 7, 40].map(minutes), [1, 2, 4, 32, 60, 60]);
        assert_eq!(back_off(3, Duration::from_secs(7200)).as_secs(), 7200, "never more often than asked for");
    }
}
