//! `orion-via`: what `orion-lock --via` and `orion-precheck --via` become. One lock for many machines.

mod arbiter;
mod change;
mod claim;
mod claim_end;
mod doctor;
mod frames;
mod guardian;
mod hold;
mod host_records;
mod init;
mod keeper;
mod log;
mod look;
mod precheck;
mod refusal;
mod release;
mod run;
mod say;
mod shim;
mod start;
mod supervise;

use super::frame;
use crate::cli::Lazy;
use crate::cli::lock::{Lock, LockCommand, LockShared};
use crate::cli::via::{GuardianArgs, Via, ViaArbiter, ViaShimArgs};
use crate::command::records::Records;
use crate::env;
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::model::via::{ViaLook, ViaRow};
use crate::os::mask::Blocked;
use crate::report::Report;
use crate::verdict::via::{ViaHere, ViaState, onlooker};
use crate::via::credentials::{ViaEnvironment, ViaPlace, resolve};
use crate::via::session::{CONNECT, ViaSession};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// The hidden subcommand of the guardian.
const GUARDIAN: &str = "guardian";
/// The hidden subcommand of the shim.
const SHIM: &str = "shim";

/// Entry of the program.
pub fn main() -> ExitCode {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    let word = arguments.get(1).and_then(|word| word.to_str()).unwrap_or_default().to_owned();
    match word.as_str() {
        GUARDIAN | SHIM => {
            arguments.remove(1);
            if word == GUARDIAN {
                return frame::run_with("orion-via", arguments, |args: GuardianArgs, _| {
                    guardian::guard(&args)
                });
            }
            frame::run_with("orion-via", arguments, |args: ViaShimArgs, _| shim::shim(&args))
        }
        "lock" | "precheck" | "claim" | "arbiter" if arguments.len() > 2 => {
            let theirs = arguments.drain(1..3).nth(1).unwrap_or_default();
            let same = theirs == env!("CARGO_PKG_VERSION");
            let other = || {
                Error::config(format!(
                    "orion-via is version {} and was called by version {}",
                    env!("CARGO_PKG_VERSION"),
                    theirs.display()
                ))
                .hint("install both of one version")
            };
            match word.as_str() {
                "precheck" => {
                    super::precheck::elsewhere(if same { None } else { Some(other()) }, precheck::check)
                }
                "arbiter" => frame::run_with("orion-claim", arguments, |arguments: ViaArbiter, report| {
                    if same { arbiter::arbiter(&arguments, report) } else { Err(other()) }
                }),
                // The run of a ticket is that of a lock, on another row.
                "claim" => {
                    let tracker = (arguments.len() > 1).then(|| arguments.remove(1).display().to_string());
                    frame::run_with("orion-claim", arguments, |arguments: Lock, report| {
                        if same { lock(arguments, report, tracker) } else { Err(other()) }
                    })
                }
                _ => frame::run_with("orion-lock", arguments, |arguments: Lock, report| {
                    if same { lock(arguments, report, None) } else { Err(other()) }
                }),
            }
        }
        _ => frame::run("orion-via", |_: Via, _| {
            Err(Error::usage("this is the program behind orion-lock --via and orion-precheck --via")
                .hint("orion-lock --via WHERE run NAME CMD; man orion-via"))
        }),
    }
}

fn lock(arguments: Lock, report: &mut Report, tracker: Option<String>) -> Result<Status, Error> {
    report.quiet = arguments.shared.quiet;
    report.verbose = arguments.shared.verbose;
    report.json = arguments.shared.json;
    if arguments.shared.utc {
        super::local_time::use_utc();
    }
    let file_size = Blocked::file_size();
    let refused = match &arguments.command {
        LockCommand::Acquire(_) => Some("acquire"),
        LockCommand::Release(_) => Some("release"),
        _ => None,
    };
    if let Some(refused) = refused {
        let place = arguments.shared.via.as_deref().unwrap_or("WHERE");
        let place = if place.contains('@') { "WHERE" } else { place };
        return Err(not_across(refused).hint(format!(
            "nobody would stay to keep the session; begin the script with: [ \"$ORION_LOCK_NAME\" = NAME ] || exec orion-lock --via {place} run NAME -- \"$0\" \"$@\""
        )));
    }
    let place = resolve(arguments.shared.via.as_deref(), &environment())?.for_tickets(tracker);
    let call = ViaCall { shared: arguments.shared, report: *report, place };
    match arguments.command {
        LockCommand::Run(Lazy(args)) => run::run(&call, args, file_size),
        LockCommand::Status(Lazy(args)) => look::status(&call, args),
        LockCommand::List(Lazy(args)) if !args.wanted.is_empty() => {
            Err(not_across("list NAME").hint("orion-lock --via WHERE status NAME"))
        }
        LockCommand::List(Lazy(args)) => look::list(&call, &args.whose),
        LockCommand::Wait(Lazy(args)) => look::wait(&call, &args),
        LockCommand::Log(Lazy(args)) => log::log(&call, args),
        LockCommand::Verify(Lazy(args)) => change::verify(&call, args),
        LockCommand::Tick(Lazy(args)) => change::tick(&call, args),
        LockCommand::Stop(Lazy(args)) => change::stop(&call, args),
        LockCommand::Break(Lazy(args)) => change::break_open(&call, args),
        LockCommand::Hold(Lazy(args)) => hold::hold(&call, args),
        LockCommand::Init(Lazy(args)) => init::init(&call, &args),
        LockCommand::Doctor => doctor::doctor(&call),
        LockCommand::Check(_) => Err(not_across("check").hint("orion-lock --via WHERE status NAME")),
        LockCommand::Metrics(_) => Err(not_across("metrics").hint("orion-lock --via WHERE --json list")),
        LockCommand::Timeline(_) => Err(not_across("timeline").hint("orion-lock --via WHERE log NAME")),
        LockCommand::Prune(_) => Err(not_across("prune").hint("rows of old locks are small; without --via it is for this machine")),
        LockCommand::Pause(_) | LockCommand::Resume(_) => Err(not_across("a pause").hint(
            "to keep it by hand: orion-lock --via WHERE hold NAME; without --via and ORION_VIA a pause is for this machine",
        )),
        LockCommand::Acquire(_)
        | LockCommand::Release(_)
        | LockCommand::Where(_)
        | LockCommand::Help(_)
        | LockCommand::Shim(_) => Err(not_across("this")),
    }
}

