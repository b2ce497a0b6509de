//! `orion-lease` from outside: the role, who is refused, who may tick, bad input.

mod lease_kit;

use lease_kit::{Answer, Scene, send, until};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn the_status_of_the_command_passes_through() {
    let scene = Scene::new();
    for code in [0, 1, 75, 76, 77, 127, 200, 255] {
        let answer = scene.call(["run", "journal.db", "sh", "-c", &format!("exit {code}")]);
        assert_eq!((answer.code, answer.out.as_str(), answer.err.as_str()), (code, "", ""));
    }
    assert_eq!(scene.call(["run", "journal.db", "sh", "-c", "kill -KILL $$"]).code, 137);
    assert_eq!(scene.call(["run", "journal.db", "sh", "-c", "kill -TERM $$"]).code, 143);
    assert_eq!(scene.call(["run", "journal.db", "no-such-program"]).code, 127);
    assert_eq!(scene.call(["run", "journal.db", "/etc/passwd"]).code, 126);
    assert_eq!(scene.call(["run", "--exec", "journal.db", "no-such-program"]).code, 127);
    assert_eq!(scene.probe().code, 0, "free again");
}

#[test]
fn the_command_gets_its_signals_its_input_and_nothing_of_ours() {
    let scene = Scene::new();
    let script = "grep -E 'SigBlk|SigIgn' /proc/self/status; ls /proc/self/fd | wc -l; cat";
    let direct = |command: &mut Command| {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start");
        std::io::Write::write_all(&mut child.stdin.take().expect("stdin"), b"through\n").expect("write");
        Answer::of(child.wait_with_output().expect("end"))
    };
    let plain = direct(Command::new("sh").args(["-c", script]));
    let under = direct(&mut scene.lease(["run", "journal.db", "sh", "-c", script]));
    assert_eq!(plain.out, under.out, "masks, descriptors and input are as without us");
    assert!(under.out.ends_with("through\n"));
}

#[test]
fn one_role_is_one_holder_whatever_the_spelling() {
    let scene = Scene::new();
    fs::create_dir(scene.path("sub")).expect("dir");
    symlink(".", scene.path("link")).expect("link");
    symlink("journal.db", scene.path("alias.db")).expect("link");
    let mut resident = scene.resident(&["--surface", "wake"], "read line");
    let absolute = scene.store.to_str().expect("path").to_owned();
    for spelling in
        ["journal.db", "./journal.db", "sub/../journal.db", "link/journal.db", "alias.db", &absolute]
    {
        let answer = scene.call(["run", spelling, "echo", "ran"]);
        assert_eq!((answer.code, answer.out.as_str()), (75, ""), "{spelling}");
        assert!(answer.err.contains(&format!("pid {}", resident.child.id())), "{answer:?}");
        assert!(answer.err.contains("surface wake"), "{answer:?}");
        assert_eq!(answer.err.lines().count(), 1);
    }
    assert_eq!(scene.call(["run", "other.db", "true"]).code, 0, "another store is another role");
    assert_eq!(scene.call(["run", "-q", "journal.db", "true"]).err, "");
    assert_eq!(scene.call(["run", "-E", "0", "journal.db", "true"]).code, 0);
    assert_eq!(scene.call(["run", "-E", "76", "journal.db", "true"]).code, 64);
    let refused = scene.call(["run", "--json", "journal.db", "true"]).json();
    assert_eq!(refused["error"]["kind"], "held");
    resident.tell("end");
    assert_eq!(resident.end(), 0);
    assert_eq!(scene.call(["run", "journal.db", "true"]).code, 0);
}

#[test]
fn a_payload_says_who_serves_and_is_private() {
    let scene = Scene::new();
    fs::write(scene.lock(), "x".repeat(1 << 20)).expect("1 MB of nonsense");
    fs::set_permissions(scene.lock(), fs::Permissions::from_mode(0o600)).expect("mode");
    let mut resident = scene.resident(&["--surface", "api", "--revision", "4f1c"], "read line");
    let payload = scene.json();
    assert_eq!(payload["pid"], resident.child.id());
    assert_eq!(payload["surface"], "api");
    assert_eq!(payload["store"], scene.store.to_str().expect("path"));
    assert_eq!(payload["build"]["revision"], "4f1c");
    assert!(payload["build"]["size"].as_u64() > Some(1000), "bash has some size");
    assert!(payload.get("last_tick").is_none());
    let metadata = fs::metadata(scene.lock()).expect("lock file");
    assert_eq!(metadata.mode() & 0o777, 0o600);
    let probe = scene.call(["probe", "--json", "journal.db"]);
    assert!(probe.out.starts_with("{\"schema\":1,"), "{probe:?}");
    let probe = probe.json();
    assert_eq!((probe["state"].as_str(), probe["holder"]["ticks"].as_str()), (Some("held"), Some("never")));
    assert_eq!(probe["holder"]["pid"], resident.child.id());
    assert_eq!(scene.probe().code, 75);
    assert_eq!(scene.call(["probe", "--up", "journal.db"]).code, 0);
    resident.tell("end");
    resident.end();
    assert_eq!(scene.call(["probe", "--up", "journal.db"]).code, 69);
    let free = scene.probe();
    assert_eq!(free.code, 0, "a payload without a lock is stale");
    assert!(free.out.contains(scene.lock().to_str().expect("path")), "says where it looked: {free:?}");
}

