//! Hooks in a person's own settings.

use crate::path;
use crate::reap_support::write_program;
use crate::support::{self, Done, Tool, bin, needs, needs_root, needs_unshare, run};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A home directory, and a stand-in for an agent that says its version.
struct Home {
    tool: Tool,
}

impl Home {
    fn new(agent: &str, version: &str) -> Self {
        let tool = Tool::new();
        std::fs::create_dir_all(tool.path("home")).unwrap();
        std::fs::create_dir_all(tool.path("bin")).unwrap();
        std::fs::create_dir_all(tool.path("project")).unwrap();
        write_program(&tool.path("bin").join(agent), &format!("#!/bin/sh\necho '{version}'\n"));
        Self { tool }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.tool.tool("orion-mark", args);
        for name in ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "OPENCODE_CONFIG_DIR"] {
            command.env_remove(name);
        }
        command.env("HOME", self.path("")).current_dir(self.tool.path("project"));
        command.env("PATH", format!("{}:{}", self.tool.path("bin").display(), path()));
        command
    }

    fn mark(&self, args: &[&str]) -> Done {
        run(&mut self.command(args))
    }

    fn path(&self, file: &str) -> std::path::PathBuf {
        self.tool.path("home").join(file)
    }

    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.path(file)).unwrap()
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::create_dir_all(self.path(file).parent().unwrap()).unwrap();
        std::fs::write(self.path(file), text).unwrap();
    }
}

const CLAUDE: &str = ".claude/settings.json";
const MINE: &str = "{\n  // my own\n  \"model\": \"opus\",\n  \"hooks\": {\n    \"Stop\": [\n      { \"hooks\": \
    [{ \"type\": \"command\", \"command\": \"beep\" }] } // keep\n    ]\n  }\n}\n";

