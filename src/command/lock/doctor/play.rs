//! Played with real processes and this very program, from an empty environment as
//! under cron: overlap, kills, a job that outlives its wrapper, a waiter, slots, a pause, the precheck.

use super::Checks;
use super::around::{PATIENCE, ask, ourselves, sibling};
use super::machine::fail;
use super::scratch::Scratch;
use crate::os::call::CallAnswer;
use crate::os::process::{PidFd, wait_any};
use crate::report::escape;
use rustix::process::Signal;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const NAME: &str = "doctor";
const SHELL: &str = "/bin/sh";
/// Says that it runs, and ends with its stdin: with us, at the latest.
const HOLDER: &str = "echo up; read -r end";
/// A wrapper with a job that has the wrapper's stdin.
const WRAPPER: &str = "exec 3<&0; (read -r end <&3) & echo up; wait";
const BUG: &str = "please report it with 'orion-lock doctor --json'";
/// How long the waiter gets to settle before the owner is killed.
const SETTLE: Duration = Duration::from_millis(100);

pub(super) fn check(checks: &mut Checks, scratch: &Scratch) {
    let Some(program) = ourselves() else {
        checks.add("play", Err(fail("our own path is unknown", "is /proc mounted?")));
        return;
    };
    let stage = PlayStage { program, scratch: scratch.path() };
    // Each part leaves the lock free; one that could not even start says so and ends the rest.
    for part in [held, killed, orphaned, released, waited, slots, paused] {
        if let Err(why) = part(&stage, checks) {
            checks.add("play", Err(fail(&why, BUG)));
            return;
        }
    }
}

struct PlayStage<'a> {
    program: PathBuf,
    scratch: &'a Path,
}

impl PlayStage<'_> {
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().current_dir("/").arg("--dir").arg(self.scratch);
        command
    }

    /// `orion-lock --dir SCRATCH …` to its end.
    fn lock(&self, args: &[&str]) -> Result<CallAnswer, String> {
        ask(self.command(&self.program).args(args))
    }

    /// Takes the lock with a command that does nothing.
    fn take(&self, options: &[&str]) -> Result<CallAnswer, String> {
        self.lock(&[&["run"], options, &[NAME, SHELL, "-c", ":"]].concat())
    }

    /// `run` with a script that says a line when it runs.
    fn start(&self, options: &[&str], script: &str) -> Result<Player, String> {
        let mut command = self.command(&self.program);
        command.arg("run").args(options).args([NAME, SHELL, "-c", script]);
        Player::start(&mut command)
    }

    fn hold(&self) -> Result<Player, String> {
        let mut holder = self.start(&[], HOLDER)?;
        holder.line(PATIENCE)?;
        Ok(holder)
    }

    /// Adds a check on how a call ended.
    fn expect(
        &self,
        checks: &mut Checks,
        name: &str,
        answer: &CallAnswer,
        code: i32,
        detail: &str,
        advice: &str,
    ) -> bool {
        let finding = if answer.status.code() == Some(code) {
            Ok(detail.to_owned())
        } else {
            let said = escape(answer.stderr.trim_ascii(), 200);
            Err(fail(&format!("expected exit {code}, got {}: {said}", answer.status), advice))
        };
        checks.add(name, finding)
    }

    fn precheck(&self, checks: &mut Checks, name: &str, code: i32, detail: &str) -> Result<(), String> {
        let Some(precheck) = sibling("orion-precheck") else { return Ok(()) };
        let answer = ask(self.command(&precheck).arg(NAME))?;
        self.expect(checks, name, &answer, code, detail, "does it find the same directory?");
        Ok(())
    }
}

/// While a run holds it.
fn held(stage: &PlayStage<'_>, checks: &mut Checks) -> Result<(), String> {
    let holder = stage.hold()?;
    let second = stage.take(&[])?;
    stage.expect(checks, "overlap", &second, 75, "a second run is refused with 75", BUG);
    let named = String::from_utf8_lossy(&second.stderr).contains(&format!("pid {}", holder.pid()));
    checks.add(
        "refusal",
        if named {
            Ok("it names the holder".into())
        } else {
            Err(fail("the refusal does not name the holder's pid", BUG))
        },
    );
    let status = stage.lock(&["status", NAME])?;
    stage.expect(checks, "status", &status, 75, "status says that it is held", BUG);
    stage.precheck(checks, "precheck-skips", 75, "the precheck says skip")?;
    let begin = Instant::now();
    let late = stage.take(&["-w", "200ms"])?;
    let early = begin.elapsed() < Duration::from_millis(200);
    stage.expect(checks, "time-out", &late, 75, "a wait of 200ms ends with 75", BUG);
    if early {
        checks.add("time-out-early", Err(fail("it ended before its time", BUG)));
    }
    drop(holder);
    Ok(())
}

