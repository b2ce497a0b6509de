//! Waiting for a lock: nothing is lost, nobody blocks the others, time-outs are kept.

mod support;

use rustix::process::Signal;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{Done, KillOnDrop, LONG, Running, Tool, eventually, needs, needs_root, run};

/// Below the second after which a waiter would look without being woken.
const WOKEN: Duration = Duration::from_millis(900);

/// Who is the first in the line has an inotify instance.
fn is_watching(pid: u32) -> bool {
    let Ok(fds) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let links = fds.flatten().filter_map(|fd| fs::read_link(fd.path()).ok());
    links.into_iter().any(|link| link.to_string_lossy().contains("inotify"))
}

/// Has it a helper thread of this name, which blocks for it?
fn has_helper(pid: u32, name: &str) -> bool {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    let comms = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    comms.into_iter().any(|comm| comm.trim() == name)
}

/// A child that is killed at the end of the test, unless it was waited for.
struct Waiter(Option<Child>);

impl Waiter {
    #[track_caller]
    fn start(command: &mut Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(Some(command.spawn().expect("waiter")))
    }

    fn pid(&self) -> u32 {
        self.0.as_ref().expect("runs").id()
    }

    fn child(&mut self) -> &mut Child {
        self.0.as_mut().expect("runs")
    }

