//! G01: users that no file knows, in the statically linked form that people install.

use crate::support::{Done, Tool, bounded, needs, needs_root, run};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A uid that no file knows.
const STRANGER: u32 = 54321;
const ALL: [&str; 5] = ["orion-lock", "orion-precheck", "orion-reap", "orion-lease", "orion-claim"];

/// The programs linked statically, as scripts/install links them; built once, without what only costs time.
fn static_bin() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        // Installed programs are the form that people have.
        if let Some(installed) = std::env::var_os("ORION_TEST_BIN_DIR") {
            return installed.into();
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let rustc = run(Command::new("rustc").arg("-vV")).expect(0);
        let host =
            rustc.stdout.lines().find_map(|line| line.strip_prefix("host: ")).expect("host").to_owned();
        let folder = root.join("target/static");
        let mut build = Command::new(env!("CARGO"));
        build
            .args(["build", "--quiet", "--locked", "--bins", "--target", &host, "--target-dir"])
            .arg(&folder);
        build.env("RUSTFLAGS", "-C target-feature=+crt-static").env("CARGO_PROFILE_DEV_DEBUG", "0");
        // A build takes longer than any command of ours, on a machine with two cores and nothing built yet.
        let built = bounded::output(build.current_dir(root), Duration::from_secs(900));
        Done::of(built.status, &built.stdout, &built.stderr).expect(0);
        folder.join(host).join("debug")
    })
}

/// A command run by the stranger, who can get at the test's directory, with an environment of nothing.
fn by_stranger(tool: &Tool, path: &str) -> Command {
    std::fs::set_permissions(tool.path(""), PermissionsExt::from_mode(0o755)).expect("chmod");
    let mut command = Command::new("setpriv");
    let uid = STRANGER.to_string();
    command.args(["--reuid", &uid, "--regid", &uid, "--clear-groups", "env", "-i", &format!("PATH={path}")]);
    command.current_dir("/");
    command
}

fn possible() -> bool {
    needs_root() && needs("setpriv") && needs("getent")
}

/// A `getent` of the test's own, first in PATH.
fn own_getent(tool: &Tool, text: &str) -> String {
    let folder = tool.path("bin");
    std::fs::create_dir_all(&folder).expect("mkdir");
    let file = folder.join("getent");
    std::fs::write(&file, format!("#!/bin/sh\n{text}\n")).expect("write");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).expect("chmod");
    format!("{}:/usr/bin:/bin", folder.display())
}

#[test]
fn g01_each_static_tool_runs_as_a_uid_that_no_file_knows() {
    if !possible() {
        return;
    }
    let tool = Tool::new();
    let run = |name: &str, arguments: &[&str]| {
        let path = "/usr/bin:/bin";
        run(by_stranger(&tool, path).arg(static_bin().join(name)).args(arguments))
    };
    for name in ALL {
        run(name, &["--version"]).expect(0);
    }
    let why = format!("uid {STRANGER} has no home directory");
    run("orion-precheck", &["x"]).expect(0).one_line().says(&why);
    run("orion-precheck", &["--strict", "x"]).expect(78);
    for arguments in [
        &["run", "x", "true"][..],
        &["where"],
        &["status", "x"],
        &["list"],
        &["wait", "x"],
        &["release", "--token", "1", "x"],
        &["log", "x"],
        &["hold", "x"],
    ] {
        run("orion-lock", arguments).expect(78).one_line().says(&why).says("--dir DIR");
    }
    run("orion-claim", &["--tracker", "file:/tmp", "list"]).expect(78).one_line().says(&why);
    run("orion-reap", &["--runner", "tmux", "--automation", "a"]).expect(0);
    let store = tool.path("stranger.db");
    std::fs::set_permissions(tool.path(""), PermissionsExt::from_mode(0o777)).expect("chmod");
    run("orion-lease", &["probe", &store.display().to_string()]).expect(0);
}

#[test]
fn g01_a_name_that_nobody_has_is_said_by_the_static_tool() {
    if !possible() {
        return;
    }
    let tool = Tool::new();
    let status =
        |name: &str| run(tool.command(static_bin().join("orion-lock")).args(["status", "--user", name]));
    for name in ["typo-of-a-name", "54321", "-x", "a:b", ""] {
        let done = status(name);
        assert_eq!(done.code, 64, "{name}: {done:?}");
    }
    status("typo-of-a-name").expect(64).one_line().says("there is no user typo-of-a-name");
    // Who is in the file is found without asking anybody.
    run(tool
        .command(static_bin().join("orion-lock"))
        .args(["status", "--user", "root"])
        .env("PATH", "/nonexistent"))
    .expect(0);
    run(tool.command(static_bin().join("orion-lock")).args(["list", "--all-users"])).expect(0);
}

#[test]
fn g01_whom_only_a_directory_service_knows_has_a_home() {
    if !possible() {
        return;
    }
    let tool = Tool::new();
    let home = tool.path("home");
    std::fs::create_dir(&home).expect("mkdir");
    std::os::unix::fs::chown(&home, Some(STRANGER), Some(STRANGER)).expect("chown");
    let line = format!("far:x:{STRANGER}:{STRANGER}::{}:/bin/sh", home.display());
    let path = own_getent(&tool, &format!("[ \"$*\" = 'passwd {STRANGER}' ] && echo '{line}' || exit 2"));
    let lock = |arguments: &[&str]| {
        run(by_stranger(&tool, &path).arg(crate::support::bin("orion-lock")).args(arguments))
    };
    lock(&["run", "x", "true"]).expect(0).silent();
    lock(&["where"]).expect(0).prints(&home.join(".local/state/orion").display().to_string());
    // An answer about somebody else is none.
    let path = own_getent(&tool, "echo 'other:x:7:7::/tmp:/bin/sh'");
    let lock = |arguments: &[&str]| {
        run(by_stranger(&tool, &path).arg(crate::support::bin("orion-lock")).args(arguments))
    };
    lock(&["where"]).expect(78).one_line();
    let path = own_getent(&tool, "exit 3");
    run(by_stranger(&tool, &path).arg(crate::support::bin("orion-lock")).arg("where"))
        .expect(78)
        .one_line()
        .says("getent passwd 54321 ended with 3");
}

#[test]
fn g01_a_directory_service_that_hangs_is_not_waited_for() {
    if !possible() {
        return;
    }
    let tool = Tool::new();
    let path = own_getent(&tool, &format!("echo $$ >>{}; exec sleep 1000", tool.path("asked").display()));
    std::fs::write(tool.path("asked"), "").expect("write");
    std::fs::set_permissions(tool.path("asked"), PermissionsExt::from_mode(0o666)).expect("chmod");
    let timed = |program: &str, arguments: &[&str]| {
        let begin = Instant::now();
        let done = run(by_stranger(&tool, &path).arg(crate::support::bin(program)).args(arguments));
        (done, begin.elapsed())
    };
    let (done, _) = timed("orion-lock", &["run", "x", "true"]);
    done.expect(78).one_line().says("gave no answer within 2s");
    let (done, _) = timed("orion-precheck", &["x"]);
    done.expect(0).one_line().says("gave no answer within 2s");
    let (done, took) = timed("orion-precheck", &["--deadline", "300ms", "x"]);
    done.expect(0).one_line().says("no answer before the deadline");
    assert!(took < Duration::from_secs(2), "never past the deadline: {took:?}");
    let asked = std::fs::read_to_string(tool.path("asked")).expect("pids");
    assert_eq!(asked.lines().count(), 3);
    for pid in asked.lines() {
        crate::support::eventually("it is ended", || !Path::new(&format!("/proc/{pid}")).exists());
    }
}
