//! Several holders of one name: slots, shares, and whoever needs it alone.

mod support;

use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use support::{Background, KillOnDrop, Running, Tool, eventually};

/// A member that says its slot and stays until it is told to end.
fn member(tool: &Tool, options: &[&str]) -> Running {
    let command = ["x", "sh", "-c", "echo ${ORION_LOCK_SLOT-none}; read -r end; exit 0"];
    tool.hold_with(&[&["run"], options, &command].concat())
}

fn slots(tool: &Tool, number: &str) -> Running {
    member(tool, &["--slots", number])
}

fn status(tool: &Tool) -> Value {
    tool.lock(&["status", "--json", "x"]).json()
}

fn waiting(tool: &Tool) -> u64 {
    status(tool)["waiting"].as_u64().expect("a number")
}

#[test]
fn the_lowest_free_slot_is_taken_and_one_more_is_refused_by_the_names_of_all() {
    let tool = Tool::new();
    let (first, mut second, third) = (slots(&tool, "3"), slots(&tool, "3"), slots(&tool, "3"));
    assert_eq!([&first.line, &second.line, &third.line], ["1", "2", "3"]);
    let refused = tool.lock(&["run", "--slots", "3", "x", "true"]).expect(75).one_line();
    let refused = refused.says("x: 3 of 3 slots are held: ");
    for member in [&first, &second, &third] {
        assert!(refused.stderr.contains(&format!("pid {} (sh)", member.pid())), "{refused:?}");
    }
    assert_eq!(tool.lock(&["run", "--slots", "4", "x", "sh", "-c", "exit $ORION_LOCK_SLOT"]).code, 4);
    // kill -9 of one of three: its slot alone is free, at once.
    second.kill();
    assert_eq!(tool.lock(&["run", "--slots", "3", "x", "sh", "-c", "exit $ORION_LOCK_SLOT"]).code, 2);
    let again = slots(&tool, "3");
    assert_eq!(again.line, "2");
    tool.lock(&["run", "--slots", "3", "x", "true"]).expect(75);
}

#[test]
fn nobody_is_beside_an_exclusive_run_and_it_waits_for_all_members() {
    let tool = Tool::new();
    let mut alone = member(&tool, &[]);
    assert_eq!(alone.line, "none");
    for option in [&["--slots", "9"][..], &["--shared"]] {
        let args = [&["run"], option, &["x", "true"]].concat();
        tool.lock(&args).expect(75).says(&format!("x is held by pid {}", alone.pid()));
        tool.precheck(&[option, &["x"]].concat()).expect(75);
    }
    alone.end().expect(0);
    let (mut slot, mut share) = (slots(&tool, "2"), member(&tool, &["--shared"]));
    assert_eq!((slot.line.as_str(), share.line.as_str()), ("1", "none"));
    tool.lock(&["run", "x", "true"]).expect(75).says("x is held by 2: ");
    tool.lock(&["run", "--slots", "2", "x", "true"]).expect(75).says("2 of 2 slots");
    tool.lock(&["run", "--shared", "x", "true"]).expect(0).silent();
    tool.precheck(&["x"]).expect(75);
    tool.precheck(&["--shared", "x"]).expect(0).silent();
    tool.precheck(&["--slots", "2", "x"]).expect(75);
    tool.precheck(&["--slots", "3", "x"]).expect(0).silent();
    slot.end().expect(0);
    tool.lock(&["run", "x", "true"]).expect(75).says(&format!("x is held by pid {}", share.pid()));
    share.end().expect(0);
    tool.lock(&["run", "x", "sh", "-c", "exit ${ORION_LOCK_SLOT-7}"]).expect(7);
    assert_eq!(tool.record("x")["schema"], 1, "alone again, as it always was");
    assert!(!tool.file("x.members").exists());
}

#[test]
fn what_a_member_left_behind_keeps_its_slot() {
    let tool = Tool::new();
    let script = "setsid sh -c 'echo $$; exec sleep 1000' & exec sleep 1000";
    let mut owner = tool.hold_with(&["run", "--slots", "2", "x", "sh", "-c", script]);
    let job = KillOnDrop::of(owner.number());
    let other = slots(&tool, "2");
    assert_eq!(other.line, "2");
    owner.kill();
    tool.lock(&["run", "--slots", "2", "x", "true"])
        .expect(75)
        .says(&format!("2 of 2 slots are held: pid {} (", job.pid()));
    job.kill();
    eventually("the job has ended", || job.ended());
    assert_eq!(slots(&tool, "2").line, "1");
}

