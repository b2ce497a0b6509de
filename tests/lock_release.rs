//! `release` and `verify`: the token or the owner itself, and nobody else.

mod support;

use support::{Running, Tool, run};

#[test]
fn the_token_releases_from_anywhere_and_twice_is_fine() {
    let tool = Tool::new();
    let mut holder =
        Running::start(&mut tool.script("\"$OL\" acquire --owner $$ --print-token sync; read -r end"));
    let token = holder.line.clone();
    tool.lock(&["release", "--token", "1", "sync"]).expect(77).one_line().says("nothing was changed");
    tool.precheck(&["sync"]).expect(75);
    tool.lock(&["release", "--token", &token, "sync"]).expect(0).silent();
    tool.lock(&["release", "--token", &token, "sync"]).expect(0).silent();
    let record = tool.record("sync");
    assert!(record["released_at"].is_string(), "{record}");
    tool.precheck(&["sync"]).expect(0).silent();
    tool.lock(&["status", "sync"]).expect(0).prints("released it at");
    // No record, and the guard's token is ours: it was released.
    std::fs::remove_file(tool.file("sync.json")).expect("rm");
    tool.lock(&["release", "--token", &token, "sync"]).expect(0).silent();
    tool.lock(&["release", "--token", "1", "sync"]).expect(77);
    holder.end();
}

#[test]
fn an_owner_releases_by_its_number_only() {
    let tool = Tool::new();
    let script =
        "\"$OL\" acquire --owner $$ sync; \"$OL\" release --owner $$ sync; \"$OL\" release --owner $$ sync";
    tool.sh(script).expect(0).silent();
    let by_name = "\"$OL\" acquire --owner $$ sync; \"$OL\" release --owner bash sync";
    tool.sh(by_name).expect(64).one_line();
    // Inherited values give no right: neither the exported token nor the exported owner.
    tool.lock(&["run", "sync", "sh", "-c", "\"$OL\" release sync"]).expect(64).one_line();
    let inherited = "export ORION_OWNER_PID=$$; \"$OL\" acquire sync; \"$OL\" release sync";
    tool.sh(inherited).expect(64).one_line();
}

/// Field case B40, and the nested script whose exit trap must not free its parent's lock.
#[test]
fn descent_gives_no_right() {
    let tool = Tool::new();
    let inner = tool.path("inner.sh");
    std::fs::write(&inner, "\"$OL\" release --owner $$ sync\n").expect("write");
    let script = format!("\"$OL\" acquire --owner $$ sync; bash {}; echo $?", inner.display());
    let done = tool.sh(&script).expect(0).says("not yours");
    assert_eq!(done.stdout.trim(), "77");

    let _holder = tool.hold("sync");
    let before = std::fs::read(tool.file("sync.json")).expect("record");
    let trap = "trap '\"$OL\" release --owner $$ sync' EXIT; \"$OL\" acquire --owner $$ sync || exit 3";
    tool.sh(trap).expect(3).says("is held by pid").says("not yours");
    assert_eq!(std::fs::read(tool.file("sync.json")).expect("record"), before, "the file is untouched");
    tool.precheck(&["sync"]).expect(75);
}

#[test]
fn an_old_token_never_frees_a_successor() {
    let tool = Tool::new();
    let old = tool.sh("\"$OL\" acquire --owner $$ --print-token sync").expect(0).token().to_string();
    let _holder = tool.hold("sync");
    tool.lock(&["release", "--token", &old, "sync"]).expect(77).says("its record names pid");
    tool.lock(&["verify", "--token", &old, "sync"]).expect(77);
    tool.lock(&["run", "sync", "true"]).expect(75);
}

#[test]
fn what_was_never_held_is_nobodys_and_nothing_is_created() {
    let tool = Tool::new();
    tool.lock(&["release", "--token", "5", "sync"]).expect(77).one_line().says("never held in");
    tool.lock(&["verify", "--token", "5", "sync"]).expect(77).one_line().says("never held in");
    assert!(!tool.dir().exists());
    tool.lock(&["run", "other", "true"]).expect(0);
    tool.lock(&["release", "--token", "5", "sync"]).expect(77);
    assert_eq!(tool.files(), ["other.guard", "other.json", "other.pulse"]);
    for bad in ["0", "-1", "x", "99999999999999999999"] {
        let code = tool.lock(&["release", &format!("--token={bad}"), "other"]).one_line().code;
        assert!(code == 64 || code == 77, "{bad}: {code}");
    }
}

