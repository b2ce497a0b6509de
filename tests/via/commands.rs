//! What people type.

use crate::server::{Host, Postgres, facts, needs_postgres};
use crate::support::{LONG, Running, eventually, run};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn two_hosts_share_one_lock_and_everybody_sees_who_has_it() {
    if !needs_postgres() {
        return;
    }
    let server = Postgres::start();
    let (one, two) = (Host::new(&server), Host::new(&server));
    one.lock(&["status", "x"]).expect(0).prints("never held");
    one.lock(&["run", "x", "sh", "-c", "exit 3"]).expect(3).silent();
    let mut holder = one.hold(&["--note", "by the test"], "x");
    for host in [&one, &two] {
        host.lock(&["run", "x", "true"]).expect(75).one_line().says("x is held by pid ").says("token ");
        host.lock(&["status", "x"]).expect(75).prints("note: by the test");
        host.lock(&["list"]).expect(0).prints("held");
        host.lock(&["run", "-E", "9", "-q", "x", "true"]).expect(9).silent();
    }
    let token = one.token("x").to_string();
    two.lock(&["verify", "--token", &token, "x"]).expect(0).silent();
    two.lock(&["verify", "--token", "5", "x"]).expect(77);
    two.lock(&["tick", "--token", &token, "--every", "1s", "x"]).expect(0);
    eventually("a silent holder is stuck", || two.lock(&["status", "x"]).code == 76);
    two.lock(&["tick", "--token", "5", "x"]).expect(77);
    two.lock(&["wait", "-w", "0", "x"]).expect(76);
    holder.end();
    two.lock(&["status", "x"]).expect(0).prints("x is free");
    two.lock(&["verify", "--token", &token, "x"]).expect(77).says("released");
    let log = two.lock(&["log", "x"]).expect(0).stdout;
    assert_eq!(log.matches("acquired").count(), 2, "{log}");
    assert_eq!(log.matches("ended").count(), 2, "{log}");
    two.lock(&["log", "--json", "-n", "1", "x"]).expect(0).json();
    assert!(two.lock(&["list", "--json"]).expect(0).json()["locks"][0]["token"].is_u64());
}

#[test]
fn the_command_finds_its_token_and_the_database_and_no_password() {
    if !needs_postgres() {
        return;
    }
    let server = Postgres::start();
    let host = Host::new(&server);
    let url = host.url.replace("job@", "job:s3cret@");
    let script = "word=$(printf s3%s cret); echo $ORION_LOCK_NAME $ORION_LOCKS; env | grep -v ^word= | grep -c $word; \
                  tr '\\0' ' ' </proc/$PPID/cmdline | grep -c $word; \
                  $OL verify $ORION_LOCK_NAME && echo mine";
    let mut command = host.tool.tool("orion-lock", &["run", "x", "sh", "-c", script]);
    let done = run(command.env("ORION_VIA", &url)).expect(0).silent();
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert!(lines[0].starts_with("x x:"), "{lines:?}");
    assert_eq!(lines[1..], ["0", "0", "mine"], "{}", done.stdout);
    let done = host.tool.lock(&["--via", &url, "status", "x"]).expect(64).one_line();
    assert!(!done.stderr.contains("s3cret"), "{}", done.stderr);
    let files = Command::new("grep").args(["-r", "s3cret"]).arg(host.tool.dir()).output().unwrap();
    assert!(files.stdout.is_empty());
}

