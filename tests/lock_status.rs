//! `status`, `list`, `log`, `where`: what is going on, without changing anything.

mod support;

use support::{Running, Tool, needs_root, run};

#[test]
fn status_has_a_code_and_a_sentence_for_every_state() {
    let tool = Tool::new();
    let dir = tool.dir().display().to_string();
    tool.lock(&["status", "sync"]).expect(0).silent().prints("free, never held in").prints(&dir);
    assert!(!tool.dir().exists(), "looking creates nothing");
    let mut holder = tool.hold("sync");
    let done = tool.lock(&["status", "sync"]).expect(75).silent();
    let pid = holder.pid();
    assert!(done.stdout.contains(&format!("sync is held by pid {pid} (sh, uid ")), "{done:?}");
    assert!(done.stdout.contains("command: sh -c echo up; read -r end; exit 0"), "{done:?}");
    assert!(done.stdout.contains("directory: /"), "{done:?}");
    tool.lock(&["status", "-v", "sync"]).expect(75).prints("rule 4").prints("looked in");
    holder.end();
    tool.lock(&["status", "sync"]).expect(0).prints("free").prints("has ended").prints(&dir);
    tool.sh("\"$OL\" acquire --owner $$ sync; \"$OL\" release --owner $$ sync").expect(0);
    tool.lock(&["status", "sync"]).expect(0).prints("released it at");
    tool.edit_record("sync", |record| {
        record["released_at"] = serde_json::Value::Null;
        record["host"]["boot_id"] = serde_json::Value::Null;
    });
    let token = tool.record("sync")["token"].to_string();
    tool.lock(&["status", "sync"]).expect(69).prints(&format!("orion-lock break --token {token} sync"));
    tool.edit_record("sync", |record| record["schema"] = serde_json::json!(99));
    tool.lock(&["status", "sync"]).expect(65).prints("schema 99");
    tool.write_record("sync", "torn");
    tool.lock(&["status", "sync"]).expect(0).prints("corrupt");
    assert_eq!(std::fs::read(tool.file("sync.json")).expect("read"), b"torn", "looking changes nothing");
}

/// Idea 7: silence is unknown; only who promised to tick can be stuck, and it is still alive.
#[test]
fn stuck_is_reported_and_frees_nothing() {
    let tool = Tool::new();
    let _holder = tool.hold("sync");
    tool.lock(&["status", "sync"]).expect(75);
    tool.edit_record("sync", |record| {
        record["last_tick"] = serde_json::json!({
            "utc": "2026-01-01T00:00:00Z", "boottime_us": 1, "monotonic_us": 1, "every_s": 1,
            "time_ns": record["host"]["time_ns"],
        });
    });
    tool.lock(&["status", "sync"]).expect(76).prints("stuck").prints("orion-lock stop --token");
    assert_eq!(tool.lock(&["status", "--json", "sync"]).expect(76).json()["state"], "stuck");
    tool.lock(&["list"]).expect(0).prints("stuck");
    tool.lock(&["run", "sync", "true"]).expect(75);
    tool.precheck(&["sync"]).expect(75);
    tool.edit_record("sync", |record| record["last_tick"]["every_s"] = serde_json::Value::Null);
    tool.lock(&["status", "sync"]).expect(75);
}

#[test]
fn what_comes_from_outside_is_escaped() {
    let tool = Tool::new();
    let title =
        "import ctypes,os;ctypes.CDLL(None).prctl(15,b'\\x1b[2J) R (\\xff');print('up',flush=True);input()";
    if !support::needs("python3") {
        return;
    }
    let mut evil = Running::start(tool.command("python3").args(["-c", title, "\u{1b}[31m\u{202e}"]));
    tool.lock(&["acquire", "--for", &evil.pid().to_string(), "sync"]).expect(0);
    for args in
        [&["status", "-v", "sync"][..], &["list"], &["log"], &["run", "sync", "true"], &["list", "--json"]]
    {
        let done = tool.lock(args);
        for text in [&done.stdout, &done.stderr] {
            assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{args:?}: {text:?}");
        }
    }
    evil.end();
}

