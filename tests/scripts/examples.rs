//! Every file in `scripts/examples`, run as its host would run it.

use crate::support::{Done, KillOnDrop, Running, Tool, needs, run};
use crate::{executable, path_with, script};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// An agent that writes its arguments down and says so.
const AGENT: &str = "#!/bin/sh\necho \"agent $*\"\n";

fn example(name: &str) -> String {
    let path = script("examples").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn tool_with_agent(agent: &str) -> Tool {
    let tool = Tool::new();
    executable(&tool.path("bin/agent"), agent);
    tool
}

#[test]
fn every_example_has_a_test() {
    let tests = all_tests(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests"));
    // A recipe is read by people; its commands are held by tests/docs.
    for name in crate::support::names_in(&script("examples")).iter().filter(|name| !name.ends_with(".md")) {
        assert!(tests.contains(&format!("{name}\"")), "scripts/examples/{name} is run by no test");
    }
}

/// The text of every test program.
fn all_tests(dir: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(dir).expect("tests") {
        let path = entry.expect("entry").path();
        if path.is_dir() {
            text.push_str(&all_tests(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(&path).expect("a test"));
        }
    }
    text
}

/// A line of a crontab as cron(8) runs it: five fields off, `%` handled, `/bin/sh -c`.
struct CronLine {
    command: String,
    stdin: String,
}

fn cron_lines(crontab: &str) -> Vec<CronLine> {
    let entries = crontab.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let entries =
        entries.filter(|line| !line.split([' ', '\t']).next().is_some_and(|word| word.contains('=')));
    entries
        .map(|line| {
            let mut rest = line;
            for _ in 0..5 {
                rest = rest.trim_start().split_once([' ', '\t']).expect("five fields").1;
            }
            let (mut command, mut stdin, mut after, mut back) = (String::new(), String::new(), false, false);
            for c in rest.trim_start().chars() {
                match (c, back) {
                    ('%', true) => {
                        let text = if after { &mut stdin } else { &mut command };
                        text.pop();
                        text.push('%');
                    }
                    ('%', false) if after => stdin.push('\n'),
                    ('%', false) => after = true,
                    _ if after => stdin.push(c),
                    _ => command.push(c),
                }
                back = c == '\\';
            }
            CronLine { command, stdin }
        })
        .collect()
}

fn fire(tool: &Tool, line: &CronLine) -> Done {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &line.command]).env_clear();
    command.env("PATH", path_with(&tool.path("bin"))).env("HOME", tool.path("")).env("LOGNAME", "x");
    command.env("SHELL", "/bin/sh").env("ORION_DIR", tool.dir());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("sh");
    // Nobody needs to read it.
    drop(child.stdin.take().expect("stdin").write_all(line.stdin.as_bytes()));
    let out = child.wait_with_output().expect("wait");
    Done {
        code: out.status.code().unwrap_or(255),
        stdout: String::from_utf8_lossy(&out.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&out.stderr).into_owned(),
    }
}

#[test]
fn the_cron_lines_run_and_skip() {
    let tool = tool_with_agent(AGENT);
    let lines = cron_lines(&example("crontab"));
    assert_eq!(lines.len(), 4, "lines of the crontab");
    for line in &lines {
        assert_eq!(line.stdin, "", "an unescaped % in: {}", line.command);
        let done = fire(&tool, line).expect(0).silent();
        assert!(done.stdout.starts_with("agent --task "), "{}: {}", line.command, done.stdout);
    }
    let backup = fire(&tool, &lines[2]).stdout;
    let name = backup.trim().rsplit(' ').next().expect("a name").to_owned();
    assert!(name.len() == "backup-2026-11-29".len() && !name.contains(['%', '\\']), "{backup}");

    let mut sync = tool.hold("sync");
    // -q: nothing for cron to mail.
    let done = fire(&tool, &lines[0]).expect(75).silent();
    assert_eq!(done.stdout, "");
    let done = fire(&tool, &lines[3]).expect(0).silent();
    assert_eq!(done.stdout, "", "the gate stopped it");
    sync.end();
    let mut backup = tool.hold("backup");
    fire(&tool, &lines[2]).expect(75).one_line().says(&format!("held by pid {}", backup.pid()));
    backup.end();
}

/// `key=value` lines of a unit.
fn unit_values(unit: &str, key: &str) -> Vec<String> {
    unit.lines().filter_map(|line| line.strip_prefix(&format!("{key}="))).map(str::to_owned).collect()
}

#[test]
fn the_systemd_service_runs_and_its_skip_is_a_success() {
    let tool = tool_with_agent(AGENT);
    let unit = example("orion-sync.service");
    let lines = unit_values(&unit, "ExecStart");
    let words: Vec<String> = lines[0].split(' ').map(str::to_owned).collect();
    let environment = unit_values(&unit, "Environment");
    let state = unit_values(&unit, "StateDirectory");
    assert_eq!(environment, [format!("ORION_DIR=%S/{}", state[0])], "the service's own directory");
    // As systemd: one process from these words, nothing else in the environment.
    let start = || {
        let mut command = Command::new(crate::support::bin(&words[0]));
        command
            .args(&words[1..])
            .env_clear()
            .env("PATH", path_with(&tool.path("bin")))
            .env("ORION_DIR", tool.dir());
        run(&mut command)
    };
    start().expect(0).silent().prints("agent --task sync");
    let mut holder = tool.hold("sync");
    let skipped = start().expect(0).says("sync is held by pid");
    assert_eq!(skipped.stdout, "");
    holder.end();
}

#[test]
fn systemd_accepts_the_units() {
    if !needs("systemd-analyze") {
        return;
    }
    let tool = tool_with_agent(AGENT);
    let dir = tool.path("units");
    std::fs::create_dir(&dir).expect("dir");
    for name in ["orion-sync.service", "orion-sync.timer"] {
        let program = crate::support::bin("orion-lock").display().to_string();
        let text = example(name).replace("ExecStart=orion-lock", &format!("ExecStart={program}"));
        std::fs::write(dir.join(name), text).expect("unit");
    }
    let mut command = Command::new("systemd-analyze");
    command
        .args(["verify", "--man=no"])
        .arg(dir.join("orion-sync.timer"))
        .arg(dir.join("orion-sync.service"));
    // Units of the machine itself are not ours to judge.
    let done = run(&mut command);
    let ours: Vec<&str> = done.stderr.lines().filter(|line| line.contains("orion-sync")).collect();
    assert!(done.code == 0 && ours.is_empty(), "{ours:?} {done:?}");
    // And it does find mistakes.
    let wrong = dir.join("orion-wrong.service");
    std::fs::write(&wrong, "[Service]\nExecStart=/nonexistent/program\n").expect("unit");
    let done = run(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&wrong));
    assert!(done.stderr.contains("/nonexistent/program"), "{done:?}");
}

