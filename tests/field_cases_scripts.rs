//! What went wrong for others, by its number, parts C to F: which process a script makes the
//! owner, the files themselves, where they live, cron and exit codes.

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use support::{Running, Tool, bin, eventually, needs, needs_root, needs_unshare, run};

/// `$$` stays the outer shell's in a subshell: dead, it is nobody's caller, and `$BASHPID` is right.
#[test]
fn b29_the_pid_of_an_ended_outer_shell_is_no_owner() {
    let tool = Tool::new();
    for (who, expected) in [("$$", "64"), ("$BASHPID", "0")] {
        let script = format!(
            "mkfifo go; ( read -r go <go; \"$OL\" acquire --owner {who} sync 2>said; echo $? >out.new; mv out.new out ) & exit 0"
        );
        run(tool.script(&script).current_dir(tool.path("")).stdout(Stdio::null()).stderr(Stdio::null()))
            .expect(0);
        std::fs::write(tool.path("go"), "go\n").expect("write");
        eventually("the subshell", || tool.path("out").exists());
        let said = std::fs::read_to_string(tool.path("said")).expect("stderr");
        let code = std::fs::read_to_string(tool.path("out")).expect("code");
        assert_eq!(code.trim(), expected, "{who}: {said}");
        for file in ["go", "out"] {
            std::fs::remove_file(tool.path(file)).expect("rm");
        }
    }
}

/// However a script calls it, the owner that was named is the owner, and none is guessed.
#[test]
fn b30_the_direct_parent_is_never_taken_for_the_owner() {
    let calls = [
        "$(CALL)",
        "$(CALL || true)",
        "CALL | cat",
        "$(CALL | tee /dev/null)",
        "bash -c 'CALL; :'",
        "dash -c 'CALL'",
        "timeout 50 CALL",
        "echo | xargs CALL",
        "flock lockfile CALL",
        "env CALL",
        "nice CALL",
        "setsid CALL",
        "(CALL)",
    ];
    for call in calls {
        let program =
            call.split([' ', '(']).find(|word| !word.is_empty() && *word != "$").unwrap_or_default();
        if ["dash", "flock", "setsid"].contains(&program) && !needs(program) {
            continue;
        }
        let tool = Tool::new();
        let quoted = if call.contains("-c '") { "\"$OL\"" } else { "$OL" };
        let script = |arguments: &str| {
            let call = call.replace("CALL", &format!("{quoted} acquire {arguments} sync"));
            format!("export me=$$\n{call}\necho up $$\nread -r end")
        };
        let mut without = Running::start(tool.script(&script("")).current_dir(tool.path("")));
        assert!(!tool.file("sync.json").exists(), "{call}: taken for somebody");
        without.end();
        let mut with = Running::start(tool.script(&script("--owner $me")).current_dir(tool.path("")));
        let owner = tool.record("sync")["owners"][0]["pid"].to_string();
        assert_eq!(with.line, format!("up {owner}"), "{call}");
        tool.precheck(&["sync"]).expect(75);
        with.end();
    }
}

#[test]
fn b33_no_owner_is_guessed_up_the_tree() {
    let tool = Tool::new();
    for who in ["auto", "init", "systemd", "1x"] {
        tool.sh(&format!("\"$OL\" acquire --owner {who} sync")).expect(64).one_line().says("--owner");
    }
    assert!(!tool.dir().exists());
}

