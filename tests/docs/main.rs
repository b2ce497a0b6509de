//! What is written is what the programs do: help, manuals, completions, README and
//! the exit codes say the same, and every command in the README works.

#[path = "../support/mod.rs"]
mod support;

mod help;
mod manual;
mod manuals;
mod readme;
mod sense;

use std::path::{Path, PathBuf};

/// The source tree.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What people read first: the README, and what it leads to.
fn written() -> Vec<String> {
    let mut files = vec!["README.md".to_owned()];
    let docs = support::names_in(&root().join("docs"));
    files.extend(docs.iter().filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}")));
    files
}

/// Every program of the package, by the files of `src/bin`.
fn tools() -> Vec<String> {
    let mut tools: Vec<String> = std::fs::read_dir(root().join("src/bin"))
        .expect("src/bin")
        .map(|entry| PathBuf::from(entry.expect("entry").file_name()))
        .map(|file| file.file_stem().expect("a name").to_string_lossy().into_owned())
        // What other programs call, and people do not.
        .filter(|tool| tool != "orion-via")
        .collect();
    tools.sort();
    assert!(tools.len() >= 2, "{tools:?}");
    tools
}
