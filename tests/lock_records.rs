//! Records nobody of ours wrote, and things that are not records at all.

mod support;

use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use support::{Tool, needs, run};

/// What our writer cannot have written, with a word of the reason.
fn corrupt() -> Vec<(Vec<u8>, &'static str)> {
    let good = json!({
        "schema": 1, "kind": "lock", "name": "sync", "token": 5,
        "owners": [{"pid": 1_000, "start_ticks": 7}],
        "host": {"boottime_us": 5, "pid_ns": 4_026_531_836_u64}, "acquired_at": "2026-11-29T09:12:04Z",
    });
    let with = |path: &str, value: Value| {
        let mut record = good.clone();
        *record.pointer_mut(path).expect("a field") = value;
        record.to_string().into_bytes()
    };
    let mut rows = vec![
        (Vec::new(), "empty"),
        (vec![0; 600], "not JSON"),
        (good.to_string().into_bytes()[..60].to_vec(), "not JSON"),
        (b"[1,2,3]".to_vec(), "not a JSON object"),
        (b"\"text\"".to_vec(), "not a JSON object"),
        (b"{}".to_vec(), "schema"),
        (vec![b' '; 10 << 20], "larger than"),
        ([b"{\"schema\":1,\"x\":\"".to_vec(), vec![b'a'; 10 << 20], b"\"}".to_vec()].concat(), "larger than"),
        (vec![b'['; 60_000], "not JSON"),
        (b"\xff\xfe\x00".to_vec(), "not JSON"),
        (with("/schema", json!("1")), "schema"),
        (with("/schema", json!(0)), "schema"),
        (with("/schema", json!(-1)), "schema"),
        (with("/name", json!("other")), "something else"),
        (with("/kind", json!("claim")), "something else"),
        (with("/token", json!("5")), ""),
        (with("/token", json!(0)), "token"),
        (with("/token", json!(9_007_199_254_740_991_u64)), "token"),
        (with("/owners", json!([])), "owner"),
        (with("/owners", json!({})), ""),
        (with("/host", json!(null)), ""),
        (with("/acquired_at", json!(5)), ""),
        (with("/owners/0/start_ticks", json!(-1)), ""),
    ];
    for pid in
        [json!(0), json!(-1), json!(4_194_305), json!(4_294_967_297_u64), json!("812"), json!(null), json!(1)]
    {
        rows.push((with("/owners/0/pid", pid), ""));
    }
    rows
}

/// Field cases B17 and B43: the precheck goes, the lock sets it aside and is taken, no person is needed.
#[test]
fn a_corrupt_record_is_set_aside_and_the_lock_taken() {
    let tool = Tool::new();
    for (number, (bytes, why)) in corrupt().into_iter().enumerate() {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
        tool.write_record("sync", &bytes);
        let done = tool.precheck(&["sync"]).expect(0).one_line().says("not guarding").says("corrupt");
        assert!(done.stderr.contains(why), "{shown}: {done:?}");
        tool.precheck(&["--strict", "sync"]).expect(74);
        tool.lock(&["status", "sync"]).expect(0).prints("corrupt");
        assert_eq!(std::fs::read(tool.file("sync.json")).expect("read"), bytes, "reading changes nothing");
        let done = tool.lock(&["run", "sync", "echo", "ran"]).expect(0).one_line().says("was corrupt");
        assert_eq!(done.stdout, "ran\n", "{shown}");
        let aside = tool.file(&format!("sync.corrupt.{}", number + 1));
        assert!(done.stderr.contains(aside.to_str().expect("UTF-8")), "{shown}: {done:?}");
        assert_eq!(std::fs::read(aside).expect("kept"), bytes, "{shown}");
    }
    let log = tool.lock(&["log", "sync"]).expect(0);
    assert!(log.stdout.contains("set-aside"), "{log:?}");
}

#[test]
fn release_and_verify_leave_a_corrupt_record_alone() {
    let tool = Tool::new();
    tool.write_record("sync", "{");
    tool.lock(&["release", "--token", "5", "sync"]).expect(77).one_line().says("corrupt");
    tool.lock(&["verify", "--token", "5", "sync"]).expect(77).one_line();
    assert_eq!(std::fs::read(tool.file("sync.json")).expect("read"), b"{");
}