/// After kill -9 of the owner.
fn killed(stage: &PlayStage<'_>, checks: &mut Checks) -> Result<(), String> {
    let mut holder = stage.hold()?;
    holder.kill()?;
    stage.precheck(checks, "precheck-goes", 0, "after kill -9 of the owner the precheck says go")?;
    let next = stage.take(&[])?;
    stage.expect(checks, "kill", &next, 0, "after kill -9 of the owner the next run takes it", BUG);
    let status = stage.lock(&["run", NAME, SHELL, "-c", "exit 7"])?;
    stage.expect(checks, "exit-status", &status, 7, "a run ends with the command's own status", BUG);
    Ok(())
}

/// A wrapper killed, its job alive.
fn orphaned(stage: &PlayStage<'_>, checks: &mut Checks) -> Result<(), String> {
    let mut wrapper = stage.start(&[], WRAPPER)?;
    wrapper.line(PATIENCE)?;
    wrapper.kill()?;
    let second = stage.take(&[])?;
    let advice = "byte locks do not work here (see pulse): use another file system";
    stage.expect(
        checks,
        "orphan",
        &second,
        75,
        "a killed wrapper's job still holds the lock, while it lives",
        advice,
    );
    stage.precheck(checks, "orphan-precheck", 75, "the precheck says skip for it")?;
    // The job's stdin ends with ours.
    drop(wrapper);
    let next = stage.take(&["-w", "10s"])?;
    stage.expect(checks, "orphan-ends", &next, 0, "when the job has ended, a waiter takes it", BUG);
    Ok(())
}

/// Two slots: a third run is refused, and the slot of one that was killed is free at once.
fn slots(stage: &PlayStage<'_>, checks: &mut Checks) -> Result<(), String> {
    let two = ["--slots", "2"];
    let mut holders = Vec::new();
    for _ in 0..2 {
        let mut holder = stage.start(&two, HOLDER)?;
        holder.line(PATIENCE)?;
        holders.push(holder);
    }
    let third = stage.take(&two)?;
    stage.expect(checks, "slots", &third, 75, "two slots are held by two runs, a third is refused", BUG);
    holders[0].kill()?;
    let next = stage.lock(&["run", "--slots", "2", NAME, SHELL, "-c", "test \"$ORION_LOCK_SLOT\" = 1"])?;
    stage.expect(checks, "slot-freed", &next, 0, "after kill -9 of one its slot is taken by the next", BUG);
    drop(holders);
    let alone = stage.take(&["-w", "10s"])?;
    stage.expect(checks, "slots-end", &alone, 0, "when all have ended, a run has the name alone", BUG);
    Ok(())
}

/// A pause, and its end.
fn paused(stage: &PlayStage<'_>, checks: &mut Checks) -> Result<(), String> {
    let advice = "is the file system full?";
    let pause = stage.lock(&["pause", "--note", "doctor", NAME])?;
    if !stage.expect(checks, "pause", &pause, 0, "a lock can be paused", advice) {
        return Ok(());
    }
    let refused = stage.take(&[])?;
    stage.expect(checks, "paused", &refused, 75, "and no run begins", BUG);
    let resume = stage.lock(&["resume", NAME])?;
    stage.expect(checks, "resume", &resume, 0, "until it is resumed", BUG);
    let next = stage.take(&[])?;
    stage.expect(checks, "resumed", &next, 0, "then the next run takes it", BUG);
    Ok(())
}

