use super::*;
use proptest::prelude::*;

fn at(second: u64) -> WallTime {
    WallTime(second * 1000)
}

fn said(all: &[AgentSaid]) -> AgentMark {
    let mut mark: Option<AgentMark> = None;
    for (position, said) in all.iter().enumerate() {
        mark = Some(AgentMark::after(mark.as_ref(), *said, at(100 + position as u64)));
    }
    mark.expect("something was said")
}

#[test]
fn old_marks_and_new_ones_are_read() {
    let old = AgentMark::parse("idle 55").expect("a mark");
    assert_eq!((old.word, old.at, &old.by), (MarkWord::Idle, at(55), &MarkedBy::NotSaid));
    assert!(!old.is_hooked());
    let text = "working 60 by=hook tasks=2 busy=4 busyat=50 idle=3 idleat=60 first=10 marker=812:4711";
    let new = AgentMark::parse(text).expect("a mark");
    assert_eq!((new.word, new.tasks, new.first), (MarkWord::Working, Some(2), Some(at(10))));
    assert_eq!((new.busy.count, new.busy.last, new.idle.count), (4, Some(at(50)), 3));
    assert_eq!(new.marker, Some(MarkSetter { pid: 812, start_ticks: 4711 }));
    assert_eq!(new.to_string(), text);
    assert_eq!(AgentMark::parse("working 60 2").expect("short").tasks, Some(2));
    let newer = AgentMark::parse("idle 5 by=hook colour=blue none=1").expect("a key of tomorrow is skipped");
    assert!(newer.none);
}

#[test]
fn a_mark_that_is_not_wholly_understood_is_none() {
    let bad = [
        "",
        "idle",
        "idle soon",
        "idle -1",
        "idle +5",
        "idle 5 6",
        "idle  5",
        "done 5",
        "IDLE 5",
        " idle 5",
        "idle 99999999999999999999",
        "idle 18446744073709552",
        "busy 5 by=",
        "busy 5 by=hook by=hook",
        "busy 5 busy=x",
        "busy 5 busyat=-1",
        "idle 5 none=yes",
        "idle 5 none=",
        "idle 5 first=",
        "idle 5 marker=7",
        "idle 5 marker=7:x",
        "idle 5 marker=99999999999:1",
        "idle 5 tasks=1 tasks=1",
        "working 5 2 tasks=2",
        "idle 5 ",
    ];
    for text in bad {
        assert!(AgentMark::parse(text).is_err(), "{text:?}");
    }
    assert!(AgentMark::parse(&format!("idle 5 x={}", "y".repeat(2000))).is_err());
}

#[test]
fn what_is_said_changes_the_word_and_is_counted() {
    use AgentSaid::{Busy, Claimed, Ended, Idle, Question, Ready, Reminder};
    let (unsaid, none, two) = (Idle(Background::NotSaid), Idle(Background::None), Idle(Background::Some(2)));
    let cases: &[(&[AgentSaid], &str)] = &[
        (&[Claimed], "busy 100 by=claim"),
        (&[Claimed, Ready], "ready 101 by=hook"),
        (&[Ready], "ready 100 by=hook"),
        (&[Claimed, Busy], "busy 101 by=hook busy=1 busyat=101 first=101"),
        (&[Claimed, Ready, Busy, Busy], "busy 103 by=hook busy=2 busyat=103 first=102"),
        (&[Busy, unsaid], "idle 101 by=hook busy=1 busyat=100 idle=1 idleat=101 first=100"),
        (&[Busy, none], "idle 101 by=hook busy=1 busyat=100 idle=1 idleat=101 none=1 first=100"),
        (
            &[Busy, Idle(Background::Some(0))],
            "idle 101 by=hook busy=1 busyat=100 idle=1 idleat=101 none=1 first=100",
        ),
        (&[Busy, two], "working 101 by=hook tasks=2 busy=1 busyat=100 idle=1 idleat=101 first=100"),
        // A reminder, or an end of turn that says nothing about it, leaves work and "none" alone.
        (&[Busy, two, Reminder], "working 101 by=hook tasks=2 busy=1 busyat=100 idle=2 idleat=102 first=100"),
        (&[Busy, two, unsaid], "working 101 by=hook tasks=2 busy=1 busyat=100 idle=2 idleat=102 first=100"),
        (&[Busy, none, Reminder], "idle 102 by=hook busy=1 busyat=100 idle=2 idleat=102 none=1 first=100"),
        (&[Busy, two, none], "idle 102 by=hook busy=1 busyat=100 idle=2 idleat=102 none=1 first=100"),
        (&[Busy, none, Busy], "busy 102 by=hook busy=2 busyat=102 idle=1 idleat=101 first=100"),
        (&[Busy, two, Busy], "busy 102 by=hook tasks=2 busy=2 busyat=102 idle=1 idleat=101 first=100"),
        // That turn was cut short: the work of the one before is still planned.
        (
            &[Busy, two, Busy, Reminder],
            "working 103 by=hook tasks=2 busy=2 busyat=102 idle=2 idleat=103 first=100",
        ),
        (&[Busy, two, Busy, none], "idle 103 by=hook busy=2 busyat=102 idle=2 idleat=103 none=1 first=100"),
        (&[Busy, Question], "question 101 by=hook busy=1 busyat=100 first=100"),
        (&[Busy, Question, Reminder], "question 101 by=hook busy=1 busyat=100 first=100"),
        (&[Busy, Reminder], "idle 101 by=hook busy=1 busyat=100 idle=1 idleat=101 first=100"),
        (&[Busy, unsaid, Ready], "idle 101 by=hook busy=1 busyat=100 idle=1 idleat=101 first=100"),
        (&[Busy, unsaid, Ended], "ended 102 by=hook busy=1 busyat=100 idle=1 idleat=101 first=100"),
        (&[Busy, unsaid, Claimed], "busy 102 by=claim"),
    ];
    for (all, expected) in cases {
        assert_eq!(said(all).to_string(), *expected, "{all:?}");
    }
    assert!(!said(&[Claimed]).is_hooked() && said(&[Claimed, Ready]).is_hooked());
}

fn any_said() -> impl Strategy<Value = AgentSaid> {
    prop_oneof![
        Just(AgentSaid::Claimed),
        Just(AgentSaid::Ready),
        Just(AgentSaid::Busy),
        Just(AgentSaid::Idle(Background::NotSaid)),
        Just(AgentSaid::Idle(Background::None)),
        (0u64..4).prop_map(|tasks| AgentSaid::Idle(Background::Some(tasks))),
        Just(AgentSaid::Reminder),
        Just(AgentSaid::Question),
        Just(AgentSaid::Ended),
    ]
}

proptest! {
    #[test]
    fn every_mark_of_ours_reads_back(all in proptest::collection::vec(any_said(), 1..12)) {
        let mark = said(&all);
        prop_assert_eq!(AgentMark::parse(&mark.to_string()), Ok(mark));
    }

    #[test]
    fn no_text_crashes_the_reader(text in "(busy|idle|working|ready)? ?[0-9]{0,20}( [a-z=:0-9]{0,9}){0,6}") {
        if let Ok(mark) = AgentMark::parse(&text) {
            prop_assert_eq!(AgentMark::parse(&mark.to_string()), Ok(mark));
        }
    }
}
