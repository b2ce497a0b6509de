//! Tickets, with a database that decides who gets them. A machine is a state directory; the tracker is a directory of
//! files that all of them see.

use crate::claims::Board;
use crate::server::{Host, Postgres, needs_postgres};
use crate::support::{Done, KillOnDrop, Running, eventually, run};
use rustix::process::Signal;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// Machines that share a tracker and a database.
struct Machines {
    server: Postgres,
    board: Board,
}

impl Machines {
    /// With a ticket K-1 in the queue.
    fn new() -> Self {
        let (server, board) = (Postgres::start(), Board::with(&["K-1"]));
        let machines = Self { server, board };
        machines.use_database(&machines.server.url("job"));
        machines
    }

    /// The settings of every machine.
    fn use_database(&self, url: &str) {
        for machine in ["a", "b", "m0", "m1", "m2", "m3"] {
            let settings = format!(
                "arbiter = {url:?}\narbiter_grace = \"2200ms\"\narbiter_fence = \"1200ms\"\n\
                 tick_every = \"1s\"\nhost = \"{machine}\"\n",
            );
            std::fs::write(self.settings(machine), settings).unwrap();
        }
    }

    fn settings(&self, machine: &str) -> PathBuf {
        self.board.tool.path(&format!("{machine}.toml"))
    }

    fn dir(&self, machine: &str) -> PathBuf {
        self.board.tool.path(machine)
    }

    fn command(&self, machine: &str, args: &[&str]) -> Command {
        let mut command = self.board.machine(&self.dir(machine), args);
        command.env("ORION_CLAIM_CONFIG", self.settings(machine));
        command
    }

    #[track_caller]
    fn claim(&self, machine: &str, args: &[&str]) -> Done {
        run(&mut self.command(machine, args))
    }

    /// A run that says that it is up, works until its stdin closes, and ends with 0.
    fn hold(&self, machine: &str) -> Running {
        let script = "echo $$ $PPID $ORION_CLAIM_TOKEN${ORION_CLAIM_ROW:+ row}; read -r end; exit 0";
        Running::start(&mut self.command(machine, &["run", "K-1", "sh", "-c", script]))
    }

    /// The row of K-1: token, released, backend's session there.
    fn row(&self) -> (u64, bool) {
        let text = self.server.sql("select token, released_at is not null from orion.lock where kind = 'claim' and name like '%/K-1'");
        let (token, released) = text.split_once('|').unwrap_or_else(|| panic!("no row: {text}"));
        (token.parse().unwrap(), released == "t")
    }

    fn labels(&self) -> Vec<String> {
        self.board.labels("K-1")
    }
}

#[test]
fn the_row_decides_whatever_the_labels_say_and_its_token_is_the_claims() {
    if !needs_postgres() {
        return;
    }
    let machines = Machines::new();
    let mut held = machines.hold("a");
    let words: Vec<String> = held.line.split(' ').map(str::to_owned).collect();
    assert_eq!(words.len(), 3, "nothing of the row reaches the command: {words:?}");
    let (token, released) = machines.row();
    assert_eq!((words[2].as_str(), released), (token.to_string().as_str(), false));
    assert_eq!(machines.board.record_of(&machines.dir("a"), "K-1")["token"], token);
    machines.claim("a", &["verify", "--token", &words[2], "K-1"]).expect(0);
    machines.claim("b", &["run", "K-1", "true"]).expect(75).says("is not in the queue");
    // A person queues it again while it is worked on: the label says free, and the row does not.
    machines.board.put("K-1", &["orion-queue"]);
    machines.claim("b", &["run", "K-1", "true"]).expect(75).says("is held by pid");
    let own = std::process::id().to_string();
    machines.claim("b", &["acquire", "--for", &own, "K-1"]).expect(75).says("is held by pid");
    assert_eq!(machines.labels(), ["orion-queue"], "a loser wrote nothing");
    machines.claim("b", &["free", "--yes", "K-1"]).expect(64);
    held.end();
    assert!(machines.row().1, "given back with the end of the run");
    machines.claim("b", &["run", "K-1", "true"]).expect(0);
    assert_eq!(machines.labels(), ["orion-ready"]);
    assert!(machines.row().0 > token, "tokens rise from machine to machine");
}