/// A token, its use and its end.
fn released(stage: &PlayStage<'_>, checks: &mut Checks) -> Result<(), String> {
    let mut owner = Player::start(Command::new(SHELL).env_clear().args(["-c", HOLDER]))?;
    owner.line(PATIENCE)?;
    let pid = owner.pid().to_string();
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let answer = stage.lock(&["acquire", "--for", &pid, "--print-token", NAME])?;
        let text = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
        stage_token(&mut tokens, &text, &answer)?;
        let verify = stage.lock(&["verify", "--token", &text, NAME])?;
        let release = stage.lock(&["release", "--token", &text, NAME])?;
        if tokens.len() == 1 {
            stage.expect(checks, "verify", &verify, 0, "a token is its owner's while it is held", BUG);
            stage.expect(checks, "release", &release, 0, "and can be given back", BUG);
            let after = stage.lock(&["verify", "--token", &text, NAME])?;
            stage.expect(checks, "verify-after", &after, 77, "and is worth nothing afterwards", BUG);
        }
    }
    checks.add(
        "tokens",
        if tokens[1] > tokens[0] {
            Ok("they rise".into())
        } else {
            Err(fail(&format!("{} came after {}", tokens[1], tokens[0]), BUG))
        },
    );
    Ok(())
}

fn stage_token(tokens: &mut Vec<u64>, text: &str, answer: &CallAnswer) -> Result<(), String> {
    let said = || format!("acquire printed no token: {}", escape(answer.stderr.trim_ascii(), 200));
    tokens.push(text.parse().map_err(|_| said())?);
    Ok(())
}

/// A waiter gets it when its owner is killed.
fn waited(stage: &PlayStage<'_>, checks: &mut Checks) -> Result<(), String> {
    let mut holder = stage.hold()?;
    let mut waiter = stage.start(&["-w", "30s"], HOLDER)?;
    let early = waiter.line(SETTLE).is_ok();
    let begin = Instant::now();
    holder.kill()?;
    let got = if early { Ok(()) } else { waiter.line(PATIENCE) };
    let took = begin.elapsed();
    checks.add(
        "wait",
        match got {
            Ok(()) if early => Err(fail("it did not wait", BUG)),
            Ok(()) => {
                Ok(format!("a waiter runs {:.1}ms after kill -9 of the owner", took.as_secs_f64() * 1000.0))
            }
            Err(why) => Err(fail(&format!("the waiter did not get it: {why}"), BUG)),
        },
    );
    drop(waiter);
    let log = stage.lock(&["log", NAME])?;
    let text = String::from_utf8_lossy(&log.stdout).into_owned();
    checks.add(
        "log",
        if ["acquired", "refused", "ended", "released"].iter().all(|word| text.contains(word)) {
            Ok("it tells what happened".into())
        } else {
            Err(fail("it misses what happened", BUG))
        },
    );
    Ok(())
}

/// A process of the play. It reads from us, so it ends when we do; killed and collected at the end.
struct Player {
    child: Child,
    fd: PidFd,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
}

impl Player {
    fn start(command: &mut Command) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("a process cannot be started: {error}");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(failed)?;
        let fd = PidFd::open(child.id()).map_err(|errno| failed(errno.into()))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        Ok(Self { child, fd, stdin, stdout })
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its line.
    fn line(&mut self, patience: Duration) -> Result<(), String> {
        let end = Instant::now() + patience;
        let stdout = self.stdout.as_mut().ok_or("it has no stdout")?;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let ready = wait_any(&[stdout.as_fd()], Some(left)).map_err(|error| error.to_string())?;
            if ready.is_empty() {
                return Err(format!("nothing happened within {}ms", patience.as_millis()));
            }
            let mut byte = [0];
            match stdout.read(&mut byte).map_err(|error| error.to_string())? {
                0 => return Err("it ended before it ran".into()),
                _ if byte[0] == b'\n' => return Ok(()),
                _ => {}
            }
        }
    }

    /// kill -9, and wait until it is gone.
    fn kill(&mut self) -> Result<(), String> {
        self.fd.signal(Signal::KILL).map_err(|error| format!("kill: {error}"))?;
        match self.fd.wait(Some(PATIENCE)) {
            Ok(true) => {
                self.child.wait().map_err(|error| error.to_string())?;
                Ok(())
            }
            _ => Err("a killed process did not end".into()),
        }
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // Already gone is as good.
        self.fd.signal(Signal::KILL).unwrap_or_default();
        self.child.wait().map(drop).unwrap_or_default();
    }
}
