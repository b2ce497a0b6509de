//! Characters that a terminal must not get as they are.

/// Does it change how its neighbours are shown, or show nothing?
pub(crate) fn is_mark(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}
