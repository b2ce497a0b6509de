//! The bash library: safe with `set -euo pipefail`, traps, subshells and nested scripts.

use crate::script;
use crate::support::{Done, KillOnDrop, Running, Tool, eventually, run};
use std::process::Command;

/// A script that sources the library under the strictest options.
fn with_library(tool: &Tool, text: &str) -> Command {
    let mut command =
        tool.script(&format!("set -euo pipefail\n. '{}'\n{text}", script("orion.bash").display()));
    command.env("PATH", crate::path_with(&tool.path("bin")));
    command
}

fn sh(tool: &Tool, text: &str) -> Done {
    run(&mut with_library(tool, text))
}

/// A script that has said its first line and goes on until its stdin closes.
fn start(tool: &Tool, text: &str) -> Running {
    Running::start(&mut with_library(tool, text))
}

#[test]
fn a_guarded_script_holds_the_lock_and_its_end_frees_it_without_a_trap() {
    let tool = Tool::new();
    let mut first = start(&tool, "orion_guard sync\necho up\nread -r _ || true");
    sh(&tool, "orion_guard sync\necho never")
        .expect(75)
        .one_line()
        .says(&format!("sync is held by pid {}", first.pid()))
        .prints("");
    tool.lock(&["status", "sync"]).expect(75);
    first.end().expect(0).silent();
    sh(&tool, "orion_guard sync\necho mine").expect(0).silent().prints("mine");
}

#[test]
fn without_errexit_a_refused_guard_still_ends_the_script() {
    let tool = Tool::new();
    let _holder = tool.hold("sync");
    let done = sh(&tool, "set +eu +o pipefail\norion_guard sync -q\necho never");
    assert_eq!(done.expect(75).silent().stdout, "");
    // Where nothing can be told, nothing runs either.
    tool.write_record("broken", "{\"schema\":99}");
    let done = sh(&tool, "set +e\norion_guard broken\necho never");
    assert_eq!(done.expect(65).stdout, "");
    for line in ["orion_guard", "orion_guard -w 1s sync", "orion_guard 10m", "orion_guard x --print-token"] {
        let done = sh(&tool, &format!("set +e\n{line}\necho never"));
        assert_eq!(done.expect(64).one_line().stdout, "", "{line}");
    }
}

#[test]
fn try_returns_the_code_and_the_script_decides() {
    let tool = Tool::new();
    let _holder = tool.hold("sync");
    sh(&tool, "if orion_try sync -q; then echo mine; else echo code $?; fi").expect(0).prints("code 75");
    sh(&tool, "orion_try free && echo mine").expect(0).prints("mine");
}

