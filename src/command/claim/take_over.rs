//! What a pass starts for a ticket whose machine lost the database: its grace is over, and the row is held for us
//! as long as we run. The ticket goes back into the queue, if it is still as it was seen.

use super::hand_over::swap_to;
use super::{ClaimCall, undo};
use crate::cli::claim::ClaimTakeOver as Args;
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::model::claim::Goal;
use crate::model::ticket::{Swapped, newest_labeled};
use crate::report::escape;

pub(super) fn take_over(call: &ClaimCall, args: &Args) -> Result<Status, Error> {
    let claims = call.claims()?;
    let (key, name) = claims.key(&args.key)?;
    if claims.rows.as_ref().is_none_or(|rows| rows.own(&key).is_none()) {
        return Err(Error::usage("nobody holds its row for this process").hint("orion-claim reconcile"));
    }
    let judged = claims.store.look(&name);
    if judged.record().is_some_and(|record| record.released_at.is_none()) {
        return Err(Error::new(Kind::CannotTell, format!("{key}: there is a record of it here by now")));
    }
    let ticket = claims.tracker.ticket(&key)?;
    let labels = &claims.settings.labels;
    let events = if claims.tracker.can().event_ids { claims.tracker.events(&key)? } else { Vec::new() };
    let event = newest_labeled(&events, &labels.working).map(|event| event.id.clone());
    if !labels.in_flight(&ticket) || event.as_ref().map(|event| event.0.as_str()) != args.event.as_deref() {
        return Err(Error::new(Kind::Lost, format!("{key} is not as it was seen any more")));
    }
    let host = ticket.labels.iter().find_map(|label| label.strip_prefix(&labels.host_prefix));
    let host = host.map_or_else(|| "its machine".to_owned(), |host| escape(host.as_bytes(), 60));
    let swapped = if ticket.closed {
        undo::unlock(&claims, &key, &ticket)?
    } else {
        swap_to(&claims, &key, &ticket, Some(Goal::Queue), event)?
    };
    match swapped {
        Swapped::Done(_) => {}
        Swapped::Changed(why) => {
            return Err(Error::new(Kind::Lost, format!("{key} changed meanwhile: {why}")));
        }
        Swapped::Unconfirmed(why) => return Err(Error::new(Kind::CannotTell, format!("{key}: {why}"))),
    }
    call.report.notice(&format!("{key}: {host} lost the database, and its grace is over; back in the queue"));
    Ok(Exit::Ok.into())
}
