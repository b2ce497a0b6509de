//! Many processes and two machines at one ticket: exactly one winner, whoever decides.

#[path = "support/claims.rs"]
mod claims;
#[path = "support/remote.rs"]
mod remote;
mod support;
#[path = "support/tracker_server.rs"]
mod tracker_server;

use claims::Board;
use remote::{Dialect, Remote};
use std::collections::BTreeMap;
use std::process::Command;
use support::{Running, needs, run};

/// One racer: at the word "go" it tries every key and says how each try ended.
fn racer(command: &mut Command, keys: &[String], options: &str) -> Running {
    let script = format!(
        "echo ready; read go; for key in {}; do $OC -q {options} acquire --for {} $key 2>&1; echo \"$key $?\"; done",
        keys.join(" "),
        std::process::id()
    );
    Running::start(command.args(["-c", &script]))
}

/// Lets them all go at once; exactly one wins each key, and the others are told so.
fn race(racers: Vec<Running>, keys: &[String]) {
    let mut racers = racers;
    for racer in &mut racers {
        racer.tell("go");
    }
    let mut codes: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    let count = racers.len();
    for mut racer in racers {
        let done = racer.end();
        for line in done.stdout.lines() {
            let (key, code) = line.rsplit_once(' ').expect("a key and a code");
            let code = code.parse().unwrap_or_else(|_| panic!("said: {}", done.stdout));
            codes.entry(key.to_owned()).or_default().push(code);
        }
    }
    assert_eq!(codes.len(), keys.len());
    for (key, mut codes) in codes {
        codes.sort_unstable();
        let mut expected = vec![75; count];
        expected[0] = 0;
        assert_eq!(codes, expected, "{key}");
    }
}

fn keys(count: usize, key: impl Fn(usize) -> String) -> Vec<String> {
    (1..=count).map(key).collect()
}

/// So many racers on two machines at so many tickets in files.
fn race_files(racers: usize, tickets: usize, options: &str) {
    let keys = keys(tickets, |number| format!("K-{number}"));
    let board = Board::with(&keys);
    let machines = [board.tool.dir(), board.tool.path("other")];
    let racers = (0..racers).map(|number| {
        let mut bash = board.tool.command("bash");
        bash.env("OC", support::bin("orion-claim"));
        bash.env("ORION_TRACKER", board.tracker()).env("ORION_DIR", &machines[number % 2]);
        racer(&mut bash, &keys, options)
    });
    race(racers.collect(), &keys);
    for key in &keys {
        assert_eq!(board.labels(key), ["orion-working"], "{key}");
    }
    // Each machine keeps its own, and touches none of the other's.
    let before: Vec<_> = keys.iter().map(|key| board.all_labels(key)).collect();
    for machine in &machines {
        run(&mut board.machine(machine, &["reconcile"])).expect(0);
    }
    assert_eq!(keys.iter().map(|key| board.all_labels(key)).collect::<Vec<_>>(), before);
}

#[test]
fn eight_racers_for_tickets_in_files() {
    race_files(8, 100, "");
}

#[test]
fn many_racers_for_tickets_in_files() {
    race_files(32, 20, "");
}

#[test]
fn eight_racers_at_the_gate_of_tickets_in_files() {
    race_files(8, 12, "--arbiter label-gate");
}

#[test]
fn eight_racers_by_comments_on_tickets_in_files() {
    race_files(8, 12, "--arbiter comment-order");
}

#[test]
fn eight_racers_for_a_git_ref() {
    if !needs("git") {
        return;
    }
    let keys = keys(4, |number| number.to_string());
    let board = Board::with(&keys);
    let remote = board.tool.path("remote.git");
    run(Command::new("git").args(["init", "-q", "--bare"]).arg(&remote)).expect(0);
    let config = board.tool.path("claim.toml");
    std::fs::write(
        &config,
        format!("arbiter = \"git-ref\"\ngit_remote = {:?}\n", remote.display().to_string()),
    )
    .expect("config");
    let machines = [board.tool.dir(), board.tool.path("other")];
    let racers = (0..8).map(|number| {
        let mut bash = board.tool.command("bash");
        bash.env("OC", support::bin("orion-claim")).env("ORION_CLAIM_CONFIG", &config);
        bash.env("ORION_TRACKER", board.tracker()).env("ORION_DIR", &machines[number % 2]);
        racer(&mut bash, &keys, "")
    });
    race(racers.collect(), &keys);
    let refs =
        || run(Command::new("git").arg("-C").arg(&remote).args(["for-each-ref"])).stdout.lines().count();
    assert_eq!(refs(), 4);
    // Given back with the claim.
    let release = |state: &std::path::Path, key: &str| {
        let token = claims::record(state, key)["token"].to_string();
        let args = ["release", "--to", "queue", "--token", &token, key];
        run(board.machine(state, &args).env("ORION_CLAIM_CONFIG", &config)).code
    };
    // One that died gives its ref back with the pass.
    let owner = claims::Owner::new();
    board.put("9", &["orion-queue"]);
    run(board.command(&["acquire", "--for", &owner.id(), "9"]).env("ORION_CLAIM_CONFIG", &config)).expect(0);
    owner.end();
    assert_eq!(refs(), 5);
    run(board.command(&["reconcile"]).env("ORION_CLAIM_CONFIG", &config)).expect(0);
    assert_eq!((refs(), board.all_labels("9")), (4, vec!["orion-queue".to_owned()]));
    // One whose machine never came to take it out of the queue is freed by a person.
    let blob = run(Command::new("git").arg("-C").arg(&remote).args(["hash-object", "-w", "--stdin"]));
    let some = run(Command::new("git").arg("-C").arg(&remote).args(["for-each-ref", "--format=%(refname)"]));
    let name = some.stdout.lines().next().expect("a ref").rsplit_once('/').expect("path").0.to_owned();
    let update = ["update-ref", &format!("{name}/9"), blob.stdout.trim()];
    run(Command::new("git").arg("-C").arg(&remote).args(update)).expect(0);
    let claim = |args: &[&str]| run(board.command(args).env("ORION_CLAIM_CONFIG", &config));
    claim(&["acquire", "--for", &std::process::id().to_string(), "9"]).expect(75).says("orion-claim free");
    claim(&["free", "--yes", "9"]).expect(0);
    claim(&["run", "9", "true"]).expect(0);
    assert_eq!(refs(), 4);
    for key in &keys {
        let held = |state: &std::path::Path| {
            claims::records(state).join(format!("{key}.json")).exists()
                && claims::record(state, key)["released_at"].is_null()
        };
        let owner = machines.iter().find(|state| held(state)).expect("a winner");
        assert_eq!(release(owner, key), 0);
    }
    assert_eq!(refs(), 0);
}