#[test]
fn hooks_come_into_a_persons_settings_and_go_again_without_a_trace() {
    let home = Home::new("claude", "2.1.332 (Claude Code)");
    home.write(CLAUDE, MINE);
    std::fs::set_permissions(home.path(CLAUDE), PermissionsExt::from_mode(0o640)).unwrap();
    home.mark(&["check", "claude"]).expect(78).one_line().says("'Stop says idle' is missing");
    let dry = home.mark(&["install", "claude", "--dry-run"]).expect(0);
    assert!(dry.stdout.contains("+") && dry.stdout.contains("orion-mark idle"), "{}", dry.stdout);
    assert_eq!(home.read(CLAUDE), MINE, "a dry run");
    home.mark(&["install", "claude"]).expect(0).silent().prints("before-orion");
    home.mark(&["check", "claude"]).expect(0).silent();
    let first = home.read(CLAUDE);
    assert!(first.contains("// my own") && first.contains("// keep") && first.contains("beep"), "{first}");
    let mode = std::fs::metadata(home.path(CLAUDE)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    assert_eq!(home.read(".claude/settings.json.before-orion"), MINE, "a copy");
    home.mark(&["install", "claude"]).expect(0).prints("already");
    assert_eq!(home.read(CLAUDE), first, "a second install changes nothing");
    home.mark(&["install", "claude", "--remove", "--dry-run"]).expect(0);
    assert_eq!(home.read(CLAUDE), first);
    home.mark(&["install", "claude", "--remove"]).expect(0).silent();
    assert_eq!(home.read(CLAUDE), MINE);
    assert_eq!(support::names_in(&home.path(".claude")), ["settings.json"]);
    home.mark(&["install", "claude", "--remove"]).expect(0).prints("no hook of orion-mark");

    // A hook of an older version is replaced, and one that is gone comes back.
    let old = "{\"hooks\":{\"SessionStart\":[{\"hooks\":[{\"type\":\"command\",\"command\":\"orion-mark busy\"}]}]}}";
    home.write(CLAUDE, old);
    home.mark(&["check", "claude"]).expect(78).says("'SessionStart says busy' is out of date");
    home.mark(&["install", "claude"]).expect(0);
    home.mark(&["check", "claude"]).expect(0);
    assert_eq!(home.read(CLAUDE).matches("orion-mark busy").count(), 4);

    // Where there was no file, there is none afterwards.
    std::fs::remove_dir_all(home.path(".claude")).unwrap();
    home.mark(&["install", "claude"]).expect(0);
    let json: serde_json::Value = serde_json::from_str(&home.read(CLAUDE)).unwrap();
    assert_eq!(json["hooks"]["Stop"][0]["hooks"][0]["command"], "orion-mark idle");
    assert_eq!(json["hooks"]["StopFailure"][0]["hooks"][0]["timeout"], 10);
    home.mark(&["install", "claude", "--remove"]).expect(0);
    assert!(!home.path(CLAUDE).exists());
}

#[test]
fn settings_that_cannot_be_changed_safely_stay_as_they_are() {
    let home = Home::new("claude", "2.1.332 (Claude Code)");
    for bad in ["{", "[]", "{\"hooks\":[]}", "{\"hooks\":{\"Stop\":{}}}", "{\"hooks\":{},\"hooks\":{}}"] {
        home.write(CLAUDE, bad);
        for args in [&["install", "claude"][..], &["install", "claude", "--remove"]] {
            let done = home.mark(args);
            if done.code != 0 {
                done.expect(78).one_line().says("stays as it is");
            }
            assert_eq!(home.read(CLAUDE), bad);
        }
        assert_eq!(support::names_in(&home.path(".claude")), ["settings.json"], "{bad}");
    }
    std::fs::write(home.path(CLAUDE), b"{\"a\":\"\xff\"}").unwrap();
    home.mark(&["install", "claude"]).expect(78).says("not UTF-8");
    // A link is somebody's decision where the file is: it is named, not replaced.
    home.write("dotfiles/claude.json", "{}\n");
    std::fs::remove_file(home.path(CLAUDE)).unwrap();
    std::os::unix::fs::symlink(home.path("dotfiles/claude.json"), home.path(CLAUDE)).unwrap();
    let target = home.path("dotfiles/claude.json").display().to_string();
    home.mark(&["install", "claude"]).expect(73).one_line().says(&format!("--file {target}"));
    assert_eq!(home.read("dotfiles/claude.json"), "{}\n");
    home.mark(&["install", "claude", "--file", &target]).expect(0);
    home.mark(&["check", "claude", "--file", &target]).expect(0);
    assert!(std::fs::symlink_metadata(home.path(CLAUDE)).unwrap().is_symlink());

    home.mark(&["install", "nobody"]).expect(69).one_line().says("known here: aider, claude, codex");
    home.mark(&["install"]).expect(64).one_line();
    home.mark(&["install", "claude", "--project", "--file", "x"]).expect(64);
    home.mark(&["install", "codex", "--project"]).expect(78).says("reads no hooks from a project");
    if !needs_root() || !needs_unshare(&["-m"]) {
        return;
    }
    // A directory that takes no writes.
    home.write("ro/settings.json", MINE);
    let script = format!(
        "mount --bind {0} {0} && mount -o remount,bind,ro {0} && {1} install claude --file {0}/settings.json",
        home.path("ro").display(),
        bin("orion-mark").display()
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]).env("HOME", home.path(""));
    run(&mut command).expect(73).one_line().says("nothing was changed");
    assert_eq!(home.read("ro/settings.json"), MINE);
}

#[test]
fn codex_gets_its_hooks_in_toml_and_old_versions_only_what_they_know() {
    let home = Home::new("codex", "codex-cli 0.171.0");
    let mine = "model = \"x\" # mine\n\n[[hooks.Stop]]\nhooks = [{ type = \"command\", command = \"beep\" }]\n\n[tui]\nx = 1\n";
    home.write(".codex/config.toml", mine);
    home.mark(&["install", "codex"]).expect(0).prints("still to do: start codex once");
    home.mark(&["check", "codex"]).expect(0);
    let after = home.read(".codex/config.toml");
    assert!(after.contains("# mine") && after.contains("beep") && after.contains("[tui]"), "{after}");
    // Codex itself writes what it was told to trust.
    home.write(
        ".codex/config.toml",
        &format!("{after}\n[hooks.state.\"a:b\"]\ntrusted_hash = \"sha256:1\"\n"),
    );
    home.mark(&["check", "codex"]).expect(0);
    home.mark(&["install", "codex", "--remove"]).expect(0);
    let left = home.read(".codex/config.toml");
    assert!(left.contains("beep") && left.contains("trusted_hash") && !left.contains("orion-mark"), "{left}");

    let home = Home::new("claude", "1.0.60 (Claude Code)");
    home.mark(&["install", "claude"]).expect(0);
    home.mark(&["check", "claude"]).expect(0);
    let text = home.read(CLAUDE);
    assert!(text.contains("UserPromptSubmit") && !text.contains("StopFailure"), "{text}");
    write_program(&home.tool.path("bin/claude"), "#!/bin/sh\necho '2.1.332 (Claude Code)'\n");
    home.mark(&["check", "claude"])
        .expect(78)
        .says("(version 2.1.332)")
        .says("'StopFailure says idle' is missing");
}

