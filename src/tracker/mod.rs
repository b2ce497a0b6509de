//! Ticket trackers: files, servers and programs behind one small trait. Facts in,
//! typed outcomes out; nothing here decides who may have a ticket.
//!
//! How the parts make a claim (every step of it is one call, so that a kill
//! between two of them is one state):
//!
//! 1. `key`, `ticket`, `events`: in the queue? Which round (the event that queued it)?
//! 2. The local record, `intent`.
//! 3. The arbiter: [`Capabilities::conditional`] needs none, step 4 is it; a gate is
//!    [`Tracker::take`] on the queue label, then `events` until they show who took
//!    it; comment order is [`Tracker::comment`], then `comments`.
//! 4. [`Tracker::swap`], which reads the ticket before and after.
//! 5. `events`: the newest working event is ours, its id is the mark.
//!
//! Every later write is a `swap` whose [`Expect`](crate::model::ticket::Expect) carries that mark.

mod failure;
mod file;
mod finding;
pub(crate) mod git_ref;
#[cfg(feature = "http")]
mod gitea;
#[cfg(feature = "http")]
mod github;
#[cfg(feature = "http")]
mod gitlab;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "http")]
mod jira;
mod listing;
mod program;
mod secret;
mod token_supply;

pub(crate) use failure::{Failure, Why};
pub(crate) use finding::TrackerFinding;
pub(crate) use listing::TicketList;
pub(crate) use secret::Secret;
pub(crate) use token_supply::TokenSource;

use crate::model::address::Address;
use crate::model::arbiter::Capabilities;
use crate::model::labels::Labels;
use crate::model::ticket::{Comment, GateTaken, Key, Swap, Swapped, Ticket, TicketEvent};
use std::path::PathBuf;
use std::time::Duration;

/// A place with tickets.
pub(crate) trait Tracker: Send + Sync {
    /// The one canonical key for what a person typed.
    ///
    /// # Errors
    /// [`Why::NoTicket`]: no key of this tracker. Nothing is asked over the network.
    fn key(&self, text: &str) -> Result<Key, Failure>;

    /// What it promises.
    fn can(&self) -> Capabilities;

    /// Every ticket that may be claimed, all pages, the next one first. From an
    /// index that may lag: read the ticket itself before acting on it.
    ///
    /// # Errors
    /// [`Why::NoTracker`] for a project that is not there: never an empty list.
    fn queue(&self) -> Result<TicketList, Failure>;

    /// Every ticket that carries the working label, open or closed, all pages.
    ///
    /// # Errors
    /// As [`Tracker::queue`].
    fn in_flight(&self) -> Result<TicketList, Failure>;

    /// The ticket itself, as it is now.
    ///
    /// # Errors
    /// [`Why::NoTicket`], and what stands between.
    fn ticket(&self, key: &Key) -> Result<Ticket, Failure>;

    /// Everything that happened to its labels and state, oldest first, all pages.
    ///
    /// # Errors
    /// As [`Tracker::ticket`].
    fn events(&self, key: &Key) -> Result<Vec<TicketEvent>, Failure>;

    /// Adds and removes labels, unconditionally, adds first. A label that is on or
    /// off already is not a failure. Callers use [`Tracker::swap`].
    ///
    /// # Errors
    /// As [`Tracker::ticket`]; [`Failure::may_be_applied`] where no answer says.
    fn write(&self, key: &Key, add: &[String], remove: &[String]) -> Result<(), Failure>;

    /// Reads the ticket, checks the expectation, writes, reads it again. One step
    /// only where [`Capabilities::conditional`] says so.
    ///
    /// # Errors
    /// As [`Tracker::write`], for a write that certainly did not happen.
    fn swap(&self, key: &Key, swap: &Swap) -> Result<Swapped, Failure> {
        swap_in_steps(self, key, swap)
    }

    /// Takes one label off as a gate: of all callers, exactly one is told "ours".
    /// Never repeated by itself once it may have arrived, because the second answer
    /// would be about the first call.
    ///
    /// # Errors
    /// A refusal; the label is where it was. [`Why::Setting`] without [`Capabilities::gate`].
    fn take(&self, key: &Key, label: &str) -> Result<GateTaken, Failure>;

    /// All comments, all pages, ascending by id.
    ///
    /// # Errors
    /// As [`Tracker::ticket`]; [`Why::Setting`] without [`Capabilities::comments`].
    fn comments(&self, key: &Key) -> Result<Vec<Comment>, Failure>;

    /// Writes a comment that holds a nonce. Where it is not clear that it arrived,
    /// it looks for its own words before it writes again.
    ///
    /// # Errors
    /// As [`Tracker::comments`].
    fn comment(&self, key: &Key, body: &str) -> Result<(), Failure>;

    /// Makes the marker with this nonce void: deletes the comment, or writes `void NONCE`.
    ///
    /// # Errors
    /// As [`Tracker::comments`].
    fn void(&self, key: &Key, comment: u64, nonce: &str) -> Result<(), Failure>;

