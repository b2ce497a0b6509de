use super::fixture::*;

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
        // A look repaints: what was printed within seconds of it is not a turn.
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
        let reads = Member { on_terminal: true, ..member(11, 10, 3585) };
        activity(t).members = vec![member(10, 1, 3600), reads, member(12, 10, 3596)];
    });
    assert_eq!(word(&two, &policy()), "job", "two children are not a wrapper");
    // A link that began late breaks the line, whatever it is itself.
    let late = line(Member { on_terminal: true, ..member(12, 11, 3558) });
    let late = Terminal {
        processes: match late.processes {
            Processes::Seen(mut activity) => {
                activity.members[1].started = at(3560);
                Processes::Seen(activity)
            }
            other => other,
        },
        ..late
    };
    assert_eq!(word(&late, &ReapPolicy { residents: vec!["p11".into()], ..policy() }), "job");
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
