//! Death and failure at every system call. strace kills the tool on entry of each call it makes, and
//! lets each call fail with the errors it can give. Afterwards the lock is held by a live owner or can
//! be taken at once, a live holder was never robbed, and nothing was called acquired that is not.
//! The number of points tried is printed. ORION_TORTURE=1 tries them all, else every third is tried.

mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{Done, Running, Tool, bin, needs, run};

/// One system call: its kind, which one of that kind since the program's start (as strace's
/// `when=` counts), and how it looked.
#[derive(Clone, Debug)]
struct Point {
    call: String,
    number: usize,
    line: String,
}

/// What the lock looks like before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Nothing,
    Dead,
    Live,
}

/// Calls that cannot fail, or whose failure is not ours to survive (memory of the program itself).
const NEVER: [&str; 23] = [
    "brk",
    "mmap",
    "munmap",
    "mprotect",
    "exit_group",
    "exit",
    "rt_sigreturn",
    "arch_prctl",
    "set_tid_address",
    "set_robust_list",
    "rseq",
    "prlimit64",
    "getrandom",
    "madvise",
    "futex",
    "getpid",
    "gettid",
    "geteuid",
    "getegid",
    "sched_getaffinity",
    "sigaltstack",
    "restart_syscall",
    "uname",
];

/// The errors a call is made to give, those that this one can give.
fn errors(point: &Point) -> &'static [&'static str] {
    match point.call.as_str() {
        "openat" if point.line.contains("O_CREAT") => &["EMFILE", "EACCES", "EIO", "ENOSPC"],
        // What may never be read there is absent, also for every later judge; once is not never.
        "openat" if point.line.contains("/proc/sys") => &["EMFILE", "EIO"],
        "openat" => &["EMFILE", "EACCES", "EIO"],
        "write" | "pwrite64" => &["ENOSPC", "EIO", "EINTR"],
        "read" | "pread64" => &["EIO", "EINTR"],
        "flock" => &["ENOLCK", "EINTR"],
        "fcntl" => &["EMFILE", "ENOLCK", "EINVAL"],
        "renameat2" | "rename" | "renameat" => &["ENOSPC", "EIO", "EINVAL"],
        "unlinkat" | "unlink" | "linkat" => &["EACCES", "EIO"],
        "mkdirat" | "mkdir" => &["ENOSPC", "EACCES"],
        "pidfd_open" => &["EMFILE", "ENOSYS", "EPERM"],
        "fstat" | "newfstatat" | "statx" | "lseek" => &["EIO", "EACCES"],
        "fchmod" | "fchmodat" | "fchmodat2" => &["EPERM", "EIO"],
        "clone3" | "clone" => &["EAGAIN"],
        "poll" | "ppoll" => &["EINTR", "ENOMEM"],
        _ => &["EIO"],
    }
}

/// A world made anew for every point.
struct World {
    tool: Tool,
    holder: Option<Running>,
    last: u64,
}

impl World {
    fn new(before: Before) -> Self {
        let tool = Tool::new();
        let holder = match before {
            Before::Nothing => None,
            Before::Dead => {
                tool.leave_dead("sync");
                None
            }
            Before::Live => Some(tool.hold("sync")),
        };
        let last = if before == Before::Nothing {
            0
        } else {
            tool.record("sync")["token"].as_u64().expect("a token")
        };
        Self { tool, holder, last }
    }

    /// The command under strace, with its injection; what strace itself says goes to a file.
    fn traced(&self, options: &[&str], program: &str, args: &[&str]) -> Command {
        let mut command = self.tool.command("strace");
        command.args(["-f", "-qq", "-o"]).arg(self.tool.path("trace")).args(options);
        command.arg(bin(program)).args(args);
        command
    }

