//! A pulse, asked in every way.

use super::*;

/// What is said of the file at its name.
fn said(dir: &Dir, name: &str, token: Option<u64>) -> PulseFacts {
    match ask(dir, name, token, None) {
        PulseAnswer::Said(facts) => facts,
        PulseAnswer::Removed => panic!("nothing was said to be taken"),
    }
}

#[test]
fn a_pulse_stands_for_its_token_only_and_asking_takes_nothing() {
    let temp = tempfile::tempdir().expect("dir");
    let dir = Dir::open(temp.path()).expect("open");
    assert_eq!(said(&dir, "x", Some(7)), PulseFacts::Free, "no file");
    let Left::Pulse(pulse) = lock(open(&dir, "x").expect("open"), 7).expect("lock") else {
        panic!("this file system has such locks")
    };
    for _ in 0..3 {
        assert_eq!(said(&dir, "x", Some(7)), PulseFacts::Held);
        assert_eq!(said(&dir, "x", Some(8)), PulseFacts::Free);
        assert_eq!(said(&dir, "x", None), PulseFacts::Held);
    }
    assert_eq!(carriers(&dir, "x", Some(7)).pids, [std::process::id()]);
    assert!(carries(&dir, "x", 7, None, std::process::id()));
    assert!(!carries(&dir, "x", 8, None, std::process::id()));
    assert!(carriers(&dir, "x", Some(8)).pids.is_empty());
    pulse.close();
    assert_eq!(said(&dir, "x", None), PulseFacts::Free);
}

#[test]
fn a_waiters_write_lock_is_not_life_but_hides_no_reader() {
    let temp = tempfile::tempdir().expect("dir");
    let dir = Dir::open(temp.path()).expect("open");
    drop(open(&dir, "x").expect("made"));
    let waiter = File::options().write(true).open(temp.path().join("x.pulse")).expect("open");
    fcntl(&waiter, FcntlArg::F_OFD_SETLK(&byte_lock(libc::F_WRLCK, 5, 1))).expect("write lock");
    assert_eq!(said(&dir, "x", Some(5)), PulseFacts::Free);
    assert_eq!(said(&dir, "x", None), PulseFacts::Free);
    for token in [9, 2] {
        let pulse = lock(open(&dir, "x").expect("open"), token).expect("lock");
        assert_eq!(said(&dir, "x", None), PulseFacts::Held, "{token}, beside a waiter at 5");
        assert_eq!(another(&dir, "x", &[7]), Some(token));
        assert_eq!(another(&dir, "x", &[7, token]), None);
        let more = lock(open(&dir, "x").expect("open"), 30).expect("lock");
        assert_eq!(another(&dir, "x", &[token]), Some(30));
        drop((pulse, more));
    }
    assert_eq!(another(&dir, "x", &[]), None);
}

#[test]
fn the_end_of_a_pulse_rings_and_waiting_for_it_is_not_life() {
    let temp = tempfile::tempdir().expect("dir");
    let dir = Dir::open(temp.path()).expect("open");
    let pulse = lock(open(&dir, "x").expect("open"), 7).expect("lock");
    let (first, second) = (Wakeup::new().expect("bell"), Wakeup::new().expect("bell"));
    let waits = [&first, &second].map(|bell| Watched::start(&dir, "x", 7, bell).expect("thread"));
    assert!(waits.iter().all(Watched::waits));
    assert_eq!(said(&dir, "x", Some(7)), PulseFacts::Held);
    drop(pulse);
    for (bell, wait) in [&first, &second].iter().zip(&waits) {
        let timeout = Some(std::time::Duration::from_secs(20));
        assert!(!crate::os::process::wait_any(&[bell.as_fd()], timeout).expect("poll").is_empty());
        assert!(!wait.waits() && !wait.failed());
    }
    assert_eq!(said(&dir, "x", None), PulseFacts::Free);
}

#[test]
fn a_removed_file_is_still_a_pulse_for_whoever_carries_it() {
    let temp = tempfile::tempdir().expect("dir");
    let dir = Dir::open(temp.path()).expect("open");
    let me = std::process::id();
    let name = format!("gone-{me}");
    let Left::Pulse(pulse) = lock(open(&dir, &name).expect("open"), 7).expect("lock") else {
        panic!("this file system has such locks")
    };
    let taken = Some(pulse.file);
    assert_eq!(ask(&dir, &name, Some(7), taken), PulseAnswer::Said(PulseFacts::Held));
    std::fs::remove_file(temp.path().join(format!("{name}.pulse"))).expect("unlink");
    assert_eq!(ask(&dir, &name, Some(7), taken), PulseAnswer::Removed);
    assert_eq!(said(&dir, &name, Some(7)), PulseFacts::Free, "nobody said that one was taken");
    for taken in [taken, None] {
        assert_eq!(search(&name, 7, taken, None).pids, [me]);
        assert!(search(&name, 8, taken, None).pids.is_empty(), "of another token");
    }
    assert!(carries(&dir, &name, 7, taken, me) && !carries(&dir, &name, 8, taken, me));
    assert!(!carries(&dir, &name, 7, None, me));
    // Another file at its name answers for nobody.
    drop(open(&dir, &name).expect("made anew"));
    assert_eq!(ask(&dir, &name, Some(7), taken), PulseAnswer::Removed);
    std::fs::remove_file(temp.path().join(format!("{name}.pulse"))).expect("unlink");
    std::fs::create_dir(temp.path().join(format!("{name}.pulse"))).expect("a directory");
    assert_eq!(ask(&dir, &name, Some(7), taken), PulseAnswer::Removed);
    pulse.close();
    assert!(search(&name, 7, taken, None).pids.is_empty());
}
