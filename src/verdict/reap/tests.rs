use super::*;
use crate::model::mark::{AgentMark, AgentSaid, Background, MarkWord, MarkedBy};
use crate::model::terminal::{Activity, Member, Output, Storage, Viewer};
use proptest::prelude::*;

const NOW: u64 = 100_000_000;

fn at(seconds_ago: u64) -> WallTime {
    WallTime(NOW - seconds_ago * 1000)
}

fn policy() -> ReapPolicy {
    ReapPolicy {
        now: WallTime(NOW),
        idle: Duration::from_secs(600),
        close_newest: false,
        residents: vec![],
        agents: vec![],
        job_quiet: Duration::from_secs(7200),
        interrupted: None,
    }
}

fn member(pid: u32, parent: u32, started_ago: u64) -> Member {
    Member {
        pid,
        parent,
        comm: format!("p{pid}"),
        state: 'S',
        leader: pid == 10,
        group: 10,
        started: at(started_ago),
        cpu: Duration::ZERO,
        storage: Storage::Moved(0),
        on_terminal: false,
        quiet: None,
    }
}

/// A mark after these words, each said so many seconds ago.
fn mark(said: &[(u64, AgentSaid)]) -> AgentMark {
    let mut mark: Option<AgentMark> = None;
    for (ago, said) in said {
        mark = Some(AgentMark::after(mark.as_ref(), *said, at(*ago)));
    }
    mark.expect("something was said")
}

const UNSAID: AgentSaid = AgentSaid::Idle(Background::NotSaid);
const NONE: AgentSaid = AgentSaid::Idle(Background::None);

/// Everything holds: an hour old, first turn after a minute, its end marked and silent for twenty minutes,
/// two sleeping processes that began together.
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
        idle: Idle::Marked(mark(&[(3600, AgentSaid::Claimed), (3540, AgentSaid::Busy), (1201, UNSAID)])),
        viewer: Viewer::default(),
        session: None,
        newest_of_reuse: false,
        close_last: false,
        processes: Processes::Seen(Activity {
            sample: Duration::from_secs(1),
            own_group: 10,
            foreground: 10,
            members: vec![member(10, 1, 3600), member(11, 10, 3596)],
            connections: None,
        }),
        again: Again::Same,
    }
}

fn changed(change: impl FnOnce(&mut Terminal)) -> Terminal {
    let mut terminal = finished();
    change(&mut terminal);
    terminal
}

fn said(said: &[(u64, AgentSaid)]) -> Terminal {
    changed(|t| t.idle = Idle::Marked(mark(said)))
}

fn activity(terminal: &mut Terminal) -> &mut Activity {
    match &mut terminal.processes {
        Processes::Seen(activity) => activity,
        other => panic!("{other:?}"),
    }
}

/// Another process of the run.
fn with(job: Member) -> Terminal {
    changed(|t| activity(t).members.push(job))
}

/// A turn that began and was never heard of again.
fn cut_short() -> Terminal {
    changed(|t| {
        t.idle = Idle::Marked(mark(&[(3600, AgentSaid::Claimed), (1201, AgentSaid::Busy)]));
        activity(t).connections = Some(0);
    })
}

fn word(terminal: &Terminal, policy: &ReapPolicy) -> &'static str {
    match judge(terminal, policy) {
        Verdict::Keep(keep) => keep.reason.word(),
        Verdict::Ask(Ask::Processes) => "ask processes",
        Verdict::Ask(Ask::Idle) => "ask idle",
        Verdict::Ask(Ask::Again) => "ask again",
        Verdict::Close => "close",
    }
}

