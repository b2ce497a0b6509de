//! One mark: whose pane is it, what stood there, what stands there now.

use crate::cli::mark::MarkAct;
use crate::command::records::{Records, Where};
use crate::env::{self, name};
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::model::event::Event;
use crate::model::hook_words::HookWords;
use crate::model::mark::{AgentMark, AgentSaid, Background, MarkSetter};
use crate::model::record::LOCK;
use crate::os::proc::ProcStat;
use crate::os::{clock, lineage, stdin};
use crate::report::escape;
use crate::runner::pane_mark::{self, OwnPane, Whereabouts};
use crate::runner::tmux::Inside;
use crate::runner::{Budget, Fault};
use crate::verdict::marking::{Speaker, speaker};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A server that hangs must not hang the agent: all of it takes at most this long.
const DEADLINE: Duration = Duration::from_secs(6);
/// No single call of tmux gets more.
const CALL: Duration = Duration::from_secs(3);
/// An agent writes its JSON at once, or not at all.
const JSON_PATIENCE: Duration = Duration::from_secs(1);
/// The last words of an agent are part of its JSON.
const JSON_MOST: usize = 4 << 20;
/// Hooks of this many tools may set marks at the same moment.
const TRIES: usize = 8;
/// The reaper's log. No lock can be called so.
const LOG: &str = "_reap";

/// Sets the mark that `act` means.
///
/// # Errors
/// [`Kind::Usage`]; [`Kind::Unreachable`] where nothing was marked.
pub(super) fn set(act: &MarkAct, dir: Option<PathBuf>) -> Result<Status, Error> {
    let budget = Budget::new(Instant::now() + DEADLINE, CALL);
    let automation = match act {
        MarkAct::Claim(claim) => Some(automation(&claim.automation)?),
        _ => None,
    };
    let Some(said) = said(act)? else { return Ok(Exit::Ok.into()) };
    let hint = env::text(name::TMUX).zip(env::text(name::TMUX_PANE));
    let hint = hint.and_then(|(tmux, pane)| Inside::parse(&tmux, &pane));
    let place = Where { dir, user: None };
    let pane = match pane_mark::find(hint.as_ref(), budget).map_err(|fault| not_marked(&fault))? {
        Whereabouts::Pane(pane) => pane,
        Whereabouts::NotInTmux => {
            return Err(Error::new(Kind::Unreachable, "not in a tmux pane, nothing is marked"));
        }
        Whereabouts::Stranger(named) => {
            let who = lineage::callers().ok().and_then(|chain| chain.first().cloned());
            let who = who.map_or_else(|| "a process".to_owned(), |one| process(&one));
            let why = format!("{who} does not descend from any pane there; {named}");
            refused(&place, act.word(), &why);
            return Err(Error::new(Kind::Unreachable, format!("not marked: {why}")));
        }
    };
    if let Some(automation) = automation {
        let mark = AgentMark::after(None, AgentSaid::Claimed, clock::wall()).to_string();
        pane.claim(&automation, &mark, budget).map_err(|fault| not_marked(&fault))?;
        return Ok(Exit::Ok.into());
    }
    say(act, said, &pane, budget, &place)
}

fn say(
    act: &MarkAct,
    said: AgentSaid,
    pane: &OwnPane,
    budget: Budget,
    place: &Where,
) -> Result<Status, Error> {
    let agent = lineage::agent(&pane.callers);
    let callers: Vec<MarkSetter> = pane.callers.iter().map(setter).collect();
    for left in (0..TRIES).rev() {
        let text = pane.mark(budget).map_err(|fault| not_marked(&fault))?;
        let before = AgentMark::parse(&text).ok();
        let has_terminal = agent.is_some_and(|agent| agent.tty_nr != 0);
        let why = match speaker(before.as_ref(), agent.map(setter), has_terminal, &callers) {
            Speaker::Own => None,
            Speaker::Nested => Some(format!("is an agent that the agent of {} started", pane.id)),
            Speaker::Daemon => Some("is a daemon: it has no terminal and may speak for any pane".to_owned()),
        };
        if let Some(why) = why {
            let why = format!("{} {why}", agent.map_or_else(String::new, process));
            refused(place, act.word(), &why);
            return Err(Error::new(Kind::Unreachable, format!("not marked: {why}")));
        }
        let mut mark = AgentMark::after(before.as_ref(), said, clock::wall());
        mark.marker = agent.map(setter).or(before.and_then(|before| before.marker));
        // At the end without a condition: a mark that is handed down to the pane is never the pane's own.
        let expected = (left > 0).then_some(text.as_str());
        if pane.change(expected, &mark.to_string(), budget).map_err(|fault| not_marked(&fault))? {
            return Ok(Exit::Ok.into());
        }
    }
    Err(Error::new(Kind::Unreachable, format!("not marked: the mark of {} changes all the time", pane.id)))
}

