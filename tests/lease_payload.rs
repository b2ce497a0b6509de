//! The payload, shape by shape, against golden files: what we write, what we leave
//! alone in the files of the Go program, and what it would read in ours.

mod lease_kit;

use lease_kit::Scene;
use orion_toolkit::lease::{self, Acquired, Build, Request, Silence};
use std::fs::{self, File, FileTimes};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A golden file; `GOLDEN=overwrite` writes what was seen instead.
fn golden(name: &str, seen: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/lease").join(name);
    if std::env::var_os("GOLDEN").is_some_and(|how| how == "overwrite") {
        fs::write(&path, seen).expect("golden file");
    }
    assert_eq!(seen, fs::read_to_string(path).expect("golden file"), "{name}");
}

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/lease").join(name);
    fs::read_to_string(path).expect("golden file")
}

/// What differs from run to run, replaced by names. Times that are not from this
/// day stay as they are.
fn masked(scene: &Scene, text: &str, pid: u32) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("hostname");
    let today = lease_kit::rfc3339(SystemTime::now())[..10].to_owned();
    let yesterday = lease_kit::rfc3339(SystemTime::now() - Duration::from_secs(86_400))[..10].to_owned();
    let mut text = text
        .replace(scene.store.to_str().expect("path"), "STORE")
        .replace(&format!("\"pid\":{pid},"), "\"pid\":PID,")
        .replace(&format!("\"host\":\"{}\"", host.trim()), "\"host\":\"HOST\"")
        .replace(&lease_kit::boot_id(), "BOOT");
    for day in [today, yesterday] {
        while let Some(start) = text.find(&format!("\"{day}T")) {
            let end = start + 1 + text[start + 1..].find('"').expect("the end of a time");
            text.replace_range(start..=end, "\"TIME\"");
        }
    }
    for (field, name) in [("monotonic_us", "MICROS"), ("boottime_us", "MICROS"), ("time_ns", "NAMESPACE")] {
        if let Some((before, after)) = text.split_once(&format!("\"{field}\":")) {
            let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
            text = format!("{before}\"{field}\":{name}{rest}");
        }
    }
    text
}

fn me() -> u32 {
    std::process::id()
}

/// A file ten bytes long with this time, as a program to stamp a build with.
fn program(scene: &Scene, seconds: u64, nanos: u32) -> std::path::PathBuf {
    let path = scene.path("program");
    fs::write(&path, "0123456789").expect("file");
    let time = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos);
    File::options()
        .write(true)
        .open(&path)
        .expect("open")
        .set_times(FileTimes::new().set_modified(time))
        .expect("time");
    path
}

fn serve(request: &Request) -> lease::Resident {
    match lease::acquire(request).expect("acquire") {
        Acquired::Serving(resident) => resident,
        Acquired::Held(holder) => panic!("held by {holder:?}"),
    }
}

#[test]
fn what_we_write() {
    // 2026-02-01T00:00:00Z, with and without nanoseconds.
    let whole = 1_769_904_000;
    let scene = Scene::new();
    let resident = serve(&Request::new(&scene.store));
    golden("fresh.json", &masked(&scene, &scene.payload(), me()));
    resident.tick().expect("tick");
    golden("ticked.json", &masked(&scene, &scene.payload(), me()));
    resident.tick().expect("tick");
    golden("ticked.json", &masked(&scene, &scene.payload(), me()));
    drop(resident);
    let build = Build::of(&program(&scene, whole, 0)).expect("build").revision("4f1c");
    let resident = serve(&Request::new(&scene.store).surface("wake").build(build));
    golden("fresh-build.json", &masked(&scene, &scene.payload(), me()));
    drop(resident);
    let build = Build::of(&program(&scene, whole, 250_000_000)).expect("build");
    let resident = serve(&Request::new(&scene.store).surface("wake").build(build));
    resident.tick().expect("tick");
    golden("ticked-build.json", &masked(&scene, &scene.payload(), me()));
}

#[test]
fn the_command_line_writes_the_same() {
    let scene = Scene::new();
    program(&scene, 1_769_904_000, 0);
    let options = ["--surface", "wake", "--build-file", "program", "--revision", "4f1c"];
    let mut resident = scene.resident(&options, "read line");
    golden("fresh-build.json", &masked(&scene, &scene.payload(), resident.child.id()));
    resident.tell("end");
    resident.end();
    golden("probe-free.json", &masked(&scene, &scene.call(["probe", "--json", "journal.db"]).out, 0));
}

