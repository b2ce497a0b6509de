//! Manual pages in mdoc, read.

use std::collections::BTreeSet;

/// A page by its sections.
#[derive(Debug)]
pub(crate) struct Manual {
    sections: Vec<(String, Vec<String>)>,
}

impl Manual {
    pub(crate) fn read(page: &str) -> Self {
        let mut sections: Vec<(String, Vec<String>)> = vec![(String::new(), Vec::new())];
        for line in crate::read(format!("man/{page}")).lines() {
            match line.strip_prefix(".Sh ") {
                Some(name) => sections.push((name.to_owned(), Vec::new())),
                None => sections.last_mut().expect("a section").1.push(line.to_owned()),
            }
        }
        Self { sections }
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.sections.iter().skip(1).map(|section| section.0.as_str()).collect()
    }

    pub(crate) fn section(&self, name: &str) -> &[String] {
        self.sections
            .iter()
            .find(|section| section.0 == name)
            .map(|section| &section.1[..])
            .unwrap_or_default()
    }

    /// Every option that the page marks up as one.
    pub(crate) fn options(&self) -> BTreeSet<String> {
        self.sections.iter().flat_map(|section| &section.1).flat_map(|line| flags(line)).collect()
    }

    /// Options that OPTIONS explains: in an `.It`.
    pub(crate) fn explained(&self) -> BTreeSet<String> {
        let lines = self.section("OPTIONS").iter().filter(|line| line.starts_with(".It "));
        lines.flat_map(|line| flags(line)).collect()
    }

    /// SYNOPSIS by subcommand; `""` where there is none.
    pub(crate) fn synopsis(&self) -> Vec<(String, BTreeSet<String>)> {
        let mut found: Vec<(String, BTreeSet<String>)> = Vec::new();
        for line in self.section("SYNOPSIS") {
            if line.starts_with(".Nm") {
                found.push((String::new(), BTreeSet::new()));
            }
            let Some(last) = found.last_mut() else { continue };
            if let Some(sub) = line.strip_prefix(".Cm ") {
                last.0 = sub.split(' ').next().unwrap_or_default().to_owned();
            }
            last.1.extend(flags(line));
        }
        found
    }

    /// EXIT STATUS: `("75", "SKIP: proof of …")`.
    pub(crate) fn exits(&self) -> Vec<(String, String)> {
        let mut exits: Vec<(String, String)> = Vec::new();
        for line in self.section("EXIT STATUS") {
            if let Some(item) = line.strip_prefix(".It ") {
                exits.push((item.to_owned(), String::new()));
            } else if line == ".El" {
                break;
            } else if let Some(last) = exits.last_mut() {
                if !last.1.is_empty() {
                    last.1.push(' ');
                }
                last.1.push_str(line);
            }
        }
        exits
    }
}

/// `.Op Fl w Ar DUR` → `-w`; `Fl n , -lines` → `-n`, `--lines`; `Fl qv` → `-q`, `-v`.
fn flags(line: &str) -> Vec<String> {
    let mut flags = Vec::new();
    if !line.starts_with('.') {
        return flags;
    }
    let mut inside = false;
    for word in line.trim_start_matches('.').split(' ') {
        let macro_like = word.len() == 2 && word.starts_with(|c: char| c.is_ascii_uppercase());
        if word == "Fl" {
            inside = true;
        } else if macro_like {
            inside = false;
        } else if inside && word.chars().any(|c| c.is_ascii_alphanumeric()) {
            match word.strip_prefix('-') {
                Some(long) => flags.push(format!("--{long}")),
                None => flags.extend(word.chars().map(|short| format!("-{short}"))),
            }
        }
    }
    flags
}

#[test]
fn options_are_found_in_mdoc() {
    assert_eq!(flags(".Op Fl w Ar DUR"), ["-w"]);
    assert_eq!(flags(".It Fl n , -lines Ar N"), ["-n", "--lines"]);
    assert_eq!(flags(".Op Fl qv"), ["-q", "-v"]);
    assert_eq!(flags(".Op Fl -user Ar NAME | Fl -all-users"), ["--user", "--all-users"]);
    assert_eq!(flags(".Op Fl -"), [""; 0], "the end of options");
    assert_eq!(flags("Fl x in a text"), [""; 0]);
}
