//! G09, G14 to G17: sizes, numbers and rights at their ends.

use crate::support::{Tool, bin, needs, needs_root, run};

#[test]
fn g09_a_note_no_reader_would_accept_is_refused_and_nothing_is_made() {
    let long = "n".repeat(70_000);
    for (command, rest) in [("run", &["x", "true"][..]), ("hold", &["x"]), ("acquire", &["--for", "1", "x"])]
    {
        let tool = Tool::new();
        for note in [long.as_str(), &long[..4097]] {
            let mut arguments = vec![command, "--note", note];
            arguments.extend_from_slice(rest);
            let done = tool.lock(&arguments).expect(64).one_line().says("at most 4096");
            assert!(done.stderr.len() < 300, "{command}: the note is not repeated");
        }
        assert!(!tool.dir().exists(), "{command}: nothing is created");
    }
    // The longest that is taken, at its worst, is read by everybody.
    let tool = Tool::new();
    for note in ["n".repeat(4096), "\u{1}".repeat(4096), "\u{10FFFF}".repeat(1024)] {
        let mut holder = tool.hold_with(&["run", "--note", &note, "x", "sh", "-c", "echo up; read -r end"]);
        tool.precheck(&["x"]).expect(75);
        assert_eq!(tool.lock(&["status", "--json", "x"]).expect(75).json()["note"], note);
        tool.lock(&["run", "x", "true"]).expect(75);
        holder.end();
    }
    assert!(!tool.files().iter().any(|file| file.contains("corrupt")), "{:?}", tool.files());
}

#[test]
fn g16_a_guard_that_nothing_can_follow_is_garbage_said_once() {
    for last in [9_007_199_254_740_990_u64, 9_007_199_254_740_991, 9_007_199_254_740_992, u64::MAX] {
        let tool = Tool::new();
        tool.lock(&["run", "x", "true"]).expect(0);
        std::fs::write(tool.file("x.guard"), format!("{last:020}\n")).expect("write");
        tool.lock(&["run", "x", "true"]).expect(0).one_line().says("tokens may have fallen");
        tool.lock(&["run", "x", "true"]).expect(0).silent();
    }
    // The last token itself can be held, judged and followed.
    let tool = Tool::new();
    tool.lock(&["run", "x", "true"]).expect(0);
    std::fs::write(tool.file("x.guard"), format!("{:020}\n", 9_007_199_254_740_989_u64)).expect("write");
    let mut holder = tool.hold("x");
    assert_eq!(tool.record("x")["token"], 9_007_199_254_740_990_u64);
    tool.lock(&["run", "x", "true"]).expect(75);
    tool.precheck(&["x"]).expect(75);
    holder.end();
    tool.lock(&["run", "x", "true"]).expect(0).one_line().says("tokens may have fallen");
    run(&mut tool.tool("orion-lock", &["run", "x", "true"])).expect(0).silent();
}

#[test]
fn g14_too_few_descriptors_are_said_by_their_name() {
    for count in 3..=12 {
        let tool = Tool::new();
        let done = tool.sh(&format!("ulimit -n {count}; exec \"$OL\" run x true"));
        // The shell itself, or the loader, may not get as far as us.
        if done.stderr.lines().any(|line| line.starts_with("orion-lock: ")) {
            assert!(done.stderr.contains("too many open files"), "{count}: {done:?}");
            assert!(!done.stderr.contains("mount a /proc"), "{count}: {done:?}");
            // A record that cannot be read says nothing of its owner; what we need for ourselves is 71.
            assert!([69, 71, 126].contains(&done.code), "{count}: {done:?}");
            assert!(count != 5 || done.code == 71, "{done:?}");
        }
        let done = tool.sh(&format!("ulimit -n {count}; exec \"$OP\" x"));
        let ours = done.stderr.lines().any(|line| line.starts_with("orion-precheck: "));
        assert!(done.code == 0 || !ours, "{count}: {done:?}");
    }
}

#[test]
fn g15_a_full_file_behind_stderr_kills_no_tool() {
    let tool = Tool::new();
    let full = tool.path("full");
    std::fs::write(&full, vec![b'x'; 2048]).expect("write");
    for (line, code) in [
        ("\"$OP\" ./x", 0),
        ("\"$OP\" --no-such-option", 0),
        ("\"$OP\" x ./x", 0),
        ("\"$OL\" run ./x true", 64),
        ("\"$OL\" --no-such-option", 64),
        ("\"$OL\" status --user nobody-of-this-name x", 64),
    ] {
        let text = format!("ulimit -f 2; exec {line} 2>>'{}'", full.display());
        assert_eq!(tool.sh(&text).code, code, "{line}");
    }
}

