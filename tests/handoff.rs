//! Runs that hand their work on: the work a run started counts, and a second run goes ahead when it is gone.

mod support;

use std::process::Command;
use support::{KillOnDrop, Running, Tool, eventually, needs, run};

/// What is left behind says its pid and lives until it is killed.
const JOB: &str = "exec sleep 1000 >/dev/null 2>&1 </dev/null";

/// Refused while `job` lives, with both named; free when it is gone.
#[track_caller]
fn refused_while_it_lives(tool: &Tool, owner: u32, job: &KillOnDrop) {
    let expected = format!("owner {owner} ended; {} (sleep), started by it, holds the lock", job.pid());
    tool.lock(&["run", "sync", "echo", "second"]).expect(75).one_line().says(&expected);
    tool.precheck(&["sync"]).expect(75).says(&expected);
    let status = tool.lock(&["status", "--json", "sync"]).expect(75).json();
    assert_eq!(status["held_through"], "descendant");
    assert_eq!(status["holders"][0]["pid"], job.pid());
    tool.lock(&["list"]).expect(0).prints("held");
    job.kill();
    // The descriptor is closed a moment after a pidfd says "ended".
    eventually("the end of the pulse", || tool.precheck(&["-q", "sync"]).code == 0);
    let done = tool.lock(&["run", "sync", "echo", "second"]).expect(0).silent();
    assert_eq!(done.stdout, "second\n");
}

/// A run whose command ends by itself and leaves a job that wrote its pid to the file `job`.
fn leaves_a_job(tool: &Tool, command: &[&str]) -> (u32, KillOnDrop) {
    let args = [&["run", "sync"], command].concat();
    let mut first = tool.tool("orion-lock", &args);
    let mut child = first.current_dir(tool.path("")).spawn().expect("spawn");
    let owner = child.id();
    child.wait().expect("wait");
    eventually("the job", || {
        std::fs::read_to_string(tool.path("job")).is_ok_and(|text| text.ends_with('\n'))
    });
    let pid = std::fs::read_to_string(tool.path("job")).expect("pid").trim().parse().expect("a pid");
    let job = KillOnDrop::of(pid);
    eventually("the job's exec", || {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm == "sleep\n")
    });
    (owner, job)
}

#[test]
fn a_job_in_a_session_of_its_own_holds_the_lock() {
    let tool = Tool::new();
    let job = format!("setsid sh -c 'echo $$ >job; {JOB}' &");
    let (owner, job) = leaves_a_job(&tool, &["sh", "-c", &job]);
    refused_while_it_lives(&tool, owner, &job);
}

#[test]
fn a_job_in_the_background_of_bash_holds_the_lock() {
    let tool = Tool::new();
    let job = format!("sh -c 'echo $$ >job; {JOB}' & exit 0");
    let (owner, job) = leaves_a_job(&tool, &["bash", "-c", &job]);
    refused_while_it_lives(&tool, owner, &job);
}

#[test]
fn a_daemon_that_forks_twice_holds_the_lock() {
    let tool = Tool::new();
    let job = format!("( ( setsid sh -c 'echo $$ >job; cd /; {JOB}' & ) & ) ; exit 0");
    let (owner, job) = leaves_a_job(&tool, &["sh", "-c", &job]);
    refused_while_it_lives(&tool, owner, &job);
}

/// Field case B36: the wrapper dies by KILL, its work goes on.
#[test]
fn the_work_of_a_killed_timeout_or_shell_holds_the_lock() {
    for wrapper in
        [&["timeout", "1000"][..], &["bash", "-c", "\"$@\"; exit $?", "wrapper"], &["nice"], &["env"]]
    {
        if !needs(wrapper[0]) {
            continue;
        }
        let tool = Tool::new();
        let work = format!("echo $$; {JOB}");
        let args = [&["run", "sync"], wrapper, &["sh", "-c", &work]].concat();
        let mut first = tool.hold_with(&args);
        let job = KillOnDrop::of(first.number());
        eventually("the job's exec", || {
            std::fs::read_to_string(format!("/proc/{}/comm", job.pid())).is_ok_and(|comm| comm == "sleep\n")
        });
        tool.lock(&["run", "sync", "true"]).expect(75).says(&format!("pid {}", first.pid()));
        let owner = first.pid();
        if owner == job.pid() {
            // nice and env become the command: there is no wrapper that could die alone.
            first.kill();
            tool.lock(&["run", "sync", "true"]).expect(0).silent();
            continue;
        }
        first.kill();
        refused_while_it_lives(&tool, owner, &job);
    }
}

#[test]
fn owner_only_leaves_no_pulse() {
    let tool = Tool::new();
    let job = format!("sh -c 'echo $$ >job; {JOB}' &");
    let args = ["run", "--owner-only", "sync", "sh", "-c", &job];
    run(tool.tool("orion-lock", &args).current_dir(tool.path(""))).expect(0);
    tool.precheck(&["sync"]).expect(0).silent();
    tool.lock(&["run", "sync", "true"]).expect(0).silent();
    eventually("the job", || {
        std::fs::read_to_string(tool.path("job")).is_ok_and(|text| text.ends_with('\n'))
    });
    let pid = std::fs::read_to_string(tool.path("job")).expect("pid").trim().parse().expect("a pid");
    KillOnDrop::of(pid).kill();
}

