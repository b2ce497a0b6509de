//! Disks that are full or read-only, and lock files of other users. Mounts happen in
//! a mount namespace of their own, which takes root.

#![expect(clippy::print_stdout, clippy::disallowed_macros, reason = "said to whoever runs the tests")]

mod lease_kit;

use lease_kit::{Answer, Scene};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const NOBODY: &str = "65534";

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        assert!(std::env::var_os("CI").is_none(), "these tests need root");
        println!("skipped: not root");
    }
    root
}

/// Runs a script in a fresh tmpfs on `disk`, `$L` being the program; `None` where
/// that is not allowed, as in most containers.
fn on_a_disk(scene: &Scene, options: &str, script: &str) -> Option<Answer> {
    fs::create_dir_all(scene.path("disk")).expect("dir");
    let script = format!("mount -t tmpfs -o {options} orion disk || exit 99; cd disk; {script}");
    let mut command = Command::new("unshare");
    command.args(["-m", "bash", "-c", &script]).env("L", lease_kit::program());
    let answer =
        Answer::of(command.current_dir(scene.store.parent().expect("dir")).output().expect("unshare"));
    if answer.code == 99 || (answer.code == 1 && answer.err.contains("unshare")) {
        println!("skipped: no mounts here: {}", answer.err.trim());
        return None;
    }
    Some(answer)
}

#[test]
fn a_full_disk_gives_no_role_and_takes_none() {
    if !is_root() {
        return;
    }
    let scene = Scene::new();
    let fill = "dd if=/dev/zero of=fill bs=1k count=100 2>/dev/null";
    let script = format!(
        "{fill}; $L run a.db echo ran; echo $?; $L probe --json a.db | grep -c free; rm fill; \
         $L run a.db bash -c '{fill}; $L tick a.db; echo $?; $L probe a.db >/dev/null; echo $?; exit 3'; echo $?"
    );
    let Some(answer) = on_a_disk(&scene, "size=8k", &script) else { return };
    // The tick fits into the page that the payload has already; what matters is that the work goes on.
    assert_eq!(answer.out, "73\n1\n0\n75\n3\n", "{answer:?}");
    assert!(answer.err.contains("no space left on device"), "{answer:?}");
}

#[test]
fn a_read_only_disk_is_said_and_a_tick_there_stops_nobody() {
    if !is_root() {
        return;
    }
    let scene = Scene::new();
    let remount = "mount -o remount,ro .";
    let script = format!(
        "$L run a.db true; echo $?; {remount}; $L run a.db true; echo $?; $L run b.db true; echo $?; \
         $L probe a.db >/dev/null; echo $?; $L probe b.db >/dev/null; echo $?"
    );
    let Some(answer) = on_a_disk(&scene, "size=64k", &script) else { return };
    assert_eq!(answer.out, "0\n73\n73\n0\n0\n", "{answer:?}");
    assert!(answer.err.contains("read-only file system"), "{answer:?}");
    // With --exec and a holder that has the file open for reading only, the disk can go read-only under it.
    let script = format!(
        "touch a.db.resident.lock; exec 9<a.db.resident.lock; flock -n 9; \
         echo '{{\"pid\":'$$'}}' >a.db.resident.lock; {remount}; $L tick a.db; echo $?; $L probe a.db >/dev/null; echo $?"
    );
    let Some(answer) = on_a_disk(&scene, "size=64k", &script) else { return };
    assert_eq!(answer.out, "73\n75\n", "{answer:?}");
}

#[test]
fn a_lock_file_of_another_user_shows_its_holder_and_is_not_taken() {
    if !is_root() {
        return;
    }
    let scene = Scene::new();
    let directory = scene.store.parent().expect("dir");
    fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).expect("mode");
    let nobody = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", NOBODY, "--clear-groups"]).arg(lease_kit::program()).args(words);
        Answer::of(command.current_dir(directory).output().expect("setpriv"))
    };
    if nobody(&["path", "journal.db"]).code != 0 {
        println!("skipped: user {NOBODY} cannot run the program where it is");
        return;
    }
    let mut resident = scene.resident(&[], "read line");
    assert_eq!(nobody(&["probe", "journal.db"]).code, 69, "0600: nothing can be said");
    assert_eq!(nobody(&["run", "journal.db", "true"]).code, 73);
    assert_eq!(nobody(&["tick", "journal.db"]).code, 73);
    for mode in [0o644, 0o666] {
        fs::set_permissions(scene.lock(), fs::Permissions::from_mode(mode)).expect("mode");
        let probe = nobody(&["probe", "journal.db"]);
        assert_eq!(probe.code, 75, "{probe:?}");
        // Its descriptors cannot be seen, so the number in the payload names nobody for this user.
        assert!(probe.out.contains("a process that cannot be seen from here"), "{probe:?}");
        assert!(!probe.out.contains(&resident.child.id().to_string()), "{probe:?}");
        assert_eq!(nobody(&["run", "journal.db", "true"]).code, 75, "{mode:o}");
        assert_eq!(nobody(&["run", "-w", "50ms", "journal.db", "true"]).code, 75, "{mode:o}");
        assert_eq!(nobody(&["takeover", "journal.db"]).code, 69, "{mode:o}");
    }
    // An old tick, and nobody knows here whose: whose descriptors cannot be seen is not proved.
    let old = format!("{{\"pid\":{},{}}}", resident.child.id(), lease_kit::tick_fields(400));
    fs::write(scene.lock(), old).expect("payload");
    assert_eq!(nobody(&["probe", "journal.db"]).code, 75);
    assert_eq!(nobody(&["takeover", "journal.db"]).code, 69);
    assert!(resident.child.try_wait().expect("wait").is_none());
    resident.tell("end");
    resident.end();
    fs::set_permissions(scene.lock(), fs::Permissions::from_mode(0o644)).expect("mode");
    assert_eq!(nobody(&["probe", "journal.db"]).code, 0);
    assert_eq!(nobody(&["run", "journal.db", "true"]).code, 73, "free, and not for this user to write");
}
