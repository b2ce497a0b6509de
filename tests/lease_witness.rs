//! What went wrong in the first version, by its number: silence with one witness, numbers
//! that name somebody else, stores with several names, takeovers that race.

#![expect(clippy::print_stdout, clippy::disallowed_macros, reason = "said to whoever runs the tests")]

mod lease_kit;

use lease_kit::{Actor, Answer, BRIEFLY, Scene, is_gone, parent, send, state, tick_fields, until};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

const LOCK: &str = "journal.db.resident.lock";

/// Can this be done here? Said when not; a failure on the machines that run the tests for others.
fn possible(what: &str, words: &[&str]) -> bool {
    let done = Command::new(words[0]).args(&words[1..]).arg("true").output();
    let possible = done.is_ok_and(|output| output.status.success());
    if !possible {
        assert!(std::env::var_os("CI").is_none(), "these tests need {what}");
        println!("skipped: no {what} here");
    }
    possible
}

/// `bash -c SCRIPT` beside the store, with the program as `$L`.
fn bash(scene: &Scene, script: &str) -> Command {
    let mut command = Command::new("bash");
    command
        .args(["-c", script])
        .env("L", lease_kit::program())
        .current_dir(scene.store.parent().expect("dir"));
    command
}

fn start(scene: &Scene, words: &[&str]) -> Child {
    let mut call = scene.lease(words);
    call.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start")
}

/// Closes its input and waits for its end.
fn answer(mut child: Child) -> Answer {
    drop(child.stdin.take());
    Answer::of(child.wait_with_output().expect("end"))
}

#[test]
fn g20_a_resident_that_ticks_is_never_ended_from_another_time_namespace() {
    if !possible("time namespaces", &["unshare", "-T", "--monotonic", "100000", "--boottime", "100000"]) {
        return;
    }
    let scene = Scene::new();
    let tick = format!("{} tick journal.db", lease_kit::program().display());
    let mut holder = scene.resident(&[], &format!("while {tick}; do echo ticked; sleep 0.3; done"));
    assert_eq!(holder.line(), "ticked");
    for clocks in
        [["--monotonic", "100000", "--boottime", "100000"], ["--monotonic", "100000", "--boottime", "0"]]
    {
        let mut command = Command::new("unshare");
        command.arg("-T").args(clocks).arg(lease_kit::program()).args(["takeover", "-v", "journal.db"]);
        let answer =
            Answer::of(command.current_dir(scene.store.parent().expect("dir")).output().expect("unshare"));
        assert_eq!(answer.code, 69, "{answer:?}");
        assert!(answer.err.contains("another time namespace"), "{answer:?}");
        assert!(holder.child.try_wait().expect("wait").is_none());
    }
    holder.signal("TERM");
    assert_eq!(holder.end(), 143);
}

#[test]
fn g20_an_old_stamp_of_a_young_process_is_not_its_own() {
    let scene = Scene::new();
    let wall = lease_kit::rfc3339(SystemTime::now() - Duration::from_secs(400));
    for fields in [format!(r#""acquired_at":"{wall}","last_tick":"{wall}""#), tick_fields(400)] {
        let holder = scene.stranger(LOCK, &format!("{{\"pid\":PID,{fields}}}"), "");
        let probe = scene.probe();
        assert_eq!(probe.code, 75, "{probe:?}");
        let answer = scene.call(["takeover", "journal.db"]);
        assert_eq!(answer.code, 69, "{answer:?}");
        assert!(answer.err.contains("written before this process started"), "{answer:?}");
        assert_eq!(
            scene.call(["run", "--takeover", "stuck", "journal.db", "true"]).code,
            75,
            "somebody lives"
        );
        assert_eq!(state(holder.pid), Some('S'));
    }
}

#[test]
fn g20_a_limit_below_a_second_is_refused() {
    let scene = Scene::new();
    for limit in ["0", "0s", "999ms"] {
        let call = scene.call(["takeover", "--stuck-after", limit, "journal.db"]);
        assert_eq!((call.code, call.err.contains("at least 1s")), (64, true), "{call:?}");
        assert_eq!(scene.call(["probe", "--stuck-after", limit, "journal.db"]).code, 64);
        assert_eq!(scene.call(["run", "--stuck-after", limit, "journal.db", "true"]).code, 64);
    }
}

/// Ticks for the holder all the time until `call` has ended, and gives its answer.
fn ticking(scene: &Scene, holder: &Actor, call: Child) -> Answer {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = fs::File::options().write(true).open(scene.lock()).expect("lock file");
            while !over.load(Ordering::Relaxed) {
                let payload = format!("{{\"pid\":{},{}}}", holder.pid, tick_fields(0));
                file.write_all_at(payload.as_bytes(), 0).expect("tick");
                file.set_len(payload.len() as u64).expect("length");
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let answer = answer(call);
        over.store(true, Ordering::Relaxed);
        answer
    })
}