#[track_caller]
fn all(cases: Vec<(&str, Terminal)>) {
    for (position, (expected, terminal)) in cases.iter().enumerate() {
        assert_eq!(word(terminal, &policy()), *expected, "case {position}: {:?}", judge(terminal, &policy()));
    }
}

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
fn a_mark_counts_by_who_set_it() {
    use AgentSaid::{Busy, Claimed, Ended, Idle as End, Question, Ready, Reminder};
    let by = |text: &str| changed(|t| t.idle = Idle::Marked(AgentMark::parse(text).expect(text)));
    let second = (NOW - 1_201_000) / 1000;
    all(vec![
        ("no-hooks", changed(|t| t.idle = Idle::Unmarked)),
        ("no-hooks", said(&[(3000, Claimed)])),
        ("not-idle", said(&[(3000, Claimed), (2900, Ready)])),
        ("busy", said(&[(3000, Claimed), (300, Busy)])),
        ("question", said(&[(3000, Busy), (2000, Question)])),
        ("question", said(&[(3000, Busy), (2000, Question), (1300, Reminder)])),
        ("working", said(&[(3000, Busy), (1201, End(Background::Some(2)))])),
        ("working", said(&[(3000, Busy), (1300, End(Background::Some(2))), (1201, Reminder)])),
        ("close", said(&[(3000, Busy), (1300, End(Background::Some(2))), (1201, NONE)])),
        ("close", said(&[(3000, Busy), (1201, UNSAID)])),
        ("close", said(&[(3000, Busy), (1201, NONE)])),
        ("close", said(&[(3000, Busy), (1201, Reminder)])),
        ("close", said(&[(3000, Busy), (1300, UNSAID), (1201, Ended)])),
        ("close", by(&format!("idle {second}"))),
        ("busy", by(&format!("busy {second}"))),
        ("not-idle", by(&format!("idle {second} by=somebody"))),
        // Only the agent's own hook says that a turn is over.
        ("no-hooks", by(&format!("idle {second} by=claim"))),
        ("close", by(&format!("idle {second} by=claim busy=1 idle=1"))),
    ]);
}

