//! `init`: sets up the schema, or prints what would be run.

use super::ViaCall;
use crate::cli::via::ViaInit;
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::verdict::via::GRACE;
use crate::via::schema;
use std::time::Duration;

/// Creating takes a moment.
const TIME: Duration = Duration::from_secs(30);

pub(super) fn init(call: &ViaCall, args: &ViaInit) -> Result<Status, Error> {
    let max = args.max_grace.unwrap_or(GRACE);
    if max < Duration::from_secs(2) || max > Duration::from_secs(86_400) {
        return Err(Error::usage("--max-grace is between 2s and 24h"));
    }
    let text = schema::text(u64::try_from(max.as_millis()).unwrap_or(u64::MAX), &args.grant);
    if args.print {
        let written = call.report.data(text.trim_end());
        return call.report.or_broken_pipe(written).map(|()| Exit::Ok.into());
    }
    let mut session = call.session()?;
    session.ask(&text, TIME).map_err(|fault| fault.at(&call.place.shown))?;
    session.close();
    call.report.detail(&format!("{}: the locks are set up", call.place.shown));
    Ok(Exit::Ok.into())
}
