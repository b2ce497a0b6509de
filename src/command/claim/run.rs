//! `run`: claim a ticket, run the command as its owner beside us, hand the ticket
//! over by the exit status.

use super::acquire::say_what_was_interrupted;
use super::hand_over::{Handed, hand_over};
use super::heartbeat::Heartbeat;
use super::win::{ClaimRequest, Won, claim};
use super::{ClaimCall, Claims, shim, stage};
use crate::cli::claim::{ClaimRun, SHIM, Success};
use crate::command::exec;
use crate::env;
use crate::error::{Error, Kind, reason};
use crate::exit::{Exit, Status};
use crate::model::claim::{Attrs, Goal};
use crate::model::name::LockName;
use crate::model::record::VIA_RUN;
use crate::model::ticket::Key;
use crate::os::mask::SignalMask;
use crate::os::proc;
use crate::os::process::{self, PidFd, wait_any};
use crate::os::signals::{self, FORWARDED, SignalQueue};
use crate::os::start_barrier::{ShimAnswer, StartBarrier};
use crate::report::escape;
use crate::verdict::ownership::Credential;
use nix::sys::signal::Signal;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

pub(super) fn run(call: ClaimCall, args: ClaimRun) -> Result<Status, Error> {
    exec::check(&args.command, "orion-claim run KEY CMD [ARG...]")?;
    let stage = args.stage.as_deref().map(|text| stage::name(text.as_ref())).transpose()?;
    if let Some(status) = shim::unusable(&call.report, &args.command) {
        return Ok(status);
    }
    let claims = call.claims()?;
    let (key, name) = claims.key(&args.key)?;
    let heart = call.store(&claims.settings.address)?;
    let system = |error: io::Error| Error::new(Kind::System, format!("signals: {}", reason(&error)));
    signals::hear_of_children().map_err(system)?;
    // What was blocked from the start is blocked again here, and given back to the command.
    let ClaimCall { shared, report, file_size } = call;
    drop(file_size);
    let mask = SignalMask::block(FORWARDED.into_iter().chain([Signal::SIGXFSZ])).map_err(system)?;
    let queue = SignalQueue::new(FORWARDED).map_err(system)?;
    let me = claims.store.me()?;
    let wish = ClaimRequest {
        key: &key,
        name: &name,
        owners: vec![me.clone()],
        via: VIA_RUN,
        work: &args.work,
        pulse: true,
        stage: stage.as_deref(),
    };
    let mut won = claim(&claims, &wish)?;
    say_what_was_interrupted(&claims, &key, &won);
    let right = Credential::Token(won.token);
    if let Some(signal) = ending(&queue) {
        hand_over(&claims, &key, &name, &right, Goal::Queue)?;
        report.say(&format!("{key}: {} while it was claimed; back in the queue", signal.as_str()));
        return Ok(Status::chosen(128 + signal as u8));
    }
    let heart = Heartbeat::start(heart, name.clone(), won.token, claims.settings.tick_every, report)?;
    let started = start(&claims, &shared, &args, &key, &name, &mut won, me, mask);
    let ended = started.map(|mut run| {
        let (status, told) = supervise(&mut run, &queue, args.kill_after);
        (run.gate.answer(), status, told)
    });
    heart.stop();
    let (status, told) = match ended {
        Ok((ShimAnswer::Closed, status, told)) => (status, told),
        // Nothing ran: the next one may have more luck with it.
        Ok((ShimAnswer::Failed(error), ..)) => {
            hand_over(&claims, &key, &name, &right, Goal::Queue)?;
            return Ok(exec::cannot_run(&report, &args.command, &error));
        }
        Err(error) => {
            hand_over(&claims, &key, &name, &right, Goal::Queue)?;
            return Err(error);
        }
    };
    say_who_stays(&claims, &key, &name, won.token);
    let success = match args.on_success {
        Some(Success::Ready) => Goal::Ready,
        Some(Success::CiWait) => Goal::CiWait,
        None => claims.settings.on_success,
    };
    finish(&claims, &key, &name, &right, Status::of_child(status), goal(status, told, success))
}

