//! The last second on each side of a limit, who counts as part of an agent, and the words of an explanation.

use super::fixture::*;
use crate::model::terminal::AgentRules;

#[test]
fn limits_hold_to_the_very_moment() {
    let busy =
        |ago| changed(|t| t.idle = Idle::Marked(mark(&[(3600, AgentSaid::Claimed), (ago, AgentSaid::Busy)])));
    let with_connections = |ago| {
        let mut terminal = busy(ago);
        activity(&mut terminal).connections = Some(0);
        terminal
    };
    // Only ends are told: what is printed two minutes later is not yet a new turn.
    let printed = |late: u64| {
        changed(|t| {
            t.idle = Idle::Marked(mark(&[(3600, AgentSaid::Claimed), (1320, UNSAID)]));
            t.output.printed_by = Some(WallTime(at(1320).0 + late));
        })
    };
    all(vec![
        ("interrupted", with_connections(600)),
        ("busy", with_connections(599)),
        ("close", printed(120_000)),
        ("mark-stale", printed(120_001)),
        ("close", changed(|t| (t.started, t.idle) = (Some(at(600)), Idle::Yes(String::new())))),
        // A group of another pid namespace is 0 here: nobody knows who it is.
        ("unreadable", changed(|t| activity(t).foreground = 0)),
        ("busy", changed(|t| activity(t).foreground = 77)),
        ("close", changed(|t| activity(t).foreground = 10)),
    ]);
}

#[test]
fn who_said_that_a_turn_runs_is_told() {
    let by_hook =
        changed(|t| t.idle = Idle::Marked(mark(&[(3600, AgentSaid::Claimed), (5, AgentSaid::Busy)])));
    let by_nobody =
        changed(|t| t.idle = Idle::Marked(AgentMark::new(MarkWord::Busy, at(5), MarkedBy::NotSaid)));
    for (terminal, expected) in [
        (by_hook, "a hook of its agent said 5s ago that a turn runs"),
        (by_nobody, "its mark says 5s ago that a turn runs"),
    ] {
        let Verdict::Keep(keep) = judge(&terminal, &policy()) else { panic!("kept") };
        assert_eq!((keep.reason.word(), keep.evidence.as_str()), ("busy", expected));
    }
}

#[test]
fn the_first_process_is_no_job_of_itself_however_early_the_first_turn_was() {
    // The mark is of an agent before it: the first turn lies before its beginning.
    let early = changed(|t| {
        t.idle = Idle::Marked(mark(&[(4001, AgentSaid::Claimed), (4000, AgentSaid::Busy), (1201, UNSAID)]));
        activity(t).members.truncate(1);
    });
    all(vec![("close", early)]);
}

#[test]
fn wrappers_count_to_the_thirtieth_second_and_only_in_one_line() {
    // Leader, its only child, and that one's only child, each begun after the first turn.
    let line = |first: u64, second: u64| {
        changed(|t| {
            let members = &mut activity(t).members;
            members.truncate(1);
            members.push(Member { on_terminal: true, ..member(20, 10, 3600 - first) });
            members.push(Member { on_terminal: true, ..member(21, 20, 3600 - first - second) });
            t.idle =
                Idle::Marked(mark(&[(3600, AgentSaid::Claimed), (3599, AgentSaid::Busy), (1201, UNSAID)]));
        })
    };
    let two = changed(|t| {
        let members = &mut activity(t).members;
        members.truncate(1);
        members.push(Member { on_terminal: true, ..member(20, 10, 3580) });
        members.push(Member { on_terminal: true, ..member(21, 10, 3580) });
        t.idle = Idle::Marked(mark(&[(3600, AgentSaid::Claimed), (3599, AgentSaid::Busy), (1201, UNSAID)]));
    });
    all(vec![("close", line(30, 30)), ("job", line(31, 1)), ("job", line(1, 31)), ("job", two)]);
}

#[test]
fn a_helper_of_a_kind_of_agent_is_one_by_its_own_name_beside_that_agent_only() {
    let rules = |names: &str, residents: &str| ReapPolicy {
        agents: vec![AgentRules { names: vec![names.to_owned()], residents: vec![residents.to_owned()] }],
        ..policy()
    };
    let job = with(member(12, 10, 1300));
    assert_eq!(word(&job, &rules("p10", "p12")), "close");
    assert_eq!(word(&job, &rules("p10", "p13")), "job", "another name");
    assert_eq!(word(&job, &rules("p99", "p12")), "job", "another agent");
    assert_eq!(word(&job, &ReapPolicy { residents: vec!["p12".into()], ..policy() }), "close");
}

#[test]
fn only_jobs_that_were_quiet_long_enough_are_said_to_be() {
    let hours = |hours: u64| Some(Duration::from_secs(hours * 3600));
    let jobs = |idle: Option<Idle>| {
        changed(|t| {
            t.idle = idle.unwrap_or(t.idle.clone());
            let members = &mut activity(t).members;
            // One that began with the agent, one job at rest, one that moved an hour ago.
            members[1].quiet = hours(5);
            members.push(Member { quiet: hours(2), ..member(12, 10, 1300) });
            members.push(Member { quiet: hours(1), ..member(13, 10, 1300) });
        })
    };
    assert_eq!(quiet_jobs(&jobs(None), &policy()), ["pid 12 (p12) did nothing for 2h (--job-quiet)"]);
    let none = mark(&[(3600, AgentSaid::Claimed), (3540, AgentSaid::Busy), (1201, NONE)]);
    assert_eq!(quiet_jobs(&jobs(Some(Idle::Marked(none))), &policy()), [""; 0], "none of them keeps it");
}

#[test]
fn an_explanation_says_what_was_seen_on_every_rung() {
    let evidence = |terminal: &Terminal, name: &str| {
        let found = explain(terminal, &policy()).into_iter().find(|rung| rung.name == name);
        let found = found.expect("a rung of this name");
        (found.holds, found.evidence)
    };
    let yes = |text: &str| (Some(true), text.to_owned());
    let terminal = finished();
    assert_eq!(evidence(&terminal, "belongs"), yes("a run of nightly"));
    assert_eq!(evidence(&terminal, "finished"), yes("marked idle 20m ago"));
    assert_eq!(evidence(&terminal, "processes"), yes("2, none at work"));
    let runner = changed(|t| t.idle = Idle::Yes("says the runner".into()));
    assert_eq!(evidence(&runner, "finished"), yes("says the runner"));
    let part = changed(|t| t.belongs = Belongs::Part("nightly".into()));
    assert_eq!(evidence(&part, "belongs"), yes("in the session of a run of nightly"));
    let quiet = with(Member { quiet: Some(Duration::from_secs(7200)), ..member(12, 10, 1300) });
    assert_eq!(
        evidence(&quiet, "processes").1,
        "3, none at work; pid 12 (p12) did nothing for 2h (--job-quiet)"
    );
    let unmapped = changed(|t| t.processes = Processes::Unmapped);
    assert_eq!(evidence(&unmapped, "processes"), yes("none is known for it"));
    let dead = changed(|t| t.dead = true);
    assert_eq!(evidence(&dead, "finished").0, Some(false));
    // A turn that never ended: what keeps it is its job, or that nobody asked for such runs.
    let mut cut = cut_short();
    assert!(evidence(&cut, "finished").1.contains("--interrupted"));
    activity(&mut cut).members.push(member(12, 10, 1300));
    assert!(evidence(&cut, "finished").1.starts_with("pid 12 (p12), begun "));
}
