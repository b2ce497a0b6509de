//! What is said to whoever asked not to run again: which run it was, and when.

use super::local_time;
use super::records::RefusedAgain;
use crate::error::{Error, Kind};
use crate::model::duration;
use crate::model::last_run::RepeatTerms;
use crate::model::name::LockName;
use crate::model::time::WallTime;
use crate::report::escape;
use crate::verdict::repeat::NotNow;
use std::time::Duration;

/// How much of a key is shown.
const SHOWN: usize = 120;

/// The run that is the reason, wherever that was read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RanWords<'a> {
    pub(crate) key: Option<&'a str>,
    pub(crate) began: Option<WallTime>,
    pub(crate) ended_ago: Option<Duration>,
    /// Nobody saw its end; that long ago it was found.
    pub(crate) is_found: bool,
    pub(crate) status: Option<i64>,
    pub(crate) token: Option<u64>,
}

/// The refusal of a name on this machine.
pub(crate) fn refusal(name: &LockName, refused: &RefusedAgain) -> Error {
    let (last, end) = (&refused.last, refused.last.ended.as_ref());
    let words = RanWords {
        key: last.key.as_deref(),
        began: WallTime::parse(&last.began),
        ended_ago: refused.ended_ago,
        is_found: end.is_some_and(|end| end.found),
        status: end.and_then(|end| end.status).map(i64::from),
        token: Some(last.token),
    };
    error(name.as_str(), refused.why, &words)
}

/// The refusal, with its kind.
pub(crate) fn error(name: &str, why: NotNow, ran: &RanWords<'_>) -> Error {
    match why {
        NotNow::RanAlready => Error::new(Kind::RanAlready, ran_already(name, ran)),
        NotNow::TooSoon(left) => {
            // Rounded up: in that time it may, not just before.
            let left = Duration::from_secs(left.as_secs() + u64::from(left.subsec_nanos() > 0));
            let left = duration::show(left);
            Error::new(Kind::TooSoon, format!("{}; it may run again in {left}", too_soon(name, ran)))
        }
    }
}

/// `--once`
pub(crate) fn ran_already(name: &str, ran: &RanWords<'_>) -> String {
    let key = escape(ran.key.unwrap_or_default().as_bytes(), SHOWN);
    format!("{name}: it has run for '{key}' already{}", last_run(ran))
}

/// `--cooldown`
pub(crate) fn too_soon(name: &str, ran: &RanWords<'_>) -> String {
    format!("{name}: its last run ended too short ago{}", last_run(ran))
}

fn last_run(ran: &RanWords<'_>) -> String {
    let began = ran.began.map_or_else(String::new, |at| format!(" began {}", local_time::show_long(at)));
    let word = if ran.is_found { "was found ended" } else { "ended" };
    let ended = ran.ended_ago.map_or_else(String::new, |ago| format!(", {word} {} ago", duration::show(ago)));
    let status = ran.status.map_or_else(String::new, |status| format!(" with {status}"));
    let token = ran.token.map_or_else(String::new, |token| format!("; token {token}"));
    format!(": that run{began}{ended}{status}{token}")
}

/// What the log says of it: without a time, so that equal ones in a row are one line.
pub(crate) fn detail(refused: &RefusedAgain, asked: &RepeatTerms) -> String {
    let token = refused.last.token;
    match refused.why {
        NotNow::RanAlready => format!("has run for this key already; that run has token {token}"),
        NotNow::TooSoon(_) => format!(
            "--cooldown {} is not over; the last run has token {token}",
            duration::show(asked.cooldown.unwrap_or_default())
        ),
    }
}
