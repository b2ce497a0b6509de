//! Bad input: stamps, payloads, lock files and stores of every odd kind.

mod lease_kit;

use lease_kit::{Scene, nap};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

#[test]
fn odd_stamps_never_make_a_holder_stuck() {
    let scene = Scene::new();
    let cases = [
        (r#""last_tick":"soon""#, "cannot be read as a time"),
        (r#""last_tick":17"#, "cannot be read as a time"),
        (r#""last_tick":"2999-01-01T00:00:00Z""#, "clock moved"),
        (r#""last_tick":"1971-01-01T00:00:00Z""#, "written before this process started"),
        (r#""last_tick":null"#, "never ticked"),
        (r#""acquired_at":"2999-01-01T00:00:00Z""#, "clock moved"),
    ];
    for (fields, said) in cases {
        let stranger = scene.stranger("journal.db.resident.lock", &format!("{{\"pid\":PID,{fields}}}"), "");
        let probe = scene.probe();
        assert_eq!(probe.code, 75, "{fields}: {probe:?}");
        assert!(probe.out.contains(said), "{fields}: {probe:?}");
        drop(stranger);
        nap();
    }
}

#[test]
fn bad_lock_files() {
    // Held, and nobody can say by whom.
    let megabyte = "x".repeat(1 << 20);
    for payload in ["", "{\"pid\":1", "[1,2]", "{\"pid\":0}", "{\"pid\":-5}", "{\"pid\":\"7\"}", &megabyte] {
        let scene = Scene::new();
        let lock = "journal.db.resident.lock";
        // Through a file: an argument of 1 MB is too long for exec.
        fs::write(scene.path("payload"), payload).expect("payload");
        let stranger = scene.stranger(lock, "", &format!("cat payload >{lock}; echo $$; exec sleep 1000;"));
        let shape: String = payload.chars().take(20).collect();
        let probe = scene.call(["probe", "--json", "journal.db"]);
        assert_eq!((probe.code, &probe.json()["holder"]["pid"]), (75, &serde_json::Value::Null), "{shape}");
        assert_eq!(scene.call(["run", "journal.db", "true"]).code, 75, "{shape}");
        assert_eq!(scene.call(["takeover", "journal.db"]).code, 69, "{shape}");
        assert!(!lease_kit::is_gone(stranger.pid));
        drop(stranger);
        // Without the lock it is nothing but stale.
        assert_eq!(scene.probe().code, 0, "{shape}");
        assert_eq!(scene.call(["run", "journal.db", "true"]).code, 0, "{shape}");
    }
}

#[test]
fn a_shared_lock_of_a_stranger_refuses_and_does_not_hang() {
    let scene = Scene::new();
    fs::write(scene.lock(), "").expect("lock file");
    let mut command = Command::new("bash");
    command.args(["-c", "exec 9<journal.db.resident.lock; flock -s -n 9; echo $$; exec sleep 1000"]);
    let stranger = lease_kit::Actor::start(command.current_dir(scene.store.parent().expect("dir")));
    let answer = scene.call(["run", "journal.db", "true"]);
    assert_eq!(answer.code, 75, "{answer:?}");
    assert!(answer.err.contains(&format!("held by pid {} (sleep)", stranger.pid)), "{answer:?}");
    assert_eq!(scene.call(["run", "-w", "50ms", "journal.db", "true"]).code, 75);
    drop(stranger);
    assert_eq!(scene.call(["run", "journal.db", "true"]).code, 0);
}

#[test]
fn what_is_no_lock_file_is_left_alone() {
    for kind in ["link", "dangling link", "fifo", "directory"] {
        let scene = Scene::new();
        fs::write(scene.path("target"), "precious").expect("file");
        match kind {
            "link" => symlink("target", scene.lock()).expect("link"),
            "dangling link" => symlink("nothing", scene.lock()).expect("link"),
            "fifo" => assert!(Command::new("mkfifo").arg(scene.lock()).status().expect("mkfifo").success()),
            _ => fs::create_dir(scene.lock()).expect("dir"),
        }
        assert_eq!(scene.call(["run", "journal.db", "true"]).code, 73, "{kind}");
        assert_eq!(scene.probe().code, 69, "{kind}");
        assert_eq!(scene.call(["takeover", "journal.db"]).code, 69, "{kind}");
        assert_eq!(scene.call(["tick", "journal.db"]).code, 77, "{kind}");
        assert_eq!(fs::read_to_string(scene.path("target")).expect("file"), "precious");
        assert!(!scene.path("nothing").exists());
    }
}

#[test]
fn bad_stores() {
    let scene = Scene::new();
    let run = |store: &str| scene.call(["run", store, "true"]).code;
    assert_eq!(run("journal.db"), 0, "a store may not exist yet");
    assert!(!scene.store.exists(), "and is not made");
    assert_eq!(run("nowhere/journal.db"), 73);
    assert_eq!(scene.call(["probe", "nowhere/journal.db"]).code, 69);
    assert_eq!(scene.call(["tick", "nowhere/journal.db"]).code, 77);
    assert_eq!(run(""), 64);
    assert_eq!(run("/"), 64);
    fs::write(&scene.store, "").expect("an empty store");
    assert_eq!(run("journal.db"), 0);
    assert_eq!(run("journal.db/x"), 73, "a file is not a directory");
    fs::create_dir(scene.path("tree")).expect("a directory as a store");
    assert_eq!(run("tree/"), 0);
    assert!(scene.path("tree.resident.lock").exists(), "beside it, not in it");
    symlink("loop", scene.path("loop")).expect("link");
    assert_eq!(run("loop"), 73);
    assert_eq!(scene.call(["run", "journal.db"]).code, 64);
    assert_eq!(scene.call(["run", "journal.db", "-x"]).code, 64);
    assert_eq!(scene.call(["run", "--kill-after", "1s", "journal.db", "true"]).code, 64);
    let long = "x".repeat(20_000);
    assert_eq!(scene.call(["run", "--surface", &long, "journal.db", "true"]).code, 64);
    assert_eq!(
        scene.call(["run", "-w", "9000000000y", "journal.db", "true"]).code,
        0,
        "longer than the clock"
    );
    assert_eq!(scene.call(["run", "--build-file", "missing", "journal.db", "true"]).code, 78);
    assert_eq!(scene.call(["frobnicate"]).code, 64);
    let path = scene.call(["path", "./tree/../journal.db"]);
    assert_eq!(path.out.trim_end(), scene.lock().to_str().expect("path"));
}
