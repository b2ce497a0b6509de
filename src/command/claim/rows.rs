//! Where a PostgreSQL decides who gets a ticket: the ticket's row there. This program links no TLS: `orion-via`
//! beside it asks the database, and holds the session of a run, whose command this program then is.

use super::{ClaimCall, name_of};
use crate::cli::claim::{ClaimShared, TAKE_OVER};
use crate::command::elsewhere;
use crate::env;
use crate::error::{Error, Kind, reason};
use crate::model::arbiter::{ArbiterRow, ArbiterState};
use crate::model::identity::ProcessIdentity;
use crate::model::ticket::{EventId, Key};
use crate::os::clock;
use crate::tracker::{Failure, Why};
use serde_json::Value;
use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// The rows of one tracker's tickets.
pub(super) struct TicketRows {
    /// WHERE; `None`: ORION_VIA.
    place: Option<String>,
    grace: Option<String>,
    fence: Option<String>,
    /// The tracker, as all machines call it.
    tracker: String,
    /// Options for this program, when it is called again; the first of them are `orion-via`'s, too.
    dir: Option<OsString>,
    shared: Vec<OsString>,
    /// The row that was taken for us, by whoever started us.
    own: Option<OwnRow>,
    /// What a look gave, for the length of a pass.
    seen: RefCell<Option<Result<Vec<ArbiterRow>, String>>>,
    takeovers: RefCell<Vec<(Key, Child)>>,
}

struct OwnRow {
    token: u64,
    nonce: String,
    name: String,
}

impl OwnRow {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(3, ' ');
        let (token, nonce, name) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
        Some(Self { token, nonce: nonce.to_owned(), name: name.to_owned() })
    }
}

impl TicketRows {
    pub(super) fn new(call: &ClaimCall, settings: &super::settings::ClaimSettings) -> Self {
        let dir = call.shared.dir.as_ref().map(|dir| dir.clone().into_os_string());
        let mut shared: Vec<OsString> = Vec::new();
        let mut add = |option: &str, value: Option<OsString>| {
            if let Some(value) = value {
                shared.extend([option.into(), value]);
            }
        };
        add("--dir", dir.clone());
        add("--config", call.shared.config.as_ref().map(|path| path.clone().into_os_string()));
        add("--tracker", Some(settings.tracker_text().into()));
        add("--arbiter", call.shared.arbiter.as_ref().map(Into::into));
        Self {
            place: settings.arbiter_place.clone(),
            grace: settings.arbiter_grace.clone(),
            fence: settings.arbiter_fence.clone(),
            tracker: settings.address.dir_name(),
            dir,
            shared,
            own: env::text(env::name::CLAIM_ROW).as_deref().and_then(OwnRow::parse),
            seen: RefCell::new(None),
            takeovers: RefCell::new(Vec::new()),
        }
    }

    /// Token and nonce of the row that whoever started us holds for this ticket.
    pub(super) fn own(&self, key: &Key) -> Option<(u64, &str)> {
        self.own
            .as_ref()
            .filter(|own| own.name == format!("{}/{key}", self.tracker))
            .map(|own| (own.token, own.nonce.as_str()))
    }