/// The command, named in the record before it runs.
#[expect(clippy::too_many_arguments, reason = "one step of run, with all of its facts")]
fn start(
    claims: &Claims,
    shared: &crate::cli::claim::ClaimShared,
    args: &ClaimRun,
    key: &Key,
    name: &LockName,
    won: &mut Won,
    me: crate::model::identity::ProcessIdentity,
    mask: SignalMask,
) -> Result<Started, Error> {
    if let Some(pulse) = &won.pulse {
        pulse
            .inherit()
            .map_err(|error| Error::new(Kind::System, format!("{key}: pulse: {}", reason(&error))))?;
    }
    let failed =
        |error: io::Error| Error::new(Kind::System, format!("{key}: nothing was run: {}", reason(&error)));
    let exports = exports(claims, shared, key, won.token, &won.attrs);
    let (child, mut gate) =
        crate::command::shim::start(("orion-claim", SHIM), &args.command, exports, mask).map_err(failed)?;
    // The child carries it; our own end is told by the record.
    drop(won.pulse.take());
    let fd = PidFd::open(child.id()).map_err(|errno| failed(errno.into()))?;
    let mut owner = process::identify(child.id()).map_err(failed)?;
    owner.comm = exec::comm_of(&args.command);
    if !claims.store.add_owner(name, won.token, &[me, owner])? {
        let message = format!("{key}: the claim was taken away before the command ran");
        return Err(Error::new(Kind::NotOwner, message));
    }
    // One that has ended is seen as such.
    drop(gate.open());
    Ok(Started { child, fd, gate })
}

/// What the command finds in its environment.
fn exports(
    claims: &Claims,
    shared: &crate::cli::claim::ClaimShared,
    key: &Key,
    token: u64,
    attrs: &Attrs,
) -> Vec<(&'static str, OsString)> {
    let resume = attrs.resume.clone().unwrap_or_default();
    let mut exports: Vec<(&'static str, OsString)> = vec![
        (env::name::TICKET, key.as_str().into()),
        (env::name::CLAIM_TOKEN, token.to_string().into()),
        (env::name::TRACKER, claims.settings.tracker_text().into()),
    ];
    let branch = attrs.branch.clone().or(resume.branch);
    exports.extend(branch.map(|branch| (env::name::CLAIM_BRANCH, branch.into())));
    let worktree = attrs.worktree.clone().or(resume.worktree);
    exports.extend(worktree.map(|worktree| (env::name::CLAIM_WORKTREE, worktree.into())));
    if let Some(dir) = &shared.dir {
        exports.push((env::name::DIR, std::path::absolute(dir).unwrap_or_else(|_| dir.clone()).into()));
    }
    if let Some(config) = &shared.config {
        let config = std::path::absolute(config).unwrap_or_else(|_| config.clone());
        exports.push((env::name::CLAIM_CONFIG, config.into()));
    }
    if let Some(arbiter) = &shared.arbiter {
        exports.push((env::name::ARBITER, arbiter.into()));
    }
    if claims.settings.single_machine {
        exports.push((env::name::SINGLE_MACHINE, "true".into()));
    }
    exports
}

/// A signal that came while there was no command yet.
fn ending(queue: &SignalQueue) -> Option<Signal> {
    while let Ok(Some(caught)) = queue.next() {
        if !matches!(caught.signal, Signal::SIGUSR1 | Signal::SIGUSR2) {
            return Some(caught.signal);
        }
    }
    None
}

/// The command under our eyes.
struct Started {
    child: Child,
    fd: PidFd,
    gate: StartBarrier,
}

