//! G02: who can own what a call takes: shells for one command and programs that end with another are none.

use crate::support::{Tool, needs, run};

/// The exit code of `acquire --owner $$` in each shell for one command.
#[test]
fn g02_a_shell_for_one_command_owns_nothing_however_it_is_spelled() {
    let text = "\"$OL\" acquire --owner $$ x; echo $?; :";
    let spelled: &[(&str, &[&str])] = &[
        ("bash", &["-c"]),
        ("bash", &["-euo", "pipefail", "-c"]),
        ("bash", &["-eu", "-o", "pipefail", "-c"]),
        ("bash", &["-O", "extglob", "-c"]),
        ("bash", &["--rcfile", "/dev/null", "-c"]),
        ("bash", &["--norc", "-O", "extglob", "+O", "nullglob", "-uc"]),
        ("sh", &["-o", "nounset", "-c"]),
        ("dash", &["-uc"]),
        ("busybox", &["sh", "-c"]),
        ("zsh", &["-fc"]),
        ("zsh", &["--emulate", "sh", "-c"]),
    ];
    for (shell, options) in spelled {
        if !needs(shell) {
            continue;
        }
        let tool = Tool::new();
        let text = text.replace("; echo", " || true; echo").replace("|| true; echo $?", "|| echo $?");
        let done = run(tool.command(shell).args(*options).arg(&text)).says("one-shot shell");
        assert_eq!(done.stdout, "64\n", "{shell} {options:?}: {done:?}");
        assert!(tool.files().is_empty(), "nothing is taken: {:?}", tool.files());
    }
    if needs("fish") {
        let tool = Tool::new();
        for options in [&["-c"][..], &["--no-config", "--command"]] {
            let text = "$OL acquire --owner $fish_pid x; echo $status";
            let done = run(tool.command("fish").args(options).arg(text)).says("one-shot shell");
            assert_eq!(done.stdout, "64\n", "fish: {done:?}");
        }
    }
}

#[test]
fn g02_the_shell_of_a_script_owns_whatever_its_options() {
    let tool = Tool::new();
    let script = tool.path("own.sh");
    std::fs::write(&script, "\"$OL\" acquire --owner own.sh x; echo $?; \"$OL\" release --owner $$ x\n")
        .expect("write");
    for options in
        [&["-o", "pipefail"][..], &["-euo", "pipefail"], &["-O", "extglob"], &["--rcfile", "/dev/null"]]
    {
        let done = run(tool.command("bash").args(options).arg(&script).arg("-c"));
        assert_eq!(done.stdout, "0\n", "{options:?}: {done:?}");
    }
}

#[test]
fn g02_what_ends_with_its_command_is_no_owner_by_name() {
    let tool = Tool::new();
    for (name, words) in
        [("timeout", "timeout 60"), ("env", "env"), ("nice", "nice"), ("setsid", "setsid -w")]
    {
        if !needs(name) {
            continue;
        }
        // A wrapper that runs its command by exec is the command; then nobody is called so.
        let text = format!("{words} bash -c '\"$OL\" acquire --owner {name} x; echo $?; :'");
        let done = tool.sh(&text);
        assert_eq!(done.stdout, "64\n", "{name}: {done:?}");
        assert!(!done.stderr.contains(&format!("--owner {name}")), "never offered: {done:?}");
    }
    let done = tool.sh("timeout 60 bash -c '\"$OL\" acquire --owner timeout x; :'");
    done.says("ends with it");
}
