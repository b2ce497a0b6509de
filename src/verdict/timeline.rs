//! A stretch of time cut into equal cells, and what one name was in each.

use super::story::{ToldEnd, ToldRun, runs};
use crate::model::event::Event;
use crate::model::time::WallTime;

/// A stretch of time; `from` is before `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) from: WallTime,
    pub(crate) to: WallTime,
}

impl Window {
    pub(crate) fn length(self) -> u64 {
        self.to.0.saturating_sub(self.from.0).max(1)
    }

    /// Begin and end of one of `count` equal cells.
    fn cell(self, place: usize, count: usize) -> (WallTime, WallTime) {
        let at = |place: usize| self.from.0 + self.length() * place as u64 / count as u64;
        (WallTime(at(place)), WallTime(at(place + 1)))
    }
}

/// What a name was in a cell; the worst of what was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cell {
    /// From before the first line of its log.
    Unlogged,
    Free,
    /// Nobody could take it, because a person said so.
    Paused,
    /// A run was last seen before, and found gone after.
    Perhaps,
    /// Held by so many at once.
    Held(usize),
    /// Held, and others were turned away.
    Refusing(usize),
    /// A run ended badly.
    Failed,
}

/// From when to when.
pub(crate) type Stretch = (WallTime, WallTime);

/// What a row is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum LaneKind {
    #[default]
    Lock,
    /// A ticket, and the folder of its tracker's claims.
    Ticket(String),
    /// The server of a store. It keeps no log: only the present one is known, and it has no token.
    Lease,
}

/// What is drawn of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lane {
    /// What the row is called.
    pub(crate) title: String,
    pub(crate) name: String,
    pub(crate) kind: LaneKind,
    /// Nothing is known of the time before; absent where nothing is known at all.
    pub(crate) known_from: Option<WallTime>,
    pub(crate) runs: Vec<ToldRun>,
    /// Tokens of those that hold it now.
    pub(crate) live: Vec<u64>,
    /// From when to when it was paused.
    pub(crate) paused: Vec<Stretch>,
}

/// How one run stands in a window: surely held from, to, and perhaps still until.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: WallTime,
    pub(crate) surely: WallTime,
    pub(crate) perhaps: WallTime,
}

impl Lane {
    /// What the log of a name tells; `live` are the tokens of those that are there now.
    pub(crate) fn of(
        name: String,
        kind: LaneKind,
        events: &[Event],
        live: Vec<u64>,
        paused: Vec<Stretch>,
    ) -> Self {
        let known_from = events.iter().filter_map(|event| WallTime::parse(&event.at)).min();
        Self { title: name.clone(), name, kind, known_from, runs: runs(events), live, paused }
    }

    /// The part of a run that lies in the window; `None` if no part does.
    pub(crate) fn span(&self, run: &ToldRun, window: Window) -> Option<Span> {
        let lives = run.end == ToldEnd::Open && self.live.contains(&run.token);
        let surely = if lives { window.to } else { run.held_until() };
        // Of a run that nobody has looked at since, nothing is known.
        let perhaps = if lives { window.to } else { run.over_by().unwrap_or(window.to) }.max(surely);
        let cut = |time: WallTime| time.max(window.from).min(window.to);
        (run.begun < window.to && perhaps >= window.from).then(|| Span {
            from: cut(run.begun),
            surely: cut(surely),
            perhaps: cut(perhaps),
        })
    }

    /// The same, paused then too.
    pub(crate) fn also_paused(mut self, then: &[Stretch]) -> Self {
        self.paused.extend(then);
        self
    }

    /// Is there anything to draw?
    pub(crate) fn is_drawn(&self, window: Window) -> bool {
        let paused = |(from, to): &Stretch| *from < window.to && *to > window.from;
        self.within(window).next().is_some() || self.paused.iter().any(paused)
    }

    /// The runs with a part in the window.
    pub(crate) fn within(&self, window: Window) -> impl Iterator<Item = (&ToldRun, Span)> {
        self.runs.iter().filter_map(move |run| Some((run, self.span(run, window)?)))
    }

    /// The row as `count` cells.
    pub(crate) fn cells(&self, window: Window, count: usize) -> Vec<Cell> {
        (0..count).map(|place| self.cell(window, window.cell(place, count))).collect()
    }