#[test]
fn only_the_holder_and_its_command_may_tick() {
    let scene = Scene::new();
    let tick = format!("{} tick journal.db", lease_kit::program().display());
    assert_eq!(scene.call(["tick", "journal.db"]).code, 77, "nobody serves");
    let script = format!(
        "{tick}; echo $?; read line; bash -c '{tick}; echo $?'; read line; ({tick}; echo $?); read line"
    );
    let mut resident = scene.resident(&[], &script);
    assert_eq!(resident.line(), "0", "the command's child ticks for it");
    let first = scene.json();
    assert!(first["last_tick"].is_string() && first["orion"]["monotonic_us"].is_u64(), "{first}");
    let outsider = scene.call(["tick", "journal.db"]);
    assert_eq!(outsider.code, 77, "{outsider:?}");
    resident.tell("go");
    assert_eq!(resident.line(), "77", "a grandchild is not the command");
    resident.tell("go");
    assert_eq!(resident.line(), "77", "nor is a subshell");
    assert_eq!(scene.json(), first, "nothing was written");
    resident.tell("end");
    assert_eq!(resident.end(), 0);
    let own =
        scene.call(["run", "journal.db", lease_kit::program().to_str().expect("path"), "tick", "journal.db"]);
    assert_eq!((own.code, own.err.as_str()), (0, ""), "the command itself");
    let script = format!("{tick}; echo $?");
    let exec = scene.call(["run", "--exec", "journal.db", "bash", "-c", &script]);
    assert_eq!(exec.out, "0\n", "the holder itself, with --exec");
}

#[test]
fn a_tick_that_cannot_be_written_is_reported_and_the_work_goes_on() {
    let scene = Scene::new();
    let tick = format!("{} tick journal.db; echo $?", lease_kit::program().display());
    let script =
        format!("ulimit -f 0; {tick}; ulimit -f unlimited 2>/dev/null; read line; {tick}; echo done");
    // The file size limit stands for a full disk: EFBIG is reported the same way, and can be had without one.
    let mut command = scene.lease(["run", "journal.db", "bash", "-c", &format!("echo $$; {script}")]);
    let mut resident = lease_kit::Actor::start(command.stderr(Stdio::piped()));
    assert_eq!(resident.line(), "73");
    fs::remove_file(scene.lock()).expect("removed");
    until("the supervisor noticed", || resident.child.try_wait().expect("wait").is_some());
    assert_eq!(resident.end(), 77, "the role is lost with its file");
}

#[test]
fn exec_makes_the_command_the_holder() {
    let scene = Scene::new();
    let mut resident =
        scene.resident(&["--exec"], "exec 3>/dev/null 9>/dev/null; read line; sleep 1000 & echo $!");
    assert_eq!(resident.pid, resident.child.id(), "no process between");
    assert_eq!(scene.json()["pid"], resident.pid);
    assert_eq!(scene.probe().code, 75, "low descriptors are the command's to use");
    resident.tell("go");
    let heir: u32 = resident.line().parse().expect("a pid");
    resident.end();
    let probe = scene.call(["probe", "--json", "journal.db"]);
    assert_eq!(probe.code, 75, "with --exec the descriptor is inherited");
    let probe = probe.json();
    assert_eq!(probe["holder"]["pid"], serde_json::Value::Null, "the payload's process is gone");
    assert_eq!(probe["holder"]["held_by"][0], heir);
    assert_eq!(scene.call(["takeover", "journal.db"]).code, 69);
    send("KILL", heir);
    until("the role is free", || scene.probe().code == 0);
}

#[test]
fn a_waiter_gets_the_role_when_it_comes_free() {
    let scene = Scene::new();
    let mut resident = scene.resident(&[], "read line");
    let begin = Instant::now();
    assert_eq!(scene.call(["run", "-w", "100ms", "journal.db", "true"]).code, 75);
    assert!(begin.elapsed() >= Duration::from_millis(100));
    let mut waiter = scene.lease(["run", "-w", "forever", "journal.db", "echo", "mine"]);
    let waiter = waiter.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("waiter");
    lease_kit::until_it_blocks(waiter.id());
    resident.tell("end");
    assert_eq!(resident.end(), 0);
    let answer = Answer::of(waiter.wait_with_output().expect("end"));
    assert_eq!((answer.code, answer.out.as_str()), (0, "mine\n"));
}

#[test]
fn waiting_for_oneself_fails_at_once() {
    let scene = Scene::new();
    let inner = format!("{} run -w forever --json journal.db true", lease_kit::program().display());
    let answer = scene.call(["run", "journal.db", "sh", "-c", &inner]);
    assert_eq!(answer.code, 75);
    assert_eq!(answer.json()["error"]["kind"], "held_by_ancestor");
}

