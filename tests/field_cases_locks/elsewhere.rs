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
