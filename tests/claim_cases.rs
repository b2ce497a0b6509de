//! What broke once in the field: a person who edits in the middle, a remote that is away,
//! tickets that nobody can read, answers that were lost.

#[path = "support/claims.rs"]
mod claims;
#[path = "support/remote.rs"]
mod remote;
mod support;
#[path = "support/tracker_server.rs"]
mod tracker_server;

use claims::{Board, Owner};
use remote::{Dialect, Remote};
use serde_json::json;
use std::path::Path;
use std::process::{Command, Stdio};
use support::{Running, eventually, needs, run};
use tracker_server::{Fault, Kind};

/// How editors save.
#[derive(Clone, Copy, Debug)]
enum Saving {
    /// A new file is renamed over the old one.
    Rename,
    /// The file is emptied and written.
    InPlace,
    /// The old file is moved away, and a new one written in its place.
    Backup,
}

fn save(file: &Path, text: &str, how: Saving) {
    let beside = |end: &str| file.with_extension(end);
    match how {
        Saving::Rename => {
            std::fs::write(beside("swp"), text).expect("write");
            std::fs::rename(beside("swp"), file).expect("rename");
        }
        Saving::InPlace => std::fs::write(file, text).expect("write"),
        Saving::Backup => {
            drop(std::fs::rename(file, beside("bak")));
            std::fs::write(file, text).expect("write");
        }
    }
}

/// A command under strace, with a fault.
fn slowed(board: &Board, inject: &str, args: &[&str]) -> Command {
    let plain = board.command(args);
    let mut traced = board.tool.command("strace");
    let call = inject.split(':').next().expect("a call");
    traced.args(["-f", "-qq", "-o", "/dev/null", "-e", "signal=none", "-e", &format!("trace={call}")]);
    traced.args(["-e", &format!("inject={inject}")]);
    traced.arg(plain.get_program()).args(plain.get_args());
    for (name, value) in plain.get_envs() {
        if let Some(value) = value {
            traced.env(name, value);
        }
    }
    traced.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    traced
}