/// An inner script fails at once and never waits for its own caller; a leftover child is not let through later.
#[test]
fn b35_a_nested_script_does_not_wait_for_its_caller() {
    let tool = Tool::new();
    let script = "
        token=$(\"$OL\" acquire --owner $$ --print-token sync)
        export ORION_LOCKS=sync:$token
        bash -c '\"$OL\" run -w forever sync true; exit $?'; echo $?
        bash -c '\"$OL\" run --reentrant sync true; exit $?'; echo $?
        \"$OL\" release --token $token sync
        \"$OL\" acquire --owner $$ sync
        setsid bash -c '\"$OL\" run --reentrant sync true; exit $?'; echo $?";
    let done = tool.sh(script).expect(0);
    assert_eq!(done.stdout, "75\n0\n75\n", "{done:?}");
}

/// B39 and B54: contention.rs plays thousands of rounds; here many wait for the short guard at once.
#[test]
fn b39_b54_load_alone_turns_nobody_away() {
    let tool = Tool::new();
    std::thread::scope(|scope| {
        for number in 0..60 {
            let tool = &tool;
            scope.spawn(move || {
                // Their own names, and one that they share while its guard is busy.
                tool.lock(&["run", &format!("own-{number}"), "true"]).expect(0).silent();
                tool.lock(&["run", "-q", "-w", "forever", "shared", "true"]).expect(0).silent();
            });
        }
    });
}

/// A script that follows the flock habit and truncates the record by its redirection.
#[test]
fn b41_a_truncated_record_does_not_end_a_run() {
    let tool = Tool::new();
    let _holder = tool.hold("sync");
    let record = tool.file("sync.json");
    tool.sh(&format!("exec 9>{0}; flock -n 9; cat {0}", record.display()));
    assert_eq!(std::fs::metadata(&record).expect("stat").len(), 0);
    tool.lock(&["run", "sync", "true"]).expect(75);
    tool.precheck(&["sync"]).expect(75);
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn b42_a_reader_never_sees_half_a_record() {
    let tool = Tool::new();
    tool.lock(&["run", "sync", "true"]).expect(0);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Also when an assertion fails: the readers must not read for ever.
        let _over = SetOnDrop(&over);
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    if let Ok(bytes) = std::fs::read(tool.file("sync.json")) {
                        let record: Result<serde_json::Value, _> = serde_json::from_slice(&bytes);
                        assert!(record.is_ok_and(|record| record["token"].is_u64()), "{bytes:?}");
                    }
                }
            });
        }
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let done = tool.precheck(&["-v", "sync"]);
                assert!(!done.stderr.contains("corrupt") && !done.stderr.contains("never held"), "{done:?}");
            }
        });
        for _ in 0..150 {
            tool.lock(&["run", "-q", "sync", "true"]).expect(0).silent();
        }
    });
}

#[test]
fn b50_two_containers_do_not_meet_in_a_temp_name() {
    const CONTAINER: &[&str] = &["-p", "-f", "--mount-proc"];
    if !needs_root() || !needs_unshare(CONTAINER) {
        return;
    }
    let tool = Tool::new();
    tool.lock(&["run", "sync", "true"]).expect(0);
    tool.lock(&["where", "--mark-private"]).expect(0);
    let script = "for n in $(seq 40); do \"$OL\" run -q sync true || echo $?; done";
    let (mut first, mut second) = (tool.unshared(CONTAINER, script), tool.unshared(CONTAINER, script));
    let first = std::thread::spawn(move || run(&mut first));
    let second = run(&mut second).expect(0);
    let first = first.join().expect("no panic").expect(0);
    for code in first.stdout.lines().chain(second.stdout.lines()) {
        assert_eq!(code, "75", "{first:?} {second:?}");
    }
    assert_eq!(tool.files(), ["sync.guard", "sync.json", "sync.pulse"]);
}

/// Nothing that ages: no default under a directory that a cleaner empties.
#[test]
fn b56_the_default_directory_is_not_temporary() {
    let tool = Tool::new();
    let mut command = tool.tool("orion-lock", &["where", "--json"]);
    let directory = run(command.env_remove("ORION_DIR")).expect(0).json()["directory"].clone();
    let directory = directory.as_str().expect("a path");
    for bad in ["/tmp", "/var/tmp", "/run", "/dev/shm"] {
        assert!(!Path::new(directory).starts_with(bad), "{directory}");
    }
}

#[test]
fn b61_a_missing_directory_is_made_for_a_lock_and_missed_by_nobody() {
    let tool = Tool::new();
    let mut holder = tool.hold("sync");
    std::fs::remove_dir_all(tool.dir()).expect("rm");
    tool.precheck(&["sync"]).expect(0).silent();
    tool.lock(&["verify", "--token", "5", "sync"]).expect(77).says("never held");
    tool.lock(&["run", "other", "true"]).expect(0).silent();
    holder.end();
}

#[test]
fn b62_two_views_of_a_directory_can_be_told_apart() {
    if !needs_root() || !needs_unshare(&["-m"]) {
        return;
    }
    let tool = Tool::new();
    tool.lock(&["run", "sync", "true"]).expect(0);
    let inode = |done: support::Done| {
        done.stdout.lines().find(|line| line.contains("dev:ino")).expect("a line").to_owned()
    };
    let here = inode(tool.lock(&["where"]).expect(0));
    let script = "mount -t tmpfs -o mode=700 t $ORION_DIR; chmod 700 $ORION_DIR; \"$OL\" where";
    let there = inode(run(&mut tool.unshared(&["-m"], script)).expect(0));
    assert_ne!(here, there);
    let again = inode(run(&mut tool.unshared(&["-m"], "\"$OL\" where")).expect(0));
    assert_eq!(here, again, "the same directory from another mount namespace");
}