#[test]
fn one_process_owns_a_name_once_and_every_command_goes_by_one_token() {
    let tool = Tool::new();
    let acquire = "\"$OL\" acquire --slots 3 --owner $$ --print-token x";
    let script = format!(
        "set -e\nfirst=$({acquire})\n{acquire} && exit 1 || test $? = 75\n\
         other=$(\"$OL\" acquire --slots 3 --for {} --print-token x)\n\
         test \"${{first#* }} ${{other#* }}\" = \"1 2\"\nfirst=${{first% *}} other=${{other% *}}\n\
         test $first != $other\n\
         \"$OL\" verify --token $first x; \"$OL\" verify --owner $$ x; \"$OL\" verify --token $other x\n\
         \"$OL\" tick --token $other x; \"$OL\" tick --owner $$ x\n\
         \"$OL\" release --owner $$ x\n\
         \"$OL\" verify --token $other x\n\
         \"$OL\" verify --token $first x && exit 1 || test $? = 77\n\
         \"$OL\" release --token $other x\n\
         \"$OL\" run x true",
        std::process::id()
    );
    tool.sh(&script).expect(0).says("you already hold it");
}

#[test]
fn stop_break_and_replace_touch_one_member() {
    let tool = Tool::new();
    let (mut first, mut second) = (slots(&tool, "2"), slots(&tool, "2"));
    let members = status(&tool)["members"].as_array().expect("members").clone();
    let token = |place: usize| members[place]["token"].to_string();
    assert_eq!(members.len(), 2);
    tool.lock(&["run", "--replace", "x", "true"]).expect(64).says(&token(0)).says(&token(1));
    tool.lock(&["stop", "--token", &token(1), "x"]).expect(0);
    second.end().expect(143);
    tool.lock(&["verify", "--token", &token(0), "x"]).expect(0);
    tool.lock(&["break", "--yes", "--owner-is-alive", "--token", &token(0), "x"]).expect(0);
    tool.lock(&["run", "--slots", "1", "x", "true"]).expect(0).silent();
    first.end().expect(0);
}

#[test]
fn a_tree_holds_its_slot_and_gives_it_back() {
    let tool = Tool::new();
    let other = slots(&tool, "2");
    let command = "echo $ORION_LOCK_SLOT; read -r end; exit 3";
    let mut tree = tool.hold_with(&["run", "--tree", "--slots", "2", "x", "sh", "-c", command]);
    assert_eq!((other.line.as_str(), tree.line.as_str()), ("1", "2"));
    tool.lock(&["run", "--slots", "2", "x", "true"]).expect(75);
    tree.end().expect(3);
    tool.lock(&["run", "--slots", "2", "x", "true"]).expect(0);
}

#[test]
fn status_and_list_show_every_member() {
    let tool = Tool::new();
    let (first, share) = (slots(&tool, "3"), member(&tool, &["--shared"]));
    let shown = tool.lock(&["status", "-v", "x"]).expect(75);
    let shown = shown.prints("x is held by 2 of 3\n").prints("slot 1: ").prints("share: ");
    assert_eq!(shown.stdout.matches("rule 4").count(), 2, "the evidence of both: {}", shown.stdout);
    tool.lock(&["list"]).expect(0).prints("held 2 of 3");
    let json = status(&tool);
    let members = json["members"].as_array().expect("members");
    assert_eq!(members[0]["slot"], 1);
    assert_eq!(members[0]["slots"], 3);
    assert_eq!(members[0]["owners"][0]["pid"], first.pid());
    assert_eq!(members[1]["slot"], Value::Null);
    assert_eq!(members[1]["owners"][0]["pid"], share.pid());
    assert_eq!(json["waiting"], 0);
    let alone = Tool::new();
    let _holder = alone.hold("x");
    let json = status(&alone);
    assert_eq!((&json["members"], &json["waiting"]), (&Value::Null, &Value::from(0)));
}