fn fire_agent(tool: &Tool, args: &[&str]) -> Command {
    let mut command = tool.command(script("examples/agent-fire"));
    command.args(args).env("PATH", path_with(&tool.path("bin"))).env("ORION_BASH", script("orion.bash"));
    command.current_dir(tool.path(""));
    command
}

#[test]
fn a_wrapped_fire_keeps_its_result_and_a_second_one_is_refused() {
    let tool = tool_with_agent(AGENT);
    let result = tool.path("result");
    run(&mut fire_agent(&tool, &["sync", "result"])).expect(0).silent();
    assert_eq!(std::fs::read_to_string(&result).expect("result"), "agent --task sync\n");
    tool.lock(&["status", "sync"]).expect(0);
    let mut holder = tool.hold("sync");
    std::fs::remove_file(&result).expect("remove");
    run(&mut fire_agent(&tool, &["sync", "result"])).expect(75).says("sync is held by pid");
    assert!(!result.exists(), "a refused fire writes nothing");
    holder.end();
    // A failing agent leaves no result and no lock.
    executable(&tool.path("bin/agent"), "#!/bin/sh\necho half\nexit 3\n");
    run(&mut fire_agent(&tool, &["sync", "result"])).expect(3);
    assert!(!result.exists());
    let left = crate::support::names_in(&tool.path(""));
    assert!(!left.iter().any(|name| name.starts_with("result.")), "the draft is gone: {left:?}");
    tool.lock(&["status", "sync"]).expect(0);
}

#[test]
fn a_killed_fire_holds_the_lock_until_its_agent_has_ended() {
    // It writes its pid past its own stdout, which the fire keeps.
    let tool = tool_with_agent("#!/bin/sh\necho $$ >&2\nexec sleep 600\n");
    let mut command = fire_agent(&tool, &["sync", "result"]);
    // The handshake is a line on stdout, so stderr goes there.
    let mut wrapper = tool.command("sh");
    wrapper.args(["-c", "exec \"$0\" \"$@\" 2>&1"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        value.map(|value| wrapper.env(name, value));
    }
    wrapper.current_dir(tool.path(""));
    let mut first = Running::start(&mut wrapper);
    let agent = KillOnDrop::of(first.number());
    first.kill();
    run(&mut command).expect(75).says("started by it, holds the lock");
    drop(agent);
    executable(&tool.path("bin/agent"), AGENT);
    crate::support::eventually("timeout(1) and its agent are gone", || {
        run(&mut fire_agent(&tool, &["sync", "result"])).code == 0
    });
}
