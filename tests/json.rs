//! Every JSON document: what it must hold, so that a change of its shape is a decision and not an accident.

mod support;

use serde_json::Value;
use support::{Done, Running, Tool, needs, run};

/// `schema` 1 first, one line, snake_case, no number that a double would bend, times in UTC.
#[track_caller]
fn document(done: &Done) -> Value {
    let value = done.json();
    assert_eq!(value["schema"], 1);
    assert_eq!(done.stdout.matches('\n').count(), 1, "one line: {}", done.stdout);
    well_formed("", &value);
    value
}

fn well_formed(key: &str, value: &Value) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let snake = key.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
                assert!(snake, "not snake_case: {key}");
                well_formed(key, value);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| well_formed(key, value)),
        Value::Number(number) => {
            assert!(number.as_f64().is_some_and(|n| n.abs() <= 9_007_199_254_740_992.0), "{key}: {number}");
        }
        Value::String(text) if ["since", "released_at", "at", "last", "last_tick"].contains(&key) => {
            assert!(
                text.ends_with('Z') && text.as_bytes().get(10) == Some(&b'T'),
                "RFC 3339 UTC, {key}: {text}"
            );
        }
        _ => {}
    }
}

/// Fails unless every field is there with its type; says what the document holds.
#[track_caller]
fn holds(value: &Value, fields: &[(&str, &str)]) {
    for (pointer, kind) in fields {
        let found = value.pointer(pointer).map_or("nothing", |found| match found {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "text",
            Value::Array(_) => "list",
            Value::Object(_) => "object",
        });
        assert_eq!(found, *kind, "{pointer} in {value:#}");
    }
}

const LOCK: [(&str, &str); 9] = [
    ("/name", "text"),
    ("/state", "text"),
    ("/token", "number"),
    ("/since", "text"),
    ("/since_s", "number"),
    ("/owners/0/pid", "number"),
    ("/owners/0/start_ticks", "number"),
    ("/owners/0/comm", "text"),
    ("/hostname", "text"),
];

#[test]
fn status_has_its_shape_in_every_state() {
    let tool = Tool::new();
    let value = document(&tool.lock(&["status", "--json", "sync"]).expect(0));
    assert_eq!(value["state"], "free");
    holds(&value, &[("/name", "text"), ("/directory", "text")]);
    let mut holder = tool.hold("sync");
    let value = document(&tool.lock(&["status", "--json", "-v", "sync"]).expect(75));
    holds(&value, &LOCK);
    holds(
        &value,
        &[
            ("/directory", "text"),
            ("/held_through", "text"),
            ("/holders/0/pid", "number"),
            ("/holders/0/comm", "text"),
            ("/holders/0/command", "text"),
            ("/holders/0/cwd", "text"),
            ("/holders/0/state", "text"),
            ("/evidence/0", "text"),
            ("/via", "text"),
        ],
    );
    assert_eq!(
        (&value["state"], &value["held_through"], &value["via"]),
        (&"held".into(), &"owner".into(), &"run".into())
    );
    holder.kill();
    let value = document(&tool.lock(&["status", "--json", "sync"]).expect(0));
    holds(&value, &LOCK);
    assert_eq!(value["state"], "free");
    assert!(value["holders"].is_null());
    tool.sh("\"$OL\" acquire --note hi --owner $$ sync; \"$OL\" release --owner $$ sync").expect(0);
    let value = document(&tool.lock(&["status", "--json", "sync"]).expect(0));
    holds(&value, &[("/released_at", "text"), ("/note", "text")]);
    tool.edit_record("sync", |record| {
        record["released_at"] = Value::Null;
        record["host"]["boot_id"] = Value::Null;
    });
    let value = document(&tool.lock(&["status", "--json", "sync"]).expect(69));
    assert_eq!(value["state"], "unknown");
    holds(&value, &[("/reason", "text")]);
    tool.write_record("sync", "{");
    let value = document(&tool.lock(&["status", "--json", "sync"]).expect(0));
    assert_eq!(value["state"], "corrupt");
    holds(&value, &[("/reason", "text")]);
    tool.write_record("sync", "{\"schema\":7}");
    assert_eq!(document(&tool.lock(&["status", "--json", "sync"]).expect(65))["state"], "newer");
}

#[test]
fn lists_have_their_shape() {
    let tool = Tool::new();
    let value = document(&tool.lock(&["list", "--json"]).expect(0));
    holds(&value, &[("/locks", "list"), ("/looked_in/0", "text")]);
    let _holder = tool.hold("sync");
    tool.lock(&["run", "-q", "sync", "true"]).expect(75);
    let value = document(&tool.lock(&["list", "--json"]).expect(0));
    holds(&value["locks"][0], &LOCK);
    holds(&value["locks"][0], &[("/skips_in_a_row", "number"), ("/directory", "text")]);
    let value = document(&tool.lock(&["log", "--json"]).expect(0));
    holds(&value, &[("/looked_in/0", "text"), ("/events/0/at", "text"), ("/events/0/event", "text")]);
    holds(&value, &[("/events/0/token", "number"), ("/events/0/pid", "number"), ("/events/0/name", "text")]);
    assert_eq!(value["events"][1]["event"], "refused");
    let value = document(&tool.lock(&["where", "--json"]).expect(0));
    holds(
        &value,
        &[
            ("/directory", "text"),
            ("/rule", "text"),
            ("/exists", "bool"),
            ("/device", "number"),
            ("/inode", "number"),
            ("/file_system", "text"),
            ("/uid", "number"),
            ("/shared", "bool"),
            ("/marks", "list"),
        ],
    );
}