#[test]
fn a_corrupt_record_does_not_end_a_run_that_lives() {
    let tool = Tool::new();
    let mut holder = tool.hold("sync");
    tool.write_record("sync", "torn");
    let done = tool.lock(&["run", "sync", "true"]).expect(75).one_line().says("corrupt");
    assert!(done.stderr.contains(&holder.pid().to_string()), "the pulse names it: {done:?}");
    tool.precheck(&["sync"]).expect(75).one_line();
    tool.lock(&["status", "sync"]).expect(75);
    assert_eq!(std::fs::read(tool.file("sync.json")).expect("read"), b"torn");
    holder.end();
    tool.lock(&["run", "sync", "true"]).expect(0).says("was corrupt");
}

#[test]
fn a_newer_format_is_65_and_untouched() {
    let tool = Tool::new();
    for bytes in
        ["{\"schema\":3}", "{\"schema\":99,\"owners\":\"who knows\"}", "{\"schema\":18446744073709551615}"]
    {
        tool.write_record("sync", bytes);
        tool.lock(&["run", "sync", "true"]).expect(65).one_line().says("schema");
        tool.lock(&["run", "-w", "forever", "sync", "true"]).expect(65);
        tool.lock(&["status", "sync"]).expect(65);
        tool.lock(&["release", "--token", "5", "sync"]).expect(65);
        tool.lock(&["verify", "--token", "5", "sync"]).expect(65);
        tool.precheck(&["sync"]).expect(0).one_line().says("not guarding");
        tool.precheck(&["--strict", "sync"]).expect(65);
        tool.lock(&["list"]).expect(0).prints("newer");
        assert_eq!(std::fs::read_to_string(tool.file("sync.json")).expect("read"), bytes);
    }
}

/// A thread's id has a /proc entry and passes kill(0): it is dead all the same.
#[test]
fn a_record_with_a_threads_id_is_dead() {
    if !needs("python3") {
        return;
    }
    let code = "
import threading,sys
def work():
    print(threading.get_native_id(), flush=True); sys.stdin.readline()
t=threading.Thread(target=work); t.start(); t.join()";
    for with_inode in [true, false] {
        let tool = Tool::new();
        let threads = support::Running::start(tool.command("python3").args(["-c", code]));
        tool.lock(&["acquire", "--for", &threads.pid().to_string(), "sync"]).expect(0);
        tool.lock(&["run", "sync", "true"]).expect(75);
        let tid = threads.number();
        let stat = std::fs::read_to_string(format!("/proc/{tid}/stat")).expect("a thread has one");
        let ticks: u64 = stat
            .rsplit(')')
            .next()
            .and_then(|rest| rest.split_whitespace().nth(19)?.parse().ok())
            .expect("ticks");
        tool.edit_record("sync", |record| {
            record["owners"][0]["pid"] = json!(tid);
            record["owners"][0]["start_ticks"] = json!(ticks);
            if !with_inode {
                record["owners"][0]["pidfs_ino"] = Value::Null;
            }
        });
        tool.precheck(&["sync"]).expect(0).silent();
        tool.lock(&["run", "sync", "true"]).expect(0).silent();
    }
}

/// Puts something in a record's place.
type Make = fn(&std::path::Path);

#[test]
fn a_record_that_is_no_file_is_unknown_and_never_moved() {
    let make: [(&str, Make); 5] = [
        ("a directory", |path| std::fs::create_dir(path).expect("mkdir")),
        ("a symbolic link", |path| symlink("/etc/passwd", path).expect("link")),
        ("a symbolic link", |path| symlink("nowhere", path).expect("link")),
        ("a FIFO", |path| {
            run(std::process::Command::new("mkfifo").arg(path)).expect(0);
        }),
        ("a FIFO or socket", |path| drop(std::os::unix::net::UnixListener::bind(path).expect("bind"))),
    ];
    for (what, make) in make {
        let tool = Tool::new();
        tool.lock(&["run", "other", "true"]).expect(0);
        make(&tool.file("sync.json"));
        for args in
            [&["run", "sync", "true"][..], &["run", "-w", "forever", "sync", "true"], &["status", "sync"]]
        {
            let done = tool.lock(args).expect(69);
            let said = format!("{}{}", done.stdout, done.stderr);
            assert!(said.contains(what) && said.contains("sync.json"), "{what}: {done:?}");
        }
        tool.precheck(&["sync"]).expect(0).one_line().says("not guarding").says(what);
        tool.lock(&["list"]).expect(0).prints("unknown");
        assert!(std::fs::symlink_metadata(tool.file("sync.json")).is_ok());
        assert!(!tool.files().iter().any(|name| name.contains("corrupt") || name.contains("tmp")));
    }
}

