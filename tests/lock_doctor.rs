//! `doctor`, which plays the lock for real; and `help`.

mod support;

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use support::{Done, KillOnDrop, Running, Tool, bin, names_in, needs_root, run};

/// `doctor --dir DIR --json`, and its checks by name.
#[track_caller]
fn doctor(tool: &Tool, code: i32) -> (Value, Done) {
    let dir = tool.dir();
    let done = tool.lock(&["doctor", "--json", "--dir", dir.to_str().expect("text")]).expect(code).silent();
    (done.json(), done)
}

#[track_caller]
fn result<'a>(object: &'a Value, name: &str) -> &'a str {
    let checks = object["checks"].as_array().expect("checks");
    let check = checks.iter().find(|check| check["name"] == name);
    check.unwrap_or_else(|| panic!("no check {name}: {object}"))["result"].as_str().expect("a word")
}

fn names(object: &Value) -> Vec<&str> {
    let checks = object["checks"].as_array().expect("checks");
    checks.iter().map(|check| check["name"].as_str().expect("a name")).collect()
}

#[test]
fn here_everything_holds_and_nothing_is_left_behind() {
    let tool = Tool::new();
    let (object, _) = doctor(&tool, 0);
    assert_eq!(object["ok"], true);
    assert_eq!(object["failed"], 0);
    let names = names(&object);
    let distinct: BTreeSet<&str> = names.iter().copied().collect();
    assert!(distinct.len() == names.len() && names.len() >= 40, "{names:?}");
    for played in [
        "overlap",
        "kill",
        "orphan",
        "orphan-ends",
        "wait",
        "slots",
        "slot-freed",
        "paused",
        "resumed",
        "precheck-skips",
        "precheck-goes",
    ] {
        assert_eq!(result(&object, played), "ok", "{object}");
    }
    for check in object["checks"].as_array().expect("checks") {
        // What to do belongs to everything that is not simply well.
        assert_eq!(check["result"] == "ok", check.get("advice").is_none(), "{check}");
    }
    assert_eq!(names_in(&tool.dir()), [".state-id", "locks", "log"]);
    assert!(tool.files().is_empty(), "no lock of the user's directory was touched");
}

#[test]
fn each_check_is_one_line() {
    let tool = Tool::new();
    let dir = tool.dir();
    let done = tool.lock(&["doctor", "--dir", dir.to_str().expect("text")]).expect(0).silent();
    let lines: Vec<&str> = done.stdout.lines().collect();
    let (last, checks) = lines.split_last().expect("lines");
    assert!(last.starts_with(&format!("all {} checks hold", checks.len())), "{last}");
    for line in checks {
        assert!(line.starts_with("ok   ") || line.starts_with("note "), "{line}");
    }
    let quiet = tool.lock(&["doctor", "-q", "--dir", dir.to_str().expect("text")]).expect(0).silent();
    assert!(
        quiet.stdout.lines().all(|line| line.starts_with("note ") || line.starts_with("all ")),
        "{quiet:?}"
    );
}

#[test]
fn it_works_from_nothing_as_under_cron() {
    let tool = Tool::new();
    let mut command = Command::new(bin("orion-lock"));
    command.env_clear().current_dir("/").stdin(Stdio::null()).args(["doctor", "--dir"]).arg(tool.dir());
    let done = run(&mut command).expect(0).silent();
    assert!(done.stdout.contains("ok   overlap"), "{done:?}");
}

#[test]
fn a_directory_of_the_shell_is_told_from_the_one_of_cron() {
    let tool = Tool::new();
    // Without a terminal somebody wrote the variable down; that is only said.
    let mut command = tool.command("setsid");
    command.args(["--wait"]).arg(bin("orion-lock")).args(["doctor", "--json"]);
    let object = run(&mut command).expect(0).json();
    assert_eq!(result(&object, "bare-environment"), "note");
    let shown = tool.dir().display().to_string();
    assert!(object.to_string().contains(&format!("ORION_DIR={shown}")), "{object}");
    if !support::needs("script") {
        return;
    }
    let line = format!("{} doctor --json; echo code=$?", bin("orion-lock").display());
    let done = run(tool.command("script").args(["-qec", &line, "/dev/null"]));
    assert!(done.stdout.contains("code=78"), "{done:?}");
    assert!(done.stdout.contains("\"failed\":1"), "{done:?}");
}

