//! Giving a lock back when its supervisor cannot any more.

use super::frames::Charge;
use super::host_records;
use super::keeper::{Hold, give_back_alone};
use crate::exit::Status;
use crate::report::Report;
use crate::verdict::ownership::Credential;
use crate::verdict::via::{FROZEN, ViaTimes};
use crate::via::credentials::resolve;
use crate::via::engine::ViaRequest;
use serde_json::json;

/// The guardian's last act: nothing of the tree is left, and the supervisor was killed.
pub(super) fn by_guardian(charge: &Charge, executed: bool, status: Status) {
    let report = Report::new("orion-lock");
    let Ok(place) = resolve(charge.place.as_deref(), &super::environment()) else { return };
    let place = place.for_tickets(charge.tickets.clone());
    let by = json!({"host": crate::os::host::hostname(), "pid": std::process::id(), "how": "guardian"});
    let wish = ViaRequest {
        name: place.row_name(&charge.name),
        nonce: charge.nonce.clone(),
        grace_ms: None,
        holder: by,
        once: None,
        once_ok: false,
        cooldown_ms: None,
        floor: None,
    };
    let Ok(times) = ViaTimes::of(None, None, FROZEN) else { return };
    let hold =
        Hold { place: place.clone(), wish, id: 0, token: charge.token, times, session: None, orders: None };
    if let Err(why) = give_back_alone(&hold, executed, status.code()) {
        report.warning(&format!(
            "{}: its supervisor was killed and the run with it, but the lock could not be given back: {why}",
            charge.name
        ));
    }
    // This machine's record last: while it stands, who waits here waits for the database, too.
    if let (Ok(Some(records)), Ok(name)) = (
        host_records::open(charge.dir.as_deref(), &place, false),
        crate::command::typed::name(charge.name.as_ref()),
    ) {
        drop(records.release(&name, &Credential::Token(charge.local_token)));
    }
}
