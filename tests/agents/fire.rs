//! `orion-fire`: the caller's environment, a session of its own, and true words about servers that cannot be used.

use crate::path;
use crate::reap_support::{Server, is_gone, real, write_program};
use crate::support::{Tool, eventually, needs, run};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// orion-fire without anything of the machine's own: no settings of tmux or of agents.
fn fire(tool: &Tool, socket: &Path, args: &[&str]) -> Command {
    let mut command = tool.command(Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/orion-fire"));
    std::fs::create_dir_all(tool.path("home")).unwrap();
    std::fs::create_dir_all(tool.path("tmp")).unwrap();
    for name in ["TMUX", "TMUX_PANE", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"] {
        command.env_remove(name);
    }
    command.env("HOME", tool.path("home")).env("TMPDIR", tool.path("tmp"));
    command.env("PATH", format!("{}:{}", tool.path("bin").display(), path()));
    command.arg("--tmux-socket").arg(socket).args(["--automation", "nightly"]).args(args);
    command
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Every argument of every process, but for those of the agent that was given them.
fn arguments(but: u32) -> String {
    let numbers = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok().filter(|pid| *pid != but));
    numbers.map(|pid| read(Path::new(&format!("/proc/{pid}/cmdline")))).collect::<Vec<_>>().join("\n")
}

#[test]
fn r14_the_run_has_the_environment_of_its_caller() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    server.tmux(&["set-environment", "-g", "OF_SERVER", "old key"]);
    let seen = server.tool.path("seen");
    // Its first act: is the file still there that the environment came in?
    let agent =
        format!("ls -R $TMPDIR >{0}.files; env -0 >{0}.part; mv {0}.part {0}; exec cat", seen.display());
    let mut command =
        fire(&server.tool, &server.socket, &["--env-drop", "UNWANTED", "--", "sh", "-c", &agent]);
    let secret = "a secret $x; \"'\n#{pane_id}";
    command
        .env("SECRET", secret)
        .env("UNWANTED", "1")
        .env("CLAUDECODE", "1")
        .env("COLUMNS", "7")
        .env("LINES", "7");
    command.env("dir", "lower case").env("ORION_LOCKS", "other:5").env("TERM", "vt52");
    run(&mut command).expect(0).silent();
    eventually("its environment", || seen.exists());
    let text = read(&seen);
    let value = |name: &str| text.split('\0').find_map(|one| one.strip_prefix(name)?.strip_prefix('='));
    assert_eq!(value("SECRET"), Some(secret));
    let files = read(&server.tool.path("seen.files"));
    assert!(!files.lines().any(|file| file == "env"), "read once and removed: {files}");
    assert_eq!(value("dir"), Some("lower case"), "a name that a script uses too");
    for name in ["OF_SERVER", "UNWANTED", "CLAUDECODE", "COLUMNS", "LINES"] {
        assert_eq!(value(name), None, "{name}");
    }
    assert!(value("TERM").is_some_and(|term| term != "vt52"), "the pane's own");
    assert!(value("TMUX").is_some_and(|tmux| tmux.starts_with(&server.socket.display().to_string())));
    let list = server.tmux(&["list-panes", "-a", "-F", "#{pane_pid} #{pane_id} #{@orion_run}"]);
    let line = list.lines().find(|line| line.contains("nightly")).unwrap().to_owned();
    let mut words = line.split(' ');
    let (pid, pane) = (words.next().unwrap(), words.next().unwrap());
    assert_eq!((value("ORION_OWNER_PID"), value("TMUX_PANE")), (Some(pid), Some(pane)));
    assert!(value("ORION_LOCKS").is_some_and(|locks| locks.starts_with("nightly:")), "not the caller's");
    assert!(!arguments(0).contains("a secret"), "in no argument of any process");
    let start = server.tmux(&["list-panes", "-a", "-F", "#{pane_start_command}"]);
    assert!(!start.contains("secret"), "{start}");
    assert_eq!(crate::support::names_in(&server.tool.path("tmp")), [""; 0], "nothing is left behind");
}