#[test]
fn a_tick_leaves_the_fields_of_another_program_alone() {
    for shape in ["go-zero", "go-full", "unknown-fields"] {
        let scene = Scene::new();
        // The holder of another make ticks through our program, as its own child would.
        let tick = format!("{} tick journal.db; echo $?; read line", lease_kit::program().display());
        let script = format!(
            "exec 9<>journal.db.resident.lock; flock -n 9; printf %s \"${{1//PID/$$}}\" >&9; echo $$; {tick}"
        );
        let mut command = std::process::Command::new("bash");
        command.args(["-c", &script, "holder", &read(&format!("{shape}.json"))]);
        let mut holder = lease_kit::Actor::start(command.current_dir(scene.store.parent().expect("dir")));
        assert_eq!(holder.line(), "0", "{shape}");
        let text = masked(&scene, &scene.payload(), holder.pid);
        // The golden file's own times, which may lie in the past of any day.
        golden(&format!("{shape}.ticked.json"), &text);
        assert_eq!(scene.probe().code, 75, "{shape}");
    }
}

#[test]
fn what_another_program_wrote_is_read() {
    let scene = Scene::new();
    let holder = scene.stranger("journal.db.resident.lock", &read("go-zero.json"), "");
    let seen = lease::probe(&scene.store).expect("probe").expect("held");
    assert_eq!((seen.pid, seen.surface.as_deref()), (Some(holder.pid), Some("chat")));
    assert_eq!((seen.last_tick, seen.build.clone()), (None, None), "Go's zero values are absent");
    assert_eq!(seen.silence, Some(Silence::NeverTicked));
    assert_eq!(seen.acquired_at.map(lease_kit::rfc3339).as_deref(), Some("2026-03-09T09:12:04.123456789Z"));
    drop(holder);
    let holder = scene.stranger("journal.db.resident.lock", &read("go-full.json"), "");
    let seen = lease::probe(&scene.store).expect("probe").expect("held");
    assert_eq!(seen.store.as_deref(), Some("/srv/journal.db"));
    let older = program(&scene, 1_700_000_000, 0);
    let newer = program(&scene, 1_800_000_000, 0);
    let theirs = seen.build.expect("a build");
    assert!(Build::of(&newer).expect("build").newer_than(&theirs));
    drop((holder, older));
    let holder = scene.stranger("resident.lock", &read("legacy.json"), "");
    let seen = lease::probe(&scene.store).expect("probe").expect("held");
    assert_eq!((seen.pid, seen.legacy), (Some(holder.pid), true));
}

#[test]
fn a_guard_releases_by_closing_and_knows_when_it_lost_its_file() {
    let scene = Scene::new();
    assert!(lease::probe(&scene.store).expect("probe").is_none());
    let resident = serve(&Request::new(&scene.store));
    let held = lease::acquire(&Request::new(scene.path("../").join(scene.store.file_name().expect("name"))));
    assert!(held.is_ok(), "a spelling that is another place is another role");
    match lease::acquire(&Request::new(&scene.store)).expect("acquire") {
        Acquired::Held(holder) => assert_eq!(holder.pid, Some(me())),
        Acquired::Serving(_) => panic!("twice"),
    }
    lease::tick(&scene.store).expect("the holder itself may tick");
    assert!(resident.is_current());
    assert_eq!(resident.lock_path(), scene.lock());
    fs::remove_file(scene.lock()).expect("removed");
    assert!(!resident.is_current());
    assert_eq!(resident.tick().expect_err("lost").kind(), lease::Kind::NotOwner);
    assert_eq!(lease::tick(&scene.store).expect_err("lost").kind(), lease::Kind::NotOwner);
    drop(resident);
    drop(serve(&Request::new(&scene.store)));
    assert!(lease::probe(&scene.store).expect("probe").is_none(), "closing released it");
    let refused = lease::acquire(&Request::new(scene.path("nowhere/x.db"))).expect_err("no directory");
    assert_eq!(refused.kind(), lease::Kind::CannotCreate);
}
