//! `--help`, read.

use crate::support::{Tool, run};
use std::collections::BTreeSet;

/// The options of one command, as typed: `-w`, `--wait`.
pub(crate) type Options = BTreeSet<String>;

/// A subcommand; `""` is the tool itself.
#[derive(Debug)]
pub(crate) struct Sub {
    pub(crate) name: String,
    pub(crate) options: Options,
}

/// All that a tool says about itself.
#[derive(Debug)]
pub(crate) struct Help {
    pub(crate) text: String,
    /// The tool first, then its subcommands.
    pub(crate) subs: Vec<Sub>,
    /// `(75, "SKIP", "proof of …")`; the name is empty where the help has none.
    pub(crate) exits: Vec<(u8, String, String)>,
}

impl Help {
    pub(crate) fn of(tool: &str) -> Self {
        let text = show(tool, &["--help"]);
        let mut subs = vec![Sub { name: String::new(), options: options(&text) }];
        for name in section(&text, "Commands:").iter().filter_map(|line| line.split_whitespace().next()) {
            if name != "help" {
                subs.push(Sub { name: name.to_owned(), options: options(&show(tool, &[name, "--help"])) });
            }
        }
        let exits = exits(&text);
        Self { text, subs, exits }
    }

    /// Every code of ours that the exit status names, in a table or in a sentence.
    pub(crate) fn codes(&self) -> BTreeSet<u8> {
        codes_in(self.text.split("Exit status:").nth(1).unwrap_or_default())
    }

    /// Options that may stand anywhere.
    pub(crate) fn globals(&self) -> Options {
        let mut globals = self.subs[0].options.clone();
        globals.extend(["-h".to_owned(), "--help".to_owned()]);
        globals
    }

    /// Options of the tool and all its subcommands.
    pub(crate) fn all(&self) -> Options {
        self.subs.iter().flat_map(|sub| sub.options.clone()).collect()
    }
}

/// What all of them mean together, as `orion-lock help exit-codes` says.
pub(crate) fn exit_codes() -> Vec<(u8, String, String)> {
    let mut all = exits(&show("orion-lock", &["help", "exit-codes"]));
    all.retain(|exit| exit.0 < 126);
    all
}

/// The numbers in a text that are exit codes of ours.
pub(crate) fn codes_in(text: &str) -> BTreeSet<u8> {
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok());
    numbers.filter(|code| matches!(code, 0 | 64..=78)).collect()
}

fn show(tool: &str, args: &[&str]) -> String {
    let own = Tool::new();
    let done = run(&mut own.tool(tool, args)).expect(0).silent();
    done.stdout
}

/// The indented lines under a heading.
fn section<'a>(text: &'a str, heading: &str) -> Vec<&'a str> {
    let lines = text.lines().skip_while(|line| *line != heading).skip(1);
    lines.take_while(|line| line.starts_with(' ')).collect()
}

fn options(text: &str) -> Options {
    let mut options = Options::new();
    // Under any heading, but not the examples before the usage.
    for line in text.lines().skip_while(|line| !line.starts_with("Usage:")).map(str::trim_start) {
        let words = line.split([' ', ',']).filter(|word| !word.is_empty());
        let spelled = words.take_while(|word| word.starts_with('-') && word.len() > 1);
        // `--option[=<VALUE>]`: a value that may follow.
        let plain = |word: &str| word.split("[=").next().unwrap_or_default().to_owned();
        options.extend(spelled.map(plain));
    }
    options
}

fn exits(text: &str) -> Vec<(u8, String, String)> {
    let mut exits = Vec::new();
    for line in section(text, "Exit status:") {
        let line = line.trim();
        let Some((code, rest)) = line.split_once(' ') else { continue };
        let Ok(code) = code.parse() else { continue };
        let rest = rest.trim();
        let (name, meaning) = match rest.split_once(' ') {
            Some((name, meaning)) if name.chars().all(|c| c.is_ascii_uppercase()) => (name, meaning.trim()),
            _ => ("", rest),
        };
        exits.push((code, name.to_owned(), meaning.to_owned()));
    }
    exits
}

