use super::fixture::*;

#[test]
fn all_conditions_and_no_veto_close() {
    all(vec![("close", finished()), ("close", changed(|t| t.processes = Processes::Unmapped))]);
}

#[test]
fn one_missing_condition_or_one_veto_keeps_with_its_word() {
    let text = || "why".to_owned();
    all(vec![
        ("no-run", changed(|t| t.belongs = Belongs::NoRun)),
        ("other-automation", changed(|t| t.belongs = Belongs::Other("nightly-2".into()))),
        ("tag-not-ours", changed(|t| t.belongs = Belongs::NotItsOwn(text()))),
        ("ambiguous-name", changed(|t| t.belongs = Belongs::Ambiguous(text()))),
        ("starting", changed(|t| t.belongs = Belongs::Starting(text()))),
        ("resumed", changed(|t| t.belongs = Belongs::Resumed(text()))),
        ("unreadable", changed(|t| t.belongs = Belongs::Unreadable(text()))),
        ("close", changed(|t| t.belongs = Belongs::Part("nightly".into()))),
        ("own-terminal", changed(|t| t.own = true)),
        ("dead-pane", changed(|t| t.dead = true)),
        ("busy", changed(|t| t.idle = Idle::Busy(text()))),
        ("question", changed(|t| t.idle = Idle::Question(text()))),
        ("not-idle", changed(|t| t.idle = Idle::No(text()))),
        ("unreadable", changed(|t| t.idle = Idle::Unreadable(text()))),
        ("close", changed(|t| t.idle = Idle::Yes(text()))),
        ("newest-reuse", changed(|t| t.newest_of_reuse = true)),
        ("unreadable", changed(|t| t.started = None)),
        ("young", changed(|t| (t.started, t.idle) = (Some(at(599)), Idle::Yes(text())))),
        ("close", changed(|t| (t.started, t.idle) = (Some(at(3590)), Idle::Yes(text())))),
        ("no-clock", changed(|t| t.output.moved = None)),
        ("no-clock", changed(|t| t.output.moved = Some(WallTime(NOW + 9_001)))),
        ("not-silent", changed(|t| t.output.moved = Some(WallTime(NOW + 9_000)))),
        ("not-silent", changed(|t| t.output.moved = Some(at(599)))),
        ("close", changed(|t| t.output.moved = Some(at(600)))),
        ("unreadable", changed(|t| t.processes = Processes::Unreadable(text()))),
        ("stopped", changed(|t| activity(t).members[0].state = 'T')),
        ("stopped", changed(|t| activity(t).members[1].state = 't')),
        ("busy", changed(|t| activity(t).members[1].state = 'D')),
        ("unreadable", changed(|t| activity(t).foreground = -1)),
        ("changed", changed(|t| t.again = Again::Changed(text()))),
        ("unreadable", changed(|t| t.again = Again::Unreadable(text()))),
    ]);
    let newest = changed(|t| t.newest_of_reuse = true);
    assert_eq!(word(&newest, &ReapPolicy { close_newest: true, ..policy() }), "close");
}

#[test]
fn somebody_who_is_there_keeps_it() {
    let viewer = |attached, active: Option<u64>, in_mode| {
        changed(|t| t.viewer = Viewer { attached, active: active.map(at), in_mode, came: None })
    };
    all(vec![
        ("watched", viewer(true, Some(599), false)),
        ("close", viewer(true, Some(600), false)),
        ("watched", viewer(true, Some(6000), true)),
        ("watched", viewer(true, None, false)),
        ("close", viewer(false, Some(5), true)),
    ]);
}

#[test]
fn processor_time_and_storage_are_work_and_wake_ups_are_not() {
    let used = |ms: u64, sample: u64| {
        changed(|t| {
            activity(t).members[1].cpu = Duration::from_millis(ms);
            activity(t).sample = Duration::from_millis(sample);
        })
    };
    let two = changed(|t| {
        activity(t).members.iter_mut().for_each(|one| one.cpu = Duration::from_millis(26));
    });
    let stored = |storage| changed(|t| activity(t).members[1].storage = storage);
    all(vec![
        ("close", used(50, 1000)),
        ("busy", used(51, 1000)),
        ("close", used(2000, 40_000)),
        ("busy", used(2010, 40_000)),
        ("busy", used(10, 0)),
        ("busy", two),
        ("busy", stored(Storage::Moved(1))),
        ("unreadable", stored(Storage::Unreadable)),
        ("close", stored(Storage::NotCounted)),
        // A zombie holds no work, whatever it did.
        (
            "close",
            changed(|t| {
                let one = &mut activity(t).members[1];
                (one.state, one.cpu, one.storage) = ('Z', Duration::from_secs(9), Storage::Unreadable);
            }),
        ),
    ]);
    let hidden = stored(Storage::Unreadable);
    assert_eq!(word(&hidden, &ReapPolicy { residents: vec!["p11".into()], ..policy() }), "close");
}