    /// Who the token belongs to, as [`Ticket::assignees`] names people; `None` where
    /// nobody can tell.
    ///
    /// # Errors
    /// As [`Tracker::queue`].
    fn me(&self) -> Result<Option<String>, Failure> {
        Ok(None)
    }

    /// The open tickets that must be closed before this one is begun. One request
    /// where [`Ticket::blocked_by`] does not say.
    ///
    /// # Errors
    /// As [`Tracker::ticket`].
    fn blockers(&self, ticket: &Ticket) -> Result<Vec<String>, Failure> {
        Ok(ticket.blocked_by.clone().unwrap_or_default())
    }

    /// Looks at labels, rights and clock; with `create` makes the labels that are missing.
    ///
    /// # Errors
    /// Where the tracker as a whole cannot be used.
    fn check(&self, create: bool) -> Result<Vec<TrackerFinding>, Failure>;

    /// Requests sent so far (programs started, for `command:`); 0 for files.
    fn requests(&self) -> u64 {
        0
    }

    /// How many requests the server still answers to this token in its present span of time, where it says so.
    fn requests_left(&self) -> Option<u64> {
        None
    }
}

/// How to reach a tracker.
#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only servers are asked with a token"))]
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// The label names.
    pub(crate) labels: Labels,
    /// Where the token comes from.
    pub(crate) token: TokenSource,
    /// Jira: the e-mail or login that goes with the token; without it the token is a bearer's.
    pub(crate) user: Option<String>,
    /// Jira: 2 or 3; `None`: 3 on `*.atlassian.net`, else 2.
    pub(crate) jira_version: Option<u8>,
    /// `http://` to another machine than this one.
    pub(crate) allow_http: bool,
    /// Certificates (PEM) to trust instead of the built-in ones.
    pub(crate) ca_file: Option<PathBuf>,
    /// For one request, or one call of a program.
    pub(crate) timeout: Duration,
    /// For one request with all its repetitions: a `retry-after` beyond it is handed to the caller.
    pub(crate) patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            labels: Labels::default(),
            token: TokenSource::Nothing,
            user: None,
            jira_version: None,
            allow_http: false,
            ca_file: None,
            timeout: Duration::from_secs(30),
            patience: Duration::from_secs(45),
        }
    }
}

/// Opens the tracker at an address.
///
/// # Errors
/// What about the settings cannot work.
pub(crate) fn open(address: &Address, options: &Options) -> Result<Box<dyn Tracker>, Failure> {
    if let Some(why) = options.labels.unusable() {
        return Err(Failure::new(Why::Setting, why));
    }
    match address {
        Address::File(dir) => Ok(Box::new(file::FileTracker::open(dir, options.labels.clone())?)),
        #[cfg(feature = "http")]
        Address::GitHub { base, owner, repo } => {
            Ok(Box::new(github::GitHub::open(base, owner, repo, options)?))
        }
        #[cfg(feature = "http")]
        Address::Jira { base, project } => Ok(Box::new(jira::Jira::open(base, project, options)?)),
        #[cfg(feature = "http")]
        Address::GitLab { base, project } => Ok(Box::new(gitlab::GitLab::open(base, project, options)?)),
        #[cfg(feature = "http")]
        Address::Gitea { base, owner, repo } => Ok(Box::new(gitea::Gitea::open(base, owner, repo, options)?)),
        Address::Command(path) => Ok(Box::new(program::TrackerProgram::open(path, options)?)),
        #[cfg(not(feature = "http"))]
        Address::GitHub { .. } | Address::Jira { .. } | Address::GitLab { .. } | Address::Gitea { .. } => {
            Err(Failure::new(Why::Setting, "this build has no HTTP, and so only file: and command: trackers"))
        }
    }
}

/// [`Tracker::swap`] for trackers that do not check and write in one step. A write
/// whose answer was lost is looked for on the ticket; it is sent a second time only
/// while the ticket is still as expected, so that a slow writer never puts a label
/// back on a ticket that moved on.
fn swap_in_steps<T: Tracker + ?Sized>(tracker: &T, key: &Key, swap: &Swap) -> Result<Swapped, Failure> {
    let mut ticket = tracker.ticket(key)?;
    let mut expect = swap.expect.clone();
    let mut lost: Option<Failure> = None;
    for _ in 0..2 {
        let events = if expect.mark.is_some() { tracker.events(key)? } else { Vec::new() };
        if let Some(why) = expect.broken(&ticket, &events) {
            return Ok(match lost {
                None => Swapped::Changed(why),
                Some(lost) => Swapped::Unconfirmed(format!("{lost}; now {why}")),
            });
        }
        let add: Vec<String> = swap.add.iter().filter(|label| !ticket.has(label)).cloned().collect();
        let remove: Vec<String> = swap.remove.iter().filter(|label| ticket.has(label)).cloned().collect();
        let nothing = add.is_empty() && remove.is_empty();
        let written = if nothing { Ok(()) } else { tracker.write(key, &add, &remove) };
        let failure = match written {
            Err(failure) if !failure.may_be_applied() && lost.is_none() => return Err(failure),
            other => other.err(),
        };
        ticket = match settled(tracker, key, swap) {
            Ok(ticket) => ticket,
            Err(failure) => return Ok(Swapped::Unconfirmed(format!("written, then unreadable: {failure}"))),
        };
        if swap.is_done(&ticket) {
            return Ok(Swapped::Done(None));
        }
        let Some(failure) = failure else {
            let labels = show(&ticket.labels);
            return Ok(Swapped::Unconfirmed(format!(
                "the write was accepted and changed nothing: labels {labels}"
            )));
        };
        // Half of it may be ours already.
        expect.has.retain(|label| !swap.remove.contains(label));
        expect.lacks.retain(|label| !swap.add.contains(label));
        lost = Some(failure);
    }
    let lost = lost.map(|failure| format!("{failure}; ")).unwrap_or_default();
    Ok(Swapped::Unconfirmed(format!("{lost}labels now {}", show(&ticket.labels))))
}

