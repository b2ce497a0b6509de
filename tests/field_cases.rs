//! What went wrong for others, by its number, parts A and B: whose pid it is, reboots,
//! containers, other hosts (the rest: field_cases_scripts.rs). Real where one machine can play it; the rest is a row in
//! `verdict/liveness_tests.rs`.

mod support;

use serde_json::{Value, json};
use support::{Running, Tool, needs, needs_root, needs_unshare, run};

/// A live process of the test, as an owner for `--for`.
fn sleeper(tool: &Tool) -> Running {
    Running::start(tool.command("sh").args(["-c", "echo up; read -r end"]))
}

/// Takes `sync` for a live process.
fn held_for(tool: &Tool, owner: &Running) {
    tool.lock(&["acquire", "--for", &owner.pid().to_string(), "sync"]).expect(0);
}

/// Judges without pidfs from now on, as on kernels before 6.9.
fn without_inode(tool: &Tool) {
    tool.edit_record("sync", |record| record["owners"][0]["pidfs_ino"] = Value::Null);
}

#[test]
fn b01_a_pid_reused_by_a_stranger_is_dead() {
    if !needs_root() || !needs_unshare(&["-p", "-f", "--mount-proc"]) {
        return;
    }
    let tool = Tool::new();
    // In a pid namespace of its own nobody else takes the number.
    let script = "
        sleep 1000 & first=$!
        \"$OL\" acquire --for $first sync 2>/dev/null || exit 1
        kill -9 $first; wait $first 2>/dev/null
        echo $((first - 1)) >/proc/sys/kernel/ns_last_pid
        sleep 1000 & second=$!
        [ $first = $second ] || exit 2
        \"$OP\" sync; echo precheck $?
        \"$OL\" run sync true 2>/dev/null; echo run $?
        kill -9 $second";
    let done = run(&mut tool.unshared(&["-p", "-f", "--mount-proc"], script)).expect(0);
    assert_eq!(done.stdout, "precheck 0\nrun 0\n", "{done:?}");
}

#[test]
fn b03_a_zombie_is_dead() {
    if !needs("python3") {
        return;
    }
    for with_inode in [true, false] {
        let tool = Tool::new();
        let code = "
import os,sys
r,w=os.pipe()
p=os.fork()
if p==0:
    os.close(w); os.read(r,1); os._exit(0)
print(p,flush=True); sys.stdin.readline()
os.close(w); os.waitid(os.P_PID,p,os.WEXITED|os.WNOWAIT)
print('zombie',flush=True); sys.stdin.readline()";
        let mut parent = Running::start(tool.command("python3").args(["-c", code]));
        tool.lock(&["acquire", "--for", &parent.line, "sync"]).expect(0);
        if !with_inode {
            without_inode(&tool);
        }
        tool.precheck(&["sync"]).expect(75);
        parent.tell("end it");
        assert_eq!(parent.next_line(), "zombie");
        tool.precheck(&["sync"]).expect(0).silent();
        tool.lock(&["run", "sync", "true"]).expect(0).silent();
    }
}

