//! A finished run, and ways to change it.

pub(super) use super::*;
pub(super) use crate::model::mark::{AgentMark, AgentSaid, Background, MarkWord, MarkedBy};
pub(super) use crate::model::terminal::{Activity, Member, Output, Storage, Viewer};

pub(super) const NOW: u64 = 100_000_000;

pub(super) fn at(seconds_ago: u64) -> WallTime {
    WallTime(NOW - seconds_ago * 1000)
}

pub(super) fn policy() -> ReapPolicy {
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

pub(super) fn member(pid: u32, parent: u32, started_ago: u64) -> Member {
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
pub(super) fn mark(said: &[(u64, AgentSaid)]) -> AgentMark {
    let mut mark: Option<AgentMark> = None;
    for (ago, said) in said {
        mark = Some(AgentMark::after(mark.as_ref(), *said, at(*ago)));
    }
    mark.expect("something was said")
}

pub(super) const UNSAID: AgentSaid = AgentSaid::Idle(Background::NotSaid);
pub(super) const NONE: AgentSaid = AgentSaid::Idle(Background::None);

/// Everything holds: an hour old, first turn after a minute, its end marked and silent for twenty minutes,
/// two sleeping processes that began together.
pub(super) fn finished() -> Terminal {
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
            foreground: 10,
            members: vec![member(10, 1, 3600), member(11, 10, 3596)],
            connections: None,
        }),
        again: Again::Same,
    }
}

pub(super) fn changed(change: impl FnOnce(&mut Terminal)) -> Terminal {
    let mut terminal = finished();
    change(&mut terminal);
    terminal
}

pub(super) fn said(said: &[(u64, AgentSaid)]) -> Terminal {
    changed(|t| t.idle = Idle::Marked(mark(said)))
}

pub(super) fn activity(terminal: &mut Terminal) -> &mut Activity {
    match &mut terminal.processes {
        Processes::Seen(activity) => activity,
        other => panic!("{other:?}"),
    }
}

/// Another process of the run.
pub(super) fn with(job: Member) -> Terminal {
    changed(|t| activity(t).members.push(job))
}

/// A turn that began and was never heard of again.
pub(super) fn cut_short() -> Terminal {
    changed(|t| {
        t.idle = Idle::Marked(mark(&[(3600, AgentSaid::Claimed), (1201, AgentSaid::Busy)]));
        activity(t).connections = Some(0);
    })
}

pub(super) fn word(terminal: &Terminal, policy: &ReapPolicy) -> &'static str {
    match judge(terminal, policy) {
        Verdict::Keep(keep) => keep.reason.word(),
        Verdict::Ask(Ask::Processes) => "ask processes",
        Verdict::Ask(Ask::Idle) => "ask idle",
        Verdict::Ask(Ask::Again) => "ask again",
        Verdict::Close => "close",
    }
}

#[track_caller]
pub(super) fn all(cases: Vec<(&str, Terminal)>) {
    for (position, (expected, terminal)) in cases.iter().enumerate() {
        assert_eq!(word(terminal, &policy()), *expected, "case {position}: {:?}", judge(terminal, &policy()));
    }
}