/// The ticket after a write: looked at again twice, because a replica may lag.
fn settled<T: Tracker + ?Sized>(tracker: &T, key: &Key, swap: &Swap) -> Result<Ticket, Failure> {
    for pause in [200, 800] {
        let ticket = tracker.ticket(key)?;
        if swap.is_done(&ticket) {
            return Ok(ticket);
        }
        std::thread::sleep(Duration::from_millis(pause));
    }
    tracker.ticket(key)
}

/// Writes a comment that holds a nonce. Where it is not clear that it arrived, it
/// is looked for before it is written again.
fn comment_once<T: Tracker>(
    tracker: &T,
    key: &Key,
    body: &str,
    write: impl Fn() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Err(failure) = write() else { return Ok(()) };
    if !failure.may_be_applied() {
        return Err(failure);
    }
    if tracker.comments(key)?.iter().any(|comment| comment.body.trim() == body) {
        return Ok(());
    }
    write()
}

/// Deletes the comment at `path`. Where we may not, it is made void by a second one: our word is enough.
#[cfg(feature = "http")]
fn void_comment(
    tracker: &impl Tracker,
    http: &http::Http,
    path: &str,
    key: &Key,
    nonce: &str,
) -> Result<(), Failure> {
    let method = ureq::http::Method::DELETE;
    match http.call(&http::HttpCall { method, path, body: None, repeat: http::Repeat::Write })?.status {
        200..=299 | 404 | 410 => Ok(()),
        _ => tracker.comment(key, &format!("void {nonce}")),
    }
}

/// The key of an issue that has a number: `12` or `#12`.
#[cfg(feature = "http")]
fn issue_number(text: &str) -> Result<Key, Failure> {
    let number = text.strip_prefix('#').unwrap_or(text);
    let legal = !number.is_empty()
        && number.len() <= 18
        && !number.starts_with('0')
        && number.bytes().all(|byte| byte.is_ascii_digit());
    legal.then(|| Key::new(number)).flatten().ok_or_else(|| {
        let text = crate::error::escape(text.as_bytes(), 120);
        Failure::new(Why::NoTicket, format!("{text} is not an issue number"))
    })
}

/// What a server that answered "not found" about `path` means, where tickets are numbered issues: the issue, the
/// `kind` of thing that holds it (a repository, a project) with this `name`, or a token that may not see it.
/// `holder` is what the server answers about that thing, `failure` what its first answer says by itself.
#[cfg(feature = "http")]
fn what_is_missing(
    failure: Failure,
    holder: Result<http::HttpAnswer, Failure>,
    path: &str,
    host: &str,
    kind: &str,
    name: &str,
) -> Failure {
    match holder {
        Ok(holder) if holder.status == 404 => {
            Failure::new(Why::NoTracker, format!("{host} has no {kind} {name}"))
                .hint("or the token may not see it")
        }
        Ok(holder) if holder.status < 300 && path.contains("/issues/") => {
            let number = path.split("/issues/").nth(1).and_then(|rest| rest.split(['/', '?']).next());
            Failure::new(Why::NoTicket, format!("no issue {} in {name}", number.unwrap_or_default()))
        }
        Ok(_) => failure,
        Err(other) => other,
    }
}

/// Whose the token is, by the `field` of the server's answer; a token may be nobody's, or not tell.
#[cfg(feature = "http")]
fn account(answer: &http::HttpAnswer, field: &str) -> Option<String> {
    let user: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    user.get(field).and_then(serde_json::Value::as_str).filter(|_| answer.status == 200).map(str::to_owned)
}

/// Labels as they stand in a message.
fn show(labels: &[String]) -> String {
    if labels.is_empty() {
        return "none".to_owned();
    }
    crate::error::escape(labels.join(", ").as_bytes(), 200)
}

#[cfg(all(test, feature = "http"))]
#[path = "../../tests/support/tracker_server.rs"]
pub(crate) mod test_server;
