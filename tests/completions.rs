//! The committed completions, loaded in real shells. That they are what the options
//! say is a unit test beside their generator.

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use support::{Tool, needs, run};

/// Runs one completion in zsh: prints what `compadd` was given, one a line.
const ZSH: &str = r#"
zmodload zsh/zpty || exit 3
zpty z zsh -f -i
() {
    zpty -w z "source $1"
    local line
    repeat 50; do
        zpty -r z line || exit 4
        [[ $line == *ready* ]] && return
    done
    exit 5
} =( <<< '
PROMPT=
fpath=($FILES $fpath)
autoload -U compinit
compinit -u -D
bindkey "^M" undefined
bindkey "^J" undefined
bindkey "^I" complete-word
mark() { print -r -- "<<<" }
done-mark() { print -r -- ">>>" }
compprefuncs=(mark)
comppostfuncs=(done-mark exit)
zstyle ":completion:*" insert-tab false
compadd() {
    if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
        builtin compadd "$@"
        return $?
    fi
    typeset -a hits
    builtin compadd -A hits "$@"
    local hit
    for hit in $hits; do print -r -- "=$hit"; done
    builtin compadd "$@"
}
stty raw
print read""y
')
zpty -w -n z "$LINE"$'\t'
local line text=
while zpty -r z line; do
    text+=$line
    [[ $line == *'>>>'* ]] && break
done
print -r -- $text
zpty -d z
"#;

fn files() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("completions")
}

/// What the shell offers for the last word of `words`.
fn offered(tool: &Tool, shell: &str, words: &[&str]) -> BTreeSet<String> {
    let program = words[0];
    let path = format!("{}:{}", support::bin_dir().display(), std::env::var("PATH").unwrap_or_default());
    let mut command = tool.command(shell);
    command.env("PATH", path).env("HOME", tool.path("")).env("FILES", files()).env("TERM", "dumb");
    match shell {
        "bash" => {
            let function = program.replace('-', "_");
            let text = format!(
                "set -u; . '{}/{program}.bash'; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _{function}; printf '%s\\n' \"${{COMPREPLY[@]-}}\"",
                files().display()
            );
            command.args(["--norc", "-c", &text, "bash"]).args(words);
        }
        "zsh" => {
            let script = tool.path("capture.zsh");
            std::fs::write(&script, ZSH).expect("script");
            command.arg("-f").arg(script).env("LINE", words.join(" "));
        }
        _ => {
            let text = format!("source '{}/{program}.fish'; complete -C \"$LINE\"", files().display());
            command.args(["--no-config", "-c", &text]).env("LINE", words.join(" "));
        }
    }
    let done = run(&mut command);
    assert_eq!(done.code, 0, "{shell} {words:?}: {done:?}");
    let lines = done.stdout.lines().map(str::trim).filter(|line| !line.is_empty());
    match shell {
        "zsh" => lines.filter_map(|line| line.strip_prefix('=')).map(str::to_owned).collect(),
        // fish: the word, a tab, its description.
        _ => lines.filter_map(|line| line.split('\t').next()).map(str::to_owned).collect(),
    }
}

/// In every shell that is here; `missing`: what must not be offered.
fn check(tool: &Tool, words: &[&str], there: &[&str], missing: &[&str]) {
    for shell in ["bash", "zsh", "fish"] {
        if !needs(shell) {
            continue;
        }
        let offered = offered(tool, shell, words);
        for word in there {
            assert!(offered.contains(*word), "{shell}: {words:?} should offer {word}: {offered:?}");
        }
        for word in missing {
            assert!(!offered.contains(*word), "{shell}: {words:?} should not offer {word}: {offered:?}");
        }
    }
}

#[test]
fn subcommands_and_options_are_offered_where_they_belong() {
    let tool = Tool::new();
    check(&tool, &["orion-lock", ""], &["run", "acquire", "status", "log", "where"], &["--token"]);
    check(&tool, &["orion-lock", "st"], &["status"], &[]);
    check(
        &tool,
        &["orion-lock", "run", "--"],
        &["--wait", "--status-file", "--owner-only"],
        &["--print-token"],
    );
    check(&tool, &["orion-lock", "release", "--"], &["--token", "--owner", "--dir"], &["--wait"]);
    check(&tool, &["orion-precheck", "--"], &["--deadline", "--observe", "--strict"], &["--token"]);
}

#[test]
fn names_of_locks_come_from_the_directory() {
    let tool = Tool::new();
    check(&tool, &["orion-lock", "status", ""], &[], &["sync", "NAME"]);
    for name in ["sync", "backup.1"] {
        tool.lock(&["run", name, "true"]).expect(0);
    }
    for sub in ["run", "acquire", "release", "status", "log"] {
        check(&tool, &["orion-lock", sub, ""], &["sync", "backup.1"], &["NAME", "run"]);
    }
    check(&tool, &["orion-precheck", ""], &["sync", "backup.1"], &[]);
    check(&tool, &["orion-precheck", "-q", "sync", ""], &["backup.1"], &[]);
    // The value of an option is not the name.
    check(&tool, &["orion-lock", "run", "-w", "10m", ""], &["sync"], &[]);
    check(&tool, &["orion-lock", "run", "-w", ""], &[], &["sync"]);

    let other = Tool::new();
    other.lock(&["run", "elsewhere", "true"]).expect(0);
    let dir = other.dir().display().to_string();
    check(&tool, &["orion-lock", "status", "--dir", &dir, ""], &["elsewhere"], &["sync"]);
}

#[test]
fn behind_the_name_the_line_belongs_to_the_command() {
    let tool = Tool::new();
    tool.lock(&["run", "sync", "true"]).expect(0);
    check(&tool, &["orion-lock", "run", "sync", "orion-pre"], &["orion-precheck"], &["sync"]);
    check(&tool, &["orion-lock", "run", "sync", "true", "--w"], &[], &["--wait"]);
}

#[test]
fn every_tool_has_its_three_files() {
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin")).expect("src/bin") {
        let path = entry.expect("entry").path();
        let tool = path.file_stem().expect("a name").to_string_lossy().into_owned();
        if tool == "orion-via" {
            // Other programs call it, people do not.
            continue;
        }
        for file in [format!("{tool}.bash"), format!("_{tool}"), format!("{tool}.fish")] {
            assert!(
                files().join(&file).is_file(),
                "completions/{file} is missing: add {tool} to tests/completions_writer"
            );
        }
    }
}
