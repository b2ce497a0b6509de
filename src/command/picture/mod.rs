//! A picture of what was held when: in the terminal, or as a page of its own.

mod page;
mod scale;
mod show;
mod text;

pub(crate) use show::{show, window};

use crate::model::duration;
use crate::verdict::timeline::{Lane, LaneKind, Window};
use std::time::Duration;

/// Of what it is a picture, and of whom.
pub(crate) struct Drawing {
    /// `Locks`
    pub(crate) head: &'static str,
    /// `orion-lock timeline`
    pub(crate) by: &'static str,
    /// The list of rows in JSON: `locks`.
    pub(crate) key: &'static str,
}

/// `3 runs, 7 skipped, 1 failed, longest 2h10m`, or `at most 3 at once` for slots.
fn summary(lane: &Lane, window: Window) -> String {
    let totals = lane.totals(window);
    if lane.kind == LaneKind::Lease && totals.runs == 0 {
        return "nobody serves it; of before nothing is known".to_owned();
    }
    let mut parts = vec![match totals.runs {
        1 => "1 run".to_owned(),
        count => format!("{count} runs"),
    }];
    if lane.most(window) > 1 {
        parts.push(format!("at most {} at once", lane.most(window)));
    }
    if totals.turned_away > 0 {
        parts.push(format!("{} skipped", totals.turned_away));
    }
    if totals.failed > 0 {
        parts.push(format!("{} failed", totals.failed));
    }
    if totals.longest_s > 0 {
        let least = if totals.longest_is_exact { "" } else { "at least " };
        parts.push(format!("longest {least}{}", duration::show(Duration::from_secs(totals.longest_s))));
    }
    parts.join(", ")
}