#[test]
fn what_a_lock_of_many_machines_has_not_is_refused_with_the_line_to_type() {
    if !needs_postgres() {
        return;
    }
    let server = Postgres::start();
    let host = Host::new(&server);
    for args in [
        &["acquire", "--owner", "1", "x"][..],
        &["release", "--token", "1", "x"],
        &["run", "--owner-only", "x", "true"],
        &["run", "--replace", "x", "true"],
        &["run", "--reentrant", "x", "true"],
        &["run", "--slots", "2", "x", "true"],
        &["run", "--shared", "x", "true"],
        &["run", "-w", "9s", "--max-waiting", "1", "x", "true"],
        &["run", "--grace", "5s", "x", "true"],
        &["run", "--grace", "30s", "--fence", "30s", "x", "true"],
        &["list", "--all-users"],
        &["verify", "--owner", "1", "x"],
        &["verify", "--orphan-ok", "--token", "1", "x"],
    ] {
        host.lock(args).expect(64).one_line();
    }
    host.lock(&["acquire", "--owner", "1", "x"]).says("exec orion-lock --via");
    host.lock(&["run", "--grace", "10m", "x", "true"]).expect(78).says("no longer grace than 1m");
    let tool = &host.tool;
    tool.lock(&["run", "--grace", "30s", "x", "true"]).expect(64).says("--via");
    tool.lock(&["init"]).expect(64).says("--via");
    tool.lock(&["--via", "nowhere", "run", "x", "true"]).expect(78).says("/etc/orion/via");
    assert!(!tool.dir().join("locks").exists(), "nothing was taken on this machine instead");
}

#[test]
fn a_waiter_on_another_host_has_it_at_once_and_stop_and_break_work_from_anywhere() {
    if !needs_postgres() {
        return;
    }
    let server = Postgres::start();
    let (one, two) = (Host::new(&server), Host::new(&server));
    let mut holder = one.hold(&[], "x");
    let mut waiter = two.command(&["run", "-w", "forever", "x", "sh", "-c", "echo up; read -r end"]);
    let waiter = std::thread::spawn(move || Running::start(&mut waiter));
    eventually("a waiter listens", || {
        server.sql("select count(*) from pg_stat_activity where usename = 'job'") == "2"
    });
    std::thread::sleep(Duration::from_millis(300));
    holder.end();
    let began = Instant::now();
    let mut waiter = waiter.join().unwrap();
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    let token = one.token("x").to_string();
    one.lock(&["break", "--yes", "--token", &token, "x"]).expect(75).says("stop --token");
    one.lock(&["stop", "--token", "7", "x"]).expect(77);
    let asked = Instant::now();
    one.lock(&["stop", "--token", &token, "-w", "30s", "x"]).expect(0);
    assert!(asked.elapsed() < Duration::from_secs(20));
    let done = waiter.end().expect(143).says("asked to end by 'stop'");
    assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
    one.lock(&["stop", "--token", &token, "x"]).expect(0);

    let facts_at = two.tool.path("facts");
    let mut holder = two.hold(&["--status-file", facts_at.to_str().unwrap()], "x");
    let token = one.token("x").to_string();
    one.lock(&["break", "--token", &token, "--owner-is-alive", "x"]).expect(64).says("--yes");
    one.lock(&["break", "--token", &token, "--owner-is-alive", "--yes", "x"]).expect(0);
    eventually("a broken run is killed", || facts(&facts_at).contains(&"lost".to_owned()));
    holder.end().expect(77).says("does not hold the lock any more");
    one.lock(&["run", "x", "true"]).expect(0);
}

#[test]
fn hold_keeps_it_by_hand_and_max_run_ends_a_run() {
    if !needs_postgres() {
        return;
    }
    let server = Postgres::start();
    let (one, two) = (Host::new(&server), Host::new(&server));
    let mut hold = Running::start(&mut one.command(&["hold", "--json", "x"]));
    two.lock(&["run", "x", "true"]).expect(75);
    hold.signal(rustix::process::Signal::INT);
    hold.end().expect(0);
    two.lock(&["run", "x", "true"]).expect(0).silent();
    let began = Instant::now();
    let line = "trap '' TERM; sleep 100 & wait; sleep 100";
    let done = one.lock(&["run", "--max-run", "300ms", "--kill-after", "300ms", "x", "sh", "-c", line]);
    done.expect(137).says("--max-run 300ms is over").says("KILL");
    assert!(began.elapsed() < LONG);
}