#[test]
fn of_many_machines_that_start_at_once_one_works() {
    if !needs_postgres() {
        return;
    }
    let machines = Machines::new();
    let worked = machines.board.tool.path("worked");
    let script = format!("echo x >>{}", worked.display());
    let racers: Vec<_> = (0..8)
        .map(|racer| {
            let machine = format!("m{}", racer % 4);
            machines.command(&machine, &["-q", "run", "K-1", "sh", "-c", &script]).spawn().unwrap()
        })
        .collect();
    let codes: Vec<_> = racers.into_iter().map(|mut racer| racer.wait().unwrap().code().unwrap()).collect();
    assert_eq!(codes.iter().filter(|code| **code == 0).count(), 1, "{codes:?}");
    assert!(codes.iter().all(|code| [0, 75].contains(code)), "{codes:?}");
    assert_eq!(std::fs::read_to_string(worked).unwrap(), "x\n");
}

#[test]
fn the_ticket_of_a_machine_that_is_gone_goes_back_into_the_queue_after_its_grace() {
    if !needs_postgres() {
        return;
    }
    let machines = Machines::new();
    let mut held = machines.hold("a");
    let pids: Vec<u32> = held.line.split(' ').take(2).map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(machines.claim("b", &["reconcile"]).expect(0).stdout, "", "it lives");
    // The machine is gone at one stroke, and so is everything on it.
    let gone = [parent(pids[1]), pids[1], pids[0]].map(KillOnDrop::of);
    held.signal(Signal::STOP);
    gone.iter().for_each(|process| process.signal(Signal::STOP));
    gone.iter().for_each(KillOnDrop::kill);
    held.kill();
    eventually("its session is gone", || {
        machines.server.sql("select count(*) from pg_locks where locktype = 'advisory'") == "0"
    });
    std::fs::rename(machines.dir("a"), machines.dir("gone")).unwrap();
    assert_eq!(machines.labels(), ["orion-working"]);
    machines.claim("b", &["reconcile", "--dry-run"]).expect(0).prints("would be taken over");
    let begun = Instant::now();
    machines.claim("b", &["reconcile"]).expect(0).prints("taken over, back into the queue");
    assert!(begun.elapsed() >= Duration::from_millis(2200), "{:?}", begun.elapsed());
    assert_eq!(machines.labels(), ["orion-queue"]);
    assert!(machines.row().1);
    assert_eq!(machines.claim("b", &["reconcile"]).expect(0).stdout, "", "a second pass changes nothing");
    machines.claim("b", &["run", "K-1", "true"]).expect(0);
    // Its own pass, should it come back: the ticket is somebody else's.
    std::fs::rename(machines.dir("gone"), machines.dir("a")).unwrap();
    machines.claim("a", &["reconcile"]).expect(0).prints("set aside");
    assert_eq!(machines.labels(), ["orion-ready"]);
}

fn parent(pid: u32) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_machine_that_lost_the_database_stops_its_run_and_writes_nothing_to_a_ticket_that_was_taken_over() {
    if !needs_postgres() {
        return;
    }
    let machines = Machines::new();
    let ticks = machines.board.tool.path("ticks");
    let script = format!("echo $$; while :; do echo >>{}; sleep 0.01; done", ticks.display());
    let mut held = Running::start(&mut machines.command("a", &["run", "K-1", "sh", "-c", &script]));
    let (door, away) = (machines.server.door(), machines.server.dir().join("away"));
    std::fs::rename(&door, &away).unwrap();
    std::os::unix::fs::symlink(&away, machines.server.dir().join(".s.PGSQL.1")).unwrap();
    let end = "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'job'";
    machines.server.sql_by("1", end);
    machines.use_database(
        &machines.server.url("job").replace(&format!("port={}", machines.server.port), "port=1"),
    );
    machines.claim("b", &["reconcile"]).expect(0).prints("taken over");
    let stopped = std::fs::metadata(&ticks).unwrap().len();
    assert_eq!(machines.labels(), ["orion-queue"]);
    std::fs::rename(&away, &door).unwrap();
    held.end().expect(77).says("does not hold the lock any more");
    assert_eq!(std::fs::metadata(&ticks).unwrap().len(), stopped, "it stood since before the take-over");
    assert_eq!(machines.labels(), ["orion-queue"], "it wrote nothing");
}

