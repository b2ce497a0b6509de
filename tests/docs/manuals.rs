//! Every manual page against its program.

use crate::help::{Help, Options, codes_in, exit_codes};
use crate::manual::Manual;
use crate::support::{needs, run};
use crate::{read, root, tools};
use std::collections::BTreeSet;
use std::process::Command;

/// The order of sections that readers know; not every page has each.
const ORDER: [&str; 11] = [
    "NAME",
    "SYNOPSIS",
    "DESCRIPTION",
    "OPTIONS",
    "ENVIRONMENT",
    "FILES",
    "EXIT STATUS",
    "EXAMPLES",
    "NOTES",
    "SEE ALSO",
    "BUGS",
];

fn pages() -> Vec<String> {
    crate::support::names_in(&root().join("man"))
}

#[test]
fn every_option_is_in_the_manual_and_the_other_way_round() {
    for tool in tools() {
        let (help, manual) = (Help::of(&tool), Manual::read(&format!("{tool}.1")));
        let (typed, explained, named) = (help.all(), manual.explained(), manual.options());
        let missing: Vec<_> = typed.difference(&explained).collect();
        assert!(missing.is_empty(), "man/{tool}.1 does not explain {missing:?} in OPTIONS");
        let invented: Vec<_> = named.difference(&typed).collect();
        assert!(invented.is_empty(), "man/{tool}.1 has options that {tool} does not take: {invented:?}");
    }
}

#[test]
fn every_subcommand_has_its_synopsis_with_its_options() {
    for tool in tools() {
        let (help, synopsis) = (Help::of(&tool), Manual::read(&format!("{tool}.1")).synopsis());
        let globals = help.globals();
        for sub in &help.subs {
            let shown: Vec<&Options> =
                synopsis.iter().filter(|(name, _)| *name == sub.name).map(|(_, options)| options).collect();
            if sub.name.is_empty() {
                assert!(help.subs.len() > 1 || !shown.is_empty(), "man/{tool}.1: SYNOPSIS");
                continue;
            }
            assert!(!shown.is_empty(), "man/{tool}.1: SYNOPSIS lacks {}", sub.name);
            for option in sub.options.difference(&globals).filter(|option| option.starts_with("--")) {
                let short = short_of(&help, sub.name.as_str(), option);
                let there = |known: &&Options| {
                    known.contains(option) || short.as_ref().is_some_and(|short| known.contains(short))
                };
                assert!(shown.iter().any(there), "man/{tool}.1: SYNOPSIS of {} lacks {option}", sub.name);
            }
            let known: Options = sub.options.union(&globals).cloned().collect();
            for options in shown {
                let wrong: Vec<_> = options.difference(&known).collect();
                assert!(wrong.is_empty(), "man/{tool}.1: SYNOPSIS of {} has {wrong:?}", sub.name);
            }
        }
        let names: BTreeSet<&str> = help.subs.iter().map(|sub| sub.name.as_str()).collect();
        for (name, _) in &synopsis {
            assert!(
                name == "help" || names.contains(name.as_str()),
                "man/{tool}.1: SYNOPSIS has {name}, {tool} does not"
            );
        }
    }
}

/// `-w` for `--wait`: they stand in one line of the help.
fn short_of(help: &Help, sub: &str, long: &str) -> Option<String> {
    let text = if sub.is_empty() { help.text.clone() } else { sub_help(help, sub) };
    text.lines().find_map(|line| {
        let (short, rest) = line.trim_start().split_once(", ")?;
        (rest.split(' ').next() == Some(long)).then(|| short.to_owned())
    })
}

fn sub_help(help: &Help, sub: &str) -> String {
    let tool = help.text.split("Usage: ").nth(1).and_then(|usage| usage.split(' ').next()).expect("usage");
    run(Command::new(crate::support::bin(tool)).args([sub, "--help"])).stdout
}

#[test]
fn exit_codes_in_the_manuals_are_those_of_the_help() {
    let table: Vec<(String, String)> = exit_codes()
        .into_iter()
        .map(|(code, name, meaning)| (code.to_string(), format!("{name}: {meaning}")))
        .collect();
    let manual = Manual::read("orion.7").exits();
    assert_eq!(manual[..table.len()], table[..], "orion(7)");
    assert_eq!(manual[table.len()].0, "126, 127, 128+N", "orion(7)");
    for tool in tools() {
        let help = Help::of(&tool).codes();
        let numbers = codes_in(&Manual::read(&format!("{tool}.1")).section("EXIT STATUS").join("\n"));
        assert_eq!(numbers, help, "man/{tool}.1 against {tool} --help");
    }
}

