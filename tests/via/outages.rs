//! The database goes away, for a while or for longer.

use crate::server::{Host, Postgres, facts, needs_postgres};
use crate::support::{Running, eventually};
use rustix::process::Signal;
use std::path::PathBuf;
use std::time::Duration;

/// A run that counts every few milliseconds, with short times.
struct Counting {
    run: Running,
    ticks: PathBuf,
    facts: PathBuf,
}

impl Counting {
    fn start(host: &Host, options: &[&str]) -> Self {
        let (ticks, facts) = (host.tool.path("ticks"), host.tool.path("facts"));
        let script = format!("echo $$; while :; do echo >>{}; sleep 0.01; done", ticks.display());
        let mut args = vec!["run", "--status-file", facts.to_str().unwrap()];
        args.extend(options);
        args.extend(["x", "sh", "-c", &script]);
        let run = Running::start(&mut host.command(&args));
        Self { run, ticks, facts }
    }

    fn count(&self) -> u64 {
        std::fs::metadata(&self.ticks).map_or(0, |meta| meta.len())
    }

    fn counts(&self) -> bool {
        let before = self.count();
        eventually_within(Duration::from_secs(5), || self.count() > before)
    }

    fn has(&self, fact: &str) -> bool {
        facts(&self.facts).iter().any(|it| it == fact)
    }
}

