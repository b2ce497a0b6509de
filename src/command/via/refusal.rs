//! Turned away by a run of this machine, without a word to the database.

use super::{ViaCall, host_records};
use crate::command::lock::refuse::{Refused, Relation};
use crate::command::lock::status_file::StatusFile;
use crate::command::records::Records;
use crate::command::tell;
use crate::command::turned_away::count;
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::model::name::LockName;
use crate::verdict::liveness::State;
use serde_json::json;

/// Says who holds it here, and with which token of the database.
pub(super) fn by_this_machine(
    call: &ViaCall,
    records: &Records,
    name: &LockName,
    refused: &Refused,
    busy: Status,
    status_file: &StatusFile,
) -> Status {
    let judged = refused.judged();
    let live = matches!(judged.state(), State::Live(_));
    let token = judged.record().and_then(|record| record.attrs.get(host_records::TOKEN)?.as_u64());
    let refusal = match (judged.record().filter(|_| live), refused.relation) {
        (Some(record), Relation::Stranger) => {
            let owner = record.owners.first().map_or_else(|| "a run".to_owned(), tell::process);
            let state = match token {
                Some(token) => format!("is held by {owner} on this machine; token {token}"),
                None => format!("is being taken by {owner} on this machine"),
            };
            Error::new(Kind::Held, format!("{name} {state}"))
        }
        _ => refused.error(records, name),
    };
    let exit = Exit::from(refusal.kind());
    call.report.error(&refusal, exit == Exit::Skip);
    status_file.fact("refused", name.as_str(), &json!({"kind": refusal.kind().as_str(), "token": token}));
    if live {
        count(&call.report, records, name, judged, "refused", None);
    }
    if exit == Exit::Skip { busy } else { exit.into() }
}