#[test]
fn g16_a_status_file_that_cannot_be_written_is_73_before_anything_runs() {
    let tool = Tool::new();
    run(tool.command("mkfifo").arg(tool.path("fifo"))).expect(0);
    std::fs::create_dir(tool.path("folder")).expect("mkdir");
    for (path, why) in [
        (tool.path("fifo"), "reader"),
        (tool.path("folder"), "is a directory"),
        ("/dev/full".into(), "no space left"),
        (tool.path("none/file"), "no such file"),
    ] {
        for options in [&[][..], &["--tree"]] {
            let path = path.display().to_string();
            let mut arguments = vec!["run", "--status-file", &path];
            arguments.extend_from_slice(options);
            arguments.extend_from_slice(&["x", "echo", "RAN"]);
            let done = tool.lock(&arguments).expect(73).says("--status-file").says(why);
            assert_eq!(done.stdout, "", "{path}");
        }
    }
    tool.lock(&["run", "x", "true"]).expect(0).silent();
    // Lost in the middle: said. The reader takes the first line and goes.
    let text = "mkfifo fifo2; head -n 1 fifo2 & 
        \"$OL\" run --tree --status-file fifo2 x sh -c 'until ! kill -0 $R 2>/dev/null; do :; done'; echo $?";
    let text = text.replace("& \n", "& R=$!; export R\n");
    let done = run(tool.script(&text).current_dir(tool.path("")));
    let done = done.says("'ended' could not be written");
    assert!(done.stdout.ends_with("0\n"), "the command's own status: {done:?}");
}

#[test]
fn g16_a_kernel_thread_owns_nothing() {
    if !needs_root() {
        return;
    }
    let thread = std::fs::read_to_string("/proc/2/comm").is_ok_and(|comm| comm.trim() == "kthreadd");
    if crate::support::allowed(thread, "no kernel thread is to be seen") {
        let tool = Tool::new();
        tool.lock(&["acquire", "--for", "2", "x"]).expect(64).one_line().says("thread of the kernel");
    }
}

#[test]
fn g16_an_end_that_nobody_saw_has_two_bounds() {
    let tool = Tool::new();
    tool.lock(&["run", "hist", "true"]).expect(0);
    tool.edit_record("hist", |record| record["acquired_at"] = "2026-01-01T00:00:00Z".into());
    tool.lock(&["run", "hist", "true"]).expect(0);
    let log = tool.lock(&["log", "--json", "hist"]).expect(0).json();
    let ended = log["events"]
        .as_array()
        .expect("events")
        .iter()
        .find(|it| it["event"] == "ended")
        .expect("an end")
        .clone();
    assert!(ended["held_s"].is_null(), "no fact: {ended}");
    assert_eq!(ended["held_at_least_s"], 0, "{ended}");
    assert!(ended["held_at_most_s"].as_u64().is_some_and(|most| most > 1000), "{ended}");
    tool.lock(&["log", "hist"]).expect(0).prints("after at most");
}

#[test]
fn g17_without_pidfds_the_system_call_and_the_sandbox_are_named() {
    if !needs("strace") {
        return;
    }
    for error in ["ENOSYS", "EPERM"] {
        let tool = Tool::new();
        let mut command = tool.command("strace");
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("inject=pidfd_open:error={error}")]);
        let done = run(command.arg(bin("orion-lock")).args(["run", "--tree", "x", "echo", "RAN"]));
        let done = done.expect(71).one_line().says("pidfd_open").says("sandbox");
        assert_eq!(done.stdout, "");
        let tracker = format!("file:{}", tool.path("tickets").display());
        for (tool_name, words) in [
            ("orion-claim", &["--tracker", &tracker, "run", "K", "echo", "RAN"][..]),
            ("orion-lease", &["run", "store.db", "echo", "RAN"]),
        ] {
            std::fs::create_dir_all(tool.path("tickets")).expect("tickets");
            std::fs::write(tool.path("tickets/K.toml"), "title = \"K\"\nlabels = [\"orion\"]\n").expect("K");
            let mut command = tool.command("strace");
            command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("inject=pidfd_open:error={error}")]);
            command.arg(bin(tool_name)).args(words).current_dir(tool.path(""));
            let done = run(&mut command).expect(71).one_line().says("pidfd_open").says("sandbox");
            assert_eq!(done.stdout, "", "{tool_name}");
            let ticket = std::fs::read_to_string(tool.path("tickets/K.toml")).expect("K");
            assert!(ticket.contains("[\"orion\"]"), "untouched: {ticket}");
        }
        let mut command = tool.command("strace");
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("inject=pidfd_open:error={error}")]);
        let done = run(command.arg(bin("orion-lock")).arg("doctor")).expect(78);
        assert!(!done.stdout.contains("install the toolkit again"), "{done:?}");
        assert!(done.stdout.contains("FAIL pidfd") && !done.stdout.contains("FAIL play"), "{done:?}");
        let left: Vec<String> = crate::support::names_in(&tool.dir());
        assert!(left.iter().all(|name| !name.starts_with(".doctor")), "{left:?}");
        // Without --tree nothing needs one.
        let mut command = tool.command("strace");
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("inject=pidfd_open:error={error}")]);
        run(command.arg(bin("orion-lock")).args(["run", "x", "echo", "RAN"])).expect(0).prints("RAN");
        tool.lock(&["run", "x", "true"]).expect(0);
    }
}
