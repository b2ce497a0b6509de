//! What a log tells about the runs of one name: from when to when each held it, as far as that was seen.
//!
//! A run that becomes its command leaves no end of its own. What is known then is two times: when it was
//! last seen alive (it refused somebody), and when it was first found gone.

use crate::model::event::Event;
use crate::model::time::WallTime;

/// One run of a name, out of its lines in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToldRun {
    pub(crate) token: u64,
    /// The holder, as the log named it.
    pub(crate) pid: Option<u32>,
    pub(crate) comm: Option<String>,
    /// When it took the lock.
    pub(crate) begun: WallTime,
    /// The last time it was surely alive: its begin, or the last time it refused somebody.
    pub(crate) seen: WallTime,
    pub(crate) end: ToldEnd,
    /// Exit status, where somebody stood by.
    pub(crate) status: Option<u8>,
    /// How many runs it turned away, and when the first and the last.
    pub(crate) turned_away: u64,
    pub(crate) first_away: Option<WallTime>,
    pub(crate) last_away: Option<WallTime>,
}

/// What is known of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToldEnd {
    /// It ended then: released, broken, or seen by its supervisor.
    At(WallTime),
    /// It was found gone then; the end came some time after it was last seen.
    GoneBy(WallTime),
    /// Nothing is known: it lives, or nobody has looked since.
    Open,
}

impl ToldRun {
    /// The time at which it was surely over; `None` while nothing is known.
    pub(crate) fn over_by(&self) -> Option<WallTime> {
        match self.end {
            ToldEnd::At(time) | ToldEnd::GoneBy(time) => Some(time),
            ToldEnd::Open => None,
        }
    }

    /// The last time at which it surely held the lock.
    pub(crate) fn held_until(&self) -> WallTime {
        match self.end {
            ToldEnd::At(time) => time,
            ToldEnd::GoneBy(_) | ToldEnd::Open => self.seen,
        }
    }

    /// The shortest and the longest time it can have held the lock, seconds; the longest is absent where
    /// no end is known.
    pub(crate) fn held_s(&self) -> (u64, Option<u64>) {
        let from = |to: WallTime| to.seconds().saturating_sub(self.begun.seconds());
        (from(self.held_until()), self.over_by().map(from))
    }

    /// Did it surely end badly? 75 is a skip of its own, and no failure.
    pub(crate) fn failed(&self) -> bool {
        self.status.is_some_and(|status| status != 0 && status != 75)
    }
}

