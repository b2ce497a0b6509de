//! Help and hints, tried: every example of a help is run, and every command that a message names is one
//! that its tool takes.

use crate::help::{Help, Options};
use crate::support::{Tool, bin_dir, run};
use crate::{root, tools};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use syn::visit::Visit;

/// Programs that examples call and that are not ours.
const OTHERS: [&str; 13] = [
    "agent",
    "nightly-report",
    "server",
    "start-agent",
    "claude",
    "codex",
    "make",
    "backup",
    "nightly-job",
    "report",
    "deploy",
    "sync-files",
    "psql",
];

/// The example lines of a help, without what explains them.
fn examples(text: &str) -> Vec<String> {
    let lines = text.lines().skip_while(|line| !line.starts_with("Example")).skip(1);
    let lines = lines.take_while(|line| !line.starts_with("Usage:"));
    let ours = lines.filter_map(|line| line.strip_prefix("  ").filter(|line| line.starts_with("orion-")));
    ours.map(|line| line.split("  ").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn every_example_of_a_help_runs() {
    let mut wrong = Vec::new();
    for tool in tools() {
        let help = Help::of(&tool);
        let subs = help.subs.iter().map(|sub| sub.name.clone()).filter(|name| !name.is_empty());
        let texts = subs.map(|sub| run(&mut Tool::new().tool(&tool, &[sub.as_str(), "--help"])).stdout);
        let own = examples(&help.text);
        assert!(own.len() >= 3, "{tool}: examples in its help");
        for example in own.into_iter().chain(texts.flat_map(|text| examples(&text))) {
            let place = Tool::new();
            let stand_ins = place.path("bin");
            std::fs::create_dir(&stand_ins).expect("bin");
            for other in OTHERS {
                let path = stand_ins.join(other);
                std::fs::write(&path, "#!/bin/sh\nexit 0\n").expect("a program");
                std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("mode");
            }
            let before = std::env::var("PATH").unwrap_or_default();
            let path = [&stand_ins, &bin_dir(), &root().join("scripts")].map(|dir| dir.display().to_string());
            let typed = example.replace("/srv/", &format!("{}/", place.path("").display()));
            // An example may wait, or watch for ever; a usage error comes at once.
            let script = place.path("example.sh");
            std::fs::write(&script, format!("{typed}\n")).expect("script");
            let mut command = place.command("timeout");
            command.args(["-k", "1", "3", "bash"]).arg(&script).current_dir(place.path(""));
            let done =
                run(command.env("PATH", format!("{}:{before}", path.join(":"))).env("HOME", place.path("")));
            let refused = ["unexpected argument", "is not known here", " --help", "invalid value"];
            if matches!(done.code, 2 | 64 | 70 | 126 | 127)
                || refused.iter().any(|text| done.stderr.contains(text))
            {
                wrong.push(format!("{example}\n    exit {}: {}", done.code, done.stderr.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "examples that do not work:\n{}", wrong.join("\n"));
}

/// The string literals of a file that are not in tests.
#[derive(Default)]
struct Literals(Vec<String>);

impl<'ast> Visit<'ast> for Literals {
    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        self.0.push(text.value());
    }

    // What format! and its kin are given is not parsed as expressions: their literals are tokens.
    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.tokens(called.tokens.clone());
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.ident != "tests" {
            syn::visit::visit_item_mod(self, item);
        }
    }

    // Help and its examples are checked where they are shown.
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}

impl Literals {
    fn tokens(&mut self, tokens: proc_macro2::TokenStream) {
        for token in tokens {
            match token {
                proc_macro2::TokenTree::Group(group) => self.tokens(group.stream()),
                proc_macro2::TokenTree::Literal(literal) => {
                    if let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string()) {
                        self.0.push(text.value());
                    }
                }
                _ => {}
            }
        }
    }
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !path.to_string_lossy().ends_with("tests.rs")
        {
            found.push(path);
        }
    }
}

/// `orion-lock break --token {} {}; …` as `("orion-lock", ["break", "--token", "{}", "{}"])`.
fn commands(text: &str) -> Vec<(String, Vec<String>)> {
    let starts = text.match_indices("orion-").map(|(at, _)| at);
    let ends = |c: char| matches!(c, ';' | ',' | '\n' | '`' | '\'' | '"' | '(' | ')' | ':' | '|' | '&');
    starts
        .filter_map(|at| {
            let line = text[at..].split(ends).next().unwrap_or_default();
            let mut words = line.split_whitespace().map(str::to_owned);
            Some((words.next()?, words.collect()))
        })
        .collect()
}

#[test]
fn every_command_that_a_message_names_is_there() {
    let helps: BTreeMap<String, Help> =
        tools().into_iter().map(|tool| (tool.clone(), Help::of(&tool))).collect();
    let mut files = Vec::new();
    sources(&root().join("src"), &mut files);
    // Help is tried where it is shown.
    files.retain(|file| !file.starts_with(root().join("src/cli")));
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for file in files {
        let mut literals = Literals::default();
        literals
            .visit_file(&syn::parse_file(&std::fs::read_to_string(&file).expect("source")).expect("Rust"));
        for (tool, words) in literals.0.iter().flat_map(|text| commands(text)) {
            let Some(help) = helps.get(&tool) else { continue };
            let sub = words.first().and_then(|word| help.subs.iter().find(|sub| sub.name == *word));
            let known: Options = match sub {
                Some(sub) => sub.options.union(&help.globals()).cloned().collect(),
                None => help.all(),
            };
            for word in words.iter().take_while(|word| *word != "--") {
                let option: String =
                    word.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
                if option.starts_with("--") && option.len() > 2 {
                    tried += 1;
                    if !known.contains(&option) {
                        wrong.push(format!("{}: {tool} {}: no {option}", file.display(), words.join(" ")));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "hints that do not work:\n{}", wrong.join("\n"));
    assert!(tried > 10, "only {tried} options were found in messages");
}
