use super::*;
use crate::model::ticket::{EventId, Expect, TicketChange};
use std::sync::{Arc, Barrier};

struct Fixture {
    dir: tempfile::TempDir,
    tracker: Arc<FileTracker>,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("dir");
        let tracker = FileTracker::open(dir.path(), Labels::default()).expect("open");
        Self { dir, tracker: Arc::new(tracker) }
    }

    fn file(&self, name: &str, text: &str) {
        std::fs::write(self.dir.path().join(name), text).expect("write");
    }

    /// As an editor saves: another inode.
    fn replace(&self, name: &str, text: &str) {
        self.file("new", text);
        std::fs::rename(self.dir.path().join("new"), self.dir.path().join(name)).expect("rename");
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(name)).expect(name)
    }

    fn names(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.dir.path()).expect("dir");
        let mut names: Vec<String> =
            names.map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

fn key(text: &str) -> Key {
    Key::new(text).expect(text)
}

fn own(labels: &[&str]) -> Vec<String> {
    labels.iter().map(|&label| label.to_owned()).collect()
}

const QUEUED: &str = "title = \"Fix it\" # really\nlabels = [\"orion-queue\"]\n";

fn claim() -> Swap {
    Swap {
        add: own(&["orion-working", "orion-host-pi"]),
        remove: own(&["orion-queue"]),
        expect: Expect {
            has: own(&["orion-queue"]),
            lacks: own(&["orion-working"]),
            open: Some(true),
            mark: None,
        },
        signature: Some("orion-claim n1".into()),
    }
}

fn won(swapped: &Swapped) -> bool {
    matches!(swapped, Swapped::Done(Some(_)))
}

#[test]
fn a_claim_is_one_write_with_a_mark_and_later_writes_need_it() {
    let fixture = Fixture::new();
    fixture.file("a-1.toml", QUEUED);
    let tracker = &fixture.tracker;
    let Swapped::Done(Some(mark)) = tracker.swap(&key("a-1"), &claim()).expect("swap") else { panic!("won") };
    assert_eq!(
        fixture.text("a-1.toml"),
        "title = \"Fix it\" # really\nlabels = [\"orion-working\", \"orion-host-pi\"]\n"
    );
    let events = tracker.events(&key("a-1")).expect("events");
    let newest = crate::model::ticket::newest_labeled(&events, "orion-working").expect("event");
    assert_eq!((&newest.id, newest.actor.as_str()), (&mark, "orion-claim n1"));
    assert_eq!(events[0].actor, "edit", "a person queued it");
    assert!(matches!(tracker.swap(&key("a-1"), &claim()), Ok(Swapped::Changed(_))), "only once");

    let hand_over = |mark: &EventId| Swap {
        add: own(&["orion-ready"]),
        remove: own(&["orion-working"]),
        expect: Expect { mark: Some(("orion-working".into(), mark.clone())), ..Expect::default() },
        signature: None,
    };
    let stranger = EventId("1".into());
    assert!(matches!(tracker.swap(&key("a-1"), &hand_over(&stranger)), Ok(Swapped::Changed(_))));
    assert!(matches!(tracker.swap(&key("a-1"), &hand_over(&mark)), Ok(Swapped::Done(_))));
    assert_eq!(fixture.names(), [".a-1.guard", "a-1.history.jsonl", "a-1.toml"]);
}

#[test]
fn an_edit_by_a_person_becomes_events_so_that_an_old_mark_is_not_the_new_one() {
    let fixture = Fixture::new();
    fixture.file("7.toml", QUEUED);
    let tracker = &fixture.tracker;
    let Swapped::Done(Some(mark)) = tracker.swap(&key("7"), &claim()).expect("swap") else { panic!("won") };
    fixture.file("7.toml", QUEUED);
    assert!(tracker.ticket(&key("7")).expect("read").has("orion-queue"));
    fixture.file("7.toml", "labels = [\"orion-working\"]\nstate = \"closed\"\n");
    let events = tracker.events(&key("7")).expect("events");
    let tail: Vec<(&TicketChange, &str)> =
        events[events.len() - 3..].iter().map(|event| (&event.what, event.actor.as_str())).collect();
    let (on, off) =
        (TicketChange::Labeled("orion-working".into()), TicketChange::Unlabeled("orion-queue".into()));
    assert_eq!(tail, [(&off, "edit"), (&on, "edit"), (&TicketChange::Closed, "edit")]);
    let expect = Expect { mark: Some(("orion-working".into(), mark)), ..Expect::default() };
    let swap = Swap { add: own(&["orion-ready"]), remove: Vec::new(), expect, signature: None };
    assert!(matches!(tracker.swap(&key("7"), &swap), Ok(Swapped::Changed(_))));
    let ids: Vec<u64> = events.iter().map(|event| event.id.0.parse().expect("number")).collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
}