/// What was at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Then<'a> {
    /// These held it, with certainty.
    Held(Vec<&'a ToldRun>),
    /// It is not known whether these still held it.
    Perhaps(Vec<&'a ToldRun>),
    Free,
}

/// The runs that the lines of one name tell, in the order of their tokens. Lines whose time does not
/// parse tell nothing.
pub(crate) fn runs(events: &[Event]) -> Vec<ToldRun> {
    let mut runs: Vec<ToldRun> = Vec::new();
    for event in events {
        let (Some(at), Some(token)) = (WallTime::parse(&event.at), event.token) else { continue };
        let known = runs.iter_mut().find(|run| run.token == token);
        if event.event == "acquired" {
            if known.is_none() {
                runs.push(ToldRun {
                    token,
                    pid: event.pid,
                    comm: event.comm.clone(),
                    begun: at,
                    seen: at,
                    end: ToldEnd::Open,
                    status: None,
                    turned_away: 0,
                    first_away: None,
                    last_away: None,
                });
            }
            continue;
        }
        // Its begin was in a log that is gone: only what is seen is told.
        let Some(run) = known else { continue };
        if event.is_turned_away() {
            let last = event.last.as_deref().and_then(WallTime::parse).unwrap_or(at);
            run.seen = run.seen.max(last);
            run.turned_away = run.turned_away.saturating_add(event.times());
            run.first_away = run.first_away.or(Some(at));
            run.last_away = run.last_away.max(Some(last));
        } else if run.end == ToldEnd::Open {
            run.status = event.status;
            run.end = match event.event.as_str() {
                "released" | "broken" => ToldEnd::At(at),
                "ended" if event.status.is_some() => ToldEnd::At(at),
                "ended" | "reclaimed" => ToldEnd::GoneBy(at),
                _ => ToldEnd::Open,
            };
        }
    }
    runs.sort_by_key(|run| run.token);
    runs
}

/// What was between two instants, both included, out of all runs of a name; `live` are the tokens of those
/// that are there now.
pub(crate) fn then<'a>(runs: &'a [ToldRun], (from, to): (WallTime, WallTime), live: &[u64]) -> Then<'a> {
    let begun = || runs.iter().filter(move |run| run.begun <= to);
    let surely =
        |run: &&ToldRun| from <= run.held_until() || (run.end == ToldEnd::Open && live.contains(&run.token));
    let held: Vec<&ToldRun> = begun().filter(surely).collect();
    if !held.is_empty() {
        return Then::Held(held);
    }
    let perhaps: Vec<&ToldRun> = begun().filter(|run| run.over_by().is_none_or(|over| from < over)).collect();
    if perhaps.is_empty() { Then::Free } else { Then::Perhaps(perhaps) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(at: &str, event: &str, token: u64) -> Event {
        Event {
            token: Some(token),
            pid: Some(812),
            ..Event::new(event, format!("2026-11-29T{at}:00Z"), "sync")
        }
    }

    fn time(text: &str) -> WallTime {
        WallTime::parse(&format!("2026-11-29T{text}:00Z")).expect("a time")
    }

    fn night() -> Vec<ToldRun> {
        let last = Some("2026-11-29T09:58:00Z".to_owned());
        runs(&[
            line("09:12", "acquired", 5),
            Event { count: Some(4), last, ..line("09:15", "skipped", 5) },
            line("10:00", "ended", 5),
            line("10:00", "acquired", 6),
            Event { status: Some(3), ..line("10:20", "ended", 6) },
            line("11:00", "acquired", 7),
            line("11:05", "released", 7),
            line("12:00", "acquired", 8),
        ])
    }

    #[test]
    fn an_end_that_nobody_saw_has_two_bounds() {
        let runs = night();
        assert_eq!(runs.len(), 4);
        assert_eq!((runs[0].seen, runs[0].end), (time("09:58"), ToldEnd::GoneBy(time("10:00"))));
        assert_eq!((runs[0].turned_away, runs[0].first_away), (4, Some(time("09:15"))));
        assert_eq!(runs[0].held_s(), (46 * 60, Some(48 * 60)));
        assert_eq!(runs[1].held_s(), (20 * 60, Some(20 * 60)));
        assert_eq!((runs[0].status, runs[1].status), (None, Some(3)));
        assert_eq!(runs[3].held_s(), (0, None));
    }

    #[test]
    fn what_was_at_a_moment_is_said_with_its_doubt() {
        let runs = night();
        let tokens = |then: Then<'_>| match then {
            Then::Held(runs) => format!("held {:?}", runs.iter().map(|run| run.token).collect::<Vec<_>>()),
            Then::Perhaps(runs) => {
                format!("perhaps {:?}", runs.iter().map(|run| run.token).collect::<Vec<_>>())
            }
            Then::Free => "free".to_owned(),
        };
        assert_eq!(tokens(then(&runs, (time("09:45"), time("09:45")), &[])), "held [5]");
        assert_eq!(tokens(then(&runs, (time("09:59"), time("09:59")), &[])), "perhaps [5]");
        assert_eq!(tokens(then(&runs, (time("10:10"), time("10:10")), &[])), "held [6]");
        assert_eq!(tokens(then(&runs, (time("10:30"), time("10:30")), &[])), "free");
        assert_eq!(tokens(then(&runs, (time("09:00"), time("09:00")), &[])), "free");
        assert_eq!(tokens(then(&runs, (time("12:30"), time("12:30")), &[])), "perhaps [8]");
        assert_eq!(tokens(then(&runs, (time("12:30"), time("12:30")), &[8])), "held [8]");
        assert_eq!(tokens(then(&runs, (time("10:50"), time("11:00")), &[])), "held [7]", "begun in between");
    }

    #[test]
    fn a_line_twice_is_one_run_and_tokens_give_the_order() {
        let told = runs(&[
            line("10:00", "acquired", 6),
            line("09:00", "acquired", 5),
            line("09:30", "acquired", 5),
            line("09:40", "refused", 5),
            line("09:50", "refused", 5),
            Event { status: Some(0), ..line("09:55", "ended", 5) },
            line("10:30", "ended", 6),
        ]);
        assert_eq!(
            told.iter().map(|run| (run.token, run.begun)).collect::<Vec<_>>(),
            [(5, time("09:00")), (6, time("10:00"))]
        );
        assert_eq!((told[0].first_away, told[0].last_away), (Some(time("09:40")), Some(time("09:50"))));
        assert!(!told[0].failed(), "0 is no failure");
        let at = |text: &str, live: &[u64]| then(&told, (time(text), time(text)), live);
        assert!(matches!(at("09:55", &[]), Then::Held(_)), "its last instant is its own");
        assert!(matches!(at("09:56", &[5]), Then::Free), "it ended, whoever has its token");
        assert!(matches!(at("10:29", &[]), Then::Perhaps(_)) && matches!(at("10:30", &[]), Then::Free));
    }

    #[test]
    fn lines_without_their_begin_tell_nothing() {
        assert_eq!(runs(&[line("09:00", "ended", 3), line("09:01", "skipped", 3)]), []);
        assert_eq!(runs(&[Event::new("acquired", "never".into(), "sync")]), []);
    }
}
