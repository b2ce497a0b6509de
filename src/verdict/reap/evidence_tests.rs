use super::fixture::*;
use proptest::prelude::*;

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
