//! `orion-precheck`: 75 only on proof, 0 on every doubt and every failure of its own, and never silent about it.

mod support;

use rustix::process::Signal;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::Command;
use std::time::{Duration, Instant};
use support::{Done, Tool, bin, eventually, needs, needs_root, needs_unshare, run};

const NOT_GUARDING: &str = "orion-precheck: not guarding: ";

#[test]
fn it_skips_only_on_proof_of_a_live_owner() {
    let tool = Tool::new();
    tool.precheck(&["sync"]).expect(0).silent();
    assert!(!tool.dir().exists(), "looking creates nothing");
    tool.precheck(&["-v", "sync"]).expect(0).says("never held in");
    let mut holder = tool.hold("sync");
    let done = tool.precheck(&["sync"]).expect(75).one_line();
    let start = format!("orion-precheck: sync is held by pid {} (sh, uid ", holder.pid());
    assert!(done.stderr.starts_with(&start), "{done:?}");
    assert_eq!(done.stdout, "");
    tool.precheck(&["-q", "sync"]).expect(75).silent();
    tool.precheck(&["-v", "sync"]).expect(75).says("rule 4");
    tool.precheck(&["free", "sync"]).expect(75);
    tool.precheck(&["free", "other"]).expect(0).silent();
    holder.kill();
    tool.precheck(&["sync"]).expect(0).silent();
}

#[test]
fn usage_errors_go_with_one_line() {
    let tool = Tool::new();
    let _holder = tool.hold("sync");
    for args in [
        &[][..],
        &["--nonsense", "sync"],
        &["-E", "0", "sync"],
        &["-E", "70", "sync"],
        &["-E", "300", "sync"],
        &["--deadline", "soon", "sync"],
        &["-w", "5s", "sync"],
        &["--dir"],
    ] {
        tool.precheck(args).expect(0).one_line().says(NOT_GUARDING);
        let strict: Vec<&str> = [&["--strict"], args].concat();
        tool.precheck(&strict).expect(64).one_line();
    }
    tool.precheck(&["--help"]).expect(0).silent().prints("Exit status:");
    tool.precheck(&["--version"]).expect(0).silent();
    let mut relative = tool.tool("orion-precheck", &["sync"]);
    run(relative.env("ORION_DIR", "relative")).expect(0).one_line().says(NOT_GUARDING);
    run(relative.arg("--strict")).expect(78);
    tool.lock(&["log"]).expect(0).prints("misconfigured");
}

#[test]
fn options_change_the_code_as_they_say() {
    let tool = Tool::new();
    let _holder = tool.hold("sync");
    tool.precheck(&["-E", "5", "sync"]).expect(5).one_line();
    tool.precheck(&["-E", "5", "free"]).expect(0).silent();
    tool.precheck(&["--strict", "sync"]).expect(75);
    let before = tool.lock(&["log", "--json"]).expect(0).stdout;
    tool.precheck(&["--dry-run", "sync"]).expect(75).one_line();
    assert_eq!(tool.lock(&["log", "--json"]).expect(0).stdout, before, "a dry run logs nothing");
    tool.precheck(&["--observe", "sync"]).expect(0).says("would skip: sync is held by");
    tool.lock(&["log"]).expect(0).prints("observed only");
    let value = tool.precheck(&["--json", "-q", "sync", "free"]).expect(75).silent().json();
    assert_eq!((&value["skip"], &value["locks"][0]["state"]), (&true.into(), &"held".into()));
    assert_eq!(value["locks"][1]["state"], "free");
}

#[test]
fn names_and_paths_that_are_no_text_go() {
    let tool = Tool::new();
    let _holder = tool.hold("sync");
    let odd = OsString::from_vec(b"\xff\xfe".to_vec());
    tool.precheck(std::slice::from_ref(&odd)).expect(0).one_line().says(NOT_GUARDING);
    tool.precheck(&["--deadline".into(), odd.clone(), OsString::from("sync")]).expect(0).one_line();
    tool.precheck(&[odd.clone(), OsString::from("sync")]).expect(75).says(NOT_GUARDING);
    let mut elsewhere = tool.tool("orion-precheck", &["sync"]);
    run(elsewhere.env("ORION_DIR", odd)).expect(0).one_line().says(NOT_GUARDING);
}

/// Field case B70: output that cannot be written never changes the answer.
#[test]
fn closed_and_full_outputs_change_nothing() {
    let tool = Tool::new();
    let _holder = tool.hold("held");
    tool.write_record("torn", "torn");
    for redirect in [
        ">/dev/full",
        "2>/dev/full",
        ">/dev/full 2>&1",
        ">&-",
        "2>&-",
        ">&- 2>&-",
        "<&- >&- 2>&-",
        "| head -c 0",
        "2>&1 | head -c 0",
        "2>&1 >/dev/full | head -c 0",
    ] {
        for (name, code) in
            [("held", 75), ("free", 0), ("torn", 0), ("a/b", 0), ("--json held", 75), ("--help", 0)]
        {
            let script = format!("\"$OP\" {name} {redirect}; exit ${{PIPESTATUS[0]}}");
            let done = tool.sh(&script);
            assert_eq!(done.code, code, "{name} {redirect}: {done:?}");
        }
    }
}

