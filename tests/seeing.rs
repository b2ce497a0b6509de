//! What people and monitoring see of a night: `log --at`, local times.

mod support;

use serde_json::json;
use support::Tool;

/// Writes the log of `name`, one run after the other: begin, minutes of refusals, and how it ended.
fn write_log(tool: &Tool, name: &str, lines: &[serde_json::Value]) {
    tool.lock(&["run", "elsewhere", "true"]).expect(0);
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(tool.dir().join("log").join(format!("{name}.jsonl")), text).expect("log");
}

fn line(at: &str, event: &str, token: u64) -> serde_json::Value {
    json!({"at": at, "event": event, "name": "sync", "token": token, "pid": 1000 + token, "comm": "agent"})
}

/// Forty runs, one every quarter of an hour from 20:00 on; every fifth takes 40 minutes, so that the two
/// after it are skipped by it and are no runs. Odd runs are supervised and leave an exact end.
fn night(tool: &Tool) -> Vec<(u64, u64, u64)> {
    let at = |minute: u64| {
        let (day, minute) = (28 + (20 * 60 + minute) / 1440, (20 * 60 + minute) % 1440);
        format!("2026-11-{day}T{:02}:{:02}:00.000Z", minute / 60, minute % 60)
    };
    let (mut lines, mut runs, mut minute) = (Vec::new(), Vec::new(), 0);
    for token in 1..=40 {
        let length = if token % 5 == 0 { 40 } else { 5 };
        lines.push(line(&at(minute), "acquired", token));
        for skipped in (minute + 15..minute + length).step_by(15) {
            lines.push(line(&at(skipped), "skipped", token));
        }
        let next = minute + length.div_ceil(15) * 15;
        let mut ended = line(&at(if token % 2 == 1 { minute + length } else { next }), "ended", token);
        if token % 2 == 1 {
            ended["status"] = json!(if token == 7 { 3 } else { 0 });
        }
        lines.push(ended);
        runs.push((token, minute, minute + length));
        minute = next;
    }
    write_log(tool, "sync", &lines);
    runs
}

#[test]
fn a_night_of_forty_runs_answers_why_a_run_was_skipped() {
    let tool = Tool::new();
    night(&tool);
    let story = |at: &str| {
        let done = tool.lock(&["--json", "log", "--at", at, "sync"]).expect(0);
        let story = done.json()["stories"][0].clone();
        let token = |value: &serde_json::Value| value["token"].as_u64().unwrap_or(0);
        let who =
            if story["state"] == "free" { token(&story["before"]) } else { token(&story["holders"][0]) };
        (story["state"].as_str().expect("a word").to_owned(), who, token(&story["next"]))
    };
    let is = |state: &str, who, next| (state.to_owned(), who, next);
    // Run 5 took 40 minutes from 21:00 on; runs with even numbers leave no end of their own.
    assert_eq!(story("2026-11-28T20:03Z"), is("held", 1, 2));
    assert_eq!(story("2026-11-28T20:10Z"), is("free", 1, 2));
    assert_eq!(story("2026-11-28T20:15Z"), is("held", 2, 3), "the begin belongs to the run");
    assert_eq!(story("2026-11-28T20:17Z"), is("not_known", 2, 3), "nobody saw its end");
    assert_eq!(story("2026-11-28T21:00Z"), is("held", 5, 6));
    assert_eq!(story("2026-11-28T21:15Z"), is("held", 5, 6), "the run that was skipped then");
    assert_eq!(story("2026-11-28T21:39Z"), is("held", 5, 6));
    assert_eq!(story("2026-11-28T21:42Z"), is("free", 5, 6));
    assert_eq!(story("2026-11-28T19:00Z"), is("free", 0, 1));
    assert_eq!(story("2026-11-29T23:00Z"), is("free", 40, 0));
    // In the words of a person, in the time zone of a person.
    let mut command = tool.tool("orion-lock", &["log", "--at", "2026-11-28 22:15", "sync"]);
    let done = support::run(command.env("TZ", "CET-1")).expect(0);
    for text in [
        "sync at 2026-11-28 22:15:00 CET: held by pid 1005 (agent), token 5",
        "since 2026-11-28 22:00:00 CET; ended with status 0 at 2026-11-28 22:40:00 CET, after 40m",
        "refused or skipped meanwhile: 2 times, from 2026-11-28 22:15:00 CET to 2026-11-28 22:30:00 CET",
        "next: pid 1006 (agent), token 6, from 2026-11-28 22:45:00 CET",
    ] {
        assert!(done.stdout.contains(text), "{text}\nis not in\n{}", done.stdout);
    }
    let done = tool.lock(&["log", "--at", "2026-11-28T20:17Z", "sync"]).expect(0);
    assert!(
        done.stdout.contains("not known whether pid 1002 (agent), token 2 still held it"),
        "{}",
        done.stdout
    );
    let object = tool.lock(&["--json", "log", "--at", "2026-11-28T20:17Z", "sync"]).expect(0).json();
    let holder = &object["stories"][0]["holders"][0];
    assert_eq!((holder["held_at_least_s"].as_u64(), holder["held_at_most_s"].as_u64()), (Some(0), Some(900)));
}

#[test]
fn the_log_is_cut_by_moments_and_by_kinds_of_events() {
    let tool = Tool::new();
    night(&tool);
    let count =
        |args: &[&str]| tool.lock(&[&["log"], args, &["sync"]].concat()).expect(0).stdout.lines().count();
    assert_eq!(count(&["--event", "skipped"]), 16);
    assert_eq!(count(&["--event", "skipped", "--event", "acquired"]), 56);
    assert_eq!(
        count(&["--event", "acquired", "--since", "2026-11-28T20:15Z", "--until", "2026-11-28T20:45Z"]),
        3
    );
    tool.lock(&["log", "--event", "skip"]).expect(64).one_line().says("the events are acquired, released");
    tool.lock(&["log", "--since", "yesterday"]).expect(64).one_line().says("a time of day (09:45)");
    tool.lock(&["log", "--at", "2026-02-30"]).expect(64).one_line().says("--at");
}

#[test]
fn times_are_local_for_people_and_utc_for_programs() {
    let tool = Tool::new();
    let mut holder = tool.hold("sync");
    let says = |args: &[&str]| {
        let done = support::run(tool.tool("orion-lock", args).env("TZ", "XYZ-5:30"));
        format!("{}{}", done.stdout, done.stderr)
    };
    assert!(says(&["run", "sync", "true"]).contains(" XYZ, "), "{}", says(&["run", "sync", "true"]));
    assert!(says(&["--utc", "run", "sync", "true"]).contains(" UTC, "));
    assert!(says(&["status", "sync"]).contains(" XYZ, "));
    assert!(says(&["log", "sync"]).contains(" XYZ  acquired"));
    let object = says(&["--json", "status", "sync"]);
    assert!(!object.contains("XYZ") && object.contains("Z\""), "{object}");
    holder.end().expect(0);
}
