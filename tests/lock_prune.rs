//! `prune`: files of names that nobody has and nobody used for long. And `list` where there are many.

mod support;

use serde_json::Value;
use std::fs::{self, File};
use std::time::{Duration, SystemTime};
use support::{Background, KillOnDrop, Running, Tool, eventually, needs};

/// Makes a name look unused for forty days.
fn age(tool: &Tool, name: &str) {
    let long_ago = SystemTime::now() - Duration::from_secs(40 * 24 * 3600);
    let guard = File::options().write(true).open(tool.file(&format!("{name}.guard"))).expect("guard");
    guard.set_modified(long_ago).expect("time");
    if tool.file(&format!("{name}.json")).exists() {
        tool.edit_record(name, |record| {
            for key in ["acquired_at", "released_at"] {
                if record[key].is_string() {
                    record[key] = "2026-01-01T00:00:00Z".into();
                }
            }
        });
    }
}

fn files_of(tool: &Tool, name: &str) -> Vec<String> {
    let of = |file: &String| file.trim_start_matches('.').starts_with(&format!("{name}."));
    tool.files().into_iter().filter(of).collect()
}

fn kept(tool: &Tool, name: &str, why: &str) {
    let before = files_of(tool, name);
    for args in
        [&["prune", "--json", "--older", "0s"][..], &["prune", "--json", "--older", "0s", "--dry-run", name]]
    {
        let done = tool.lock(args).expect(0).json();
        let all = done["kept"].as_array().expect("kept").clone();
        let row = all.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name}: {done}"));
        assert!(row["why"].as_str().expect("why").contains(why), "{row}");
    }
    assert_eq!(files_of(tool, name), before, "{name}");
}

#[test]
fn what_is_free_and_long_unused_goes_with_all_its_files_and_tokens_go_on_rising() {
    let tool = Tool::new();
    tool.lock(&["run", "old", "true"]).expect(0);
    tool.leave_dead("dead");
    fs::write(tool.file("old.corrupt.1"), "{").expect("write");
    fs::write(tool.file(".old.tmp"), "").expect("write");
    tool.lock(&["pause", "--for", "1s", "old"]).expect(0);
    tool.lock(&["run", "-w", "forever", "old", "true"]).expect(0);
    let mut slots: Vec<Running> = (0..3)
        .map(|_| tool.hold_with(&["run", "--slots", "3", "many", "sh", "-c", "echo up; read -r end"]))
        .collect();
    slots.iter_mut().for_each(|slot| drop(slot.end()));
    assert!(tool.file("many.members/1.json").exists());
    tool.lock(&["run", "new", "true"]).expect(0);
    let token = tool.record("old")["token"].as_u64().expect("a token");
    for name in ["old", "dead", "many"] {
        age(&tool, name);
    }
    for position in ["1", "2"] {
        let path = tool.file(&format!("many.members/{position}.json"));
        let text = fs::read_to_string(&path).expect("record");
        let mut record: Value = serde_json::from_str(&text).expect("json");
        record["acquired_at"] = "2026-01-01T00:00:00Z".into();
        fs::write(&path, record.to_string()).expect("write");
    }
    let before = tool.files();
    let told = tool.lock(&["prune", "--dry-run"]).expect(0).silent().stdout;
    assert_eq!(told.lines().count(), 3, "{told}");
    assert!(told.contains("old would be removed: unused for 40d"), "{told}");
    assert_eq!(tool.files(), before, "only said");
    tool.lock(&["prune", "new"]).expect(0).says("new kept: it was used ");
    tool.lock(&["prune"]).expect(0).silent();
    for name in ["old", "dead", "many"] {
        assert_eq!(files_of(&tool, name), [""; 0]);
    }
    assert!(tool.file("new.json").exists() && tool.dir().join("log/old.jsonl").exists());
    tool.lock(&["run", "old", "true"]).expect(0).silent();
    assert!(tool.record("old")["token"].as_u64().expect("a token") > token);
    tool.lock(&["prune", "--older", "0s", "--logs"]).expect(0).silent();
    assert_eq!((tool.files(), support::names_in(&tool.dir().join("log"))), (Vec::new(), Vec::new()));
    tool.lock(&["prune"]).expect(0).says("no locks in ");
}

