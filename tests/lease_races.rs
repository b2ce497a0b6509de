//! Many at once: one role, many programs that want it, probes beside them, and readers of a
//! payload that is being written.

#![expect(clippy::print_stdout, clippy::disallowed_macros, reason = "said to whoever runs the tests")]

mod lease_kit;

use lease_kit::{Actor, Scene, monotonic_us};
use orion_toolkit::lease::{self, Acquired, Request};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const RACERS: usize = 32;
const ROUNDS: usize = 1000;

/// The variable that makes this program an actor of one of the tests below.
const ROLE: &str = "ORION_TEST_ACTOR";

/// Not a test: the other processes of the tests are this program, told to be one.
#[test]
fn actor() {
    let Some(role) = std::env::var_os(ROLE) else { return };
    let store = PathBuf::from(std::env::var_os("ORION_TEST_STORE").expect("a store"));
    println!("\n> {}", std::process::id());
    match role.to_str().expect("a role") {
        "racer" => race(&Request::new(store)),
        "ticker" => {
            let Acquired::Serving(resident) = lease::acquire(&Request::new(store)).expect("acquire") else {
                panic!("somebody holds it")
            };
            println!("> serving");
            loop {
                resident.tick().expect("tick");
            }
        }
        "other" => write_like_go(&store),
        role => panic!("no such role: {role}"),
    }
}

fn play(scene: &Scene, role: &str) -> Actor {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "actor", "--nocapture"]).env(ROLE, role).env("ORION_TEST_STORE", &scene.store);
    Actor::start_after(&mut command, |line| line.strip_prefix("> ")?.parse().ok())
}

/// The actor's next word. The harness prints lines of its own between them.
fn heard(actor: &mut Actor) -> String {
    loop {
        let line = actor.line();
        assert!(!line.is_empty() || !lease_kit::is_gone(actor.child.id()), "it ended");
        if let Some(word) = line.strip_prefix("> ") {
            return word.to_owned();
        }
    }
}

/// One round per line: try, say how it went, and keep what was won until the next line.
fn race(request: &Request) {
    let mut lines = std::io::stdin().lines();
    while let Some(Ok(_)) = lines.next() {
        let acquired = lease::acquire(request).expect("acquire");
        println!("> {}", if matches!(acquired, Acquired::Serving(_)) { "won" } else { "held" });
        if lines.next().is_none() {
            return;
        }
        drop(acquired);
        println!("> done");
    }
}

/// As the Go program does: the whole payload in one write, then truncate; two
/// payloads of different length in turn.
fn write_like_go(store: &std::path::Path) {
    let path = format!("{}.resident.lock", store.display());
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path).expect("open");
    fs2::FileExt::try_lock_exclusive(&file).expect("lock");
    let text = |letter: &str, length: usize| {
        let word = letter.repeat(length);
        format!(
            "{{\"pid\":{},\"host\":\"{word}\",\"surface\":\"{word}\",\"store\":\"{word}\"}}\n",
            std::process::id()
        )
    };
    let texts = [text("a", 40), text("b", 75), text("c", 3)];
    for round in 0_usize.. {
        let text = &texts[round % texts.len()];
        file.write_all_at(text.as_bytes(), 0).expect("write");
        file.set_len(text.len() as u64).expect("truncate");
        if round == 0 {
            println!("> serving");
        }
    }
}

#[test]
fn of_32_processes_exactly_one_gets_the_role_each_time() {
    let scene = Scene::new();
    let mut racers: Vec<Actor> = (0..RACERS).map(|_| play(&scene, "racer")).collect();
    for round in 0..ROUNDS {
        for racer in &mut racers {
            racer.tell("go");
        }
        let won = racers.iter_mut().filter_map(|racer| (heard(racer) == "won").then_some(())).count();
        assert_eq!(won, 1, "round {round}");
        for racer in &mut racers {
            racer.tell("drop");
        }
        for racer in &mut racers {
            assert_eq!(heard(racer), "done");
        }
    }
    println!("{RACERS} processes, {ROUNDS} rounds, one winner in each");
}

#[test]
fn of_32_commands_exactly_one_runs_each_time() {
    for round in 0..20 {
        let scene = Scene::new();
        // Each blocks on the gate until all are started; the winner keeps the role until all were refused.
        let script = "echo ran; read line";
        let calls: Vec<_> = (0..RACERS)
            .map(|_| {
                let mut call = scene.lease(["run", "journal.db", "bash", "-c", script]);
                call.stdin(std::process::Stdio::piped())
                    .stdout(std::process::Stdio::piped())
                    .stderr(std::process::Stdio::null());
                call.spawn().expect("start")
            })
            .collect();
        let mut winner = None;
        let mut refused = 0;
        let end = Instant::now() + lease_kit::LONG;
        let mut calls: Vec<_> = calls.into_iter().map(Some).collect();
        while refused < RACERS - 1 {
            assert!(Instant::now() < end, "round {round}: {refused} refused");
            for call in &mut calls {
                if let Some(child) = call
                    && let Some(status) = child.try_wait().expect("wait")
                {
                    assert_eq!(status.code(), Some(75), "round {round}");
                    refused += 1;
                    *call = None;
                }
            }
            lease_kit::nap();
        }
        for call in calls.into_iter().flatten() {
            assert!(winner.replace(call).is_none(), "round {round}: two");
        }
        let output = winner.expect("one").wait_with_output().expect("end");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "ran\n");
    }
}