#[test]
fn lists_are_ordered_and_one_broken_ticket_hides_no_other() {
    let fixture = Fixture::new();
    for name in ["t-2", "t-10", "t-9"] {
        fixture.file(&format!("{name}.toml"), QUEUED);
    }
    fixture.file("urgent.toml", "priority = 5\nlabels = [\"orion-queue\"]\n");
    fixture.file("closed.toml", "state = \"closed\"\nlabels = [\"orion-queue\"]\n");
    fixture.file("escaped.toml", "labels = [\"\\u006frion-queue\"]\n");
    fixture.file("held.toml", "labels = [\"orion-working\"]\n");
    fixture.file("gone.toml", "state = \"closed\"\nlabels = [\"orion-working\"]\n");
    fixture.file("torn.toml", "labels = [\"orion-queue\"");
    fixture.file("saving.toml", "");
    fixture.file(".t-9.toml.swp", "x");
    fixture.file("t-9.toml~", "labels = [\"orion-queue\"]\n");
    let queue = fixture.tracker.queue().expect("queue");
    let keys: Vec<&str> = queue.tickets.iter().map(|ticket| ticket.key.as_str()).collect();
    assert_eq!(keys, ["urgent", "escaped", "t-2", "t-9", "t-10"]);
    assert_eq!(queue.broken.len(), 2, "{:?}", queue.broken);
    let flight = fixture.tracker.in_flight().expect("flight");
    let keys: Vec<&str> = flight.tickets.iter().map(|ticket| ticket.key.as_str()).collect();
    assert_eq!(keys, ["gone", "held"], "closed ones still carry the lock");
}

