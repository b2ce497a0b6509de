//! `check`: one line for each trouble, or nothing.

use super::LockCall;
use super::list::skips;
use crate::cli::lock_seeing::LockCheck;
use crate::command::records::{NameState, Records};
use crate::command::tell_state;
use crate::command::typed::name;
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::model::name::LockName;
use crate::model::record::Record;
use crate::model::time::WallTime;
use crate::os::clock;
use crate::report::escape;
use crate::verdict::liveness::State;
use crate::verdict::pause::PauseState;
use crate::verdict::story::runs;
use crate::verdict::watchfulness::{NameFacts, WatchLimits, troubles};
use serde_json::json;
use std::ffi::OsString;

pub(super) fn check(call: &LockCall, args: &LockCheck) -> Result<Status, Error> {
    let limits = WatchLimits {
        held_longer: args.held_longer,
        skips: args.skips,
        last_run_within: args.last_run_within,
        waiting_longer: args.waiting_longer,
    };
    let mut found = Vec::new();
    for facts in gather(call, &args.names, args.waiting_longer.is_some())? {
        found.extend(troubles(&facts, &limits).into_iter().map(|trouble| (facts.name.clone(), trouble)));
    }
    let written = if call.report.json {
        let objects: Vec<_> =
            found.iter().map(|(name, trouble)| json!({"name": name, "trouble": trouble})).collect();
        call.report.object(&json!({ "troubles": objects }))
    } else if found.is_empty() {
        Ok(())
    } else {
        let line =
            |(name, trouble): &(String, String)| format!("{}: {trouble}", escape(name.as_bytes(), 200));
        call.report.data(&found.iter().map(line).collect::<Vec<_>>().join("\n"))
    };
    call.report.or_broken_pipe(written)?;
    Ok(if found.is_empty() { Exit::Ok } else { Exit::Stuck }.into())
}

/// The names that were typed, or all that have a record. `waits`: since when somebody waits is asked, too.
pub(super) fn gather(call: &LockCall, typed: &[OsString], waits: bool) -> Result<Vec<NameFacts>, Error> {
    let wanted = typed.iter().map(|typed| name(typed)).collect::<Result<Vec<LockName>, Error>>()?;
    let Some(store) = call.place_store(&call.place(), false)? else {
        return Ok(wanted
            .iter()
            .map(|name| NameFacts { name: name.as_str().to_owned(), ..NameFacts::default() })
            .collect());
    };
    let mut names = wanted;
    if names.is_empty() {
        names = store.names()?;
        names.extend(store.paused_names()?);
        names.sort();
        names.dedup();
    }
    let now = clock::wall();
    Ok(names.iter().map(|name| facts(&store, name, now, waits)).collect())
}

fn facts(store: &Records, name: &LockName, now: WallTime, waits: bool) -> NameFacts {
    let all = store.state_of(name);
    let ago = |since: WallTime| since.age(now).map(|age| age.as_secs());
    let told = runs(&store.read_log(name.file()));
    let last = told.last();
    // The record knows the last begin also where the log was put aside, and whether anything was executed.
    let began = |record: &Record| WallTime::parse(&record.last_run()?.began);
    let recorded = records(&all).next().is_some();
    let begun = records(&all).filter_map(began).max().or(last.filter(|_| !recorded).map(|run| run.begun));
    let waiting = store.waiting(name);
    NameFacts {
        name: name.as_str().to_owned(),
        holders: held_by(&all).count().try_into().unwrap_or(u64::MAX),
        unknown: tell_state::exit_of(&all) == Exit::Unavailable,
        stuck: tell_state::exit_of(&all) == Exit::Stuck,
        held_s: held_by(&all).filter_map(Record::since).min().and_then(ago),
        slots: held_by(&all).filter_map(Record::slots).max().map(u64::from),
        waiting,
        waiting_s: (waits && waiting > 0)
            .then(|| store.longest_wait(name))
            .flatten()
            .map(|wait| wait.as_secs()),
        skips: skips(store, name, &all),
        paused: matches!(all.pause, PauseState::Paused(_)),
        begun_ago_s: begun.and_then(ago),
        last_status: last.and_then(|run| run.status),
    }
}

fn records(all: &NameState) -> impl Iterator<Item = &Record> {
    all.members.iter().filter_map(|member| member.judged.record())
}

/// The records of those that are proved to hold it.
fn held_by(all: &NameState) -> impl Iterator<Item = &Record> {
    let live = all.members.iter().filter(|member| matches!(member.judged.state(), State::Live(_)));
    live.filter_map(|member| member.judged.record())
}