    /// `orion-via` as somebody who holds the ticket's row for a command that it starts.
    fn holding<'o>(
        &self,
        key: &Key,
        above: u64,
        told: impl Iterator<Item = &'o str>,
    ) -> Result<Command, Error> {
        let mut command = elsewhere::helper("claim")?;
        command.arg(&self.tracker).args(told);
        for (option, value) in
            [("--via", self.place.as_ref().map(OsStr::new)), ("--dir", self.dir.as_deref())]
        {
            command.args(value.map(|value| [OsStr::new(option), value]).into_iter().flatten());
        }
        command.args(["run", "--floor"]).arg((above + 1).max(clock::wall().0).to_string());
        for (option, value) in [("--grace", &self.grace), ("--fence", &self.fence)] {
            command.args(value.as_ref().map(|value| [option, value]).into_iter().flatten());
        }
        let me = std::fs::read_link("/proc/self/exe")
            .map_err(|error| Error::config(format!("/proc/self/exe: {}", reason(&error))))?;
        command.arg(key.as_str()).arg("--").arg(me);
        Ok(command)
    }

    /// Becomes the holder of the ticket's row, who calls this program again with the same arguments. Comes back
    /// only with the reason why not. `above`: the last token of the ticket here.
    pub(super) fn become_run(&self, shared: &ClaimShared, key: &Key, above: u64) -> Error {
        let told =
            [("-q", shared.quiet), ("-v", shared.verbose), ("--json", shared.json), ("--utc", shared.utc)];
        let told = told.iter().filter(|(_, typed)| *typed).map(|(option, _)| *option);
        let command = self.holding(key, above, told);
        let mut command = match command {
            Ok(command) => command,
            Err(error) => return error,
        };
        command.args(std::env::args_os().skip(1));
        elsewhere::cannot_run(&command.exec())
    }

    /// Takes the row for a process that keeps no session.
    ///
    /// # Errors
    /// Kinds of a lock that is held when somebody else has it.
    pub(super) fn take(
        &self,
        key: &Key,
        nonce: &str,
        token: u64,
        owner: &ProcessIdentity,
    ) -> Result<(), Error> {
        let (floor, pid) = (token.to_string(), owner.pid.to_string());
        let arguments = ["take", "--nonce", nonce, "--floor", &floor, "--pid", &pid, "--comm", &owner.comm];
        self.ask(&arguments, Some(key)).map(drop)
    }

    /// Gives the row of a claim with this nonce back. Not ours to do while whoever started us holds it.
    ///
    /// # Errors
    /// The database cannot be reached: to be tried again.
    pub(super) fn give_back(&self, key: &Key, nonce: &str) -> Result<(), Failure> {
        if nonce.is_empty() || self.own(key).is_some() {
            return Ok(());
        }
        self.ask(&["give-back", "--nonce", nonce], Some(key)).map(drop).map_err(|error| away(&error))
    }

    /// Frees the row for a person; one whose holder has its session stays.
    ///
    /// # Errors
    /// HELD, and what a database answers.
    pub(super) fn free(&self, key: &Key) -> Result<(), Error> {
        self.ask(&["free"], Some(key)).map(drop)
    }

    /// A pass begins: what was seen is old, and take-overs that have ended are taken note of.
    pub(super) fn begin_pass(&self) {
        *self.seen.borrow_mut() = None;
        self.takeovers
            .borrow_mut()
            .retain_mut(|(_, child)| !matches!(child.try_wait(), Ok(Some(_)) | Err(_)));
    }

    /// The row of a ticket, as an onlooker sees it. `Ok(None)`: there is none.
    ///
    /// # Errors
    /// The database does not answer.
    pub(super) fn row(&self, key: &Key) -> Result<Option<ArbiterRow>, Failure> {
        let mut seen = self.seen.borrow_mut();
        let rows = seen.get_or_insert_with(|| self.look().map_err(|error| error.to_string()));
        match rows {
            Ok(rows) => Ok(rows.iter().find(|row| row.name == key.as_str()).cloned()),
            Err(why) => Err(Failure::new(Why::Unreachable, why.clone())),
        }
    }

    /// As [`TicketRows::row`], now.
    ///
    /// # Errors
    /// As [`TicketRows::row`].
    pub(super) fn row_now(&self, key: &Key) -> Result<Option<ArbiterRow>, Failure> {
        *self.seen.borrow_mut() = None;
        self.row(key)
    }

    /// For a verdict; `None`: nothing is known.
    pub(super) fn state(&self, key: &Key) -> Option<ArbiterState> {
        self.row(key).ok().map(|row| row.map_or(ArbiterState::Free, |row| row.state))
    }

    /// Why the last look gave nothing.
    pub(super) fn trouble(&self) -> Option<String> {
        self.seen.borrow().as_ref().and_then(|seen| seen.as_ref().err().cloned())
    }

    /// Every row of this tracker's tickets.
    ///
    /// # Errors
    /// What the database answers.
    pub(super) fn look(&self) -> Result<Vec<ArbiterRow>, Error> {
        let answer = self.ask(&["look"], None)?;
        serde_json::from_value(answer["rows"].clone())
            .map_err(|_| Error::new(Kind::Bug, "orion-via: its answer cannot be read"))
    }

    /// Starts a process that waits for the grace of the row's holder, takes the row, and then puts the ticket back
    /// into the queue.
    ///
    /// # Errors
    /// No process can be started.
    pub(super) fn take_over(&self, key: &Key, working_event: Option<&EventId>) -> Result<(), Error> {
        let mut takeovers = self.takeovers.borrow_mut();
        if takeovers.iter().any(|(other, _)| other == key) {
            return Ok(());
        }
        let mut command = self.holding(key, 0, std::iter::once("-q"))?;
        command.args(&self.shared).arg(TAKE_OVER);
        command
            .args(working_event.map(|event| ["--event", &event.0]).into_iter().flatten())
            .arg(key.as_str());
        // A group of its own: it ends what was begun.
        command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        let child = command.spawn().map_err(|error| elsewhere::cannot_run(&error))?;
        takeovers.push((key.clone(), child));
        Ok(())
    }

    /// Waits for the take-over of a ticket: `true`, it was done.
    pub(super) fn wait_for(&self, key: &Key) -> bool {
        let mut takeovers = self.takeovers.borrow_mut();
        let Some(at) = takeovers.iter().position(|(other, _)| other == key) else { return false };
        takeovers.swap_remove(at).1.wait().is_ok_and(|status| status.success())
    }

    fn ask(&self, arguments: &[&str], key: Option<&Key>) -> Result<Value, Error> {
        let mut command = elsewhere::helper("arbiter")?;
        for (option, value) in
            [("--via", self.place.as_ref().map(OsStr::new)), ("--dir", self.dir.as_deref())]
        {
            command.args(value.map(|value| [OsStr::new(option), value]).into_iter().flatten());
        }
        command.arg("--tickets").arg(&self.tracker).args(arguments);
        command.args(key.map(|key| ["--", key.as_str()]).into_iter().flatten());
        let output = command
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| elsewhere::cannot_run(&error))?;
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if output.status.success() && answer.is_object() {
            return Ok(answer);
        }
        let text = |key: &str| answer["error"][key].as_str().map(str::to_owned);
        let kind = text("kind").and_then(|kind| KINDS.into_iter().find(|it| it.as_str() == kind));
        let message = text("message").unwrap_or_else(|| "orion-via gave no answer".to_owned());
        let error = Error::new(kind.unwrap_or(Kind::Unreachable), message);
        Err(match text("hint") {
            Some(hint) => error.hint(hint),
            None => error,
        })
    }
}

/// What `orion-via` may answer with.
const KINDS: [Kind; 9] = [
    Kind::Held,
    Kind::BeingTaken,
    Kind::UnknownOwner,
    Kind::CannotTell,
    Kind::Unreachable,
    Kind::Config,
    Kind::Usage,
    Kind::NewerRecord,
    Kind::System,
];

/// A database that is away, or does not let us in, keeps nothing else from being done.
fn away(error: &Error) -> Failure {
    Failure::new(Why::Unreachable, error.to_string())
}

/// The last token of a ticket here.
pub(super) fn last_token(claims: &super::Claims, key: &Key) -> u64 {
    let Ok(name) = name_of(key) else { return 0 };
    claims.store.look(&name).record().map_or(0, |record| record.token)
}