/// What the local lock has and a lock of many machines has not.
fn not_across(what: &str) -> Error {
    Error::usage(format!("{what} is not for locks of many machines (--via)"))
}

fn environment() -> ViaEnvironment {
    ViaEnvironment {
        place: env::text(env::name::VIA),
        passfile: env::value(env::name::PGPASSFILE).map(PathBuf::from),
        servicefile: env::value(env::name::PGSERVICEFILE).map(PathBuf::from),
    }
}

/// What every subcommand has at hand.
struct ViaCall {
    shared: LockShared,
    report: Report,
    place: ViaPlace,
}

impl ViaCall {
    /// This machine's records for the database; made when missing.
    fn records(&self) -> Result<Records, Error> {
        let records = host_records::open(self.shared.dir.as_deref(), &self.place, true)?;
        records.ok_or_else(|| Error::config("the state directory cannot be made"))
    }

    /// A session for a question.
    fn session(&self) -> Result<ViaSession, Error> {
        ViaSession::open(&self.place, CONNECT).map_err(|fault| fault.at(&self.place.shown))
    }

    /// What stands in the database, with the verdict on each row.
    fn look(&self, name: Option<&str>) -> Result<SeenRows, Error> {
        let at = |fault: crate::via::fault::ViaFault| fault.at(&self.place.shown);
        let mut session = ViaSession::open_to_look(&self.place, CONNECT).map_err(at)?;
        let look = session.look(name).map_err(at)?;
        session.close();
        let records = host_records::open(self.shared.dir.as_deref(), &self.place, false).ok().flatten();
        Ok(SeenRows { look, records, place: self.place.clone() })
    }
}

/// A look, and what this machine knows beside it.
struct SeenRows {
    look: ViaLook,
    records: Option<Records>,
    place: ViaPlace,
}

impl SeenRows {
    fn row(&self, name: &str) -> Option<&ViaRow> {
        self.look.rows.iter().find(|row| row.name == name)
    }

    fn state(&self, row: Option<&ViaRow>) -> ViaState {
        let here = row.map_or(ViaHere::NotOurs, |row| {
            let name =
                self.place.local_name(&row.name).map(|name| crate::command::typed::name(name.as_ref()));
            match (&self.records, name) {
                (Some(records), Some(Ok(name))) => {
                    host_records::knows(&records.look(&name), row.nonce.as_deref())
                }
                _ => ViaHere::NotOurs,
            }
        });
        onlooker(&self.look, row, here)
    }
}

/// The code of a state, and why it is not free.
fn exit_of(place: &str, row: Option<&ViaRow>, state: ViaState) -> (Exit, Option<Error>) {
    let line = |kind: Kind, say: &dyn Fn(&ViaRow) -> String| {
        let error = row.map(|row| Error::new(kind, say(row)));
        (error.as_ref().map_or(Exit::Ok, |error| Exit::from(error.kind())), error)
    };
    match state {
        ViaState::Free | ViaState::EndedHere => (Exit::Ok, None),
        ViaState::Live | ViaState::LiveHere if row.is_some_and(|row| row.overdue().is_some()) => {
            line(Kind::Stuck, &say::held)
        }
        ViaState::Live => line(Kind::Held, &say::held),
        ViaState::LiveHere => line(Kind::Held, &|row| {
            format!("{}, which works on this machine without a session at the moment", say::held(row))
        }),
        ViaState::Settling => line(Kind::CannotTell, &say::being_taken),
        ViaState::Cut => {
            let (exit, error) = line(Kind::UnknownOwner, &say::cut);
            let grace = row.and_then(ViaRow::grace).map(crate::model::duration::show);
            let will = match (grace, row) {
                (Some(grace), _) => format!("the next run waits {grace} and takes it over"),
                (None, Some(row)) => {
                    format!("if it ended: orion-lock --via {place} break --token {} {}", row.token, row.name)
                }
                (None, None) => String::new(),
            };
            (exit, error.map(|error| error.hint(will)))
        }
        ViaState::Newer(version) => {
            let what =
                format!("{place}: its locks are of version {version}, which this version does not know");
            (Exit::DataErr, Some(Error::new(Kind::NewerRecord, what)))
        }
    }
}