/// The rows of a text in a window of that width.
fn rows(text: &str, width: usize) -> usize {
    text.lines().map(|line| line.chars().count().div_ceil(width).max(1)).sum()
}

#[test]
fn the_short_help_fits_one_screen_and_the_long_one_leaves_nothing_out() {
    for tool in crate::tools() {
        for sub in Help::of(&tool).subs {
            // A program with its list of subcommands may take more than the smallest window has.
            let most = if sub.name.is_empty() { 40 } else { 24 };
            let words: Vec<&str> = [sub.name.as_str()].into_iter().filter(|word| !word.is_empty()).collect();
            let what = format!("{tool} {}", sub.name);
            let short = show(&tool, &[&words[..], &["-h"]].concat());
            assert!(rows(&short, 80) <= most, "{what} -h has {} rows of 80:\n{short}", rows(&short, 80));
            let hidden: Vec<_> = options(&short).difference(&sub.options).cloned().collect();
            assert!(hidden.is_empty(), "{what} --help leaves out {hidden:?}");
            let long = show(&tool, &[&words[..], &["--help"]].concat());
            let in_long = |line: &&str| !long.contains(line.split("  ").last().unwrap_or_default().trim());
            let missing: Vec<&str> =
                short.lines().filter(in_long).filter(|line| !line.contains("--help'")).collect();
            assert!(missing.is_empty(), "{what} --help leaves out {missing:?}");
        }
    }
}

#[test]
fn every_option_stands_in_the_long_help() {
    // The completions are written from the options themselves, shown or not.
    for tool in crate::tools() {
        let place = format!("'__{}_at ", tool.replace('-', "_"));
        let completions = crate::read(format!("completions/{tool}.fish"));
        let options: Vec<(&str, String)> = (completions.lines())
            .filter_map(|line| {
                let sub = line.split(&place).nth(1)?.split(['\'', ' ']).next()?;
                let option = line.split(" -l ").nth(1)?.split(' ').next()?;
                Some((sub, format!("--{option}")))
            })
            .collect();
        assert!(options.len() > 3, "{tool}: {options:?}");
        for sub in Help::of(&tool).subs {
            let here = |place: &str| place == "any" || place == sub.name;
            for (_, option) in options.iter().filter(|(place, _)| here(place)) {
                assert!(sub.options.contains(option), "{tool} {} --help leaves out {option}", sub.name);
            }
        }
    }
}

#[test]
fn every_help_has_examples_first_and_its_exit_codes() {
    for tool in crate::tools() {
        let help = Help::of(&tool);
        let (examples, usage) = (help.text.find("Examples:"), help.text.find("Usage:"));
        assert!(
            examples.is_some_and(|at| usage.is_some_and(|usage| at < usage)),
            "{tool}: examples before usage"
        );
        assert!(help.exits.iter().any(|exit| exit.0 == 0), "{tool}: exit codes in help");
        assert!(help.text.lines().all(|line| line.chars().count() <= 140), "{tool}: a line too long to read");
    }
}

#[test]
fn the_exit_codes_of_every_help_are_those_of_the_enum() {
    let table = exit_codes();
    let numbers: Vec<u8> = table.iter().map(|exit| exit.0).collect();
    assert_eq!(numbers, [0, 64, 65, 69, 70, 71, 73, 74, 75, 76, 77, 78], "the contract");
    // The enum is private to the crate: its source is read, the one file with these numbers' names.
    let source = crate::read("src/exit.rs");
    for (_, name, meaning) in &table {
        assert!(source.contains(&format!("\"{name}\"")), "src/exit.rs has no {name}");
        assert!(source.contains(&format!("\"{meaning}\"")), "src/exit.rs has no \"{meaning}\"");
    }
    for tool in crate::tools() {
        for exit in Help::of(&tool).exits {
            let known = table.iter().find(|known| known.0 == exit.0);
            let known = known.unwrap_or_else(|| panic!("{tool}: {exit:?} is not a code of ours"));
            // Each tool has its own reasons, and no name but the code's.
            assert!(exit.1.is_empty() || exit.1 == known.1, "{tool}: {exit:?}");
        }
    }
}
