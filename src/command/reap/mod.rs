//! `orion-reap`: close the terminals of finished runs, keep everything else.
//! It ends with 0 whatever happens: a reaper that fails must not stop a fire.

mod output_file;
mod pass;
mod setup;
mod show;

use super::failopen::{self, FailOpenOutcome};
use super::frame::{asks_for_json, bug, silence_panics};
use super::records::{Records, Where};
use crate::cli::reap::{Reap, ReapOptions};
use crate::cli::{self, ParseEnd};
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::model::event::Event;
use crate::model::record::LOCK;
use crate::os::{call, clock};
use crate::report::{Report, escape};
use pass::{Fate, ReapPass, ReapProgress};
use setup::{Setup, setup};
use show::Summary;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PROGRAM: &str = "orion-reap";
/// Where closes are logged. No lock can be called so.
const OWN_LOG: &str = "_reap";
/// The pass keeps its deadline itself; this much later it is left behind.
const GRACE: Duration = Duration::from_millis(500);

/// Entry of the program.
pub fn main() -> ExitCode {
    silence_panics();
    let strict = std::env::args_os().any(|argument| argument == "--strict");
    let status = catch_unwind(AssertUnwindSafe(reap)).unwrap_or_else(|payload| Err(bug(payload.as_ref())));
    let status = status.unwrap_or_else(|error| {
        let mut report = Report::new(PROGRAM);
        report.json = asks_for_json();
        not_reaping(&report, &error);
        Exit::from(error.kind()).into()
    });
    if strict { status } else { Status::from(Exit::Ok) }.into()
}

fn not_reaping(report: &Report, error: &Error) {
    if !failopen::can_speak() {
        return;
    }
    if report.json {
        report.error(error, true);
        return;
    }
    report.warn(&format!("not reaping: {error}"));
}

fn reap() -> Result<Status, Error> {
    let begin = Instant::now();
    let mut report = Report::new(PROGRAM);
    let args = match cli::parse::<Reap>(PROGRAM, std::env::args_os()) {
        Ok(args) => args,
        Err(ParseEnd::Show(text)) => {
            drop(report.data(&text));
            return Ok(Exit::Ok.into());
        }
        Err(ParseEnd::Usage(error)) => return Err(error),
    };
    report.quiet = args.quiet;
    report.verbose = args.verbose;
    report.json = args.json;
    let Setup { mut runners, settings, output } =
        setup(&args.what, failopen::end(begin, args.deadline), args.dry_run, false)?;
    let progress = Arc::new(ReapProgress::default());
    let place = Where { dir: args.dir, user: None };
    let dry_run = args.dry_run;
    let seen = Arc::clone(&progress);
    let outcome = failopen::run(args.deadline.saturating_add(GRACE), move || {
        call::adopt_orphans();
        let pass = pass::run(&mut runners, &settings, output.as_ref(), &seen);
        finish(&report, &pass, settings.dry_run, settings.automations.is_empty(), &place)
    });
    let interrupted = |why: &str| {
        call::abandon();
        let closed = progress.closed();
        let closed = if closed.is_empty() || dry_run {
            "nothing was closed".to_owned()
        } else {
            format!("closed and not waited for: {}", escape(closed.join(", ").as_bytes(), 400))
        };
        Err(Error::new(Kind::CannotTell, format!("{why}; {closed}")))
    };
    match outcome {
        FailOpenOutcome::Done(status) => Ok(status),
        FailOpenOutcome::Panicked(payload) => {
            call::abandon();
            Err(bug(payload.as_ref()))
        }
        FailOpenOutcome::Deadline => interrupted("the deadline came"),
        FailOpenOutcome::Signalled => interrupted("ended by a signal"),
    }
}

/// Says what was done, the summary last: callers keep the end of what they are told.
fn finish(report: &Report, pass: &ReapPass, dry_run: bool, nobody_named: bool, place: &Where) -> Status {
    let summary = Summary::of(&pass.rows, dry_run);
    if !dry_run {
        log(place, pass);
    }
    if report.json {
        drop(report.object(&show::object(pass, &summary)));
    } else if !report.quiet {
        for line in pass.rows.iter().flat_map(|row| show::lines(row, dry_run || report.verbose)) {
            drop(report.data(&line));
        }
    }
    if !report.json {
        let mut line = summary.line();
        if nobody_named {
            line.push_str("; without --automation nothing is closed");
        }
        for warning in &pass.warnings {
            line.push_str(&format!("; warning: {}", escape(warning.as_bytes(), 200)));
        }
        drop(report.data(&line));
    }
    if pass.troubles > 0 { Exit::Unavailable.into() } else { Exit::Ok.into() }
}

/// Best effort, and only where a state directory exists already.
fn log(place: &Where, pass: &ReapPass) {
    let closed: Vec<Event> = pass.rows.iter().filter(|row| row.fate == Fate::Closed).map(event).collect();
    if closed.is_empty() {
        return;
    }
    if let Ok(Some(store)) = Records::open(place, &["locks"], LOCK, false) {
        store.log_as(OWN_LOG, &closed);
    }
}

fn event(row: &pass::ReapRow) -> Event {
    let first = row.processes.first();
    let detail = show::lines(row, false).join("; ");
    Event {
        pid: first.map(|first| first.pid),
        comm: first.map(|first| first.comm.clone()),
        detail: Some(detail),
        ..Event::new("closed", clock::wall().rfc3339(), OWN_LOG)
    }
}

/// What a reaping before a precheck came to.
#[derive(Debug, Default)]
pub(crate) struct ReapedFirst {
    /// Terminals closed. Their processes were waited for already: one that owns a lock and
    /// went in time is no live owner any more, one that stayed is.
    pub(crate) closed: usize,
    /// Named automations that the runner proves busy, each with its terminal and the evidence.
    pub(crate) busy: Vec<String>,
    /// For the one line a person reads.
    pub(crate) summary: String,
    /// What did not work; nothing here speaks against the fire.
    pub(crate) warnings: Vec<String>,
}

/// `orion-precheck --reap`: one pass that ends at `end`, or earlier if the runner gives its
/// prechecks less. Call [`call::abandon`] where this is not waited for.
///
/// # Errors
/// Usage, and a `--keep-output` that cannot be written.
pub(crate) fn before_check(
    what: &ReapOptions,
    end: Instant,
    dry_run: bool,
    place: &Where,
) -> Result<ReapedFirst, Error> {
    let Setup { mut runners, settings, output } = setup(what, end, dry_run, true)?;
    call::adopt_orphans();
    let pass = pass::run(&mut runners, &settings, output.as_ref(), &ReapProgress::default());
    if !dry_run {
        log(place, &pass);
    }
    let busy = pass.rows.iter().filter(|row| row.proved_busy && row.fate != Fate::Closed);
    Ok(ReapedFirst {
        busy: busy.flat_map(|row| show::lines(row, false).into_iter().take(1)).collect(),
        summary: Summary::of(&pass.rows, dry_run).line(),
        closed: pass.rows.iter().filter(|row| row.fate == Fate::Closed).count(),
        warnings: pass.warnings.iter().map(|text| escape(text.as_bytes(), 400)).collect(),
    })
}