#[test]
fn r15_the_session_has_its_own_options() {
    if !needs("tmux") {
        return;
    }
    let tool = Tool::new();
    let socket = tool.path("tmux");
    std::fs::create_dir_all(tool.path("home")).unwrap();
    let settings = "set -g destroy-unattached on\nset -g remain-on-exit on\n";
    std::fs::write(tool.path("home/.tmux.conf"), settings).unwrap();
    let args = ["--window", "work", "--size", "120x40", "--tmux-option", "@mine=a b;", "-v", "--", "cat"];
    run(&mut fire(&tool, &socket, &args)).expect(0).says("started in the session orion-nightly-");
    let tmux = |args: &[&str]| run(Command::new("tmux").arg("-S").arg(&socket).args(args)).stdout;
    let shown = tmux(&[
        "list-panes",
        "-a",
        "-F",
        "#{window_name} #{window_width}x#{window_height} #{@mine} #{pane_pid}",
    ]);
    assert!(shown.starts_with("work 120x40 a b; "), "{shown}");
    let pid: u32 = shown.trim_end().rsplit(' ').next().unwrap().parse().unwrap();
    let pane = crate::support::KillOnDrop::of(pid);
    tmux(&["send-keys", "C-d"]);
    eventually("the end of the agent", || is_gone(pid));
    // A dead pane would stay for ever with that setting; and the last pane takes its server along.
    eventually("the end of the pane", || tmux(&["list-panes", "-a"]).is_empty());
    drop(pane);
    for bad in ["0x5", "5", "axb", "99999x5"] {
        run(&mut fire(&tool, &socket, &["--size", bad, "--", "true"])).expect(64).one_line();
    }
    run(&mut fire(&tool, &socket, &["--tmux-option", "x", "--", "true"])).expect(64).one_line();
}

#[test]
fn r15_a_server_that_cannot_be_used_is_named_with_the_reason() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let start = |tool: &Tool, socket: &Path| run(&mut fire(tool, socket, &["--", "true"]));
    let plain = server.tool.path("plain");
    std::fs::write(&plain, "").unwrap();
    start(&server.tool, &plain).expect(69).one_line().says("is not a socket");
    let folder = server.tool.path("nowhere/socket");
    start(&server.tool, &folder).expect(69).one_line();
    // What tmux says to another user, and it ends with 0.
    let bin = server.tool.path("bin");
    std::fs::create_dir_all(&bin).unwrap();
    for (answer, expected) in [
        ("echo 'access not allowed'", "access not allowed"),
        ("echo 'error connecting to x (Permission denied)' >&2; exit 1", "Permission denied"),
    ] {
        write_program(&bin.join("tmux"), &format!("#!/bin/sh\n{answer}\n"));
        let done = start(&server.tool, &server.socket).expect(69).one_line();
        assert!(done.stderr.contains(expected) && done.stderr.contains("cannot be used"), "{}", done.stderr);
    }
    std::fs::remove_file(bin.join("tmux")).unwrap();
    // A socket that a dead server left behind: a new one is started.
    let stale = server.tool.path("stale");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    run(&mut fire(&server.tool, &stale, &["--", "sh", "-c", "sleep 0.1"])).expect(0).silent();
    eventually("it has ended", || server.tool.lock(&["status", "nightly"]).code == 0);
}

#[test]
fn r3_what_an_agent_needs_comes_from_its_profile() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let bin = server.tool.path("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let (args, pid) = (server.tool.path("args"), server.tool.path("daemon"));
    // A stand-in for Codex: it leaves a daemon behind that inherits everything, unless it is told not to.
    let codex = |help: &str| {
        write_program(
            &bin.join("codex"),
            &format!(
                "#!/bin/sh\ncase $1 in --version) echo 'codex-cli 0.171.0'; exit;; --help) echo '{help}'; exit;; esac\n\
                 echo \"$*\" >{0}.part; mv {0}.part {0}\n[ \"$1\" != --no-daemon ] || exec cat\n\
                 setsid -f sh -c 'echo $$ >{1}.part; mv {1}.part {1}; exec sleep 9999'\n\
                 while [ ! -e {1} ]; do sleep 0.05; done\n",
                args.display(),
                pid.display()
            ),
        );
    };
    codex("an old one");
    let mut command = fire(&server.tool, &server.socket, &["-v", "--", "codex", "do it"]);
    let done = run(&mut command).expect(0).says("orion-mark install codex").says("--owner-only");
    assert!(done.stderr.contains("Codex has no hooks of orion-mark here"), "{}", done.stderr);
    assert!(!done.stderr.contains("is added"), "{}", done.stderr);
    eventually("its daemon", || pid.exists());
    let daemon = crate::support::KillOnDrop::of(read(&pid).trim().parse().unwrap());
    assert_eq!(read(&args), "do it\n");
    eventually("a free lock", || server.tool.lock(&["status", "nightly"]).code == 0);
    assert!(!daemon.ended(), "the daemon holds nothing");
    std::fs::remove_file(&args).unwrap();
    codex("  --no-daemon  x");
    let done = run(&mut fire(&server.tool, &server.socket, &["-v", "--", "codex", "do it"])).expect(0);
    assert!(
        done.stderr.contains("--no-daemon is added") && !done.stderr.contains("--owner-only"),
        "{}",
        done.stderr
    );
    eventually("its arguments", || args.exists());
    assert_eq!(read(&args), "--no-daemon do it\n");

    // With its hooks there is nothing to say, and an argument that is given is not given twice.
    let mut install = server.tool.tool("orion-mark", &["install", "codex"]);
    install.env("HOME", server.tool.path("home")).env("PATH", format!("{}:{}", bin.display(), path()));
    run(install.env_remove("CODEX_HOME")).expect(0);
    std::fs::remove_file(&args).unwrap();
    let mut command =
        fire(&server.tool, &server.socket, &["--lock", "other", "--", "codex", "--no-daemon", "x"]);
    run(&mut command).expect(0).silent();
    eventually("its arguments", || args.exists());
    assert_eq!(read(&args), "--no-daemon x\n");
    run(&mut fire(&server.tool, &server.socket, &["--agent", "nobody", "--", "true"]))
        .expect(64)
        .says("nobody");
}