#[test]
fn a_waiter_has_the_slot_at_once_and_an_exclusive_one_when_all_have_ended() {
    let tool = Tool::new();
    let (mut first, mut second) = (slots(&tool, "2"), slots(&tool, "2"));
    let waiter = Background::start(
        &mut tool.tool("orion-lock", &["run", "-w", "forever", "--slots", "2", "x", "true"]),
    );
    eventually("it waits", || waiting(&tool) == 1);
    second.kill();
    waiter.end().expect(0);
    let mut third = slots(&tool, "2");
    let mut alone = Background::start(&mut tool.tool("orion-lock", &["run", "-w", "forever", "x", "true"]));
    eventually("it waits", || waiting(&tool) == 1);
    third.end().expect(0);
    assert!(!alone.is_over(), "the first is still there");
    first.end().expect(0);
    alone.end().expect(0);
}

#[test]
fn an_exclusive_waiter_goes_before_newcomers_and_after_those_who_stood_there() {
    let tool = Tool::new();
    let log = tool.path("order");
    let note = |word: &str| format!("echo {word} >> {}", log.display());
    let (mut first, mut second) = (slots(&tool, "2"), slots(&tool, "2"));
    let wait = |option: &[&str], word: &str| {
        let command = note(word);
        let args = [&["run", "-w", "forever"], option, &["x", "sh", "-c", &command]].concat();
        Background::start(&mut tool.tool("orion-lock", &args))
    };
    let before = wait(&["--slots", "2"], "before");
    eventually("one waits", || waiting(&tool) == 1);
    let alone = wait(&[], "alone");
    eventually("two wait", || waiting(&tool) == 2);
    let mut behind = wait(&["--shared"], "behind");
    eventually("three wait", || waiting(&tool) == 3);
    first.end().expect(0);
    before.end().expect(0);
    assert!(!behind.is_over(), "who came later waits for the exclusive one");
    // A slot is free, and a newcomer does not get it.
    let refused = tool.lock(&["run", "--slots", "2", "--json", "x", "true"]).expect(75);
    assert_eq!(refused.json()["error"]["kind"], "exclusive_waits");
    tool.precheck(&["--slots", "2", "x"]).expect(0);
    second.end().expect(0);
    alone.end().expect(0);
    behind.end().expect(0);
    assert_eq!(fs::read_to_string(&log).expect("order"), "before\nalone\nbehind\n");
}

#[test]
fn one_runs_one_waits_and_the_rest_skip() {
    let tool = Tool::new();
    let mut first = tool.hold("x");
    let args = ["run", "-w", "forever", "--max-waiting", "1", "x", "true"];
    let waiter = Background::start(&mut tool.tool("orion-lock", &args));
    eventually("it waits", || waiting(&tool) == 1);
    for _ in 0..3 {
        let refused = tool.lock(&[&args[..], &["--json"]].concat()[..]);
        assert_eq!(refused.code, 75, "{refused:?}");
    }
    let refused = tool.lock(&["--json", "run", "-w", "1h", "--max-waiting", "1", "x", "true"]).expect(75);
    assert_eq!(refused.json()["error"]["kind"], "queue_full");
    tool.lock(&["run", "-E", "0", "-w", "1h", "--max-waiting", "1", "x", "true"]).expect(0);
    // A killed waiter leaves no number behind.
    let killed = Background::start(
        &mut tool.tool("orion-lock", &["run", "-w", "1h", "--max-waiting", "2", "x", "true"]),
    );
    eventually("two wait", || waiting(&tool) == 2);
    drop(killed);
    eventually("one is left", || waiting(&tool) == 1);
    tool.lock(&["status", "x"]).expect(75).prints("one waits for it");
    first.end().expect(0);
    waiter.end().expect(0);
}

#[test]
fn a_corrupt_member_is_set_aside_and_an_unreadable_one_lets_nobody_guess() {
    let tool = Tool::new();
    let (_first, mut second) = (slots(&tool, "3"), slots(&tool, "3"));
    second.end().expect(0);
    fs::write(tool.file("x.members/1.json"), "{").expect("write");
    tool.lock(&["run", "--slots", "1", "x", "true"]).expect(75);
    fs::remove_file(tool.file("x.members/1.json")).ok();
    fs::create_dir(tool.file("x.members/1.json")).expect("mkdir");
    tool.lock(&["run", "--slots", "3", "x", "true"]).expect(69);
    tool.lock(&["run", "x", "true"]).expect(75);
    tool.precheck(&["--slots", "3", "x"]).expect(0).says("not guarding");
}

