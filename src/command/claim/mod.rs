//! `orion-claim`: one file per subcommand, and what they share: the claims of one
//! tracker on this machine.

mod acquire;
mod attempt;
mod deaths;
mod facts;
mod free;
mod hand_over;
mod heartbeat;
mod init;
mod list;
mod log;
mod metrics;
mod next;
mod output;
mod pausing;
mod print_config;
mod race;
mod reconcile;
mod release;
mod repair;
mod right;
mod rows;
mod run;
mod settings;
mod settings_file;
mod settings_secrets;
mod shim;
mod stage;
mod status;
mod supervise;
mod take_over;
mod tick;
mod timeline;
mod undo;
mod verify;
mod watch;
mod watch_breaker;
mod watch_start;
mod where_is;
mod win;
mod workers;

use super::records::{Judged, Records, Where};
use crate::cli::claim::{ClaimArgs, ClaimCommand, ClaimShared};
use crate::command::local_time;
use crate::error::{Error, Kind};
use crate::model::address::Address;
use crate::model::arbiter::Arbiter;
use crate::model::claim::Attrs;
use crate::model::name::LockName;
use crate::model::observation::Found;
use crate::model::record::{CLAIM, Record};
use crate::model::stage::StageEvent;
use crate::model::ticket::{Key, Ticket};
use crate::os::mask::Blocked;
use crate::os::{clock, event_file, signals};
use crate::report::{Report, escape};
use crate::tracker::git_ref::GitRef;
use crate::tracker::{self, Tracker};
use crate::verdict::arbitrate;
use crate::verdict::liveness::{Judgement, State};
use crate::verdict::ownership::Credential;
use rows::TicketRows;
use serde_json::{Value, json};
use settings::ClaimSettings;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

/// Entry of the program.
pub fn main() -> ExitCode {
    super::frame::run("orion-claim", |arguments: ClaimArgs, report: &mut Report| {
        report.quiet = arguments.shared.quiet;
        report.verbose = arguments.shared.verbose;
        report.json = arguments.shared.json;
        if arguments.shared.utc {
            local_time::use_utc();
        }
        let call = ClaimCall { shared: arguments.shared, report: *report, file_size: Blocked::file_size() };
        let Some(command) = arguments.command else {
            if arguments.print_config {
                return print_config::print(&call);
            }
            return Err(Error::usage("a subcommand is missing").hint("see orion-claim --help"));
        };
        match command {
            ClaimCommand::Init(init) => init::init(&call, &init),
            ClaimCommand::Next => next::next(&call),
            ClaimCommand::Acquire(acquire) => acquire::acquire(&call, &acquire),
            ClaimCommand::Run(run) => run::run(call, run),
            ClaimCommand::Tick(tick) => tick::tick(&call, &tick),
            ClaimCommand::Stage(stage) => stage::stage(&call, &stage),
            ClaimCommand::Verify(verify) => verify::verify(&call, &verify),
            ClaimCommand::Release(release) => release::release(&call, &release),
            ClaimCommand::List => list::list(&call),
            ClaimCommand::Log(args) => log::log(&call, &args),
            ClaimCommand::Timeline(args) => timeline::timeline(&call, &args),
            ClaimCommand::Metrics => metrics::metrics(&call),
            ClaimCommand::Where(place) => where_is::show(&call, &place),
            ClaimCommand::Status(status) => status::status(&call, &status),
            ClaimCommand::Pause(args) => pausing::pause(&call, &args),
            ClaimCommand::Resume => pausing::resume(&call),
            ClaimCommand::Reconcile(reconcile) => reconcile::reconcile(&call, &reconcile),
            ClaimCommand::Watch(watch) => watch::watch(&call, &watch),
            ClaimCommand::Free(free) => free::free(&call, &free),
            ClaimCommand::TakeOver(take_over) => take_over::take_over(&call, &take_over),
            ClaimCommand::Shim(shim) => shim::shim(call, &shim),
        }
    })
}

/// What every subcommand has at hand.
struct ClaimCall {
    shared: ClaimShared,
    report: Report,
    /// SIGXFSZ stays blocked until a command is run.
    file_size: Blocked,
}

/// The claims of one tracker on this machine.
struct Claims {
    settings: ClaimSettings,
    tracker: Box<dyn Tracker>,
    arbiter: Arbiter,
    git: Option<GitRef>,
    /// Where a database decides.
    rows: Option<TicketRows>,
    store: Records,
    report: Report,
}

impl ClaimCall {
    /// Opens the tracker and this machine's claims of it.
    fn claims(&self) -> Result<Claims, Error> {
        self.claims_of(ClaimSettings::read(&self.shared)?)
    }

