//! G03 to G08: other namespaces, other mounts of `/proc`: what cannot be seen is not dead, and a number
//! of elsewhere names nobody here.

use crate::answers;
use crate::support::{Running, Tool, needs, needs_root, needs_unshare, run};

const CONTAINER: &[&str] = &["-p", "-f", "--mount-proc"];

fn containers() -> bool {
    needs_root() && needs_unshare(CONTAINER)
}

#[test]
fn g07_a_tick_from_another_time_namespace_restarts_nothing() {
    if !needs_root() || !needs_unshare(&["-T", "--boottime", "100000", "-f"]) {
        return;
    }
    let tool = Tool::new();
    let _owner = Running::start(&mut tool.script("\"$OL\" acquire --owner $$ --print-token x; read -r end"));
    let token = tool.record("x")["token"].to_string();
    let far = &["-T", "--boottime", "100000", "--monotonic", "100000", "-f"];
    run(&mut tool.unshared(far, &format!("\"$OL\" tick --token {token} --every 1s x"))).expect(0);
    tool.lock(&["run", "x", "echo", "RAN"]).expect(75);
    tool.precheck(&["x"]).expect(75);
    // Nor is anybody stuck by a clock of elsewhere, seen from either side.
    tool.lock(&["status", "x"]).expect(75);
    run(&mut tool.unshared(far, "\"$OL\" status x")).expect(75);
    tool.lock(&["tick", "--token", &token, "--every", "1h", "x"]).expect(0);
    assert_eq!(answers(&mut tool.unshared(far, "\"$OL\" status x >/dev/null; echo $?")), ["75"]);
}

/// A directory that root and uid 4242 share by the group 0.
fn shared(tool: &Tool) -> String {
    let dir = tool.dir().display().to_string();
    tool.sh(&format!(
        "mkdir -p '{dir}'; chgrp 0 '{dir}'; chmod 2770 '{dir}'; chmod 755 '{}'",
        tool.path("").display()
    ))
    .expect(0);
    dir
}

#[test]
fn g08_who_may_not_see_everybody_calls_nobody_dead() {
    if !containers() || !needs("setpriv") || !needs_unshare(&["-m", "-U", "-r"]) {
        return;
    }
    let tool = Tool::new();
    shared(&tool);
    // An owner without a pulse, of another user, in a container.
    let owner = "exec setpriv --reuid=4242 --regid=0 --clear-groups bash -c '
        exec 3<&0; sh -c \"read -r end <&3\" & owner=$!
        \"$OL\" acquire --for $owner x || exit 1; echo taken; wait $owner'";
    let mut owner = Running::start(&mut tool.unshared(CONTAINER, owner));
    assert_eq!(owner.line, "taken");
    // Who sees everybody finds it.
    tool.lock(&["run", "x", "echo", "RAN"]).expect(75);
    let hidden = |judge: &str| {
        format!(
            "mount -t proc -o hidepid=2 proc /proc || exit 3; {judge} \"$OL\" run x echo RAN; echo $?; {judge} \"$OP\" x; echo $?"
        )
    };
    for judge in ["setpriv --bounding-set=-sys_ptrace", "unshare -U -r"] {
        let done = run(&mut tool.unshared(&["-m"], &hidden(judge)));
        assert_eq!(done.stdout, "69\n0\n", "{judge}: {done:?}");
        assert!(done.stderr.contains("cannot tell"), "{judge}: {done:?}");
    }
    // Root with the right sees through it.
    assert_eq!(run(&mut tool.unshared(&["-m"], &hidden(""))).stdout, "75\n75\n");
    owner.end();
    assert_eq!(run(&mut tool.unshared(&["-m"], &hidden(""))).stdout, "RAN\n0\n0\n");
}

#[test]
fn g03_nothing_is_said_to_have_ended_that_lives_in_another_container() {
    if !containers() {
        return;
    }
    for owner in [
        "exec \"$OL\" run x sh -c 'echo up; read -r end'",
        "\"$OL\" run --tree x sh -c 'echo up; read -r end'",
    ] {
        let tool = Tool::new();
        let mut first = Running::start(&mut tool.unshared(CONTAINER, owner));
        let second =
            "for i in 1 2 3; do \"$OL\" run x echo RAN; echo $?; done; \"$OL\" status x; \"$OP\" x; echo $?";
        let done = run(&mut tool.unshared(CONTAINER, second));
        assert_eq!(done.stdout.matches("75").count(), 4, "{done:?}");
        assert!(!done.stdout.contains("RAN"), "{done:?}");
        let all = format!("{}{}", done.stdout, done.stderr);
        for wrong in [" ended", "started by it", "--owner-is-alive", "(sh)", "state T"] {
            assert!(!all.contains(wrong), "{wrong}: {all}");
        }
        assert!(all.contains("of another container"), "{all}");
        first.end();
    }
}

