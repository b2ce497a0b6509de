//! Supervisor, guardian, both, the command: killed.

use crate::server::{Host, Postgres, guardian, needs_postgres};
use crate::support::{KillOnDrop, Running, eventually};
use std::time::Instant;

/// A run with a child in a session of its own, and the two of them.
fn start(host: &Host) -> (Running, u32, KillOnDrop, KillOnDrop) {
    let facts = host.tool.path("facts");
    std::fs::remove_file(&facts).ok();
    let script = "setsid sh -c 'exec sleep 1000' & echo $! $$; wait";
    let args = ["run", "--status-file", facts.to_str().unwrap(), "x", "sh", "-c", script];
    let run = Running::start(&mut host.command(&args));
    let pids: Vec<u32> = run.line.split(' ').map(|pid| pid.parse().unwrap()).collect();
    let (job, command) = (KillOnDrop::of(pids[0]), KillOnDrop::of(pids[1]));
    let guardian = guardian(&facts);
    (run, guardian, command, job)
}

#[test]
fn a_killed_supervisor_takes_its_run_along_and_the_guardian_gives_the_lock_back() {
    if !needs_postgres() {
        return;
    }
    let server = Postgres::start();
    let (one, two) = (Host::new(&server), Host::new(&server));
    let (mut run, _, command, job) = start(&one);
    run.kill();
    eventually("the end of everything", || command.ended() && job.ended());
    eventually("it is given back", || two.state("x") == "free");
    two.lock(&["run", "x", "true"]).expect(0).silent();
    one.lock(&["run", "x", "true"]).expect(0).silent();
}

#[test]
fn a_killed_guardian_takes_its_run_along_and_the_supervisor_gives_the_lock_back() {
    if !needs_postgres() {
        return;
    }
    let server = Postgres::start();
    let (one, two) = (Host::new(&server), Host::new(&server));
    let (mut run, guardian, command, job) = start(&one);
    KillOnDrop::of(guardian).kill();
    eventually("the end of everything", || command.ended() && job.ended());
    run.end().expect(137).says("guardian was killed");
    two.lock(&["run", "x", "true"]).expect(0).silent();
}

#[test]
fn both_killed_at_one_stroke_this_host_knows_and_another_waits_for_the_grace() {
    if !needs_postgres() {
        return;
    }
    let server = Postgres::start();
    let (one, two) = (Host::new(&server), Host::new(&server));
    let (mut run, guardian, command, job) = start(&one);
    let guardian = KillOnDrop::of(guardian);
    KillOnDrop::of(run.pid()).signal(rustix::process::Signal::STOP);
    guardian.signal(rustix::process::Signal::KILL);
    run.kill();
    eventually("the command dies with its guardian", || command.ended());
    assert!(!job.ended(), "what it left behind lives");
    eventually("the session is gone", || two.state("x") == "cut");
    assert_eq!(one.state("x"), "held", "this host sees the pulse");
    one.lock(&["run", "x", "true"]).expect(75);
    two.lock(&["run", "-n", "x", "true"]).expect(69).says("a run without -n takes it after 1m");
    job.kill();
    let begun = Instant::now();
    one.lock(&["run", "x", "true"]).expect(0).says("taken over");
    assert!(begun.elapsed().as_secs() < 20, "proved dead here, so at once");
}

#[test]
fn a_killed_command_is_an_ended_run() {
    if !needs_postgres() {
        return;
    }
    let server = Postgres::start();
    let (one, two) = (Host::new(&server), Host::new(&server));
    let (mut run, _, command, job) = start(&one);
    command.kill();
    two.lock(&["run", "x", "true"]).expect(75);
    job.kill();
    run.end().expect(137);
    two.lock(&["run", "x", "true"]).expect(0).silent();
}
