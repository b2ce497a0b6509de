//! `hold`: keep a lock of many machines by hand until Ctrl-C. Nothing is run, so nothing is fenced.

use super::claim::{ClaimResult, Claimant, Claimed};
use super::claim_end::ClaimEnd;
use super::keeper::{Hold, Keeper, KeeperNews, holder_json};
use super::run::claim_end;
use super::{ViaCall, host_records, refusal};
use crate::cli::lock_control::LockHold;
use crate::command::lock::status_file::StatusFile;
use crate::command::lock::wait::{TakeResult, take};
use crate::command::records::{AcquireRequest, PulsePolicy};
use crate::command::typed::{NOT_ACQUIRED, busy_code};
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::model::entry::EntryMode;
use crate::model::last_run::RepeatTerms;
use crate::model::record::VIA_HOLD;
use crate::model::via::ViaHolder;
use crate::os::mask::SignalMask;
use crate::os::process::wait_any;
use crate::os::signals::{ENDING, SignalQueue};
use crate::os::{host, random};
use crate::verdict::ownership::Credential;
use crate::verdict::via::{FROZEN, GRACE, ViaTimes};
use crate::via::engine::ViaRequest;
use serde_json::{Map, json};
use std::os::fd::AsFd;

pub(super) fn hold(call: &ViaCall, args: LockHold) -> Result<Status, Error> {
    let LockHold { line, wait, busy, note, name } = args;
    if line.max_waiting.is_some() {
        return Err(super::not_across("--max-waiting").hint("leave it out"));
    }
    let name = crate::command::typed::name(&name)?;
    let busy = busy_code(busy.busy_code, Some(NOT_ACQUIRED))?;
    let records = call.records()?;
    let end = ClaimEnd::new(claim_end(&wait), wait.wait.is_some() || wait.nonblock);
    let nonce = random::id().map_err(|error| Error::io("/dev/urandom", &error))?;
    let mut ended = host_records::ended(&records.look(&name));
    let me = records.me()?;
    let mut attrs = Map::new();
    attrs.insert("via".into(), json!(VIA_HOLD));
    attrs.insert(host_records::NONCE.into(), json!(nonce));
    if let Some(before) = ended.first() {
        attrs.insert(host_records::AFTER.into(), json!(before));
    }
    let holder = ViaHolder {
        host: host::hostname(),
        machine_id: host::identity().machine_id,
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
        pulse: PulsePolicy::Nobody,
    };
    let acquired = match take(&call.report, &records, &name, &request, (&wait, line))? {
        TakeResult::Yes(acquired) => acquired,
        TakeResult::No(refused) => {
            let none = StatusFile::open(None)?;
            return Ok(refusal::by_this_machine(call, &records, &name, &refused, busy, &none));
        }
        TakeResult::Skip(error) => {
            call.report.error(&error, true);
            return Ok(busy);
        }
    };
    ended.extend(
        acquired
            .reclaimed
            .as_ref()
            .and_then(|it| Some(it.attrs.get(host_records::NONCE)?.as_str()?.to_owned())),
    );
    let credential = Credential::Token(acquired.record.token);
    let times = ViaTimes::of(Some(GRACE), None, FROZEN).map_err(|why| Error::new(Kind::Bug, why))?;
    let wish = ViaRequest {
        name: name.as_str().to_owned(),
        nonce,
        grace_ms: times.grace.and_then(|grace| u64::try_from(grace.as_millis()).ok()),
        holder: holder_json(&holder),
        once: None,
        once_ok: false,
        cooldown_ms: None,
        floor: None,
    };
    let ended_here = |nonce: &str| ended.iter().any(|it| it == nonce);
    let claimant =
        Claimant { report: &call.report, place: &call.place, wish: &wish, end, ended_here: &ended_here };
    let claimed = match claimant.claim() {
        Ok(ClaimResult::Got(claimed)) => claimed,
        Ok(ClaimResult::Refused(error, _)) => {
            records.release(&name, &credential)?;
            let exit = Exit::from(error.kind());
            call.report.error(&error, exit == Exit::Skip);
            return Ok(if exit == Exit::Skip { busy } else { exit.into() });
        }
        Err(error) => {
            records.release(&name, &credential)?;
            return Err(error);
        }
    };
    let Claimed { session, id, token, .. } = *claimed;
    let failed = |error: std::io::Error| Error::io("signals", &error);
    SignalMask::block(ENDING).map_err(failed)?;
    let queue = SignalQueue::new(ENDING).map_err(failed)?;
    records.amend(&name, &credential, &[], &[(host_records::TOKEN, json!(token))])?;
    let keeper = Keeper::start(Hold {
        place: call.place.clone(),
        wish,
        id,
        token,
        times,
        session: Some(session),
        orders: None,
    })
    .map_err(failed)?;
    if call.report.json {
        drop(call.report.object(&json!({"name": name.as_str(), "token": token, "held": true})));
    }
    call.report.notice(&format!("{name} is yours until Ctrl-C; token {token}"));
    let lost = until_the_end(call, &name, &queue, &keeper)?;
    if let Err(why) = keeper.release(false, 0) {
        call.report.warning(&format!("{name}: it could not be given back in the database: {why}"));
    }
    records.release(&name, &credential)?;
    if lost {
        return Err(Error::new(
            Kind::NotOwner,
            format!("{name} is not yours any more: taken over, or broken by hand"),
        ));
    }
    Ok(Exit::Ok.into())
}

/// `true`: it was lost.
fn until_the_end(
    call: &ViaCall,
    name: &crate::model::name::LockName,
    queue: &SignalQueue,
    keeper: &Keeper,
) -> Result<bool, Error> {
    let failed = |error: std::io::Error| Error::io("signals", &error);
    loop {
        if queue.next().map_err(failed)?.is_some() {
            return Ok(false);
        }
        for found in keeper.news() {
            match found {
                KeeperNews::Lost => return Ok(true),
                KeeperNews::StopAsked(_) => {
                    call.report.warning(&format!("{name}: asked to end by 'stop'"));
                    return Ok(false);
                }
                KeeperNews::Cut(why) => call.report.warning(&format!(
                    "{name}: no session with the database ({why}); if that lasts, another machine takes it after {}",
                    crate::model::duration::show(GRACE)
                )),
                KeeperNews::Attached => call.report.warning(&format!("{name}: the database answers again, and the lock is still yours")),
                KeeperNews::Proved(_) => {}
            }
        }
        wait_any(&[queue.as_fd(), keeper.rings.as_fd()], None).map_err(failed)?;
    }
}
