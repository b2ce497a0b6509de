//! Completions for bash, zsh and fish, written from the clap tree. They are
//! committed in `completions/`; here they are compared, or with
//! `ORION_REGENERATE=1` in the environment written anew. This is a module of `src/cli`, for tests only.

mod bash;
mod fish;
mod zsh;

use clap::{Arg, ArgAction, Command, CommandFactory};
use std::path::{Path, PathBuf};

/// The tools in the order of the manual.
fn tools() -> Vec<Command> {
    let mut tools = vec![
        super::lock::Lock::command(),
        super::precheck::Precheck::command(),
        super::lease::LeaseArgs::command(),
        super::reap::Reap::command(),
        super::claim::ClaimArgs::command(),
        super::mark::MarkTool::command(),
    ];
    for tool in &mut tools {
        tool.build();
    }
    tools
}

/// What may stand in a place.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    /// Names of locks that were ever held here.
    Locks,
    Users,
    Directory,
    File,
    Program,
    Pid,
    Words(Vec<String>),
    /// Nothing that can be guessed.
    Free,
}

impl Value {
    fn of(tool: &str, arg: &Arg) -> Self {
        let words: Vec<String> = arg
            .get_possible_values()
            .iter()
            .filter(|value| !value.is_hide_set())
            .map(|value| value.get_name().to_owned())
            .collect();
        if !words.is_empty() && arg.get_action().takes_values() {
            return Self::Words(words);
        }
        let name = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
        let names_a_lock = matches!(arg.get_id().as_str(), "name" | "names" | "pulse" | "lock");
        match name.as_deref().unwrap_or_default() {
            "NAME" if arg.get_id() == "user" => Self::Users,
            "NAME" | "LOCK" if names_a_lock && tool != "orion-claim" => Self::Locks,
            "DIR" => Self::Directory,
            "PATH" | "FILE" | "STORE" | "NAME|PATH" => Self::File,
            "RUNNER" => Self::Words(["tmux", "orca", "command:"].map(str::to_owned).to_vec()),
            "CMD" => Self::Program,
            "PID" | "WHO" => Self::Pid,
            _ => Self::Free,
        }
    }
}

/// An option as people type it.
#[derive(Clone, Debug)]
struct Flag {
    short: Option<char>,
    long: Option<String>,
    help: String,
    /// `None`: it takes no value.
    value: Option<Value>,
    /// It may stand several times.
    repeats: bool,
}

impl Flag {
    /// `-w`, `--wait`.
    fn spellings(&self) -> Vec<String> {
        let short = self.short.map(|short| format!("-{short}"));
        short.into_iter().chain(self.long.as_ref().map(|long| format!("--{long}"))).collect()
    }
}

/// What stands at a place of its own.
#[derive(Clone, Debug)]
struct Place {
    name: String,
    value: Value,
    /// Everything from here on is one of these.
    rest: bool,
}

/// A tool, or one of its subcommands.
#[derive(Clone, Debug)]
struct Node {
    /// Empty for the tool itself.
    name: String,
    help: String,
    flags: Vec<Flag>,
    places: Vec<Place>,
    subs: Vec<Self>,
}

impl Node {
    fn of(tool: &str, command: &Command, name: &str) -> Self {
        let visible = || command.get_arguments().filter(|arg| !arg.is_hide_set());
        let flags = visible().filter(|arg| !arg.is_positional()).map(|arg| flag(tool, arg)).collect();
        let places = visible().filter(|arg| arg.is_positional()).map(|arg| place(tool, arg)).collect();
        let subs = command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
        Self {
            name: name.to_owned(),
            help: help(command.get_about().map(ToString::to_string)),
            flags,
            places,
            subs: subs.map(|sub| Self::of(tool, sub, sub.get_name())).collect(),
        }
    }

    /// Itself and its subcommands.
    fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.subs)
    }

    /// The place of another command's name.
    fn command_at(&self) -> Option<usize> {
        self.places.iter().position(|place| place.value == Value::Program)
    }

    /// How many places must be behind us for the line to belong to that command. Its own name, where
    /// nothing stands before it, may still turn out to be an option of ours.
    fn command_from(&self) -> Option<usize> {
        self.command_at().map(|at| at.max(1))
    }

    /// Is this flag, with this value, one of every subcommand?
    fn everywhere(&self, wanted: &Flag) -> bool {
        self.all().all(|node| {
            node.flags.iter().any(|flag| flag.spellings() == wanted.spellings() && flag.value == wanted.value)
        })
    }

    /// `sub:--option` of the flags that `wanted` picks; `*:--option` where every subcommand has it.
    fn patterns(&self, wanted: impl Fn(&Flag) -> bool) -> Vec<String> {
        let mut patterns = Vec::new();
        for node in self.all() {
            for flag in node.flags.iter().filter(|flag| wanted(flag)) {
                let at = if self.everywhere(flag) { "*" } else { node.name.as_str() };
                patterns.extend(flag.spellings().iter().map(|word| format!("{at}:{word}")));
            }
        }
        let mut seen = std::collections::HashSet::new();
        patterns.retain(|pattern| seen.insert(pattern.clone()));
        patterns
    }

    /// Does any place or option anywhere take this?
    fn wants(&self, wanted: &Value) -> bool {
        self.all().any(|node| {
            node.places.iter().any(|place| place.value == *wanted)
                || node.flags.iter().any(|flag| flag.value.as_ref() == Some(wanted))
        })
    }
}

fn flag(tool: &str, arg: &Arg) -> Flag {
    Flag {
        short: arg.get_short(),
        long: arg.get_long().map(str::to_owned),
        help: help(arg.get_help().map(ToString::to_string)),
        // A value that may be left out comes behind a `=`: the next word is not it.
        value: (arg.get_action().takes_values()
            && arg.get_num_args().is_none_or(|count| count.min_values() > 0))
        .then(|| Value::of(tool, arg)),
        repeats: matches!(arg.get_action(), ArgAction::Append | ArgAction::Count),
    }
}

fn place(tool: &str, arg: &Arg) -> Place {
    let name = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    Place {
        name: name.unwrap_or_else(|| arg.get_id().to_string()),
        value: Value::of(tool, arg),
        rest: matches!(arg.get_action(), ArgAction::Append),
    }
}

/// The first line, without what a shell's quoting or description syntax would trip over.
fn help(text: Option<String>) -> String {
    let line = text.unwrap_or_default().lines().next().unwrap_or_default().to_owned();
    line.replace('\'', "").replace('[', "(").replace(']', ")").replace(['\\', '`', '"'], "")
}

/// `orion_lock`, for names of shell functions.
fn function(tool: &str) -> String {
    tool.replace('-', "_")
}

/// Where a file is committed, and what it must hold.
fn files() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("completions");
    let mut files = Vec::new();
    for command in tools() {
        let tool = command.get_name().to_owned();
        let node = Node::of(&tool, &command, "");
        files.push((root.join(format!("{tool}.bash")), bash::script(&tool, &node)));
        files.push((root.join(format!("_{tool}")), zsh::script(&tool, &node)));
        files.push((root.join(format!("{tool}.fish")), fish::script(&tool, &node)));
    }
    files
}

#[test]
fn the_committed_files_are_what_the_options_say() {
    let regenerate = std::env::var_os("ORION_REGENERATE").is_some();
    for (path, text) in files() {
        if regenerate {
            std::fs::create_dir_all(path.parent().expect("a directory")).expect("directory");
            std::fs::write(&path, &text).expect("write");
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == text,
            "{} is old: ORION_REGENERATE=1 cargo test --lib completions",
            path.display()
        );
    }
}