#[test]
fn a_guard_that_is_no_file_is_73_and_a_pulse_that_is_none_71() {
    let tool = Tool::new();
    tool.lock(&["run", "other", "true"]).expect(0);
    std::fs::create_dir(tool.file("sync.guard")).expect("mkdir");
    tool.lock(&["run", "sync", "echo", "ran"]).expect(73).one_line().says("sync.guard is a directory");
    symlink("other.guard", tool.file("linked.guard")).expect("link");
    tool.lock(&["run", "linked", "echo", "ran"]).expect(73).one_line().says("a symbolic link");
    symlink("/etc/passwd", tool.file("pulse.pulse")).expect("link");
    let done = tool.lock(&["run", "pulse", "echo", "ran"]).expect(71).one_line().says("pulse.pulse");
    assert_eq!(done.stdout, "", "nothing was run");
    tool.lock(&["run", "--owner-only", "pulse", "echo", "ran"]).expect(0).prints("ran");
    tool.precheck(&["sync", "linked", "pulse"]).expect(0);
}

/// Whoever may not ask whether the work of a dead owner goes on may not take its lock.
#[test]
fn a_dead_owner_whose_pulse_cannot_be_asked_is_unknown() {
    let tool = Tool::new();
    tool.leave_dead("sync");
    std::fs::remove_file(tool.file("sync.pulse")).expect("rm");
    symlink("/etc/passwd", tool.file("sync.pulse")).expect("link");
    // A record that does not say on which file it was taken: nobody can be looked for.
    tool.edit_record("sync", |record| record["pulse"] = Value::Null);
    tool.lock(&["run", "--owner-only", "sync", "echo", "ran"]).expect(69).one_line().says("pulse");
    tool.precheck(&["sync"]).expect(0).one_line().says("not guarding");
    std::fs::remove_file(tool.file("sync.pulse")).expect("rm");
    tool.lock(&["run", "sync", "true"]).expect(0);
}

#[test]
fn a_record_of_another_name_or_a_copy_is_corrupt_and_not_believed() {
    let tool = Tool::new();
    let _holder = tool.hold("sync");
    std::fs::copy(tool.file("sync.json"), tool.file("copy.json")).expect("copy");
    tool.precheck(&["copy"]).expect(0).says("the record of something else");
    tool.lock(&["run", "copy", "true"]).expect(0).says("was corrupt");
    tool.lock(&["run", "sync", "true"]).expect(75);
}

#[test]
fn unknown_says_what_to_type_and_waits_when_asked() {
    let tool = Tool::new();
    let record = tool.leave_dead("sync");
    tool.edit_record("sync", |record| record["host"]["boot_id"] = Value::Null);
    let token = record["token"].to_string();
    let done = tool.lock(&["run", "sync", "echo", "ran"]).expect(69).one_line();
    assert!(done.stderr.contains("cannot tell whether pid"), "{done:?}");
    assert!(
        done.stderr.contains(&format!("if it does not: orion-lock break --token {token} sync")),
        "{done:?}"
    );
    tool.lock(&["run", "-q", "sync", "true"]).expect(69).one_line();
    tool.lock(&["run", "-E", "5", "sync", "true"]).expect(69);
    tool.lock(&["run", "-w", "50ms", "sync", "true"]).expect(69);
    tool.lock(&["run", "--json", "sync", "true"]).expect(69);
    tool.precheck(&["-q", "sync"]).expect(0).one_line().says("not guarding").says("cannot tell");
    tool.precheck(&["--strict", "sync"]).expect(69);
    tool.lock(&["log"]).expect(0).prints("unguarded");
}

/// 10 records that are not ours and a limit on memory: reading stays small.
#[test]
fn a_huge_record_is_not_read_whole() {
    let tool = Tool::new();
    tool.write_record("sync", vec![b'{'; 80 << 20]);
    let script = "ulimit -v 65536\n\"$OP\" sync; echo $?";
    let done = run(&mut tool.script(script)).expect(0).says("larger than 64 KiB");
    assert_eq!(done.stdout.trim(), "0");
}