#[test]
fn what_was_decided_is_carried_out_when_the_database_is_back() {
    if !needs_postgres() {
        return;
    }
    let mut machines = Machines::new();
    let own = std::process::id().to_string();
    let acquired = machines.claim("a", &["acquire", "--for", &own, "--print-token", "K-1"]).expect(0);
    let token = acquired.stdout.trim().to_owned();
    machines.claim("a", &["verify", "--token", &token, "K-1"]).expect(0);
    // Without a session, and without a grace: nobody takes it over.
    let kept = machines.claim("b", &["reconcile"]).expect(0);
    assert_eq!(kept.stdout, "");
    machines.board.put("K-3", &["orion-queue"]);
    machines.claim("a", &["acquire", "--for", &own, "K-3"]).expect(0);
    machines.board.put("K-3", &["orion-queue"]);
    machines
        .claim("b", &["run", "K-3", "true"])
        .expect(69)
        .says("orion-claim --arbiter")
        .says("free --yes K-3");
    machines.claim("a", &["acquire", "--for", &own, "K-1"]).expect(75);
    machines.server.stop(Signal::INT);
    machines.claim("a", &["verify", "--token", &token, "K-1"]).expect(69);
    machines.claim("b", &["run", "K-1", "true"]).expect(75);
    machines.board.put("K-2", &["orion-queue"]);
    machines.claim("b", &["run", "K-2", "true"]).expect(69).says("no answer from");
    assert_eq!(machines.board.labels("K-2"), ["orion-queue"], "no database, no claim");
    machines.claim("b", &["reconcile"]).expect(69).one_line().says("could not be asked");
    drop(
        machines
            .claim("a", &["release", "--token", &token, "--to", "ready", "K-1"])
            .says("not given back yet"),
    );
    drop(machines.claim("a", &["reconcile"]).prints("no answer from"));
    machines.server.start_again();
    machines.claim("a", &["reconcile"]);
    assert!(machines.row().1, "given back by the next pass");
}

#[test]
fn a_claim_whose_owner_ended_is_freed_by_its_own_machine_and_by_a_person() {
    if !needs_postgres() {
        return;
    }
    let machines = Machines::new();
    for person in [false, true] {
        machines.board.put("K-1", &["orion-queue"]);
        let owner = crate::claims::Owner::new();
        machines.claim("a", &["acquire", "--for", &owner.id(), "K-1"]).expect(0);
        assert!(!machines.row().1);
        owner.end();
        if person {
            machines.claim("b", &["free", "--host", "a", "--yes", "K-1"]).expect(0);
        } else {
            machines.claim("a", &["reconcile"]).expect(0).prints("put back into the queue");
        }
        assert!(machines.row().1, "the row with the ticket");
        assert_eq!(machines.labels(), ["orion-queue"]);
        machines.claim("b", &["run", "K-1", "true"]).expect(0);
    }
}

#[test]
fn an_arbiter_that_cannot_be_one_is_refused_with_what_to_type() {
    if !needs_postgres() {
        return;
    }
    let machines = Machines::new();
    let with = |arbiter: &str, args: &[&str]| {
        let mut command = machines.board.machine(&machines.dir("a"), &["--arbiter", arbiter]);
        run(command.args(args))
    };
    with("datbase", &["next"]).expect(78).one_line().says("git-ref, none, or a database");
    let secret = with("postgres://job:hunter2@db/locks", &["next"]).expect(78).one_line();
    assert!(!secret.stderr.contains("hunter2"), "{}", secret.stderr);
    secret.says("PGPASSFILE");
    with("postgres://job@[::1/locks", &["run", "K-1", "true"]).expect(78).one_line();
    with("database", &["run", "K-1", "true"]).expect(64).says("ORION_VIA");
    let mut by_variable = machines.board.machine(&machines.dir("a"), &["--arbiter", "database"]);
    by_variable.env("ORION_VIA", machines.server.url("job"));
    run(by_variable.args(["init", "--check"])).expect(0).prints("the database that decides answers");
    with(&machines.server.url("job"), &["run", "--owner-only", "K-1", "true"]).expect(64).one_line();
    let host = Host::new(&machines.server);
    assert_eq!(
        host.lock(&["--json", "list"]).json()["locks"].as_array().map_or(0, Vec::len),
        0,
        "tickets are no locks"
    );
}
