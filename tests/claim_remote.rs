//! What servers say beside labels: who is on a ticket, what it waits for, whether
//! our token still works. And what nobody may ever read: secrets.

#[path = "support/claims.rs"]
mod claims;
#[path = "support/remote.rs"]
mod remote;
mod support;
#[path = "support/tracker_server.rs"]
mod tracker_server;

use claims::Owner;
use remote::{Dialect, Remote, SECRET};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Done, Running, needs, run};

#[test]
fn what_waits_for_another_ticket_or_is_somebody_elses_is_not_offered() {
    for dialect in Dialect::ALL {
        let remote = Remote::with(dialect, 4);
        let keys: Vec<String> = (1..=4).map(|number| remote.key(number)).collect();
        {
            let mut world = remote.server.world();
            world.change(&keys[0], |ticket| ticket.blockers = vec![keys[3].clone()]);
            world.change(&keys[1], |ticket| ticket.assignees = vec!["ann".to_owned()]);
            world.change(&keys[2], |ticket| ticket.assignees = vec!["Shared-Bot".to_owned()]);
        }
        let next = || remote.claim(&["next"]).expect(0).stdout.trim().to_owned();
        assert_eq!(next(), keys[2], "{dialect:?}");
        let said = remote.claim(&["next", "-v"]).expect(0).stderr;
        assert!(said.contains(&format!("{} is not offered: blocked by ", keys[0])), "{dialect:?}: {said}");
        let ann = format!("{} is not offered: assigned to ann, and we are shared-bot", keys[1]);
        assert!(said.contains(&ann), "{dialect:?}: {said}");
        let object = remote.claim(&["next", "--json"]).json();
        assert_eq!(
            (&object["queued"], &object["not_offered"][1]["key"]),
            (&2.into(), &keys[1].as_str().into())
        );
        let first = remote.claim(&["next", "--ignore-assignee"]).expect(0).stdout;
        assert_eq!(first.trim(), keys[1], "{dialect:?}");
        // Its blocker is done.
        remote.server.world().close(&keys[3], true);
        assert_eq!(next(), keys[0], "{dialect:?}");
    }
}

/// A private file with that text.
fn private(remote: &Remote, name: &str, text: &str) -> PathBuf {
    let path = remote.tool.path(name);
    std::fs::write(&path, text).expect("write");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("chmod");
    path
}

/// The remote with its token from the settings file and not from the environment.
fn with_settings(remote: &Remote, args: &[&str], settings: &Path) -> Command {
    let mut command = remote.command(args);
    for (name, _) in remote.environment().iter().filter(|(_, value)| value == SECRET) {
        command.env_remove(name);
    }
    command.env("ORION_CLAIM_CONFIG", settings);
    command
}

/// Files below a directory that hold a text.
fn holding(dir: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for name in support::names_in(dir) {
        let path = dir.join(name);
        if path.is_dir() {
            found.extend(holding(&path, text));
        } else if std::fs::read(&path).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(text)) {
            found.push(path);
        }
    }
    found
}

#[track_caller]
fn shows_no(secrets: &[&str], done: &Done) {
    for secret in secrets {
        assert!(!done.stdout.contains(secret) && !done.stderr.contains(secret), "{secret}: {done:?}");
    }
}

/// Every subcommand, with what it needs.
fn every_command(owner: &str) -> Vec<Vec<&str>> {
    vec![
        vec!["--print-config"],
        vec!["--print-config", "--json"],
        vec!["init"],
        vec!["init", "--check"],
        vec!["next", "-v"],
        vec!["acquire", "--for", owner, "1"],
        vec!["run", "1", "true"],
        vec!["tick", "--token", "1", "1"],
        vec!["stage", "--token", "1", "1", "x"],
        vec!["verify", "--token", "1", "1"],
        vec!["release", "--token", "1", "--to", "ready", "1"],
        vec!["list"],
        vec!["status", "-v", "1"],
        vec!["reconcile"],
        vec!["watch", "true"],
        vec!["free", "--yes", "1"],
    ]
}