    /// The lock can be taken now, with a token above every other, and no file is left behind.
    fn is_sound(&self, what: &str) {
        let script = "\"$OL\" acquire --owner $$ --print-token sync";
        let done = self.tool.sh(script);
        assert_eq!(done.code, 0, "{what}: not free afterwards: {done:?}");
        assert!(done.token() > self.last, "{what}: a token went back: {} after {}", done.token(), self.last);
        let odd: Vec<String> = self.tool.files().into_iter().filter(|name| name.contains("tmp")).collect();
        assert!(odd.is_empty(), "{what}: {odd:?}");
    }
}

/// Every point in a trace between the first look at the state directory and the end or the next exec.
fn points_in(trace: &str) -> Vec<Point> {
    let (mut counts, mut points): (BTreeMap<String, usize>, Vec<Point>) = (BTreeMap::new(), Vec::new());
    let (mut inside, mut execs) = (false, 0);
    for line in trace.lines() {
        let Some(call) = line.split_once('(').and_then(|(head, _)| head.split_whitespace().last()) else {
            continue;
        };
        if !call.starts_with(|c: char| c.is_ascii_lowercase()) {
            continue;
        }
        execs += usize::from(call == "execve");
        if execs > 1 {
            break;
        }
        let number = counts.entry(call.to_owned()).or_default();
        *number += 1;
        inside |= line.contains("/state") || line.contains("rt_sigprocmask(SIG_BLOCK, [XFSZ]");
        if inside && !NEVER.contains(&call) {
            points.push(Point { call: call.to_owned(), number: *number, line: line.to_owned() });
        }
    }
    assert!(points.len() > 10, "{trace}");
    points
}

/// The points of a call in a world.
fn points(before: Before, program: &str, args: &[&str]) -> Vec<Point> {
    let world = World::new(before);
    run(&mut world.traced(&["-e", "trace=all"], program, args));
    points_in(&std::fs::read_to_string(world.tool.path("trace")).expect("trace"))
}

/// Tries `work` on every point (or every third), on a few threads, and says how many.
fn try_all<T: Sync>(what: &str, all: &[T], work: impl Fn(&T) + Sync) {
    let step = if std::env::var_os("ORION_TORTURE").is_some() { 1 } else { 3 };
    // Another third on every run of the suite, so that all are seen over time.
    let chosen: Vec<&T> = all.iter().skip(std::process::id() as usize % step).step_by(step).collect();
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(item) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(item)))
                    {
                        let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                        failures.lock().expect("no panic").push(text);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no panic");
    support::say(&format!("{what}: {} of {} points tried", chosen.len(), all.len()));
    let mut text = String::new();
    for failure in &failures {
        writeln!(text, "{failure}").expect("a string");
    }
    assert!(failures.is_empty(), "{what}: {} of {} points failed:\n{text}", failures.len(), chosen.len());
}

const RUN: [&str; 5] = ["run", "sync", "sh", "-c", "echo ran"];

/// Kills at every call; the dead leave nothing behind that holds.
fn killed(before: Before, program: &str, args: &[&str]) {
    if !needs("strace") {
        return;
    }
    try_all(
        &format!("kill {program} {args:?} over {before:?}"),
        &points(before, program, args),
        |Point { call, number, .. }| {
            let world = World::new(before);
            let what = format!("{program} {args:?} over {before:?}, killed at {call} {number}");
            let inject = format!("inject={call}:signal=KILL:when={number}");
            let done = run(&mut world.traced(&["-e", &inject], program, args));
            if let Some(mut holder) = world.holder {
                assert!(!done.stdout.contains("ran"), "{what}: two holders: {done:?}");
                world.tool.precheck(&["-q", "sync"]).expect(75);
                holder.kill();
                World { holder: None, ..world }.is_sound(&what);
            } else {
                world.is_sound(&what);
            }
        },
    );
}

#[test]
fn a_run_killed_anywhere_leaves_the_lock_free() {
    killed(Before::Nothing, "orion-lock", &RUN);
    killed(Before::Dead, "orion-lock", &RUN);
}

