//! `orion-precheck`: advice before a fire. It says "skip" only on proof of a live
//! owner; every doubt and every failure of its own is "go", with one line.

use super::elsewhere::{become_helper, is_meant};
use super::failopen::{self, FailOpenOutcome};
use super::frame::{asks_for_json, bug, silence_panics};
use super::precheck_name::{PrecheckAnswer, check_one};
use super::reap_first::{self, Reaping};
use super::records::{Records, Where};
use super::{tell_state, typed};
use crate::cli::precheck::Precheck;
use crate::cli::{self, ParseEnd};
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::model::event::Event;
use crate::model::record::LOCK;
use crate::os::mask::Blocked;
use crate::os::{call, clock};
use crate::report::{Report, error_object};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const PROGRAM: &str = "orion-precheck";
/// Where problems without a valid name are logged. No lock can be called so.
const OWN_LOG: &str = "_precheck";

/// How long the log of a problem may take.
const LOG_PATIENCE: Duration = Duration::from_millis(500);

/// `-E 0` is not a way to look without guarding.
const NOT_HIDDEN: (&str, &str) = ("-E 0 would hide every skip", "--observe does that on purpose");

/// Entry of the program.
pub fn main() -> ExitCode {
    silence_panics();
    // Whatever we write, a limit on file sizes is an error and not our death; threads inherit the mask.
    let _file_size = Blocked::file_size();
    let status = catch_unwind(|| guarded(std::env::args_os().collect(), None)).unwrap_or_else(|payload| {
        not_guarding(&Report::new(PROGRAM), &bug(payload.as_ref()));
        Exit::Ok.into()
    });
    status.into()
}

/// As [`main`], in the program for locks of many machines: `unusable` says why it must not be believed, `judge`
/// judges the names.
#[cfg(feature = "postgres")]
pub(super) fn elsewhere(unusable: Option<Error>, judge: Judge) -> ExitCode {
    silence_panics();
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    // The tool and its version.
    arguments.drain(1..3);
    let body = || guarded(arguments, Some(Elsewhere { unusable, judge }));
    let status = catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        not_guarding(&Report::new(PROGRAM), &bug(payload.as_ref()));
        Exit::Ok.into()
    });
    status.into()
}

/// Judges the names of a call.
type Judge = fn(&Report, &Precheck, PrecheckAnswer) -> PrecheckAnswer;

/// We are the program for locks of many machines.
struct Elsewhere {
    unusable: Option<Error>,
    judge: Judge,
}

fn guarded(arguments: Vec<OsString>, elsewhere: Option<Elsewhere>) -> Status {
    let mut report = Report::new(PROGRAM);
    let strict = arguments.iter().any(|argument| argument == "--strict");
    let args = match cli::parse::<Precheck>(PROGRAM, arguments) {
        Ok(args) => args,
        Err(ParseEnd::Show(text)) => {
            drop(report.data(&text));
            return Exit::Ok.into();
        }
        Err(ParseEnd::Usage(error)) => {
            report.json = asks_for_json();
            return problem(&report, None, &error, strict);
        }
    };
    report.quiet = args.quiet;
    report.verbose = args.verbose;
    report.json = args.json;
    let judge = match elsewhere {
        None if is_meant(args.via.as_deref()) => {
            return problem(&report, Some(&args), &become_helper("precheck"), strict);
        }
        None => check,
        Some(Elsewhere { unusable: Some(error), .. }) => {
            return problem(&report, Some(&args), &error, strict);
        }
        Some(Elsewhere { judge, .. }) => judge,
    };
    let busy = match typed::busy_code(args.busy_code, Some(NOT_HIDDEN)) {
        Ok(busy) => busy,
        Err(error) => return problem(&report, Some(&args), &error, strict),
    };
    let (observe, dry_run, place) = (args.observe, args.dry_run, place(&args));
    let there = place.clone();
    let (begin, reaps) = (Instant::now(), args.before.reap);
    let outcome = failopen::run(args.deadline, move || {
        let judging = Duration::from_secs(1).min(args.deadline / 4);
        let end = failopen::end(begin, args.deadline.saturating_sub(judging));
        let reaping = if reaps { reap_first::run(&report, &args, end, &there) } else { Reaping::default() };
        let kept = reaping.kept;
        let answer =
            PrecheckAnswer { skip: reaping.busy, problems: reaping.problems, reaped: reaping.summary };
        let answer = judge(&report, &args, answer);
        if answer.skip {
            reap_first::say_kept(&report, &kept);
        }
        answer
    });
    if !matches!(outcome, FailOpenOutcome::Done(_)) {
        // What was called (by the reaper, for the user database) must not outlive us with the pipes of our caller.
        call::abandon();
    }
    let failed = |error: &Error| {
        not_guarding(&report, error);
        log_problem(&place, error, dry_run);
        if strict { Exit::from(error.kind()).into() } else { Exit::Ok.into() }
    };
    match outcome {
        FailOpenOutcome::Done(answer) => {
            for error in &answer.problems {
                not_guarding(&report, error);
                log_problem(&place, error, dry_run);
            }
            match answer.problems.first() {
                _ if answer.skip && !observe => busy,
                Some(error) if strict => Exit::from(error.kind()).into(),
                _ => Exit::Ok.into(),
            }
        }
        FailOpenOutcome::Panicked(payload) => failed(&bug(payload.as_ref())),
        FailOpenOutcome::Deadline => {
            failed(&Error::new(Kind::CannotTell, "no answer before the deadline").hint("--deadline DUR"))
        }
        FailOpenOutcome::Signalled => {
            failed(&Error::new(Kind::CannotTell, "ended by a signal before there was an answer"))
        }
    }
}