#[test]
fn g36_an_address_with_a_secret_is_refused_by_every_command_and_never_repeated() {
    const PLANTED: &str = "hunter2pw";
    let remote = Remote::with(Dialect::GitHub, 1);
    let owner = Owner::new();
    let settings = |text: &str| private(&remote, "settings.toml", text);
    let plain = settings("");
    type Plant<'a> = (&'a str, Box<dyn Fn(&mut Command) + 'a>);
    let by_file = |text: &'static str| -> Box<dyn Fn(&mut Command) + '_> {
        Box::new(move |command| {
            command.env("ORION_CLAIM_CONFIG", settings(text));
        })
    };
    let by_variable = |name: &'static str, value: &'static str| -> Box<dyn Fn(&mut Command)> {
        Box::new(move |command| {
            command.env(name, value);
        })
    };
    let plants: Vec<Plant<'_>> = vec![
        ("password", by_variable("ORION_TRACKER", "jira:https://me:hunter2pw@host.example/AB")),
        ("no scheme", by_variable("ORION_TRACKER", "jira:me:hunter2pw@host.example/AB")),
        ("token", by_variable("GITHUB_API_URL", "https://hunter2pw@ghe.example/api/v3")),
        ("query", by_variable("GITHUB_API_URL", "https://ghe.example/api/v3?token=hunter2pw")),
        ("user", by_variable("ORION_TRACKER_USER", "me:hunter2pw")),
        ("git", by_file("git_remote = \"https://hunter2pw@host.example/r\"\narbiter = \"git-ref\"")),
        ("git unused", by_file("git_remote = \"https://me:hunter2pw@host.example/r\"")),
        ("token file", by_file("token_file = \"hunter2pw\"")),
        ("in words", by_file("token_command = \"hunter2pw\"")),
    ];
    for (what, plant) in &plants {
        for args in every_command(&owner.id()) {
            let mut command = remote.command(&args);
            command.env("ORION_CLAIM_CONFIG", &plain);
            plant(&mut command);
            if *what == "in words" {
                command.env_remove("GH_TOKEN");
            }
            let done = run(&mut command);
            assert_eq!(done.code, 78, "{what} {args:?}: {done:?}");
            shows_no(&[PLANTED], &done);
        }
    }
    let typed = run(&mut remote.command(&["--tracker", "jira:https://me:hunter2pw@host.example/AB", "list"]));
    shows_no(&[PLANTED], &typed.expect(78).says("token_file"));
    assert!(holding(&remote.tool.dir(), PLANTED).is_empty());
    assert!(remote.server.world().seen.is_empty(), "nothing was asked");
}

/// Every program that is started, by us or by what we start, with its arguments.
#[test]
fn g36_no_secret_is_in_any_argument_output_log_or_record() {
    if !needs("strace") || !needs("git") {
        return;
    }
    for dialect in Dialect::ALL {
        let remote = Remote::with(dialect, 1);
        let key = remote.key(1);
        remote.server.world().scopes = Some("repo".to_owned());
        let git = remote.tool.path("remote.git");
        run(Command::new("git").args(["init", "-q", "--bare"]).arg(&git)).expect(0);
        let token = private(&remote, "token", SECRET);
        let asked = remote.tool.path("asked");
        let script = format!("echo x >> {}; cat {}", asked.display(), token.display());
        let settings = private(
            &remote,
            "settings.toml",
            &format!(
                "arbiter = \"git-ref\"\ngit_remote = {:?}\ntoken_command = [\"sh\", \"-c\", {script:?}]\n",
                git.display().to_string()
            ),
        );
        let trace = remote.tool.path("trace");
        let owner = Owner::new();
        let traced = |args: &[&str]| {
            let plain = with_settings(&remote, args, &settings);
            let mut command = Command::new("strace");
            command.args(["-f", "-A", "-s", "65536", "-e", "trace=execve", "-o"]).arg(&trace);
            command.arg(plain.get_program()).args(plain.get_args());
            for (name, value) in plain.get_envs() {
                match value {
                    Some(value) => command.env(name, value),
                    None => command.env_remove(name),
                };
            }
            let done = run(&mut command);
            shows_no(&[SECRET], &done);
            done
        };
        traced(&["--print-config", "--json"]).expect(0);
        traced(&["init"]).expect(0);
        traced(&["next", "-v"]).expect(0);
        traced(&["acquire", "--for", &owner.id(), &key]).expect(0);
        traced(&["list", "--json"]).expect(0);
        traced(&["status", "-v", &key]);
        traced(&["reconcile", "-v"]).expect(0);
        traced(&["free", "--yes", &key]);
        owner.end();
        traced(&["reconcile"]).expect(0);
        traced(&["run", &key, "--", "sh", "-c", "cat /proc/$PPID/cmdline /proc/self/cmdline"]).expect(0);
        // The server repeats what it was sent, and refuses it.
        remote.server.world().accepts = Some("nobody's".to_owned());
        traced(&["list", "-v"]).expect(78).says("(token)");
        let trace = std::fs::read_to_string(&trace).expect("trace");
        assert!(trace.contains("\"git\"") && trace.contains("orion-claim"), "{trace}");
        assert!(!trace.contains(SECRET), "{trace}");
        assert!(asked.exists(), "the token came from the program");
        assert_eq!(holding(&remote.tool.dir(), SECRET), Vec::<PathBuf>::new());
    }
}