#[test]
fn verify_is_the_line_before_writing_results() {
    let tool = Tool::new();
    tool.lock(&["run", "sync", "sh", "-c", "\"$OL\" verify sync"]).expect(0).silent();
    tool.lock(&["run", "sync", "sh", "-c", "\"$OL\" verify other"]).expect(64).one_line();
    let script = "\"$OL\" acquire --owner $$ sync; \"$OL\" verify --owner $$ sync && bash -c '\"$OL\" verify --owner script.sh sync; exit $?'";
    std::fs::write(tool.path("script.sh"), script).expect("write");
    run(tool.command("bash").arg(tool.path("script.sh"))).expect(0).silent();
    // Its owner has ended: yours no longer.
    let token = tool.record("sync")["token"].to_string();
    tool.lock(&["verify", "--token", &token, "sync"]).expect(77).one_line().says("owner has ended");
    let done = tool.lock(&["verify", "--json", "--token", &token, "sync"]).expect(77);
    assert_eq!(done.json()["error"]["kind"], "owner_ended");
    let done = tool.lock(&["verify", "--json", "--token", "5", "sync"]).expect(77);
    assert_eq!(done.json()["error"]["kind"], "not_owner");
    // Released: not any more.
    tool.lock(&["release", "--token", &token, "sync"]).expect(0);
    tool.lock(&["verify", "--token", &token, "sync"]).expect(77).says("released");
    // A lock that never existed for an exported name that does: the environment of one run says nothing of another.
    let mut stale = tool.tool("orion-lock", &["verify", "sync"]);
    run(stale.env("ORION_LOCKS", "sync:5")).expect(77);
}

#[test]
fn the_last_child_of_a_dead_owner_verifies_only_with_orphan_ok() {
    let tool = Tool::new();
    let job = "\"$OL\" verify sync; echo $?; \"$OL\" verify --orphan-ok sync; echo $?";
    let inner = format!("( read -r go <fifo; {job}; ) >out & exit 0");
    let script = format!("mkfifo fifo; \"$OL\" run sync bash -c '{inner}'; echo go >fifo");
    run(tool.script(&script).current_dir(tool.path(""))).expect(0);
    support::eventually("the job's answers", || {
        std::fs::read_to_string(tool.path("out")).is_ok_and(|text| text == "77\n0\n")
    });
}

#[test]
fn unknown_is_69_for_verify_and_untouched_by_release() {
    let tool = Tool::new();
    let _holder = tool.hold("sync");
    let token = tool.record("sync")["token"].to_string();
    tool.edit_record("sync", |record| {
        record["host"]["boot_id"] = serde_json::Value::Null;
    });
    // The pulse is held, so a run would be refused; identity alone cannot be told.
    tool.lock(&["verify", "--token", &token, "sync"]).expect(69).one_line().says("cannot tell");
    tool.lock(&["run", "sync", "true"]).expect(75);
    tool.lock(&["release", "--token", &token, "sync"]).expect(0).silent();
}

#[test]
fn release_keeps_what_it_does_not_know() {
    let tool = Tool::new();
    let token = tool.sh("\"$OL\" acquire --owner $$ --print-token --note hi sync").expect(0).token();
    tool.edit_record("sync", |record| {
        record["from_the_future"] = serde_json::json!({"a": [1, 2]});
        record["attrs"]["more"] = serde_json::json!(true);
    });
    tool.lock(&["release", "--token", &token.to_string(), "sync"]).expect(0);
    let record = tool.record("sync");
    assert_eq!(record["from_the_future"]["a"][1], 2);
    assert_eq!(record["attrs"]["more"], true);
    assert_eq!(record["note"], "hi");
    // A fresh acquire starts a fresh record.
    tool.lock(&["run", "sync", "true"]).expect(0);
    assert!(tool.record("sync")["from_the_future"].is_null());
}
