//! Who may be ended, who is, and who never.

mod lease_kit;

use lease_kit::{Answer, BRIEFLY, Owned, Scene, is_gone, send, state, tick_fields, until};
use std::fs;
use std::process::Command;
use std::thread;

const LOCK: &str = "journal.db.resident.lock";
const OURS: &str = "2026-02-01T00:00:00Z";

/// A build file of our own, ten bytes long, of the time [`OURS`].
fn build_file(scene: &Scene) {
    fs::write(scene.path("build"), "0123456789").expect("file");
    let touched = Command::new("touch").args(["-d", OURS]).arg(scene.path("build")).status();
    assert!(touched.expect("touch").success());
}

/// `takeover` of what is silent as briefly as may be.
fn takeover(scene: &Scene, options: &[&str]) -> Answer {
    scene.call([&["takeover", "--stuck-after", BRIEFLY], options, &["journal.db"]].concat())
}

/// One row of the matrix: a build, and every kind of tick and temper.
fn row(build: &str, build_field: &str) {
    let scene = Scene::new();
    build_file(&scene);
    for tick in ["never ticked", "fresh", "stuck"] {
        for (temper, before) in [("obeys", ""), ("ignores", "trap '' TERM;")] {
            let holder = match tick {
                "stuck" => scene.silent_stranger(LOCK, build_field, before),
                "fresh" => {
                    let payload = format!("{{\"pid\":PID,{},{build_field}}}", tick_fields(0));
                    scene.stranger(LOCK, &payload, before)
                }
                _ => scene.stranger(LOCK, &format!("{{\"pid\":PID,{build_field}}}"), before),
            };
            let cell = format!("{tick}, {build}, {temper}");
            // A fresh tick stays fresh; a silence is real, and so as short as may be.
            let limit = if tick == "stuck" { BRIEFLY } else { "5m" };
            let words = ["--takeover", "stuck", "--takeover", "newer", "--stuck-after", limit];
            let words = [&words[..], &["--build-file", "build", "--revision", "a"]].concat();
            let mut call = vec!["run"];
            call.extend(&words);
            // Those who ignore TERM are waited for in vain; the others leave at once.
            let wait = if temper == "ignores" { "200ms" } else { "50s" };
            let due = tick == "stuck" || build == "older";
            if due {
                call.extend(["-w", wait]);
            }
            call.extend(["journal.db", "echo", "mine"]);
            let answer = scene.call(&call);
            if due && temper == "obeys" {
                assert_eq!((answer.code, answer.out.as_str()), (0, "mine\n"), "{cell}: {answer:?}");
                assert!(answer.err.contains(&format!("from pid {}", holder.pid)), "{cell}: {answer:?}");
                until("it is gone", || is_gone(holder.pid));
            } else {
                assert_eq!((answer.code, answer.out.as_str()), (75, ""), "{cell}: {answer:?}");
                let why = if due { "asked to end (TERM)" } else { "not taken over" };
                assert!(answer.err.contains(why), "{cell}: {answer:?}");
                assert!(!is_gone(holder.pid), "{cell}: it works on");
            }
            if due && temper == "ignores" {
                let mut call = vec!["run", "--kill-after", "50ms"];
                call.extend(&words);
                call.extend(["journal.db", "echo", "mine"]);
                let answer = scene.call(&call);
                assert_eq!((answer.code, answer.out.as_str()), (0, "mine\n"), "{cell}, KILL: {answer:?}");
            }
        }
    }
}

