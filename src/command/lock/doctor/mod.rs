//! `doctor`: does all this work here, for this user, from cron? Looked at where a
//! look is enough, and played with real processes where it is not.

mod around;
mod machine;
mod place;
mod play;
mod scratch;

use super::LockCall;
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::os::process;
use crate::report::Report;
use serde_json::{Value, json};

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckOutcome {
    Ok,
    /// It works, and there is something to know.
    Note,
    Fail,
}

/// The checks so far. Each is said when it is done.
struct Checks {
    report: Report,
    all: Vec<Value>,
    noted: usize,
    failed: usize,
}

/// What a check found: what holds, or what does not and what to do about it.
type DoctorFinding = Result<String, (String, String)>;

impl Checks {
    /// What holds, or what fails with what to do.
    fn add(&mut self, name: &str, finding: DoctorFinding) -> bool {
        match finding {
            Ok(detail) => self.say(name, CheckOutcome::Ok, &detail, None),
            Err((detail, advice)) => self.say(name, CheckOutcome::Fail, &detail, Some(&advice)),
        }
    }

    /// As [`Checks::add`], where nothing breaks without it.
    fn advise(&mut self, name: &str, finding: DoctorFinding) -> bool {
        match finding {
            Ok(detail) => self.say(name, CheckOutcome::Ok, &detail, None),
            Err((detail, advice)) => self.say(name, CheckOutcome::Note, &detail, Some(&advice)),
        }
    }

    fn say(&mut self, name: &str, outcome: CheckOutcome, detail: &str, advice: Option<&str>) -> bool {
        let (shown, word) = match outcome {
            CheckOutcome::Ok => ("ok  ", "ok"),
            CheckOutcome::Note => ("note", "note"),
            CheckOutcome::Fail => ("FAIL", "fail"),
        };
        match outcome {
            CheckOutcome::Ok => {}
            CheckOutcome::Note => self.noted += 1,
            CheckOutcome::Fail => self.failed += 1,
        }
        let mut check = json!({"name": name, "result": word, "detail": detail});
        if let Some(advice) = advice {
            check["advice"] = json!(advice);
        }
        self.all.push(check);
        let quiet = self.report.json || (self.report.quiet && outcome == CheckOutcome::Ok);
        if !quiet {
            let advice = advice.map_or_else(String::new, |advice| format!("; {advice}"));
            drop(self.report.data(&format!("{shown} {name:<20} {detail}{advice}")));
        }
        outcome != CheckOutcome::Fail
    }
}

/// 0 when everything holds, else 78.
pub(super) fn doctor(call: &LockCall) -> Result<Status, Error> {
    let mut checks = Checks { report: call.report, all: Vec::new(), noted: 0, failed: 0 };
    machine::check(&mut checks);
    around::check(&mut checks);
    if let Some(state) = place::check(&mut checks, call)
        && let Some(scratch) = scratch::check(&mut checks, &state)
    {
        // Without pidfds no process can be stood by, and the check of them has said so.
        if process::pidfds_are_allowed().is_ok() {
            play::check(&mut checks, &scratch);
        }
        scratch.remove(&mut checks);
    }
    let (count, noted, failed) = (checks.all.len(), checks.noted, checks.failed);
    if call.report.json {
        drop(call.report.object(&json!({
            "ok": failed == 0,
            "failed": failed,
            "noted": noted,
            "checks": checks.all,
        })));
    } else if failed == 0 {
        drop(call.report.data(&format!("all {count} checks hold, {noted} with a note")));
    } else {
        drop(call.report.data(&format!("{failed} of {count} checks failed")));
    }
    Ok(if failed == 0 { Exit::Ok.into() } else { Exit::Config.into() })
}