#[test]
fn scripts_and_their_manuals_have_the_same_options() {
    for script in
        crate::support::names_in(&root().join("scripts")).iter().filter(|name| name.starts_with("orion-"))
    {
        let text = run(Command::new(root().join("scripts").join(script)).arg("--help")).expect(0).stdout;
        let manual = Manual::read(&format!("{script}.1"));
        // "[--skip-code N]", "--skip-code N": words of the help that are options, but for what is passed on.
        let typed: Options = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("orion-") || line.contains('['))
            .flat_map(|line| line.split(|c: char| c.is_whitespace() || "[](),|".contains(c)))
            .filter(|word| word.len() > 2 && word.starts_with("--"))
            .map(str::to_owned)
            .collect();
        for option in &typed {
            assert!(manual.options().contains(option), "man/{script}.1 lacks {option}");
        }
        for option in
            manual.explained().iter().filter(|option| option.starts_with("--") && *option != "--help")
        {
            assert!(text.contains(option.as_str()), "{script} --help lacks {option}");
        }
    }
}

#[test]
fn the_gates_manual_has_the_codes_of_the_gate() {
    let codes: Vec<String> = Manual::read("orion-gate.1").exits().into_iter().map(|exit| exit.0).collect();
    assert_eq!(codes, ["0", "75", "130, 131"]);
}

#[test]
fn the_rules_of_liveness_are_numbered_as_in_the_evidence() {
    let manual = read("man/orion.7");
    for rule in 0..=6 {
        assert!(manual.contains(&format!(".It rule {rule}\n")), "orion(7), LIVENESS: rule {rule}");
    }
    let source = read("src/verdict/liveness.rs");
    for rule in source.split("rule ").skip(1).filter_map(|rest| rest.chars().next()?.to_digit(10)) {
        assert!(rule <= 6, "the evidence names a rule {rule} that orion(7) does not have");
    }
}

#[test]
fn variables_and_words_of_the_log_are_in_the_manual() {
    let manual = read("man/orion.7");
    let variables = read("src/env.rs");
    for name in variables.split('"').filter(|text| text.starts_with("ORION_") || *text == "SUDO_USER") {
        let somewhere = pages().iter().any(|page| read(format!("man/{page}")).contains(name));
        assert!(somewhere, "no manual names the variable {name}");
    }
    for file in ["NAME.guard", "NAME.json", "NAME.pulse", "log/NAME.jsonl", ".state-id", ".private"] {
        assert!(manual.contains(file), "orion(7), FILES: {file}");
    }
    let page = read("man/orion-lock.1");
    let events = read("src/model/event.rs");
    let words = events.split("WORDS: [").nth(1).and_then(|rest| rest.split("];").next()).expect("the events");
    let words: Vec<&str> = words.split('"').skip(1).step_by(2).collect();
    assert!(words.len() > 8, "{words:?}");
    for word in words {
        assert!(page.contains(word), "orion-lock(1), log: {word}");
    }
}

#[test]
fn pages_have_the_sections_in_the_usual_order() {
    for tool in tools() {
        let manual = Manual::read(&format!("{tool}.1"));
        let known: Vec<&str> = manual.names().into_iter().filter(|name| ORDER.contains(name)).collect();
        let expected: Vec<&str> = ORDER.into_iter().filter(|name| known.contains(name)).collect();
        assert_eq!(known, expected, "man/{tool}.1");
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES", "SEE ALSO"] {
            assert!(known.contains(&section), "man/{tool}.1 has no {section}");
        }
    }
}

#[test]
fn mandoc_finds_nothing() {
    if !needs("mandoc") {
        return;
    }
    for page in pages() {
        let done = run(Command::new("mandoc")
            .args(["-T", "lint", "-W", "warning"])
            .arg(root().join("man").join(&page)));
        assert!(done.code == 0 && done.stdout.is_empty(), "{page}: {}{}", done.stdout, done.stderr);
    }
}

#[test]
fn pages_refer_only_to_pages_that_exist() {
    let own = pages();
    for page in &own {
        let text = read(format!("man/{page}"));
        for line in text.lines().filter(|line| line.starts_with(".Xr orion")) {
            let mut words = line.split(' ').skip(1);
            let target = format!("{}.{}", words.next().expect("a name"), words.next().expect("a section"));
            assert!(own.contains(&target), "{page} refers to {target}");
        }
    }
}

#[test]
fn every_option_is_in_every_completion() {
    for tool in tools() {
        let help = Help::of(&tool);
        for (file, spelled) in
            [(format!("{tool}.bash"), "bash"), (format!("_{tool}"), "zsh"), (format!("{tool}.fish"), "fish")]
        {
            let text = read(format!("completions/{file}"));
            for option in help.all() {
                let there = match spelled {
                    "fish" if option.starts_with("--") => text.contains(&format!("-l {}", &option[2..])),
                    "fish" => text.contains(&format!("-s {}", &option[1..])),
                    _ => text.contains(&option),
                };
                assert!(there, "completions/{file} lacks {option}");
            }
            for sub in help.subs.iter().filter(|sub| !sub.name.is_empty()) {
                assert!(text.contains(&sub.name), "completions/{file} lacks {}", sub.name);
            }
        }
    }
}