#[test]
fn what_has_the_terminal_is_the_agent_or_keeps_it() {
    let foreground = |group: i32, job: Option<Member>| {
        changed(|t| {
            activity(t).foreground = group;
            activity(t).members.extend(job);
        })
    };
    let in_group = |started: u64| Some(Member { group: 12, ..member(12, 10, started) });
    all(vec![
        ("busy", foreground(12, None)),
        ("busy", foreground(12, in_group(1300))),
        ("close", foreground(12, in_group(3595))),
    ]);
}

#[test]
fn dear_facts_are_asked_for_only_when_the_cheap_ones_hold() {
    let mut terminal = changed(|t| {
        t.idle = Idle::NotAsked;
        t.processes = Processes::NotAsked;
        t.again = Again::NotAsked;
    });
    let noisy = Terminal { output: Output { moved: Some(at(10)), ..Output::default() }, ..terminal.clone() };
    assert_eq!(word(&noisy, &policy()), "not-silent");
    assert_eq!(word(&terminal, &policy()), "ask processes");
    terminal.processes = finished().processes;
    assert_eq!(word(&terminal, &policy()), "ask idle");
    terminal.idle = Idle::Yes(String::new());
    assert_eq!(word(&terminal, &policy()), "ask again");
    terminal.again = Again::Same;
    assert_eq!(word(&terminal, &policy()), "close");
    terminal.processes = Processes::NotAsked;
    terminal.idle = Idle::Busy(String::new());
    assert_eq!(word(&terminal, &policy()), "busy", "what is known already needs no look at /proc");
}

#[test]
fn a_session_closes_as_a_whole_or_not_at_all() {
    let busy = Keep::new(KeepReason::Busy, "works");
    let keep = together([("%7", &busy)]).expect("kept");
    assert_eq!(
        (keep.reason, keep.evidence.as_str()),
        (KeepReason::Session, "%7 of its session is kept, busy: works")
    );
    assert_eq!(together([]), None);
    assert_eq!(
        together([("%8", &keep), ("%7", &busy)]),
        Some(keep.clone()),
        "the cause is named, not its echo"
    );
    let gone = changed(|t| {
        (t.dead, t.belongs) = (true, Belongs::Part("nightly".into()));
        (t.idle, t.started, t.processes) = (Idle::Unmarked, None, Processes::NotAsked);
    });
    assert_eq!(word(&gone, &policy()), "close", "nothing runs in it");
    let gone = Terminal { again: Again::NotAsked, ..gone };
    assert_eq!(word(&gone, &policy()), "ask again");
}

#[test]
fn a_person_sees_every_rung() {
    let shown = explain(&finished(), &policy());
    assert!(shown.iter().all(|one| one.holds == Some(true)), "{shown:?}");
    let names: Vec<_> = shown.iter().map(|one| one.name).collect();
    assert_eq!(names.len(), 9);
    let cut = explain(&cut_short(), &policy());
    let finished = cut.iter().find(|one| one.name == "finished").expect("a rung");
    assert!(finished.holds == Some(false) && finished.evidence.contains("--interrupted"), "{finished:?}");
    let unasked = changed(|t| (t.idle, t.processes) = (Idle::NotAsked, Processes::NotAsked));
    let open = explain(&unasked, &policy()).into_iter().filter(|one| one.holds.is_none()).count();
    assert_eq!(open, 2);
}

#[test]
fn every_reason_has_its_own_word() {
    let mut words: Vec<&str> = KeepReason::ALL.iter().map(|reason| reason.word()).collect();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), KeepReason::ALL.len());
}

#[test]
fn the_manual_lists_every_reason_in_the_order_of_the_ladder() {
    let manual = include_str!("../../../man/orion-reap.1");
    let from = manual.find(".Sh REASONS").expect("a section");
    let section = &manual[from..];
    let section = &section[..section[3..].find(".Sh ").expect("another section")];
    let listed: Vec<&str> = section.lines().filter_map(|line| line.strip_prefix(".It Cm ")).collect();
    let words: Vec<&str> = KeepReason::ALL.iter().map(|reason| reason.word()).collect();
    assert_eq!(listed, words);
}