#[test]
fn few_descriptors_are_a_reason_to_go_and_are_said() {
    let tool = Tool::new();
    let _holder = tool.hold("held");
    let mut answers = Vec::new();
    for limit in 4..=16 {
        let done = tool.sh(&format!("ulimit -n {limit}; exec \"$OP\" held"));
        // The dynamic loader of a test build may itself need more.
        if done.stderr.contains("error while loading shared libraries") {
            continue;
        }
        assert!(done.code == 0 || done.code == 75, "limit {limit}: {done:?}");
        if done.code == 0 {
            assert!(done.stderr.contains(NOT_GUARDING), "limit {limit}, never silent: {done:?}");
        }
        answers.push(done.code);
    }
    assert!(answers.contains(&0) && answers.contains(&75), "both were seen: {answers:?}");
}

#[test]
fn few_threads_or_little_memory_do_not_skip_or_crash() {
    let tool = Tool::new();
    let _holder = tool.hold("held");
    for limit in ["ulimit -v 30000", "ulimit -s 1000", "ulimit -f 0", "ulimit -c 0; ulimit -d 9000"] {
        let done = tool.sh(&format!("{limit}; exec \"$OP\" held"));
        assert!(done.code == 0 || done.code == 75, "{limit}: {done:?}");
        let done = tool.sh(&format!("{limit}; exec \"$OP\" free"));
        assert_eq!(done.code, 0, "{limit}: {done:?}");
    }
}

/// Field cases B14 and B15.
#[test]
fn a_missing_or_foreign_proc_goes_and_is_said() {
    if !needs_root() || !needs_unshare(&["-m"]) || !needs_unshare(&["-p", "-f"]) {
        return;
    }
    let tool = Tool::new();
    let _holder = tool.hold("held");
    tool.leave_dead("dead");
    let check = "\"$OP\" held; echo $?; \"$OP\" free; echo $?; \"$OL\" run free echo ran; echo $?; \"$OL\" run dead echo ran; echo $?";
    for (flags, before) in [
        (&["-m"][..], "umount -l /proc"),
        (&["-m"], "mount -t tmpfs t /proc"),
        (&["-p", "-f"], ":"),
        (&["-p", "-f", "-m"], ":"),
    ] {
        let done = run(&mut tool.unshared(flags, &format!("{before}\n{check}"))).expect(0);
        assert_eq!(done.stdout, "0\n0\n69\n69\n", "{before}: {done:?}");
        assert!(done.stderr.contains(NOT_GUARDING), "{before}: {done:?}");
    }
    // No boot id: nothing that was recorded elsewhere can be judged, what is free is free.
    let script = format!("mount -t proc -o subset=pid proc /proc || exit 0\n{check}");
    let done = run(&mut tool.unshared(&["-m"], &script)).expect(0);
    if !done.stdout.is_empty() {
        // The pulse of a live run is proof also without a boot id.
        assert_eq!(done.stdout, "75\n0\nran\n0\n69\n", "{done:?}");
    }
}