    fn cell(&self, window: Window, (begin, end): (WallTime, WallTime)) -> Cell {
        // An instant at the begin of the cell belongs to it, one at its end to the next.
        let touches =
            |from: WallTime, to: WallTime| from < end && (to > begin || (from == to && to == begin));
        let is_known = self.known_from.is_some_and(|from| from < end);
        let mut cell = if is_known { Cell::Free } else { Cell::Unlogged };
        if self.paused.iter().any(|(from, to)| touches(*from, *to)) {
            cell = Cell::Paused;
        }
        let (mut here, mut refusing) = (Vec::new(), false);
        for (run, span) in self.within(window) {
            if touches(span.from, span.surely) {
                here.push(span);
                let away = run.first_away.zip(run.last_away);
                refusing |= away.is_some_and(|(first, last)| touches(first, last));
            } else if span.perhaps > span.surely && touches(span.surely, span.perhaps) {
                cell = cell.max(Cell::Perhaps);
            }
            let ended = run.over_by().filter(|_| run.failed());
            if ended.is_some_and(|ended| begin <= ended && ended < end) {
                cell = Cell::Failed;
            }
        }
        // The most at one instant of the cell, and at least one: what begins and ends in an instant was there.
        let at = |time: WallTime| here.iter().filter(|span| span.from <= time && time < span.surely).count();
        let held = here.iter().map(|span| at(span.from.max(begin)).max(1)).max().unwrap_or(0);
        match held {
            0 => cell,
            _ if refusing => cell.max(Cell::Refusing(held)),
            _ => cell.max(Cell::Held(held)),
        }
    }

    /// The most that held it at once, with certainty.
    pub(crate) fn most(&self, window: Window) -> usize {
        let spans: Vec<Span> = self.within(window).map(|(_, span)| span).collect();
        let at = |time: WallTime| spans.iter().filter(|span| span.from <= time && time < span.surely).count();
        spans.iter().map(|span| at(span.from)).max().unwrap_or(0)
    }

    /// `3 runs, 7 skipped, 1 failed`: the numbers behind a row.
    pub(crate) fn totals(&self, window: Window) -> Totals {
        let (mut totals, mut longest_possible) = (Totals::default(), 0);
        for (run, span) in self.within(window) {
            totals.runs += 1;
            totals.failed += usize::from(run.failed());
            totals.turned_away = totals.turned_away.saturating_add(run.turned_away);
            let lives = run.end == ToldEnd::Open && self.live.contains(&run.token);
            let until = if lives { span.surely } else { run.held_until() };
            let at_least = until.seconds().saturating_sub(run.begun.seconds());
            totals.longest_s = totals.longest_s.max(at_least);
            longest_possible =
                longest_possible.max(if lives { at_least } else { run.held_s().1.unwrap_or(u64::MAX) });
        }
        totals.longest_is_exact = longest_possible <= totals.longest_s;
        totals
    }
}

