//! `orion-precheck --via`: this machine's records, then the database. Only a live holder is a skip; whatever fails
//! is said, and the run goes ahead.

use super::{SeenRows, environment, exit_of, host_records, say};
use crate::cli::precheck::Precheck;
use crate::command::precheck_name::PrecheckAnswer;
use crate::command::{tell_again, turned_away, typed};
use crate::error::Error;
use crate::report::Report;
use crate::verdict::liveness::State;
use crate::verdict::repeat::{RanFacts, repeat};
use crate::verdict::via::ViaState;
use crate::via::credentials::{ViaPlace, resolve};
use crate::via::session::{CONNECT, ViaSession};
use serde_json::{Value, json};
use std::ffi::OsString;

/// Judges every name.
pub(super) fn check(report: &Report, args: &Precheck, mut answer: PrecheckAnswer) -> PrecheckAnswer {
    let mut locks = Vec::new();
    match resolve(args.via.as_deref(), &environment()) {
        Ok(place) => {
            let mut database: Option<Result<SeenRows, Error>> = None;
            for name in &args.names {
                match one(report, args, &place, &mut database, name) {
                    Ok((skip, object)) => {
                        answer.skip |= skip;
                        locks.push(object);
                    }
                    Err(error) => answer.problems.push(error),
                }
            }
        }
        Err(error) => answer.problems.push(error),
    }
    if report.json {
        let mut object = json!({"skip": answer.skip, "observe": args.observe, "locks": locks});
        let problems = answer.problems.iter();
        let problems: Vec<Value> = problems
            .map(|error| json!({"kind": error.kind().as_str(), "message": error.message()}))
            .collect();
        if !problems.is_empty() {
            object["errors"] = json!(problems);
        }
        drop(report.object(&object));
    }
    answer
}

fn one(
    report: &Report,
    args: &Precheck,
    place: &ViaPlace,
    database: &mut Option<Result<SeenRows, Error>>,
    name: &OsString,
) -> Result<(bool, Value), Error> {
    let name = typed::name(name)?;
    let would = if args.observe { "would skip: " } else { "" };
    // A directory that cannot be read proves nothing, and the database decides.
    if let Ok(Some(records)) = host_records::open(args.dir.as_deref(), place, false) {
        let judged = records.look(&name);
        if let State::Live(_) = judged.state() {
            let who = judged.record().and_then(|it| it.owners.first()).map(crate::command::tell::process);
            let who = who.unwrap_or_else(|| "a run".to_owned());
            report.notice(&format!("{would}{name} is held by {who} on this machine"));
            if !args.dry_run {
                turned_away::count(report, &records, &name, &judged, "skipped", None);
            }
            return Ok((true, json!({"name": name.as_str(), "state": "held", "here": true})));
        }
    }
    let seen = database.get_or_insert_with(|| look(place)).as_ref().map_err(Clone::clone)?;
    let row = seen.row(name.as_str());
    let state = seen.state(row);
    let (_, error) = exit_of(&place.shown, row, state);
    let object = json!({"name": name.as_str(), "token": row.map(|row| row.token), "via": place.shown});
    match (state, error) {
        (ViaState::Live | ViaState::LiveHere, Some(error)) => {
            report.notice(&format!("{would}{}", error.message()));
            Ok((true, object))
        }
        (ViaState::Free | ViaState::EndedHere, _) => {
            if row.is_none() {
                report.detail(&format!("{name} was never held in {}", place.shown));
            }
            let asked = args.again.terms();
            let not_again = row.and_then(|row| {
                let facts = RanFacts {
                    key: row.ran_key.as_deref(),
                    status: row.ran_status,
                    ended_ago: say::ran_ended_ago(row),
                };
                Some(tell_again::error(&row.name, repeat(&asked, &facts)?, &say::ran(row)))
            });
            if let Some(error) = not_again {
                report.notice(&format!("{would}{}", error.message()));
                let mut object = object;
                object["kind"] = json!(error.kind().as_str());
                return Ok((true, object));
            }
            Ok((false, object))
        }
        (_, Some(error)) => Err(error),
        (_, None) => Ok((false, object)),
    }
}

fn look(place: &ViaPlace) -> Result<SeenRows, Error> {
    let at = |fault: crate::via::fault::ViaFault| fault.at(&place.shown);
    let mut session = ViaSession::open_to_look(place, CONNECT).map_err(at)?;
    let look = session.look(None).map_err(at)?;
    session.close();
    Ok(SeenRows { look, records: None, place: place.clone() })
}