/// So many racers on two machines at tickets of a server.
fn race_remote(dialect: Dialect, racers: usize, tickets: usize) {
    let remote = Remote::with(dialect, tickets);
    let keys = keys(tickets, |number| remote.key(number));
    let machines = [remote.tool.dir(), remote.other()];
    let racers = (0..racers).map(|number| {
        let mut bash = remote.tool.command("bash");
        bash.env("OC", support::bin("orion-claim")).env("ORION_DIR", &machines[number % 2]);
        bash.envs(remote.environment());
        racer(&mut bash, &keys, "")
    });
    race(racers.collect(), &keys);
    for key in &keys {
        assert_eq!(remote.labels(key), ["orion-working"], "{key}");
        assert_eq!(remote.server.world().times_on(key, "orion-working"), 1, "{key}");
    }
    // Neither machine judges the other's claims, nor writes anything.
    let writes = remote.writes();
    for machine in &machines {
        run(&mut remote.machine(machine, &["reconcile"])).expect(0);
    }
    assert_eq!(remote.writes(), writes);
}

#[test]
fn many_passes_at_once_count_a_death_once() {
    let keys = keys(4, |number| number.to_string());
    let board = Board::with(&keys);
    let owner = claims::Owner::new();
    for key in &keys {
        board.claim(&["acquire", "--for", &owner.id(), key]).expect(0);
    }
    owner.end();
    let mut passes: Vec<Running> = (0..6)
        .map(|_| {
            let mut bash = board.tool.command("bash");
            bash.env("OC", support::bin("orion-claim")).env("ORION_TRACKER", board.tracker());
            Running::start(bash.args(["-c", "echo ready; read go; $OC reconcile"]))
        })
        .collect();
    for pass in &mut passes {
        pass.tell("go");
    }
    for mut pass in passes {
        pass.end().expect(0);
    }
    for key in &keys {
        assert_eq!(board.all_labels(key), ["orion-queue"]);
        assert_eq!(board.record(key)["attrs"]["deaths"]["count"], 1);
    }
}

#[test]
fn six_racers_for_tickets_of_a_program() {
    if !needs("python3") {
        return;
    }
    let keys = keys(3, |number| format!("A-{number}"));
    let board = Board::new();
    let tickets: BTreeMap<&String, serde_json::Value> = keys
        .iter()
        .map(|key| (key, serde_json::json!({"title": key, "labels": ["orion-queue"], "events": []})))
        .collect();
    let file = board.tool.path("tickets.json");
    std::fs::write(&file, serde_json::to_string(&tickets).expect("JSON")).expect("write");
    let program = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/tracker.py");
    let machines = [board.tool.dir(), board.tool.path("other")];
    let racers = (0..6).map(|number| {
        let mut bash = board.tool.command("bash");
        bash.env("OC", support::bin("orion-claim")).env("TICKETS", &file);
        bash.env("ORION_TRACKER", format!("command:{}", program.display()));
        bash.env("ORION_DIR", &machines[number % 2]);
        racer(&mut bash, &keys, "")
    });
    race(racers.collect(), &keys);
    let tickets: BTreeMap<String, serde_json::Value> =
        serde_json::from_str(&std::fs::read_to_string(&file).expect("read")).expect("JSON");
    assert!(tickets.values().all(|ticket| ticket["labels"][0] == "orion-working"), "{tickets:?}");
}

#[test]
fn eight_racers_at_the_gate_of_github() {
    race_remote(Dialect::GitHub, 8, 15);
}

#[test]
fn eight_racers_by_comments_on_jira() {
    race_remote(Dialect::Jira, 8, 15);
}

#[test]
fn eight_racers_by_comments_on_gitlab() {
    race_remote(Dialect::GitLab, 8, 15);
}

#[test]
fn eight_racers_by_comments_on_gitea() {
    race_remote(Dialect::Gitea, 8, 15);
}
