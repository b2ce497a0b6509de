//! `orion-gate`, in every shell that may be `/bin/sh`.

use crate::support::{Done, Tool, allowed, run};
use crate::{executable, only, path_with, script};
use std::path::Path;
use std::process::Command;

/// The shells to try; `busybox sh` is the one of Alpine and of initramfs.
const SHELLS: [&[&str]; 3] = [&["dash"], &["busybox", "sh"], &["bash", "--posix"]];

fn shells() -> Vec<&'static [&'static str]> {
    let works = |words: &[&str]| {
        let ran = Command::new(words[0]).args(&words[1..]).args(["-c", "exit 0"]).status();
        allowed(ran.is_ok_and(|status| status.success()), &format!("{} is not installed", words[0]))
    };
    SHELLS.into_iter().filter(|words| works(words)).collect()
}

/// The gate under `shell`, with a directory of the test first in PATH.
fn gate(tool: &Tool, shell: &[&str], gate: &Path, args: &[&str]) -> Command {
    let mut command = tool.command(shell[0]);
    command.args(&shell[1..]).arg(gate).args(args).env("PATH", path_with(&tool.path("bin")));
    command
}

/// The gate beside a precheck that does `body`.
fn gate_with_precheck(tool: &Tool, shell: &[&str], body: &str, args: &[&str]) -> Done {
    let copy = tool.path("bin/orion-gate");
    executable(&copy, &std::fs::read_to_string(script("orion-gate")).expect("the gate"));
    executable(&tool.path("bin/orion-precheck"), &format!("#!/bin/sh\n{body}\n"));
    run(&mut gate(tool, shell, &copy, args))
}

#[test]
fn a_live_owner_is_a_skip_and_everything_else_is_go() {
    for shell in shells() {
        let tool = Tool::new();
        let ask = |args: &[&str]| run(&mut gate(&tool, shell, &script("orion-gate"), args));
        ask(&["sync"]).expect(0).silent();
        let mut holder = tool.hold("sync");
        ask(&["sync"]).expect(75).one_line().says(&format!("held by pid {}", holder.pid()));
        ask(&["-q", "sync"]).expect(75).silent();
        ask(&["--skip-code", "1", "sync"]).expect(1);
        ask(&["--skip-code=2", "other", "sync"]).expect(2);
        ask(&["other"]).expect(0).silent();
        holder.end();
        ask(&["--skip-code", "1", "sync"]).expect(0).silent();
    }
}

#[test]
fn only_exactly_75_of_the_precheck_is_a_skip() {
    for shell in shells() {
        let tool = Tool::new();
        for code in [1, 2, 3, 64, 69, 70, 74, 76, 78, 101, 124, 126, 127, 137, 255] {
            gate_with_precheck(&tool, shell, &format!("exit {code}"), &["sync"])
                .expect(0)
                .says("orion-gate: not guarding: orion-precheck");
        }
        gate_with_precheck(&tool, shell, "exit 75", &["sync"]).expect(75).silent();
        gate_with_precheck(&tool, shell, "exit 0", &["sync"]).expect(0).silent();
    }
}

#[test]
fn a_killed_precheck_is_go_and_a_persons_stop_is_a_stop() {
    for shell in shells() {
        let tool = Tool::new();
        for signal in ["KILL", "SEGV", "TERM", "ABRT"] {
            gate_with_precheck(&tool, shell, &format!("ulimit -c 0; kill -{signal} $$"), &["sync"])
                .expect(0)
                .says("not guarding");
        }
        gate_with_precheck(&tool, shell, "kill -INT $$", &["sync"]).expect(130).silent();
        gate_with_precheck(&tool, shell, "ulimit -c 0; kill -QUIT $$", &["sync"]).expect(131);
    }
}

#[test]
fn a_missing_or_unusable_precheck_is_go() {
    for shell in shells() {
        let tool = Tool::new();
        let alone = tool.path("alone/orion-gate");
        executable(&alone, &std::fs::read_to_string(script("orion-gate")).expect("the gate"));
        let path = only(&tool, shell[0]);
        let ask = || {
            let mut command = gate(&tool, shell, &alone, &["sync"]);
            // The gate needs no program of the system.
            command.env("PATH", &path);
            run(&mut command)
        };
        ask().expect(0).says("orion-gate: not guarding: orion-precheck cannot be run here (code 127)");
        executable(&tool.path("alone/orion-precheck"), "#!/nonexistent/interpreter\n");
        ask().expect(0).says("not guarding");
    }
}

#[test]
fn bad_skip_codes_are_said_and_never_hide_a_run() {
    for shell in shells() {
        let tool = Tool::new();
        let _holder = tool.hold("sync");
        for bad in ["0", "126", "255", "x", "", "-1", "07", "1 2"] {
            run(&mut gate(&tool, shell, &script("orion-gate"), &["--skip-code", bad, "sync"]))
                .expect(0)
                .one_line()
                .says("orion-gate: not guarding: --skip-code");
        }
        // An -E would hide the 75 from the gate.
        run(&mut gate(&tool, shell, &script("orion-gate"), &["-E", "3", "sync"]))
            .expect(0)
            .says("not guarding");
    }
}

#[test]
fn term_for_the_whole_group_leaves_the_answer_to_the_precheck() {
    for shell in shells() {
        let tool = Tool::new();
        // The precheck answers 0 on TERM; the group gets it while both run.
        let body = "trap 'exit 0' TERM; kill -TERM 0; sleep 60 & wait $!";
        let copy = tool.path("bin/orion-gate");
        executable(&copy, &std::fs::read_to_string(script("orion-gate")).expect("the gate"));
        executable(&tool.path("bin/orion-precheck"), &format!("#!/bin/sh\n{body}\n"));
        let mut command = gate(&tool, shell, &copy, &["sync"]);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        run(&mut command).expect(0);
    }
}
