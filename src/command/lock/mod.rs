//! `orion-lock`: one file per subcommand.

mod acquire;
mod breaking;
mod doctor;
mod end_holder;
mod help;
mod hold;
mod list;
mod log;
pub(super) mod owner;
mod refuse;
mod release;
mod replace;
mod run;
mod shim;
mod status;
mod status_file;
mod stop;
mod tick;
mod tree;
mod verify;
mod wait;
mod where_is;

pub(crate) use refuse::count;
pub(super) use run::comm_of;
pub(super) use status::exit_of;

use super::records::{Records, Where};
use crate::cli::Lazy;
use crate::cli::lock::{Lock, LockCommand, LockShared};
use crate::cli::shared::Busy;
use crate::error::Error;
use crate::exit::{Status, may_mean_busy};
use crate::model::name::LockName;
use crate::model::record::LOCK;
use crate::os::mask::Blocked;
use crate::report::{Report, escape};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;

/// Entry of the program.
pub fn main() -> ExitCode {
    super::frame::run("orion-lock", |arguments: Lock, report: &mut Report| {
        report.quiet = arguments.shared.quiet;
        report.verbose = arguments.shared.verbose;
        report.json = arguments.shared.json;
        let call = LockCall { shared: arguments.shared, report: *report, file_size: Blocked::file_size() };
        match arguments.command {
            LockCommand::Run(Lazy(run)) => run::run(call, run),
            LockCommand::Acquire(Lazy(acquire)) => acquire::acquire(&call, acquire),
            LockCommand::Release(Lazy(release)) => release::release(&call, release),
            LockCommand::Verify(Lazy(verify)) => verify::verify(&call, verify),
            LockCommand::Tick(Lazy(tick)) => tick::tick(&call, &tick),
            LockCommand::Hold(Lazy(hold)) => hold::hold(&call, &hold),
            LockCommand::Stop(Lazy(stop)) => stop::stop(&call, &stop),
            LockCommand::Break(Lazy(wish)) => breaking::break_open(&call, &wish),
            LockCommand::Shim(Lazy(shim)) => shim::shim(call, &shim),
            LockCommand::Status(Lazy(status)) => status::status(&call, status),
            LockCommand::List(Lazy(list)) => list::list(&call, &list.whose),
            LockCommand::Log(Lazy(log)) => log::log(&call, log),
            LockCommand::Wait(Lazy(wait)) => wait::until_free(&call, &wait),
            LockCommand::Doctor => doctor::doctor(&call),
            LockCommand::Help(Lazy(topic)) => help::help(&call, &topic),
            LockCommand::Where(Lazy(place)) => where_is::show(&call, &place),
        }
    })
}

/// What every subcommand has at hand.
struct LockCall {
    shared: LockShared,
    report: Report,
    /// SIGXFSZ stays blocked until a command is run.
    file_size: Blocked,
}

impl LockCall {
    fn place(&self) -> Where {
        Where { dir: self.shared.dir.clone(), user: None }
    }

    /// The store for taking; made when missing.
    fn store(&self) -> Result<Records, Error> {
        let store = self.place_store(&self.place(), true)?;
        store.ok_or_else(|| Error::config("the state directory cannot be made"))
    }

    /// The store for looking; `None` when nothing was ever held there.
    fn existing(&self) -> Result<Option<Records>, Error> {
        self.place_store(&self.place(), false)
    }

    fn place_store(&self, place: &Where, create: bool) -> Result<Option<Records>, Error> {
        let store = Records::open(place, &["locks"], LOCK, create)?;
        if let Some(store) = &store
            && store.state.place.overruled
        {
            self.report.say(&format!(
                "ORION_DIR is overruled by /etc/orion/dir: {}",
                store.state.place.path.display()
            ));
        }
        Ok(store)
    }

    /// The directory that would be looked in, for an answer about nothing.
    fn looked_in(&self) -> Result<PathBuf, Error> {
        Ok(self.place().place()?.path.join("locks"))
    }
}

/// A name that a person typed.
pub(crate) fn name(text: &OsStr) -> Result<LockName, Error> {
    LockName::parse(text).map_err(|why| {
        let shown = escape(text.as_bytes(), 60);
        let hint = if why.starts_with("reads as a duration") {
            None
        } else {
            Some("for example: sync, nightly-backup, ticket.42")
        };
        let error = Error::usage(format!("'{shown}' {}{why}", if hint.is_some() { "is " } else { "" }));
        match hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    })
}

/// The code for "busy": 75 or what `-E` says.
pub(crate) fn busy_code(busy: &Busy, zero_allowed: bool) -> Result<Status, Error> {
    match busy.busy_code {
        None => Ok(crate::exit::Exit::Skip.into()),
        Some(0) if !zero_allowed => Err(Error::usage("-E 0 would make a refusal look like an acquired lock")
            .hint("use another code, 1 to 63")),
        Some(code) if may_mean_busy(code) => Ok(Status::chosen(code)),
        Some(code) => {
            Err(Error::usage(format!("-E {code} has a meaning already"))
                .hint("use 0 to 63, 75, or 79 to 125"))
        }
    }
}