#[test]
fn a_run_that_is_asked_for_once_is_not_run_by_a_late_host() {
    if !needs_postgres() {
        return;
    }
    let server = Postgres::start();
    let (one, two) = (Host::new(&server), Host::new(&server));
    // One that cannot execute it does not starve the others.
    one.lock(&["run", "--once", "09:45", "x", "/nonexistent"]).expect(127);
    one.lock(&["run", "--once", "09:45", "x", "false"]).expect(1);
    two.lock(&["run", "--once", "09:45", "x", "true"])
        .expect(75)
        .one_line()
        .says("has run for '09:45' already");
    two.precheck(&["--once", "09:45", "x"]).expect(75).says("has run for '09:45' already");
    two.precheck(&["--once-ok", "09:45", "x"]).expect(0).silent();
    two.lock(&["run", "--once-ok", "09:45", "x", "true"]).expect(0);
    one.lock(&["run", "--once-ok", "09:45", "x", "true"]).expect(75).says("with 0; token ");
    two.precheck(&["--once-ok", "09:45", "x"]).expect(75);
    two.precheck(&["--cooldown", "1h", "x"]).expect(75).says("ended too short ago");
    two.precheck(&["--cooldown", "1ms", "x"]).expect(0).silent();
    one.lock(&["run", "--once", "10:00", "x", "true"]).expect(0);
    two.lock(&["run", "--cooldown", "1h", "x", "true"]).expect(75).says("ended too short ago");
    two.lock(&["run", "--cooldown", "1ms", "x", "true"]).expect(0);
    // A run that was killed counts from when it began, and its end from when it was found.
    let mut holder = one.hold(&["--once", "11:00"], "x");
    eventually("the run is written down", || server.sql("select ran_key from orion.lock") == "11:00");
    holder.kill();
    eventually("its guardian gives it back", || two.lock(&["status", "x"]).code == 0);
    two.lock(&["run", "--once", "11:00", "x", "true"]).expect(75);
    two.lock(&["run", "--cooldown", "1h", "x", "true"]).expect(75);
}

#[test]
fn of_many_that_start_at_once_one_wins() {
    if !needs_postgres() {
        return;
    }
    let server = Postgres::start();
    let hosts: Vec<Host> = (0..24).map(|_| Host::new(&server)).collect();
    let [winners, go, over] = ["winners", "go", "over"].map(|file| hosts[0].tool.path(file));
    let line = "while [ ! -e $GO ]; do sleep 0.01; done; \
                exec $OL --via $URL run x sh -c 'echo won >>$WINNERS; while [ ! -e $OVER ]; do sleep 0.01; done'";
    let mut racers = Racers(Vec::new());
    for host in &hosts {
        let mut command = host.tool.command("sh");
        command
            .args(["-c", line])
            .env("URL", &host.url)
            .env("GO", &go)
            .env("WINNERS", &winners)
            .env("OVER", &over);
        racers.0.push(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    }
    std::fs::write(&go, "").unwrap();
    let mut codes = Vec::new();
    let end = Instant::now() + LONG;
    while codes.len() < 23 {
        assert!(Instant::now() < end, "{} still run", racers.0.len());
        racers.0.retain_mut(|racer| {
            let ended = racer.try_wait().unwrap();
            codes.extend(ended.map(|status| status.code().unwrap()));
            ended.is_none()
        });
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(codes.iter().all(|code| *code == 75), "{codes:?}");
    std::fs::write(&over, "").unwrap();
    assert!(racers.0[0].wait().unwrap().success());
    assert_eq!(std::fs::read_to_string(&winners).unwrap().lines().count(), 1);
}

/// Killed at the end of the test; a guardian ends what its supervisor started.
struct Racers(Vec<Child>);

impl Drop for Racers {
    fn drop(&mut self) {
        for racer in &mut self.0 {
            racer.kill().ok();
            racer.wait().ok();
        }
    }
}