#[test]
fn answers_of_what_changes_something_have_their_shape() {
    let tool = Tool::new();
    let script = "
        \"$OL\" acquire --json --dry-run --owner $$ sync >dry
        \"$OL\" acquire --json --owner $$ sync >acquire
        \"$OL\" verify --json --owner $$ sync >verify
        \"$OL\" release --json --owner $$ sync >release
        \"$OL\" release --json --owner $$ sync >again";
    run(tool.script(script).current_dir(tool.path(""))).expect(0).silent();
    let read = |file: &str| {
        let stdout = std::fs::read_to_string(tool.path(file)).expect("output");
        document(&Done { code: 0, stdout, stderr: String::new() })
    };
    holds(&read("dry"), &[("/name", "text"), ("/owner/pid", "number")]);
    holds(&read("acquire"), &[("/name", "text"), ("/token", "number"), ("/owner/pid", "number")]);
    holds(&read("verify"), &[("/name", "text"), ("/verified", "bool")]);
    assert_eq!(read("release")["released"], true);
    assert_eq!(read("again")["released"], false);
}

#[test]
fn the_precheck_has_its_shape() {
    let tool = Tool::new();
    let value = document(&tool.precheck(&["--json", "sync"]).expect(0));
    holds(&value, &[("/skip", "bool"), ("/observe", "bool"), ("/locks", "list")]);
    let _holder = tool.hold("sync");
    let value = document(&tool.precheck(&["--json", "sync", "free"]).expect(75));
    holds(&value["locks"][0], &LOCK);
    assert_eq!((&value["skip"], &value["locks"][1]["state"]), (&true.into(), &"free".into()));
}

/// Runs a call with `--json` and gives the kind of its error; the line on stderr is there as well.
#[track_caller]
fn kind(done: Done, code: i32) -> String {
    let done = done.expect(code);
    let value = document(&done);
    holds(&value, &[("/error/kind", "text"), ("/error/message", "text")]);
    let message = value["error"]["message"].as_str().expect("text");
    assert!(done.stderr.contains(message), "the same words on stderr: {done:?}");
    assert!(
        !message.ends_with('.') && !message.starts_with(char::is_uppercase),
        "style of errors: {message}"
    );
    value["error"]["kind"].as_str().expect("text").to_owned()
}

#[test]
fn errors_name_their_kind() {
    let tool = Tool::new();
    let call = |args: &[&str]| tool.lock(&[&["--json"], args].concat());
    assert_eq!(kind(call(&["run", "10m", "true"]), 64), "usage");
    assert_eq!(kind(call(&["run", "--nonsense"]), 64), "usage");
    assert_eq!(kind(tool.lock(&["nonsense", "--json"]), 64), "usage");
    assert_eq!(kind(call(&["release", "--token", "5", "sync"]), 77), "not_owner");
    let mut holder = tool.hold("sync");
    assert_eq!(kind(call(&["run", "sync", "true"]), 75), "held");
    assert_eq!(kind(call(&["run", "-E", "9", "sync", "true"]), 9), "held");
    let inner = ["run", "outer", "sh", "-c", "\"$OL\" run --json outer true; exit $?"];
    assert_eq!(kind(tool.lock(&inner), 75), "held_by_ancestor");
    let inner = ["run", "outer", "sh", "-c", "exec \"$OL\" run --json outer true"];
    assert_eq!(kind(tool.lock(&inner), 75), "held_by_you");
    holder.kill();
    let token = tool.record("sync")["token"].to_string();
    assert_eq!(kind(call(&["verify", "--token", &token, "sync"]), 77), "owner_ended");
    tool.edit_record("sync", |record| record["host"]["boot_id"] = Value::Null);
    assert_eq!(kind(call(&["run", "sync", "true"]), 69), "unknown_owner");
    tool.write_record("sync", "{\"schema\":9}");
    assert_eq!(kind(call(&["run", "sync", "true"]), 65), "newer_record");
    std::fs::remove_file(tool.file("sync.json")).expect("rm");
    std::fs::create_dir(tool.file("sync.json")).expect("mkdir");
    assert_eq!(kind(call(&["run", "sync", "true"]), 69), "cannot_tell");
    std::fs::create_dir(tool.file("guard.guard")).expect("mkdir");
    assert_eq!(kind(call(&["run", "guard", "true"]), 73), "cannot_create");
    std::fs::create_dir(tool.file("pulse.pulse")).expect("mkdir");
    assert_eq!(kind(call(&["run", "pulse", "true"]), 71), "system");
    let script = "\"$OL\" acquire --owner $$ --print-token full >/dev/full";
    tool.sh(script).expect(74);
    let mut relative = tool.tool("orion-lock", &["--json", "run", "sync", "true"]);
    assert_eq!(kind(run(relative.env("ORION_DIR", "relative")), 78), "config");
}

#[test]
fn a_stuck_guard_names_who_has_it() {
    if !needs("flock") {
        return;
    }
    let tool = Tool::new();
    tool.lock(&["run", "sync", "true"]).expect(0);
    let guard = tool.file("sync.guard");
    let mut stuck =
        Running::start(tool.command("flock").arg(&guard).args(["sh", "-c", "echo up; read -r end"]));
    let done = tool.lock(&["--json", "run", "sync", "echo", "ran"]);
    assert!(done.stderr.contains("is in the middle of a change"), "{done:?}");
    assert!(done.stderr.contains(&format!("pid {}", stuck.pid())), "flock(1) holds it: {done:?}");
    assert_eq!(kind(done, 69), "guard_stuck");
    // Readers never open a guard.
    tool.precheck(&["sync"]).expect(0).silent();
    tool.lock(&["status", "sync"]).expect(0);
    tool.lock(&["list"]).expect(0);
    stuck.end();
    tool.lock(&["run", "sync", "true"]).expect(0);
}