#[test]
fn a_member_whose_record_was_removed_keeps_its_place() {
    // The record of the last token: the guard still has it.
    let tool = Tool::new();
    let (mut first, mut second) = (slots(&tool, "2"), slots(&tool, "2"));
    fs::remove_file(tool.file("x.members/1.json")).expect("a cleaner");
    tool.lock(&["run", "--slots", "2", "x", "true"]).expect(75);
    tool.lock(&["run", "x", "true"]).expect(75);
    second.end();
    assert_eq!(slots(&tool, "2").line, "2");
    first.end();
    // The first one, beside another that has the last token.
    let tool = Tool::new();
    let (mut first, mut second) = (slots(&tool, "3"), slots(&tool, "3"));
    fs::remove_file(tool.file("x.json")).expect("a cleaner");
    tool.lock(&["run", "--slots", "3", "x", "true"]).expect(75);
    tool.precheck(&["--slots", "3", "x"]).expect(75);
    first.end();
    // Its own pulse is nobody else's: there is room beside the other one.
    tool.precheck(&["--slots", "3", "x"]).expect(0);
    assert_eq!(slots(&tool, "3").line, "1");
    second.end();
    tool.lock(&["run", "x", "echo", "RAN"]).expect(0).prints("RAN");
}

#[test]
fn a_stopped_member_is_said_and_an_older_version_finds_a_format_it_leaves_alone() {
    let tool = Tool::new();
    let (mut first, second) = (slots(&tool, "2"), slots(&tool, "2"));
    second.signal(Signal::STOP);
    tool.lock(&["run", "-q", "--slots", "2", "x", "true"]).expect(75).says("stopped (state T)");
    // The first member's record stands as long as anybody is there, also when its own owner has ended:
    // schema 2 is what a version that knows only 1 refuses.
    first.kill();
    assert_eq!(tool.record("x")["schema"], 2);
    assert_eq!(slots(&tool, "2").line, "1");
    assert_eq!(tool.record("x")["schema"], 2);
}

/// Said once by whoever waits longer than a second and may speak: for what, for whom, and how many stand there too.
#[test]
fn a_waiter_says_once_for_whom_it_waits_and_how_many_more_do() {
    let tool = Tool::new();
    let mut holder = tool.hold("x");
    let wait = |word: &str, options: &[&str]| {
        let said = tool.path(word);
        let args = [&["run", "-w", "forever"], options, &["x", "true"]].concat();
        let mut command = tool.tool("orion-lock", &args);
        command.stdout(std::process::Stdio::null()).stderr(fs::File::create(&said).expect("file"));
        (KillOnDrop::of(command.spawn().expect("start").id()), said)
    };
    let lines = |said: &std::path::Path| {
        let text = fs::read_to_string(said).expect("read");
        text.lines().filter(|line| line.contains("waiting: ")).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut waiters = Vec::new();
    for (at, more) in ["", "; one more waits", "; 2 more wait"].iter().enumerate() {
        let (waiter, said) = wait(&format!("waiter-{at}"), &["-v"]);
        eventually("it says that it waits", || !lines(&said).is_empty());
        let line = lines(&said).remove(0);
        let begin = format!("orion-lock: waiting: x is held by pid {} (sh", holder.pid());
        assert!(line.starts_with(&begin), "{line}");
        let token = format!("; token {}{more}", tool.record("x")["token"]);
        assert!(line.ends_with(&token), "{line}");
        waiters.push((waiter, said));
    }
    // The first has looked again since, more than once.
    let (silent, said_by_silent) = wait("silent", &[]);
    eventually("all wait", || waiting(&tool) == 4);
    holder.end().expect(0);
    for (waiter, said) in &waiters {
        eventually("it has ended", || waiter.ended());
        assert_eq!(lines(said).len(), 1, "{:?}", lines(said));
    }
    eventually("it has ended", || silent.ended());
    assert_eq!(fs::read_to_string(said_by_silent).expect("read"), "", "nobody listens, and nobody asked");
}
