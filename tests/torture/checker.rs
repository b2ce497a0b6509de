//! Reads what every critical section wrote.

use std::collections::HashSet;
use std::path::Path;

/// What happened under one name.
pub(crate) struct Seen {
    /// Pids that were inside.
    pub(crate) entered: HashSet<u32>,
    /// How many came to their end.
    pub(crate) left: usize,
    /// What may never be.
    pub(crate) wrong: Vec<String>,
}

impl Seen {
    pub(crate) fn read(dir: &Path, name: &str) -> Self {
        let text = std::fs::read_to_string(dir.join(format!("{name}.events"))).unwrap_or_default();
        Self::of(&text)
    }

    fn of(text: &str) -> Self {
        let mut seen = Self { entered: HashSet::new(), left: 0, wrong: Vec::new() };
        // Who is inside, by token. Killed ones never leave; the next one then just enters.
        let mut inside = 0;
        for (number, line) in text.lines().enumerate() {
            let mut words = line.split(' ');
            let what = words.next().unwrap_or_default();
            let pid = words.next().and_then(|word| word.parse().ok());
            let token: Option<u64> = words.next().and_then(|word| word.parse().ok());
            let (Some(pid), Some(token)) = (pid, token) else {
                seen.wrong.push(format!("line {number}: {line}"));
                continue;
            };
            match what {
                "enter" if token > inside => {
                    inside = token;
                    seen.entered.insert(pid);
                }
                "enter" => seen.wrong.push(format!("line {number}: {token} entered after {inside}")),
                "leave" if token == inside => seen.left += 1,
                "leave" => seen.wrong.push(format!("line {number}: {token} left, and {inside} was inside")),
                _ => seen.wrong.push(format!("line {number}: {line}")),
            }
        }
        seen
    }
}

#[test]
fn the_checker_sees_overlaps_and_tokens_that_go_back() {
    assert!(Seen::of("enter 7 1\nleave 7 1\nenter 8 2\nenter 9 3\nleave 9 3\n").wrong.is_empty());
    for wrong in
        ["enter 7 1\nenter 8 2\nleave 7 1\n", "enter 7 2\nenter 8 2\n", "overlap 7 1\n", "enter 7 \n", "x"]
    {
        assert_eq!(Seen::of(wrong).wrong.len(), 1, "{wrong:?}");
    }
}