#[test]
fn list_has_one_row_each_and_says_where_it_looked() {
    let tool = Tool::new();
    tool.lock(&["list"]).expect(0).prints("no locks in").prints(&tool.dir().display().to_string());
    tool.lock(&["status"]).expect(0).prints("no locks in");
    assert!(!tool.dir().exists());
    let holder = tool.hold("held");
    tool.lock(&["run", "-q", "held", "true"]).expect(75);
    tool.precheck(&["-q", "held"]).expect(75);
    tool.lock(&["run", "done", "true"]).expect(0);
    tool.write_record("torn", "{");
    tool.write_record(".hidden", "{}");
    tool.write_record("not a name", "{}");
    std::fs::write(tool.file("stray"), "").expect("write");
    let done = tool.lock(&["list"]).expect(0);
    let done =
        done.says(".hidden.json is the file of no lock").says("not a name.json is the file of no lock");
    let rows: Vec<Vec<&str>> = done.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "STATE", "OWNER", "FOR", "TOKEN", "SKIPS"]);
    assert_eq!(rows.len(), 4, "{done:?}");
    assert_eq!((rows[1][0], rows[1][1]), ("done", "free"));
    let pid = holder.pid().to_string();
    assert_eq!((rows[2][0], rows[2][1], rows[2][2]), ("held", "held", pid.as_str()));
    assert_eq!(rows[2].last(), Some(&"2"), "skips in a row: {done:?}");
    assert_eq!((rows[3][0], rows[3][1]), ("torn", "corrupt"));
    let value = tool.lock(&["list", "--json"]).expect(0).json();
    assert_eq!(value["locks"][1]["skips_in_a_row"], 2);
}

#[test]
fn the_log_explains_every_skip_and_end() {
    let tool = Tool::new();
    tool.lock(&["log"]).expect(0).prints("nothing logged in");
    let mut holder = tool.hold("sync");
    for _ in 0..5 {
        tool.lock(&["run", "-q", "sync", "true"]).expect(75);
    }
    for _ in 0..2 {
        tool.precheck(&["-q", "sync"]).expect(75);
    }
    holder.kill();
    tool.sh("\"$OL\" acquire --owner $$ sync").expect(0);
    tool.sh("t=$(\"$OL\" acquire --owner $$ --print-token sync); \"$OL\" release --token $t sync").expect(0);
    let done = tool.lock(&["log", "sync"]).expect(0).silent();
    let words: Vec<&str> = done.stdout.lines().filter_map(|line| line.split_whitespace().nth(3)).collect();
    assert_eq!(
        words,
        ["acquired", "refused", "skipped", "ended", "acquired", "reclaimed", "acquired", "released"],
        "{}",
        done.stdout
    );
    let refused = done.stdout.lines().nth(1).expect("a line");
    assert!(refused.contains("5 times until"), "equal refusals in a row are one line: {refused}");
    let last = tool.lock(&["log", "-n", "2", "sync"]).expect(0);
    assert_eq!(last.stdout.lines().count(), 2);
    assert_eq!(tool.lock(&["log", "--since", "1h"]).expect(0).stdout.lines().count(), 8);
    let value = tool.lock(&["log", "--json", "sync"]).expect(0).json();
    assert_eq!(value["events"].as_array().map(Vec::len), Some(8));
    // A torn last line is closed, what does not parse is skipped, and nothing changes an exit code.
    let log = tool.dir().join("log/sync.jsonl");
    let mut text = std::fs::read_to_string(&log).expect("log");
    text.push_str("garbage\n\u{0}\n{\"event\":");
    std::fs::write(&log, text).expect("write");
    tool.lock(&["run", "sync", "true"]).expect(0).silent();
    let events = tool.lock(&["log", "--json", "sync"]).expect(0).json();
    assert_eq!(events["events"].as_array().map(Vec::len), Some(9), "{events}");
    assert_eq!(tool.lock(&["log", "--since", "x"]).expect(64).code, 64);
}

#[test]
fn a_log_that_cannot_be_written_changes_nothing() {
    let tool = Tool::new();
    std::fs::create_dir(tool.dir()).expect("mkdir");
    std::fs::write(tool.dir().join("log"), "a file").expect("write");
    tool.lock(&["run", "sync", "true"]).expect(0).silent();
    let _holder = tool.hold("sync");
    tool.lock(&["run", "sync", "true"]).expect(75).one_line();
    tool.precheck(&["sync"]).expect(75).one_line();
    tool.lock(&["log"]).expect(0);
}