/// What the word means; `None` for a message that is not about the end of a turn.
fn said(act: &MarkAct) -> Result<Option<AgentSaid>, Error> {
    Ok(Some(match act {
        MarkAct::Claim(_) => AgentSaid::Claimed,
        MarkAct::Ready => AgentSaid::Ready,
        MarkAct::Busy => AgentSaid::Busy,
        MarkAct::Working(working) => AgentSaid::Idle(Background::Some(working.tasks)),
        MarkAct::Question => AgentSaid::Question,
        MarkAct::Ended => AgentSaid::Ended,
        MarkAct::Install(_) | MarkAct::Check(_) | MarkAct::Profile(_) => return Ok(None),
        MarkAct::Idle(idle) => match &idle.json {
            Some(json) => return notified(json),
            None => {
                let bytes = stdin::read_all(JSON_MOST, JSON_PATIENCE).unwrap_or_default();
                let words = HookWords::parse(&bytes);
                // A reminder is not the end of a turn: it knows nothing of what works in the background.
                match words.event.as_deref() {
                    Some("Notification") => AgentSaid::Reminder,
                    _ => AgentSaid::Idle(words.background),
                }
            }
        },
    }))
}

/// Codex's `notify`: one JSON argument, also about other things than the end of a turn.
fn notified(json: &OsStr) -> Result<Option<AgentSaid>, Error> {
    let fields = serde_json::from_slice::<serde_json::Value>(json.as_encoded_bytes());
    let Some(fields) = fields.ok().filter(serde_json::Value::is_object) else {
        return Err(Error::usage("idle takes no argument but the JSON of a notify setting")
            .hint("orion-mark idle --help"));
    };
    let ended = fields["type"] == "agent-turn-complete";
    Ok(ended.then_some(AgentSaid::Idle(Background::NotSaid)))
}

/// A name that breaks a line could never be told from two.
fn automation(name: &OsStr) -> Result<String, Error> {
    match name.to_str() {
        Some(text) if !text.is_empty() && !text.contains(char::is_control) => Ok(text.to_owned()),
        _ => Err(Error::usage("the name of an automation is text without control characters, and not empty")
            .hint("orion-mark claim --help")),
    }
}

fn setter(stat: &ProcStat) -> MarkSetter {
    MarkSetter { pid: stat.pid, start_ticks: stat.start_ticks }
}

fn process(stat: &ProcStat) -> String {
    format!("pid {} ({})", stat.pid, escape(stat.comm.as_bytes(), 20))
}

fn not_marked(fault: &Fault) -> Error {
    Error::new(Kind::Unreachable, format!("nothing is marked: {}", fault.text()))
}

/// Says in the reaper's log that a mark was not set, once for each reason in a row; only where a state
/// directory exists already.
fn refused(place: &Where, word: &str, why: &str) {
    if let Ok(Some(store)) = Records::open(place, &["locks"], LOCK, false) {
        let detail = Some(format!("{word} by {why}"));
        let last = store.read_log(LOG).pop();
        if last.is_none_or(|last| last.detail != detail) {
            store
                .log_as(LOG, &[Event { detail, ..Event::new("mark-refused", clock::wall().rfc3339(), LOG) }]);
        }
    }
}