#[test]
fn a_refusal_killed_anywhere_robs_nobody() {
    killed(Before::Live, "orion-lock", &RUN);
}

/// Every pair of a point and an error.
fn faults(points: &[Point]) -> Vec<(Point, &'static str)> {
    points.iter().flat_map(|point| errors(point).iter().map(|error| (point.clone(), *error))).collect()
}

/// One failing call: what it came to.
fn injected(world: &World, (point, error): &(Point, &str), program: &str, args: &[&str]) -> (String, Done) {
    let inject = format!("inject={}:error={error}:when={}", point.call, point.number);
    let done = run(&mut world.traced(&["-e", &inject], program, args));
    let text = std::fs::read_to_string(world.tool.path("trace")).unwrap_or_default();
    let line = text.lines().find(|line| line.contains("(INJECTED)")).unwrap_or("not reached").to_owned();
    (line, done)
}

const CODES: [i32; 9] = [0, 65, 69, 71, 73, 74, 78, 126, 127];

fn failing(before: Before) {
    if !needs("strace") {
        return;
    }
    let faults = faults(&points(before, "orion-lock", &RUN));
    try_all(&format!("failing calls of run over {before:?}"), &faults, |fault| {
        let mut world = World::new(before);
        let (line, done) = injected(&world, fault, "orion-lock", &RUN);
        let what = format!("over {before:?}: {line}");
        let ran = done.stdout.contains("ran");
        if let Some(mut holder) = world.holder.take() {
            assert!(!ran, "{what}: two holders: {done:?}");
            assert!(done.code == 75 || (CODES.contains(&done.code) && done.code != 0), "{what}: {done:?}");
            world.tool.precheck(&["-q", "sync"]).expect(75);
            holder.kill();
        } else {
            assert!(CODES.contains(&done.code), "{what}: a code that is not ours: {done:?}");
            assert_eq!(ran, done.code == 0, "{what}: {done:?}");
        }
        let mute = line.contains("write(2,");
        assert!(done.code == 0 || mute || !done.stderr.is_empty(), "{what}: silent: {done:?}");
        assert!(!done.stderr.contains("a bug"), "{what}: {done:?}");
        world.is_sound(&what);
    });
}

#[test]
fn a_run_whose_calls_fail_says_so_and_holds_nothing() {
    failing(Before::Nothing);
    failing(Before::Dead);
}

#[test]
fn a_refusal_whose_calls_fail_robs_nobody() {
    failing(Before::Live);
}

/// The precheck: 75 only on proof, and when it goes past a live holder it says so.
#[test]
fn a_precheck_whose_calls_fail_is_never_silent_about_it() {
    if !needs("strace") {
        return;
    }
    for before in [Before::Dead, Before::Live] {
        let args = ["sync"];
        let faults = faults(&points(before, "orion-precheck", &args));
        try_all(&format!("failing calls of precheck over {before:?}"), &faults, |fault| {
            let mut world = World::new(before);
            let (line, done) = injected(&world, fault, "orion-precheck", &args);
            let what = format!("over {before:?}: {line}");
            if let Some(mut holder) = world.holder.take() {
                assert!(done.code == 75 || done.code == 0, "{what}: {done:?}");
                let mute = line.contains("write(2,");
                assert!(
                    done.code == 75 || mute || done.stderr.contains("not guarding"),
                    "{what}: silent: {done:?}"
                );
                holder.kill();
            } else {
                assert_eq!(done.code, 0, "{what}: {done:?}");
            }
        });
    }
}