#[test]
fn where_says_which_directory_and_why() {
    let tool = Tool::new();
    let dir = tool.dir().display().to_string();
    let done = tool.lock(&["where"]).expect(0).silent().prints(&dir).prints("chosen by: ORION_DIR");
    assert!(done.stdout.contains("does not exist yet"), "{done:?}");
    assert!(!tool.dir().exists());
    tool.lock(&["run", "sync", "true"]).expect(0);
    tool.lock(&["where"]).expect(0).prints("dev:ino: ").prints("file system: ").prints("marks: none");
    tool.lock(&["--dir", &dir, "where"]).expect(0).prints("chosen by: --dir");
    tool.lock(&["where", "--mark-private"]).expect(0).prints("marks: private");
    tool.lock(&["where", "--mark-network"]).expect(0).prints("marks: private, network");
    tool.lock(&["where", "--mark-private", "--mark-network"]).expect(64);
    let value = tool.lock(&["where", "--json"]).expect(0).json();
    assert_eq!(value["marks"], serde_json::json!(["private", "network"]));
    assert_eq!(value["rule"], "ORION_DIR");
    let mut relative = tool.tool("orion-lock", &["where"]);
    run(relative.env("ORION_DIR", "relative")).expect(78).one_line().says("absolute");
    let mut empty = tool.tool("orion-lock", &["where"]);
    run(empty.env("ORION_DIR", "")).expect(0).prints("chosen by: default of ");
}

/// Field case B63: never from HOME, XDG_*, TMPDIR or the current directory.
#[test]
fn the_default_directory_is_the_same_for_cron_and_a_terminal() {
    let tool = Tool::new();
    let plain = |command: &mut std::process::Command| run(command.env_remove("ORION_DIR")).expect(0).stdout;
    let here = plain(&mut tool.tool("orion-lock", &["where"]));
    let mut cron = tool.tool("orion-lock", &["where"]);
    cron.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent").env("TMPDIR", "/nonexistent");
    cron.env("XDG_STATE_HOME", "/nonexistent").env("XDG_RUNTIME_DIR", "/nonexistent").current_dir("/");
    assert_eq!(here, plain(&mut cron));
    let mut bare = tool.tool("orion-lock", &["where"]);
    assert_eq!(here, plain(bare.env_clear()));
}

#[test]
fn other_users_locks_can_be_read() {
    let tool = Tool::new();
    tool.lock(&["list", "--user", "no-such-user-here"]).expect(64).one_line();
    tool.lock(&["list", "--user", "root", "--all-users"]).expect(64).one_line();
    if needs_root() {
        tool.lock(&["list", "--user", "root"]).expect(0);
        tool.lock(&["list", "--all-users"]).expect(0);
        tool.lock(&["log", "--all-users", "--json"]).expect(0).json();
        tool.lock(&["status", "--user", "root", "--json", "no-such-lock-here"]).expect(0).json();
    }
}

#[test]
fn list_shows_who_lives_without_a_record_and_what_an_owner_left() {
    let tool = Tool::new();
    let mut removed = tool.hold("removed");
    std::fs::remove_file(tool.file("removed.json")).expect("a cleaner");
    let job = "exec 3<&0; sh -c 'read -r end <&3' & echo up; wait";
    let mut left = tool.hold_with(&["run", "left", "bash", "-c", job]);
    let owner = left.pid();
    left.kill();
    let text = tool.lock(&["list"]).expect(0).stdout;
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    assert!(row("removed").contains("held") && row("removed").contains("record removed"), "{text}");
    assert!(row("left").contains(&format!("left by {owner} (bash)")), "{text}");
    let object = tool.lock(&["list", "--json"]).expect(0).json();
    let locks = object["locks"].as_array().expect("locks");
    assert!(locks.iter().any(|lock| lock["name"] == "removed" && lock["state"] == "held"), "{object}");
    left.end();
    removed.end();
    assert!(!tool.lock(&["list"]).expect(0).stdout.contains("removed"), "who is gone without a record");
}
