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

    fn legend(self) -> String {
        format!(
            "{} held  {} held, others were skipped  {} perhaps held  {} ended with a failure  {} paused  {} free  \
             blank: nothing logged",
            self.held, self.refusing, self.perhaps, self.failed, self.paused, self.free
        )
    }
}

/// The longest name that is shown whole, characters.
const NAME: usize = 24;

/// All rows, the scale below them, and what the signs mean; no line is wider than `width`.
pub(crate) fn text(lanes: &[Lane], window: Window, width: usize, glyphs: Glyphs) -> String {
    let names: Vec<String> = lanes.iter().map(|lane| escape(lane.title.as_bytes(), NAME)).collect();
    let sums: Vec<String> = lanes.iter().map(|lane| summary(lane, window)).collect();
    let widest = |texts: &[String]| texts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
    let (name, sum) = (widest(&names), widest(&sums));
    // Where there is no room for both, the sums stand on lines of their own.
    let beside = width.saturating_sub(name + sum + 4);
    let room = if beside >= 20 { beside } else { width.saturating_sub(name + 2).max(10) };
    let mut lines = Vec::new();
    for ((lane, shown), sum) in lanes.iter().zip(&names).zip(&sums) {
        let slots = lane.most(window) > 1;
        let cells: String = lane.cells(window, room).into_iter().map(|cell| glyphs.of(cell, slots)).collect();
        if beside >= 20 {
            lines.push(format!("{shown:<name$}  {cells}  {sum}"));
        } else {
            lines.push(format!("{shown:<name$}  {cells}"));
            lines.push(format!("{:name$}  {sum}", ""));
        }
    }
    lines.push(format!("{:name$}  {}", "", times(window, room)).trim_end().to_owned());
    lines.push(glyphs.legend());
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
