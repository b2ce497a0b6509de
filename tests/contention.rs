//! Many at once over one name: exactly one gets it, and nobody is turned away for any other reason.

mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use support::{Running, Tool, bin, run};

/// One contender's call: its exit code and, when it won, its token.
fn contend(tool: &Tool, owner: &str) -> (i32, Option<u64>) {
    let mut command = Command::new(bin("orion-lock"));
    command.args(["acquire", "--for", owner, "--print-token", "-q", "sync"]);
    command.env("ORION_DIR", tool.dir()).stdin(Stdio::null()).stderr(Stdio::null());
    let out = command.output().expect("spawn");
    let token = String::from_utf8_lossy(&out.stdout).trim().parse().ok();
    (out.status.code().unwrap_or(-1), token)
}

/// Plays `rounds` in which `contenders` start together over what `prepare` left there.
/// Gives every round's codes and tokens.
fn play(
    tool: &Tool,
    rounds: usize,
    contenders: usize,
    prepare: impl Fn(usize),
    check: impl Fn(usize, &[(i32, Option<u64>)]),
) {
    let owner = Running::start(tool.command("sh").args(["-c", "echo up; read -r end"]));
    let owner = owner.pid().to_string();
    let start = Barrier::new(contenders + 1);
    let (send, ended) = mpsc::channel();
    // A round that went wrong fails the test: nobody waits for the next one for ever.
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..contenders {
            let (send, start, owner, over) = (send.clone(), &start, &owner, &over);
            scope.spawn(move || {
                for _ in 0..rounds {
                    start.wait();
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    send.send(contend(tool, owner)).expect("the judge listens");
                }
            });
        }
        for round in 0..rounds {
            prepare(round);
            start.wait();
            let answers: Vec<(i32, Option<u64>)> =
                (0..contenders).map(|_| ended.recv().expect("an answer")).collect();
            let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(round, &answers)));
            if let Err(panic) = checked {
                over.store(true, Ordering::Relaxed);
                if round + 1 < rounds {
                    start.wait();
                }
                std::panic::resume_unwind(panic);
            }
        }
    });
}

/// Over the record of a dead owner: exactly one winner in every round, all others see it live.
fn over_a_dead_owner(rounds: usize, contenders: usize) {
    let tool = Tool::new();
    tool.leave_dead("sync");
    let record = std::fs::read(tool.file("sync.json")).expect("record");
    let last = std::cell::Cell::new(0);
    let prepare = |_| std::fs::write(tool.file("sync.json"), &record).expect("write");
    play(&tool, rounds, contenders, prepare, |round, answers| {
        let won: Vec<u64> =
            answers.iter().filter(|(code, _)| *code == 0).filter_map(|(_, token)| *token).collect();
        let held = answers.iter().filter(|(code, _)| *code == 75).count();
        assert_eq!((won.len(), held), (1, contenders - 1), "round {round}: {answers:?}");
        assert_eq!(tool.record("sync")["token"], won[0], "round {round}");
        assert!(won[0] > last.get(), "tokens rise: {} after {}", won[0], last.get());
        last.set(won[0]);
    });
    assert_eq!(tool.files(), ["sync.guard", "sync.json", "sync.pulse"], "nothing is left behind");
    support::say(&format!("contention: {rounds} rounds of {contenders}, one winner in each"));
}

/// `ORION_TORTURE=1` plays 10,000.
fn rounds(quick: usize) -> usize {
    if std::env::var_os("ORION_TORTURE").is_some() { 10_000 } else { quick }
}

#[test]
fn one_winner_in_every_round_of_8() {
    over_a_dead_owner(rounds(2_000), 8);
}

#[test]
fn one_winner_in_every_round_of_32() {
    over_a_dead_owner(rounds(500), 32);
}

