//! `run`: claim a ticket, run the command as its owner beside us, hand the ticket
//! over by the exit status.

use super::acquire::say_what_was_interrupted;
use super::hand_over::{self, Decided, Handed, almost, carry_out, hand_over};
use super::heartbeat::Heartbeat;
use super::output::{self, KeptOutput};
use super::supervise::{SeenRun, Supervised};
use super::win::{self, ClaimRequest, Won, claim};
use super::{ClaimCall, Claims, deaths, shim, stage};
use crate::cli::claim::{ClaimShared, SHIM};
use crate::cli::claim_run::{ClaimHow, ClaimRun, Success};
use crate::command::exec;
use crate::command::records::PulsePolicy;
use crate::env;
use crate::error::{Error, Kind, reason};
use crate::exit::{Exit, Status};
use crate::model::claim::{Attrs, CommandResult, Goal, Handing};
use crate::model::identity::ProcessIdentity;
use crate::model::name::LockName;
use crate::model::record::VIA_RUN;
use crate::model::ticket::Key;
use crate::os::mask::SignalMask;
use crate::os::process::{self, PidFd};
use crate::os::signals::{self, SignalQueue};
use crate::os::start_barrier::ShimAnswer;
use crate::os::{clock, tree};
use crate::verdict::limits::Limits;
use crate::verdict::ownership::Credential;
use crate::verdict::reconcile::DEATHS;
use crate::verdict::run_end::{Destination, Told, destination};
use nix::sys::signal::Signal;
use std::ffi::OsString;
use std::io;
use std::time::Duration;

pub(super) fn run(call: ClaimCall, args: ClaimRun) -> Result<Status, Error> {
    exec::check(&args.command, "orion-claim run KEY CMD [ARG...]")?;
    let stage = args.how.stage.as_deref().map(|text| stage::name(text.as_ref())).transpose()?;
    if let Some(status) = shim::unusable(&call.report, &args.command) {
        return Ok(status);
    }
    let claims = call.claims()?;
    let (key, name) = claims.key(&args.key)?;
    args.how.check(&claims)?;
    if let Some(rows) = claims.rows.as_ref().filter(|rows| rows.own(&key).is_none()) {
        if args.how.owner_only {
            return Err(Error::usage("--owner-only does not go with a database as arbiter")
                .hint("leave it out: the ticket is held until everything has ended"));
        }
        let wanted = ClaimRequest {
            key: &key,
            name: &name,
            owners: vec![claims.store.me()?],
            via: VIA_RUN,
            work: &args.work,
            pulse: PulsePolicy::Nobody,
            stage: None,
        };
        win::queued(&claims, &wanted)?;
        let above = super::rows::last_token(&claims, &key);
        return Err(rows.become_run(&call.shared, &key, above));
    }
    exec::needs_pidfds(&key.to_string())?;
    let heart = call.store(&claims.settings.address)?;
    let system = |error: io::Error| Error::new(Kind::System, format!("signals: {}", reason(&error)));
    signals::hear_of_children().map_err(system)?;
    // What was blocked from the start is blocked again here, and given back to the command.
    let ClaimCall { shared, report, file_size } = call;
    drop(file_size);
    let mask = SignalMask::block(signals::of_supervisor().chain([Signal::SIGXFSZ])).map_err(system)?;
    let queue = SignalQueue::new(signals::of_supervisor()).map_err(system)?;
    let me = claims.store.me()?;
    let wanted = ClaimRequest {
        key: &key,
        name: &name,
        owners: vec![me.clone()],
        via: VIA_RUN,
        work: &args.work,
        pulse: if args.how.owner_only { PulsePolicy::Nobody } else { PulsePolicy::Us },
        stage: stage.as_deref(),
    };
    let mut won = claim(&claims, &wanted)?;
    say_what_was_interrupted(&claims, &key, &won);
    let token = Credential::Token(won.token);
    let back = || hand_over(&claims, &key, &name, &token, Goal::Queue);
    if let Some(signal) = ending(&queue) {
        back()?;
        report.notice(&format!("{key}: {} while it was claimed; back in the queue", signal.as_str()));
        return Ok(Status::chosen(128 + signal as u8));
    }
    let kept = args.how.keep_output.as_deref().map(|dir| KeptOutput::open(dir, &key, won.token));
    let kept = match kept.transpose() {
        Ok(kept) => kept,
        Err(error) => {
            back()?;
            return Err(error);
        }
    };
    let heart = Heartbeat::start(heart, name.clone(), won.token, claims.settings.tick_every, report)?;
    let ticket = RunTicket {
        claims: &claims,
        key: &key,
        name: &name,
        token: won.token,
        how: &args.how,
        kept,
        every: args.every.unwrap_or(claims.settings.watch_every),
    };
    let ended = start(&ticket, &shared, &args, &mut won, me, mask, &queue).and_then(|mut run| {
        let seen = run.until_the_command_ends();
        if let ShimAnswer::Failed(error) = run.barrier.answer() {
            return Ok(Err(error));
        }
        // Where it goes stands in the record before anything is waited for.
        let result = ticket.result(&seen);
        let decided = ticket.decide(&seen, &result, success(&claims, args.how.on_success))?;
        run.until_the_tree_ends(seen.status);
        Ok(Ok((seen, result, decided)))
    });
    heart.stop();
    match ended {
        Ok(Ok((seen, result, decided))) => {
            if let Some(kept) = &ticket.kept {
                kept.cut(&report);
            }
            ticket.finish(Status::of_child(seen.status), &result, decided)
        }
        // Nothing ran: the next one may have more luck with it.
        Ok(Err(error)) => {
            back()?;
            Ok(exec::cannot_run(&report, &args.command, &error))
        }
        Err(error) => {
            back()?;
            Err(error)
        }
    }
}

