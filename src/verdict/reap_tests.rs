use super::*;
use crate::model::terminal::Output;

const NOW: u64 = 10_000_000;

fn at(seconds_ago: u64) -> WallTime {
    WallTime(NOW - seconds_ago * 1000)
}

fn policy() -> ReapPolicy {
    ReapPolicy { now: WallTime(NOW), idle: Duration::from_secs(600), close_newest: false, residents: vec![] }
}

fn member(pid: u32, started_ago: u64) -> Member {
    Member {
        pid,
        comm: format!("p{pid}"),
        state: 'S',
        leader: pid == 10,
        started: at(started_ago),
        cpu_ticks: 0,
        wrote: Some(0),
    }
}

/// Everything holds: an hour old, marked idle and silent for twenty minutes, one sleeping process.
fn finished() -> Terminal {
    Terminal {
        id: "%1".into(),
        title: String::new(),
        belongs: Belongs::Named("nightly".into()),
        own: false,
        dead: false,
        leader: None,
        tty: None,
        started: Some(at(3600)),
        output: Output { moved: Some(at(1200)), printed_by: Some(at(1200)), source: "window".into() },
        idle: Idle::MarkedAt(at(1201)),
        newest_of_reuse: false,
        close_last: false,
        processes: Processes::Seen(Activity {
            own_group: 10,
            foreground: 10,
            members: vec![member(10, 3600), member(11, 3500)],
        }),
        again: Again::Same,
    }
}

fn changed(change: impl FnOnce(&mut Terminal)) -> Terminal {
    let mut terminal = finished();
    change(&mut terminal);
    terminal
}

