//! The shape of the code: facts, then a verdict, then an action. Every `crate::` path in the
//! sources is an arrow between rooms, and only these arrows are allowed.

mod source;

use source::{Graph, Source};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Who may use whom. A room may always use itself.
const ARROWS: [(&str, &[&str]); 14] = [
    ("model", &[]),
    ("verdict", &["model"]),
    ("os", &["model", "error"]),
    ("runner", &["os", "model", "error"]),
    ("tracker", &["os", "model", "error"]),
    ("via", &["os", "model", "error"]),
    ("cli", &["exit", "error", "model"]),
    ("report", &["error"]),
    ("error", &["model"]),
    ("exit", &["error"]),
    ("env", &[]),
    (
        "command",
        &[
            "verdict", "model", "os", "runner", "tracker", "via", "cli", "report", "error", "exit", "env",
            "lease",
        ],
    ),
    // The public module: a small command of its own, for Rust programs instead of people.
    ("lease", &["verdict", "model", "os", "error", "report", "env"]),
    ("lib", &["command", "lease"]),
];
const LONGEST: usize = 400;

fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// `src/os/guard.rs` lives in `os`, `src/exit.rs` in `exit`.
fn room(path: &Path) -> String {
    let inside = path.strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).expect("in src");
    let first = inside.components().next().expect("a name").as_os_str().to_string_lossy().into_owned();
    first.trim_end_matches(".rs").to_owned()
}

/// Every room that the text names by `crate::…`, also in groups: `use crate::{os, model::x}`.
fn used(text: &str) -> BTreeSet<String> {
    let mut rooms = BTreeSet::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
        for (position, _) in line.match_indices("crate::") {
            let path = &line[position + "crate::".len()..];
            if path.starts_with('{') {
                rooms.extend(in_group(&text[text.find(line).unwrap_or(0) + position + "crate::".len()..]));
            } else {
                rooms.insert(first_word(path));
            }
        }
    }
    rooms
}

fn first_word(path: &str) -> String {
    path.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
}

fn in_group(text: &str) -> Vec<String> {
    let (mut depth, mut words, mut at_start) = (0, Vec::new(), true);
    for (position, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => at_start = true,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        if at_start && c.is_ascii_alphabetic() {
            words.push(first_word(&text[position..]));
            at_start = false;
        }
    }
    words
}

#[test]
fn only_the_arrows_of_the_design_are_there() {
    let mut wrong = Vec::new();
    for path in sources() {
        let room = room(&path);
        if room == "bin" {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("source");
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == room) else {
            wrong.push(format!("{}: a room that the design does not know", path.display()));
            continue;
        };
        for used in used(&text) {
            // A macro or a name of the crate's root is not a room.
            let is_room = ARROWS.iter().any(|(name, _)| *name == used);
            if used != room && is_room && !allowed.contains(&used.as_str()) {
                wrong.push(format!("{}: {room} → {used}", path.display()));
            }
        }
        // `super` must not climb out of a room either.
        let depth = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).expect("inside").components().count() - 2;
        let climbs = "super::".repeat(depth.max(1) + 1);
        if room != "command" && text.contains(&climbs) {
            wrong.push(format!("{}: {climbs} leaves its room", path.display()));
        }
    }
    assert!(wrong.is_empty(), "arrows that are not in the design:\n{}", wrong.join("\n"));
}

#[test]
fn the_reader_of_arrows_sees_them_all() {
    let text = "use crate::os::dir;\nuse crate::{verdict::owner, model::{a, b},\n    env};\nfn f() { crate::exit::x() }";
    let rooms: Vec<String> = used(text).into_iter().collect();
    assert_eq!(rooms, ["env", "exit", "model", "os", "verdict"]);
}

