//! `orion-lock`: one file per subcommand.

mod acquire;
mod breaking;
mod check;
mod doctor;
mod end_holder;
mod exports;
mod help;
mod hold;
mod list;
mod log;
mod metrics;
mod pause;
mod prune;
pub(super) mod refuse;
mod release;
mod replace;
mod run;
mod status;
pub(super) mod status_file;
mod stop;
mod tick;
mod timeline;
pub(super) mod tree;
mod verify;
pub(super) mod wait;
mod where_is;
mod whose;

use super::records::{Records, Where, not_owner};
use super::{elsewhere, owner, shim};
use crate::cli::Lazy;
use crate::cli::lock::{Lock, LockCommand, LockShared};
use crate::command::local_time;
use crate::error::Error;
use crate::model::name::LockName;
use crate::model::record::LOCK;
use crate::os::mask::Blocked;
use crate::report::Report;
use crate::verdict::ownership::Credential;
use std::path::PathBuf;
use std::process::ExitCode;

/// Entry of the program.
pub fn main() -> ExitCode {
    super::frame::run("orion-lock", |arguments: Lock, report: &mut Report| {
        report.quiet = arguments.shared.quiet;
        report.verbose = arguments.shared.verbose;
        report.json = arguments.shared.json;
        if arguments.shared.utc {
            local_time::use_utc();
        }
        if is_for_helper(&arguments) {
            return Err(elsewhere::become_helper("lock"));
        }
        let call = LockCall { shared: arguments.shared, report: *report, file_size: Blocked::file_size() };
        match arguments.command {
            LockCommand::Run(Lazy(run)) => run::run(call, run),
            LockCommand::Acquire(Lazy(acquire)) => acquire::acquire(&call, acquire),
            LockCommand::Release(Lazy(release)) => release::release(&call, release),
            LockCommand::Verify(Lazy(verify)) => verify::verify(&call, verify),
            LockCommand::Tick(Lazy(tick)) => tick::tick(&call, &tick),
            LockCommand::Hold(Lazy(hold)) => hold::hold(&call, &hold),
            LockCommand::Pause(Lazy(args)) => pause::pause(&call, &args),
            LockCommand::Resume(Lazy(args)) => pause::resume(&call, &args),
            LockCommand::Stop(Lazy(stop)) => stop::stop(&call, &stop),
            LockCommand::Break(Lazy(args)) => breaking::break_open(&call, &args),
            LockCommand::Shim(Lazy(shim)) => shim::become_command(
                call.file_size,
                &shim,
                Error::usage("this is what 'run --tree' starts; it is not for people")
                    .hint("orion-lock run --tree NAME CMD [ARG...]"),
                "the supervisor gave up or ended before the lock was in place, so nothing was run",
            ),
            LockCommand::Status(Lazy(status)) => status::status(&call, status),
            LockCommand::List(Lazy(list)) if list.names => list::names(&call, &list.whose),
            LockCommand::List(Lazy(list)) => list::list(&call, &list),
            LockCommand::Prune(Lazy(args)) => prune::prune(&call, &args),
            LockCommand::Log(Lazy(log)) => log::log(&call, log),
            LockCommand::Check(Lazy(check)) => check::check(&call, &check),
            LockCommand::Metrics(Lazy(metrics)) => metrics::metrics(&call, &metrics),
            LockCommand::Timeline(Lazy(timeline)) => timeline::timeline(&call, &timeline),
            LockCommand::Wait(Lazy(wait)) => wait::until_free(&call, &wait),
            LockCommand::Doctor => doctor::doctor(&call),
            LockCommand::Help(Lazy(topic)) => help::help(&call, &topic),
            LockCommand::Where(Lazy(place)) => where_is::show(&call, &place),
            LockCommand::Init(_) => Err(elsewhere::only_with_via("init")),
        }
    })
}

/// Locks of many machines have a program of their own; what is about this machine alone stays here.
fn is_for_helper(arguments: &Lock) -> bool {
    let ours =
        matches!(arguments.command, LockCommand::Help(_) | LockCommand::Shim(_) | LockCommand::Where(_));
    !ours && elsewhere::is_meant(arguments.shared.via.as_deref())
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

    /// The records, for whoever says that he holds `name`.
    fn holding(&self, name: &LockName) -> Result<Records, Error> {
        match self.existing()? {
            Some(store) => Ok(store),
            None => Err(not_owner(name, &format!("never held in {}", self.looked_in()?.display()))),
        }
    }

    fn place_store(&self, place: &Where, create: bool) -> Result<Option<Records>, Error> {
        let store = Records::open(place, &["locks"], LOCK, create)?;
        if let Some(store) = &store
            && store.state.place.overruled
        {
            self.report.notice(&format!(
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

/// The token or owner that was named, or the token that `run` exported for this name, or `ORION_OWNER_PID`.
fn credential(token: Option<u64>, owner: Option<&str>, name: &LockName) -> Result<Credential, Error> {
    owner::credential(token, owner, || owner::exported_token(name), name.as_str())
}
