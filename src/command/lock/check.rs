//! `check` and `metrics`: for programs that watch.

use super::LockCall;
use super::list::skips;
use crate::cli::lock_seeing::{LockCheck, LockMetrics};
use crate::command::records::Records;
use crate::command::tell;
use crate::command::typed::name;
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::model::name::LockName;
use crate::model::time::WallTime;
use crate::os::clock;
use crate::report::escape;
use crate::verdict::liveness::State;
use crate::verdict::story::runs;
use crate::verdict::watchfulness::{NameFacts, WatchLimits, troubles};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use serde_json::json;
use std::ffi::OsString;

pub(super) fn check(call: &LockCall, args: &LockCheck) -> Result<Status, Error> {
    let limits = WatchLimits {
        held_longer: args.held_longer,
        skips: args.skips,
        last_run_within: args.last_run_within,
    };
    let mut found = Vec::new();
    for facts in gather(call, &args.names)? {
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
    call.report.arrived(written)?;
    Ok(if found.is_empty() { Exit::Ok } else { Exit::Stuck }.into())
}

pub(super) fn metrics(call: &LockCall, args: &LockMetrics) -> Result<Status, Error> {
    if call.report.json {
        return Err(Error::usage("metrics prints OpenMetrics, not JSON").hint("orion-lock --json list"));
    }
    let mut all = gather(call, &args.names)?;
    let left_out = all.len().saturating_sub(args.most);
    all.truncate(args.most);
    let text =
        exposition(&all, left_out).map_err(|_| Error::new(Kind::Bug, "the metrics could not be encoded"))?;
    call.report.arrived(call.report.data(text.trim_end()))?;
    Ok(Exit::Ok.into())
}

/// The names that were typed, or all that have a record.
fn gather(call: &LockCall, typed: &[OsString]) -> Result<Vec<NameFacts>, Error> {
    let wanted = typed.iter().map(|typed| name(typed)).collect::<Result<Vec<LockName>, Error>>()?;
    let Some(store) = call.place_store(&call.place(), false)? else {
        return Ok(wanted
            .iter()
            .map(|name| NameFacts { name: name.to_string(), ..NameFacts::default() })
            .collect());
    };
    let names = if wanted.is_empty() { store.names()? } else { wanted };
    let now = clock::wall();
    Ok(names.iter().map(|name| facts(&store, name, now)).collect())
}

fn facts(store: &Records, name: &LockName, now: WallTime) -> NameFacts {
    let judged = store.look(name);
    let ago = |since: WallTime| since.age(now).map(|age| age.as_secs());
    let held = matches!(judged.state(), State::Live(_));
    let record = judged.record();
    let told = runs(&store.read_log(name.as_str()));
    let last = told.last();
    // The record knows the last begin also where the log was put aside.
    let begun = record.and_then(crate::model::record::Record::since).or(last.map(|run| run.begun));
    NameFacts {
        name: name.to_string(),
        holders: u64::from(held),
        unknown: tell::exit_of(&judged) == Exit::Unavailable,
        stuck: tell::exit_of(&judged) == Exit::Stuck,
        held_s: record.filter(|_| held).and_then(|record| ago(record.since()?)),
        waiting: 0,
        skips: skips(store, name, &judged),
        paused: false,
        begun_ago_s: begun.and_then(ago),
        last_status: last.and_then(|run| run.status),
    }
}

/// One series a name and gauge, in the format of OpenMetrics.
fn exposition(all: &[NameFacts], left_out: usize) -> Result<String, std::fmt::Error> {
    type SeriesLabels = Vec<(String, String)>;
    type Value = fn(&NameFacts) -> Option<u64>;
    let gauges: [(&str, &str, Option<Unit>, Value); 8] = [
        ("holders", "How many hold it", None, |facts| Some(facts.holders)),
        ("unknown", "It cannot be told whether it is held", None, |facts| Some(facts.unknown.into())),
        ("stuck", "Its holder promised to tick and fell silent", None, |facts| Some(facts.stuck.into())),
        ("held", "How long it has been held", Some(Unit::Seconds), |facts| facts.held_s),
        ("waiting", "How many stand in line for it", None, |facts| Some(facts.waiting)),
        ("skips_in_a_row", "Runs refused or skipped in a row by its holder", None, |facts| Some(facts.skips)),
        ("last_begun_ago", "How long ago its last run began", Some(Unit::Seconds), |facts| facts.begun_ago_s),
        ("last_status", "Exit status of its last run, where it is known", None, |facts| {
            facts.last_status.map(u64::from)
        }),
    ];
    let mut registry = Registry::with_prefix("orion_lock");
    for (name, help, unit, value) in gauges {
        let family = Family::<SeriesLabels, Gauge>::default();
        for facts in all {
            if let Some(number) = value(facts) {
                let labels = vec![("name".to_owned(), facts.name.clone())];
                family.get_or_create(&labels).set(i64::try_from(number).unwrap_or(i64::MAX));
            }
        }
        match unit {
            Some(unit) => registry.register_with_unit(name, help, unit, family),
            None => registry.register(name, help, family),
        }
    }
    let more: Gauge = Gauge::default();
    more.set(i64::try_from(left_out).unwrap_or(i64::MAX));
    registry.register("names_left_out", "Names beyond the most that are shown", more);
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}