#[test]
fn traps_of_the_script_are_kept_and_options_are_untouched() {
    let tool = Tool::new();
    let text = "trap 'echo bye' EXIT\ntrap 'echo err' ERR\ntrap 'echo usr1' USR1\nbefore=$(trap; set +o; shopt -p)
        orion_guard sync\norion_release sync\nafter=$(trap; set +o; shopt -p)\n[[ $before == \"$after\" ]]\nkill -USR1 $$";
    let done = sh(&tool, text).expect(0).silent();
    assert_eq!(done.stdout, "usr1\nbye\n");
    // A refusal runs the script's own EXIT trap and keeps the code.
    let _holder = tool.hold("sync");
    let done = sh(&tool, "trap 'orion_release; echo bye' EXIT\norion_guard sync -q\necho never");
    assert_eq!(done.expect(75).stdout, "bye\n");
}

#[test]
fn odd_surroundings_do_not_matter() {
    let tool = Tool::new();
    let text = "IFS=0123456789\nset -f\ncd /\nf() { . \"$1\"; orion_guard sync --note 'two words'; }\nf \"$LIB\"
        orion_release sync\norion_guard sync\n. \"$LIB\"\norion_release sync\nif orion_try sync -q; then echo again; fi";
    let mut command = with_library(&tool, text);
    command.env("LIB", script("orion.bash"));
    run(&mut command).expect(0).silent().prints("again");
    let own = tool.path("a place");
    std::fs::create_dir(&own).expect("dir");
    std::fs::set_permissions(&own, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("mode");
    for option in ["--dir \"$OWN\"", "--dir=\"$OWN\""] {
        let mut command = with_library(&tool, &format!("orion_guard there {option}\norion_release there"));
        run(command.env("OWN", &own)).expect(0).silent();
    }
    assert!(own.join("locks/there.json").exists(), "in the directory that was named");
}

#[test]
fn a_subshell_owns_what_it_takes_and_cannot_release_what_it_inherited() {
    let tool = Tool::new();
    let text = "orion_guard outer
        ( orion_release outer; orion_guard inner; orion-lock status inner >/dev/null && exit 9; true )
        orion-lock status inner >/dev/null || echo inner $?
        code=0; orion-lock status outer >/dev/null || code=$?; echo outer $code
        ( orion_try outer ) || echo twice $?
        orion_release
        orion-lock status outer >/dev/null; echo free";
    let done = sh(&tool, text).expect(0);
    assert_eq!(done.stdout, "outer 75\ntwice 75\nfree\n", "stderr: {}", done.stderr);
}

#[test]
fn a_nested_script_gets_no_right_by_descent() {
    let tool = Tool::new();
    let nested = tool.path("nested.sh");
    let text = format!(
        "set -euo pipefail\n. '{}'\ntrap orion_release EXIT\norion_release sync\norion_guard sync \"$@\"\necho nested",
        script("orion.bash").display()
    );
    std::fs::write(&nested, text).expect("script");
    let text = "orion_guard sync
        bash \"$NESTED\" || echo refused $?
        bash \"$NESTED\" -w forever || echo refused $?
        bash \"$NESTED\" --reentrant
        code=0; orion-lock status sync >/dev/null || code=$?; echo still $code
        orion-lock verify --owner $$ sync && orion-lock verify sync && echo verified";
    let mut command = with_library(&tool, text);
    let done = run(command.env("NESTED", &nested)).expect(0).says("held by your own caller");
    assert_eq!(done.stdout, "refused 75\nrefused 75\nnested\nstill 75\nverified\n");
}

#[test]
fn killing_the_script_with_its_job_alive_does_not_free_the_lock() {
    let tool = Tool::new();
    let mut script = start(&tool, "orion_guard sync\nsleep 600 &\necho $!\nwait");
    let job = KillOnDrop::of(script.number());
    script.kill();
    sh(&tool, "orion_guard sync")
        .expect(75)
        .says(&format!("{} (sleep), started by it, holds the lock", job.pid()));
    let pid = job.pid();
    drop(job);
    eventually("the job is gone", || !std::path::Path::new(&format!("/proc/{pid}")).exists());
    sh(&tool, "orion_guard sync\necho mine").expect(0).prints("mine");
}

#[test]
fn killing_the_script_alone_frees_the_lock_at_once() {
    let tool = Tool::new();
    let mut script = start(&tool, "orion_guard sync\necho up\nread -r _");
    script.kill();
    sh(&tool, "orion_guard sync\necho mine").expect(0).prints("mine");
}

#[test]
fn release_gives_back_one_or_all_and_nothing_is_fine() {
    let tool = Tool::new();
    let text = "orion_release\norion_release none\norion_guard a\norion_guard b\norion_guard c
        echo \"$ORION_LOCKS\" | sed 's/:[0-9]*//g'\norion_release b\necho \"$ORION_LOCKS\" | sed 's/:[0-9]*//g'
        orion-lock status b >/dev/null\norion_release\necho \"($ORION_LOCKS)\"
        orion-lock status a >/dev/null\norion-lock status c >/dev/null\norion_release a";
    let done = sh(&tool, text).expect(0).silent();
    assert_eq!(done.stdout, "a b c\na c\n()\n");
    // No descriptor stays behind.
    let text =
        "cd \"$PLACE\"\nls /proc/$$/fd >before\norion_guard a\norion_release\nls /proc/$$/fd >after\ncmp before after
        ( exec 0</dev/null; orion_guard b ); orion_try a -q && orion_try a -q || echo code $?";
    let mut command = with_library(&tool, text);
    run(command.env("PLACE", tool.path(""))).expect(0).prints("code 75");
}

#[test]
fn a_missing_orion_lock_means_that_nothing_runs() {
    let tool = Tool::new();
    let mut command = with_library(&tool, "set +e\norion_guard sync\necho never");
    command.env("PATH", crate::only(&tool, "bash"));
    let done = run(&mut command).expect(127);
    assert_eq!(done.stdout, "");
}
