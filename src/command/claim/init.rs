//! `init`: is everything there that claims need? Creates what is missing, or only reports.

use super::ClaimCall;
use super::settings::ClaimSettings;
use crate::cli::claim::ClaimInit as Args;
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::model::address::Address;
use crate::tracker::TrackerFinding;
use serde_json::{Value, json};

pub(super) fn init(call: &ClaimCall, args: &Args) -> Result<Status, Error> {
    let settings = ClaimSettings::read(&call.shared)?;
    let mut findings = Vec::new();
    if let Address::File(dir) = &settings.address
        && !args.check
        && !dir.exists()
    {
        std::fs::create_dir_all(dir)
            .map_err(|error| Error::io(&format!("directory {}", dir.display()), &error))?;
        findings.push(TrackerFinding { ok: true, what: format!("made {}", dir.display()) });
    }
    let claims = call.claims_of(settings)?;
    findings.extend(claims.tracker.check(!args.check)?);
    findings.push(TrackerFinding { ok: true, what: format!("arbiter {}", claims.arbiter) });
    findings.push(TrackerFinding { ok: true, what: format!("records in {}", claims.store.path().display()) });
    let ok = findings.iter().all(|finding| finding.ok);
    if call.report.json {
        let rows: Vec<Value> =
            findings.iter().map(|finding| json!({"ok": finding.ok, "what": finding.what})).collect();
        drop(call.report.object(&json!({
            "tracker": claims.settings.address.canonical(),
            "ok": ok,
            "findings": rows,
        })));
    } else {
        for finding in &findings {
            let word = if finding.ok { "ok " } else { "BAD" };
            drop(call.report.data(&format!("{word} {}", finding.what)));
        }
    }
    Ok(if ok { Exit::Ok } else { Exit::Config }.into())
}