/// Where status 0 leads.
fn success(claims: &Claims, asked: Option<Success>) -> Goal {
    match asked {
        Some(Success::Ready) => Goal::Ready,
        Some(Success::CiWait) => Goal::CiWait,
        None => claims.settings.on_success,
    }
}

/// The ticket of a run.
struct RunTicket<'a> {
    claims: &'a Claims,
    key: &'a Key,
    name: &'a LockName,
    token: u64,
    how: &'a ClaimHow,
    kept: Option<KeptOutput>,
    /// The pause of a ticket that is given back begins with this.
    every: Duration,
}

/// The command, named in the record before it runs.
fn start<'a>(
    ticket: &RunTicket<'a>,
    shared: &ClaimShared,
    args: &ClaimRun,
    won: &mut Won,
    me: ProcessIdentity,
    mask: SignalMask,
    queue: &'a SignalQueue,
) -> Result<Supervised<'a>, Error> {
    let RunTicket { claims, key, name, token, .. } = *ticket;
    if let Some(pulse) = &won.pulse {
        pulse
            .inherit()
            .map_err(|error| Error::new(Kind::System, format!("{key}: pulse: {}", reason(&error))))?;
    }
    let failed =
        |error: io::Error| Error::new(Kind::System, format!("{key}: nothing was run: {}", reason(&error)));
    if !args.how.owner_only {
        // Whatever the command leaves behind stays below us.
        tree::adopt_orphans().map_err(failed)?;
    }
    let exports = exports(claims, shared, key, token, &won.attrs);
    let stderr = ticket.kept.as_ref().map(KeptOutput::stderr).transpose().map_err(failed)?;
    let words = &args.command;
    let (child, mut barrier) =
        crate::command::shim::start(("orion-claim", SHIM), words, exports, mask, stderr).map_err(failed)?;
    // Not reaped by anybody but us, so that the number stays the child's.
    let child = child.id();
    // The child carries it; our own end is told by the record.
    drop(won.pulse.take());
    let command = PidFd::open(child).map_err(|errno| failed(errno.into()))?;
    let mut owner = process::identify(child).map_err(failed)?;
    owner.comm = exec::comm_of(&args.command);
    if !claims.store.add_owner(name, token, &[me, owner])? {
        let message = format!("{key}: the claim was taken away before the command ran");
        return Err(Error::new(Kind::NotOwner, message));
    }
    // One that has ended is seen as such.
    drop(barrier.open());
    let limits = Limits { max_run: args.how.max_run, kill_after: args.kill_after };
    Ok(Supervised::new(claims, key, name, token, queue, command, barrier, limits, args.how.owner_only))
}