#[test]
fn g04_a_number_of_a_container_is_nobodys_on_the_host() {
    if !containers() {
        return;
    }
    let tool = Tool::new();
    let owner = "exec \"$OL\" run x sh -c 'echo up; read -r end'";
    let mut first = Running::start(&mut tool.unshared(CONTAINER, owner));
    let pids: Vec<u64> = tool.record("x")["owners"]
        .as_array()
        .expect("owners")
        .iter()
        .map(|it| it["pid"].as_u64().expect("pid"))
        .collect();
    assert!(pids.iter().all(|pid| *pid < 10), "numbers that everybody has: {pids:?}");
    // Not held by "our own caller, pid 1": it waits, and has it when the other has ended.
    let mut waiter = Running::start(&mut tool.script("\"$OL\" run -w 50s x echo GOT & echo waiting; wait"));
    let done = tool.lock(&["run", "x", "true"]).expect(75).one_line();
    assert!(!done.stderr.contains("caller"), "{done:?}");
    let status = tool.lock(&["status", "--json", "x"]).expect(75).json();
    assert_eq!(status["pids_are_of_here"], false, "{status}");
    for holder in status["holders"].as_array().expect("holders") {
        let pid = holder["pid"].as_u64().expect("pid");
        assert!(!pids.contains(&pid), "a number of the container: {status}");
        let cwd = std::fs::read_link(format!("/proc/{pid}/ns/pid")).expect("of here");
        assert_ne!(cwd, std::fs::read_link("/proc/self/ns/pid").expect("ours"), "{status}");
    }
    tool.lock(&["status", "x"]).expect(75);
    tool.lock(&["wait", "-w", "0", "x"]).expect(75);
    first.end();
    assert_eq!(waiter.next_line(), "GOT");

    // Stopped and replaced from the host, it is the process of the container that is asked.
    for line in ["\"$OL\" stop --token $T x", "\"$OL\" run --replace x true"] {
        let tool = Tool::new();
        let mut first =
            Running::start(&mut tool.unshared(CONTAINER, "\"$OL\" run x sh -c 'echo up; read -r end'; :"));
        let token = tool.record("x")["token"].to_string();
        run(tool.script(line).env("T", token)).expect(0);
        first.end();
    }
}

#[test]
fn g05_a_normal_end_frees_everywhere() {
    if !containers() {
        return;
    }
    let tool = Tool::new();
    let twice = "\"$OL\" run x -- true";
    for _ in 0..3 {
        run(&mut tool.unshared(CONTAINER, twice)).expect(0);
    }
    assert!(tool.record("x")["released_at"].is_string());
    tool.lock(&["run", "x", "true"]).expect(0).silent();
    // The host knows by now that the directory is used from containers: its own normal end is marked too.
    assert!(tool.record("x")["released_at"].is_string());
    tool.lock(&["where"]).expect(0).prints("containers");
    run(&mut tool.unshared(CONTAINER, twice)).expect(0);
    // The status of the command passes through, and a daemon of --owner-only is not waited for.
    run(&mut tool.unshared(CONTAINER, "\"$OL\" run x sh -c 'exit 7'")).expect(7);
    let daemon = "\"$OL\" run --owner-only x sh -c 'sleep 1000 & exit 3'";
    run(&mut tool.unshared(CONTAINER, daemon)).expect(3);

    // Only a crash of all of it needs a person, and the line has both ways out.
    let mut killed =
        Running::start(&mut tool.unshared(CONTAINER, "\"$OL\" run x sh -c 'echo up; read -r end'; :"));
    let children = format!("/proc/{0}/task/{0}/children", killed.pid());
    let init: u32 = std::fs::read_to_string(children).expect("children").trim().parse().expect("a pid");
    let _namespace = std::fs::File::open(format!("/proc/{init}/ns/pid")).expect("a namespace");
    crate::support::KillOnDrop::of(init).kill();
    killed.end();
    let token = tool.record("x")["token"].to_string();
    let done = run(&mut tool.unshared(CONTAINER, "\"$OL\" run x echo RAN"));
    let done =
        done.expect(69).says(&format!("orion-lock break --token {token} x")).says("where --mark-private");
    assert_eq!(done.stdout, "");
    // From outside everybody is seen.
    tool.lock(&["run", "x", "true"]).expect(0);
}

/// A directory that one container at a time uses needs nobody to stay.
#[test]
fn g05_a_private_directory_becomes_the_command_as_ever() {
    if !containers() {
        return;
    }
    let tool = Tool::new();
    tool.lock(&["where", "--mark-private"]).expect(0);
    let text = "\"$OL\" run x sh -c 'echo $PPID'; echo $$";
    let lines = answers(&mut tool.unshared(CONTAINER, text));
    assert_eq!(lines[0], lines[1], "the shell is the parent: nobody stays between");
}