#[test]
fn the_matrix() {
    let builds = [
        ("older", r#""build":{"mod_time":"2026-01-01T00:00:00Z","size":10,"revision":"a"}"#),
        ("newer", r#""build":{"mod_time":"2026-03-01T00:00:00Z","size":10,"revision":"a"}"#),
        ("equal", r#""build":{"mod_time":"2026-02-01T00:00:00Z","size":10,"revision":"a"}"#),
        ("unstamped", r#""build":{"mod_time":"0001-01-01T00:00:00Z","size":0}"#),
    ];
    thread::scope(|scope| {
        for (build, field) in builds {
            scope.spawn(move || row(build, field));
        }
    });
}

#[test]
fn what_was_not_asked_for_is_not_done() {
    let scene = Scene::new();
    build_file(&scene);
    let older = r#""build":{"mod_time":"2026-01-01T00:00:00Z","size":1}"#;
    let holder = scene.silent_stranger(LOCK, older, "");
    assert_eq!(scene.call(["run", "--stuck-after", BRIEFLY, "journal.db", "true"]).code, 75);
    assert_eq!(scene.call(["run", "-w", "50ms", "--stuck-after", BRIEFLY, "journal.db", "true"]).code, 75);
    assert_eq!(state(holder.pid), Some('S'), "stuck and old, and nobody said to take it");
    let dry = scene.call(["takeover", "--dry-run", "--stuck-after", BRIEFLY, "journal.db"]);
    assert_eq!((dry.code, dry.out.contains(&format!("would end pid {}", holder.pid))), (0, true), "{dry:?}");
    assert_eq!(state(holder.pid), Some('S'));
    // An old holder that ticks: "stuck" does not cover it.
    let answer = scene.call(["run", "--takeover", "stuck", "--build-file", "build", "journal.db", "true"]);
    assert_eq!(answer.code, 75);
    assert_eq!(scene.call(["takeover", "journal.db"]).code, 75, "takeover is for the stuck only");
    assert_eq!(state(holder.pid), Some('S'));
}

#[test]
fn takeover_leaves_the_role_free() {
    let scene = Scene::new();
    assert_eq!(takeover(&scene, &[]).code, 0, "free already");
    assert!(!scene.lock().exists(), "and nothing was made");
    let holder = scene.silent_stranger(LOCK, "", "");
    let answer = takeover(&scene, &["--json"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    let json = answer.json();
    assert_eq!((&json["ended"], &json["killed"]), (&holder.pid.into(), &false.into()));
    assert_eq!(scene.probe().code, 0);
}

#[test]
fn a_stopped_holder_is_said_to_be_stopped_and_killed_only_when_asked() {
    let scene = Scene::new();
    let holder = scene.silent_stranger(LOCK, "", "");
    send("STOP", holder.pid);
    until("it is stopped", || state(holder.pid) == Some('T'));
    let answer = takeover(&scene, &["-w", "100ms"]);
    assert_eq!(answer.code, 75, "{answer:?}");
    assert!(answer.err.contains("state T") && answer.err.contains("--kill-after"), "{answer:?}");
    assert_eq!(state(holder.pid), Some('T'), "it got no KILL");
    let answer = takeover(&scene, &["--kill-after", "50ms"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(scene.probe().code, 0);
}

#[test]
fn a_process_that_only_bears_the_number_is_never_signalled() {
    let scene = Scene::new();
    let victim = Owned::start(Command::new("sleep").arg("1000"));
    let holder = scene.silent_stranger(LOCK, "", "");
    let payload = format!("{{\"pid\":{},{}}}", victim.id(), tick_fields(400));
    fs::write(scene.lock(), payload).expect("payload");
    let words = ["--stuck-after", BRIEFLY, "journal.db", "true"];
    for call in [&["takeover", "--kill-after", "0"][..], &["run", "--takeover", "stuck"]] {
        let end = if call[0] == "run" { 4 } else { 3 };
        let answer = scene.call([call, &words[..end]].concat());
        assert_eq!(answer.code, 69, "{answer:?}");
        assert!(answer.err.contains("its payload names does not hold"), "{answer:?}");
    }
    let probe = scene.call(["probe", "--json", "--stuck-after", BRIEFLY, "journal.db"]).json();
    assert_eq!(probe["state"], "held", "and it is not called stuck either");
    assert_eq!(
        (&probe["holder"]["pid"], &probe["holder"]["held_by"][0]),
        (&serde_json::Value::Null, &holder.pid.into())
    );
    assert_eq!((state(victim.id()), state(holder.pid)), (Some('S'), Some('S')));
}

#[test]
fn a_lock_that_several_processes_hold_is_not_taken() {
    let scene = Scene::new();
    let holder = scene.silent_stranger(LOCK, "", "sleep 1001 & heir=$!; echo $heir >heir;");
    let heir: u32 = fs::read_to_string(scene.path("heir")).expect("pid").trim().parse().expect("number");
    let answer = takeover(&scene, &[]);
    assert_eq!(answer.code, 69, "{answer:?}");
    assert!(answer.err.contains("several") && answer.err.contains(&heir.to_string()), "{answer:?}");
    assert_eq!((state(holder.pid), state(heir)), (Some('S'), Some('S')));
    send("KILL", heir);
}

#[test]
fn a_stuck_legacy_resident_is_ended_like_any_other() {
    let scene = Scene::new();
    let holder = scene.silent_stranger("resident.lock", "", "");
    assert_eq!(scene.call(["run", "other.db", "true"]).code, 75);
    let answer = scene.call(["takeover", "--stuck-after", BRIEFLY, "other.db"]);
    assert_eq!(answer.code, 0, "through whichever store: {answer:?}");
    until("it is gone", || is_gone(holder.pid));
    assert_eq!(scene.probe().code, 0);
}

#[test]
fn a_stuck_resident_of_ours_ends_with_its_command() {
    let scene = Scene::new();
    let tick = format!("{} tick journal.db", lease_kit::program().display());
    let mut old = scene.resident(&[], &format!("{tick}; echo ticked; sleep 1000; true"));
    assert_eq!(old.line(), "ticked");
    let waits =
        ["run", "-w", "50s", "--takeover", "stuck", "--stuck-after", BRIEFLY, "journal.db", "echo", "mine"];
    let answer = scene.call(waits);
    assert_eq!((answer.code, answer.out.as_str()), (0, "mine\n"), "stuck while we waited: {answer:?}");
    assert_eq!(old.end(), 143, "TERM went through to the command");
    assert!(is_gone(old.pid));
}

#[test]
fn a_holder_that_goes_on_ticking_is_never_taken() {
    let scene = Scene::new();
    let tick = format!("{} tick journal.db", lease_kit::program().display());
    let mut holder = scene.resident(&[], &format!("while {tick}; do sleep 0.05; done"));
    let words = ["run", "-w", "3s", "--takeover", "stuck", "--stuck-after", "2s", "journal.db", "true"];
    assert_eq!(scene.call(words).code, 75);
    assert!(holder.child.try_wait().expect("wait").is_none());
    holder.signal("TERM");
    assert_eq!(holder.end(), 143);
}

#[test]
fn silence_by_the_wall_clock_alone_is_proved_by_a_second_look() {
    let scene = Scene::new();
    // It does not say when it took the role, so the clock may have been set since.
    let holder = scene.stranger(LOCK, "{}", "");
    let tick = lease_kit::rfc3339(std::time::SystemTime::now());
    fs::write(scene.lock(), format!("{{\"pid\":{},\"last_tick\":\"{tick}\"}}", holder.pid)).expect("payload");
    until("the tick is old", || {
        scene.call(["probe", "--stuck-after", "2s", "journal.db"]).out.contains("may have been set")
    });
    let answer = scene.call(["takeover", "-w", "100ms", "--stuck-after", "2s", "journal.db"]);
    assert_eq!((answer.code, answer.err.contains("from now would prove it")), (69, true), "{answer:?}");
    assert_eq!(state(holder.pid), Some('S'));
    let answer = scene.call(["takeover", "-w", "30s", "--stuck-after", "2s", "journal.db"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    until("it is gone", || is_gone(holder.pid));
}

#[test]
fn a_waiter_that_is_faster_than_the_takeover_is_no_failure() {
    let scene = Scene::new();
    let holder = scene.silent_stranger(LOCK, "", "");
    let mut heir = scene.lease(["run", "-w", "forever", "journal.db", "bash", "-c", "echo $$; read line"]);
    heir.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut heir = heir.spawn().expect("waiter");
    lease_kit::until_it_blocks(heir.id());
    let answer = takeover(&scene, &[]);
    assert_eq!(answer.code, 0, "{answer:?}");
    until("it is gone", || is_gone(holder.pid));
    until("the waiter serves", || scene.probe().code == 75);
    drop(heir.stdin.take());
    assert!(heir.wait().expect("end").code().is_some());
}