fn eventually_within(time: Duration, fact: impl Fn() -> bool) -> bool {
    let end = std::time::Instant::now() + time;
    while !fact() {
        if std::time::Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

const SHORT: [&str; 4] = ["--fence", "1200ms", "--grace", "2200ms"];

#[test]
fn a_run_goes_on_over_a_restart_and_over_the_end_of_its_session() {
    if !needs_postgres() {
        return;
    }
    let mut server = Postgres::start();
    let (one, two) = (Host::new(&server), Host::new(&server));
    let mut run = Counting::start(&one, &[]);
    let token = one.token("x");
    for times in 1..4 {
        match times {
            1 => drop(
                server.sql("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'job'"),
            ),
            2 => {
                server.stop(Signal::INT);
                server.start_again();
            }
            _ => {
                server.stop(Signal::KILL);
                server.start_again();
            }
        }
        eventually("it attaches again", || {
            facts(&run.facts).iter().filter(|fact| *fact == "attached").count() >= times
        });
        assert_eq!(two.token("x"), token, "the token stays");
        two.lock(&["run", "x", "true"]).expect(75);
        assert!(run.counts());
    }
    assert!(!run.has("frozen"));
    run.run.signal(Signal::TERM);
    run.run.end().expect(143);
}

#[test]
fn without_the_database_a_run_is_stopped_in_time_and_goes_on_when_it_is_back() {
    if !needs_postgres() {
        return;
    }
    let mut server = Postgres::start();
    let one = Host::new(&server);
    let mut run = Counting::start(&one, &SHORT);
    assert!(run.counts());
    server.stop(Signal::INT);
    let gone = std::time::Instant::now();
    eventually("it is stopped", || run.has("frozen"));
    // Proof is at most a beat old when the database goes; stopped at the fence, and a sweep.
    assert!(gone.elapsed() < Duration::from_millis(1200 + 1500), "{:?}", gone.elapsed());
    let stopped = run.count();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(run.count(), stopped, "a stopped run does nothing");
    server.start_again();
    eventually("it goes on", || run.has("thawed"));
    assert!(run.counts());
    run.run.signal(Signal::TERM);
    let done = run.run.end().expect(143);
    done.says("no answer from the database").says("the run is stopped").says("goes on");
}

#[test]
fn a_run_that_was_stopped_for_too_long_is_killed_with_69() {
    if !needs_postgres() {
        return;
    }
    let mut server = Postgres::start();
    let one = Host::new(&server);
    let mut options = SHORT.to_vec();
    options.extend(["--frozen", "500ms"]);
    let mut run = Counting::start(&one, &options);
    server.stop(Signal::INT);
    eventually("it is killed", || run.has("fenced"));
    let killed = run.count();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(run.count(), killed);
    server.start_again();
    run.run.end().expect(69).says("was killed");
    one.lock(&["run", "x", "true"]).expect(0);
}

#[test]
fn a_server_that_hangs_delays_no_guardian() {
    if !needs_postgres() {
        return;
    }
    let server = Postgres::start();
    let one = Host::new(&server);
    let mut run = Counting::start(&one, &SHORT);
    assert!(run.counts());
    server.signal_all(Signal::STOP);
    let gone = std::time::Instant::now();
    eventually("it is stopped", || run.has("frozen"));
    assert!(gone.elapsed() < Duration::from_millis(1200 + 1500), "{:?}", gone.elapsed());
    let stopped = run.count();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(run.count(), stopped, "a stopped run does nothing");
    server.signal_all(Signal::CONT);
    eventually("it goes on", || run.has("thawed"));
    run.run.signal(Signal::TERM);
    run.run.end().expect(143);
}

#[test]
fn another_host_begins_after_the_grace_and_the_old_run_is_killed_as_soon_as_it_knows() {
    if !needs_postgres() {
        return;
    }
    let server = Postgres::start();
    let (one, two) = (Host::new(&server), Host::new(&server));
    let mut run = Counting::start(&one, &SHORT);
    // The host loses its way: what it resolves is there no more.
    let door = server.dir().join(format!(".s.PGSQL.{}", server.port));
    let away = server.dir().join("away");
    std::fs::rename(&door, &away).unwrap();
    let other = |name: &str| two.url.replace(&format!("port={}", server.port), &format!("port={name}"));
    std::os::unix::fs::symlink(&away, server.dir().join(".s.PGSQL.1")).unwrap();
    let psql = |text: &str| {
        let mut psql = std::process::Command::new("psql");
        psql.args(["-XAtq", "-U", "postgres", "-d", "locks", "-p", "1", "-h"]).arg(server.dir());
        crate::support::run(psql.args(["-c", text])).expect(0).stdout
    };
    psql("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'job'");
    let two = Host { tool: two.tool, url: other("1") };
    let begun = std::time::Instant::now();
    two.lock(&["run", "-n", "x", "true"]).expect(69).says("cannot tell");
    assert_eq!(two.state("x"), "cut");
    two.lock(&["verify", "--token", &two.token("x").to_string(), "x"]).expect(69);
    let script = format!("wc -c <{0}; sleep 0.3; wc -c <{0}", run.ticks.display());
    let done = two.lock(&["run", "x", "sh", "-c", &script]).expect(0);
    done.says("taken over");
    assert!(begun.elapsed() >= Duration::from_millis(2200), "{:?}", begun.elapsed());
    let counted = two.lock(&["run", "x", "sh", "-c", &script]).stdout;
    let counts: Vec<&str> = counted.lines().collect();
    assert_eq!(counts[0], counts[1], "the old run stands");
    std::fs::rename(&away, &door).unwrap();
    run.run.end().expect(77).says("does not hold the lock any more");
}

#[test]
fn a_run_that_stood_when_the_server_was_promoted_does_not_go_on() {
    if !needs_postgres() {
        return;
    }
    let server = Postgres::start();
    let one = Host::new(&server);
    for promoted in [false, true] {
        let mut run = Counting::start(&one, &SHORT);
        std::fs::rename(server.door(), server.dir().join("away")).unwrap();
        std::os::unix::fs::symlink(server.dir().join("away"), server.dir().join(".s.PGSQL.1")).unwrap();
        server.sql_by("1", "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'job'");
        eventually("it stands", || run.has("frozen"));
        if promoted {
            // As the take of somebody who waited for its grace leaves it, when that take is lost.
            server.sql_by("1", "update orion.meta set timeline = '000000FE'");
        }
        std::fs::remove_file(server.dir().join(".s.PGSQL.1")).unwrap();
        std::fs::rename(server.dir().join("away"), server.door()).unwrap();
        if promoted {
            run.run.end().expect(77).says("a promoted server cannot tell");
        } else {
            eventually("it goes on", || run.has("thawed"));
            run.run.signal(Signal::TERM);
            run.run.end().expect(143);
        }
        std::fs::remove_file(&run.facts).unwrap();
    }
}