#[test]
fn no_file_is_long() {
    let long: Vec<String> = sources()
        .into_iter()
        .filter_map(|path| {
            let lines = std::fs::read_to_string(&path).expect("source").lines().count();
            (lines > LONGEST).then(|| format!("{}: {lines} lines", path.display()))
        })
        .collect();
    assert!(long.is_empty(), "split these:\n{}", long.join("\n"));
}

#[test]
fn programs_are_three_lines() {
    for path in sources().iter().filter(|path| room(path) == "bin") {
        let text = std::fs::read_to_string(path).expect("source");
        let code =
            text.lines().filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with("//"));
        assert!(code.count() <= 3, "{}:\n{text}", path.display());
    }
}

#[test]
fn only_one_file_talks_and_only_one_holds_numbers_of_exits() {
    let mut wrong = Vec::new();
    for path in sources() {
        let text = std::fs::read_to_string(&path).expect("source");
        let product = text.split("#[cfg(test)]").next().unwrap_or_default();
        let test = path.to_string_lossy().ends_with("_tests.rs");
        for word in ["println!(", "eprintln!(", "print!(", "process::exit(", "unsafe {"] {
            let told = product.contains(word) && !test && !path.ends_with("src/report.rs");
            if told {
                wrong.push(format!("{}: {word}", path.display()));
            }
        }
        if product.contains("std::env::var") && !test && !path.ends_with("src/env.rs") {
            wrong.push(format!("{}: reads the environment", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn parsed() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    sources().iter().filter_map(|path| Source::read(root, path)).collect()
}

#[test]
fn no_file_leads_back_to_itself() {
    let circles = Graph::of(&parsed()).circles();
    assert!(circles.is_empty(), "take one arrow out of each circle:\n{}", circles.join("\n"));
}

#[test]
fn one_name_means_one_thing() {
    let sources = parsed();
    let mut homes: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut twice = BTreeSet::new();
    for source in &sources {
        for name in &source.types {
            if !homes.entry(name).or_default().insert(&source.file) {
                twice.insert(name.as_str());
            }
        }
    }
    twice.extend(homes.iter().filter(|(_, files)| files.len() > 1).map(|(name, _)| *name));
    let lines: Vec<String> = twice.iter().map(|name| format!("{name}: {:?}", homes[name])).collect();
    assert!(twice.is_empty(), "these names have two meanings:\n{}", lines.join("\n"));
}

#[test]
fn the_reader_of_circles_sees_them() {
    let circles = |files: &[(&str, &str)]| {
        let sources: Vec<Source> = files.iter().map(|(file, text)| Source::parse(file, text)).collect();
        Graph::of(&sources).circles()
    };
    let room = ("src/a/mod.rs", "mod b; mod c; pub(crate) use c::Deep; pub(crate) struct Shared;");
    let both = "src/a/b.rs ↔ src/a/c.rs";
    assert_eq!(
        circles(&[room, ("src/a/b.rs", "use super::c::X;"), ("src/a/c.rs", "fn f() { crate::a::b::g() }")]),
        [both]
    );
    // Through a re-export, and by a type whose functions stand in two files.
    assert_eq!(
        circles(&[room, ("src/a/b.rs", "use crate::a::Deep;"), ("src/a/c.rs", "use super::{b::{self, Y}};")]),
        [both]
    );
    let split = ("src/a/c.rs", "use super::b::T; impl T { fn part(&self) {} }");
    assert_eq!(circles(&[room, ("src/a/b.rs", "struct T; fn f(t: T) { t.part() }"), split]), [both]);
    // What those inside a room share with it is not a circle, nor is what only tests name.
    assert!(
        circles(&[room, ("src/a/b.rs", "use super::Shared; fn f() {}"), ("src/a/c.rs", "use super::b::f;")])
            .is_empty()
    );
    let tests = "#[cfg(test)] mod tests { use crate::a::c::X; }";
    assert!(circles(&[room, ("src/a/b.rs", tests), ("src/a/c.rs", "use super::b::f;")]).is_empty());
}