/// A git that calls us lends us its repository by the environment: ours is another.
#[test]
fn the_environment_of_a_git_hook_does_not_lead_us_astray() {
    if !needs("git") {
        return;
    }
    let remote = Remote::with(Dialect::Jira, 1);
    let git = remote.tool.path("remote.git");
    let other = remote.tool.path("other.git");
    for dir in [&git, &other] {
        run(Command::new("git").args(["init", "-q", "--bare"]).arg(dir)).expect(0);
    }
    let text = format!("arbiter = \"git-ref\"\ngit_remote = {:?}\n", git.display().to_string());
    let settings = private(&remote, "settings.toml", &text);
    let owner = Owner::new();
    let mut command = remote.command(&["acquire", "--for", &owner.id(), "AB-1"]);
    command.env("ORION_CLAIM_CONFIG", settings);
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_INDEX_FILE"] {
        command.env(name, &other);
    }
    command.env("GIT_NAMESPACE", "astray").env("GIT_QUARANTINE_PATH", &other).env("GIT_SHALLOW_FILE", &other);
    run(&mut command).expect(0);
    let refs = |dir: &Path| run(Command::new("git").arg("-C").arg(dir).args(["for-each-ref"])).stdout;
    assert!(refs(&git).contains("refs/orion/claims/") && !refs(&git).contains("astray"), "{}", refs(&git));
    assert_eq!(refs(&other), "");
}

#[test]
fn g43_a_token_that_ended_is_read_again_and_the_request_sent_once_more() {
    for dialect in Dialect::ALL {
        let remote = Remote::with(dialect, 1);
        let key = remote.key(1);
        let count = remote.tool.path("count");
        let script = format!("echo x >> {0}; echo tok-$(wc -l < {0})-end", count.display());
        let text = format!("token_command = [\"sh\", \"-c\", {script:?}]\n");
        let settings = private(&remote, "settings.toml", &text);
        remote.server.world().accepts = Some("tok-2-end".to_owned());
        let owner = Owner::new();
        let done = run(&mut with_settings(&remote, &["acquire", "--for", &owner.id(), &key], &settings));
        shows_no(&["tok-1-end", "tok-2-end"], &done.expect(0));
        let seen = remote.server.world().seen.clone();
        let with = |token: &str| seen.iter().filter(|one| one.authorization.contains(token)).count();
        assert_eq!((with("tok-1-end"), with("tok-2-end")), (1, seen.len() - 1), "{dialect:?}");
        assert_eq!(remote.labels(&key), ["orion-working"]);
        // One that is refused again is 78, after two requests and no more.
        remote.server.world().accepts = Some("nobody's".to_owned());
        let before = remote.server.world().seen.len();
        let done = run(&mut with_settings(&remote, &["list"], &settings));
        shows_no(&["tok-3-end", "tok-4-end"], &done.expect(78).says("401"));
        assert_eq!(remote.server.world().seen.len() - before, 2, "{dialect:?}");
        owner.end();
    }
}

