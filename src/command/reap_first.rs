//! `orion-precheck --reap`: the pass before the check, and what is said of it.

use super::frame::bug;
use super::reap;
use super::records::Where;
use crate::cli::precheck::Precheck;
use crate::error::{Error, Kind};
use crate::report::Report;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// Of more terminals that were kept only the number is said.
const KEPT_LINES: usize = 3;

/// What the pass means for the check.
#[derive(Debug, Default)]
pub(super) struct Reaping {
    /// A run is at work, and that was to count.
    pub(super) busy: bool,
    pub(super) problems: Vec<Error>,
    pub(super) summary: Option<String>,
    /// Terminals of the named automations that were kept, each with the reason.
    pub(super) kept: Vec<String>,
}

/// Closes the terminals of finished runs and waits for their processes, so that an owner
/// that is only closing is not seen as alive. Nothing that fails here speaks against the fire.
pub(super) fn run(report: &Report, args: &Precheck, end: Instant, place: &Where) -> Reaping {
    let before = || reap::before_check(&args.before.what, end, args.dry_run, place);
    let reaped = match catch_unwind(AssertUnwindSafe(before)) {
        Ok(Ok(reaped)) => reaped,
        Ok(Err(error)) => return Reaping { problems: vec![error], ..Reaping::default() },
        Err(payload) => return Reaping { problems: vec![bug(payload.as_ref())], ..Reaping::default() },
    };
    let mut reaping = Reaping { kept: reaped.kept, ..Reaping::default() };
    for warning in &reaped.warnings {
        if args.before.busy_is_held {
            // Here the answer of the runner decides, too; elsewhere it is only asked to close.
            reaping.problems.push(Error::new(Kind::Unreachable, format!("reaping: {warning}")));
        } else {
            report.warning(&format!("reaping: {warning}"));
        }
    }
    if args.before.busy_is_held {
        for line in &reaped.busy {
            reaping.busy = true;
            let skip = if args.observe { "would skip: " } else { "" };
            report.notice(&format!("{skip}a run is at work: {line}"));
        }
        reaping.kept.retain(|line| !reaped.busy.contains(line));
    }
    if reaped.closed == 0 {
        report.detail(&format!("reaping: {}", reaped.summary));
    } else {
        report.notice(&format!("reaping: {}", reaped.summary));
    }
    reaping.summary = Some(reaped.summary);
    reaping
}

/// Who waits for a run to be closed must see why it was not.
pub(super) fn say_kept(report: &Report, kept: &[String]) {
    for line in kept.iter().take(KEPT_LINES) {
        report.notice(&format!("reaping: {line}"));
    }
    if let Some(more) = kept.len().checked_sub(KEPT_LINES).filter(|more| *more > 0) {
        report.notice(&format!("reaping: {more} more terminals were kept; orion-reap --log names them"));
    }
}
