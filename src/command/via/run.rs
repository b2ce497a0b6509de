//! `run`: this machine's lock first, then the database's, then the command under a guardian.

use super::claim::{ClaimResult, Claimant, Claimed};
use super::claim_end::ClaimEnd;
use super::keeper::holder_json;
use super::start::Start;
use super::supervise::supervise;
use super::{ViaCall, host_records, refusal};
use crate::cli::lock::LockRun;
use crate::cli::lock_control::TreeLimits;
use crate::cli::shared::{FlockWords, Patience, Wait};
use crate::cli::via::{Grace, ViaRunOptions};
use crate::command::exec;
use crate::command::exec::comm_of;
use crate::command::lock::status_file::StatusFile;
use crate::command::lock::wait::{TakeResult, take};
use crate::command::records::{AcquireRequest, PulsePolicy};
use crate::command::typed::busy_code;
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::model::entry::EntryMode;
use crate::model::last_run::RepeatTerms;
use crate::model::record::{SUPERVISOR, VIA_RUN};
use crate::model::via::ViaHolder;
use crate::os::mask::Blocked;
use crate::os::random;
use crate::verdict::limits::Limits;
use crate::verdict::ownership::Credential;
use crate::verdict::via::{FROZEN, GRACE, ViaTimes};
use crate::via::engine::ViaRequest;
use serde_json::{Map, json};
use std::time::Duration;

/// Stays until the run is over.
pub(super) fn run(call: &ViaCall, args: LockRun, file_size: Blocked) -> Result<Status, Error> {
    // Every option by name: one that is new must be built or refused here before this compiles.
    let LockRun {
        entry,
        again,
        flock: FlockWords { exclusive: _, no_fork },
        line,
        wait,
        busy,
        limits: TreeLimits { tree: _, max_run, kill_after },
        replace,
        owner_only,
        reentrant,
        status_file,
        note,
        via,
        name,
        command,
    } = args;
    if owner_only {
        return Err(super::not_across("--owner-only")
            .hint("leave it out: the lock is held until everything has ended"));
    }
    if no_fork {
        return Err(super::not_across("-F").hint("leave it out: somebody stays beside the command"));
    }
    if reentrant {
        return Err(super::not_across("--reentrant").hint("call the inner command without a lock"));
    }
    if replace {
        return Err(super::not_across("--replace")
            .hint(format!("orion-lock --via {} stop --token N NAME, then run", call.place.shown)));
    }
    let name = crate::command::typed::name(&name)?;
    let busy = busy_code(busy.busy_code, None)?;
    if entry.mode() != EntryMode::Exclusive {
        return Err(
            super::not_across("--slots and --shared").hint("leave them out: one run at a time holds it")
        );
    }
    if line.max_waiting.is_some() {
        return Err(super::not_across("--max-waiting").hint("leave it out"));
    }
    let command = exec::words(command, "orion-lock --via WHERE run NAME CMD [ARG...]")?;
    let times = times(&via)?;
    let status_file = StatusFile::open(status_file.as_deref())?;
    let records = call.records()?;
    let (end, given) = (claim_end(&wait), wait.wait.is_some() || wait.nonblock);
    let end = ClaimEnd::new(end, given);
    let nonce = random::id().map_err(|error| Error::io("/dev/urandom", &error))?;
    let mut ended = host_records::ended(&records.look(&name));
    let mut me = records.me()?;
    me.comm = comm_of(&command);
    let mut attrs = Map::new();
    attrs.insert("via".into(), json!(VIA_RUN));
    attrs.insert(SUPERVISOR.into(), json!(me.pid));
    attrs.insert(host_records::NONCE.into(), json!(nonce));
    if let Some(before) = ended.first() {
        attrs.insert(host_records::AFTER.into(), json!(before));
    }
    let holder = ViaHolder {
        host: crate::os::host::hostname(),
        machine_id: crate::os::host::identity().machine_id,
        pid: me.pid,
        comm: me.comm.clone(),
        uid: me.uid,
        note: note.clone(),
    };
    let request = AcquireRequest {
        mode: EntryMode::Exclusive,
        repeat: RepeatTerms::default(),
        owners: vec![me],
        note,
        attrs,
        pulse: PulsePolicy::Us,
    };
    let acquired = match take(&call.report, &records, &name, &request, (&wait, line))? {
        TakeResult::Yes(acquired) => acquired,
        TakeResult::No(refused) => {
            return Ok(refusal::by_this_machine(call, &records, &name, &refused, busy, &status_file));
        }
        TakeResult::Skip(error) => {
            call.report.error(&error, true);
            return Ok(busy);
        }
    };
    for line in &acquired.said {
        call.report.warning(line);
    }
    ended.extend(
        acquired
            .reclaimed
            .as_ref()
            .and_then(|it| Some(it.attrs.get(host_records::NONCE)?.as_str()?.to_owned())),
    );
    let local = acquired.record.token;
    let asked = again.terms();
    let wish = ViaRequest {
        name: call.place.row_name(name.as_str()),
        nonce,
        grace_ms: times.grace.map(millis),
        holder: holder_json(&holder),
        once_ok: asked.needs_status(),
        once: asked.once.map(|once| once.key),
        cooldown_ms: asked.cooldown.map(millis),
        floor: via.floor,
    };
    let ended_here = |nonce: &str| ended.iter().any(|it| it == nonce);
    let claimant =
        Claimant { report: &call.report, place: &call.place, wish: &wish, end, ended_here: &ended_here };
    let claimed = match claimant.claim() {
        Ok(ClaimResult::Got(claimed)) => claimed,
        Ok(ClaimResult::Refused(error, token)) => {
            records.release(&name, &Credential::Token(local))?;
            let exit = Exit::from(error.kind());
            call.report.error(&error, exit == Exit::Skip);
            status_file.fact(
                "refused",
                name.as_str(),
                &json!({"kind": error.kind().as_str(), "token": token}),
            );
            return Ok(if exit == Exit::Skip { busy } else { exit.into() });
        }
        Err(error) => {
            records.release(&name, &Credential::Token(local))?;
            status_file.fact(
                "refused",
                name.as_str(),
                &json!({"kind": error.kind().as_str(), "token": null}),
            );
            return Err(error);
        }
    };
    let Claimed { session, id, token, sent_us, over } = *claimed;
    if let Some(over) = over {
        call.report.notice(&format!("{name}: taken over from the run with token {over}"));
    }
    supervise(Start {
        call,
        file_size: Some(file_size),
        records: &records,
        name: &name,
        acquired: *acquired,
        words: &command,
        status_file: &status_file,
        limits: Limits { max_run, kill_after },
        wish,
        times,
        session,
        id,
        token,
        sent_us,
    })
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn times(via: &ViaRunOptions) -> Result<ViaTimes, Error> {
    let grace = match via.grace {
        None => Some(GRACE),
        Some(Grace::For(grace)) => Some(grace),
        Some(Grace::Never) => None,
    };
    ViaTimes::of(grace, via.fence, via.frozen.unwrap_or(FROZEN))
        .map_err(|why| Error::usage(why).hint("see TIMES in man orion-via"))
}

/// How long to wait for the database's lock; `None`: for ever.
pub(super) fn claim_end(wait: &Wait) -> Option<Duration> {
    match wait.wait {
        None => Some(Duration::ZERO),
        Some(Patience::For(time)) => Some(time),
        Some(Patience::Forever) => None,
    }
}
