//! Nothing is handed over while something of the run works: leftovers in every shape, for
//! every way a claim can end. A checker in the work itself sees two on one ticket.

#[path = "support/claims.rs"]
mod claims;
mod support;

use claims::Board;
use rustix::process::Signal;
use std::path::Path;
use support::{Done, Running, eventually};

/// The work: one line when it begins, one when it ends, and a complaint when another one is there.
const WORKER: &str = r#"#!/bin/bash
# worker DIR [deaf]: works until DIR/stop is there, or until it is told to end.
dir=$1
if mkdir "$dir/busy" 2>/dev/null; then :; else echo "two at once" >> "$dir/doubles"; fi
leave() { rmdir "$dir/busy" 2>/dev/null; echo ended >> "$dir/log"; exit 0; }
if [[ ${2-} == deaf ]]; then trap '' TERM; else trap leave TERM; fi
echo $BASHPID > "$dir/pid"; echo began >> "$dir/log"
while [[ ! -e $dir/stop ]]; do read -rt 0.05 <> <(:) || :; done
leave
"#;

/// How the work is left behind.
const SHAPES: [(&str, &str); 4] = [
    ("pipeline", "\"$W\" \"$D\" | cat & "),
    ("setsid", "setsid \"$W\" \"$D\" </dev/null >/dev/null 2>&1 & "),
    ("double fork", "( ( setsid \"$W\" \"$D\" </dev/null >/dev/null 2>&1 & ) & ) ; "),
    ("deaf", "\"$W\" \"$D\" deaf & "),
];

struct Scene {
    board: Board,
}

impl Scene {
    fn new() -> Self {
        let board = Board::with(&["1"]);
        let worker = board.tool.path("worker");
        std::fs::write(&worker, WORKER).expect("worker");
        std::fs::set_permissions(&worker, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("mode");
        std::fs::create_dir(board.tool.path("work")).expect("mkdir");
        Self { board }
    }

    fn dir(&self) -> std::path::PathBuf {
        self.board.tool.path("work")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir().join("log")).unwrap_or_default()
    }

    fn works(&self) -> bool {
        self.dir().join("busy").exists()
    }

    fn stop(&self) {
        std::fs::write(self.dir().join("stop"), "").expect("stop");
    }

    fn command(&self, args: &[&str], script: &str) -> std::process::Command {
        let mut all = args.to_vec();
        all.extend(["bash", "-c", script]);
        let mut command = self.board.command(&all);
        command.env("W", self.board.tool.path("worker")).env("D", self.dir());
        command
    }

    /// Nobody else gets the ticket while the work goes on: by a claim, a pass, or the queue.
    #[track_caller]
    fn is_kept(&self, what: &str) {
        assert!(self.works(), "{what}: the work goes on");
        assert_eq!(self.board.labels("1"), ["orion-working"], "{what}");
        self.board.claim(&["reconcile"]);
        assert_eq!(self.board.claim(&["run", "1", "true"]).code, 75, "{what}");
        assert_eq!(self.board.labels("1"), ["orion-working"], "{what}");
        assert!(self.works(), "{what}: nobody ended it");
    }

