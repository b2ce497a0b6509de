//! The rows of tickets, for `orion-claim`: it links no TLS and asks this program. One JSON object is the answer.

use super::claim::{ClaimResult, Claimant};
use super::claim_end::ClaimEnd;
use super::keeper::holder_json;
use super::{SeenRows, host_records, say};
use crate::cli::via::{ViaArbiter, ViaArbiterCommand};
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::model::arbiter::ArbiterState;
use crate::model::via::ViaHolder;
use crate::os::host;
use crate::report::{Report, error_object};
use crate::verdict::via::ViaState;
use crate::via::credentials::{ViaPlace, resolve};
use crate::via::engine::ViaRequest;
use crate::via::session::{CONNECT, ViaSession};
use serde_json::{Value, json};

/// Whoever asked says what went wrong; here only a wait is worth a line.
pub(super) fn arbiter(arguments: &ViaArbiter, report: &Report) -> Result<Status, Error> {
    let (answer, exit) = match answer(arguments, report) {
        Ok(answer) => (answer, Exit::Ok),
        Err(error) => (json!({"error": error_object(&error)}), Exit::from(error.kind())),
    };
    report.object(&answer).map_err(|error| Error::io("standard output", &error))?;
    Ok(exit.into())
}

fn answer(arguments: &ViaArbiter, report: &Report) -> Result<Value, Error> {
    let place = resolve(arguments.via.as_deref(), &super::environment())?
        .for_tickets(Some(arguments.tickets.clone()));
    let open = || ViaSession::open(&place, CONNECT).map_err(|fault| fault.at(&place.shown));
    Ok(match &arguments.command {
        ViaArbiterCommand::Look => look(arguments, &place)?,
        ViaArbiterCommand::Take { nonce, floor, pid, comm, name } => {
            let identity = host::identity();
            let holder = ViaHolder {
                host: host::hostname(),
                machine_id: identity.machine_id,
                pid: *pid,
                comm: comm.clone(),
                uid: rustix::process::geteuid().as_raw(),
                note: None,
            };
            let wish = ViaRequest {
                name: place.row_name(name),
                nonce: nonce.clone(),
                // No session stays: it is freed by its own host's proof, by its release, or by a person.
                grace_ms: None,
                holder: holder_json(&holder),
                once: None,
                once_ok: false,
                cooldown_ms: None,
                floor: Some(*floor),
            };
            take(arguments, report, &place, &wish, name)?
        }
        ViaArbiterCommand::GiveBack { nonce, name } => {
            let at = |fault: crate::via::fault::ViaFault| fault.at(&place.shown);
            let (mut session, name) = (open()?, &place.row_name(name));
            let look = session.look(Some(name)).map_err(at)?;
            let row = look.rows.first().filter(|row| row.nonce.as_ref() == Some(nonce));
            let said = match row {
                Some(row) if row.is_taken() => {
                    let by = json!({"host": host::hostname(), "pid": std::process::id(), "how": "claim"});
                    session.release(name, row.token, nonce, false, 0, &by).map_err(at)?
                }
                _ => "other".to_owned(),
            };
            session.close();
            json!({"answer": said})
        }
        ViaArbiterCommand::Free { name } => free(&place, open()?, &place.row_name(name))?,
    })
}

fn look(arguments: &ViaArbiter, place: &ViaPlace) -> Result<Value, Error> {
    let at = |fault: crate::via::fault::ViaFault| fault.at(&place.shown);
    let mut session = ViaSession::open_to_look(place, CONNECT).map_err(at)?;
    let look = session.look(None).map_err(at)?;
    session.close();
    let records = host_records::open(arguments.dir.as_deref(), place, false).ok().flatten();
    let seen = SeenRows { look, records, place: place.clone() };
    let rows: Vec<Value> = seen
        .look
        .rows
        .iter()
        .filter_map(|row| {
            let name = place.local_name(&row.name)?;
            let state = match seen.state(Some(row)) {
                ViaState::Free => ArbiterState::Free,
                ViaState::Live | ViaState::LiveHere => ArbiterState::Held,
                ViaState::Settling => ArbiterState::Settling,
                ViaState::EndedHere => ArbiterState::Ended,
                ViaState::Cut if row.grace_ms.is_some() => ArbiterState::Cut,
                ViaState::Cut => ArbiterState::Kept,
                ViaState::Newer(_) => ArbiterState::Newer,
            };
            Some(json!({"name": name, "token": row.token, "nonce": row.nonce, "state": state}))
        })
        .collect();
    Ok(json!({"rows": rows}))
}

fn take(
    arguments: &ViaArbiter,
    report: &Report,
    place: &ViaPlace,
    wish: &ViaRequest,
    name: &str,
) -> Result<Value, Error> {
    let name = crate::command::typed::name(name.as_ref())?;
    let records = host_records::open(arguments.dir.as_deref(), place, false).ok().flatten();
    let ended = records.map(|records| host_records::ended(&records.look(&name))).unwrap_or_default();
    let ended_here = |nonce: &str| ended.iter().any(|it| it == nonce);
    let end = ClaimEnd::new(Some(std::time::Duration::ZERO), false);
    let claimant = Claimant { report, place, wish, end, ended_here: &ended_here };
    match claimant.claim()? {
        ClaimResult::Got(claimed) => {
            let token = claimed.token;
            claimed.session.close();
            Ok(json!({"answer": "taken", "token": token}))
        }
        ClaimResult::Refused(error, _) => Err(error),
    }
}

fn free(place: &ViaPlace, mut session: ViaSession, name: &str) -> Result<Value, Error> {
    let at = |fault: crate::via::fault::ViaFault| fault.at(&place.shown);
    let look = session.look(Some(name)).map_err(at)?;
    let Some(row) = look.rows.first().filter(|row| row.is_taken()) else {
        return Ok(json!({"answer": "free"}));
    };
    let by = json!({"host": host::hostname(), "pid": std::process::id(), "how": "free"});
    let said = session.break_open(name, row.token, false, &by).map_err(at)?;
    if said == "alive" {
        return Err(Error::new(Kind::Held, say::held(row)));
    }
    session.close();
    Ok(json!({"answer": said}))
}
