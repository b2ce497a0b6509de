//! `acquire`: take the lock for a process that lives on.

use super::owner::{among, ancestors, any, exported_token, from_environment, missing};
use super::refuse::{Relation, turned_away};
use super::status_file::StatusFile;
use super::wait::{Taken, take};
use super::{Call, busy_code, name};
use crate::cli::lock::Acquire;
use crate::command::store::{Acquired, ON_BEHALF, PulseWish, Request, Store};
use crate::command::tell;
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::model::identity::ProcessIdentity;
use crate::model::name::LockName;
use crate::model::record::VIA_ACQUIRE;
use crate::os::pulse::is_pulse_of;
use crate::verdict::owner::Wish;
use crate::verdict::ownership::Right;
use serde_json::{Map, Value, json};
use std::os::fd::AsFd;

/// Takes it, or says who holds it.
pub(super) fn acquire(call: &Call, args: Acquire) -> Result<Status, Error> {
    let name = name(&args.name)?;
    let busy = busy_code(&args.busy, false)?;
    let owner = owner(&args)?;
    if args.dry_run {
        let line = format!("{name} would be owned by {}", tell::process(&owner));
        drop(if call.report.json {
            call.report.object(&json!({"name": name.as_str(), "owner": owner}))
        } else {
            call.report.data(&line)
        });
        return Ok(Exit::Ok.into());
    }
    let store = call.store()?;
    let mut attrs = Map::new();
    attrs.insert("via".into(), json!(VIA_ACQUIRE));
    if args.owner.for_pid.is_some() {
        attrs.insert(ON_BEHALF.into(), json!(true));
    }
    let stdin = std::io::stdin();
    let pulse = if args.pulse_stdin {
        if !is_pulse_of(store.shelf(), name.as_str(), &stdin) {
            return Err(Error::usage("--pulse-stdin: standard input is not the pulse of this lock")
                .hint(format!("open it first: exec {{P}}<{}/{name}.pulse", store.path().display())));
        }
        PulseWish::Bearer(stdin.as_fd())
    } else {
        PulseWish::Nobody
    };
    let request = Request { owners: vec![owner.clone()], note: args.note.clone(), attrs, pulse };
    match take(&store, &name, &request, &args.wait)? {
        Taken::Yes(acquired) => say(call, &store, &name, &acquired, &owner, args.print_token),
        Taken::No(judged, relation) => {
            let token = judged.record().map(|record| record.token);
            let ours =
                relation == Relation::You || (token.is_some() && exported_token(name.as_str()) == token);
            if args.reentrant && ours {
                return Ok(Exit::Ok.into());
            }
            let none = StatusFile::open(None)?;
            Ok(turned_away(&call.report, &store, &name, &judged, relation, busy, &none))
        }
    }
}

/// Named by an option or by `ORION_OWNER_PID`; there is no default.
fn owner(args: &Acquire) -> Result<ProcessIdentity, Error> {
    if let Some(pid) = args.owner.for_pid {
        return any(pid);
    }
    let callers = ancestors()?;
    let wish = match &args.owner.owner {
        Some(text) => Some(Wish::parse(text)),
        None => from_environment()?,
    };
    match wish {
        Some(wish) => among(&callers, &wish, args.short_lived),
        None => Err(missing(&callers)),
    }
}

/// A token that was asked for and cannot be printed must not leave a lock that nobody can release.
fn say(
    call: &Call,
    store: &Store,
    name: &LockName,
    acquired: &Acquired,
    owner: &ProcessIdentity,
    print_token: bool,
) -> Result<Status, Error> {
    let token = acquired.record.token;
    for line in &acquired.said {
        call.report.warn(line);
    }
    if let Some(ended) = &acquired.reclaimed {
        let who = ended.owners.first().map_or_else(String::new, tell::process);
        call.report.note(&format!("{name}: reclaimed; {who} has ended"));
    }
    call.report.note(&format!("{name}: acquired for {}; token {token}", tell::process(owner)));
    let printed = if call.report.json {
        let value: Value = json!({"name": name.as_str(), "token": token, "owner": owner});
        call.report.object(&value)
    } else if print_token {
        call.report.data(&token.to_string())
    } else {
        Ok(())
    };
    if let Err(error) = printed {
        store.release(name, &Right::Token(token))?;
        return Err(Error::new(
            Kind::Io,
            format!(
                "{name}: the token could not be printed: {}; the lock was released again",
                crate::error::reason(&error)
            ),
        ));
    }
    Ok(Exit::Ok.into())
}
