use super::*;
use std::process::Stdio;

/// Written by another process: a descriptor of ours, open for writing while some
/// thread forks, would make it "text file busy".
fn script(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("prog");
    let mut install = Command::new("install");
    install.args(["-m", "755", "/dev/stdin"]).arg(&path).stdin(Stdio::piped());
    let mut child = install.spawn().expect("install");
    child.stdin.take().expect("stdin").write_all(text.as_bytes()).expect("write");
    assert!(child.wait().expect("wait").success());
    path
}

fn own(labels: &[&str]) -> Vec<String> {
    labels.iter().map(|&label| label.to_owned()).collect()
}

fn options() -> Options {
    Options { timeout: Duration::from_secs(60), ..Options::default() }
}

fn claim() -> Swap {
    let (has, lacks) = (own(&["orion-queue"]), own(&["orion-working"]));
    Swap {
        add: own(&["orion-working"]),
        remove: own(&["orion-queue"]),
        expect: Expect { has, lacks, open: Some(true), mark: None },
        signature: Some("orion-claim n1".into()),
    }
}

/// The example of the manual, as it is printed there.
#[test]
fn the_example_is_a_tracker() {
    let dir = tempfile::tempdir().expect("dir");
    if Command::new("python3").arg("--version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "python3 is missing");
        return;
    }
    let store = dir.path().join("tickets.json");
    let tickets =
        json!({"A-1": {"labels": ["orion-queue"], "events": []}, "A-2": {"labels": [], "events": []}});
    std::fs::write(&store, tickets.to_string()).expect("write");
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/tracker.py");
    let wrapper = format!("#!/bin/sh\nTICKETS='{}' exec python3 '{example}'\n", store.display());
    let program = TrackerProgram::open(&script(dir.path(), &wrapper), &options()).expect("open");
    assert!(program.can().conditional && program.can().event_ids && !program.can().remote);
    let key = program.key("A-1").expect("key");
    assert_eq!(program.queue().expect("queue").tickets.len(), 1);
    assert_eq!(program.swap(&key, &claim()).expect("swap"), Swapped::Done(None));
    assert!(matches!(program.swap(&key, &claim()).expect("swap"), Swapped::Changed(_)));
    let events = program.events(&key).expect("events");
    let newest = crate::model::ticket::newest_labeled(&events, "orion-working").expect("event");
    assert_eq!(newest.actor, "orion-claim n1");
    let hand_over = |mark: &str| Swap {
        add: own(&["orion-ready"]),
        remove: own(&["orion-working"]),
        expect: Expect { mark: Some(("orion-working".into(), EventId(mark.into()))), ..Expect::default() },
        signature: None,
    };
    assert!(matches!(program.swap(&key, &hand_over("9")).expect("swap"), Swapped::Changed(_)));
    assert_eq!(program.swap(&key, &hand_over(&newest.id.0)).expect("swap"), Swapped::Done(None));
    let missing = program.ticket(&Key::new("A-9").expect("key")).expect_err("none");
    assert_eq!(missing.why(), Why::NoTicket);
    assert!(program.take(&key, "orion-queue").is_err() && program.check(true).is_ok());
}

#[test]
fn a_program_that_does_not_speak_is_told_apart_from_one_that_says_no() {
    let dir = tempfile::tempdir().expect("dir");
    let hello = "case $(cat) in *hello*) echo '{\"capabilities\":{\"event_ids\":true,\"gate\":true}}';;";
    let open = |rest: &str, options: &Options| {
        let text = format!("#!/bin/sh\n{hello} {rest} esac\n");
        TrackerProgram::open(&script(dir.path(), &text), options)
    };
    let key = Key::new("A-1").expect("key");
    for (rest, expected) in [
        ("*) echo '{\"error\":{\"kind\":\"refused\",\"message\":\"no\\u001b[2J\"}}';;", Why::Refused),
        ("*) echo '{\"error\":{\"kind\":\"unreachable\",\"retry_after_s\":7}}';;", Why::Unreachable),
        ("*) echo '<html>'; echo broken >&2; exit 3;;", Why::Protocol),
        ("*) echo '{\"ticket\":{\"key\":\"B-2\",\"labels\":[]}}';;", Why::Protocol),
        ("*) ;;", Why::Protocol),
    ] {
        let program = open(rest, &options()).expect("hello");
        let failure = program.ticket(&key).expect_err(rest);
        assert_eq!(failure.why(), expected, "{rest}: {failure}");
        assert!(!failure.to_string().contains('\u{1b}'));
        let taken = program.take(&key, "orion-queue");
        let said_no = expected == Why::Refused;
        assert_eq!(taken.is_err(), said_no, "{rest}: {taken:?}");
    }
    let quick = Options { timeout: Duration::from_millis(500), ..options() };
    let slow = open("*) exec sleep 600;;", &options()).expect("hello");
    let slow = TrackerProgram { timeout: quick.timeout, ..slow };
    let failure = slow.write(&key, &own(&["x"]), &[]).expect_err("silence");
    assert!(failure.why() == Why::Unreachable && failure.may_be_applied(), "{failure}");
    assert_eq!(
        TrackerProgram::open(Path::new("/nonexistent/prog"), &options()).expect_err("none").why(),
        Why::Setting
    );
}