    #[track_caller]
    fn no_doubles(&self, what: &str) {
        assert!(!self.dir().join("doubles").exists(), "{what}");
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.stop();
        // Deaf or not, it sees the file.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while self.works() && std::time::Instant::now() < end {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

fn begun(dir: &Path) -> bool {
    std::fs::read_to_string(dir.join("log")).is_ok_and(|log| log.contains("began"))
}

#[test]
fn g30_a_command_that_ended_by_itself_is_waited_for_with_what_it_left() {
    for (shape, start) in SHAPES {
        for (status, label) in [(0, "orion-ready"), (75, "orion-queue"), (3, "orion-failed")] {
            let what = format!("{shape}, exit {status}");
            let scene = Scene::new();
            let script =
                format!("{start} until [[ -s $D/pid ]]; do sleep 0.01; done; echo left; exit {status}");
            let mut run = Running::start(&mut scene.command(&["run", "1"], &script));
            eventually(&what, || {
                begun(&scene.dir()) && scene.board.record("1")["attrs"]["result"].is_object()
            });
            scene.is_kept(&what);
            let is_said = shape == "setsid";
            if is_said {
                // What is left for an instant is not worth a word.
                std::thread::sleep(std::time::Duration::from_secs(1));
            }
            scene.stop();
            let done = run.end().expect(status);
            let said = done.stderr.matches("the ticket stays claimed until that ends").count();
            assert!(said == 1 || (said == 0 && !is_said), "{what}: {done:?}");
            assert_eq!(scene.board.labels("1"), [label], "{what}");
            assert!(scene.log().contains("ended"), "{what}");
            scene.no_doubles(&what);
        }
    }
}

/// Told to end while its command and the work run.
fn told(shape: &str, start: &str, args: &[&str], signal: Signal, label: &str) -> Done {
    let what = format!("{shape}, {signal:?}");
    let scene = Scene::new();
    let script = format!("{start} until [[ -s $D/pid ]]; do sleep 0.01; done; echo up; sleep 1000");
    let mut run = Running::start(&mut scene.command(args, &script));
    eventually(&what, || begun(&scene.dir()));
    run.signal(signal);
    let deaf = shape == "deaf" && !args.contains(&"--kill-after");
    if deaf {
        eventually(&what, || scene.board.record("1")["attrs"]["result"].is_object());
        scene.is_kept(&what);
        scene.stop();
    }
    let done = run.end();
    assert_eq!(scene.board.labels("1"), [label], "{what}: {done:?}");
    let killed = shape == "deaf" && !deaf;
    assert!(killed || scene.log().contains("ended"), "{what}: its tree was ended first: {done:?}");
    if killed {
        drop(std::fs::remove_dir(scene.dir().join("busy")));
    }
    let next = scene.board.claim(&["run", "1", "true"]);
    assert!(next.code == 0 || label == "orion-failed", "{what}: {next:?}");
    scene.no_doubles(&what);
    done
}

#[test]
fn g30_a_run_that_is_told_to_end_ends_its_tree_and_hands_over_after_that() {
    for (shape, start) in SHAPES {
        for signal in [Signal::TERM, Signal::HUP] {
            told(shape, start, &["run", "1"], signal, "orion-queue");
        }
        told(shape, start, &["run", "--kill-after", "300ms", "1"], Signal::TERM, "orion-queue");
    }
}

#[test]
fn g30_a_pipeline_is_ended_with_the_shell_that_started_it() {
    let board = Board::with(&["A"]);
    let out = board.tool.path("pid");
    let script = format!("sh -c 'echo $$ > {}; exec sleep 1000' | cat", out.display());
    let mut run =
        Running::start(&mut board.command(&["run", "A", "bash", "-c", &format!("echo up; {script}")]));
    eventually("the sleep", || std::fs::read_to_string(&out).is_ok_and(|text| text.ends_with('\n')));
    let sleep =
        support::KillOnDrop::of(std::fs::read_to_string(&out).expect("pid").trim().parse().expect("pid"));
    run.signal(Signal::TERM);
    run.end().expect(143);
    assert!(sleep.ended(), "the tree is ended first");
    assert_eq!(board.labels("A"), ["orion-queue"]);
}

#[test]
fn a_wrapper_that_waits_for_its_agent_in_a_trap_does_not_hide_it() {
    let scene = Scene::new();
    let script =
        "trap 'exit 0' TERM; \"$W\" \"$D\" & until [[ -s $D/pid ]]; do sleep 0.01; done; echo up; sleep 1000";
    let mut run = Running::start(&mut scene.command(&["run", "1"], script));
    run.signal(Signal::TERM);
    run.end().expect(0);
    assert!(scene.log().contains("ended"), "what it waits for was told too");
    assert_eq!(scene.board.labels("1"), ["orion-ready"]);
}

#[test]
fn time_that_is_over_ends_the_tree_and_leads_to_failed() {
    for (shape, start) in SHAPES {
        let scene = Scene::new();
        let script = format!("{start} until [[ -s $D/pid ]]; do sleep 0.01; done; echo up; sleep 1000");
        let args = ["run", "--max-run", "1s", "--kill-after", "300ms", "1"];
        let mut run = Running::start(&mut scene.command(&args, &script));
        let done = run.end().says("--max-run 1s is over");
        assert_ne!(done.code, 0, "{shape}");
        assert_eq!(scene.board.labels("1"), ["orion-failed"], "{shape}: {done:?}");
        let pid: u32 =
            std::fs::read_to_string(scene.dir().join("pid")).expect("pid").trim().parse().expect("pid");
        let gone = !Path::new(&format!("/proc/{pid}")).exists()
            || std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "));
        assert!(gone, "{shape}: {pid} is ended");
        drop(std::fs::remove_dir(scene.dir().join("busy")));
        scene.no_doubles(shape);
    }
}

#[test]
fn a_daemon_that_is_meant_to_stay_keeps_no_ticket() {
    let scene = Scene::new();
    let script =
        "setsid \"$W\" \"$D\" </dev/null >/dev/null 2>&1 & until [[ -s $D/pid ]]; do sleep 0.01; done";
    let mut command = scene.command(&["run", "--owner-only", "1"], script);
    support::run(&mut command).expect(0).silent();
    assert!(scene.works(), "it stays");
    assert_eq!(scene.board.labels("1"), ["orion-ready"]);
}

#[test]
fn a_tool_that_dies_while_it_waits_leaves_a_decision_that_is_carried_out() {
    for (status, label) in [(0, "orion-ready"), (3, "orion-failed"), (75, "orion-queue")] {
        let scene = Scene::new();
        let script = format!(
            "setsid \"$W\" \"$D\" </dev/null >/dev/null 2>&1 & until [[ -s $D/pid ]]; do sleep 0.01; done; echo left; exit {status}"
        );
        let mut run = Running::start(&mut scene.command(&["run", "1"], &script));
        eventually("decided", || scene.board.record("1")["attrs"]["handing"].is_object());
        run.kill();
        scene.is_kept("killed");
        let free = scene.board.claim(&["free", "1"]).expect(64);
        assert!(free.stderr.contains("still work") && free.stderr.contains("(worker)"), "{free:?}");
        scene.stop();
        eventually("the end of the work", || scene.log().contains("ended"));
        eventually("carried out", || {
            scene.board.claim(&["reconcile"]).expect(0);
            scene.board.labels("1") == [label]
        });
        scene.no_doubles("killed");
    }
}

#[test]
fn a_person_frees_past_the_pulse_and_hears_whom_that_leaves() {
    let scene = Scene::new();
    let script = "setsid \"$W\" \"$D\" </dev/null >/dev/null 2>&1 & until [[ -s $D/pid ]]; do sleep 0.01; done; echo left; read end";
    let mut run = Running::start(&mut scene.command(&["run", "1"], script));
    run.kill();
    run.end();
    scene.is_kept("killed");
    scene.board.claim(&["free", "--yes", "1"]).expect(0).says("(worker)");
    assert_eq!(scene.board.labels("1"), ["orion-queue"]);
    assert!(scene.works(), "free ends nobody");
}

#[test]
fn g31_a_script_whose_agent_outlives_it_keeps_its_claim() {
    let scene = Scene::new();
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/orion.bash");
    let text = format!(
        ". {}\norion_claim 1 || exit\n\"$W\" \"$D\" >/dev/null 2>&1 &\nuntil [[ -s $D/pid ]]; do sleep 0.01; done\necho \"$ORION_TICKET\"\nwait\n",
        library.display()
    );
    let script = |text: &str| {
        let mut command = scene.board.tool.script(text);
        let path = format!("{}:{}", support::bin_dir().display(), std::env::var("PATH").unwrap_or_default());
        command.env("PATH", path).env("ORION_TRACKER", scene.board.tracker());
        command.env("W", scene.board.tool.path("worker")).env("D", scene.dir());
        command
    };
    let mut running = Running::start(&mut script(&text));
    assert_eq!(running.line, "1");
    running.signal(Signal::TERM);
    running.end().expect(143);
    scene.is_kept("its agent works on");
    scene.stop();
    eventually("back in the queue", || {
        scene.board.claim(&["reconcile"]).expect(0);
        scene.board.labels("1") == ["orion-queue"]
    });
    scene.no_doubles("script");
    std::fs::remove_file(scene.dir().join("stop")).expect("stop");
    // Handed over by hand: not before the agent has ended, and at once when there is none.
    let release = format!(
        ". {}\norion_claim 1 || exit\n\"$W\" \"$D\" >/dev/null 2>&1 &\nuntil begun=$(grep -c began \"$D/log\"); ((begun == 2)); do sleep 0.01; done\norion_claim_release ready || exit\necho released\nwait\n",
        library.display()
    );
    let mut running = Running::start(&mut script(&release));
    assert_eq!(running.line, "released");
    scene.is_kept("released too early");
    scene.stop();
    running.end().expect(0).says("when what still works on it has ended");
    eventually("moved", || {
        scene.board.claim(&["reconcile"]).expect(0);
        scene.board.labels("1") == ["orion-ready"]
    });
    scene.board.put("1", &["orion-queue"]);
    let alone = format!(". {}\norion_claim 1 && orion_claim_release ci-wait", library.display());
    support::run(&mut script(&alone)).expect(0).silent();
    assert_eq!(scene.board.labels("1"), ["orion-ci-wait"]);
}

#[test]
fn the_second_signal_to_a_watch_ends_the_trees_of_its_runs() {
    let scene = Scene::new();
    let script = "setsid \"$W\" \"$D\" </dev/null >/dev/null 2>&1 & sleep 1000";
    let mut watch = scene.command(&["watch", "--every", "1s"], script);
    let log = scene.board.tool.path("log");
    let mut child = watch.stderr(std::fs::File::create(&log).expect("log")).spawn().expect("watch");
    eventually("it works", || begun(&scene.dir()));
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).expect("pid");
    rustix::process::kill_process(pid, Signal::TERM).expect("TERM");
    eventually("it drains", || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("draining")));
    rustix::process::kill_process(pid, Signal::TERM).expect("TERM");
    assert_eq!(child.wait().expect("watch").code(), Some(0));
    assert_eq!(scene.board.labels("1"), ["orion-queue"]);
    assert!(scene.log().contains("ended"), "its tree was ended first");
    scene.no_doubles("watch");
}