#[test]
fn what_is_not_there_is_an_error_and_leaves_nothing_behind() {
    let fixture = Fixture::new();
    let missing = fixture.tracker.swap(&key("nope"), &claim()).expect_err("no ticket");
    assert_eq!(missing.why(), Why::NoTicket);
    assert!(fixture.names().is_empty());
    let gone = FileTracker::open(&fixture.dir.path().join("x"), Labels::default());
    assert_eq!(gone.err().expect("no directory").why(), Why::NoTracker);
    std::os::unix::fs::symlink("/etc/hostname", fixture.dir.path().join("link.toml")).expect("link");
    assert!(fixture.tracker.ticket(&key("link")).is_err());
    for bad in ["a/b", "..", "", "a b", "x\u{1b}"] {
        assert!(fixture.tracker.key(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn a_write_cut_short_is_finished_by_the_next_or_was_never_begun() {
    // What a writer leaves that is killed after each of its steps.
    let steps = [
        "a torn note",
        "the note",
        "half an event",
        "one event",
        "the events",
        "the ticket",
        "an edit since",
    ];
    for step in steps {
        // The first event in the history is what makes a write.
        let begun = !["a torn note", "the note", "half an event"].contains(&step);
        let fixture = Fixture::new();
        fixture.file("5.toml", QUEUED);
        fixture.tracker.ticket(&key("5")).expect("the edit is written down");
        let history = fixture.text("5.history.jsonl");
        let last: u64 = fixture.tracker.events(&key("5")).expect("events")[0].id.0.parse().expect("number");
        let stamp = crate::os::plain_file::stamp(&fixture.dir.path().join("5.toml")).expect("stamp");
        let line = |id: u64, event: &str, label: &str| {
            let at = "2026-11-29T00:00:00.000Z";
            serde_json::json!({"id": id, "at": at, "event": event, "label": label, "actor": "orion-claim"})
        };
        let (off, on) =
            (line(last + 1, "unlabeled", "orion-queue"), line(last + 2, "labeled", "orion-working"));
        let note = serde_json::json!({
            "lines": [off, on], "add": ["orion-working"], "remove": ["orion-queue"],
            "inode": stamp.inode, "size": stamp.size, "modified_ns": stamp.modified_ns.to_string(),
        });
        let note = note.to_string();
        let events = match step {
            "a torn note" | "the note" => String::new(),
            "half an event" => off.to_string()[..20].to_owned(),
            "one event" => format!("{off}\n{}", &on.to_string()[..20]),
            _ => format!("{off}\n{on}\n"),
        };
        fixture.file("5.history.jsonl", &format!("{history}{events}"));
        fixture.file(".5.guard", if step == "a torn note" { &note[..40] } else { &note });
        match step {
            "the ticket" => fixture.replace("5.toml", "labels = [\"orion-working\"]\n"),
            "an edit since" => fixture.replace("5.toml", "labels = [\"orion-queue\"]\n"),
            _ => {}
        }
        let swapped = fixture.tracker.swap(&key("5"), &Swap::default()).expect(step);
        assert_eq!(swapped, Swapped::Done(None), "{step}");
        let ticket = fixture.tracker.ticket(&key("5")).expect(step);
        let applied = begun && step != "an edit since";
        assert_eq!(ticket.labels, [if applied { "orion-working" } else { "orion-queue" }], "{step}");
        let events = fixture.tracker.events(&key("5")).expect(step);
        let on = |event: &&TicketEvent| event.what == TicketChange::Labeled("orion-working".into());
        let marks: Vec<&str> = events.iter().filter(on).map(|event| event.actor.as_str()).collect();
        let expected: &[&str] = if begun { &["orion-claim"] } else { &[] };
        assert_eq!(marks, expected, "{step}");
        assert_eq!(fixture.text(".5.guard"), "", "{step}");
    }
}

#[test]
fn a_write_that_fails_leaves_nothing_that_the_next_would_finish() {
    let fixture = Fixture::new();
    fixture.file("5.toml", QUEUED);
    fixture.tracker.ticket(&key("5")).expect("the edit is written down");
    let history = fixture.text("5.history.jsonl");
    // Where the new ticket should be written there is a directory.
    let temp = fixture.dir.path().join(".5.tmp");
    std::fs::create_dir(&temp).expect("mkdir");
    let failure = fixture.tracker.swap(&key("5"), &claim()).expect_err("no room");
    assert!(!failure.may_be_applied(), "{failure}");
    assert_eq!((fixture.text("5.toml").as_str(), fixture.text("5.history.jsonl")), (QUEUED, history));
    std::fs::remove_dir(&temp).expect("rmdir");
    assert!(fixture.tracker.ticket(&key("5")).expect("ticket").has("orion-queue"));
    assert!(won(&fixture.tracker.swap(&key("5"), &claim()).expect("swap")));
}

#[test]
fn who_shares_the_ticket_shares_what_belongs_to_it() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::new();
    fixture.file("5.toml", QUEUED);
    let mode = |name: &str| {
        let meta = std::fs::metadata(fixture.dir.path().join(name)).expect(name);
        meta.permissions().mode() & 0o777
    };
    let shared = std::fs::Permissions::from_mode(0o660);
    std::fs::set_permissions(fixture.dir.path().join("5.toml"), shared).expect("chmod");
    assert!(won(&fixture.tracker.swap(&key("5"), &claim()).expect("swap")));
    for name in ["5.toml", "5.history.jsonl", ".5.guard"] {
        assert_eq!(mode(name), 0o660, "{name}");
    }
}

#[test]
fn of_many_at_once_exactly_one_wins_each_ticket() {
    const RACERS: usize = 8;
    const TICKETS: usize = 40;
    let fixture = Fixture::new();
    for number in 0..TICKETS {
        fixture.file(&format!("r-{number}.toml"), QUEUED);
    }
    let barrier = Arc::new(Barrier::new(RACERS));
    let racers: Vec<_> = (0..RACERS)
        .map(|_| {
            let (tracker, barrier) = (Arc::clone(&fixture.tracker), Arc::clone(&barrier));
            std::thread::spawn(move || {
                let mut wins = Vec::new();
                for number in 0..TICKETS {
                    barrier.wait();
                    let key = key(&format!("r-{number}"));
                    if won(&tracker.swap(&key, &claim()).expect("swap")) {
                        wins.push(number);
                    }
                }
                wins
            })
        })
        .collect();
    let mut wins: Vec<usize> = racers.into_iter().flat_map(|racer| racer.join().expect("racer")).collect();
    wins.sort_unstable();
    assert_eq!(wins, (0..TICKETS).collect::<Vec<_>>());
    for number in 0..TICKETS {
        let events = fixture.tracker.events(&key(&format!("r-{number}"))).expect("events");
        assert_eq!(events.len(), 4, "queued by edit, then one write: {events:?}");
    }
}

#[test]
fn labels_that_others_change_at_the_same_time_all_arrive() {
    let fixture = Fixture::new();
    fixture.file("1.toml", "labels = []\n");
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let tracker = Arc::clone(&fixture.tracker);
            std::thread::spawn(move || {
                for turn in 0..5 {
                    tracker.write(&key("1"), &[format!("l{writer}-{turn}")], &[]).expect("write");
                    tracker.comment(&key("1"), &format!("c{writer}-{turn}")).expect("comment");
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().expect("writer");
    }
    assert_eq!(fixture.tracker.ticket(&key("1")).expect("ticket").labels.len(), 40);
    let comments = fixture.tracker.comments(&key("1")).expect("comments");
    assert_eq!(comments.len(), 40);
    assert!(comments.windows(2).all(|pair| pair[0].id < pair[1].id));
}