/// Sums over a row; a run that is only partly in the window counts whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) runs: usize,
    pub(crate) failed: usize,
    pub(crate) turned_away: u64,
    /// The longest time that one surely held it, seconds.
    pub(crate) longest_s: u64,
    /// None can have held it for longer than that.
    pub(crate) longest_is_exact: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(minute: u64) -> WallTime {
        WallTime(1_796_000_000_000 + minute * 60_000)
    }

    fn run(token: u64, begun: u64, end: ToldEnd) -> ToldRun {
        ToldRun {
            token,
            pid: Some(812),
            comm: None,
            begun: time(begun),
            seen: time(begun),
            end,
            status: None,
            turned_away: 0,
            first_away: None,
            last_away: None,
        }
    }

    /// Ten cells of ten minutes, one letter each.
    fn drawn(lane: &Lane) -> String {
        let window = Window { from: time(0), to: time(100) };
        let letter = |cell: &Cell| match cell {
            Cell::Unlogged => ' ',
            Cell::Free => '.',
            Cell::Paused => '=',
            Cell::Perhaps => '?',
            Cell::Held(count) => char::from_digit(u32::try_from(*count).expect("few"), 10).expect("a digit"),
            Cell::Refusing(_) => '+',
            Cell::Failed => '!',
        };
        lane.cells(window, 10).iter().map(letter).collect()
    }

    #[test]
    fn every_kind_of_time_has_its_cell() {
        let exact = run(1, 0, ToldEnd::At(time(30)));
        let unseen = ToldRun { seen: time(50), ..run(2, 40, ToldEnd::GoneBy(time(70))) };
        let lane =
            |runs: &[ToldRun]| Lane { runs: runs.to_vec(), known_from: Some(time(0)), ..Lane::default() };
        assert_eq!(drawn(&lane(&[exact.clone(), unseen])), "111.1??...");
        let failed = ToldRun { status: Some(3), ..exact.clone() };
        assert_eq!(drawn(&lane(&[failed])), "111!......", "where it ended");
        let skip = ToldRun { status: Some(75), ..exact.clone() };
        assert_eq!(drawn(&lane(&[skip])), "111.......", "a skip is not a failure");
        let (first_away, last_away) = (Some(time(15)), Some(time(15)));
        assert_eq!(
            drawn(&lane(&[ToldRun { turned_away: 1, first_away, last_away, ..exact.clone() }])),
            "1+1......."
        );
        let open = run(3, 60, ToldEnd::Open);
        assert_eq!(drawn(&lane(std::slice::from_ref(&open))), "......1???");
        assert_eq!(drawn(&Lane { live: vec![3], ..lane(&[open]) }), "......1111");
        let paused = vec![(time(85), time(100))];
        assert_eq!(drawn(&Lane { paused, ..lane(&[exact]) }), "111.....==");
    }

    #[test]
    fn slots_are_counted() {
        let lane = Lane {
            runs: vec![
                run(1, 0, ToldEnd::At(time(50))),
                run(2, 10, ToldEnd::At(time(30))),
                run(3, 60, ToldEnd::At(time(65))),
            ],
            known_from: Some(time(0)),
            ..Lane::default()
        };
        assert_eq!(drawn(&lane), "12211.1...");
        let window = Window { from: time(0), to: time(100) };
        assert_eq!(lane.most(window), 2);
        assert_eq!(
            lane.totals(window),
            Totals { runs: 3, failed: 0, turned_away: 0, longest_s: 3000, longest_is_exact: true }
        );
    }

    fn lane(runs: Vec<ToldRun>, live: Vec<u64>) -> Lane {
        Lane { runs, live, known_from: Some(time(0)), ..Lane::default() }
    }

    #[test]
    fn the_sums_of_a_row_say_only_what_is_sure() {
        let window = Window { from: time(0), to: time(100) };
        let sums = |runs: Vec<ToldRun>, live: Vec<u64>| {
            let totals = lane(runs, live).totals(window);
            (totals.longest_s / 60, totals.longest_is_exact)
        };
        let failed = ToldRun { status: Some(3), turned_away: 2, ..run(1, 0, ToldEnd::At(time(30))) };
        let unseen = |gone| ToldRun { seen: time(50), ..run(2, 40, ToldEnd::GoneBy(time(gone))) };
        let totals = lane(vec![failed.clone(), unseen(70)], Vec::new()).totals(window);
        assert_eq!((totals.runs, totals.failed, totals.turned_away), (2, 1, 2));
        assert_eq!(sums(vec![failed.clone(), unseen(70)], Vec::new()), (30, true));
        assert_eq!(sums(vec![failed, unseen(71)], Vec::new()), (30, false), "perhaps it was longer");
        let open = run(3, 60, ToldEnd::Open);
        assert_eq!(sums(vec![open.clone()], vec![3]), (40, true), "it lives");
        assert_eq!(sums(vec![open], Vec::new()), (0, false));
        assert_eq!(sums(vec![run(3, 60, ToldEnd::At(time(65)))], vec![3]), (5, true), "it ended");
        let most = |runs: Vec<ToldRun>| lane(runs, Vec::new()).most(window);
        let (first, over) = (run(1, 0, ToldEnd::At(time(50))), run(2, 10, ToldEnd::At(time(30))));
        assert_eq!(most(vec![first.clone(), over]), 2);
        assert_eq!(most(vec![first, run(2, 50, ToldEnd::At(time(60)))]), 1, "one after the other");
    }

    #[test]
    fn what_follows_in_one_cell_is_not_there_at_once() {
        let after = |begin| vec![run(1, 0, ToldEnd::At(time(5))), run(2, begin, ToldEnd::At(time(9)))];
        assert_eq!(drawn(&lane(after(5), Vec::new())), "1.........");
        assert_eq!(drawn(&lane(after(4), Vec::new())), "2.........");
        assert_eq!(drawn(&lane(vec![run(3, 60, ToldEnd::At(time(65)))], vec![3])), "......1...");
    }

    #[test]
    fn a_row_begins_with_its_log_and_knows_its_edges() {
        let line = |minute: u64, event: &str| Event {
            token: Some(7),
            ..Event::new(event, time(minute).rfc3339(), "sync")
        };
        let events = [line(30, "acquired"), line(40, "released")];
        let pause = (time(95), time(120));
        let told = Lane::of("sync".to_owned(), LaneKind::Lock, &events, Vec::new(), vec![pause]);
        assert_eq!(drawn(&told), "   1.....=");
        let window = |from, to| Window { from: time(from), to: time(to) };
        let count = |from, to| told.within(window(from, to)).count();
        assert_eq!((count(0, 30), count(0, 31), count(40, 50), count(41, 50)), (0, 1, 1, 0));
        assert!(told.is_drawn(window(100, 110)) && !told.is_drawn(window(50, 95)));
        assert!(!told.is_drawn(window(120, 130)) && told.is_drawn(window(35, 36)));
        assert_eq!(drawn(&told.also_paused(&[(time(0), time(10)), (time(50), time(60))])), "=  1.=...=");
    }

    #[test]
    fn what_lies_outside_is_not_drawn() {
        let lane = Lane { runs: vec![run(1, 200, ToldEnd::At(time(300)))], ..Lane::default() };
        assert_eq!(drawn(&lane), "          ", "of a name without a log nothing is known");
        let lane = Lane { known_from: Some(time(35)), ..lane };
        assert_eq!(drawn(&lane), "   .......", "nothing is logged of the time before");
        assert_eq!(lane.totals(Window { from: time(0), to: time(100) }).runs, 0);
    }
}
