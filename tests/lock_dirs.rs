//! State directories that are wrong, full, read-only, shared, or somebody else's. Mounts live
//! in a mount namespace of their own and end with it.

mod support;

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use support::{Tool, bin, names_in, needs, needs_root, needs_unshare, run};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("stat").permissions().mode() & 0o7777
}

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("chmod");
}

fn can_mount() -> bool {
    needs_root() && needs_unshare(&["-m"])
}

/// A script with mounts of its own; `$D` is the state directory, made beforehand.
fn mounted(tool: &Tool, script: &str) -> support::Done {
    std::fs::create_dir_all(tool.dir()).expect("mkdir");
    chmod(&tool.dir(), 0o700);
    let mut command = tool.unshared(&["-m"], &format!("set -e\n{script}"));
    run(command.env("D", tool.dir()).current_dir(tool.path("")))
}

#[test]
fn directories_and_files_are_private_whatever_the_umask() {
    for umask in ["000", "022", "077", "777"] {
        let tool = Tool::new();
        tool.sh(&format!("umask {umask}; \"$OL\" run sync true")).expect(0).silent();
        for dir in ["state", "state/locks", "state/log"] {
            assert_eq!(mode(&tool.path(dir)), 0o700, "{umask} {dir}");
        }
        for file in ["locks/sync.guard", "locks/sync.json", "locks/sync.pulse", "log/sync.jsonl", ".state-id"]
        {
            assert_eq!(mode(&tool.dir().join(file)), 0o600, "{umask} {file}");
        }
    }
}

/// Field case B53: one directory through a link is one directory.
#[test]
fn the_directory_itself_may_be_a_link_and_nothing_below_it() {
    let tool = Tool::new();
    let _holder = tool.hold("sync");
    symlink(tool.dir(), tool.path("link")).expect("link");
    let link = tool.path("link").display().to_string();
    tool.lock(&["--dir", &link, "run", "sync", "true"]).expect(75);
    tool.precheck(&["--dir", &link, "sync"]).expect(75);

    let tool = Tool::new();
    std::fs::create_dir_all(tool.path("elsewhere")).expect("mkdir");
    std::fs::create_dir(tool.dir()).expect("mkdir");
    symlink(tool.path("elsewhere"), tool.dir().join("locks")).expect("link");
    tool.lock(&["run", "sync", "echo", "ran"]).expect(73).one_line().says("locks");
    tool.precheck(&["sync"]).expect(0).one_line().says("not guarding");
    assert!(names_in(&tool.path("elsewhere")).is_empty());
}

#[test]
fn a_file_in_the_directorys_place_is_said() {
    let tool = Tool::new();
    std::fs::write(tool.dir(), "a file").expect("write");
    tool.lock(&["run", "sync", "true"]).expect(78).one_line().says("is not a directory");
    tool.precheck(&["sync"]).expect(0).one_line().says("not guarding");
    let tool = Tool::new();
    std::fs::create_dir(tool.dir()).expect("mkdir");
    std::fs::write(tool.dir().join("locks"), "a file").expect("write");
    tool.lock(&["run", "sync", "true"]).expect(73).one_line().says("not a directory");
    let below = tool.dir().join("locks/deeper").display().to_string();
    let code = tool.lock(&["--dir", &below, "run", "sync", "true"]).one_line().code;
    assert!(code == 73 || code == 78, "{code}");
}

#[test]
fn what_others_can_write_is_refused() {
    let tool = Tool::new();
    std::fs::create_dir(tool.dir()).expect("mkdir");
    for (bits, why) in
        [(0o1777, "sticky"), (0o1700, "sticky"), (0o777, "written by everybody"), (0o2777, "everybody")]
    {
        chmod(&tool.dir(), bits);
        tool.lock(&["run", "sync", "true"]).expect(78).one_line().says(why);
        tool.precheck(&["sync"]).expect(0).one_line().says("not guarding").says(why);
        tool.precheck(&["--strict", "sync"]).expect(78);
    }
    assert!(names_in(&tool.dir()).is_empty(), "nothing was created");
    let mut root = tool.tool("orion-lock", &["--dir", "/", "run", "sync", "true"]);
    if !rustix::process::geteuid().is_root() {
        run(&mut root).expect(73).one_line();
    }
}