#[test]
fn g24_a_tick_before_the_second_look_saves_the_holder() {
    let scene = Scene::new();
    let holder = scene.silent_stranger(LOCK, "", "");
    let call = start(&scene, &["takeover", "--stuck-after", BRIEFLY, "journal.db"]);
    // It waits for its second look in a thread.
    lease_kit::until_it_blocks(call.id());
    let answer = ticking(&scene, &holder, call);
    assert_eq!(answer.code, 75, "{answer:?}");
    assert!(answer.err.contains("it ticks") && !answer.err.contains("STUCK"), "{answer:?}");
    assert_eq!(state(holder.pid), Some('S'));
}

/// A takeover that is held where it opens the holder's process, after its second look; `None`
/// where nobody can be traced.
fn held_at_the_last_look(scene: &Scene) -> Option<Child> {
    if !possible("strace", &["strace", "-o", "/dev/null"]) {
        return None;
    }
    let mut call = Command::new("strace");
    call.args([
        "-f",
        "-o",
        "/dev/null",
        "-e",
        "trace=pidfd_open",
        "-e",
        "inject=pidfd_open:delay_enter=3000000",
    ]);
    call.arg(lease_kit::program()).args(["takeover", "--stuck-after", BRIEFLY, "journal.db"]);
    call.current_dir(scene.store.parent().expect("dir")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let call = call.spawn().expect("strace");
    let mut held = 0;
    until("it is held", || {
        let children =
            fs::read_to_string(format!("/proc/{0}/task/{0}/children", call.id())).unwrap_or_default();
        let mut children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
        held = if children.any(|pid| state(pid) == Some('t')) { held + 1 } else { 0 };
        held > 100
    });
    Some(call)
}

#[test]
fn g24_a_tick_in_the_last_instant_saves_the_holder() {
    let scene = Scene::new();
    let holder = scene.silent_stranger(LOCK, "", "");
    let Some(call) = held_at_the_last_look(&scene) else { return };
    let answer = ticking(&scene, &holder, call);
    assert_eq!(answer.code, 75, "{answer:?}");
    assert!(answer.err.contains("it ticks"), "{answer:?}");
    assert_eq!(state(holder.pid), Some('S'));
}

#[test]
fn g24_a_holder_that_ends_in_the_last_instant_leaves_the_role_free() {
    let scene = Scene::new();
    let mut holder = scene.silent_stranger(LOCK, "", "");
    let Some(call) = held_at_the_last_look(&scene) else { return };
    holder.signal("KILL");
    holder.end();
    let answer = answer(call);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(!answer.err.contains("asked"), "{answer:?}");
}

#[test]
fn g24_of_two_takeovers_one_serves_and_the_other_is_told_by_whom() {
    for round in 0..3 {
        let scene = Scene::new();
        let holder = scene.silent_stranger(LOCK, "", "");
        let words = ["run", "--takeover", "stuck", "--stuck-after", BRIEFLY, "journal.db"];
        let words = [&words[..], &["bash", "-c", "read line; echo served"]].concat();
        let mut calls = vec![start(&scene, &words), start(&scene, &words)];
        let mut refused = None;
        until("one is refused", || {
            refused = calls.iter_mut().position(|call| call.try_wait().expect("wait").is_some());
            refused.is_some()
        });
        let refused = answer(calls.remove(refused.expect("one")));
        let server = calls.remove(0);
        assert_eq!(refused.code, 75, "round {round}: {refused:?}");
        assert!(
            refused.err.contains(&format!("pid {} (orion-lease", server.id())),
            "round {round}: {refused:?}"
        );
        assert!(!refused.err.contains("STUCK"), "round {round}: {refused:?}");
        let served = answer(server);
        assert_eq!((served.code, served.out.as_str()), (0, "served\n"), "round {round}: {served:?}");
        assert!(is_gone(holder.pid));
    }
}

#[test]
fn g24_a_holder_that_ends_by_itself_leaves_the_role_to_who_judged_it() {
    for (words, command) in [(&["takeover"][..], &[][..]), (&["run", "--takeover", "stuck"], &["true"])] {
        let scene = Scene::new();
        let mut holder = scene.silent_stranger(LOCK, "", "");
        let call = start(&scene, &[words, &["--stuck-after", BRIEFLY, "journal.db"], command].concat());
        lease_kit::until_it_blocks(call.id());
        holder.signal("KILL");
        holder.end();
        let answer = answer(call);
        assert_eq!(answer.code, 0, "{words:?}: {answer:?}");
        assert!(!answer.err.contains("was stuck"), "nobody was asked to end: {answer:?}");
    }
}

#[test]
fn g21_a_stale_payload_of_the_first_version_is_emptied_before_it_is_shared() {
    let scene = Scene::new();
    let legacy = scene.path("resident.lock");
    fs::write(&legacy, r#"{"pid":4194000,"host":"box","surface":"chat"}"#).expect("payload");
    let mut ours = scene.resident(&[], "read line");
    assert_eq!(fs::read_to_string(&legacy).expect("payload"), "", "it would look live");
    let held = Command::new("flock").args(["-n"]).arg(&legacy).arg("true").status().expect("flock");
    assert_eq!(held.code(), Some(1), "no resident of the first version starts beside us");
    assert_eq!(scene.call(["run", "other.db", "true"]).code, 0, "shared by every store");
    // Written under our lock: nobody can vouch for it.
    fs::write(&legacy, r#"{"pid":4194000}"#).expect("payload");
    let refused = scene.call(["run", "other.db", "true"]);
    assert_eq!(refused.code, 69, "{refused:?}");
    assert!(refused.err.contains("nobody can vouch for"), "{refused:?}");
    fs::write(&legacy, format!("{{\"pid\":{}}}", ours.child.id())).expect("payload");
    assert_eq!(scene.call(["run", "other.db", "true"]).code, 0, "it names a process that holds that lock");
    ours.tell("end");
    ours.end();
    assert_eq!(scene.call(["run", "other.db", "true"]).code, 0);
    assert_eq!(fs::read_to_string(&legacy).expect("payload"), "");
}

#[test]
fn g22_one_store_is_one_role_by_every_name() {
    let scene = Scene::new();
    fs::create_dir_all(scene.path("data/deep")).expect("dir");
    fs::write(scene.path("data/journal.db"), "").expect("store");
    symlink("data/journal.db", scene.path("alias.db")).expect("link");
    symlink("data/deep", scene.path("link")).expect("link");
    // The name that is typed, and the lock file of the same store by another program's name for it.
    let cases = [
        ("alias.db", "alias.db.resident.lock"),
        ("alias.db", "data/journal.db.resident.lock"),
        (" alias.db\u{3000}", "alias.db.resident.lock"),
        ("link/../journal.db", "journal.db.resident.lock"),
        ("link/../journal.db", "data/journal.db.resident.lock"),
        ("\tdata/journal.db\n", "data/journal.db.resident.lock"),
    ];
    for (typed, lock) in cases {
        let other = scene.stranger(lock, "{\"pid\":PID}", "");
        let refused = scene.call(["run", typed, "true"]);
        assert_eq!(refused.code, 75, "{typed:?} {lock}: {refused:?}");
        assert!(refused.err.contains(&format!("pid {} (sleep", other.pid)), "{typed:?} {lock}: {refused:?}");
        assert_eq!(scene.call(["probe", typed]).code, 75, "{typed:?} {lock}");
        drop(other);
        let taken = format!("flock -n {lock} true; echo $?");
        let served = scene.call(["run", typed, "bash", "-c", &taken]);
        assert_eq!((served.code, served.out.as_str()), (0, "1\n"), "{typed:?} {lock}: {served:?}");
    }
    let paths = scene.call(["path", "alias.db"]).out;
    let expected = [scene.path("alias.db.resident.lock"), scene.path("data/journal.db.resident.lock")];
    assert_eq!(
        paths.lines().map(Path::new).collect::<Vec<_>>(),
        expected,
        "the name that Go derives comes first"
    );
    assert_eq!(scene.call(["path", "data/deep/../journal.db"]).out.lines().count(), 1);
}

#[test]
fn g22_a_tick_by_one_name_is_seen_by_the_other_and_a_waiter_waits_for_both() {
    let scene = Scene::new();
    fs::create_dir(scene.path("data")).expect("dir");
    symlink("data/journal.db", scene.path("alias.db")).expect("link");
    for (typed, ticked) in [("alias.db", "data/journal.db"), ("alias.db", "alias.db")] {
        let script = format!("{} tick {ticked}; echo $$; read line", lease_kit::program().display());
        let mut holder = Actor::start(&mut scene.lease(["run", typed, "bash", "-c", &script]));
        let payloads = ["alias.db", "data/journal.db"]
            .map(|name| fs::read_to_string(scene.path(&format!("{name}.resident.lock"))).expect("payload"));
        assert!(payloads.iter().all(|payload| payload.contains("last_tick")), "{payloads:?}");
        for name in ["alias.db", "data/journal.db"] {
            let waiter = start(&scene, &["run", "-w", "50s", name, "echo", "mine"]);
            lease_kit::until_it_blocks(waiter.id());
            if name == "data/journal.db" {
                holder.tell("end");
                assert_eq!(holder.end(), 0);
            } else {
                send("KILL", waiter.id());
                drop(waiter.wait_with_output());
                continue;
            }
            let answer = answer(waiter);
            assert_eq!((answer.code, answer.out.as_str()), (0, "mine\n"), "{answer:?}");
        }
    }
    // Two that take the same two lock files in the same order, and one that takes the second alone.
    let mut calls: Vec<Child> = Vec::new();
    for name in ["alias.db", "data/journal.db", "alias.db", "data/journal.db"] {
        calls.push(start(&scene, &["run", "-w", "50s", name, "echo", "mine"]));
    }
    for call in calls {
        let answer = answer(call);
        assert_eq!((answer.code, answer.out.as_str()), (0, "mine\n"), "{answer:?}");
    }
}

#[test]
fn g22_a_lock_file_that_is_lost_ends_the_role_by_whichever_name() {
    let scene = Scene::new();
    fs::create_dir(scene.path("data")).expect("dir");
    symlink("data/journal.db", scene.path("alias.db")).expect("link");
    for lost in ["alias.db.resident.lock", "data/journal.db.resident.lock"] {
        let mut call = scene.lease(["run", "alias.db", "bash", "-c", "echo $$; exec sleep 1000"]);
        let mut holder = Actor::start(call.stderr(Stdio::piped()));
        fs::remove_file(scene.path(lost)).expect("removed");
        assert_eq!(holder.end(), 77, "{lost}");
        assert!(is_gone(holder.pid));
    }
}

#[test]
fn g22_a_store_that_is_mounted_a_second_time_is_one_role() {
    if !possible("mounts", &["unshare", "-m"]) {
        return;
    }
    let scene = Scene::new();
    fs::create_dir_all(scene.path("data")).expect("dir");
    fs::create_dir_all(scene.path("m n")).expect("dir");
    for file in ["data/g.db", "m n/h.db"] {
        fs::write(scene.path(file), "").expect("store");
    }
    let script = "mount --bind data/g.db 'm n/h.db' || exit 99; \
        for pair in 'data/g.db:m n/h.db' 'm n/h.db:data/g.db'; do \
        $L run \"${pair%:*}\" bash -c '$L run \"$1\" true; echo $?; flock -n \"$1.resident.lock\" true; echo $?' - \"${pair#*:}\"; \
        done 2>/dev/null";
    let mut command = Command::new("unshare");
    command.args(["-m", "bash", "-c", script]).env("L", lease_kit::program());
    let answer =
        Answer::of(command.current_dir(scene.store.parent().expect("dir")).output().expect("unshare"));
    assert_eq!((answer.code, answer.out.as_str()), (0, "75\n1\n75\n1\n"), "{answer:?}");
}

#[test]
fn g23_a_resident_in_another_pid_namespace_is_named_truly_and_waited_for() {
    if !possible("pid namespaces", &["unshare", "-p", "-f", "--mount-proc"]) {
        return;
    }
    let scene = Scene::new();
    let script = "exec unshare -p -f --mount-proc --kill-child bash -c 'exec $L run journal.db bash -c \"echo 7; read line\"'";
    let mut resident = Actor::start(bash(&scene, script).process_group_of_its_own());
    let payload = scene.json();
    assert_eq!(payload["pid"], 1, "its own number");
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", resident.child.id()));
    let here: u32 = children.expect("children").trim().parse().expect("one child");
    let probe = scene.call(["probe", "-v", "journal.db"]);
    assert_eq!(probe.code, 75, "{probe:?}");
    assert!(probe.out.contains(&format!("pid {here} (orion-lease")), "{probe:?}");
    assert!(!probe.out.contains("pid 1 ("), "{probe:?}");
    assert!(probe.err.contains("in its own pid namespace"), "{probe:?}");
    let waiter = start(&scene, &["run", "-w", "50s", "journal.db", "echo", "mine"]);
    lease_kit::until_it_blocks(waiter.id());
    // A user who cannot look into it names nobody, and least of all process 1 of this machine.
    if rustix::process::geteuid().is_root() {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(scene.lock(), fs::Permissions::from_mode(0o644)).expect("mode");
        fs::set_permissions(scene.store.parent().expect("dir"), fs::Permissions::from_mode(0o755))
            .expect("mode");
        let mut nobody = Command::new("setpriv");
        nobody.args(["--reuid", "65534", "--clear-groups"]).arg(lease_kit::program());
        nobody.args(["probe", "--json", "journal.db"]).current_dir(scene.store.parent().expect("dir"));
        let answer = Answer::of(nobody.output().expect("setpriv"));
        if answer.err.is_empty() {
            let json = answer.json();
            assert_eq!((answer.code, &json["holder"]["pid"]), (75, &serde_json::Value::Null), "{json}");
            let message = json["message"].as_str().expect("a line");
            assert!(message.contains("a process that cannot be seen from here"), "{message}");
            assert_eq!(json["holder"]["command_line"], serde_json::Value::Null);
        }
    }
    resident.tell("end");
    assert_eq!(resident.end(), 0);
    let answer = answer(waiter);
    assert_eq!((answer.code, answer.out.as_str()), (0, "mine\n"), "{answer:?}");
}

#[test]
fn g25_equal_times_of_two_builds_are_no_order() {
    let scene = Scene::new();
    for (name, text) in [("one", "0123456789"), ("two", "01234567890")] {
        fs::write(scene.path(name), text).expect("file");
        let touched =
            Command::new("touch").args(["-d", "1980-01-01T00:00:00Z"]).arg(scene.path(name)).status();
        assert!(touched.expect("touch").success());
    }
    for (old, new) in [("one", "two"), ("two", "one")] {
        let mut holder = scene.resident(&["--build-file", old, "--revision", old], "read line");
        let words =
            ["run", "--takeover", "newer", "--build-file", new, "--revision", new, "journal.db", "true"];
        let refused = scene.call(words);
        assert_eq!(refused.code, 75, "{refused:?}");
        assert!(refused.err.contains("same file time as ours and another size or revision"), "{refused:?}");
        holder.tell("end");
        assert_eq!(holder.end(), 0);
    }
}

#[test]
fn g26_a_stopped_guardian_ends_its_command_under_a_subreaper() {
    // Whoever is left behind becomes our child, in our session: no process group becomes an orphan.
    nix::sys::prctl::set_child_subreaper(true).expect("subreaper");
    let scene = Scene::new();
    let mut resident = scene.resident(&[], "exec sleep 1000");
    let guardian = parent(resident.pid);
    send("STOP", guardian);
    until("it is stopped", || state(guardian) == Some('T'));
    resident.signal("KILL");
    resident.end();
    until("the command is gone", || is_gone(resident.pid) && is_gone(guardian));
    until("the role is free", || scene.probe().code == 0);
    nix::sys::prctl::set_child_subreaper(false).expect("no subreaper");
}

#[test]
fn g27_a_holder_without_a_payload_is_searched_for_and_named() {
    let scene = Scene::new();
    let mut flock = Command::new("flock");
    flock.args([LOCK, "bash", "-c", "echo $$; read line"]).current_dir(scene.store.parent().expect("dir"));
    let mut holder = Actor::start(&mut flock);
    for pid in [holder.child.id(), holder.pid] {
        let refused = scene.call(["run", "journal.db", "true"]);
        assert_eq!(refused.code, 75);
        assert!(refused.err.contains(&format!("pid {pid} (")), "{refused:?}");
    }
    let probe = scene.call(["probe", "-v", "journal.db"]);
    assert!(probe.err.contains("no payload could be read"), "{probe:?}");
    assert!(probe.err.contains("a search of /proc for the lock found pid"), "{probe:?}");
    holder.tell("end");
    holder.end();
}

#[test]
fn g27_v_says_what_an_answer_rests_on() {
    let scene = Scene::new();
    let tick = format!("{} tick journal.db", lease_kit::program().display());
    let mut holder = scene.resident(&[], &format!("{tick}; echo ticked; read line"));
    assert_eq!(holder.line(), "ticked");
    for words in [&["probe", "-v"][..], &["run", "-v"], &["takeover", "-v"]] {
        let end = if words[0] == "run" { &["journal.db", "true"][..] } else { &["journal.db"] };
        let answer = scene.call([words, end].concat());
        for part in [
            "locked; its payload has",
            "seen among the descriptors of pid",
            "this boot and this time namespace",
        ] {
            assert!(answer.err.contains(part), "{words:?} {part}: {answer:?}");
        }
    }
    holder.tell("end");
    holder.end();
    assert!(scene.call(["probe", "-v", "journal.db"]).err.contains("not locked, or not there"));
}

#[test]
fn g27_a_path_that_is_not_utf_8_is_printed_byte_by_byte() {
    let scene = Scene::new();
    let directory = scene.store.parent().expect("dir").join(OsStr::from_bytes(b"odd\xff"));
    fs::create_dir(&directory).expect("dir");
    let store = directory.join("a.db");
    let path = |json: bool| {
        let mut call = scene.lease(["path"]);
        call.args(json.then_some("--json")).arg(&store);
        call.output().expect("path")
    };
    let expected = [directory.join("a.db.resident.lock").as_os_str().as_bytes(), b"\n"].concat();
    assert_eq!(path(false).stdout, expected);
    assert_eq!(path(true).status.code(), Some(64));
    let mut run = scene.lease(["run"]);
    assert_eq!(run.arg(&store).arg("true").status().expect("run").code(), Some(0));
    let mut probe = scene.lease(["probe", "--json"]);
    let answer = Answer::of(probe.arg(&store).output().expect("probe"));
    assert!(answer.out.contains("odd\\\\xff") && !answer.out.contains('\u{fffd}'), "{answer:?}");
    let mut bad = scene.lease(["path"]);
    let bad = bad.arg(directory.join(OsStr::from_bytes(b"\xff.db"))).output().expect("path");
    assert_eq!((bad.status.code(), bad.stdout.is_empty()), (Some(64), true));
}

/// A process group of its own, so that nothing meant for it reaches the test.
trait Apart {
    fn process_group_of_its_own(&mut self) -> &mut Self;
}

impl Apart for Command {
    fn process_group_of_its_own(&mut self) -> &mut Self {
        use std::os::unix::process::CommandExt;
        self.process_group(0)
    }
}