/// B59, B64: lock_dirs.rs (sticky, network). Here: the guard is opened for writing, as NFS needs it.
#[test]
fn b59_b64_the_guard_is_opened_for_reading_and_writing() {
    if !needs("strace") {
        return;
    }
    let tool = Tool::new();
    tool.lock(&["run", "sync", "true"]).expect(0);
    let mut command = tool.command("strace");
    command.args(["-f", "-qq", "-e", "trace=openat", "-o"]).arg(tool.path("trace"));
    run(command.arg(bin("orion-lock")).args(["run", "sync", "true"])).expect(0);
    let trace = std::fs::read_to_string(tool.path("trace")).expect("trace");
    let guards: Vec<&str> = trace.lines().filter(|line| line.contains("sync.guard")).collect();
    assert!(!guards.is_empty() && guards.iter().all(|line| line.contains("O_RDWR")), "{guards:?}");
}

/// The idiom of the manuals: skip on exactly 75. A check that is missing, killed or broken skips nothing.
#[test]
fn b66_only_75_skips() {
    let tool = Tool::new();
    let _holder = tool.hold("held");
    let plain = tool.path("plain");
    std::fs::write(&plain, "not a program").expect("write");
    std::fs::set_permissions(&plain, PermissionsExt::from_mode(0o644)).expect("chmod");
    let op = bin("orion-precheck").display().to_string();
    for (check, expected) in [
        (format!("{op} held"), "skipped"),
        (format!("{op} free"), "ran"),
        (format!("{op} --nonsense"), "ran"),
        ("/nonexistent held".to_owned(), "ran"),
        (format!("{} held", plain.display()), "ran"),
        ("sh -c 'kill -9 $$'".to_owned(), "ran"),
        ("timeout .01 sleep 5".to_owned(), "ran"),
        ("false".to_owned(), "ran"),
    ] {
        let done =
            tool.sh(&format!("{check} 2>/dev/null; [ $? -eq 75 ] && {{ echo skipped; exit; }}; echo ran"));
        assert_eq!(done.expect(0).stdout.trim(), expected, "{check}");
    }
}

/// What cron would mail: nothing for a skip with -q, nothing for a go, one line when the guard does not work.
#[test]
fn b68_a_quiet_skip_is_no_mail() {
    let tool = Tool::new();
    let holder = tool.hold("sync");
    for call in 1..=2 {
        assert_eq!(tool.precheck(&["-q", "sync"]).expect(75).silent().stdout, "", "{call}");
    }
    tool.precheck(&["free"]).expect(0).silent();
    drop(holder);
    tool.write_record("sync", "torn");
    tool.precheck(&["-q", "sync"]).expect(0).one_line();
}

#[test]
fn b69_a_bare_environment_and_a_user_without_a_name_are_enough() {
    let tool = Tool::new();
    let dir = tool.dir().display().to_string();
    let mut command = Command::new(bin("orion-lock"));
    run(command.args(["--dir", &dir, "run", "sync", "/bin/true"]).env_clear().current_dir("/"))
        .expect(0)
        .silent();
    if !needs_root() || !needs("setpriv") {
        return;
    }
    // A uid that the passwd database does not know.
    let copy = |name: &str| {
        std::fs::copy(bin(name), tool.path(name)).expect("copy");
        tool.path(name)
    };
    std::fs::set_permissions(tool.path(""), PermissionsExt::from_mode(0o755)).expect("chmod");
    let (lock, precheck) = (copy("orion-lock"), copy("orion-precheck"));
    let stranger = |program: &Path, args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=54321", "--regid=54321", "--clear-groups"]).arg(program).args(args);
        run(command.env_clear().current_dir("/"))
    };
    stranger(&lock, &["run", "sync", "/bin/true"]).expect(78).one_line().says("--dir");
    stranger(&precheck, &["sync"]).expect(0).one_line().says("not guarding");
    stranger(&precheck, &["--dir", "/nonexistent", "sync"]).expect(0).silent();
}