/// Passes signals on until the command has ended. Gives its status, and the first
/// signal by which somebody wanted it to end. Whatever fails here, the command is waited for.
fn supervise(
    run: &mut Started,
    queue: &SignalQueue,
    kill_after: Option<Duration>,
) -> (ExitStatus, Option<Signal>) {
    let mut told = None;
    let mut kill_at: Option<Instant> = None;
    loop {
        let left = kill_at.map(|at| at.saturating_duration_since(Instant::now()));
        if wait_any(&[run.fd.as_fd(), queue.as_fd()], left).is_err() {
            // Out of memory, say: the command lives on, and so do we.
            std::thread::sleep(Duration::from_millis(50));
        }
        while let Ok(Some(caught)) = queue.next() {
            // A terminal's signal went to the command as well.
            if !caught.from_terminal
                && let Some(signal) = rustix::process::Signal::from_named_raw(caught.signal as i32)
            {
                drop(run.fd.signal(signal));
            }
            if !matches!(caught.signal, Signal::SIGUSR1 | Signal::SIGUSR2) {
                told.get_or_insert(caught.signal);
                kill_at = kill_at.or_else(|| kill_after.map(|after| Instant::now() + after));
            }
        }
        if kill_at.is_some_and(|at| at <= Instant::now()) {
            drop(run.fd.signal(rustix::process::Signal::KILL));
            kill_at = None;
        }
        if let Ok(Some(status)) = run.child.try_wait() {
            return (status, told);
        }
    }
}

/// Where the exit status leads. A run that the system ended (TERM, HUP) did not fail.
fn goal(status: ExitStatus, told: Option<Signal>, success: Goal) -> Goal {
    match status.code() {
        Some(0) => success,
        Some(code) if u8::try_from(code) == Ok(Exit::Skip.code()) => Goal::Queue,
        _ if matches!(told, Some(Signal::SIGTERM | Signal::SIGHUP)) => Goal::Queue,
        _ => Goal::Failed,
    }
}

/// What the command started and left behind still carries the pulse.
fn say_who_stays(claims: &Claims, key: &Key, name: &LockName, token: u64) {
    let stay = claims.store.carriers(name, Some(token)).pids;
    let shown = stay.iter().take(5).map(|pid| {
        let comm = proc::stat(*pid).map_or_else(|_| "?".into(), |stat| escape(stat.comm.as_bytes(), 40));
        format!("{pid} ({comm})")
    });
    let shown: Vec<String> = shown.collect();
    if !shown.is_empty() {
        claims.report.warn(&format!("{key}: the command ended; still there: {}", shown.join(", ")));
    }
}

/// Hands over and passes the command's status on, unless that would hide that the
/// ticket is not where a success belongs.
fn finish(
    claims: &Claims,
    key: &Key,
    name: &LockName,
    right: &Credential,
    status: Status,
    goal: Goal,
) -> Result<Status, Error> {
    let error = match hand_over(claims, key, name, right, goal) {
        Ok(Handed::Done | Handed::Before) => {
            claims.report.note(&format!("{key}: {}", goal.as_str()));
            return Ok(status);
        }
        Ok(Handed::NotOurs(why)) => Error::new(
            Kind::NotOwner,
            format!("{key} is not ours any more, and nothing was written to it: {why}"),
        ),
        Err(error) => error,
    };
    if status == Exit::Ok.into() {
        return Err(error);
    }
    claims.report.warn(&error.to_string());
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn the_exit_status_says_where_a_ticket_goes() {
        let to = |raw: i32, told| goal(ExitStatus::from_raw(raw), told, Goal::CiWait);
        assert_eq!(to(0, None), Goal::CiWait);
        assert_eq!(to(75 << 8, None), Goal::Queue);
        assert_eq!(to(1 << 8, None), Goal::Failed);
        assert_eq!(to(9, None), Goal::Failed, "killed by somebody else");
        assert_eq!(to(15, Some(Signal::SIGTERM)), Goal::Queue, "ended by the system");
        assert_eq!(to(1 << 8, Some(Signal::SIGHUP)), Goal::Queue);
        assert_eq!(to(0, Some(Signal::SIGTERM)), Goal::CiWait, "it was through all the same");
        assert_eq!(to(2, Some(Signal::SIGINT)), Goal::Failed, "a person stopped it");
    }
}