#[test]
fn g34_a_person_who_saves_while_a_slow_disk_writes_is_right() {
    if !needs("strace") {
        return;
    }
    let delays = ["fdatasync:delay_enter=1500000", "renameat2:delay_enter=900000"];
    let threads: Vec<_> = delays
        .into_iter()
        .flat_map(|delay| [Saving::Rename, Saving::InPlace, Saving::Backup].map(|how| (delay, how)))
        .map(|(delay, how)| {
            std::thread::spawn(move || {
                let what = format!("{delay} {how:?}");
                let board = Board::with(&["1"]);
                let mut claim = slowed(&board, delay, &["run", "1", "touch", "worked"]);
                let mut child = claim.current_dir(board.tool.path("")).spawn().expect("strace");
                let temp = board.tool.path("tickets").join(".1.tmp");
                eventually(&what, || temp.metadata().is_ok_and(|meta| meta.len() > 0));
                let theirs = "# mine\ntitle = \"no more\"\nstate = \"closed\"\nlabels = [\"orion-queue\"]\n";
                save(&board.file("1"), theirs, how);
                let status = child.wait().expect("strace");
                assert_eq!(status.code(), Some(75), "{what}: the claim is given up");
                assert_eq!(std::fs::read_to_string(board.file("1")).expect("ticket"), theirs, "{what}");
                assert!(!board.tool.path("worked").exists(), "{what}");
                assert!(!temp.exists(), "{what}: nothing is left behind");
                assert_eq!(board.reconcile(), Vec::<serde_json::Value>::new(), "{what}");
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("case");
    }
}

#[test]
fn g34_a_title_that_is_changed_in_the_middle_survives_the_claim() {
    if !needs("strace") {
        return;
    }
    let board = Board::with(&["1"]);
    let mut claim = slowed(&board, "fdatasync:delay_enter=1000000:when=1", &["run", "1", "true"]);
    let mut child = claim.spawn().expect("strace");
    let temp = board.tool.path("tickets").join(".1.tmp");
    eventually("the new ticket", || temp.metadata().is_ok_and(|meta| meta.len() > 0));
    save(&board.file("1"), "title = \"better\"\nlabels = [\"orion-queue\", \"bug\"]\n", Saving::Rename);
    assert_eq!(child.wait().expect("strace").code(), Some(0), "it is still queued");
    let text = std::fs::read_to_string(board.file("1")).expect("ticket");
    assert_eq!(text, "title = \"better\"\nlabels = [\"bug\", \"orion-ready\"]\n");
}

#[test]
fn a_ticket_is_on_the_disk_before_anybody_sees_it() {
    if !needs("strace") {
        return;
    }
    let board = Board::with(&["1"]);
    let trace = board.tool.path("trace");
    let plain = board.command(&["run", "1", "true"]);
    let mut traced = board.tool.command("strace");
    traced.args(["-f", "-qq", "-y", "-e", "trace=fdatasync,renameat2", "-o"]).arg(&trace);
    traced.arg(plain.get_program()).args(plain.get_args());
    traced.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    run(&mut traced).expect(0);
    let text = std::fs::read_to_string(&trace).expect("trace");
    let calls: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("/tickets/.1.tmp"))
        .map(|line| if line.contains("fdatasync(") { "sync" } else { "place" })
        .collect();
    assert_eq!(calls, ["sync", "place", "sync", "place"], "{text}");
}

#[test]
fn g38_a_queue_label_put_on_again_is_a_wish() {
    for beside in ["orion-failed", "orion-ready"] {
        let board = Board::new();
        board.put("1", &[beside, "orion-queue"]);
        assert_eq!(board.claim(&["next"]).expect(0).stdout, "1\n", "{beside}");
        board.claim(&["run", "1", "sh", "-c", "exit 3"]).expect(3);
        assert_eq!(board.all_labels("1"), ["orion-failed"], "{beside} went with the claim");
        for arbiter in ["label-gate", "comment-order"] {
            board.put("1", &[beside, "orion-queue"]);
            board.claim(&["--arbiter", arbiter, "run", "1", "true"]).expect(0);
            assert_eq!(board.all_labels("1"), ["orion-ready"], "{beside}, {arbiter}");
        }
    }
    // Checks run: the move that was asked for is kept, printed, and done when they are through.
    let board = Board::new();
    board.put("1", &["orion-ci-wait", "orion-queue"]);
    let none = board.claim(&["-v", "next"]).expect(75);
    assert!(none.stderr.contains("it waits until orion-ci-wait is off"), "{none:?}");
    board.claim(&["run", "1", "true"]).expect(75);
    board.put("1", &["orion-queue"]);
    board.claim(&["run", "1", "true"]).expect(0);
}

#[test]
fn g38_a_wish_under_a_live_run_is_honoured_when_it_ends() {
    for status in [0, 3] {
        let board = Board::with(&["1"]);
        let script = format!("echo up; read end; exit {status}");
        let mut live = Running::start(&mut board.command(&["run", "1", "sh", "-c", &script]));
        let mut labels = board.all_labels("1");
        labels.push("orion-queue".to_owned());
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        board.put("1", &labels);
        assert_eq!(board.claim(&["run", "1", "true"]).code, 75, "it is claimed");
        live.end().expect(status).says("back in the queue instead of");
        assert_eq!(board.all_labels("1"), ["orion-queue"], "whatever its status, {status}");
        // The same when nobody is left to do it.
        let mut dead = Running::start(&mut board.command(&["run", "1", "sh", "-c", "echo up; read end"]));
        let labels = board.all_labels("1");
        let labels: Vec<&str> = labels.iter().map(String::as_str).chain(["orion-queue"]).collect();
        board.put("1", &labels);
        dead.kill();
        dead.end();
        eventually("healed", || {
            board.claim(&["reconcile"]).expect(0);
            board.all_labels("1") == ["orion-queue"]
        });
    }
}

#[test]
fn g38_a_wish_beside_failed_survives_a_claim_that_is_killed_on_github() {
    for applied in [false, true] {
        for step in 1.. {
            let remote = Remote::with(Dialect::GitHub, 1);
            remote.server.world().change("1", |ticket| ticket.labels.push("orion-failed".into()));
            let owner = Owner::new();
            let command = remote.command(&["acquire", "--for", &owner.id(), "1"]);
            let died = remote.killed_at(command, step, applied);
            owner.end();
            remote.claim(&["reconcile"]);
            let labels = remote.labels("1");
            if !labels.contains(&"orion-queue".to_owned()) {
                // The one write that nobody can prove is said, and a person can act on it.
                let rows = remote.reconcile();
                assert!(
                    rows[0]["reason"].as_str().expect("reason").contains("free --yes"),
                    "{step}: {rows:?}"
                );
                remote.claim(&["free", "--yes", "1"]).expect(0);
            }
            remote.claim(&["run", "1", "true"]).expect(0);
            assert_eq!(remote.labels("1"), ["orion-ready"], "{step}");
            if died.is_none() {
                assert!(step > 4);
                break;
            }
        }
    }
}

/// A bare repository for refs, with settings that name it.
fn with_git(board: &Board) -> std::path::PathBuf {
    let bare = board.tool.path("refs.git");
    run(Command::new("git").args(["init", "-q", "--bare"]).arg(&bare)).expect(0);
    let config = board.tool.path("claim.toml");
    let text = format!("arbiter = \"git-ref\"\ngit_remote = \"{}\"\n", bare.display());
    std::fs::write(&config, text).expect("settings");
    bare
}

fn by_git(board: &Board, args: &[&str]) -> support::Done {
    run(board.command(args).env("ORION_CLAIM_CONFIG", board.tool.path("claim.toml")))
}

#[test]
fn g32_a_ref_that_cannot_be_given_back_is_tried_again_until_it_is() {
    if !needs("git") {
        return;
    }
    for way in ["release", "run", "reconcile"] {
        let board = Board::with(&["1"]);
        let bare = with_git(&board);
        let away = board.tool.path("away");
        let owner = Owner::new();
        let leave = || std::fs::rename(&bare, &away).expect("away");
        match way {
            "run" => {
                let script = format!("mv {} {}", bare.display(), away.display());
                by_git(&board, &["run", "1", "sh", "-c", &script]).expect(0).says("tries again");
            }
            _ => {
                let acquire = ["acquire", "--for", &owner.id(), "--print-token", "1"];
                let token = by_git(&board, &acquire).expect(0).token().to_string();
                leave();
                if way == "release" {
                    let release = ["release", "--to", "ready", "--token", &token, "1"];
                    by_git(&board, &release).expect(0).says("tries again");
                }
            }
        }
        if way == "reconcile" {
            owner.end();
        }
        for _ in 0..2 {
            let pass = by_git(&board, &["reconcile"]).expect(69);
            assert!(pass.stdout.contains("1: not"), "{way}: said each time: {pass:?}");
        }
        std::fs::rename(&away, &bare).expect("back");
        by_git(&board, &["reconcile"]).expect(0);
        assert!(
            by_git(&board, &["reconcile"]).expect(0).stdout.is_empty(),
            "{way}: a second pass does nothing"
        );
        board.put("1", &["orion-queue"]);
        by_git(&board, &["run", "1", "true"]).expect(0);
    }
}

#[test]
fn g35_a_ticket_that_nobody_can_read_is_said_once_and_again_when_it_changes() {
    let board = Board::with(&["2"]);
    std::fs::write(board.file("1"), "title = \"fix login\nlabels = [\"orion-queue\"]\n").expect("torn");
    let log = board.tool.path("log");
    let text = || std::fs::read_to_string(&log).unwrap_or_default();
    let mut command = board.command(&["watch", "--every", "30ms", "true"]);
    command.stdin(Stdio::null()).stderr(std::fs::File::create(&log).expect("log"));
    let mut child = command.spawn().expect("watch");
    eventually("worked", || board.labels("2") == ["orion-ready"]);
    eventually("said", || text().contains("1.toml"));
    std::fs::write(board.file("1"), "labels = 7 # orion-queue\n").expect("torn otherwise");
    eventually("said again", || text().contains("labels is not a list"));
    board.put("3", &["orion-queue"]);
    eventually("more passes", || board.labels("3") == ["orion-ready"]);
    child.kill().expect("kill");
    child.wait().expect("wait");
    assert_eq!(text().matches("1.toml").count(), 2, "{}", text());
}

#[test]
fn g39_a_gate_whose_answer_was_lost_is_shown_reported_and_freed() {
    for applied in [true, false] {
        let remote = Remote::with(Dialect::GitHub, 1);
        std::fs::write(
            remote.tool.path("claim.toml"),
            "patience = \"0s\"\nsettle = \"0s\"\ntimeout = \"2s\"\n",
        )
        .expect("settings");
        let config = remote.tool.path("claim.toml");
        let claim = |args: &[&str]| run(remote.command(args).env("ORION_CLAIM_CONFIG", &config));
        let times = if applied { 1 } else { 20 };
        remote.server.fault(Fault::new("/labels/orion-queue", times, move || {
            if applied { Kind::AppliedThenClose } else { Kind::Close }
        }));
        let lost = claim(&["run", "1", "true"]);
        assert!(lost.code == 69 || (lost.code == 0 && !applied), "{lost:?}");
        remote.server.world().faults.clear();
        if remote.labels("1").is_empty() {
            let shown = claim(&["list"]);
            assert!(shown.stdout.contains("claimed") || shown.stdout.contains("dead"), "{shown:?}");
            let pass = claim(&["reconcile"]).expect(69);
            assert!(pass.stdout.contains("orion-claim free --yes 1"), "{pass:?}");
        }
        if lost.code == 69 {
            claim(&["free", "--yes", "1"]).expect(0);
            assert_eq!(remote.labels("1"), ["orion-queue"]);
        }
        claim(&["reconcile"]).expect(0);
    }
}

#[test]
fn free_gives_up_a_dead_claim_whatever_the_ticket_shows() {
    let shown: [(&str, &[&str]); 4] = [
        ("open", &["orion-queue"]),
        ("open", &["orion-ready"]),
        ("closed", &[]),
        ("closed", &["orion-working"]),
    ];
    for (state, labels) in shown {
        let board = Board::with(&["1"]);
        let owner = Owner::new();
        board.claim(&["acquire", "--for", &owner.id(), "1"]).expect(0);
        owner.end();
        if state == "open" {
            board.put("1", labels);
        } else {
            board.close("1", labels);
        }
        board.claim(&["free", "--yes", "1"]).expect(0);
        assert!(board.record("1")["released_at"].is_string(), "{state} {labels:?}");
        let kept: Vec<&str> = labels.iter().copied().filter(|label| *label != "orion-working").collect();
        assert_eq!(board.all_labels("1"), kept);
        board.claim(&["free", "--yes", "1"]).expect(64);
    }
}

#[test]
fn g40_what_is_healthy_is_not_reported() {
    let board = Board::new();
    board.put("1", &["orion-working", "orion-host-elsewhere"]);
    board.put("2", &["orion-working"]);
    let pass = board.claim(&["reconcile"]).expect(0);
    assert!(!pass.stdout.contains("1: "), "another machine has it: {pass:?}");
    assert!(pass.stdout.contains("2: kept") && pass.stdout.contains("orion-claim free --yes 2"), "{pass:?}");
    assert!(board.claim(&["-v", "reconcile"]).expect(0).stdout.contains("another machine has it"));
    // A watch of many tickets: never a word about its own live runs.
    let keys: Vec<String> = (10..40).map(|number| number.to_string()).collect();
    keys.iter().for_each(|key| board.put(key, &["orion-queue"]));
    let log = board.tool.path("log");
    let mut command = board.command(&["watch", "--every", "20ms", "--max", "30", "sleep", "0.3"]);
    command.stdin(Stdio::null()).stderr(std::fs::File::create(&log).expect("log"));
    let mut child = command.spawn().expect("watch");
    eventually("worked", || keys.iter().all(|key| board.labels(key) == ["orion-ready"]));
    child.kill().expect("kill");
    child.wait().expect("wait");
    let text = std::fs::read_to_string(&log).expect("log");
    let wrong: Vec<&str> =
        text.lines().filter(|line| line.contains("free --yes") && !line.contains(": 2: ")).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn g42_a_command_that_is_killed_from_outside_is_a_death_and_known_as_one() {
    let board = Board::with(&["1"]);
    for death in 1..=3 {
        let done = board.claim(&["run", "1", "sh", "-c", "kill -9 $$"]).expect(137);
        assert!(
            done.stderr.contains("SIGKILL") && done.stderr.contains(&format!("death {death} of 3")),
            "{done:?}"
        );
        assert_eq!(board.all_labels("1"), [if death < 3 { "orion-queue" } else { "orion-failed" }]);
        let result = &board.record("1")["attrs"]["result"];
        assert_eq!((&result["status"], &result["signal"]), (&json!(137), &json!(9)));
    }
    board.put("1", &["orion-queue"]);
    board.claim(&["run", "1", "sh", "-c", "sh -c 'kill -9 $$'; exit $?"]).expect(137).says("SIGKILL");
}

#[test]
fn a_holder_whose_ticket_went_to_another_machine_writes_nothing_to_it() {
    let hand_overs: [&[&str]; 2] = [&["release", "--to", "ready"], &["release", "--to", "queue"]];
    for release in hand_overs {
        let remote = Remote::with(Dialect::GitHub, 1);
        let (a, b) = (Owner::new(), Owner::new());
        let token = remote.acquire("1", a.pid()).expect(0).token().to_string();
        // A person queues it again, and another machine takes it.
        remote.server.world().label("1", "person", &["orion-queue"], &["orion-working"]);
        let mut other = remote.machine(&remote.other(), &["acquire", "--for", &b.id(), "1"]);
        run(&mut other).expect(0);
        let before = remote.server.world().labels("1");
        remote.claim(&[release, &["--token", &token, "1"]].concat()).expect(77).says("not yours any more");
        assert_eq!(remote.server.world().labels("1"), before, "the other one's labels stay");
        assert!(before.contains(&"orion-working".to_owned()));
    }
}