/// What the command finds in its environment.
fn exports(
    claims: &Claims,
    shared: &ClaimShared,
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
    if claims.rows.is_some() {
        // Of this run, and of nobody below it.
        exports.push((env::name::CLAIM_ROW, OsString::new()));
    }
    if claims.settings.single_machine {
        exports.push((env::name::SINGLE_MACHINE, "true".into()));
    }
    exports
}

/// A signal that came while there was no command yet.
fn ending(queue: &SignalQueue) -> Option<Signal> {
    while let Ok(Some(caught)) = queue.next() {
        if !matches!(caught.signal, Signal::SIGUSR1 | Signal::SIGUSR2 | Signal::SIGCHLD) {
            return Some(caught.signal);
        }
    }
    None
}

impl RunTicket<'_> {
    /// What is known of the command, for the record.
    fn result(&self, seen: &SeenRun) -> CommandResult {
        CommandResult {
            status: Status::of_child(seen.status).code(),
            signal: seen.end().died_of().filter(|_| seen.told == Told::Nothing),
            ran_ms: u64::try_from(seen.ran.as_millis()).unwrap_or(u64::MAX),
            at: clock::wall().rfc3339(),
            stderr: self.kept.as_ref().map(KeptOutput::path),
        }
    }

    /// The decision, from how the command ended. `None`: the claim was given back before.
    fn decide(
        &self,
        seen: &SeenRun,
        result: &CommandResult,
        success: Goal,
    ) -> Result<Option<Decided>, Error> {
        let Self { claims, key, name, token, .. } = *self;
        let handing = match destination(seen.end(), seen.told, success) {
            Destination::To(goal) => hand_over::now(goal),
            Destination::Died(signal) => {
                let deaths = match claims.store.look(name).record() {
                    Some(record) if record.token == token && record.released_at.is_none() => {
                        deaths::count(claims, name, record, &super::attrs(record), Vec::new())?
                    }
                    _ => return Ok(None),
                };
                let to = if deaths >= DEATHS { Goal::Failed } else { Goal::Queue };
                claims.report.warning(&format!(
                    "{key}: its command was killed by signal {signal} ({}), not by us; death {deaths} of {DEATHS}: {}",
                    signals::name(signal),
                    if to == Goal::Failed { "failed" } else { "back in the queue" },
                ));
                Handing { died: true, ..hand_over::now(to) }
            }
        };
        let said_skip = seen.told == Told::Nothing && result.status == Exit::Skip.code();
        let pause_from = said_skip.then_some(self.every);
        hand_over::decide(claims, name, &Credential::Token(token), &handing, Some(result), pause_from)
    }

    /// Hands over and passes the command's status on, unless that would hide that the
    /// ticket is not where a success belongs.
    fn finish(
        &self,
        status: Status,
        result: &CommandResult,
        decided: Option<Decided>,
    ) -> Result<Status, Error> {
        let Self { claims, key, name, .. } = *self;
        let Some(decided) = decided else {
            claims.report.detail(&format!("{key}: given back before"));
            return Ok(status);
        };
        if self.how.comment {
            output::comment(claims, key, &decided.attrs, result, self.token);
        }
        let error = match carry_out(claims, key, name, &decided) {
            Ok(Handed::Done(goal)) => {
                claims.report.detail(&format!("{key}: {}", goal.as_str()));
                return Ok(status);
            }
            Ok(Handed::Almost(goal, why)) => {
                claims.report.warning(&almost(key, goal, &why));
                return Ok(status);
            }
            Ok(Handed::Before) => return Ok(status),
            Ok(Handed::NotOurs(why)) => Error::new(
                Kind::NotOwner,
                format!("{key} is not ours any more, and nothing was written to it: {why}"),
            ),
            Err(error) => error,
        };
        if status == Exit::Ok.into() {
            return Err(error);
        }
        claims.report.warning(&error.to_string());
        Ok(status)
    }
}