#[test]
fn what_is_written_while_we_write_is_not_lost() {
    if !needs("strace") {
        return;
    }
    let home = Home::new("claude", "2.1.332 (Claude Code)");
    home.write(CLAUDE, "{}\n");
    // Held where the new file is complete and not yet in its place. The first sync is that of the copy.
    let delay = "inject=fdatasync:delay_enter=4000000:when=2";
    let command = home.command(&["install", "claude"]);
    let mut traced = Command::new("strace");
    traced.args(["-f", "-qq", "-o"]).arg(home.tool.path("trace")).args([
        "-e",
        "trace=fdatasync",
        "-e",
        delay,
    ]);
    traced.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => traced.env(name, value),
            None => traced.env_remove(name),
        };
    }
    let child =
        traced.current_dir(home.tool.path("project")).stderr(std::process::Stdio::piped()).spawn().unwrap();
    support::eventually("the new file beside the old one", || {
        let names = support::names_in(&home.path(".claude"));
        names.iter().any(|name| name.ends_with(".before-orion"))
            && names.iter().any(|name| {
                let file = home.path(".claude").join(name);
                name.starts_with(".orion-mark.") && std::fs::metadata(file).is_ok_and(|meta| meta.len() > 100)
            })
    });
    home.write(CLAUDE, "{ \"of\": \"the agent\" }\n");
    let out = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(73), "{said}");
    assert!(said.contains("somebody changed it while we looked"), "{said}");
    assert_eq!(home.read(CLAUDE), "{ \"of\": \"the agent\" }\n");
    let left = support::names_in(&home.path(".claude"));
    assert!(!left.iter().any(|name| name.starts_with(".orion-mark.")), "{left:?}");
}

#[test]
fn an_agent_that_writes_its_settings_when_it_is_asked_for_its_version_is_no_obstacle() {
    let home = Home::new("gemini", "0.61.0");
    home.write(".gemini/settings.json", "{}\n");
    let rewrite = "#!/bin/sh\necho '{ \"mine\": 1 }' >$HOME/.gemini/settings.json\necho 0.61.0\n";
    write_program(&home.tool.path("bin/gemini"), rewrite);
    home.mark(&["install", "gemini"]).expect(0);
    let text = home.read(".gemini/settings.json");
    assert!(text.contains("\"mine\": 1") && text.contains("orion-mark idle"), "{text}");
}

#[test]
fn extensions_are_files_of_their_own_and_a_strangers_file_stays() {
    let home = Home::new("pi", "0.73.1");
    let file = ".pi/agent/extensions/orion-mark.ts";
    home.mark(&["check", "pi"]).expect(78).says("is missing");
    home.mark(&["install", "pi"]).expect(0);
    home.mark(&["check", "pi"]).expect(0);
    home.write(file, &home.read(file).replace("6000", "5000"));
    home.mark(&["check", "pi"]).expect(78).says("another version");
    home.mark(&["install", "pi"]).expect(0);
    home.mark(&["install", "pi"]).expect(0).prints("already");
    home.mark(&["install", "pi", "--remove"]).expect(0);
    assert!(!home.path(file).exists());
    home.write(file, "// mine\n");
    home.mark(&["install", "pi"]).expect(78).says("orion-mark did not make it");
    home.mark(&["install", "pi", "--remove"]).expect(78);
    assert_eq!(home.read(file), "// mine\n");

    home.mark(&["install", "opencode", "--project"]).expect(0);
    assert!(home.tool.path("project/.opencode/plugin/orion-mark.js").is_file());
    home.mark(&["check", "opencode"]).expect(0).prints(".opencode/plugin/orion-mark.js");
    home.mark(&["install", "aider"]).expect(0).prints("export AIDER_NOTIFICATIONS_COMMAND='orion-mark idle'");
    home.mark(&["check", "aider"]).expect(78).says("orion-fire sets it");
}

