//! The picture in a terminal: one row a name, time from left to right.

use super::{scale, summary};
use crate::report::escape;
use crate::verdict::timeline::{Cell, Lane, Window};

/// The signs of the cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Glyphs {
    held: char,
    refusing: char,
    perhaps: char,
    failed: char,
    paused: char,
    free: char,
}

impl Glyphs {
    /// For a locale with UTF-8.
    pub(crate) const BLOCKS: Self =
        Self { held: '█', refusing: '▓', perhaps: '░', failed: '!', paused: '=', free: '·' };
    /// For any other.
    pub(crate) const ASCII: Self =
        Self { held: '#', refusing: '+', perhaps: '?', failed: '!', paused: '=', free: '.' };

    fn of(self, cell: Cell, slots: bool) -> char {
        let digit = |count: usize| char::from_digit(u32::try_from(count).unwrap_or(10), 10).unwrap_or('*');
        match cell {
            Cell::Unlogged => ' ',
            Cell::Free => self.free,
            Cell::Paused => self.paused,
            Cell::Perhaps => self.perhaps,
            Cell::Held(count) | Cell::Refusing(count) if slots => digit(count),
            Cell::Held(_) => self.held,
            Cell::Refusing(_) => self.refusing,
            Cell::Failed => self.failed,
        }
    }

    /// What the signs mean that are there.
    fn legend(self, rows: &[(Vec<Cell>, bool)]) -> String {
        let is_there = |wanted: fn(&Cell) -> bool, of: Option<bool>| {
            let mut rows = rows.iter().filter(|(_, slots)| of.is_none_or(|of| of == *slots));
            rows.any(|(cells, _)| cells.iter().any(wanted))
        };
        let held = |cell: &Cell| matches!(cell, Cell::Held(_));
        let refusing = |cell: &Cell| matches!(cell, Cell::Refusing(_));
        let counted = |cell: &Cell| matches!(cell, Cell::Held(_) | Cell::Refusing(_));
        let signs = [
            (is_there(held, Some(false)), format!("{} held", self.held)),
            (is_there(refusing, Some(false)), format!("{} held, others were skipped", self.refusing)),
            (is_there(counted, Some(true)), "1-9 held by so many".to_owned()),
            (is_there(|cell| *cell == Cell::Perhaps, None), format!("{} perhaps held", self.perhaps)),
            (is_there(|cell| *cell == Cell::Failed, None), format!("{} ended with a failure", self.failed)),
            (is_there(|cell| *cell == Cell::Paused, None), format!("{} paused", self.paused)),
            (is_there(|cell| *cell == Cell::Free, None), format!("{} free", self.free)),
            (is_there(|cell| *cell == Cell::Unlogged, None), "blank: nothing logged".to_owned()),
        ];
        let there = signs.into_iter().filter(|(is_there, _)| *is_there).map(|(_, sign)| sign);
        there.collect::<Vec<_>>().join("  ")
    }
}

/// The longest name that is shown whole, characters.
const NAME: usize = 24;

/// All rows, the scale below them, and what the signs mean; no row is wider than `width`.
pub(crate) fn text(lanes: &[Lane], window: Window, width: usize, glyphs: Glyphs) -> String {
    let names: Vec<String> = lanes.iter().map(|lane| escape(lane.title.as_bytes(), NAME)).collect();
    let sums: Vec<String> = lanes.iter().map(|lane| summary(lane, window)).collect();
    let widest = |texts: &[String]| texts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
    let (name, sum) = (widest(&names), widest(&sums));
    // Where there is no room for both, the sums stand on lines of their own.
    let beside = width.saturating_sub(name + sum + 4);
    let room = if beside >= 20 { beside } else { width.saturating_sub(name + 2).max(10) };
    let rows: Vec<(Vec<Cell>, bool)> =
        lanes.iter().map(|lane| (lane.cells(window, room), lane.most(window) > 1)).collect();
    let mut lines = Vec::new();
    for (((cells, slots), shown), sum) in rows.iter().zip(&names).zip(&sums) {
        let cells: String = cells.iter().map(|cell| glyphs.of(*cell, *slots)).collect();
        if beside >= 20 {
            lines.push(format!("{shown:<name$}  {cells}  {sum}"));
        } else {
            lines.push(format!("{shown:<name$}  {cells}"));
            lines.push(format!("{:name$}  {sum}", ""));
        }
    }
    lines.push(format!("{:name$}  {}", "", times(window, room)).trim_end().to_owned());
    lines.push(glyphs.legend(&rows));
    lines.join("\n")
}

/// The times below the cells, each beginning at its cell.
fn times(window: Window, room: usize) -> String {
    let mut line = String::new();
    for (time, text) in scale::marks(window, (room / 8).max(1)) {
        let past = time.0.saturating_sub(window.from.0);
        let column = usize::try_from(past * room as u64 / window.length()).unwrap_or(0);
        let length = line.chars().count();
        // The last one may not fit.
        if (column > length || length == 0) && column + text.chars().count() <= room {
            line.push_str(&" ".repeat(column - length));
            line.push_str(&text);
        }
    }
    line
}