/// acquire, tick and release, as a script does them: killed or failing anywhere, the script's lock is
/// as the exit code says, and a tick never loses it.
#[test]
fn acquire_tick_and_release_agree_with_their_codes() {
    if !needs("strace") {
        return;
    }
    let script = |step: &str, inject: &str| {
        let traced = format!("strace -f -qq -o trace {inject} \"$OL\"");
        let take = "acquire --owner $$ --print-token sync >token";
        let give = "release --owner $$ sync";
        match step {
            "acquire" => format!("{traced} {take}; echo up $?; read -r end"),
            "tick" => format!(
                "\"$OL\" {take}; {traced} tick --every 1h --token $(cat token) sync; echo up $?; read -r end"
            ),
            _ => format!("\"$OL\" {take}; {traced} {give}; echo up $?; read -r end"),
        }
    };
    for step in ["acquire", "tick", "release"] {
        let world = World::new(Before::Dead);
        let mut plain = Running::start(world.tool.script(&script(step, "")).current_dir(world.tool.path("")));
        plain.end();
        let points = points_in(&std::fs::read_to_string(world.tool.path("trace")).expect("trace"));
        let kills = points.iter().map(|point| (point.clone(), "signal=KILL".to_owned()));
        let errors = faults(&points).into_iter().map(|(point, error)| (point, format!("error={error}")));
        let all: Vec<(Point, String)> = kills.chain(errors).collect();
        try_all(&format!("{step}, killed and failing"), &all, |(Point { call, number, .. }, fault)| {
            let world = World::new(Before::Dead);
            let what = format!("{step}: {call} {number} {fault}");
            let inject = format!("-e inject={call}:{fault}:when={number}");
            let text = script(step, &inject);
            let mut holder = Running::start(world.tool.script(&text).current_dir(world.tool.path("")));
            let code =
                holder.line.strip_prefix("up ").and_then(|code| code.parse::<i32>().ok()).expect("a code");
            assert!(CODES.contains(&code) || code == 137, "{what}: {code}");
            let held = world.tool.precheck(&["-q", "sync"]).code == 75;
            match (step, code) {
                ("tick", _) => assert!(held, "{what}: {code}, and the lock is lost"),
                ("acquire", 0) => assert!(held, "{what}: said acquired, and is not"),
                ("release", 0) => assert!(!held, "{what}: said released, and is held"),
                // Killed: either is true, the record decides. An error of acquire means: not held.
                ("acquire", 137) | ("release", _) => {}
                _ => assert!(!held, "{what}: said no ({code}), and is held"),
            }
            holder.kill();
            world.is_sound(&what);
        });
    }
}

/// break: killed or failing anywhere, the record is still the unknown one, or the lock is free; and it can be repeated.
#[test]
fn a_break_is_done_or_not_done() {
    if !needs("strace") {
        return;
    }
    let unknown = || {
        let world = World::new(Before::Dead);
        world.tool.edit_record("sync", |record| record["host"]["boot_id"] = serde_json::Value::Null);
        world
    };
    let world = unknown();
    let call = |world: &World, options: &[&str]| {
        let token = world.last.to_string();
        run(&mut world.traced(options, "orion-lock", &["break", "--yes", "--token", &token, "sync"]))
    };
    call(&world, &[]).expect(0);
    let points = points_in(&std::fs::read_to_string(world.tool.path("trace")).expect("trace"));
    let kills = points.iter().map(|point| (point.clone(), "signal=KILL".to_owned()));
    let errors = faults(&points).into_iter().map(|(point, error)| (point, format!("error={error}")));
    let all: Vec<(Point, String)> = kills.chain(errors).collect();
    try_all("break, killed and failing", &all, |(Point { call: name, number, .. }, fault)| {
        let world = unknown();
        let what = format!("break: {name} {number} {fault}");
        let done = call(&world, &["-e", &format!("inject={name}:{fault}:when={number}")]);
        assert!(CODES.contains(&done.code) || done.code == 137, "{what}: {done:?}");
        let state = world.tool.lock(&["status", "sync"]).code;
        assert!(state == 0 || state == 69, "{what}: {state}: {done:?}");
        assert!(done.code != 0 || state == 0, "{what}: said broken, and is not: {done:?}");
        if state == 69 {
            call(&world, &[]).expect(0);
        }
        world.is_sound(&what);
    });
}
