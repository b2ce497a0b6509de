//! `metrics`: the state of all locks for programs that watch.

use super::LockCall;
use super::check::gather;
use crate::cli::lock_seeing::LockMetrics;
use crate::command::open_metrics::Exposition;
use crate::error::Error;
use crate::exit::Status;
use crate::verdict::watchfulness::NameFacts;
use prometheus_client::registry::Unit;

type Value = fn(&NameFacts) -> Option<u64>;

/// Name, help, unit and where the number comes from; a name has no series where that is not known.
const GAUGES: [(&str, &str, Option<Unit>, Value); 11] = [
    ("holders", "How many hold it", None, |facts| Some(facts.holders)),
    ("slots", "The most holders that one of those who hold it lets in", None, |facts| facts.slots),
    ("unknown", "It cannot be told whether it is held", None, |facts| Some(facts.unknown.into())),
    ("stuck", "Its holder promised to tick and fell silent", None, |facts| Some(facts.stuck.into())),
    ("paused", "A person paused it", None, |facts| Some(facts.paused.into())),
    ("held", "How long it has been held", Some(Unit::Seconds), |facts| facts.held_s),
    ("waiting", "How many wait for it", None, |facts| Some(facts.waiting)),
    ("waiting_longest", "How long the first of them has waited", Some(Unit::Seconds), |facts| {
        facts.waiting_s
    }),
    ("skips_in_a_row", "Runs refused or skipped in a row because of its holder", None, |facts| {
        Some(facts.skips)
    }),
    ("last_begun_ago", "How long ago its last run began", Some(Unit::Seconds), |facts| facts.begun_ago_s),
    ("last_status", "Exit status of its last run, where it is known", None, |facts| {
        facts.last_status.map(u64::from)
    }),
];

pub(super) fn metrics(call: &LockCall, args: &LockMetrics) -> Result<Status, Error> {
    if call.report.json {
        return Err(Error::usage("metrics prints OpenMetrics, not JSON").hint("orion-lock --json list"));
    }
    let mut all = gather(call, &args.names, true)?;
    let left_out = all.len().saturating_sub(args.most);
    all.truncate(args.most);
    let mut exposition = Exposition::new("orion_lock");
    for (name, help, unit, value) in GAUGES {
        let series = all.iter().filter_map(|facts| {
            let labels = vec![("name".to_owned(), facts.name.clone())];
            value(facts).map(|number| (labels, number))
        });
        exposition.gauges(name, help, unit, series);
    }
    let left_out = u64::try_from(left_out).unwrap_or(u64::MAX);
    exposition.gauges(
        "names_left_out",
        "Names beyond the most that are shown",
        None,
        [(Vec::new(), left_out)],
    );
    exposition.print(&call.report)
}