    fn claims_of(&self, settings: ClaimSettings) -> Result<Claims, Error> {
        let tracker = tracker::open(&settings.address, &settings.options())?;
        let arbiter = arbitrate::choose(settings.arbiter, tracker.can(), settings.single_machine)
            .map_err(|why| Error::config(format!("{}: {why}", settings.address.canonical())))?;
        let store = self.store(&settings.address)?;
        let git = match (arbiter, &settings.git_remote) {
            (Arbiter::GitRef, None) => {
                return Err(
                    Error::config("the arbiter git-ref needs a remote").hint("set git_remote = \"URL\"")
                );
            }
            (Arbiter::GitRef, Some(remote)) => Some(GitRef::open(
                &store.path().join("git"),
                remote,
                &settings.address.dir_name(),
                settings.options().timeout,
            )?),
            _ => None,
        };
        let rows = (arbiter == Arbiter::Database).then(|| TicketRows::new(self, &settings));
        Ok(Claims { settings, tracker, arbiter, git, rows, store, report: self.report })
    }

    /// The records of a tracker's claims; made when missing.
    fn store(&self, address: &Address) -> Result<Records, Error> {
        let place = Where { dir: self.shared.dir.clone(), user: None };
        let store = Records::open(&place, &["claims", &address.dir_name()], CLAIM, true)?;
        store.ok_or_else(|| Error::config("the state directory cannot be made"))
    }
}

impl Claims {
    /// The ticket that a person named, and the name of its record.
    fn key(&self, text: &OsStr) -> Result<(Key, LockName), Error> {
        let typed = text.to_str().ok_or_else(|| {
            Error::usage(format!("{} is not a ticket key: not UTF-8", escape(text.as_bytes(), 120)))
        })?;
        let key = self.tracker.key(typed)?;
        let name = name_of(&key)?;
        Ok((key, name))
    }

    /// As a look at one record, for lists, which may hold thousands of other machines'
    /// tickets: only names among `recorded` (sorted) are looked up.
    fn look_in(&self, recorded: &[LockName], name: &LockName) -> Judged {
        if recorded.binary_search(name).is_ok() {
            return self.store.look(name);
        }
        let judgement = Judgement { state: State::Free, evidence: Vec::new() };
        Judged { found: Found::Nothing, judgement, token: None }
    }

    /// Ends a claim here: its record is kept aside, marked as released, until the next
    /// claim of the ticket takes over what it says.
    fn close(&self, name: &LockName, token: u64, ended: &str) -> Result<(), Error> {
        let right = Credential::Token(token);
        let released = [("released_at", json!(clock::wall().rfc3339()))];
        match self.store.amend(name, &right, &released, &[("ended", json!(ended))]) {
            Ok(Some(stored)) => {
                let event = super::records::event_of("released", name, &stored.record);
                let result = attrs(&stored.record).result;
                let signal = result.as_ref().and_then(|result| result.signal).map(signals::name);
                let signal = signal.map_or_else(String::new, |name| format!(": {name}"));
                let kept = result.as_ref().and_then(|result| result.stderr.as_ref());
                let kept = kept.map_or_else(String::new, |path| format!("; its stderr is in {path}"));
                let event = crate::model::event::Event {
                    detail: Some(format!("{ended}{signal}{kept}")),
                    status: result.as_ref().map(|result| result.status),
                    held_s: result.map(|result| result.ran_ms / 1000),
                    ..event
                };
                self.store.log(name, &[event]);
                Ok(())
            }
            Ok(None) => Ok(()),
            // A full disk: better no record than one that says "held".
            Err(error) if error.kind() == Kind::CannotCreate => self.store.release(name, &right).map(drop),
            Err(error) => Err(error),
        }
    }

    /// Writes a change of stage to the ticket's event log; a log that cannot be written is said.
    fn log_stage(&self, key: &Key, to: &str, token: u64) {
        let from = self.stage_of(key, token);
        let event = StageEvent {
            key: key.to_string(),
            at: clock::wall().rfc3339(),
            event: "stage".to_owned(),
            from,
            to: to.to_owned(),
            token,
        };
        if let Err(error) = event_file::append(self.store.folder(), key.as_str(), event.line()) {
            self.report.warning(&format!("{key}: its event log: {}", crate::error::reason(&error)));
        }
    }

    /// The stage that the claim with this token is in.
    fn stage_of(&self, key: &Key, token: u64) -> String {
        crate::model::stage::last(&event_file::end(self.store.folder(), key.as_str()), key.as_str())
            .filter(|event| event.token == token)
            .map_or_else(|| crate::model::stage::QUEUE.to_owned(), |event| event.to)
    }

    /// `orion-queue, bug`, for messages.
    fn labels_of(&self, ticket: &Ticket) -> String {
        if ticket.labels.is_empty() {
            return "none".to_owned();
        }
        escape(ticket.labels.join(", ").as_bytes(), 200)
    }
}

/// A key is a legal file name.
fn name_of(key: &Key) -> Result<LockName, Error> {
    LockName::plain(OsStr::new(key.as_str()))
        .ok_or_else(|| Error::new(Kind::Bug, format!("the key {key} cannot be the name of a record")))
}

/// What a claim's record says.
fn attrs(record: &Record) -> Attrs {
    Attrs::read(&record.attrs)
}

/// Writes the object under `--json`; a closed pipe is the reader's choice.
fn tell(report: &Report, object: Value) {
    if report.json {
        drop(report.object(&object));
    }
}
