#!/usr/bin/env python3
"""Plays real agents against a model server of ours, fires them with orion-fire and closes them with orion-reap.

Usage: scripts/test --agents [AGENT|SCENE]...

The agents are installed from the npm registry into ORION_AGENTS_DIR (default: a directory in /var/tmp that stays, so
that a second run is quick). They run in a network namespace where nothing but loopback exists, with placeholder keys.
Needs root, npm, tmux and the programs of this tree (target/debug, or ORION_TEST_BIN_DIR). A slow machine needs
ORION_PLAY_PATIENCE, the seconds that every wait may take (90).

Every line says which scene was played with which version of which agent and what became of it; the last line is
"N passed, N failed, N skipped".
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BIN = Path(os.environ.get("ORION_TEST_BIN_DIR") or ROOT / "target/debug")
STORE = Path(os.environ.get("ORION_AGENTS_DIR") or "/var/tmp/orion-agents")
IDLE = 3
LONG = int(os.environ.get("ORION_PLAY_PATIENCE") or 90)


class Failed(Exception):
    """A scene that did not go as it must."""


def call(*args, **more):
    """A bounded call; its output as text."""
    more.setdefault("timeout", 120)
    return subprocess.run([str(arg) for arg in args], capture_output=True, text=True, check=False, **more)


def until(what, fact, seconds=LONG):
    """Waits for a fact; gives it back."""
    end = time.monotonic() + seconds
    while True:
        found = fact()
        if found:
            return found
        if time.monotonic() > end:
            raise Failed(f"it did not come within {seconds} s: {what}")
        time.sleep(0.2)


def started(pid):
    """When a process began, so that its number is not taken for another; None for one that is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] == "Z" else fields[19]