#[test]
fn output_after_the_mark_matters_only_where_beginnings_are_not_told() {
    let ends_only = |printed: u64, marked: u64| {
        changed(|t| {
            t.idle = Idle::Marked(AgentMark::new(MarkWord::Idle, at(marked), MarkedBy::Hook));
            t.output.printed_by = Some(at(printed));
            t.output.moved = Some(at(printed));
        })
    };
    let told = |printed: u64| {
        let mut terminal = said(&[(3500, AgentSaid::Busy), (3000, UNSAID)]);
        terminal.output =
            Output { moved: Some(at(printed)), printed_by: Some(at(printed)), source: "w".into() };
        terminal
    };
    all(vec![
        ("close", ends_only(1200, 1320)),
        ("mark-stale", ends_only(1200, 1321)),
        // A look repaints: what was printed within seconds of it is no turn.
        ("close", {
            let mut t = ends_only(1200, 3000);
            t.viewer.came = Some(at(1200));
            t
        }),
        ("close", {
            let mut t = ends_only(1200, 3000);
            t.viewer.came = Some(at(1210));
            t
        }),
        ("mark-stale", {
            let mut t = ends_only(1200, 3000);
            t.viewer.came = Some(at(1211));
            t
        }),
        ("mark-stale", {
            let mut t = ends_only(1200, 3000);
            t.viewer.came = Some(at(1199));
            t
        }),
        ("close", told(1200)),
        ("not-silent", told(10)),
        (
            "mark-stale",
            changed(|t| {
                t.idle = Idle::Marked(mark(&[(3700, AgentSaid::Busy), (3603, UNSAID)]));
                t.processes = Processes::Unmapped;
            }),
        ),
        (
            "close",
            changed(|t| {
                t.idle = Idle::Marked(mark(&[(3700, AgentSaid::Busy), (3602, UNSAID)]));
                t.processes = Processes::Unmapped;
            }),
        ),
        (
            "mark-stale",
            changed(|t| {
                t.idle = Idle::Marked(AgentMark::new(MarkWord::Idle, WallTime(NOW + 2_001), MarkedBy::Hook));
            }),
        ),
        (
            "no-clock",
            changed(|t| {
                t.idle = Idle::Marked(AgentMark::new(MarkWord::Idle, at(1201), MarkedBy::Hook));
                t.output.printed_by = None;
            }),
        ),
    ]);
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
fn a_job_keeps_and_what_began_with_the_agent_does_not() {
    // The first turn began 3540 seconds ago, 60 after the leader.
    let near = member(12, 10, 3570);
    let child = |on_terminal: bool, leader: u64, started: u64| {
        changed(|t| {
            t.idle = Idle::Marked(mark(&[(3590, AgentSaid::Busy), (1201, UNSAID)]));
            let only = Member { on_terminal, ..member(11, 10, started) };
            activity(t).members = vec![member(10, 1, leader), only];
        })
    };
    let untold = |started: u64| {
        changed(|t| {
            t.idle = Idle::Yes(String::new());
            activity(t).members = vec![member(10, 1, 3600), member(11, 10, started), member(12, 10, 3600)];
        })
    };
    let line = |third: Member| {
        changed(|t| {
            t.idle = Idle::Marked(mark(&[(3500, AgentSaid::Busy), (1201, UNSAID)]));
            activity(t).members = vec![member(10, 1, 3600), member(11, 10, 3571), third];
        })
    };
    all(vec![
        ("close", with(near.clone())),
        ("job", with(member(12, 10, 3569))),
        ("job", with(member(12, 10, 1800))),
        ("job", with(member(12, 1, 1800))),
        ("close", with(Member { state: 'Z', ..member(12, 10, 1800) })),
        // Of the first turn, though within 30 seconds of the leader.
        ("job", child(false, 3600, 3585)),
        ("job", child(false, 3600, 3590)),
        ("close", child(false, 3600, 3591)),
        // An only child that reads the agent's terminal is the agent.
        ("close", child(true, 3600, 3585)),
        ("job", child(true, 3600, 3569)),
        // Where beginnings of turns are not told: five seconds.
        ("close", untold(3595)),
        ("job", untold(3594)),
        // sh, node, its child: each soon after its parent, all before the first turn.
        ("close", line(member(12, 11, 3542))),
        ("job", line(member(12, 11, 3540))),
        ("job", line(member(12, 10, 3542))),
        ("job", line(member(12, 11, 3499))),
        // Older than its leader: whatever it is, it did not begin with it.
        ("job", with(member(12, 1, 3601))),
    ]);
    let two = changed(|t| {
        t.idle = Idle::Marked(mark(&[(3590, AgentSaid::Busy), (1201, UNSAID)]));
        let on_terminal = |pid| Member { on_terminal: true, ..member(pid, 10, 3585) };
        activity(t).members = vec![member(10, 1, 3600), on_terminal(11), on_terminal(12)];
    });
    assert_eq!(word(&two, &policy()), "job", "two children are no wrapper");
    let job = with(member(12, 10, 1800));
    assert_eq!(word(&job, &ReapPolicy { residents: vec!["p12".into()], ..policy() }), "close");
    let rules = |name: &str| AgentRules { names: vec![name.into()], residents: vec!["p12".into()] };
    assert_eq!(word(&job, &ReapPolicy { agents: vec![rules("p10")], ..policy() }), "close");
    assert_eq!(word(&job, &ReapPolicy { agents: vec![rules("p99")], ..policy() }), "job", "another agent");
}

#[test]
fn a_job_stops_keeping_when_its_agent_says_none_or_when_it_is_quiet_for_long() {
    let job = |quiet: Option<u64>| Member { quiet: quiet.map(Duration::from_secs), ..member(12, 10, 1800) };
    all(vec![
        ("job", with(job(Some(7199)))),
        ("close", with(job(Some(7200)))),
        ("close", {
            let mut terminal = with(job(None));
            terminal.idle = Idle::Marked(mark(&[(3540, AgentSaid::Busy), (1201, NONE)]));
            terminal
        }),
        ("busy", {
            let mut terminal = with(Member { cpu: Duration::from_secs(1), ..job(None) });
            terminal.idle = Idle::Marked(mark(&[(3540, AgentSaid::Busy), (1201, NONE)]));
            terminal
        }),
    ]);
    let quiet = with(job(Some(7200)));
    assert_eq!(quiet_jobs(&quiet, &policy()), ["pid 12 (p12) did nothing for 2h (--job-quiet)"]);
    assert!(quiet_jobs(&finished(), &policy()).is_empty());
    assert!(quiet_jobs(&with(job(None)), &policy()).is_empty());
}

#[test]
fn a_turn_that_never_ended_is_interrupted_and_closed_only_on_request() {
    let cut = |change: fn(&mut Terminal)| {
        let mut terminal = cut_short();
        change(&mut terminal);
        terminal
    };
    all(vec![
        ("interrupted", cut_short()),
        // What a turn before it told about background work holds.
        (
            "working",
            cut(|t| {
                let two = AgentSaid::Idle(Background::Some(2));
                t.idle = Idle::Marked(mark(&[(3600, AgentSaid::Busy), (1300, two), (1201, AgentSaid::Busy)]));
            }),
        ),
        ("busy", cut(|t| t.output.moved = Some(at(5)))),
        ("busy", cut(|t| t.idle = Idle::Marked(mark(&[(599, AgentSaid::Busy)])))),
        ("busy", cut(|t| t.started = Some(at(500)))),
        ("busy", cut(|t| activity(t).members[1].cpu = Duration::from_secs(1))),
        ("job", cut(|t| activity(t).members.push(member(12, 10, 1800)))),
        (
            "job",
            cut(|t| {
                let quiet = Some(Duration::from_secs(99_999));
                activity(t).members.push(Member { quiet, ..member(12, 10, 1800) });
            }),
        ),
        ("busy", cut(|t| activity(t).connections = Some(1))),
        ("busy", cut(|t| activity(t).connections = None)),
        ("busy", cut(|t| t.processes = Processes::Unmapped)),
        ("ask processes", cut(|t| t.processes = Processes::NotAsked)),
        ("busy", cut(|t| t.idle = Idle::Marked(AgentMark::new(MarkWord::Busy, at(1201), MarkedBy::NotSaid)))),
    ]);
    let limit = |seconds| ReapPolicy { interrupted: Some(Duration::from_secs(seconds)), ..policy() };
    assert_eq!(word(&cut_short(), &limit(1200)), "close");
    assert_eq!(word(&cut_short(), &limit(1201)), "interrupted", "the silence counts, not only the mark");
    let noisy_since = cut(|t| t.output.moved = Some(at(3000)));
    assert_eq!(word(&noisy_since, &limit(1202)), "interrupted", "and the mark, not only the silence");
    assert_eq!(word(&cut(|t| activity(t).connections = Some(1)), &limit(600)), "busy");
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
    let gone = changed(|t| (t.dead, t.belongs) = (true, Belongs::Part("nightly".into())));
    assert_eq!(word(&gone, &policy()), "close", "nothing runs in it");
    let gone = Terminal { again: Again::NotAsked, ..gone };
    assert_eq!(word(&gone, &policy()), "ask again");
}

#[test]
fn only_a_hook_the_runner_or_processor_time_proves_work() {
    let busy = |ago| said(&[(3000, AgentSaid::Claimed), (ago, AgentSaid::Busy)]);
    let yes = [
        busy(5),
        busy(1201),
        said(&[(3000, AgentSaid::Busy), (1201, AgentSaid::Idle(Background::Some(1)))]),
        changed(|t| t.idle = Idle::Busy(String::new())),
        changed(|t| activity(t).members[1].cpu = Duration::from_millis(51)),
        changed(|t| activity(t).members[1].state = 'D'),
    ];
    let no = [
        finished(),
        // Claimed, by hand, or a turn that nothing speaks for any more.
        said(&[(3000, AgentSaid::Claimed)]),
        changed(|t| t.idle = Idle::Marked(AgentMark::new(MarkWord::Busy, at(5), MarkedBy::NotSaid))),
        cut_short(),
        said(&[(3000, AgentSaid::Busy), (5, AgentSaid::Question)]),
        changed(|t| t.idle = Idle::No(String::new())),
        changed(|t| t.idle = Idle::Unmarked),
        changed(|t| t.output.moved = Some(at(1))),
        changed(|t| activity(t).members[1].storage = Storage::Moved(4096)),
        changed(|t| activity(t).members[1].state = 'T'),
        changed(|t| activity(t).foreground = 99),
        with(member(12, 10, 1800)),
        changed(|t| (t.idle, t.belongs) = (Idle::Busy(String::new()), Belongs::Other("x".into()))),
        changed(|t| (t.idle, t.dead) = (Idle::Busy(String::new()), true)),
    ];
    for (at, terminal) in yes.iter().enumerate() {
        assert!(proves_busy(terminal, &policy()), "case {at}");
    }
    for (at, terminal) in no.iter().enumerate() {
        assert!(!proves_busy(terminal, &policy()), "case {at}");
    }
    let on_request = ReapPolicy { interrupted: Some(Duration::from_secs(600)), ..policy() };
    assert!(!proves_busy(&cut_short(), &on_request));
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

/// A terminal anywhere between finished and at work.
fn any_terminal() -> impl Strategy<Value = Terminal> {
    let word = prop_oneof![
        Just(Idle::Yes(String::new())),
        Just(Idle::Unmarked),
        Just(Idle::NotAsked),
        Just(Idle::No(String::new())),
        Just(finished().idle),
        Just(cut_short().idle),
    ];
    let job = (0u64..3700, 0u64..120, any::<bool>(), proptest::option::of(0u64..9000));
    (word, proptest::collection::vec(job, 0..4), 0u64..2000, 0u64..5000, any::<bool>(), 0usize..2).prop_map(
        |(idle, jobs, silent, age, attached, connections)| {
            let mut terminal = finished();
            terminal.idle = idle;
            terminal.started = Some(at(age));
            terminal.output =
                Output { moved: Some(at(silent)), printed_by: Some(at(silent)), source: String::new() };
            terminal.viewer = Viewer { attached, active: Some(at(silent * 2)), in_mode: false, came: None };
            let members = jobs.into_iter().zip(12..).map(|((started, ms, on_terminal, quiet), pid)| Member {
                cpu: Duration::from_millis(ms),
                on_terminal,
                quiet: quiet.map(Duration::from_secs),
                ..member(pid, 10, started)
            });
            let activity = activity(&mut terminal);
            activity.members.extend(members);
            activity.connections = Some(connections);
            terminal
        },
    )
}

/// Takes one piece of evidence away.
fn without(terminal: &Terminal, which: usize) -> Terminal {
    let mut less = terminal.clone();
    match which {
        0 => less.idle = Idle::NotAsked,
        1 => less.idle = Idle::Unreadable(String::new()),
        2 => less.started = None,
        3 => less.output.moved = None,
        4 => less.output.printed_by = None,
        5 => less.processes = Processes::Unreadable(String::new()),
        6 => less.processes = Processes::NotAsked,
        7 => less.belongs = Belongs::NoRun,
        8 => less.again = Again::NotAsked,
        9 => less.again = Again::Unreadable(String::new()),
        10 => less.viewer.active = None,
        11 => less.viewer.came = None,
        12 => activity(&mut less).connections = None,
        13 => activity(&mut less).members.iter_mut().for_each(|one| one.quiet = None),
        14 => activity(&mut less).members.iter_mut().for_each(|one| one.storage = Storage::Unreadable),
        15 => activity(&mut less).members.iter_mut().for_each(|one| one.on_terminal = false),
        16 => activity(&mut less).foreground = -1,
        17 => less.idle = Idle::Unmarked,
        _ => {
            if let Idle::Marked(mark) = &mut less.idle {
                mark.none = false;
            }
        }
    }
    less
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn taking_evidence_away_never_closes(terminal in any_terminal(), which in 0usize..19, limit in proptest::option::of(600u64..2000)) {
        let policy = ReapPolicy { interrupted: limit.map(Duration::from_secs), ..policy() };
        if judge(&terminal, &policy) != Verdict::Close {
            let less = without(&terminal, which);
            prop_assert_ne!(judge(&less, &policy), Verdict::Close, "{}", which);
        }
    }
}
