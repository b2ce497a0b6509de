//! `init`: is everything there that claims need? Creates what is missing, or only reports.

use super::ClaimCall;
use super::settings::ClaimSettings;
use crate::cli::claim::ClaimInit as Args;
use crate::env;
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::model::address::Address;
use crate::tracker::{Failure, TrackerFinding, Why};
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
        findings.push(TrackerFinding::good(format!("made {}", dir.display())));
    }
    let claims = call.claims_of(settings)?;
    if claims.settings.address.is_server() && claims.settings.token_from.is_none() {
        findings.push(TrackerFinding::bad(format!(
            "no token is set: nothing can be written (set {} or token_file)",
            env::name::TRACKER_TOKEN
        )));
    }
    findings.extend(claims.tracker.check(!args.check).map_err(setting)?);
    findings.push(TrackerFinding::good(format!("arbiter {}", claims.arbiter)));
    if let Some(rows) = &claims.rows {
        findings.push(match rows.look() {
            Ok(_) => TrackerFinding::good("the database that decides answers, and its locks are set up"),
            Err(error) => TrackerFinding::bad(format!("the database that decides: {error}")),
        });
    }
    findings.push(TrackerFinding::good(format!("records in {}", claims.store.path().display())));
    let ok = findings.iter().all(|finding| finding.ok);
    if call.report.json {
        let rows: Vec<Value> = findings
            .iter()
            .map(|finding| json!({"ok": finding.ok, "proved": finding.proved, "what": finding.what}))
            .collect();
        drop(call.report.object(&json!({
            "tracker": claims.settings.address.canonical(),
            "ok": ok,
            "findings": rows,
        })));
    } else {
        for finding in &findings {
            let word = match (finding.ok, finding.proved) {
                (false, _) => "BAD",
                (true, true) => "ok ",
                (true, false) => "?  ",
            };
            drop(call.report.data(&format!("{word} {}", finding.what)));
        }
    }
    Ok(if ok { Exit::Ok } else { Exit::Config }.into())
}

/// A server that refuses to be looked at will refuse the claims too: that is a setting.
fn setting(failure: Failure) -> Error {
    match failure.why() {
        Why::Refused => Error::config(failure.to_string()).hint("has the token the rights it needs?"),
        _ => failure.into(),
    }
}