fn place(args: &Precheck) -> Where {
    Where { dir: args.dir.clone(), user: None }
}

/// Judges every valid name first; what is wrong with the others is said after that
/// and never hides a skip.
fn check(report: &Report, args: &Precheck, mut answer: PrecheckAnswer) -> PrecheckAnswer {
    let mut objects = Vec::new();
    // A name typed twice is judged, and counted, once.
    let first = |(at, name): &(usize, &OsString)| !args.names[..*at].contains(name);
    let names: Vec<_> =
        args.names.iter().enumerate().filter(first).map(|(_, name)| typed::name(name)).collect();
    match Records::open(&place(args), &["locks"], LOCK, false) {
        Ok(Some(store)) => {
            for name in names.iter().flatten() {
                let state = store.state_of(name);
                let kind = check_one(report, args, &store, name, &state, &mut answer);
                if report.json {
                    let mut object = tell_state::object(&store, name, &state);
                    if let Some(kind) = kind {
                        object["kind"] = json!(kind.as_str());
                    }
                    objects.push(object);
                }
            }
        }
        Ok(None) => {
            for name in names.iter().flatten() {
                let place = place(args).place().map(|place| place.path.join("locks").display().to_string());
                report.detail(&format!("{name} was never held in {}", place.unwrap_or_default()));
            }
        }
        Err(error) => answer.problems.push(error),
    }
    answer.problems.extend(names.into_iter().filter_map(Result::err));
    if report.json {
        drop(report.object(&document(args, &answer, &objects)));
    }
    answer
}

/// The answer as an object.
fn document(args: &Precheck, answer: &PrecheckAnswer, objects: &[Value]) -> Value {
    let mut object = json!({"skip": answer.skip, "observe": args.observe, "locks": objects});
    if let Some(reaped) = &answer.reaped {
        object["reaped"] = json!(reaped);
    }
    if !answer.problems.is_empty() {
        object["errors"] = answer.problems.iter().map(error_object).collect();
    }
    object
}

/// A problem found before the check could start.
fn problem(report: &Report, args: Option<&Precheck>, error: &Error, strict: bool) -> Status {
    not_guarding(report, error);
    if report.json {
        drop(report.object(&json!({ "error": error_object(error) })));
    }
    let place = args.map_or_else(Where::default, place);
    log_problem(&place, error, args.is_some_and(|args| args.dry_run));
    if strict { Exit::from(error.kind()).into() } else { Exit::Ok.into() }
}

/// The one line that says that a guard does not work; nothing silences it.
fn not_guarding(report: &Report, error: &Error) {
    if !failopen::can_speak() {
        return;
    }
    report.warning(&format!("not guarding: {error}"));
}

/// Best effort, only where a directory exists already, and never long: the problem may
/// be that very directory, on a server that does not answer.
fn log_problem(place: &Where, error: &Error, dry_run: bool) {
    if dry_run {
        return;
    }
    let (place, detail) = (place.clone(), Some(error.to_string()));
    let (done, written) = mpsc::sync_channel(1);
    let writer = thread::Builder::new().spawn(move || {
        if let Ok(Some(store)) = Records::open(&place, &["locks"], LOCK, false) {
            let event = Event::new("misconfigured", clock::wall().rfc3339(), OWN_LOG);
            store.log_as(OWN_LOG, &[Event { detail, ..event }]);
        }
        done.send(()).ok();
    });
    if writer.is_ok() {
        written.recv_timeout(LOG_PATIENCE).ok();
    }
}
