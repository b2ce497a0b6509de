//! Who may be ended, who is, and who never.

mod lease_kit;

use lease_kit::{Owned, Scene, is_gone, send, state, tick_fields, until};
use std::fs;
use std::process::Command;
use std::time::Duration;

const LOCK: &str = "journal.db.resident.lock";
const OURS: &str = "2026-02-01T00:00:00Z";

/// A build file of our own, ten bytes long, of the time [`OURS`].
fn build_file(scene: &Scene) {
    fs::write(scene.path("build"), "0123456789").expect("file");
    let touched = Command::new("touch").args(["-d", OURS]).arg(scene.path("build")).status();
    assert!(touched.expect("touch").success());
}

#[test]
fn the_matrix() {
    let ticks = [("never ticked", String::new()), ("fresh", tick_fields(1)), ("stuck", tick_fields(400))];
    let builds = [
        ("older", r#","build":{"mod_time":"2026-01-01T00:00:00Z","size":10,"revision":"a"}"#),
        ("newer", r#","build":{"mod_time":"2026-03-01T00:00:00Z","size":10,"revision":"a"}"#),
        ("equal", r#","build":{"mod_time":"2026-02-01T00:00:00Z","size":10,"revision":"a"}"#),
        ("unstamped", r#","build":{"mod_time":"0001-01-01T00:00:00Z","size":0}"#),
    ];
    let scene = Scene::new();
    build_file(&scene);
    for (tick, tick_fields) in &ticks {
        for (build, build_field) in builds {
            for (temper, before) in [("obeys", ""), ("ignores", "trap '' TERM;")] {
                let comma = if tick_fields.is_empty() { "" } else { "," };
                let payload = format!("{{\"pid\":PID{comma}{tick_fields}{build_field}}}");
                let holder = scene.stranger(LOCK, &payload, before);
                let cell = format!("{tick}, {build}, {temper}");
                let words = [
                    "--takeover",
                    "stuck",
                    "--takeover",
                    "newer",
                    "--build-file",
                    "build",
                    "--revision",
                    "a",
                ];
                let mut call = vec!["run"];
                call.extend(words);
                // Those who ignore TERM are waited for in vain; the others leave at once.
                let wait = if temper == "ignores" { "200ms" } else { "50s" };
                if *tick == "stuck" || build == "older" {
                    call.extend(["-w", wait]);
                }
                call.extend(["journal.db", "echo", "mine"]);
                let answer = scene.call(&call);
                let due = *tick == "stuck" || build == "older";
                if due && temper == "obeys" {
                    assert_eq!((answer.code, answer.out.as_str()), (0, "mine\n"), "{cell}: {answer:?}");
                    assert!(answer.err.contains(&format!("from pid {}", holder.pid)), "{cell}: {answer:?}");
                    until("it is gone", || is_gone(holder.pid));
                } else {
                    assert_eq!((answer.code, answer.out.as_str()), (75, ""), "{cell}: {answer:?}");
                    let why = if due { "asked to end (TERM)" } else { "not taken over" };
                    assert!(answer.err.contains(why), "{cell}: {answer:?}");
                    assert_eq!(state(holder.pid), Some('S'), "{cell}: it works on");
                }
                if due && temper == "ignores" {
                    let mut call = vec!["run", "--kill-after", "50ms"];
                    call.extend(words);
                    call.extend(["journal.db", "echo", "mine"]);
                    let answer = scene.call(&call);
                    assert_eq!((answer.code, answer.out.as_str()), (0, "mine\n"), "{cell}, KILL: {answer:?}");
                }
            }
        }
    }
}

#[test]
fn what_was_not_asked_for_is_not_done() {
    let scene = Scene::new();
    build_file(&scene);
    let older = r#""build":{"mod_time":"2026-01-01T00:00:00Z","size":1}"#;
    let payload = format!("{{\"pid\":PID,{},{older}}}", tick_fields(400));
    let holder = scene.stranger(LOCK, &payload, "");
    assert_eq!(scene.call(["run", "journal.db", "true"]).code, 75);
    assert_eq!(scene.call(["run", "-w", "50ms", "journal.db", "true"]).code, 75);
    assert_eq!(state(holder.pid), Some('S'), "stuck and old, and nobody said to take it");
    let dry = scene.call(["takeover", "--dry-run", "journal.db"]);
    assert_eq!((dry.code, dry.out.contains(&format!("would end pid {}", holder.pid))), (0, true), "{dry:?}");
    assert_eq!(state(holder.pid), Some('S'));
    // An old holder that ticks: "stuck" does not cover it.
    drop(holder);
    let holder = scene.stranger(LOCK, &format!("{{\"pid\":PID,{},{older}}}", tick_fields(1)), "");
    let answer = scene.call(["run", "--takeover", "stuck", "--build-file", "build", "journal.db", "true"]);
    assert_eq!(answer.code, 75);
    assert_eq!(scene.call(["takeover", "journal.db"]).code, 75, "takeover is for the stuck only");
    assert_eq!(state(holder.pid), Some('S'));
}

#[test]
fn takeover_leaves_the_role_free() {
    let scene = Scene::new();
    assert_eq!(scene.call(["takeover", "journal.db"]).code, 0, "free already");
    assert!(!scene.lock().exists(), "and nothing was made");
    let holder = scene.stranger(LOCK, &format!("{{\"pid\":PID,{}}}", tick_fields(400)), "");
    let answer = scene.call(["takeover", "--json", "journal.db"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    let json = answer.json();
    assert_eq!((&json["ended"], &json["killed"]), (&holder.pid.into(), &false.into()));
    assert_eq!(scene.probe().code, 0);
}

#[test]
fn a_stopped_holder_is_said_to_be_stopped_and_killed_only_when_asked() {
    let scene = Scene::new();
    let holder = scene.stranger(LOCK, &format!("{{\"pid\":PID,{}}}", tick_fields(400)), "");
    send("STOP", holder.pid);
    until("it is stopped", || state(holder.pid) == Some('T'));
    let answer = scene.call(["takeover", "-w", "100ms", "journal.db"]);
    assert_eq!(answer.code, 75);
    assert!(answer.err.contains("state T") && answer.err.contains("--kill-after"), "{answer:?}");
    assert_eq!(state(holder.pid), Some('T'), "it got no KILL");
    let answer = scene.call(["takeover", "--kill-after", "50ms", "journal.db"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(scene.probe().code, 0);
}

#[test]
fn a_process_that_only_bears_the_number_is_never_signalled() {
    let scene = Scene::new();
    let victim = Owned::start(Command::new("sleep").arg("1000"));
    let payload = format!("{{\"pid\":{},{}}}", victim.id(), tick_fields(400));
    let holder = scene.stranger(LOCK, &payload, "");
    for words in [
        &["takeover", "--kill-after", "0", "journal.db"][..],
        &["run", "--takeover", "stuck", "journal.db", "true"],
    ] {
        let answer = scene.call(words);
        assert_eq!(answer.code, 69, "{answer:?}");
        let doubt = format!("pid {} of its payload does not hold", victim.id());
        assert!(answer.err.contains(&doubt), "{answer:?}");
    }
    let probe = scene.call(["probe", "--json", "journal.db"]).json();
    assert_eq!(probe["state"], "held", "and it is not called stuck either");
    assert_eq!(probe["holder"]["held_by"][0], holder.pid);
    assert_eq!((state(victim.id()), state(holder.pid)), (Some('S'), Some('S')));
}

#[test]
fn a_lock_that_several_processes_hold_is_not_taken() {
    let scene = Scene::new();
    let payload = format!("{{\"pid\":PID,{}}}", tick_fields(400));
    let holder = scene.stranger(LOCK, &payload, "sleep 1001 & heir=$!; echo $heir >heir;");
    let heir: u32 = fs::read_to_string(scene.path("heir")).expect("pid").trim().parse().expect("number");
    let answer = scene.call(["takeover", "journal.db"]);
    assert_eq!(answer.code, 69);
    assert!(answer.err.contains("several") && answer.err.contains(&heir.to_string()), "{answer:?}");
    assert_eq!((state(holder.pid), state(heir)), (Some('S'), Some('S')));
    send("KILL", heir);
}

#[test]
fn a_stuck_legacy_resident_is_ended_like_any_other() {
    let scene = Scene::new();
    let holder = scene.stranger("resident.lock", &format!("{{\"pid\":PID,{}}}", tick_fields(400)), "");
    assert_eq!(scene.probe().code, 76);
    assert_eq!(scene.call(["run", "other.db", "true"]).code, 75);
    assert_eq!(scene.call(["takeover", "other.db"]).code, 0, "through whichever store");
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
        ["run", "-w", "50s", "--takeover", "stuck", "--stuck-after", "300ms", "journal.db", "echo", "mine"];
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
    // A tick in the future says nothing by its age: only the second look can prove silence.
    let future = lease_kit::rfc3339(std::time::SystemTime::now() + Duration::from_secs(3600));
    let holder = scene.stranger(LOCK, &format!("{{\"pid\":PID,\"last_tick\":\"{future}\"}}"), "");
    let probe = scene.call(["probe", "--stuck-after", "500ms", "journal.db"]);
    assert_eq!((probe.code, probe.out.contains("clock moved")), (75, true), "{probe:?}");
    let answer = scene.call(["takeover", "-w", "100ms", "--stuck-after", "500ms", "journal.db"]);
    assert_eq!((answer.code, answer.err.contains("clock moved")), (75, true), "{answer:?}");
    assert_eq!(state(holder.pid), Some('S'));
    let answer = scene.call(["takeover", "-w", "30s", "--stuck-after", "500ms", "journal.db"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    until("it is gone", || is_gone(holder.pid));
}

#[test]
fn a_waiter_that_is_faster_than_the_takeover_is_no_failure() {
    let scene = Scene::new();
    let holder = scene.stranger(LOCK, &format!("{{\"pid\":PID,{}}}", tick_fields(400)), "");
    let mut heir = scene.lease(["run", "-w", "forever", "journal.db", "bash", "-c", "echo $$; read line"]);
    heir.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut heir = heir.spawn().expect("waiter");
    lease_kit::until_it_blocks(heir.id());
    let answer = scene.call(["takeover", "journal.db"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    until("it is gone", || is_gone(holder.pid));
    until("the waiter serves", || scene.probe().code == 75);
    drop(heir.stdin.take());
    assert!(heir.wait().expect("end").code().is_some());
}