#[test]
fn a_resident_whose_lock_file_is_replaced_stands_down() {
    for replace in [false, true] {
        let scene = Scene::new();
        let mut command = scene.lease(["run", "journal.db", "bash", "-c", "echo $$; exec sleep 1000"]);
        let mut resident = lease_kit::Actor::start(command.stderr(Stdio::piped()));
        if replace {
            fs::write(scene.path("new"), "").expect("file");
            fs::rename(scene.path("new"), scene.lock()).expect("rename");
        } else {
            fs::remove_file(scene.lock()).expect("removed");
        }
        assert_eq!(resident.end(), 77);
        assert!(lease_kit::is_gone(resident.pid), "the command ended first");
        let mut text = String::new();
        let mut stderr = resident.child.stderr.take().expect("stderr");
        std::io::Read::read_to_string(&mut stderr, &mut text).expect("text");
        assert!(text.contains("removed or replaced"), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}

#[test]
fn a_legacy_resident_owns_every_store_beside_it() {
    let scene = Scene::new();
    let payload = r#"{"pid":PID,"host":"box","surface":"chat","acquired_at":"2026-01-01T00:00:00Z"}"#;
    let stranger = scene.stranger("resident.lock", payload, "");
    for store in ["journal.db", "other.db"] {
        let probe = scene.call(["probe", "--json", store]);
        assert_eq!(probe.code, 75);
        let probe = probe.json();
        assert_eq!(
            (&probe["holder"]["legacy"], &probe["holder"]["pid"]),
            (&true.into(), &stranger.pid.into())
        );
        let answer = scene.call(["run", store, "true"]);
        assert_eq!(answer.code, 75);
        assert!(answer.err.contains("resident.lock"), "{answer:?}");
    }
    drop(stranger);
    // The file stays and means nothing; while we serve, no legacy program can start.
    let mut resident = scene.resident(&[], "read line");
    let legacy = Command::new("flock").args(["-n"]).arg(scene.path("resident.lock")).arg("true").status();
    assert_eq!(legacy.expect("flock").code(), Some(1));
    assert_eq!(scene.call(["run", "other.db", "true"]).code, 0, "two stores, two roles");
    resident.tell("end");
    resident.end();
}

#[test]
fn a_resident_of_another_make_is_seen_and_refuses_us_and_is_refused() {
    let scene = Scene::new();
    let payload = r#"{"pid":PID,"host":"box","surface":"wake","acquired_at":"2026-01-01T01:00:00.5+01:00",
        "last_tick":"0001-01-01T00:00:00Z","build":{"mod_time":"0001-01-01T00:00:00Z","size":0,"revision":""}}"#;
    let stranger = scene.stranger("journal.db.resident.lock", payload, "");
    let answer = scene.call(["run", "journal.db", "true"]);
    assert_eq!(answer.code, 75);
    assert!(answer.err.contains(&format!("pid {} (sleep", stranger.pid)), "{answer:?}");
    assert!(answer.err.contains("2026-01-01 00:00:00 UTC"), "{answer:?}");
    assert!(answer.err.contains("never ticked"), "{answer:?}");
    drop(stranger);
    let mut resident = scene.resident(&[], "read line");
    let other = Command::new("flock").args(["-n"]).arg(scene.lock()).arg("true").status().expect("flock");
    assert_eq!(other.code(), Some(1));
    resident.tell("end");
    resident.end();
}

#[test]
fn stuck_is_loud() {
    let scene = Scene::new();
    let fields = r#""host":"box","surface":"api""#;
    let stranger = scene.silent_stranger("journal.db.resident.lock", fields, "");
    let probe = |options: &[&str]| {
        scene.call([&["probe", "--stuck-after", lease_kit::BRIEFLY], options, &["journal.db"]].concat())
    };
    let seen = probe(&[]);
    assert_eq!(seen.code, 76);
    let pid = format!("pid {}", stranger.pid);
    for part in ["STUCK", &pid, "sleep", "state S", "silent for", "UTC", "takeover --stuck-after 1s /"] {
        assert!(seen.out.contains(part), "{part}: {seen:?}");
    }
    assert_eq!(probe(&["--up"]).code, 76);
    assert_eq!(scene.call(["probe", "--stuck-after", "1h", "journal.db"]).code, 75);
    let json = probe(&["--json"]).json();
    assert_eq!((json["state"].as_str(), json["holder"]["state"].as_str()), (Some("stuck"), Some("S")));
    let refused = scene.call(["run", "-q", "--stuck-after", lease_kit::BRIEFLY, "journal.db", "true"]);
    assert_eq!(refused.code, 75, "proof of life");
    assert!(refused.err.contains("STUCK"), "also under -q: {refused:?}");
    send("STOP", stranger.pid);
    until("it is stopped", || probe(&[]).out.contains("stopped (state T)"));
    assert_eq!(probe(&[]).code, 76);
    assert!(!lease_kit::is_gone(stranger.pid), "nothing is taken from it");
}