    fn signal(&self, signal: Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid().cast_signed()).expect("pid");
        rustix::process::kill_process(pid, signal).expect("our own child");
    }

    fn kill(&mut self) {
        self.child().kill().expect("kill");
        self.child().wait().expect("wait");
    }

    #[track_caller]
    fn first(self) -> Self {
        eventually("a waiter that watches", || is_watching(self.pid()));
        self
    }

    #[track_caller]
    fn behind(self) -> Self {
        eventually("a waiter in the line", || has_helper(self.pid(), "queue"));
        self
    }

    fn ended(&mut self) -> bool {
        self.child().try_wait().expect("wait").is_some()
    }

    /// Its end, which is waited for with a bound: a fault fails instead of hanging.
    #[track_caller]
    fn end(&mut self) -> Done {
        let bound = Instant::now() + Duration::from_secs(60);
        while !self.ended() {
            assert!(Instant::now() < bound, "a waiter does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
        let out = self.0.take().expect("runs").wait_with_output().expect("wait");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Done { code: code(out.status), stdout: text(&out.stdout), stderr: text(&out.stderr) }
    }
}

fn code(status: std::process::ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).expect("ended")
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

fn waiter(tool: &Tool, args: &[&str]) -> Waiter {
    Waiter::start(&mut tool.tool("orion-lock", args))
}

/// A process that can own locks and is nobody's caller here.
#[track_caller]
fn owner(tool: &Tool) -> Running {
    Running::start(tool.command("sh").args(["-c", "echo up; read -r end"]))
}

/// Runs `round` many times, each with a moment to let go at; a wake-up that is lost costs a second.
#[track_caller]
fn hunt(rounds: u32, mut round: impl FnMut(Duration) -> Duration) {
    let mut slow = Vec::new();
    for number in 0..rounds {
        // The waiter needs some milliseconds to settle: let go at every moment of them.
        let took = round(Duration::from_micros(u64::from(number % 60) * 150));
        if took > WOKEN {
            slow.push(took);
        }
    }
    // A loaded machine may hold one up; a hole in the order of things hits often.
    assert!(slow.len() as u32 <= rounds / 40, "lost wake-ups: {slow:?}");
}

#[test]
fn no_release_is_missed_while_a_waiter_arrives() {
    let tool = Tool::new();
    let process = owner(&tool);
    let owner = process.pid().to_string();
    hunt(60, |moment| {
        let token = tool.lock(&["acquire", "--for", &owner, "--print-token", "x"]).expect(0).token();
        let mut waiter = waiter(&tool, &["run", "-w", "1m", "x", "true"]);
        std::thread::sleep(moment);
        tool.lock(&["release", "--token", &token.to_string(), "x"]).expect(0);
        let released = Instant::now();
        waiter.end().expect(0).silent();
        released.elapsed()
    });
}

#[test]
fn no_death_is_missed_while_a_waiter_arrives() {
    let tool = Tool::new();
    hunt(60, |moment| {
        let mut holder = tool.hold("x");
        let mut waiter = waiter(&tool, &["run", "-w", "1m", "x", "true"]);
        std::thread::sleep(moment);
        holder.kill();
        let killed = Instant::now();
        waiter.end().expect(0).silent();
        killed.elapsed()
    });
}

#[test]
fn no_end_of_a_descendant_is_missed_while_a_waiter_arrives() {
    let tool = Tool::new();
    hunt(60, |moment| {
        let mut holder = orphaned(&tool);
        let mut waiter = waiter(&tool, &["run", "-w", "1m", "x", "true"]);
        std::thread::sleep(moment);
        holder.tell("end");
        let told = Instant::now();
        waiter.end().expect(0).silent();
        told.elapsed()
    });
}

/// A waiter that strace(1) stops at the `nth` use of a system call, and the file of its trace.
fn stopped_at(tool: &Tool, call: &str, nth: usize) -> (Waiter, std::path::PathBuf) {
    let trace = tool.path("trace");
    drop(fs::remove_file(&trace));
    let mut command = tool.command("strace");
    command.arg("-o").arg(&trace).args(["-e", &format!("inject={call}:signal=SIGSTOP:when={nth}")]);
    command.arg(support::bin("orion-lock")).args(["run", "-w", "1m", "x", "true"]);
    (Waiter::start(&mut command), trace)
}

/// The program that strace started.
fn traced(strace: &Waiter) -> Option<u32> {
    fs::read_to_string(format!("/proc/{0}/task/{0}/children", strace.pid())).ok()?.trim().parse().ok()
}

/// Lets a waiter be stopped at every system call from the one that shows `from` until it sleeps, frees
/// the lock meanwhile, and lets it go on: it must not sleep on.
fn every_step(from: &str, step: usize, mut hold: impl FnMut(&Tool) -> Box<dyn FnOnce() -> Running>) {
    if !needs("strace") {
        return;
    }
    let tool = Tool::new();
    let text = |path: &std::path::Path| fs::read_to_string(path).unwrap_or_default();
    let freed = hold(&tool);
    let (mut dry, trace) = stopped_at(&tool, "reboot", 1);
    eventually("a waiter that watches", || traced(&dry).is_some_and(is_watching));
    // Until nothing is called any more; strace shows a call when it is over.
    let calls = std::cell::Cell::new(0);
    eventually("a waiter that sleeps", || {
        std::thread::sleep(Duration::from_millis(200));
        let now = text(&trace).lines().count();
        calls.replace(now) == now
    });
    let calls = text(&trace);
    let calls: Vec<&str> = calls.lines().filter_map(|line| Some(line.split_once('(')?.0)).collect();
    let from = text(&trace).lines().position(|line| line.contains(from)).expect("its first attempt");
    let _ended = freed();
    dry.end().expect(0);
    for place in (from..calls.len()).step_by(step) {
        let call = calls[place];
        let nth = calls[..=place].iter().filter(|other| **other == call).count();
        let lost = (0..3).all(|_| {
            let freed = hold(&tool);
            let (mut waiter, trace) = stopped_at(&tool, call, nth);
            eventually("the stop", || text(&trace).contains("stopped by SIGSTOP"));
            let _released_by = freed();
            let tracee = KillOnDrop::of(traced(&waiter).expect("a child of strace"));
            let start = Instant::now();
            tracee.signal(Signal::CONT);
            waiter.end().expect(0);
            start.elapsed() > WOKEN
        });
        assert!(!lost, "what happens at {call} number {nth} is missed");
    }
}

#[test]
fn no_release_is_missed_at_any_step_of_a_waiter() {
    // While it has the guard, nobody can release.
    every_step("LOCK_UN", 1, |tool| {
        let process = owner(tool);
        let pid = process.pid().to_string();
        let token = tool.lock(&["acquire", "--for", &pid, "--print-token", "x"]).expect(0).token();
        let tool = tool.command(support::bin("orion-lock"));
        Box::new(move || {
            let mut tool = tool;
            run(tool.args(["release", "--token", &token.to_string(), "x"])).expect(0);
            process
        })
    });
}

#[test]
fn no_death_is_missed_at_any_step_of_a_waiter() {
    every_step("x.guard", 2, |tool| {
        let mut holder = tool.hold("x");
        Box::new(move || {
            holder.kill();
            holder
        })
    });
}

/// A run that was killed with its job alive; the job ends when it is told something.
fn orphaned(tool: &Tool) -> Running {
    let script = "exec 3<&0; (read -r end <&3) & echo $$ $!; wait";
    let holder = tool.hold_with(&["run", "x", "sh", "-c", script]);
    let (owner, job) = holder.line.split_once(' ').expect("two pids");
    assert_eq!(owner, holder.pid().to_string());
    let job = job.to_owned();
    holder.signal(Signal::KILL);
    eventually("the job alone", || {
        let done = tool.lock(&["status", "--json", "x"]);
        done.json()["held_through"] == "descendant" && done.stdout.contains(&job)
    });
    holder
}

#[test]
fn the_first_watches_and_the_next_wait_for_it() {
    let tool = Tool::new();
    let mut holder = tool.hold("x");
    let mut first = waiter(&tool, &["run", "-w", "1m", "x", "true"]).first();
    let mut second = waiter(&tool, &["run", "-w", "1m", "x", "true"]).behind();
    assert!(!has_helper(first.pid(), "queue") && !is_watching(second.pid()));
    holder.end().expect(0);
    first.end().expect(0).silent();
    second.end().expect(0).silent();
    tool.lock(&["status", "x"]).expect(0);
}

#[test]
fn the_end_of_a_descendant_is_waited_for() {
    let tool = Tool::new();
    let mut holder = orphaned(&tool);
    let mut waiter = waiter(&tool, &["run", "-w", "1m", "x", "true"]).first();
    eventually("a helper that waits for the pulse", || has_helper(waiter.pid(), "pulse"));
    tool.lock(&["status", "x"]).expect(75);
    assert!(!waiter.ended());
    holder.tell("end");
    waiter.end().expect(0).silent();
}

#[test]
fn three_hundred_waiters_get_it_once_each() {
    let tool = Tool::new();
    let mut holder = tool.hold("x");
    let count = tool.path("count");
    fs::write(&count, "0").expect("count");
    // Lost updates would show an overlap.
    let add = format!("read -r n < {0}; echo $((n + 1)) > {0}", count.display());
    let mut waiters: Vec<Waiter> =
        (0..300).map(|_| waiter(&tool, &["run", "-w", "10m", "x", "sh", "-c", &add])).collect();
    let waits = |waiter: &Waiter| has_helper(waiter.pid(), "queue") || is_watching(waiter.pid());
    eventually("a line of 300", || waiters.iter().all(waits));
    assert_eq!(waiters.iter().filter(|waiter| is_watching(waiter.pid())).count(), 1, "no herd");
    holder.end().expect(0);
    for waiter in &mut waiters {
        waiter.end().expect(0).silent();
    }
    assert_eq!(fs::read_to_string(&count).expect("count").trim(), "300");
}

#[test]
fn a_stopped_first_waiter_delays_and_never_blocks() {
    let tool = Tool::new();
    let mut holder = tool.hold("x");
    let mut first = waiter(&tool, &["run", "-w", "10m", "x", "true"]).first();
    let mut others: Vec<Waiter> =
        (0..3).map(|_| waiter(&tool, &["run", "-w", "10m", "x", "true"]).behind()).collect();
    first.signal(Signal::STOP);
    holder.end().expect(0);
    for other in &mut others {
        other.end().expect(0).silent();
    }
    assert!(!first.ended());
    first.signal(Signal::CONT);
    first.end().expect(0).silent();
}

#[test]
fn a_killed_waiter_gives_its_place_to_the_next() {
    let tool = Tool::new();
    let mut holder = tool.hold("x");
    let mut first = waiter(&tool, &["run", "-w", "10m", "x", "true"]).first();
    let mut second = waiter(&tool, &["run", "-w", "10m", "x", "true"]).behind();
    let mut third = waiter(&tool, &["run", "-w", "10m", "x", "true"]).behind();
    second.kill();
    first.kill();
    eventually("the third watches", || is_watching(third.pid()));
    holder.kill();
    third.end().expect(0).silent();
    tool.lock(&["run", "x", "true"]).expect(0).silent();
}

#[test]
fn time_outs_are_never_early() {
    let tool = Tool::new();
    let _holder = tool.hold("x");
    let mut ahead = waiter(&tool, &["run", "-w", "10m", "x", "true"]);
    for place in ["first", "behind"] {
        if place == "behind" {
            ahead = waiter(&tool, &["run", "-w", "10m", "x", "true"]).first();
        } else {
            ahead.kill();
        }
        for milliseconds in [1, 20, 150, 400] {
            let patience = Duration::from_millis(milliseconds);
            let text = format!("{milliseconds}ms");
            for args in [&["run", "-w", &text, "x", "true"][..], &["wait", "-w", &text, "x"]] {
                let start = Instant::now();
                tool.lock(args).expect(75).says("x is held by pid ");
                let took = start.elapsed();
                assert!(took >= patience, "{place}: {took:?} of {patience:?}");
                assert!(took < patience + LONG, "{place}: {took:?} of {patience:?}");
            }
        }
    }
    drop(ahead);
}

#[test]
fn not_waiting_is_the_default_and_zero_is_the_same() {
    let tool = Tool::new();
    let _holder = tool.hold("x");
    for args in [&["run", "x", "true"][..], &["run", "-n", "x", "true"], &["run", "-w", "0", "x", "true"]] {
        tool.lock(args).expect(75).says("x is held by pid ");
    }
    tool.lock(&["wait", "-w", "0", "x"]).expect(75).one_line();
    assert!(!tool.file("x.queue").exists(), "who does not wait stands in no line");
    tool.lock(&["run", "-n", "-w", "1s", "x", "true"]).expect(64);
    tool.lock(&["wait", "-w", "soon", "x"]).expect(64);
}

#[test]
fn what_cannot_end_well_fails_at_once() {
    let tool = Tool::new();
    // Held by a caller, whatever the patience.
    for nested in ["run -w forever x true", "wait x", "acquire -w forever --owner $PPID x"] {
        let done = tool.lock(&["run", "x", "bash", "-c", &format!("\"$OL\" {nested}; exit $?")]);
        done.expect(75).one_line().says("x");
    }
    let owner = std::process::id().to_string();
    let token = tool.lock(&["acquire", "--for", &owner, "--print-token", "mine"]).expect(0).token();
    let again = tool.lock(&["acquire", "--for", &owner, "-w", "forever", "--json", "mine"]).expect(75);
    assert_eq!(again.json()["error"]["kind"], "held_by_you");
    tool.lock(&["release", "--token", &token.to_string(), "mine"]).expect(0);
    // A newer format, and what cannot be read.
    drop(tool.hold("newer"));
    tool.edit_record("newer", |record| record["schema"] = json!(99));
    fs::create_dir(tool.file("dir.json")).expect("mkdir");
    for args in [&["run", "-w", "forever"][..], &["wait"]] {
        for (name, code) in [("newer", 65), ("dir", 69)] {
            let rest: &[&str] = if args[0] == "run" { &[name, "true"] } else { &[name] };
            tool.lock(&[args, rest].concat()).expect(code).one_line();
        }
    }
}

#[test]
fn a_job_does_not_wait_for_itself() {
    let tool = Tool::new();
    // The job outlives its run and asks for the lock that it itself still holds.
    let script = "exec 3<&0; (read -r go <&3; \"$OL\" run -w forever x true; echo $? 1>&2) & echo up; wait";
    let mut holder = tool.hold_with(&["run", "x", "sh", "-c", script]);
    holder.signal(Signal::KILL);
    eventually("the job alone", || tool.lock(&["status", "x"]).stdout.contains("started by it"));
    holder.tell("go");
    let done = holder.end();
    assert!(
        done.stderr.contains("waiting would be for yourself") && done.stderr.ends_with("75\n"),
        "{done:?}"
    );
}

#[test]
fn an_unknown_owner_is_waited_for() {
    let tool = Tool::new();
    // Without a pulse, which would tell that it lives.
    let process = owner(&tool);
    let pid = process.pid().to_string();
    let token = tool.lock(&["acquire", "--for", &pid, "--print-token", "x"]).expect(0).token();
    // Of another container, as far as can be told.
    tool.edit_record("x", |record| {
        record["host"]["pid_ns"] = json!(77);
        record["owners"][0].as_object_mut().expect("owner").remove("pidfs_ino");
    });
    let start = Instant::now();
    let done = tool.lock(&["run", "-w", "200ms", "x", "true"]).expect(69).one_line();
    done.says("cannot tell whether pid").says(&format!("orion-lock break --token {token} x"));
    assert!(start.elapsed() >= Duration::from_millis(200));
    tool.lock(&["wait", "-w", "1ms", "x"]).expect(69).one_line();
    let mut first = waiter(&tool, &["run", "-w", "10m", "x", "true"]).first();
    let mut second = waiter(&tool, &["wait", "x"]).behind();
    // A person frees it by hand.
    tool.lock(&["break", "--yes", "--token", &token.to_string(), "x"]).expect(0);
    first.end().expect(0).silent();
    second.end().expect(0);
}

#[test]
fn without_inotify_it_is_looked_at_often() {
    if !needs("strace") {
        return;
    }
    let tool = Tool::new();
    let process = owner(&tool);
    let owner = process.pid().to_string();
    for (call, error) in
        [("inotify_init1", "EMFILE"), ("eventfd2", "EMFILE"), ("inotify_add_watch", "ENOSPC")]
    {
        let token = tool.lock(&["acquire", "--for", &owner, "--print-token", "x"]).expect(0).token();
        let trace = tool.path(call);
        let mut command = tool.command("strace");
        command.args(["-f", "-o"]).arg(&trace).args(["-e", &format!("trace={call},ppoll,nanosleep")]);
        command.args(["-e", &format!("inject={call}:error={error}")]);
        command.arg(support::bin("orion-lock")).args(["run", "-w", "1m", "x", "true"]);
        let mut waiter = Waiter::start(&mut command);
        eventually("the fault", || fs::read_to_string(&trace).is_ok_and(|text| text.contains("INJECTED")));
        tool.lock(&["release", "--token", &token.to_string(), "x"]).expect(0);
        let released = Instant::now();
        waiter.end().expect(0);
        assert!(released.elapsed() < LONG);
    }
}

#[test]
fn a_pulse_that_may_not_be_written_is_looked_at_often() {
    if !needs_root() || !needs("setpriv") {
        return;
    }
    let tool = Tool::new();
    let nobody = 65534;
    for dir in [tool.path(""), tool.dir()] {
        fs::create_dir_all(&dir).expect("mkdir");
        std::os::unix::fs::chown(&dir, Some(nobody), Some(nobody)).expect("chown");
    }
    let as_nobody = |args: &[&str]| {
        let mut command = tool.command("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]);
        command.arg(support::bin("orion-lock")).args(args);
        command
    };
    if run(&mut as_nobody(&["where"])).code != 0 {
        support::allowed(false, "the binary cannot be reached by another user");
        return;
    }
    let script = "exec 3<&0; (read -r end <&3) & echo up; wait";
    let mut holder = Running::start(&mut as_nobody(&["run", "x", "sh", "-c", script]));
    fs::set_permissions(tool.file("x.pulse"), PermissionsExt::from_mode(0o444)).expect("chmod");
    std::os::unix::fs::chown(tool.file("x.pulse"), Some(0), Some(0)).expect("chown");
    holder.signal(Signal::KILL);
    let mut waiter = Waiter::start(&mut as_nobody(&["run", "-w", "1m", "x", "true"])).first();
    eventually("the job alone", || run(&mut as_nobody(&["status", "x"])).stdout.contains("started by it"));
    assert!(!waiter.ended() && !has_helper(waiter.pid(), "pulse"));
    holder.tell("end");
    waiter.end().expect(0).silent();
}

#[test]
fn wait_returns_when_it_is_free_and_takes_nothing() {
    let tool = Tool::new();
    tool.lock(&["wait", "x"]).expect(0).one_line().says("x was never held in ");
    assert!(!tool.dir().exists(), "looking creates nothing");
    let mut holder = tool.hold("x");
    let before = (tool.files(), fs::read(tool.file("x.json")).expect("record"), guard_time(&tool));
    let mut waits = waiter(&tool, &["wait", "--json", "x"]).first();
    let mut quiet = waiter(&tool, &["wait", "x"]).behind();
    tool.lock(&["wait", "-w", "50ms", "x"]).expect(75).one_line();
    let mut files = tool.files();
    files.retain(|file| file != "x.queue");
    assert_eq!((files, fs::read(tool.file("x.json")).expect("record"), guard_time(&tool)), before);
    assert!(!waits.ended() && !quiet.ended());
    holder.kill();
    let done = waits.end().expect(0).silent();
    assert_eq!(done.json()["state"], "free");
    assert_eq!(quiet.end().expect(0).silent().stdout, "");
    assert!(tool.lock(&["log", "x"]).stdout.lines().all(|line| !line.contains("refused")));
    tool.lock(&["wait", "x"]).expect(0).silent();
}

fn guard_time(tool: &Tool) -> std::time::SystemTime {
    fs::metadata(tool.file("x.guard")).expect("guard").modified().expect("time")
}

#[test]
fn nobody_waits_for_an_owner_that_ended() {
    let tool = Tool::new();
    let _holder = tool.hold("x");
    let mut owner = owner(&tool);
    let pid = owner.pid().to_string();
    let mut waiter = waiter(&tool, &["acquire", "-w", "forever", "--for", &pid, "x"]).first();
    owner.kill();
    waiter.end().expect(77).one_line().says("ended while we waited");
}

#[test]
fn the_next_holder_is_waited_for_too() {
    let tool = Tool::new();
    let process = owner(&tool);
    let owner = process.pid().to_string();
    let token = tool.lock(&["acquire", "--for", &owner, "--print-token", "x"]).expect(0).token();
    let mut waits = waiter(&tool, &["wait", "x"]).first();
    waits.signal(Signal::STOP);
    tool.lock(&["release", "--token", &token.to_string(), "x"]).expect(0);
    let mut next = tool.hold("x");
    waits.signal(Signal::CONT);
    // It looks, sees another owner and watches that one.
    eventually("its look at the next", || tool.lock(&["status", "x"]).code == 75 && is_watching(waits.pid()));
    assert!(!waits.ended());
    next.kill();
    waits.end().expect(0).silent();
}