#[test]
fn a_directory_that_may_not_be_read_goes() {
    if !needs_root() || !needs("runuser") {
        return;
    }
    let tool = Tool::new();
    let _holder = tool.hold("held");
    std::fs::set_permissions(tool.path(""), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("chmod");
    let copy = tool.path("precheck");
    std::fs::copy(bin("orion-precheck"), &copy).expect("copy");
    let mut command = tool.command("runuser");
    command.args(["-u", "nobody", "--"]).arg(&copy).arg("held").current_dir("/");
    run(&mut command).expect(0).one_line().says(NOT_GUARDING).says("permission denied");
}

/// Not even its own log may make it hang: the directory is on a server that went away.
#[test]
fn a_deadline_ends_what_hangs() {
    if !needs_root() || !needs_unshare(&["-m"]) || !needs("bindfs") {
        return;
    }
    if !support::allowed(std::path::Path::new("/dev/fuse").exists(), "no /dev/fuse") {
        return;
    }
    let tool = Tool::new();
    std::fs::create_dir_all(tool.path("back/locks")).expect("mkdir");
    std::fs::create_dir_all(tool.dir()).expect("mkdir");
    std::fs::write(tool.path("back/.network"), "").expect("write");
    for dir in [tool.path("back"), tool.dir()] {
        std::fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("chmod");
    }
    let script = format!(
        "bindfs -f -o attr_timeout=0,entry_timeout=0 {} $ORION_DIR & server=$!
         until mountpoint -q $ORION_DIR; do sleep 0.01; done
         \"$OP\" sync; echo $?
         kill -STOP $server
         \"$OP\" --deadline 200ms sync; echo $?
         \"$OP\" --deadline 200ms --strict sync; echo $?
         timeout --preserve-status -s TERM 2 \"$OP\" sync; echo $?
         kill -CONT $server; umount $ORION_DIR; wait",
        tool.path("back").display()
    );
    let start = Instant::now();
    let done = run(&mut tool.unshared(&["-m"], &script)).expect(0);
    let done = done.says(NOT_GUARDING).says("no answer before the deadline").says("ended by a signal");
    assert_eq!(done.stdout, "0\n0\n69\n0\n", "{done:?}");
    assert!(start.elapsed() < Duration::from_secs(40), "{:?}", start.elapsed());
}

/// A precheck whose first look at the file system takes seconds.
fn hanging(tool: &Tool, args: &[&str]) -> Command {
    let mut command = tool.command("strace");
    command.args(["-f", "-qq", "-e", "trace=fstatfs", "-e", "inject=fstatfs:delay_enter=8000000", "-o"]);
    command.arg(tool.path("trace")).arg(bin("orion-precheck")).args(args);
    command
}

/// Sends a signal to a hanging precheck, once it has said which signals it catches.
fn signalled(signal: Signal) -> Done {
    let tool = Tool::new();
    let _holder = tool.hold("held");
    let mut command = hanging(&tool, &["held"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let strace = command.spawn().expect("strace");
    let children = format!("/proc/{0}/task/{0}/children", strace.id());
    let child = || std::fs::read_to_string(&children).ok()?.trim().parse::<u32>().ok();
    let status = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/status")).ok();
    let ready = || {
        let mask = status(child()?)?
            .lines()
            .find_map(|line| Some(line.strip_prefix("SigCgt:")?.trim().to_owned()))?;
        let mask = u64::from_str_radix(&mask, 16).ok()?;
        // TERM is 15 and HUP is 1; the body has its own thread by then.
        let threads = std::fs::read_dir(format!("/proc/{}/task", child()?)).ok()?.count();
        Some(mask & 1 << 14 != 0 && mask & 1 != 0 && threads > 1)
    };
    eventually("handlers", || ready() == Some(true));
    let child = support::KillOnDrop::of(child().expect("a child"));
    child.signal(signal);
    let out = strace.wait_with_output().expect("wait");
    let code = std::os::unix::process::ExitStatusExt::signal(&out.status)
        .map_or(out.status.code(), |n| Some(128 + n));
    Done {
        code: code.expect("a code"),
        stdout: String::from_utf8_lossy(&out.stdout).into_owned(),
        // strace itself wonders about a thread that ended while it was held back.
        stderr: String::from_utf8_lossy(&out.stderr)
            .lines()
            .filter(|line| !line.starts_with("strace: "))
            .map(|line| format!("{line}\n"))
            .collect(),
    }
}

#[test]
fn term_and_hup_go_and_a_person_with_ctrl_c_ends_it() {
    if !needs("strace") {
        return;
    }
    let all = [Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT];
    let all = all.map(|signal| std::thread::spawn(move || signalled(signal)));
    let [term, hup, int, quit] = all.map(|thread| thread.join().expect("no panic"));
    for done in [term, hup] {
        done.expect(0).one_line().says(NOT_GUARDING).says("signal");
    }
    int.expect(128 + 2);
    quit.expect(128 + 3);
}

/// Field case B69: a bare environment is enough.
#[test]
fn no_environment_is_needed() {
    let tool = Tool::new();
    let _holder = tool.hold("held");
    let dir = tool.dir().display().to_string();
    for (name, code) in [("held", 75), ("free", 0)] {
        let mut command = Command::new(bin("orion-precheck"));
        command.args(["--dir", &dir, name]).env_clear().current_dir("/");
        run(&mut command).expect(code);
        run(command.env("HOME", "/dev/null")).expect(code);
    }
}

/// It looks and writes its log, and nothing else: no record, no directory, and a guard is read at most.
#[test]
fn it_opens_nothing_for_writing_but_the_log() {
    if !needs("strace") {
        return;
    }
    let tool = Tool::new();
    let _holder = tool.hold("held");
    tool.leave_dead("dead");
    let mut command = tool.command("strace");
    command.args([
        "-f",
        "-qq",
        "-e",
        "trace=openat,open,mkdirat,mkdir,unlinkat,renameat2,renameat,flock",
        "-o",
    ]);
    command.arg(tool.path("trace")).arg(bin("orion-precheck")).args(["held", "dead", "free"]);
    run(&mut command).expect(75);
    let trace = std::fs::read_to_string(tool.path("trace")).expect("trace");
    let changes = |line: &str| {
        ["unlink", "rename", "mkdir"].iter().any(|word| line.contains(word))
            || (line.contains("guard") && !line.contains("O_RDONLY"))
    };
    let changing: Vec<&str> = trace.lines().filter(|line| changes(line)).collect();
    assert!(changing.is_empty(), "{changing:#?}");
    let writes: Vec<&str> = trace
        .lines()
        .filter(|line| ["O_WRONLY", "O_RDWR", "O_CREAT"].iter().any(|flag| line.contains(flag)))
        .collect();
    assert!(writes.iter().all(|line| line.contains(".jsonl")), "{writes:#?}");
}

#[test]
fn a_directory_without_the_folder_is_free() {
    let tool = Tool::new();
    std::fs::create_dir(tool.dir()).expect("mkdir");
    tool.precheck(&["sync"]).expect(0).silent();
    tool.precheck(&["-v", "sync"]).expect(0).says("never held");
}