#[test]
fn probes_never_turn_a_free_role_into_a_refusal() {
    let scene = Scene::new();
    let stop = AtomicBool::new(false);
    let probes = AtomicU32::new(0);
    let (acquired, began) = (200, Instant::now());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    // Held or free, both are right; anything else is not.
                    assert!(lease::probe(&scene.store).is_ok());
                    probes.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                assert!(matches!(scene.probe().code, 0 | 75));
                probes.fetch_add(1, Ordering::Relaxed);
            }
        });
        for round in 0..acquired {
            let answer = scene.call(["run", "journal.db", "true"]);
            if answer.code != 0 {
                stop.store(true, Ordering::Relaxed);
            }
            assert_eq!(answer.code, 0, "round {round}: {answer:?}");
        }
        stop.store(true, Ordering::Relaxed);
    });
    let rate = f64::from(probes.load(Ordering::Relaxed)) / began.elapsed().as_secs_f64();
    println!("{acquired} acquires beside {rate:.0} probes a second");
    assert!(rate > 100.0, "too few to show anything: {rate:.0} a second");
}

/// Ten seconds and at least 10,000 readings.
fn read_for_ten_seconds(scene: &Scene, mut check: impl FnMut(&lease::Holder)) -> u32 {
    let began = Instant::now();
    let mut readings = 0;
    while began.elapsed() < Duration::from_secs(10) || readings < 10_000 {
        assert!(began.elapsed() < 4 * lease_kit::LONG, "only {readings} readings");
        let holder = lease::probe(&scene.store).expect("never broken").expect("never free");
        check(&holder);
        readings += 1;
    }
    readings
}

#[test]
fn a_reader_at_full_speed_sees_whole_payloads_of_a_ticking_holder() {
    let scene = Scene::new();
    let mut ticker = play(&scene, "ticker");
    assert_eq!(heard(&mut ticker), "serving");
    lease_kit::until("it ticks", || scene.payload().contains("last_tick"));
    let mut last = None;
    let mut ticks = 0_u32;
    let readings = read_for_ten_seconds(&scene, |holder| {
        assert_eq!(holder.pid, Some(ticker.pid));
        assert_eq!(holder.store.as_deref(), scene.store.to_str());
        assert!(matches!(holder.silence, Some(lease::Silence::Fresh { .. })), "{holder:?}");
        assert!(holder.last_tick >= last, "back from {last:?} to {:?}", holder.last_tick);
        ticks += u32::from(holder.last_tick > last);
        last = holder.last_tick;
    });
    println!("{readings} readings, {ticks} different ticks seen, none broken, free or mixed");
    assert!(ticks > 100, "the holder hardly ticked: {ticks}");
}

#[test]
fn a_reader_at_full_speed_never_mixes_two_payloads_of_another_program() {
    let scene = Scene::new();
    let mut other = play(&scene, "other");
    assert_eq!(heard(&mut other), "serving");
    let (mut nameless, mut seen) = (0_u32, [0_u32; 3]);
    let readings = read_for_ten_seconds(&scene, |holder| {
        // Twenty milliseconds without two equal readings: held, and nobody named. That is not a mix.
        if holder.pid.is_none() {
            nameless += 1;
            return;
        }
        let word = holder.surface.clone().expect("a surface");
        let letter = word.chars().next().expect("a letter");
        let length = [("a", 40), ("b", 75), ("c", 3)].iter().position(|(name, _)| name.starts_with(letter));
        let place = length.unwrap_or_else(|| panic!("{holder:?}"));
        assert_eq!(word.len(), [40, 75, 3][place], "{holder:?}");
        assert!(word.chars().all(|c| c == letter), "{holder:?}");
        assert_eq!((holder.host.as_deref(), holder.store.as_deref()), (Some(&*word), Some(&*word)));
        seen[place] += 1;
    });
    println!("{readings} readings: {seen:?} of each payload, {nameless} nameless, none mixed");
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

#[test]
fn clocks_of_the_tests_are_those_of_the_program() {
    let scene = Scene::new();
    let tick = format!("{} tick journal.db", lease_kit::program().display());
    let before = monotonic_us();
    assert_eq!(scene.call(["run", "journal.db", "bash", "-c", &format!("{tick}; true")]).code, 0);
    let stamp: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(scene.lock()).expect("payload")).expect("json");
    let stamp = stamp["orion"]["monotonic_us"].as_u64().expect("a stamp");
    assert!((before..=monotonic_us()).contains(&stamp));
}