#[test]
fn what_somebody_has_or_may_have_stays() {
    let tool = Tool::new();
    let _holder = tool.hold("held");
    kept(&tool, "held", "it is held");
    let mut owner = tool.hold_with(&[
        "run",
        "left",
        "sh",
        "-c",
        "setsid sh -c 'echo $$; exec sleep 1000' & exec sleep 1000",
    ]);
    let job = KillOnDrop::of(owner.number());
    owner.kill();
    kept(&tool, "left", "it is held");
    // Released by hand, and its run goes on: whoever carries a pulse keeps the files.
    let _going = tool.hold("broken");
    let token = tool.record("broken")["token"].to_string();
    tool.lock(&["break", "--yes", "--owner-is-alive", "--token", &token, "broken"]).expect(0);
    kept(&tool, "broken", "still works");
    tool.lock(&["run", "paused", "true"]).expect(0);
    tool.lock(&["pause", "paused"]).expect(0);
    kept(&tool, "paused", "it is paused");
    tool.leave_dead("unknown");
    tool.edit_record("unknown", |record| record["host"]["boot_id"] = Value::Null);
    kept(&tool, "unknown", "it cannot be told");
    // Each with its guard, which a sweep makes otherwise.
    tool.lock(&["run", "corrupt", "true"]).expect(0);
    tool.write_record("corrupt", "{");
    kept(&tool, "corrupt", "its record is corrupt");
    tool.lock(&["run", "newer", "true"]).expect(0);
    tool.write_record("newer", r#"{"schema":9,"kind":"lock","name":"newer","token":5}"#);
    kept(&tool, "newer", "it cannot be told");
    tool.lock(&["run", "waited", "true"]).expect(0);
    tool.lock(&["pause", "--all"]).expect(0);
    let waiter = Background::start(&mut tool.tool("orion-lock", &["run", "-w", "forever", "waited", "true"]));
    let waiting = || tool.lock(&["status", "--json", "waited"]).json()["waiting"] == 1;
    eventually("it waits", waiting);
    kept(&tool, "waited", "somebody waits for it");
    tool.lock(&["resume", "--all"]).expect(0);
    waiter.end().expect(0);
    job.kill();
    eventually("what was left behind has ended", || tool.lock(&["status", "left"]).code == 0);
    tool.lock(&["prune", "--older", "0s", "left", "waited"]).expect(0).silent();
    assert_eq!((files_of(&tool, "left"), files_of(&tool, "waited")), (Vec::new(), Vec::new()));
}

#[test]
fn contenders_that_meet_a_removed_guard_start_over_and_never_overlap() {
    let tool = Tool::new();
    let (section, overlaps) = (tool.path("section"), tool.path("overlaps"));
    let inside = format!(
        "mkdir {0} || echo overlap >> {1}; rmdir {0}; echo $ORION_LOCK_TOKEN >> {2}",
        section.display(),
        overlaps.display(),
        tool.path("tokens").display()
    );
    // Who is refused tries again: while somebody waits, nothing is swept.
    let again = "test $? = 75 || exit 1; sleep 0.01";
    let script =
        format!("for i in {{1..15}}; do until \"$OL\" run -q x sh -c '{inside}'; do {again}; done; done");
    let mut contenders: Vec<Background> =
        (0..4).map(|_| Background::start(&mut tool.script(&script))).collect();
    let mut swept = 0;
    while contenders.iter_mut().any(|contender| !contender.is_over()) {
        let done = tool.lock(&["prune", "--json", "--older", "0s", "x"]).expect(0).json();
        swept += done["removed"].as_array().expect("removed").len();
    }
    for contender in contenders {
        contender.end().expect(0);
    }
    assert!(!overlaps.exists(), "two were in the section");
    let tokens: Vec<u64> = fs::read_to_string(tool.path("tokens"))
        .expect("tokens")
        .lines()
        .map(|line| line.parse().expect("a number"))
        .collect();
    assert_eq!(tokens.len(), 60, "every one had its turn");
    assert!(tokens.is_sorted_by(|a, b| a < b), "tokens go on rising: {tokens:?}");
    assert!(swept > 0, "nothing was swept");
}

#[test]
fn a_list_says_what_was_asked_for() {
    let tool = Tool::new();
    for name in ["a", "b", "c"] {
        tool.lock(&["run", name, "true"]).expect(0);
    }
    let rows = |args: &[&str]| tool.lock(args).expect(0).stdout.lines().count();
    assert_eq!((rows(&["list"]), rows(&["list", "a", "c"]), rows(&["list", "--all"])), (4, 3, 4));
    tool.lock(&["list", "never"]).expect(0).prints("never");
    assert_eq!(tool.lock(&["list", "--json", "b"]).json()["locks"].as_array().expect("locks").len(), 1);
    tool.lock(&["list", "a/b/../c\n"]).expect(64);
}

#[test]
fn on_a_small_terminal_a_list_leaves_out_what_is_free() {
    if !needs("script") {
        return;
    }
    let tool = Tool::new();
    for number in 0..9 {
        tool.lock(&["run", &format!("free-{number}"), "true"]).expect(0);
    }
    let _holder = tool.hold("held");
    let shown = |rows: u32, option: &str| {
        let mut command = tool.command("script");
        command.args(["-qefc", &format!("stty rows {rows} cols 100; \"$OL\" list {option}"), "/dev/null"]);
        support::run(&mut command).expect(0).stdout
    };
    let small = shown(8, "");
    assert!(small.contains("held") && !small.contains("free-3"), "{small}");
    assert!(small.contains("9 more are free; to see them: orion-lock list --all"), "{small}");
    assert!(shown(8, "--all").contains("free-3") && shown(40, "").contains("free-3"));
}