/// Keeps every descriptor that it is sent, until it is told to end.
const KEEPER: &str = r#"
import array, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("ready", flush=True)
data, control, flags, address = listener.accept()[0].recvmsg(1, socket.CMSG_SPACE(400))
print("kept", flush=True)
sys.stdin.readline()
"#;

/// Sends every descriptor that it inherited beyond the first three.
const SENDER: &str = r#"
import array, os, socket, sys
fds = [int(name) for name in os.listdir("/proc/self/fd") if int(name) > 2]
fds = [fd for fd in fds if os.path.exists(f"/proc/self/fd/{fd}") and "pulse" in os.readlink(f"/proc/self/fd/{fd}")]
assert fds, "no pulse"
to = socket.socket(socket.AF_UNIX)
to.connect(sys.argv[1])
to.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
"#;

#[test]
fn work_that_was_given_to_somebody_elsewhere_keeps_the_ticket_by_its_pulse_alone() {
    if !support::needs("python3") {
        return;
    }
    let scene = Scene::new();
    let socket = scene.board.tool.path("keeper.socket");
    let mut keeper = std::process::Command::new("python3");
    let mut keeper = Running::start(keeper.args(["-c", KEEPER]).arg(&socket));
    let sender = scene.board.tool.path("sender.py");
    std::fs::write(&sender, SENDER).expect("sender");
    let script = format!("python3 {} {} && echo sent", sender.display(), socket.display());
    let mut run = Running::start(&mut scene.command(&["run", "1"], &script));
    assert_eq!((run.line.as_str(), keeper.next_line().as_str()), ("sent", "kept"));
    // The command has ended and nothing is below the run: a stranger to it carries the pulse.
    eventually("decided", || scene.board.record("1")["attrs"]["result"].is_object());
    assert_eq!(scene.board.claim(&["run", "1", "true"]).code, 75);
    scene.board.claim(&["reconcile"]);
    assert_eq!(scene.board.labels("1"), ["orion-working"]);
    // Who stays is named after an instant, which is longer than a run that asked nobody would take.
    std::thread::sleep(std::time::Duration::from_millis(700));
    assert_eq!(scene.board.labels("1"), ["orion-working"]);
    keeper.end().expect(0);
    let done = run.end().expect(0);
    assert!(done.stderr.contains("still runs") && done.stderr.contains("(python3)"), "{done:?}");
    assert_eq!(scene.board.labels("1"), ["orion-ready"]);
}
