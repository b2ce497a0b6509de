//! `stop`: end the holder that is named by its token; free nothing.

use super::LockCall;
use super::end_holder::{HolderEnd, Wanted, end_holder, not_our_own, still_there};
use crate::cli::lock_control::LockStop;
use crate::command::typed::name;
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::verdict::ownership::Credential;
use serde_json::json;
use std::time::{Duration, Instant};

/// How long to wait, where nothing was said.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn stop(call: &LockCall, args: &LockStop) -> Result<Status, Error> {
    let name = name(&args.name)?;
    let patience = match (args.wait, args.kill_after) {
        (Some(wait), Some(kill)) if kill >= wait => {
            return Err(Error::usage("--kill-after would come when -w is over")
                .hint("give -w a longer time, or leave it out"));
        }
        (Some(wait), _) => wait,
        (None, kill) => PATIENCE.saturating_add(kill.unwrap_or_default()),
    };
    let store = call.holding(&name)?;
    let judged = store.look_for(&name, &Credential::Token(args.token));
    // A lock that was never held under this token is 77; one that was and is free is done.
    store.owned(&name, &judged.found, store.last_token(&name), &Credential::Token(args.token))?;
    not_our_own(&store, &name, &judged)?;
    let now = Instant::now();
    let me = store.me()?;
    let wanted = Wanted {
        token: args.token,
        until: now.checked_add(patience),
        kill_at: args.kill_after.and_then(|after| now.checked_add(after)),
        all_ended: true,
        by: &format!("asked by stop (pid {}, uid {})", me.pid, me.uid),
    };
    match end_holder(&store, &name, &wanted)? {
        HolderEnd::Yes => {
            if call.report.json {
                drop(call.report.object(&json!({"name": name.as_str(), "token": args.token, "ended": true})));
            }
            Ok(Exit::Ok.into())
        }
        HolderEnd::StillThere(judged, left) => {
            let advice = match args.kill_after {
                None => {
                    format!("to kill it: orion-lock stop --kill-after 10s --token {} {name:#}", args.token)
                }
                Some(_) => "it was killed and has not ended: state D, or in a frozen cgroup?".to_owned(),
            };
            Err(still_there(&name, &judged, &left, &advice))
        }
    }
}