#[test]
fn b04_a_dead_leader_with_live_threads_is_live() {
    if !needs("cc") {
        return;
    }
    let tool = Tool::new();
    let source = "#include <pthread.h>\n#include <stdio.h>\n#include <unistd.h>\n
        static void *work(void *x) { char c; puts(\"up\"); fflush(stdout); read(0, &c, 1); _exit(0); }\n
        int main(void) { pthread_t t; pthread_create(&t, 0, work, 0); pthread_exit(0); }\n";
    std::fs::write(tool.path("leader.c"), source).expect("write");
    run(tool.command("cc").args(["-pthread", "-o", "leader", "leader.c"]).current_dir(tool.path("")))
        .expect(0);
    for with_inode in [true, false] {
        let tool = Tool::on(&tool.path(""));
        let program = tool.path("../leader");
        let mut leader = Running::start(&mut tool.command(&program));
        held_for(&tool, &leader);
        let stat = format!("/proc/{}/stat", leader.pid());
        support::eventually("leader Z", || {
            std::fs::read_to_string(&stat).is_ok_and(|text| text.contains(") Z "))
        });
        if !with_inode {
            without_inode(&tool);
        }
        tool.precheck(&["sync"]).expect(75);
        tool.lock(&["run", "sync", "true"]).expect(75);
        leader.end();
        tool.lock(&["run", "sync", "true"]).expect(0);
    }
}

#[test]
fn b07_b08_names_may_be_any_bytes() {
    if !needs("python3") {
        return;
    }
    for name in [
        r"b') R 0 0 ('",
        r"b'nl\nname'",
        r"b'x) S 1 1'",
        r"b''",
        r"'é'.encode()*10",
        r"b'\xff\xfe)'",
        r"b'\x1b[2J'",
    ] {
        let tool = Tool::new();
        let code = format!(
            "import ctypes,sys;ctypes.CDLL(None).prctl(15,{name});print('up',flush=True);sys.stdin.readline()"
        );
        let mut odd = Running::start(tool.command("python3").args(["-c", &code]));
        held_for(&tool, &odd);
        tool.precheck(&["sync"]).expect(75).one_line();
        let done = tool.lock(&["run", "sync", "true"]).expect(75).one_line();
        assert!(!done.stderr.contains('\u{1b}'), "{name}: {done:?}");
        without_inode(&tool);
        tool.precheck(&["sync"]).expect(75);
        tool.lock(&["list"]).expect(0).prints("held");
        odd.end();
        tool.precheck(&["sync"]).expect(0).silent();
    }
}

#[test]
fn b10_an_owner_may_change_its_name() {
    for with_inode in [true, false] {
        let tool = Tool::new();
        let script = "\"$OL\" acquire --owner $$ sync; exec sh -c 'echo up; read -r end'";
        let mut owner = Running::start(&mut tool.script(script));
        if !with_inode {
            without_inode(&tool);
        }
        tool.precheck(&["sync"]).expect(75);
        tool.lock(&["status", "sync"]).expect(75).prints("now called: sh");
        owner.end();
    }
}

/// B11, B12: no clock of the wall, no conversion of ticks is anywhere near a decision.
#[test]
fn b11_b12_ticks_are_compared_and_never_converted() {
    let src = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for file in ["verdict/liveness.rs", "os/observe.rs", "os/process.rs", "model/identity.rs"] {
        let text = std::fs::read_to_string(src.join(file)).expect("source");
        let product = text.split("#[cfg(test)]").next().unwrap_or_default();
        for word in ["btime", "CLK_TCK", "ticks_per_second", "SystemTime", "modified()", "clock::wall"] {
            assert!(!product.contains(word), "{file}: {word}");
        }
    }
    // A wall clock that says something else entirely changes nothing.
    let tool = Tool::new();
    let owner = sleeper(&tool);
    held_for(&tool, &owner);
    for at in ["1999-01-01T00:00:00Z", "2999-01-01T00:00:00Z", "nonsense"] {
        tool.edit_record("sync", |record| record["acquired_at"] = json!(at));
        tool.precheck(&["sync"]).expect(75);
    }
}

#[test]
fn b18_b19_another_boot_is_dead_and_a_missing_one_is_unknown() {
    let tool = Tool::new();
    let owner = sleeper(&tool);
    held_for(&tool, &owner);
    let boot = tool.record("sync")["host"]["boot_id"].clone();
    tool.edit_record("sync", |record| record["host"]["boot_id"] = Value::Null);
    tool.precheck(&["sync"]).expect(0).one_line().says("no boot id");
    tool.lock(&["run", "sync", "true"]).expect(69);
    // Later after a boot than it is now: proof of a restart, with or without an id. Also a tick proves it.
    let now = 9_000_000_000_000_000_u64;
    tool.edit_record("sync", |record| record["host"]["boottime_us"] = json!(now));
    tool.precheck(&["sync"]).expect(0).silent();
    tool.edit_record("sync", |record| {
        record["host"]["boottime_us"] = json!(1);
        record["host"]["boot_id"] = json!("11111111-1111-4111-8111-111111111111");
    });
    tool.precheck(&["sync"]).expect(0).silent();
    tool.edit_record("sync", |record| {
        record["host"]["boot_id"] = boot;
        record["last_tick"] = json!({
            "utc": "2026-01-01T00:00:00Z", "boottime_us": now, "monotonic_us": 1,
            "time_ns": record["host"]["time_ns"],
        });
    });
    tool.lock(&["run", "sync", "true"]).expect(0).silent();
}

const CONTAINER: &[&str] = &["-p", "-f", "--mount-proc"];

fn containers() -> bool {
    needs_root() && needs_unshare(CONTAINER)
}

/// Are we in the initial pid namespace (and not in a container ourselves)?
fn outside() -> bool {
    let link = std::fs::read_link("/proc/self/ns/pid").expect("a namespace");
    support::allowed(link.to_string_lossy() == "pid:[4026531836]", "in a container already")
}

#[test]
fn b21_a_restarted_container_does_not_honour_or_take_its_own_ghost() {
    if !containers() {
        return;
    }
    let tool = Tool::new();
    let first = "\"$OL\" acquire --owner $$ --print-token sync; read -r end; kill -9 $$";
    let mut first = Running::start(&mut tool.unshared(CONTAINER, first));
    // The kernel hands the number of a namespace out again; while we have it open it does not.
    let children = format!("/proc/{0}/task/{0}/children", first.pid());
    let init = std::fs::read_to_string(children).expect("children");
    let _namespace = std::fs::File::open(format!("/proc/{}/ns/pid", init.trim())).expect("a namespace");
    first.end().says("in this pid namespace a crash will need 'orion-lock break'");
    assert_eq!(tool.record("sync")["owners"][0]["pid"], 1, "the container's first process");
    let second = "\"$OP\" sync; echo $?; \"$OL\" acquire --owner $$ sync; echo $?";
    let done = run(&mut tool.unshared(CONTAINER, second)).expect(0).says("from another container");
    let done = done.says("orion-lock break --token");
    assert_eq!(done.stdout, "0\n69\n");
    // Marked as used by one container at a time, the ghost is proved dead.
    let record = std::fs::read(tool.file("sync.json")).expect("record");
    tool.lock(&["where", "--mark-private"]).expect(0);
    assert_eq!(run(&mut tool.unshared(CONTAINER, second)).expect(0).silent().stdout, "0\n0\n");
    // And from outside everybody is seen, so no mark is needed.
    std::fs::remove_file(tool.dir().join(".private")).expect("rm");
    std::fs::write(tool.file("sync.json"), record).expect("write");
    if outside() {
        tool.precheck(&["sync"]).expect(0).silent();
        tool.lock(&["run", "-v", "sync", "true"]).expect(0);
    }
}

#[test]
fn b22_two_live_containers_never_share_a_lock() {
    if !containers() {
        return;
    }
    let tool = Tool::new();
    let script = "\"$OL\" acquire --owner $$ sync; echo up; read -r end";
    let mut first = Running::start(&mut tool.unshared(CONTAINER, script));
    let second = "\"$OP\" sync; echo $?; \"$OL\" acquire --owner $$ sync; echo $?";
    let done = run(&mut tool.unshared(CONTAINER, second)).expect(0).says("not guarding");
    assert_eq!(done.stdout, "0\n69\n");
    if outside() {
        // The host finds the owner among all processes, whatever number it has there.
        tool.lock(&["run", "sync", "true"]).expect(75);
        tool.lock(&["status", "-v", "sync"]).expect(75).prints("rule 3");
    }
    first.end();
    if outside() {
        tool.lock(&["run", "sync", "true"]).expect(0);
    }
    // A run carries a pulse, which is proof on this kernel from anywhere.
    let tool = Tool::new();
    let script = "exec \"$OL\" run sync sh -c 'echo up; read -r end'";
    let _first = Running::start(&mut tool.unshared(CONTAINER, script));
    assert_eq!(run(&mut tool.unshared(CONTAINER, second)).expect(0).stdout, "75\n75\n");
    tool.precheck(&["sync"]).expect(75);
}

#[test]
fn b23_a_container_with_a_boot_id_of_its_own_is_unknown() {
    if !needs_root() || !needs_unshare(&["-m"]) {
        return;
    }
    let tool = Tool::new();
    let owner = sleeper(&tool);
    held_for(&tool, &owner);
    let script = "
        echo 11111111-1111-4111-8111-111111111111 >\"$ORION_DIR\"/../boot
        mount --bind \"$ORION_DIR\"/../boot /proc/sys/kernel/random/boot_id
        \"$OP\" sync; echo $?; \"$OL\" run sync true; echo $?
        \"$OL\" run mine \"$OP\" mine; echo $?";
    let done = run(&mut tool.unshared(&["-m"], script)).expect(0).says("no boot id");
    assert_eq!(done.stdout, "0\n69\n75\n", "a file over it is not believed: {done:?}");
    assert!(tool.record("mine")["host"]["boot_id"].is_null());
    tool.precheck(&["sync"]).expect(75);
}

#[test]
fn b25_a_record_of_another_machine_is_unknown_where_machines_share() {
    let tool = Tool::new();
    let owner = sleeper(&tool);
    held_for(&tool, &owner);
    tool.lock(&["where", "--mark-network"]).expect(0);
    // Our own record there is judged as ever.
    tool.precheck(&["sync"]).expect(75);
    tool.edit_record("sync", |record| {
        record["host"]["machine_id"] = json!("f".repeat(32));
        record["host"]["boot_id"] = json!("11111111-1111-4111-8111-111111111111");
        record["owners"][0]["pid"] = json!(4_194_000);
    });
    tool.precheck(&["sync"]).expect(0).one_line().says("from another machine");
    tool.lock(&["run", "sync", "true"]).expect(69).one_line().says("orion-lock break --token");
}

#[test]
fn b26_b27_the_token_tells_what_identity_cannot() {
    let tool = Tool::new();
    let owner = sleeper(&tool);
    held_for(&tool, &owner);
    let old = tool.record("sync")["token"].to_string();
    // As after checkpoint and restore: the same pid, another start. The contender sees a dead owner.
    tool.edit_record("sync", |record| {
        record["owners"][0]["start_ticks"] = json!(1);
        record["owners"][0]["pidfs_ino"] = json!(1);
    });
    tool.lock(&["verify", "--token", &old, "sync"]).expect(77).says("owner has ended");
    let _next = tool.hold("sync");
    let before = std::fs::read(tool.file("sync.json")).expect("record");
    // Who held it before learns that it is lost, and deletes nothing.
    tool.lock(&["release", "--token", &old, "sync"]).expect(77);
    tool.lock(&["verify", "--token", &old, "sync"]).expect(77);
    assert_eq!(std::fs::read(tool.file("sync.json")).expect("record"), before);
}

/// Every case of the parts A to F that is ours has a test that bears its number.
#[test]
fn every_case_has_its_test() {
    let numbers = [
        1, 3, 4, 5, 7, 8, 10, 11, 12, 14, 15, 17, 18, 19, 21, 22, 23, 25, 26, 27, 29, 30, 32, 33, 35, 36, 38,
        39, 40, 41, 42, 43, 45, 46, 49, 50, 52, 53, 54, 56, 57, 59, 61, 62, 63, 64, 65, 66, 68, 69, 70, 73,
    ];
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let text: String = std::fs::read_dir(folder)
        .expect("tests")
        .filter_map(|entry| std::fs::read_to_string(entry.expect("an entry").path()).ok())
        .collect::<String>()
        .to_lowercase();
    let missing: Vec<u32> =
        numbers.into_iter().filter(|number| !text.contains(&format!("b{number:02}"))).collect();
    assert!(missing.is_empty(), "no test for {missing:?}");
}