#[test]
fn r11_an_agent_that_outlives_its_terminal_is_ended_by_the_next_reaping() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let bin = server.tool.path("bin");
    std::fs::create_dir_all(&bin).unwrap();
    write_program(
        &bin.join("gemini"),
        "#!/bin/sh\n[ \"$1\" != --version ] || { echo 0.61.0; exit; }\nexec cat\n",
    );
    // The reaper's own arguments, as they arrive.
    let said = server.tool.path("said");
    write_program(&bin.join("orion-precheck"), &format!("#!/bin/sh\necho \"$*\" >{}\n", said.display()));
    let args = ["-v", "--reap", "--resident", "helper", "--", "gemini", "-i", "x"];
    run(&mut fire(&server.tool, &server.socket, &args)).expect(0).says("--end-survivors for the reaper");
    let text = read(&said);
    assert!(text.contains("--resident helper") && text.contains(" --end-survivors "), "{text}");
    let given = ["--reap", "--reap-arg", "--end-survivors=9s", "--lock", "x", "--", "gemini"];
    run(&mut fire(&server.tool, &server.socket, &given)).expect(0);
    assert_eq!(read(&said).matches("--end-survivors").count(), 1, "a person's own value stands");
    run(&mut fire(&server.tool, &server.socket, &["--reap", "--lock", "y", "--", "cat"])).expect(0);
    assert!(!read(&said).contains("--end-survivors"), "only where the profile says so");
}

#[test]
fn the_output_of_a_run_is_kept_where_only_its_owner_reads_it() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let logs = server.tool.path("new/logs");
    let args = ["--keep-log", logs.to_str().unwrap(), "--", "sh", "-c", "echo a secret answer; exec cat"];
    run(&mut fire(&server.tool, &server.socket, &args)).expect(0).silent();
    let names = crate::support::names_in(&logs);
    assert!(names.len() == 1 && names[0].starts_with("orion-nightly-"), "{names:?}");
    let file = logs.join(&names[0]);
    eventually("its words", || read(&file).contains("a secret answer"));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let both = ["--keep-log", "x", "--log", "y", "--", "true"];
    run(&mut fire(&server.tool, &server.socket, &both)).expect(64).one_line();
}

#[test]
fn owner_only_ends_the_lock_with_the_agent_and_nothing_else_does() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let pid = server.tool.path("daemon");
    let agent = format!(
        "setsid -f sh -c 'echo $$ >{0}.part; mv {0}.part {0}; exec sleep 9999' </dev/null >/dev/null 2>&1\n\
         until [ -e {0} ]; do sleep 0.05; done",
        pid.display()
    );
    for (owner_only, held) in [(true, 0), (false, 75)] {
        let mut args = vec!["--", "sh", "-c", &agent];
        if owner_only {
            args.insert(0, "--owner-only");
        }
        run(&mut fire(&server.tool, &server.socket, &args)).expect(0).silent();
        eventually("its daemon", || pid.exists());
        let daemon = crate::support::KillOnDrop::of(read(&pid).trim().parse().unwrap());
        eventually("the end of the agent", || server.panes() == ["%0"]);
        std::fs::remove_file(&pid).unwrap();
        let status = || server.tool.lock(&["status", "-q", "nightly"]).code;
        assert_eq!(status(), held, "owner-only: {owner_only}");
        assert!(!daemon.ended(), "it is left alone");
        daemon.kill();
        eventually("a free lock", || status() == 0);
    }
}