#[test]
fn a_person_can_add_an_agent() {
    let home = Home::new("mine", "mine 3.4.5");
    home.mark(&["profile", "mine"]).expect(69);
    let profile = "title = \"My agent\"\ncommands = [\"mine\"]\nresidents = [\"mine-mcp\"]\nenv_drop = [\"MINE\"]\n\
        [hooks]\nform = \"json\"\nfolder = \".mine\"\nfile = \"conf.json\"\n\
        events = [{ on = \"end\", mark = \"idle\", since = \"3.0\" }, { on = \"new\", mark = \"busy\", since = \"4.0\" }]\n";
    home.write(".config/orion/agents/mine.toml", profile);
    home.mark(&["install", "/opt/bin/mine"]).expect(0);
    let text = home.read(".mine/conf.json");
    assert!(text.contains("orion-mark idle") && !text.contains("\"new\""), "{text}");
    let shown = home.mark(&["profile", "mine"]).expect(0).stdout;
    for line in ["name mine", "title My agent", "hooks complete", "resident mine-mcp", "env-drop MINE"] {
        assert!(shown.lines().any(|one| one == line), "{line}: {shown}");
    }
    let json = home.mark(&["profile", "--json"]).expect(0).json();
    let names: Vec<&str> =
        json["agents"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["aider", "claude", "codex", "gemini", "mine", "opencode", "pi"]);
    home.write(".config/orion/agents/mine.toml", "commands = 7\n");
    home.mark(&["profile", "mine"]).expect(78).one_line().says("commands is not a list");
    // A hook goes on without it.
    let mut command = home.command(&["idle"]);
    run(command.env_remove("TMUX").env_remove("TMUX_PANE")).expect(0).silent();
}

/// The extension for pi and the plugin for opencode, played without their hosts.
#[test]
fn the_extensions_mark_every_turn() {
    // Not on the list of what the tests need: where node is, they are run.
    if Command::new("node").arg("--version").output().is_err() {
        return;
    }
    let tool = Tool::new();
    std::fs::create_dir_all(tool.path("bin")).unwrap();
    write_program(&tool.path("bin/orion-mark"), "#!/bin/sh\necho \"$*\" >>\"$MARKS\"\n");
    let source = |name: &str| {
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/agents").join(name))
            .unwrap()
    };
    let play = |name: &str, text: &str| {
        let (module, marks) = (tool.path(&format!("{name}.mjs")), tool.path(&format!("{name}.marks")));
        std::fs::write(&module, text).unwrap();
        let mut command = tool.command("node");
        command.arg(&module).env("MARKS", &marks);
        command.env("PATH", format!("{}:{}", tool.path("bin").display(), std::env::var("PATH").unwrap()));
        run(&mut command).expect(0).silent();
        std::fs::read_to_string(&marks).unwrap().lines().collect::<Vec<_>>().join(" ")
    };
    let pi = source("pi-orion-mark.ts");
    for (event, state) in
        [("agent_start", "busy"), ("turn_start", "busy"), ("tool_call", "busy"), ("agent_end", "idle")]
    {
        assert!(
            pi.contains(&format!("pi.on(\"{event}\", () => mark(\"{state}\"))")),
            "{event} marks {state}"
        );
    }
    let pi = pi
        .replace("(state: string)", "(state)")
        .replace("(pi: { on(event: string, handler: () => void): void })", "(pi)");
    let pi = format!(
        "{pi}\nimport(import.meta.url).then((own) => own.default({{ on: (event, handler) => handler() }}));\n"
    );
    let marks = play("pi", &pi);
    assert!(marks.contains("busy busy busy busy idle"), "{marks}");
    let opencode = format!(
        "{}\nconst hooks = await OrionMark({{}});\nawait hooks[\"chat.message\"]();\n\
         await hooks[\"tool.execute.before\"]();\nconst say = (type, properties) => hooks.event({{ event: {{ type, properties }} }});\n\
         await say(\"permission.asked\", {{}});\nawait say(\"permission.replied\", {{}});\n\
         await say(\"session.created\", {{ info: {{ id: \"child\", parentID: \"main\" }} }});\n\
         await say(\"session.idle\", {{ sessionID: \"child\" }});\nawait say(\"session.idle\", {{ sessionID: \"main\" }});\n",
        source("opencode-orion-mark.js")
    );
    assert_eq!(play("opencode", &opencode), "ready busy busy question busy idle");
}

#[test]
fn the_tables_of_agents_are_made_from_the_profiles() {
    if !needs("python3") {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/agents-table");
    run(Command::new(&script).arg("--check")).expect(0).silent();
    run(&mut Command::new(&script)).expect(0).prints("| Claude Code |");
    run(Command::new(&script).arg("--other")).expect(64);
}
