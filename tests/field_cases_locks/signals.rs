//! G10 to G13: callers that go, hang-ups, job control, and lines that must be true.

use crate::support::{KillOnDrop, Running, Tool, eventually, needs, run};
use rustix::process::Signal;

#[test]
fn g10_a_waiter_whose_caller_is_gone_takes_nothing() {
    let tool = Tool::new();
    let mut holder = tool.hold("g");
    // A program that lives on, as the owner; the shell of its call is killed.
    let text =
        "bash -c 'echo $$; exec 3>&1; \"$OL\" acquire --owner '$$' -w 50s g & echo $!; wait' & read -r end";
    let mut program = Running::start(&mut tool.script(text));
    let shell = KillOnDrop::of(program.number());
    let waiter: u32 = program.next_line().parse().expect("a pid");
    eventually("it stands in line", || tool.file("g.queue").exists());
    shell.kill();
    let gone = |pid: u32| {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "))
    };
    eventually("the waiter ends with its caller", || gone(waiter));
    holder.end();
    tool.precheck(&["g"]).expect(0);
    assert_eq!(tool.lock(&["status", "--json", "g"]).expect(0).json()["state"], "free");
    drop(program);
}

#[test]
fn g10_a_waiter_whose_caller_lives_takes_it() {
    let tool = Tool::new();
    let mut holder = tool.hold("g");
    let text = "\"$OL\" acquire --owner $$ -w 50s g & echo up; wait $!; echo $?; read -r end";
    let mut script = Running::start(&mut tool.script(text));
    eventually("it stands in line", || tool.file("g.queue").exists());
    holder.end();
    assert_eq!(script.next_line(), "0");
    tool.precheck(&["g"]).expect(75);
}

#[test]
fn g11_a_lock_held_by_hand_outlives_the_terminal() {
    let tool = Tool::new();
    let mut hold = Running::start(&mut tool.script("nohup \"$OL\" hold --json x; echo ended"));
    let children = format!("/proc/{0}/task/{0}/children", hold.pid());
    let pid: i32 = std::fs::read_to_string(children).expect("children").trim().parse().expect("one child");
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
    rustix::process::kill_process(pid, Signal::HUP).expect("kill");
    tool.precheck(&["x"]).expect(75);
    rustix::process::kill_process(pid, Signal::HUP).expect("it is there");
    rustix::process::kill_process(pid, Signal::INT).expect("kill");
    assert_eq!(hold.next_line(), "ended");
    tool.precheck(&["x"]).expect(0);
}

/// Under a shell with job control: the command stops itself, the shell has its terminal back, `fg` goes on.
#[test]
fn g12_a_command_that_stops_itself_gives_the_terminal_back() {
    if !needs("script") {
        return;
    }
    for tree in ["--tree", ""] {
        let tool = Tool::new();
        // An interactive shell on a terminal of its own; what it does after the stop shows that it has it back.
        let text = format!(
            "set -m\n\"$OL\" run {tree} x -- bash -c 'kill -STOP $$; echo went on; exit 3'\necho stopped $?\njobs\nfg\necho ended $?\n"
        );
        let inner = tool.path("inner.sh");
        std::fs::write(&inner, text).expect("write");
        let line = format!("timeout --foreground -k 1 40 bash -i '{}'", inner.display());
        let mut command = tool.command("script");
        command.args(["-qefc", &line, "/dev/null"]);
        let done = run(command.env("TERM", "dumb"));
        let shown = done.stdout.replace('\r', "");
        assert!(shown.contains("stopped 147") || shown.contains("stopped 148"), "{tree}: {done:?}");
        assert!(shown.contains("went on") && shown.contains("ended 3"), "{tree}: {done:?}");
    }
}

#[test]
fn g13_what_is_said_of_a_server_that_is_started_is_true() {
    if !needs("tmux") {
        return;
    }
    let tool = Tool::new();
    let socket = tool.path("socket").display().to_string();
    let done = tool
        .lock(&["run", "x", "--", "tmux", "-f", "/dev/null", "-S", &socket, "new", "-d", "cat"])
        .expect(0);
    let done = done.says("a server that this tmux command starts keeps the lock");
    assert!(!done.stderr.contains("the lock ends with this"), "{done:?}");
    tool.lock(&["run", "x", "true"]).expect(75);
    run(tool.command("tmux").args(["-S", &socket, "kill-server"])).expect(0);
    eventually("free", || tool.precheck(&["x"]).code == 0);
    // With --owner-only the other line is the true one.
    let words =
        ["run", "--owner-only", "x", "--", "tmux", "-f", "/dev/null", "-S", &socket, "new", "-d", "cat"];
    tool.lock(&words).expect(0).says("the lock ends with this tmux command");
    tool.lock(&["run", "x", "true"]).expect(0);
    run(tool.command("tmux").args(["-S", &socket, "kill-server"])).expect(0);
}

/// In the first milliseconds of a `--tree` run the command is not yet named beside its supervisor.
#[test]
fn g13_a_tree_that_has_only_begun_left_nothing_behind() {
    let tool = Tool::new();
    let mut holder = tool.hold_with(&["run", "--tree", "x", "sh", "-c", "echo up; read -r end"]);
    // As it stands before the command is named.
    tool.edit_record("x", |record| {
        let owners = record["owners"].as_array().expect("owners").clone();
        record["owners"] = serde_json::json!([owners[1]]);
    });
    let done = tool.lock(&["run", "x", "true"]).expect(75).one_line();
    assert!(!done.stderr.contains("left behind"), "{done:?}");
    holder.end();
}
