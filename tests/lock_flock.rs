//! Lines of flock(1), carried over by changing one word, and compared with the real one.

mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use support::{Done, Running, Tool, needs, run};

/// What holds the lock meanwhile.
#[derive(Clone, Copy, Debug)]
enum Before {
    Free,
    Exclusive,
    Shared,
}

/// A line of either: `flock LINE…` or `orion-lock run LINE…`.
fn line(tool: &Tool, real: bool, words: &[&str]) -> Command {
    if !real {
        return tool.tool("orion-lock", &[&["run"], words].concat());
    }
    let mut command = tool.command("flock");
    command.args(words);
    command
}

fn holder(tool: &Tool, real: bool, before: Before, file: &str) -> Option<Running> {
    let option = match before {
        Before::Free => return None,
        Before::Exclusive => "-x",
        Before::Shared => "-s",
    };
    let mut command = line(tool, real, &[option, file, "sh", "-c", "echo up; read -r end"]);
    command.stdin(Stdio::piped());
    Some(Running::start(&mut command))
}

#[test]
fn a_line_of_flock_does_here_what_it_does_there() {
    if !needs("flock") {
        return;
    }
    let lines: [&[&str]; 21] = [
        &["-n", "FILE", "echo", "a b"],
        &["--nonblock", "FILE", "sh", "-c", "exit 7"],
        &["--nb", "FILE", "true"],
        &["-n", "FILE", "-c", "echo $((1 + 2)); exit 5"],
        &["-n", "FILE", "--command", "echo one | cat"],
        &["-n", "-s", "FILE", "echo", "shared"],
        &["--shared", "-n", "FILE", "echo", "shared"],
        &["-sn", "FILE", "-c", "echo shared"],
        &["-x", "-n", "FILE", "echo", "alone"],
        &["-e", "-n", "FILE", "echo", "alone"],
        &["-xn", "FILE", "echo", "alone"],
        &["--exclusive", "-n", "FILE", "echo", "alone"],
        &["-nF", "FILE", "echo", "became"],
        &["--no-fork", "-n", "FILE", "echo", "became"],
        &["-no", "FILE", "echo", "closed"],
        &["--close", "-n", "FILE", "echo", "closed"],
        &["-n", "-E", "9", "FILE", "echo", "code"],
        &["-n", "--conflict-exit-code", "9", "FILE", "echo", "code"],
        &["-w", "0.05", "-E", "9", "FILE", "echo", "waited"],
        &["--timeout", "0.05", "FILE", "echo", "waited"],
        &["-n", "FILE", "/nonexistent"],
    ];
    for before in [Before::Free, Before::Exclusive, Before::Shared] {
        let tool = Tool::new();
        let file = tool.path("flock-file");
        let file = file.to_str().expect("text");
        let _holders = (holder(&tool, true, before, file), holder(&tool, false, before, "l"));
        for words in lines {
            let with = |name: &str| -> Vec<String> {
                words
                    .iter()
                    .map(|word| if *word == "FILE" { name.to_owned() } else { (*word).to_owned() })
                    .collect()
            };
            let done = |real: bool, name: &str| -> Done {
                let words = with(name);
                run(&mut line(&tool, real, &words.iter().map(String::as_str).collect::<Vec<_>>()))
            };
            let (theirs, ours) = (done(true, file), done(false, "l"));
            // A refusal is 1 there and 75 here, if the line does not say; what is not found, 69 and 127.
            let theirs_code = match theirs.code {
                1 => 75,
                69 => 127,
                code => code,
            };
            assert_eq!(
                (ours.code, &ours.stdout),
                (theirs_code, &theirs.stdout),
                "{before:?} {words:?} {ours:?} {theirs:?}"
            );
        }
    }
}

#[test]
fn what_cannot_be_carried_over_is_answered_with_the_line_to_type() {
    let tool = Tool::new();
    for words in [&["-u", "9"][..], &["--unlock", "x"], &["-nu", "x", "true"]] {
        tool.lock(&[&["run"], words].concat())
            .expect(64)
            .one_line()
            .says("orion-lock release --owner $$ NAME");
    }
    for words in [&["9"][..], &["-n", "9"], &["-w", "10", "200"], &["-x", "9"]] {
        let done = tool.lock(&[&["run"], words].concat()).expect(64).one_line();
        done.says("orion-lock acquire --owner $$ NAME").says("orion_guard NAME");
    }
    tool.lock(&["run", "x", "-c"]).expect(64).says("-c takes exactly one string");
    tool.lock(&["run", "x", "-c", "true", "more"]).expect(64).says("-c takes exactly one string");
    // A number with a command is a name, and a missing command elsewhere has clap's answer.
    tool.lock(&["run", "9", "true"]).expect(0).silent();
    tool.lock(&["run", "x"]).expect(64).says("orion-lock run --help");
    // What would not be true is refused.
    for words in [["-x", "--shared"], ["-e", "--slots=2"], ["-F", "--tree"], ["-F", "--once-ok=k"]] {
        tool.lock(&[&["run"], &words[..], &["x", "true"]].concat()).expect(64);
    }
    assert!(!Path::new(&tool.file("9.json")).exists() || tool.record("9")["name"] == "9");
}

/// `-o`: what the command leaves behind does not hold the lock, as there.
#[test]
fn close_leaves_nothing_in_what_is_left_behind() {
    let tool = Tool::new();
    let job = "setsid sh -c 'echo $$; exec sleep 1000' & read -r end";
    for (option, code) in [("-o", 0), ("-s", 75)] {
        let mut owner = tool.hold_with(&["run", option, "x", "sh", "-c", job]);
        let job = support::KillOnDrop::of(owner.number());
        owner.kill();
        tool.lock(&["run", "x", "true"]).expect(code);
        job.kill();
        support::eventually("the job has ended", || job.ended());
    }
}
