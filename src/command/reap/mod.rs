//! `orion-reap`: close the terminals of finished runs, keep everything else.
//! It ends with 0 whatever happens: a reaper that fails must not stop a fire.

mod case;
mod closing;
mod journal;
mod memory;
mod output_file;
mod pass;
mod setup;
mod show;
mod watch;

use super::failopen::{self, FailOpenOutcome};
use super::frame::{asks_for_json, bug, silence_panics};
use super::records::Where;
use crate::cli::reap::{Reap, ReapOptions};
use crate::cli::{self, ParseEnd};
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::model::terminal::Belongs;
use crate::os::call;
use crate::report::{Report, escape};
use case::{Fate, ReapPass, ReapProgress, ReapRow, ReapSettings};
use journal::Journal;
use memory::Memory;
use setup::{Setup, setup};
use show::Summary;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PROGRAM: &str = "orion-reap";
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
    report.warning(&format!("not reaping: {error}"));
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
    let place = Where { dir: args.dir, user: None };
    if args.log {
        return journal::show(&report, &place);
    }
    let Setup { mut runners, settings, output } =
        setup(&args.what, failopen::end(begin, args.deadline), args.dry_run, false)?;
    let progress = Arc::new(ReapProgress::default());
    let dry_run = args.dry_run;
    let seen = Arc::clone(&progress);
    call::end_with_interrupts();
    let outcome = failopen::run(args.deadline.saturating_add(GRACE), move || {
        let journal = Journal::open(&place, &settings);
        call::adopt_orphans();
        let memory = memory(&journal, &settings);
        let pass = pass::run(&mut runners, &settings, output.as_ref(), &memory, &seen);
        finish(&report, &pass, &settings, &journal)
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

/// What earlier passes knew. A dry run reads it and writes nothing.
fn memory(journal: &Journal, settings: &ReapSettings) -> Memory {
    Memory::open(journal.memory_dir(!settings.dry_run))
}

/// Says what was done, the summary last: callers keep the end of what they are told.
fn finish(report: &Report, pass: &ReapPass, settings: &ReapSettings, journal: &Journal) -> Status {
    let (dry_run, nobody_named) = (settings.dry_run, settings.automations.is_empty());
    let summary = Summary::of(&pass.rows, dry_run);
    journal.write(pass, &summary);
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

/// What a reaping before a precheck came to.
#[derive(Debug, Default)]
pub(crate) struct ReapedFirst {
    /// Terminals closed. Their processes were waited for already: one that owns a lock and
    /// went in time is not a live owner any more, one that stayed is.
    pub(crate) closed: usize,
    /// Named automations that the runner proves busy, each with its terminal and the evidence.
    pub(crate) busy: Vec<String>,
    /// Terminals of named automations that were kept, each with the reason.
    pub(crate) kept: Vec<String>,
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
    call::end_with_interrupts();
    call::adopt_orphans();
    let journal = Journal::open(place, &settings);
    let memory = memory(&journal, &settings);
    let pass = pass::run(&mut runners, &settings, output.as_ref(), &memory, &ReapProgress::default());
    let summary = Summary::of(&pass.rows, dry_run);
    journal.write(&pass, &summary);
    let lines = |wanted: &dyn Fn(&ReapRow) -> bool| {
        let rows = pass.rows.iter().filter(|row| wanted(row));
        rows.flat_map(|row| show::lines(row, false).into_iter().take(1)).collect()
    };
    Ok(ReapedFirst {
        busy: lines(&|row| row.proved_busy && row.fate != Fate::Closed),
        kept: lines(&|row| matches!((&row.terminal.belongs, &row.fate), (Belongs::Named(_), Fate::Kept(_)))),
        summary: summary.line(),
        closed: pass.rows.iter().filter(|row| row.fate == Fate::Closed).count(),
        warnings: pass.warnings.iter().map(|text| escape(text.as_bytes(), 400)).collect(),
    })
}