fn activity(terminal: &mut Terminal) -> &mut Activity {
    match &mut terminal.processes {
        Processes::Seen(activity) => activity,
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_conditions_and_no_veto_close() {
    assert_eq!(judge(&finished(), &policy()), Verdict::Close);
    let unmapped = changed(|t| t.processes = Processes::Unmapped);
    assert_eq!(judge(&unmapped, &policy()), Verdict::Close);
}

#[test]
fn one_missing_condition_or_one_veto_keeps_with_its_word() {
    let text = || "why".to_owned();
    let cases: Vec<(&str, Terminal)> = vec![
        ("no-run", changed(|t| t.belongs = Belongs::NoRun)),
        ("other-automation", changed(|t| t.belongs = Belongs::Other("nightly-2".into()))),
        ("tag-not-ours", changed(|t| t.belongs = Belongs::NotItsOwn(text()))),
        ("ambiguous-name", changed(|t| t.belongs = Belongs::Ambiguous(text()))),
        ("starting", changed(|t| t.belongs = Belongs::Starting(text()))),
        ("resumed", changed(|t| t.belongs = Belongs::Resumed(text()))),
        ("unreadable", changed(|t| t.belongs = Belongs::Unreadable(text()))),
        ("own-terminal", changed(|t| t.own = true)),
        ("dead-pane", changed(|t| t.dead = true)),
        ("busy", changed(|t| t.idle = Idle::Busy(text()))),
        ("question", changed(|t| t.idle = Idle::Question(text()))),
        ("not-idle", changed(|t| t.idle = Idle::No(text()))),
        ("unreadable", changed(|t| t.idle = Idle::Unreadable(text()))),
        ("mark-stale", changed(|t| t.idle = Idle::MarkedAt(at(1231)))),
        ("mark-stale", changed(|t| t.idle = Idle::MarkedAt(at(3700)))),
        ("mark-stale", changed(|t| t.idle = Idle::MarkedAt(WallTime(NOW + 3_000)))),
        ("no-clock", changed(|t| t.output.printed_by = None)),
        ("newest-reuse", changed(|t| t.newest_of_reuse = true)),
        ("young", changed(|t| (t.started, t.idle) = (Some(at(599)), Idle::Yes(text())))),
        ("unreadable", changed(|t| t.started = None)),
        ("no-clock", changed(|t| t.output.moved = None)),
        ("no-clock", changed(|t| t.output.moved = Some(WallTime(NOW + 10_000)))),
        ("not-silent", changed(|t| t.output.moved = Some(at(599)))),
        ("not-silent", changed(|t| t.output.moved = Some(WallTime(NOW + 8_000)))),
        ("unreadable", changed(|t| t.processes = Processes::Unreadable(text()))),
        ("stopped", changed(|t| activity(t).members[0].state = 'T')),
        ("busy", changed(|t| activity(t).members[1].state = 'D')),
        ("busy", changed(|t| activity(t).foreground = 12)),
        ("unreadable", changed(|t| activity(t).foreground = -1)),
        ("busy", changed(|t| activity(t).members[1].cpu_ticks = 6)),
        ("busy", changed(|t| activity(t).members[0].wrote = Some(1))),
        ("busy", changed(|t| activity(t).members[1].started = at(1799))),
        ("busy", changed(|t| activity(t).members[1].started = at(5))),
        ("changed", changed(|t| t.again = Again::Changed(text()))),
        ("unreadable", changed(|t| t.again = Again::Unreadable(text()))),
    ];
    for (position, (word, terminal)) in cases.iter().enumerate() {
        match judge(terminal, &policy()) {
            Verdict::Keep(keep) => assert_eq!(keep.reason.word(), *word, "case {position}"),
            other => panic!("case {position} ({word}): {other:?}"),
        }
    }
}

#[test]
fn dear_facts_are_asked_for_only_when_the_cheap_ones_hold() {
    let unasked = |t: &mut Terminal| {
        t.idle = Idle::NotAsked;
        t.processes = Processes::NotAsked;
        t.again = Again::NotAsked;
    };
    let mut terminal = changed(unasked);
    assert_eq!(judge(&terminal, &policy()), Verdict::Ask(Ask::Idle));
    terminal.idle = Idle::Yes(String::new());
    assert_eq!(judge(&terminal, &policy()), Verdict::Ask(Ask::Processes));
    terminal.processes = Processes::Unmapped;
    assert_eq!(judge(&terminal, &policy()), Verdict::Ask(Ask::Again));
    let noisy = changed(|t| {
        unasked(t);
        t.output.moved = Some(at(10));
    });
    assert!(matches!(judge(&noisy, &policy()), Verdict::Keep(_)));
}

#[test]
fn what_is_not_a_veto_does_not_keep() {
    let fine: Vec<Terminal> = vec![
        changed(|t| t.idle = Idle::MarkedAt(at(1230))),
        changed(|t| t.idle = Idle::Yes(String::new())),
        // A zombie holds no work, whatever it did.
        changed(|t| (activity(t).members[1].state, activity(t).members[1].started) = ('Z', at(5))),
        changed(|t| activity(t).members[1].started = at(1801)),
        changed(|t| activity(t).members[1].cpu_ticks = 5),
        changed(|t| activity(t).members[1].wrote = None),
    ];
    for (position, terminal) in fine.iter().enumerate() {
        assert_eq!(judge(terminal, &policy()), Verdict::Close, "case {position}");
    }
    let newest = changed(|t| t.newest_of_reuse = true);
    assert_eq!(judge(&newest, &ReapPolicy { close_newest: true, ..policy() }), Verdict::Close);
    let helper = changed(|t| activity(t).members[1].started = at(5));
    assert_eq!(judge(&helper, &ReapPolicy { residents: vec!["p11".into()], ..policy() }), Verdict::Close);
}

#[test]
fn only_proof_of_work_in_a_named_run_counts_as_busy() {
    let yes =
        [changed(|t| t.idle = Idle::Busy(String::new())), changed(|t| activity(t).members[1].cpu_ticks = 50)];
    let no = [
        finished(),
        changed(|t| t.idle = Idle::No(String::new())),
        changed(|t| t.output.moved = Some(at(1))),
        changed(|t| (t.idle, t.belongs) = (Idle::Busy(String::new()), Belongs::Other("x".into()))),
        changed(|t| (t.idle, t.dead) = (Idle::Busy(String::new()), true)),
        changed(|t| activity(t).members[1].state = 'T'),
    ];
    assert!(yes.iter().all(|terminal| proves_busy(terminal, &policy())));
    assert!(!no.iter().any(|terminal| proves_busy(terminal, &policy())));
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
    let manual = include_str!("../../man/orion-reap.1");
    let from = manual.find(".Sh REASONS").expect("a section");
    let section = &manual[from..];
    let section = &section[..section[3..].find(".Sh ").expect("another section")];
    let listed: Vec<&str> = section.lines().filter_map(|line| line.strip_prefix(".It Cm ")).collect();
    let words: Vec<&str> = KeepReason::ALL.iter().map(|reason| reason.word()).collect();
    assert_eq!(listed, words);
}