/// A file gets a new token while a watch runs.
#[test]
fn g43_a_watch_goes_on_with_the_new_token_of_its_file() {
    let remote = Remote::with(Dialect::GitHub, 1);
    let token = private(&remote, "token", "old-tok\n");
    let text = format!("token_file = {:?}\n[watch]\nevery = \"200ms\"\n", token.display().to_string());
    let settings = private(&remote, "settings.toml", &text);
    remote.server.world().accepts = Some("old-tok".to_owned());
    // Its first line says that the first ticket was begun.
    let mut watch =
        Running::start(&mut with_settings(&remote, &["watch", "--json", "--", "true"], &settings));
    support::eventually("the first ticket is done", || remote.labels("1") == ["orion-ready"]);
    std::fs::write(&token, "new-tok\n").expect("write");
    {
        let mut world = remote.server.world();
        world.accepts = Some("new-tok".to_owned());
        world.queued("2");
    }
    support::eventually("the second ticket is done", || remote.labels("2") == ["orion-ready"]);
    watch.signal(rustix::process::Signal::TERM);
    watch.end().expect(0);
}

#[test]
fn g37_init_proves_what_it_claims_or_says_that_it_cannot() {
    for dialect in Dialect::ALL {
        let remote = Remote::with(dialect, 1);
        let check = |remote: &Remote| remote.claim(&["init", "--check"]);
        remote.server.world().scopes = Some("repo, gist".to_owned());
        remote.claim(&["init"]).expect(0);
        let writes = remote.writes();
        let done = check(&remote).expect(0);
        assert!(done.stdout.contains("be listed: 1 "), "{done:?}");
        // Nowhere does Gitea tell what a token may.
        let unproved = done.stdout.lines().any(|line| line.starts_with('?'));
        assert_eq!(unproved, dialect == Dialect::Gitea, "{dialect:?}: {done:?}");
        // Nobody says what the token may: that is not "may".
        remote.server.world().no_rights_told = true;
        let done = check(&remote).expect(0).prints("?   whether ");
        assert!(!done.stdout.contains(" may change labels\n"), "{done:?}");
        let object = remote.claim(&["init", "--check", "--json"]).json();
        let findings = object["findings"].as_array().expect("findings").clone();
        assert!(findings.iter().any(|finding| finding["proved"] == false), "{object}");
        remote.server.world().no_rights_told = false;
        // A token without the right.
        remote.server.world().scopes = Some(String::new());
        check(&remote).expect(78).prints("BAD");
        remote.server.world().scopes = None;
        // No token at all.
        let settings = private(&remote, "none.toml", "");
        let none = run(&mut with_settings(&remote, &["init", "--check"], &settings));
        none.expect(78).prints("BAD no token is set");
        // Refused and not known.
        for status in [401, 403] {
            remote.server.fault(tracker_server::Fault::status("", usize::MAX, status, &[]));
            let done = check(&remote).expect(78);
            assert!(done.stderr.contains(&status.to_string()), "{done:?}");
            remote.server.world().faults.clear();
        }
        // Later is not never.
        remote.server.fault(tracker_server::Fault::status("", 9, 403, &[("retry-after", "3600")]));
        check(&remote).expect(69);
        remote.server.world().faults.clear();
        // Every list that a claim needs is read, and nothing is written.
        remote.server.fault(tracker_server::Fault::status("abels", 9, 500, &[]));
        check(&remote).expect(69);
        assert_eq!(remote.writes(), writes, "{dialect:?}");
    }
}

#[test]
fn a_watch_comes_back_when_the_server_wants_it_and_not_before() {
    let remote = Remote::with(Dialect::GitHub, 1);
    let settings = private(&remote, "settings.toml", "patience = \"0s\"\n[watch]\nevery = \"50ms\"\n");
    remote.server.fault(tracker_server::Fault::status("", 1, 429, &[("retry-after", "3600")]));
    let mut command = remote.command(&["watch", "--json", "--", "true"]);
    let mut watch = Running::start(command.env("ORION_CLAIM_CONFIG", settings));
    let event: serde_json::Value = serde_json::from_str(&watch.line).expect("an event");
    assert_eq!(event["event"], "slowed");
    assert!(event["detail"].as_str().is_some_and(|detail| detail.ends_with("again in 1h")), "{event}");
    let seen = remote.server.world().seen.len();
    // Ten times the watch's own pause.
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(remote.server.world().seen.len(), seen, "nothing was asked meanwhile");
    assert_eq!(remote.labels("1"), ["orion-queue"]);
    watch.signal(rustix::process::Signal::TERM);
    watch.end().expect(0);
}