/// A free pulse proves nothing: who closes its descriptors is not seen, and identity decides.
#[test]
fn a_job_that_closes_its_descriptors_is_not_seen() {
    if !needs("python3") {
        return;
    }
    let tool = Tool::new();
    let code = "
import subprocess
job = subprocess.Popen(['sleep', '1000'], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
open('job', 'w').write(str(job.pid) + '\\n')";
    let (_, job) = leaves_a_job(&tool, &["python3", "-c", code]);
    tool.lock(&["run", "sync", "true"]).expect(0).silent();
    job.kill();
}

/// What a released run left behind never stands for a later token.
#[test]
fn a_pulse_stands_for_its_own_token_only() {
    let tool = Tool::new();
    let job = format!("sh -c 'echo $$ >job; {JOB}' &");
    let (_, job) = leaves_a_job(&tool, &["sh", "-c", &job]);
    let token = tool.record("sync")["token"].to_string();
    tool.lock(&["run", "sync", "true"]).expect(75);
    tool.lock(&["release", "--token", &token, "sync"]).expect(0);
    tool.precheck(&["sync"]).expect(0);
    let mut second = tool.hold("sync");
    second.kill();
    tool.precheck(&["sync"]).expect(0).silent();
    tool.lock(&["run", "sync", "true"]).expect(0).silent();
    assert!(!job.ended(), "it lives, with the token of a run that was released");
}

#[test]
fn many_looks_at_a_pulse_are_not_taken_for_life() {
    let tool = Tool::new();
    tool.leave_dead("sync");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..25 {
                    tool.precheck(&["sync"]).expect(0).silent();
                }
            });
        }
    });
}

/// The lines that a quiet call printed all the same, by the number of the call.
fn loud(calls: usize, call: impl Fn() -> support::Done) -> Vec<(usize, String)> {
    (1..=calls)
        .filter_map(|number| {
            let done = call().expect(75);
            (!done.stderr.is_empty()).then(|| (number, done.one_line().stderr))
        })
        .collect()
}

#[test]
fn the_third_tenth_thirtieth_and_hundredth_skip_in_a_row_is_said_even_when_quiet() {
    let tool = Tool::new();
    let mut holder = tool.hold("sync");
    let number = std::cell::Cell::new(0);
    let said = loud(101, || {
        number.set(number.get() + 1);
        if number.get() % 2 == 0 {
            tool.precheck(&["-q", "sync"])
        } else {
            tool.lock(&["run", "-q", "sync", "true"])
        }
    });
    let at: Vec<usize> = said.iter().map(|(number, _)| *number).collect();
    assert_eq!(at, [3, 10, 30, 100]);
    let (_, tenth) = &said[1];
    assert!(tenth.contains("sync was skipped 10 times since "), "{tenth}");
    assert!(tenth.contains(&format!("because of the same run (pid {}, sh)", holder.pid())), "{tenth}");
    assert!(tenth.contains("If finished runs stay open here: man orion-reap"), "{tenth}");
    let list = tool.lock(&["list", "--json"]).expect(0).json();
    assert_eq!(list["locks"][0]["skips_in_a_row"], 101);
    // Another run is another count, and so is a skip after somebody got it.
    holder.end();
    let _next = tool.hold("sync");
    let again = loud(3, || tool.precheck(&["-q", "sync"]));
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].0, 3);
}

#[test]
fn the_repeat_line_of_work_left_behind_says_what_to_type() {
    let tool = Tool::new();
    let job = format!("sh -c 'echo $$ >job; {JOB}' &");
    let (_, _job) = leaves_a_job(&tool, &["sh", "-c", &job]);
    let token = tool.record("sync")["token"].to_string();
    let said = loud(3, || tool.precheck(&["-q", "sync"]));
    let expected = format!(
        "Meant to stay? orion-lock break --owner-is-alive --token {token} sync, and run with --owner-only"
    );
    assert!(said[0].1.contains(&expected), "{said:?}");
}

/// Field case B65: an inherited stdout must not keep a caller waiting, and nothing of ours is inherited by accident.
#[test]
fn an_acquire_leaves_nothing_open() {
    let tool = Tool::new();
    let script = "\"$OL\" acquire --owner $$ sync; ls -l /proc/$$/fd | grep -c state; read -r end";
    let mut holder = Running::start(&mut tool.script(script));
    assert_eq!(holder.line, "0");
    holder.end();
    let out = Command::new("fuser").arg(tool.file("sync.guard")).output();
    if let Ok(out) = out {
        assert!(!out.status.success(), "somebody has the guard open: {out:?}");
    }
}
