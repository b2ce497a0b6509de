//! The database as its other users see it: what a lock costs them, what `orion.fence` gives them, and what a run does
//! when they have taken all connections.

use crate::server::{Host, Postgres, facts, guardian, needs_postgres};
use crate::support::{KillOnDrop, Running, eventually};
use std::process::Command;

/// psql(1) as the role of the jobs, which reads what it is told.
fn psql(server: &Postgres) -> Running {
    let mut psql = Command::new("psql");
    psql.args(["-XAtq", "-v", "VERBOSITY=sqlstate", "-U", "job", "-d", "locks", "-h"]).arg(server.dir());
    psql.args(["-p", &server.port.to_string()]).args(["-c", "select 'ready'", "-f", "-"]);
    Running::start(&mut psql)
}

#[test]
fn a_lock_and_its_waiters_hold_back_no_vacuum_and_no_index() {
    if !needs_postgres() {
        return;
    }
    let server = Postgres::start();
    let (one, two) = (Host::new(&server), Host::new(&server));
    let mut held = one.hold(&[], "x");
    let mut waiter = two.command(&["run", "-w", "forever", "x", "true"]).spawn().unwrap();
    let listens = "select count(*) from pg_stat_activity where usename = 'job' and query like '%take_1%'";
    eventually("it waits", || server.sql(listens) != "0");
    server.sql("create table t(n int)");
    server.sql("insert into t select generate_series(1, 100)");
    let pins = "select count(*) from pg_stat_activity where usename = 'job' and backend_xmin is not null";
    eventually("nothing is pinned between two questions", || server.sql(pins) == "0");
    server.sql("set statement_timeout = '30s'; create index concurrently i on t(n)");
    held.end().expect(0);
    assert!(waiter.wait().unwrap().success());
}

#[test]
fn the_fence_refuses_an_old_token_and_a_release_waits_for_the_write_beside_it() {
    if !needs_postgres() {
        return;
    }
    let server = Postgres::start();
    let (one, two) = (Host::new(&server), Host::new(&server));
    let mut held = one.hold(&[], "x");
    let token = one.token("x");
    let mut writer = psql(&server);
    writer.tell(&format!("begin; select 'fenced' || coalesce(orion.fence('x', {token})::text, '');"));
    assert_eq!(writer.next_line(), "fenced");
    let breaks = ["break", "--owner-is-alive", "--yes", "--token", &token.to_string(), "x"];
    let mut breaking = two.command(&breaks).spawn().unwrap();
    let waits = "select count(*) from pg_stat_activity where usename = 'job' and wait_event_type = 'Lock'";
    eventually("it waits for the transaction", || server.sql(waits) == "1");
    assert!(breaking.try_wait().unwrap().is_none());
    writer.tell("commit; select 'committed';");
    assert_eq!(writer.next_line(), "committed");
    assert!(breaking.wait().unwrap().success());
    writer.tell(&format!("select orion.fence('x', {token});"));
    writer.tell(&format!("select orion.fence('x', {}); select 'over';", token + 1));
    assert_eq!(writer.next_line(), "over");
    let done = writer.end();
    assert_eq!(done.stderr.matches("OR001").count(), 2, "{}", done.stderr);
    held.kill();
}

#[test]
fn when_all_connections_are_taken_nobody_begins_and_a_holder_finds_its_way_back() {
    if !needs_postgres() {
        return;
    }
    let server = Postgres::start();
    let (one, two) = (Host::new(&server), Host::new(&server));
    let path = one.tool.path("facts");
    let mut held = one.hold(&["--status-file", path.to_str().unwrap()], "x");
    let mut other = psql(&server);
    server.sql("alter role job connection limit 2");
    two.lock(&["run", "y", "true"]).expect(69).one_line().says("no connection is free");
    server.sql("alter role job connection limit 1");
    let query =
        "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'job' and query like '%_1(%'";
    server.sql(query);
    eventually("it is cut", || facts(&path).iter().any(|fact| fact == "cut"));
    other.end();
    eventually("it is there again", || facts(&path).iter().any(|fact| fact == "attached"));
    held.end().expect(0);
}

#[test]
fn a_run_that_promised_no_grace_is_taken_over_by_nobody_but_a_person() {
    if !needs_postgres() {
        return;
    }
    let server = Postgres::start();
    let (one, two) = (Host::new(&server), Host::new(&server));
    let path = one.tool.path("facts");
    let mut held = one.hold(&["--grace", "never", "--status-file", path.to_str().unwrap()], "x");
    let token = one.token("x").to_string();
    let guard = KillOnDrop::of(guardian(&path));
    held.signal(rustix::process::Signal::STOP);
    guard.kill();
    held.kill();
    eventually("its session is gone", || two.state("x") == "cut");
    let refused = two.lock(&["run", "x", "true"]).expect(69).one_line();
    assert!(
        refused.stderr.contains("--grace never") && refused.stderr.contains("break --token"),
        "{}",
        refused.stderr
    );
    two.lock(&["break", "--yes", "--token", &token, "x"]).expect(0);
    two.lock(&["run", "x", "true"]).expect(0);
}