#[test]
fn one_winner_over_nothing_a_released_and_a_corrupt_record() {
    let tool = Tool::new();
    let dead = tool.leave_dead("sync");
    let mut released = dead.clone();
    released["released_at"] = serde_json::json!("2026-11-29T10:00:00Z");
    let prepare = |round: usize| match round % 3 {
        0 => drop(std::fs::remove_file(tool.file("sync.json"))),
        1 => std::fs::write(tool.file("sync.json"), released.to_string()).expect("write"),
        _ => std::fs::write(tool.file("sync.json"), "torn").expect("write"),
    };
    play(&tool, 150, 8, prepare, |round, answers| {
        let won = answers.iter().filter(|(code, _)| *code == 0).count();
        let held = answers.iter().filter(|(code, _)| *code == 75).count();
        assert_eq!((won, held), (1, 7), "round {round}: {answers:?}");
    });
}

/// Field case B38: a cleaner that unlinks the guard under us must not make two winners.
#[test]
fn never_two_winners_while_a_cleaner_unlinks_the_guard() {
    let tool = Tool::new();
    tool.leave_dead("sync");
    let record = std::fs::read(tool.file("sync.json")).expect("record");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                drop(std::fs::remove_file(tool.file("sync.guard")));
                std::thread::yield_now();
            }
        });
        let prepare = |_| std::fs::write(tool.file("sync.json"), &record).expect("write");
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            play(&tool, 200, 8, prepare, |round, answers| {
                let won = answers.iter().filter(|(code, _)| *code == 0).count();
                assert!(won <= 1, "round {round}: {answers:?}");
                let odd: Vec<i32> = answers
                    .iter()
                    .map(|(code, _)| *code)
                    .filter(|code| ![0, 75, 71].contains(code))
                    .collect();
                assert!(odd.is_empty(), "round {round}: {answers:?}");
            });
        }));
        over.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

/// Waiters of real runs: what they do under the lock is never interleaved.
#[test]
fn runs_that_wait_never_overlap() {
    let tool = Tool::new();
    let counter = tool.path("counter");
    std::fs::write(&counter, "0").expect("write");
    let critical =
        "test ! -e inside || exit 9; : >inside; n=$(cat counter); echo $((n+1)) >counter; rm inside";
    let work = |path: &Path| {
        for _ in 0..20 {
            let mut command =
                tool.tool("orion-lock", &["run", "-w", "forever", "sync", "sh", "-c", critical]);
            run(command.current_dir(path)).expect(0).silent();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| work(&tool.path("")));
        }
    });
    assert_eq!(std::fs::read_to_string(counter).expect("counter").trim(), "160");
}

/// Field case B73: of many that were told "go", exactly one runs.
#[test]
fn the_precheck_is_advice_and_the_lock_decides() {
    let tool = Tool::new();
    for _ in 0..30 {
        let fires: Vec<_> = (0..3)
            .map(|_| {
                let script =
                    "\"$OP\" -q sync || exit 75; exec \"$OL\" run -q sync sh -c 'echo ran; read -r end'";
                let mut command = tool.script(script);
                command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
                command.spawn().expect("spawn")
            })
            .collect();
        // One holds until its stdin closes; the two others end by themselves, and only then it may.
        let mut codes = Vec::new();
        let mut fires = fires;
        while fires.len() > 1 {
            fires.retain_mut(|fire| match fire.try_wait().expect("wait") {
                Some(status) => {
                    codes.push(status.code());
                    false
                }
                None => true,
            });
            std::thread::yield_now();
        }
        assert_eq!(codes, [Some(75), Some(75)]);
        let out = fires.remove(0).wait_with_output().expect("wait");
        assert_eq!(String::from_utf8_lossy(&out.stdout), "ran\n");
    }
}

/// Field case B49: kills never pile up files, whenever they hit.
#[test]
fn kills_leave_no_files_and_no_lock_behind() {
    let tool = Tool::new();
    tool.lock(&["run", "sync", "true"]).expect(0);
    for round in 0..200_u64 {
        let mut child = tool.tool("orion-lock", &["run", "-q", "sync", "true"]).spawn().expect("spawn");
        // Spread over the whole of a call; a death before or after it is as good.
        std::thread::sleep(std::time::Duration::from_micros(round * 20));
        drop(child.kill());
        child.wait().expect("wait");
    }
    tool.lock(&["run", "sync", "true"]).expect(0).silent();
    let allowed = ["sync.guard", "sync.json", "sync.pulse"];
    assert_eq!(tool.files(), allowed);
}