def below(pid):
    """A process and everything below it, as (number, beginning)."""
    children = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            parent = int(text[text.rindex(")") + 2 :].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    found, wait = [], [pid]
    while wait:
        one = wait.pop()
        if started(one):
            found.append((one, started(one)))
        wait += children.get(one, [])
    return found


def words_of(pid):
    """The command line of a process; empty for one that is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


class Agent:
    """One kind of agent."""

    name = package = ""
    ask_arguments = []
    free_arguments = []
    # How often Esc is pressed.
    escapes = 1
    # Does it outlive its terminal? Then its lock is free only with --end-survivors.
    outlives = False
    skip = {}

    def __init__(self, stage):
        self.stage = stage
        self.home = stage.base / f"home-{self.name}"
        self.home.mkdir(parents=True)
        self.version = stage.version(self)

    def prepare(self, port):
        """Settings for the stand-in server."""

    def environment(self, port):
        return {}

    def asking(self):
        """Variables that make it ask before it runs a command."""
        return {}

    def program(self):
        return [STORE / self.name / "node_modules/.bin" / self.name]

    def arguments(self, prompt, asks):
        return [*(self.ask_arguments if asks else self.free_arguments), prompt]

    def write(self, file, text):
        path = self.home / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


class Claude(Agent):
    name, package = "claude", "@anthropic-ai/claude-code"
    free_arguments = ["--dangerously-skip-permissions"]
    ask_arguments = ["--permission-mode", "default"]

    def prepare(self, port):
        trust = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        settings = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "lastOnboardingVersion": "99.0.0",
            "bypassPermissionsModeAccepted": True,
            "customApiKeyResponses": {"approved": ["placeholder-key-0001"], "rejected": []},
            "projects": {str(self.stage.work): trust},
        }
        self.write(".claude.json", json.dumps(settings))
        self.write(".claude/settings.json", '{"skipDangerousModePermissionPrompt": true}\n')

    def environment(self, port):
        return {
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
            "ANTHROPIC_API_KEY": "placeholder-key-0001",
            # As root it takes --dangerously-skip-permissions only with this.
            "IS_SANDBOX": "1",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }

    def program(self):
        return [STORE / self.name / "node_modules/@anthropic-ai/claude-code/bin/claude.exe"]


class Codex(Agent):
    name, package = "codex", "@openai/codex"
    free_arguments = ["--dangerously-bypass-hook-trust"]
    ask_arguments = ["--dangerously-bypass-hook-trust", "-a", "on-request", "-s", "read-only"]
    skip = {"bg": "its model has no command in the background", "reminder": "it has none"}

    def prepare(self, port):
        self.write(
            ".codex/config.toml",
            f"""# mine
model = "play-model"
model_provider = "play"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[model_providers.play]
name = "play"
base_url = "http://127.0.0.1:{port}/v1"
env_key = "PLAY_KEY"
wire_api = "responses"

[projects."{self.stage.work}"]
trust_level = "trusted"
""",
        )

    def environment(self, port):
        return {"PLAY_KEY": "placeholder"}


class Gemini(Agent):
    name, package = "gemini", "@google/gemini-cli"
    free_arguments = ["--yolo", "-i"]
    outlives = True
    ask_arguments = ["-i"]
    skip = {"reminder": "it has none"}

    def prepare(self, port):
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
            "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
            "privacy": {"usageStatisticsEnabled": False},
            "ui": {"theme": "Default", "hideTips": True},
        }
        self.write(".gemini/settings.json", json.dumps(settings, indent=2))

    def environment(self, port):
        return {"GEMINI_API_KEY": "placeholder", "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{port}"}


class Pi(Agent):
    name, package = "pi", "@mariozechner/pi-coding-agent"
    skip = {
        "ask": "it never asks",
        "bg": "it has no commands in the background",
        "reminder": "it has none",
    }

    def prepare(self, port):
        provider = {
            "baseUrl": f"http://127.0.0.1:{port}/v1",
            "apiKey": "PLAY_KEY",
            "api": "openai-completions",
            "models": [{"id": "play-model", "name": "Play"}],
        }
        self.write(".pi/agent/models.json", json.dumps({"providers": {"play": provider}}))

    def environment(self, port):
        return {"PLAY_KEY": "placeholder", "PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1"}

    def arguments(self, prompt, asks):
        return ["--provider", "play", "--model", "play-model", prompt]


class Opencode(Agent):
    name, package = "opencode", "opencode-ai"
    escapes = 2
    skip = {"reminder": "it has none", "bg": "it has no commands in the background"}

    def prepare(self, port):
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "play",
            "options": {"baseURL": f"http://127.0.0.1:{port}/v1", "apiKey": "placeholder"},
            "models": {"play-model": {"name": "Play"}},
        }
        settings = {
            "$schema": "https://opencode.ai/config.json",
            "autoupdate": False,
            "share": "disabled",
            "model": "play/play-model",
            "provider": {"play": provider},
        }
        self.write(".config/opencode/opencode.json", json.dumps(settings))
        # It installs this when it starts, and waits for it before it loads a plugin.
        shutil.copytree(STORE / "opencode-plugin", self.home / ".config/opencode", dirs_exist_ok=True, symlinks=True)

    def environment(self, port):
        return {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}

    def asking(self):
        return {"OPENCODE_PERMISSION": '{"bash": "ask"}'}

    def program(self):
        for kind in ("opencode-linux-x64", "opencode-linux-x64-baseline", "opencode-linux-arm64"):
            path = STORE / self.name / "node_modules" / kind / "bin/opencode"
            if path.exists():
                return [path]
        return super().program()

    def arguments(self, prompt, asks):
        return ["--prompt", prompt]


AGENTS = {kind.name: kind for kind in (Claude, Codex, Gemini, Opencode, Pi)}


class Stage:
    """The server, tmux, and what is played on them."""

    def __init__(self, base):
        self.base = base
        self.work = base / "work"
        self.work.mkdir(parents=True)
        call("git", "init", "-q", self.work)
        self.socket = base / "tmux"
        self.log = base / "model.log"
        self.state = base / "state"
        self.port = None
        self.server = None
        self.agents = {}

    def version(self, agent):
        answer = call(*agent.program(), "--version", env=self.bare(agent.home))
        found = re.search(r"\d+\.\d+\.\d+", answer.stdout + answer.stderr)
        return found.group() if found else "?"

    def bare(self, home):
        path = f"{BIN}:{ROOT / 'scripts'}:{self.base / 'bin'}:/usr/local/bin:/usr/bin:/bin"
        return {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "ORION_DIR": str(self.state)}

    def environment(self, agent):
        return self.bare(agent.home) | agent.environment(self.port) | {"TERM": "xterm-256color"}

    def open(self):
        port = self.base / "port"
        errors = open(self.base / "model.err", "wb")
        self.server = subprocess.Popen(
            [sys.executable, HERE / "model_server.py", port, self.log], stdout=errors, stderr=errors
        )
        until("the model server", port.exists)
        self.port = int(port.read_text())
        (self.base / "bin").mkdir()
        self.tmux("-f", "/dev/null", "new-session", "-d", "-s", "main", "sleep 100000")

    def close(self):
        for kind in self.agents.values():
            for pid, _ in self.run_processes(kind):
                os.kill(pid, signal.SIGKILL)
        self.tmux("kill-server")
        if self.server:
            self.server.kill()
            self.server.wait()

    def run_processes(self, agent):
        """Processes of ours that carry this agent's home directory."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                words = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"HOME={agent.home}".encode() in words:
                found.append((int(entry.name), started(int(entry.name))))
        return found

    def tmux(self, *args):
        env = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
        return call("tmux", "-u", "-S", self.socket, *args, env=env).stdout.rstrip("\n")

    def admit(self, agent):
        """Its settings and its hooks, as a person would put them there."""
        agent.prepare(self.port)
        # So that orion-mark and orion-fire find it by its name.
        link = self.base / "bin" / agent.name
        link.write_text(f"#!/bin/sh\nexec '{agent.program()[0]}' \"$@\"\n", encoding="utf-8")
        link.chmod(0o755)
        for step in ("install", "check"):
            done = call("orion-mark", step, agent.name, env=self.environment(agent), cwd=self.work)
            if done.returncode:
                raise Failed(f"orion-mark {step} {agent.name}: {done.stderr.strip()}")
        self.agents[agent.name] = agent


class Play:
    """One run of one agent in a scene."""

    def __init__(self, stage, agent, scene, part, asks=False, reap=()):
        self.stage, self.agent = stage, agent
        self.automation = f"{agent.name}-{scene}"
        self.fire(part, asks, reap)

    def fire(self, part, asks=False, reap=(), expected=0):
        reaping = [word for one in reap for word in ("--reap-arg", one)]
        done = call(
            "orion-fire", "--tmux-socket", self.stage.socket, "--automation", self.automation,
            *(["--reap", *reaping] if reap else []), "--size", "120x40", "--", self.agent.name,
            *self.agent.arguments(f"PLAY:{part} please", asks),
            env=self.stage.environment(self.agent) | (self.agent.asking() if asks else {}), cwd=self.stage.work,
        )  # fmt: skip
        if done.returncode != expected:
            raise Failed(f"orion-fire ended with {done.returncode}: {done.stderr.strip()}")
        if expected:
            return
        rows = self.stage.tmux("list-panes", "-a", "-F", "#{pane_id} #{pane_pid} #{@orion_run}").splitlines()
        mine = [row.split(" ") for row in rows if f" {self.automation} " in row]
        if not mine:
            raise Failed("it has no pane: " + done.stderr.strip())
        self.pane, self.pid = mine[-1][0], int(mine[-1][1])

    def mark(self):
        return self.stage.tmux("show-options", "-p", "-q", "-v", "-t", self.pane, "@orion_state")

    def screen(self):
        return self.stage.tmux("capture-pane", "-p", "-t", self.pane)

    def keys(self, *keys):
        for key in keys:
            self.stage.tmux("send-keys", "-t", self.pane, key)
            time.sleep(0.5)

    def word(self, *words, seconds=LONG):
        """Waits until the mark is one of these."""
        try:
            until(f"mark {' or '.join(words)}", lambda: self.mark().split(" ")[0] in words, seconds)
        except Failed as failed:
            raise Failed(f"{failed}; the mark is '{self.mark()}'") from None

    def asked(self, part, results=0):
        """Waits until the model was asked for this."""
        until(f"the question {part} {results}", lambda: f" {part} results={results}" in self.stage.log.read_text())

    def reap(self, *more):
        done = call(
            "orion-reap", "--runner", "tmux", "--tmux-socket", self.stage.socket, "--automation", self.automation,
            "--idle", f"{IDLE}s", "--force", "--json", *more, env=self.stage.bare(self.agent.home),
        )  # fmt: skip
        answer = json.loads(done.stdout)
        rows = {row["id"]: row for row in answer["terminals"]}
        return rows.get(self.pane, {}), answer

    def there(self):
        return self.pane in self.stage.tmux("list-panes", "-a", "-F", "#{pane_id}").split()

    def silent(self):
        """The clocks of the pane say that it has been silent for long enough: 8 s is the kernel's own step."""
        row = self.stage.tmux("list-panes", "-a", "-F", "#{pane_id} #{window_activity} #{pane_tty}").splitlines()
        activity, tty = next(line.split(" ")[1:] for line in row if line.startswith(f"{self.pane} "))
        stat = os.stat(tty)
        last = max(int(activity) + 1, max(int(stat.st_mtime), int(stat.st_atime)) // 8 * 8 + 8)
        return time.time() - last

    def quiet(self, seconds=LONG):
        until("silence", lambda: self.silent() > IDLE, seconds)

    def keeps(self, seconds=12):
        """It is kept while it is at work, whatever the clocks say."""
        end, reason = time.monotonic() + seconds, ""
        while time.monotonic() < end:
            row, _ = self.reap()
            if row.get("action") == "closed" or not self.there():
                raise Failed(f"WRONG CLOSE at the mark '{self.mark()}': {row.get('evidence')}")
            reason = f"{row.get('reason')}: {row.get('evidence')}"
            time.sleep(1.5)
        return f"kept ({reason})"

    def closes(self, *more):
        """A pass closes it as soon as it has been silent long enough; what it started goes or is named.

        A few more passes are allowed where it still works for itself: a silence of 3 s is not one of 10 m."""
        for count in range(1, 9):
            self.quiet()
            before = below(self.pid)
            row, answer = self.reap("--settle", "8s", *more)
            again = row.get("reason") in ("busy", "changed", "not-silent")
            if not self.there() or not again or self.mark().split(" ")[0] == "busy":
                break
            time.sleep(2)
        if self.there():
            raise Failed(f"kept after {self.silent():.0f} s: {row.get('reason')}: {row.get('evidence')}")
        left = [pid for pid, start in before if started(pid) == start]
        text = json.dumps(answer)
        unnamed = [pid for pid in left if str(pid) not in text]
        if unnamed:
            raise Failed(f"still there and not named: {unnamed}")
        said = "closed in one pass" if count == 1 else f"closed in pass {count}, before that it used the processor or its files"
        if left:
            said += f", {len(left)} left and named"
            for pid in left:
                os.kill(pid, signal.SIGKILL)
        self.free()
        return said

    def free(self):
        env = self.stage.bare(self.agent.home)
        until("a free lock", lambda: call("orion-lock", "status", "-q", self.automation, env=env).returncode == 0, 20)

    def end(self):
        if getattr(self, "pane", None) and self.there():
            self.stage.tmux("kill-pane", "-t", self.pane)


def scene_turn(play):
    run = play("turn")
    run.word("idle")
    return run.closes()


def scene_tools3(play):
    run = play("tools3")
    run.asked("tools3", 3)
    run.word("idle")
    return run.closes()


def ended(run, seconds):
    """The end of a turn that did not end well: told by a hook, or by nobody."""
    try:
        run.word("idle", seconds=seconds)
        return f"its hook said idle, {run.closes()}"
    except Failed:
        if run.mark().split(" ")[0] == "idle":
            raise
    time.sleep(10)
    # The clock of the terminal steps every 8 s; one that goes on printing is never further back.
    if run.silent() < 1:
        return f"it tries again and again: {run.keeps(10)}"
    run.quiet()
    row, _ = run.reap()
    if not run.there():
        raise Failed(f"closed although nobody said that its turn has ended: {row.get('evidence')}")
    return f"no hook spoke, kept ({row.get('reason')}); with --interrupted {run.closes('--interrupted', '5s')}"


def scene_error(play):
    run = play("error")
    run.asked("error")
    return ended(run, 45)


def scene_limit(play):
    run = play("limit")
    run.asked("limit")
    return ended(run, 60)


def scene_slow(play):
    run = play("slow")
    run.asked("slow")
    return run.keeps(16)


def scene_esc(play):
    run = play("slow")
    run.asked("slow")
    time.sleep(1)
    run.keys(*["Escape"] * run.agent.escapes)
    return ended(run, 20)


def scene_bg(play):
    run = play("bg")
    run.asked("bg", 1)
    run.word("working", "idle")
    mark, kept = run.mark().split(" ")[0], run.keeps(14)
    tasks = [pid for pid, _ in below(run.pid) if "7777" in words_of(pid)]
    for pid in tasks:
        os.kill(pid, signal.SIGTERM)
    time.sleep(3)
    run.word("idle")
    return f"marked {mark}, {kept}, then {run.closes()}"


def scene_ask(play):
    run = play("ask", asks=True)
    run.asked("ask")
    run.word("question")
    return run.keeps(14)


def scene_reminder(play):
    run = play("turn")
    run.word("idle")
    first = run.mark()
    until("a reminder", lambda: run.mark() != first, 100)
    return f"mark renewed, {run.closes()}"


def scene_quit(play):
    run = play("turn")
    run.word("idle")
    profile = call("orion-mark", "profile", run.agent.name, env=run.stage.bare(run.agent.home)).stdout
    run.keys(re.search(r"^quit (.*)$", profile, re.M).group(1), "Enter")
    until("its end", lambda: not run.there(), 30)
    run.free()
    return "the pane ended by itself"


def scene_hup(play):
    run = play("turn")
    run.word("idle")
    run.quiet()
    before = below(run.pid)
    run.stage.tmux("kill-pane", "-t", run.pane)
    time.sleep(5)
    left = [pid for pid, start in before if started(pid) == start]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    run.free()
    return f"{len(left)} of {len(before)} processes outlived it by 5 s"


def scene_two(play):
    one, two = play("turn"), play("slow", name="other")
    one.word("idle")
    two.asked("slow")
    closed = one.closes()
    if not two.there():
        raise Failed("WRONG CLOSE of the other pane")
    if two.mark().split(" ")[0] != "busy":
        raise Failed(f"the other pane is marked '{two.mark()}'")
    return f"the idle one {closed}, the busy one {two.keeps(6)}"


def scene_daemon(play):
    """A process that left the session: it keeps the terminal, or, where the agent said "none", it is named."""
    run = play("daemon")
    run.asked("daemon", 1)
    run.word("idle")
    daemons = [pid for pid, _ in run.stage.run_processes(run.agent) if "7778" in words_of(pid)]
    if not daemons:
        raise Failed("no daemon")
    run.quiet()
    env = run.stage.bare(run.agent.home)
    held = lambda: call("orion-lock", "status", "-q", run.automation, env=env).returncode == 75
    if " none=1" in run.mark():
        row, answer = run.reap()
        if run.there():
            raise Failed(f"kept: {row.get('reason')}: {row.get('evidence')}")
        if str(daemons[0]) not in json.dumps(answer):
            raise Failed(f"closed, but pid {daemons[0]} is not named: {json.dumps(answer)}")
        said = "its agent said that no work is left: closed, and the daemon is named"
        said += ", which holds the lock" if held() else ", the lock is free beside it"
    else:
        said = run.keeps(6)
        if not held():
            raise Failed("the lock is free beside the daemon")
    for pid in daemons:
        os.kill(pid, signal.SIGTERM)
    if run.there():
        return f"{said}, then {run.closes()}"
    run.free()
    return said


def scene_seed(play):
    """The next fire skips while a turn runs; later it closes the finished run and takes over."""
    run = play("slow")
    run.asked("slow")
    reap = ("--idle", f"{IDLE}s", "--force", *(["--end-survivors=3s"] if run.agent.outlives else []))
    run.fire("turn", reap=reap, expected=75)
    run.end()
    run.free()
    run = play("turn")
    run.word("idle")
    run.quiet()
    old = run.pane
    for _ in range(8):
        try:
            run.fire("turn", reap=reap)
            break
        except Failed as error:
            row, _ = run.reap("--dry-run")
            said = f"{error}; {row.get('reason')}: {row.get('evidence')}"
            if " is held by " not in said or row.get("reason") not in ("busy", None):
                raise Failed(said) from None
            time.sleep(2)
    if old in run.stage.tmux("list-panes", "-a", "-F", "#{pane_id}").split() or old == run.pane:
        raise Failed("the finished run is still there")
    run.word("idle")
    return f"skipped while at work, took over later, then {run.closes()}"


SCENES = {name[6:]: function for name, function in list(globals().items()) if name.startswith("scene_")}


def install(kinds):
    """From the registry, where that can be reached; what could not be installed is said."""
    there = []
    for kind in kinds:
        place = STORE / kind.name
        wanted = os.environ.get(f"ORION_{kind.name.upper()}_VERSION", "latest")
        if not (place / "node_modules").is_dir():
            place.mkdir(parents=True, exist_ok=True)
            npm = ["npm", "install", "--no-audit", "--no-fund", "--prefix", place, f"{kind.package}@{wanted}"]
            done = call(*npm, "--ignore-scripts", timeout=600)
            setup = place / "node_modules/@anthropic-ai/claude-code/install.cjs"
            if done.returncode == 0 and setup.exists():
                call("node", setup, cwd=setup.parent)
            if done.returncode:
                shutil.rmtree(place, ignore_errors=True)
                print(f"{kind.name}: not installed: {done.stderr.strip().splitlines()[-1:]}", flush=True)
                continue
        if kind.name == "opencode" and not (STORE / "opencode-plugin/node_modules").is_dir():
            version = json.loads((place / "node_modules/opencode-ai/package.json").read_text())["version"]
            plugin = STORE / "opencode-plugin"
            plugin.mkdir(exist_ok=True)
            npm = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--save-exact", "--prefix", plugin]
            call(*npm, f"@opencode-ai/plugin@{version}", timeout=600)
        there.append(kind)
    return there


def main(args):
    inside = args[:1] == ["--inside"]
    args = args[1:] if inside else args
    unknown = [word for word in args if word not in AGENTS and word not in SCENES]
    if unknown:
        print(f"play: {unknown[0]} is neither an agent ({', '.join(AGENTS)}) nor a scene ({', '.join(SCENES)})")
        return 64
    kinds = [kind for name, kind in AGENTS.items() if name in args or not any(word in AGENTS for word in args)]
    scenes = [name for name in SCENES if name in args or not any(word in SCENES for word in args)]
    if not inside:
        kinds = install(kinds)
        if not kinds:
            print("0 passed, 0 failed, 1 skipped")
            return 0
        # Nobody but loopback can be reached from here on.
        words = [name for name in [kind.name for kind in kinds] + scenes]
        shell = 'ip link set lo up && exec "$@"'
        again = ["unshare", "-n", "sh", "-c", shell, "sh", sys.executable, __file__, "--inside", *words]
        return subprocess.run(again, check=False).returncode
    base = Path(tempfile.mkdtemp(prefix="orion-play."))
    passed = failed = skipped = 0
    stage = Stage(base)
    try:
        stage.open()
        for kind in kinds:
            agent = kind(stage)
            try:
                stage.admit(agent)
            except Failed as error:
                print(f"{agent.name} {agent.version}: FAILED {error}", flush=True)
                failed += 1
                continue
            for scene in scenes:
                where = f"{agent.name} {agent.version} {scene}"
                if scene in agent.skip:
                    print(f"{where}: skipped, {agent.skip[scene]}", flush=True)
                    skipped += 1
                    continue
                runs = []

                def play(part, asks=False, name=scene, agent=agent, runs=runs):
                    runs.append(Play(stage, agent, name, part, asks))
                    return runs[-1]

                begin = time.monotonic()
                try:
                    said = SCENES[scene](play)
                    print(f"{where}: {said} [{time.monotonic() - begin:.0f} s]", flush=True)
                    passed += 1
                except (Failed, subprocess.TimeoutExpired, KeyError, ValueError, OSError) as error:
                    print(f"{where}: FAILED {type(error).__name__}: {error} [{time.monotonic() - begin:.0f} s]", flush=True)
                    for run in runs:
                        if run.there():
                            print(f"  {run.pane} is marked '{run.mark()}' and shows:", flush=True)
                            print("\n".join(f"  | {line}" for line in run.screen().splitlines() if line.strip()), flush=True)
                    failed += 1
                finally:
                    for run in runs:
                        run.end()
                    time.sleep(0.5)
                    for pid, start in stage.run_processes(agent):
                        if started(pid) == start:
                            os.kill(pid, signal.SIGKILL)
    finally:
        stage.close()
        if not failed:
            shutil.rmtree(base, ignore_errors=True)
        else:
            print(f"what was left: {base}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


sys.exit(main(sys.argv[1:]))