#[test]
fn a_leftover_temp_file_is_reused_and_an_odd_one_named() {
    let tool = Tool::new();
    tool.lock(&["run", "sync", "true"]).expect(0);
    std::fs::write(tool.file(".sync.tmp"), "left by a kill").expect("write");
    tool.lock(&["run", "sync", "true"]).expect(0).silent();
    assert_eq!(tool.files(), ["sync.guard", "sync.json", "sync.pulse"]);
    symlink("/etc/passwd", tool.file(".sync.tmp")).expect("link");
    let before = std::fs::read("/etc/passwd").expect("read");
    tool.lock(&["run", "sync", "true"]).expect(0).silent();
    assert_eq!(std::fs::read("/etc/passwd").expect("read"), before, "no link is followed");
    std::fs::create_dir(tool.file(".sync.tmp")).expect("mkdir");
    tool.lock(&["run", "sync", "echo", "ran"]).expect(73).one_line();
    tool.precheck(&["sync"]).expect(0).silent();
}

/// Field case B45.
#[test]
fn a_full_disk_loses_nothing() {
    if !can_mount() {
        return;
    }
    let tool = Tool::new();
    let script = "
        mount -t tmpfs -o size=64k,mode=700 t $D
        \"$OL\" run dead true
        token=$(\"$OL\" acquire --owner $$ --print-token mine)
        cp $D/locks/dead.json dead.before; cp $D/locks/mine.json mine.before
        cat /dev/zero >$D/filler 2>/dev/null || true
        set +e
        \"$OL\" run dead echo ran; echo dead $?
        \"$OL\" run fresh echo ran; echo fresh $?
        cmp dead.before $D/locks/dead.json && cmp mine.before $D/locks/mine.json && echo intact
        \"$OP\" mine 2>/dev/null; echo precheck $?
        \"$OP\" dead; echo precheck $?
        ls -A $D/locks | tr '\\n' ' '; echo
        \"$OL\" release --token $token mine; echo release $?
        \"$OP\" mine; echo free $?
    ";
    let done = run(tool
        .unshared(&["-m"], &format!("set -e\nmkdir -m 700 $D\n{script}"))
        .env("D", tool.dir())
        .current_dir(tool.path("")));
    let expected = "dead 73\nfresh 73\nintact\nprecheck 75\nprecheck 0\n";
    let done = done.expect(0).prints(expected).prints("release 0\nfree 0\n");
    assert!(!done.stdout.contains("tmp"), "no temp file: {done:?}");
    let done = done.says("dead.json: no space left on device");
    done.says("the disk is full, so its record was removed instead of marked as released");
}

#[test]
fn without_inodes_nothing_is_lost_either() {
    if !can_mount() {
        return;
    }
    let tool = Tool::new();
    let script = "
        mount -t tmpfs -o size=1m,nr_inodes=16,mode=700 t $D
        \"$OL\" run dead true
        cp $D/locks/dead.json before
        n=0; while : >$D/fill$n; do n=$((n+1)); done 2>/dev/null
        set +e
        \"$OL\" run dead echo ran; echo dead $?
        \"$OL\" run fresh echo ran; echo fresh $?
        \"$OP\" dead fresh; echo precheck $?
        cmp before $D/locks/dead.json && echo intact
        rm $D/fill*
        \"$OL\" run dead echo ran
    ";
    std::fs::create_dir(tool.dir()).expect("mkdir");
    let mut command = tool.unshared(&["-m"], &format!("set -e\n{script}"));
    let done = run(command.env("D", tool.dir()).current_dir(tool.path("")));
    assert_eq!(done.expect(0).stdout, "dead 73\nfresh 73\nprecheck 0\nintact\nran\n");
}

/// Field case B46.
#[test]
fn read_only_is_73_for_the_lock_and_no_matter_for_the_precheck() {
    if !can_mount() {
        return;
    }
    let tool = Tool::new();
    let holder = tool.hold("held");
    let done = mounted(
        &tool,
        "mount --bind $D $D; mount -o remount,bind,ro $D
         set +e
         \"$OP\" held 2>&1 | grep -c 'held by'; \"$OP\" -q held; echo $?
         \"$OP\" free; echo $?
         \"$OL\" status held >/dev/null; echo $?
         \"$OL\" run held true; echo $?
         \"$OL\" run free echo ran; echo $?
         \"$OL\" release --token 5 held; echo $?",
    );
    let done = done.expect(0).says("read-only file system");
    assert_eq!(done.stdout, "1\n75\n0\n75\n73\n73\n73\n", "{done:?}");
    drop(holder);
}

#[test]
fn a_network_file_system_asks_first() {
    if !can_mount() || !needs("bindfs") || !support::allowed(Path::new("/dev/fuse").exists(), "no /dev/fuse")
    {
        return;
    }
    let tool = Tool::new();
    std::fs::create_dir(tool.path("back")).expect("mkdir");
    chmod(&tool.path("back"), 0o700);
    let done = mounted(
        &tool,
        &format!(
            "bindfs {} $D
             set +e
             \"$OL\" run sync echo ran; echo $?
             \"$OP\" sync; echo $?
             \"$OL\" --dir $D where --mark-network >/dev/null; echo $?
             \"$OL\" run sync echo ran; echo $?
             \"$OP\" sync; echo $?
             umount $D",
            tool.path("back").display()
        ),
    );
    let done = done.expect(0).says("where --mark-network").says("is on fuse").says("not guarding");
    assert_eq!(done.stdout, "78\n0\n0\nran\n0\n0\n", "{done:?}");
    // Every later reader knows, also one that comes to it another way.
    let back = tool.path("back").display().to_string();
    tool.lock(&["--dir", &back, "where"]).expect(0).prints("marks: network");
}

#[test]
fn kinds_of_file_systems_that_are_not_known_ask_too() {
    if !can_mount() {
        return;
    }
    let tool = Tool::new();
    let done = mounted(
        &tool,
        "mount -t ramfs -o mode=700 r $D; chmod 700 $D; set +e; \"$OL\" run sync true; echo $?",
    );
    assert_eq!(done.expect(0).says("ramfs").stdout, "78\n");
}

#[test]
fn an_overlay_is_local() {
    if !can_mount() {
        return;
    }
    let tool = Tool::new();
    let done = mounted(
        &tool,
        "mkdir o; mount -t tmpfs t o; mkdir o/low o/up o/work; mount -t overlay o -o lowerdir=o/low,upperdir=o/up,workdir=o/work $D
         chmod 700 $D; \"$OL\" run sync \"$OP\" sync || echo $?; \"$OP\" sync && echo free",
    );
    assert_eq!(done.expect(0).stdout, "75\nfree\n");
}

/// The tool as another user; its binaries are copied to where everybody may run them.
fn as_nobody(tool: &Tool, args: &[&str]) -> Command {
    chmod(&tool.path(""), 0o755);
    for name in ["orion-lock", "orion-precheck"] {
        if !tool.path(name).exists() {
            std::fs::copy(bin(name), tool.path(name)).expect("copy");
        }
    }
    let mut command = tool.command("runuser");
    command.args(["-u", "nobody", "--", "env"]).current_dir("/");
    command.arg(format!("ORION_DIR={}", tool.dir().display()));
    command.arg(tool.path(args[0])).args(&args[1..]);
    command
}

#[test]
fn somebody_elses_directory_is_refused() {
    if !needs_root() || !needs("runuser") {
        return;
    }
    let tool = Tool::new();
    let _holder = tool.hold("sync");
    // Root's directory, closed to us.
    run(&mut as_nobody(&tool, &["orion-lock", "run", "sync", "true"]))
        .expect(73)
        .one_line()
        .says("permission denied");
    run(&mut as_nobody(&tool, &["orion-precheck", "sync"])).expect(0).one_line().says("not guarding");
    chmod(&tool.dir(), 0o755);
    chmod(&tool.dir().join("locks"), 0o755);
    run(&mut as_nobody(&tool, &["orion-lock", "status", "sync"])).expect(69);
    run(&mut as_nobody(&tool, &["orion-precheck", "sync"])).expect(0).one_line().says("not guarding");
    run(&mut as_nobody(&tool, &["orion-lock", "run", "free", "echo", "ran"])).expect(73).one_line();
    // Field case B05: readable, and the owner cannot be signalled. EPERM is existence.
    chmod(&tool.file("sync.json"), 0o644);
    run(&mut as_nobody(&tool, &["orion-precheck", "sync"])).expect(75);
    tool.edit_record("sync", |record| record["owners"][0]["pidfs_ino"] = serde_json::Value::Null);
    chmod(&tool.dir(), 0o755);
    chmod(&tool.dir().join("locks"), 0o755);
    run(&mut as_nobody(&tool, &["orion-precheck", "sync"])).expect(75);

    // Nobody's directory, used by root.
    let tool = Tool::new();
    std::fs::create_dir(tool.dir()).expect("mkdir");
    std::os::unix::fs::chown(tool.dir(), Some(65534), None).expect("chown");
    tool.lock(&["run", "sync", "true"]).expect(78).one_line().says("belongs to uid 65534, not to you");
    tool.precheck(&["sync"]).expect(0).one_line().says("not guarding");
}

#[test]
fn a_shared_directory_lets_a_group_reclaim_each_others_dead() {
    if !needs_root() || !needs("runuser") {
        return;
    }
    let tool = Tool::new();
    std::fs::create_dir(tool.dir()).expect("mkdir");
    let gid = run(Command::new("id").args(["-g", "nobody"])).expect(0).stdout.trim().parse().expect("gid");
    std::os::unix::fs::chown(tool.dir(), None, Some(gid)).expect("chown");
    chmod(&tool.dir(), 0o2770);
    run(&mut as_nobody(&tool, &["orion-lock", "run", "sync", "true"])).expect(0).silent();
    for (name, expected) in [
        ("locks", 0o2770),
        ("locks/sync.guard", 0o660),
        ("locks/sync.json", 0o660),
        ("locks/sync.pulse", 0o660),
    ] {
        assert_eq!(mode(&tool.dir().join(name)), expected, "{name}");
    }
    // Root after nobody, nobody after root, and each sees the other's live one.
    tool.lock(&["run", "sync", "true"]).expect(0).silent();
    run(&mut as_nobody(&tool, &["orion-lock", "run", "sync", "true"])).expect(0).silent();
    let _holder = tool.hold("sync");
    run(&mut as_nobody(&tool, &["orion-lock", "run", "sync", "true"])).expect(75).one_line();
    run(&mut as_nobody(&tool, &["orion-precheck", "sync"])).expect(75).one_line();
    tool.lock(&["log", "sync"]).expect(0).prints("refused").prints("skipped");
    let shared = tool.lock(&["where", "--json"]).expect(0).json();
    assert_eq!(shared["shared"], true);
}

/// A uid whose home it does not own gets the line to type.
#[test]
fn a_user_without_a_home_needs_a_directory() {
    if !needs_root() || !needs("runuser") {
        return;
    }
    let tool = Tool::new();
    let without = |args: &[&str]| {
        let mut command = as_nobody(&tool, args);
        let words: Vec<std::ffi::OsString> = command.get_args().map(Into::into).collect();
        command = tool.command("runuser");
        command.args(words.iter().filter(|word| !word.to_string_lossy().starts_with("ORION_DIR")));
        command.env_remove("ORION_DIR").current_dir("/");
        run(&mut command)
    };
    let done = without(&["orion-lock", "run", "sync", "true"]);
    done.expect(78).one_line().says("--dir DIR or ORION_DIR=DIR");
    without(&["orion-precheck", "sync"]).expect(0);
}

#[test]
fn the_machines_own_setting_binds_everybody() {
    if !can_mount() {
        return;
    }
    let tool = Tool::new();
    std::fs::create_dir(tool.path("machine")).expect("mkdir");
    chmod(&tool.path("machine"), 0o700);
    let machine = tool.path("machine").display().to_string();
    let other = tool.path("other").display().to_string();
    let script = format!(
        "mkdir o; mount -t tmpfs t o; mkdir o/up o/work
         mount -t overlay o -o lowerdir=/etc,upperdir=o/up,workdir=o/work /etc
         mkdir /etc/orion; set +e
         put() {{ rm -rf /etc/orion/dir; printf \"$1\" >/etc/orion/dir; chmod ${{2-644}} /etc/orion/dir; }}
         put '{machine}\\n'
         \"$OL\" where; \"$OL\" run sync true; echo run $?
         \"$OP\" sync; echo precheck $?
         \"$OL\" --dir {other} where | tail -3
         env -u ORION_DIR \"$OL\" run sync true; echo quiet $?
         for bad in '' '\\n' 'relative\\n' '/a\\n/b\\n'; do
            put \"$bad\"; \"$OL\" run sync true; echo bad $?; \"$OP\" sync; echo $?
         done
         put '{machine}\\n' 666; \"$OL\" run sync true; echo bad $?
         put '{machine}\\n'; chown 65534 /etc/orion/dir; \"$OL\" run sync true; echo bad $?
         rm /etc/orion/dir; ln -s {other} /etc/orion/dir; \"$OL\" run sync true; echo bad $?
         rm /etc/orion/dir; mkfifo /etc/orion/dir; \"$OL\" run sync true; echo bad $?
         rm /etc/orion/dir; mkdir /etc/orion/dir; \"$OL\" run sync true; echo bad $?"
    );
    let mut command = tool.unshared(&["-m"], &format!("set -e\n{script}"));
    let done = run(command.current_dir(tool.path(""))).expect(0);
    let done = done.prints(&format!("{machine}\n  chosen by: /etc/orion/dir")).prints("run 0\nprecheck 0\n");
    let done = done.prints("quiet 0\n").prints("chosen by: --dir");
    assert_eq!(done.stdout.matches("bad 78").count(), 9, "{done:?}");
    assert_eq!(done.stdout.matches("bad 78\n0\n").count(), 4, "the precheck goes: {done:?}");
    let done = done.says(&format!("ORION_DIR is overruled by /etc/orion/dir: {machine}"));
    assert!(done.stderr.contains("/etc/orion/dir is not a file that only root can write"), "{done:?}");
    assert_eq!(names_in(&tool.path("machine/locks")), ["sync.guard", "sync.json", "sync.pulse"]);
    assert!(!tool.dir().exists());
}

/// Field case B57: with protected_regular even root gets EACCES from O_CREAT on another's file.
#[test]
fn existing_files_are_opened_without_creating() {
    if !needs("strace") {
        return;
    }
    let tool = Tool::new();
    tool.lock(&["run", "sync", "true"]).expect(0);
    let mut command = tool.command("strace");
    command.args(["-f", "-e", "trace=openat", "-o"]).arg(tool.path("trace"));
    command.arg(bin("orion-lock")).args(["run", "sync", "true"]);
    run(&mut command).expect(0);
    let trace = std::fs::read_to_string(tool.path("trace")).expect("trace");
    let created: Vec<&str> = trace.lines().filter(|line| line.contains("O_CREAT")).collect();
    assert!(created.iter().all(|line| line.contains("O_EXCL")), "{created:#?}");
    assert!(!created.iter().any(|line| line.contains("guard") || line.contains("pulse")), "{created:#?}");
    assert!(!trace.contains("O_TRUNC"), "nothing is truncated: {trace}");
}