#[test]
fn slots_let_so_many_runs_start_and_each_knows_its_own() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let agent = format!(
        "echo $ORION_LOCK_SLOT >{0}/part.$$; mv {0}/part.$$ {0}/slot.$ORION_LOCK_SLOT; exec cat",
        server.tool.path("").display()
    );
    let started = |members: &[&str]| {
        let args = [members, &["--", "sh", "-c", &agent]].concat();
        // The slot of whoever calls is not the run's.
        run(fire(&server.tool, &server.socket, &args).env("ORION_LOCK_SLOT", "9"))
    };
    for slot in ["1", "2"] {
        started(&["--slots", "2"]).expect(0).silent();
        eventually("its slot", || server.tool.path(&format!("slot.{slot}")).exists());
    }
    started(&["--slots=2"]).expect(75);
    started(&["--shared"]).expect(0);
    started(&[]).expect(75);
    assert!(!server.tool.path("slot.9").exists());
    for (wrong, hint) in [
        (vec!["--slots", "many"], "a number"),
        (vec!["--slots", "2", "--shared"], "exclude"),
        (vec!["--shared", "--slots=2"], "exclude"),
    ] {
        let refused = started(&wrong).expect(64);
        assert!(refused.stderr.contains(hint), "{wrong:?}: {}", refused.stderr);
    }
    run(&mut server.tool.tool("orion-lock", &["pause", "--all"])).expect(0);
    started(&["--slots", "9"]).expect(75);
}

#[test]
fn r14_what_the_environment_loses_and_what_a_profile_adds() {
    if !needs("tmux") {
        return;
    }
    let server = Server::new();
    let bin = server.tool.path("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let (seen, modes) = (server.tool.path("seen"), server.tool.path("modes"));
    // aider has no hooks: two variables do their work. One stands in the caller's environment already.
    write_program(
        &bin.join("aider"),
        &format!("#!/bin/sh\nenv -0 >{0}.part; mv {0}.part {0}; exec cat\n", seen.display()),
    );
    write_program(
        &bin.join("tmux"),
        &format!(
            "#!/bin/sh\ncase \" $* \" in *' new-session '*) stat -c %a $TMPDIR/*/env $TMPDIR/*/agent >{} ;; esac\n\
             exec {} \"$@\"\n",
            modes.display(),
            real("tmux")
        ),
    );
    let mut command = fire(&server.tool, &server.socket, &["-v", "--env-drop=MINE", "--", "aider"]);
    command
        .env("AIDER_NOTIFICATIONS_COMMAND", "mine")
        .env("MINE", "1")
        .env("KEPT", "")
        .env("not-a-name", "1");
    // Whoever starts a run from inside of an agent, of a lock or of a pane hands none of that down.
    let marks = ["CLAUDECODE", "CODEX_SANDBOX", "GEMINI_CLI", "OPENCODE"];
    for name in marks.iter().chain(&["ORION_LOCK_NAME", "ORION_LOCK_TOKEN", "SHLVL"]) {
        command.env(name, "77");
    }
    let done = run(&mut command).expect(0);
    assert!(done.stderr.contains("MINE is left out of the agent's environment"), "{}", done.stderr);
    eventually("its environment", || seen.exists());
    let text = read(&seen);
    let value = |name: &str| text.split('\0').find_map(|one| one.strip_prefix(name)?.strip_prefix('='));
    assert_eq!(value("AIDER_NOTIFICATIONS"), Some("true"), "of the profile");
    assert_eq!(value("AIDER_NOTIFICATIONS_COMMAND"), Some("mine"), "the caller's own goes first");
    assert_eq!((value("KEPT"), value("MINE"), value("not-a-name")), (Some(""), None, None));
    for name in marks {
        assert_eq!(value(name), None, "{name}");
    }
    for name in ["ORION_LOCK_NAME", "ORION_LOCK_TOKEN", "SHLVL"] {
        assert_ne!(value(name), Some("77"), "{name}");
    }
    assert_eq!(read(&modes), "600\n600\n", "what is handed over can be read by its owner only");
}