#[test]
fn what_does_not_hold_is_78_and_says_what_to_do() {
    let tool = Tool::new();
    fs::create_dir(tool.dir()).expect("mkdir");
    fs::set_permissions(tool.dir(), PermissionsExt::from_mode(0o1777)).expect("chmod");
    let (object, _) = doctor(&tool, 78);
    assert_eq!(result(&object, "open"), "fail");
    assert!(object.to_string().contains("chmod 2770"), "{object}");
    assert!(!names(&object).contains(&"overlap"), "nothing is played where nothing can be");
    fs::set_permissions(tool.dir(), PermissionsExt::from_mode(0o700)).expect("chmod");
    fs::write(tool.path("file"), "").expect("file");
    fs::remove_dir_all(tool.dir()).expect("rmdir");
    std::os::unix::fs::symlink(tool.path("file"), tool.dir()).expect("link");
    let (object, _) = doctor(&tool, 78);
    assert_eq!(result(&object, "open"), "fail");
    // A place that says "not found" to whoever wants to make something in it.
    let done = tool.lock(&["doctor", "--dir", "/proc/orion"]).expect(78).silent();
    assert!(done.stdout.contains("FAIL open"), "{done:?}");
}

#[test]
fn no_room_is_a_failed_check() {
    if !needs_root() || !support::needs_unshare(&["--mount"]) {
        return;
    }
    let tool = Tool::new();
    let dir = tool.path("small");
    fs::create_dir(&dir).expect("mkdir");
    let script = format!(
        "mount -t tmpfs -o size=64k,mode=700 none {0} && \"$OL\" doctor --dir {0}; code=$?\n\
         head -c 1000000 /dev/zero >{0}/full 2>/dev/null; \"$OL\" doctor -q --dir {0}; echo \"$code $?\"",
        dir.display()
    );
    let done = run(&mut tool.unshared(&["--mount"], &script));
    assert!(done.stdout.contains("note room"), "{done:?}");
    assert!(done.stdout.contains("FAIL create"), "{done:?}");
    assert!(done.stdout.ends_with("0 78\n"), "{done:?}");
}

#[test]
fn what_a_killed_doctor_left_behind_is_removed_by_the_next() {
    let tool = Tool::new();
    let scratch = || names_in(&tool.dir()).iter().any(|name| name.starts_with(".doctor-"));
    // On a loaded machine it may be done before it is killed.
    let left_behind = (0..10).any(|_| {
        let mut command = tool.command(bin("orion-lock"));
        let mut killed = Running::start(command.args(["doctor", "--dir"]).arg(tool.dir()));
        let process = KillOnDrop::of(killed.pid());
        while !scratch() && !process.ended() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        process.kill();
        killed.end();
        scratch()
    });
    assert!(left_behind);
    // One that was killed before it could say that it is at work.
    fs::create_dir(tool.dir().join(".doctor-1")).expect("mkdir");
    doctor(&tool, 0);
    assert_eq!(names_in(&tool.dir()), [".state-id", "locks", "log"]);
}

#[test]
fn two_at_a_time_do_not_disturb_each_other() {
    let tool = Tool::new();
    let dir = tool.dir();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let done = tool.lock(&["doctor", "--dir", dir.to_str().expect("text")]);
                done.expect(0);
            });
        }
    });
    assert_eq!(names_in(&tool.dir()), [".state-id", "locks", "log"]);
}

#[test]
fn help_tells_about_subcommands_and_exit_codes() {
    let tool = Tool::new();
    let done = tool.lock(&["help", "exit-codes"]).expect(0).silent();
    for code in ["0", "64", "65", "69", "70", "71", "73", "74", "75", "76", "77", "78", "126", "127", "128+N"]
    {
        let starts = |line: &str| line.trim_start().starts_with(&format!("{code} "));
        assert!(done.stdout.lines().any(starts), "{code}: {}", done.stdout);
    }
    let object = tool.lock(&["help", "exit-codes", "--json"]).expect(0).json();
    let skip = object["exit_codes"].as_array().expect("codes").iter().find(|code| code["code"] == 75);
    assert_eq!(skip.expect("75")["name"], "SKIP");
    assert_eq!(tool.lock(&["help"]).expect(0).stdout, tool.lock(&["--help"]).expect(0).stdout);
    for subcommand in ["run", "wait", "doctor", "help"] {
        let told = tool.lock(&["help", subcommand]).expect(0).silent().stdout;
        assert_eq!(told, tool.lock(&[subcommand, "--help"]).expect(0).stdout);
    }
    tool.lock(&["help", "nonsense"]).expect(64).one_line().says("help exit-codes");
    tool.lock(&["help", "--dir"]).expect(64).one_line();
    assert!(!tool.dir().exists());
}
