//! `where`: which directory holds this machine's claims of the tracker.

use super::{ClaimCall, tell};
use crate::cli::claim::ClaimWhere as Args;
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::os::pulse;
use serde_json::json;

pub(super) fn show(call: &ClaimCall, args: &Args) -> Result<Status, Error> {
    let claims = call.claims()?;
    let folder = claims.store.path();
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let mut object = json!({"tracker": claims.settings.address.canonical(), "records": folder});
    let line = match &args.pulse {
        None => folder,
        Some(key) => {
            let (key, name) = claims.key(key)?;
            let path = folder.join(format!("{}.pulse", name.file()));
            // A shell can neither know the directory nor make the file with the right mode.
            drop(
                pulse::open(claims.store.folder(), name.file())
                    .map_err(|error| Error::io(&path.display().to_string(), &error))?,
            );
            object["key"] = json!(key.as_str());
            object["pulse"] = json!(path);
            path
        }
    };
    tell(&call.report, object);
    if !call.report.json {
        call.report.data(&line.display().to_string()).map_err(|error| Error::io("stdout", &error))?;
    }
    Ok(Exit::Ok.into())
}
