//! `file:DIR`: tickets as files, for one person or a team on one file system.

mod history;
mod store;
mod ticket_file;

use crate::error::Kind;
use crate::error::escape;
use crate::model::arbiter::Capabilities;
use crate::model::labels::Labels;
use crate::model::ticket::{Comment, GateTaken, Key, Swap, Swapped, Ticket, TicketEvent};
use crate::tracker::failure::{Failure, Why};
use crate::tracker::{TicketList, Tracker, TrackerFinding};
use std::path::{Path, PathBuf};
use store::{FileWrite, Guarded, Paths};

/// Who did what we did.
const ACTOR: &str = "orion-claim";

/// So often a person may save a ticket while we write it.
const EDITS: u32 = 20;

fn keeps_changing(key: &Key) -> Failure {
    Failure::new(Why::Unreachable, format!("somebody keeps saving ticket {key} while it is written"))
}

/// A directory of tickets.
pub(super) struct FileTracker {
    dir: PathBuf,
    labels: Labels,
}

impl FileTracker {
    /// # Errors
    /// [`Why::NoTracker`] when it is not a directory.
    pub(super) fn open(dir: &Path, labels: Labels) -> Result<Self, Failure> {
        let tracker = Self { dir: dir.to_owned(), labels };
        if tracker.dir.is_dir() {
            return Ok(tracker);
        }
        let dir = tracker.name();
        Err(Failure::new(Why::NoTracker, format!("no directory {dir}")).hint(format!("mkdir -p {dir}")))
    }

    fn name(&self) -> String {
        escape(self.dir.as_os_str().as_encoded_bytes(), 300)
    }

    /// Every ticket whose file mentions `label` and that is as `wanted` says.
    fn list(&self, label: &str, wanted: impl Fn(&Ticket) -> bool) -> Result<TicketList, Failure> {
        let failed = |error| match std::io::Error::kind(&error) {
            std::io::ErrorKind::NotFound => {
                Failure::new(Why::NoTracker, format!("no directory {}", self.name()))
            }
            _ => Failure::local(&format!("cannot list {}", self.name()), &error),
        };
        let mut listing = TicketList::default();
        for entry in std::fs::read_dir(&self.dir).map_err(failed)? {
            let file = entry.map_err(failed)?.file_name();
            let stem = file.to_str().and_then(|file| file.strip_suffix(".toml"));
            let Some(key) = stem.and_then(Key::new) else { continue };
            match store::read_mentioning(&Paths::new(&self.dir, &key), &key, label) {
                Ok(Some(ticket)) if wanted(&ticket) => listing.tickets.push(ticket),
                Ok(_) => {}
                // Removed since the directory was read.
                Err(failure) if failure.why() == Why::NoTicket => {}
                Err(failure) => listing.broken.push(failure.to_string()),
            }
        }
        listing.tickets.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| natural(&a.key, &b.key)));
        listing.broken.sort();
        Ok(listing)
    }
}

/// By the numbers in the keys, so that 10 comes after 9.
fn natural(a: &Key, b: &Key) -> std::cmp::Ordering {
    let parts = |key: &Key| -> (String, u64) {
        let text = key.as_str();
        let head = text.trim_end_matches(|c: char| c.is_ascii_digit());
        (head.to_owned(), text[head.len()..].parse().unwrap_or(u64::MAX))
    };
    parts(a).cmp(&parts(b)).then_with(|| a.cmp(b))
}

impl Tracker for FileTracker {
    fn key(&self, text: &str) -> Result<Key, Failure> {
        Key::new(text).ok_or_else(|| {
            let text = escape(text.as_bytes(), 120);
            Failure::new(Why::NoTicket, format!("{text} is not a ticket key"))
                .hint("use A-Z a-z 0-9 . _ -, a letter or digit first, at most 100")
        })
    }

    fn can(&self) -> Capabilities {
        Capabilities { remote: false, event_ids: true, conditional: true, gate: true, comments: true }
    }

    fn queue(&self) -> Result<TicketList, Failure> {
        self.list(&self.labels.queue, |ticket| self.labels.is_wished(ticket))
    }

    fn in_flight(&self) -> Result<TicketList, Failure> {
        self.list(&self.labels.working, |ticket| self.labels.in_flight(ticket))
    }

    fn ticket(&self, key: &Key) -> Result<Ticket, Failure> {
        let paths = Paths::new(&self.dir, key);
        match store::read_explained(&paths, key) {
            // Who may only read may read; its events are then not complete, and not shown.
            Err(failure) if failure.why() == Why::Local(Kind::CannotCreate) => {
                store::read(&paths, key).map(|state| state.ticket)
            }
            other => other.map(|state| state.ticket),
        }
    }

    fn events(&self, key: &Key) -> Result<Vec<TicketEvent>, Failure> {
        store::read_explained(&Paths::new(&self.dir, key), key).map(|state| state.history.events())
    }

    fn write(&self, key: &Key, add: &[String], remove: &[String]) -> Result<(), Failure> {
        let paths = Paths::new(&self.dir, key);
        let mut guarded = Guarded::open(&paths, key)?;
        for _ in 0..EDITS {
            if let FileWrite::Done(_) = guarded.change(add, remove, ACTOR)? {
                return Ok(());
            }
        }
        Err(keeps_changing(key))
    }

    fn swap(&self, key: &Key, swap: &Swap) -> Result<Swapped, Failure> {
        let paths = Paths::new(&self.dir, key);
        let mut guarded = Guarded::open(&paths, key)?;
        let actor = swap.signature.as_deref().unwrap_or(ACTOR);
        let mut edits = 0;
        let mark = loop {
            // Also after a person's edit: it may say that the ticket is nobody's any more.
            if let Some(why) = guarded.broken(&swap.expect) {
                return Ok(Swapped::Changed(why));
            }
            match guarded.change(&swap.add, &swap.remove, actor) {
                Ok(FileWrite::Done(mark)) => break mark,
                Ok(FileWrite::Edited) if edits < EDITS => edits += 1,
                Ok(FileWrite::Edited) => return Err(keeps_changing(key)),
                Err(failure) if failure.may_be_applied() => {
                    return Ok(Swapped::Unconfirmed(failure.to_string()));
                }
                Err(failure) => return Err(failure),
            }
        };
        // Whoever removes a guard file can let two write at once: the ticket itself must show it.
        let after = store::read(&paths, key)?.ticket;
        if swap.is_done(&after) {
            return Ok(Swapped::Done(mark));
        }
        Ok(Swapped::Unconfirmed(format!("labels now {}", super::show(&after.labels))))
    }

    fn take(&self, key: &Key, label: &str) -> Result<GateTaken, Failure> {
        let paths = Paths::new(&self.dir, key);
        let mut guarded = Guarded::open(&paths, key)?;
        for _ in 0..EDITS {
            if !guarded.state.ticket.has(label) {
                return Ok(GateTaken::Gone);
            }
            if let FileWrite::Done(_) = guarded.change(&[], &[label.to_owned()], ACTOR)? {
                return Ok(GateTaken::Ours);
            }
        }
        Err(keeps_changing(key))
    }

    fn comments(&self, key: &Key) -> Result<Vec<Comment>, Failure> {
        store::read(&Paths::new(&self.dir, key), key).map(|state| state.history.comments())
    }

    fn comment(&self, key: &Key, body: &str) -> Result<(), Failure> {
        let paths = Paths::new(&self.dir, key);
        Guarded::open(&paths, key)?.comment(body, ACTOR)
    }

    fn void(&self, key: &Key, _comment: u64, nonce: &str) -> Result<(), Failure> {
        self.comment(key, &format!("void {nonce}"))
    }

    fn blockers(&self, ticket: &Ticket) -> Result<Vec<String>, Failure> {
        let open = |text: &&String| {
            // One that cannot be found or read is not known to be closed.
            let read = Key::new(text).map(|key| store::read(&Paths::new(&self.dir, &key), &key));
            !matches!(read, Some(Ok(state)) if state.ticket.closed)
        };
        Ok(ticket.blocked_by.iter().flatten().filter(open).cloned().collect())
    }

    fn check(&self, _create: bool) -> Result<Vec<TrackerFinding>, Failure> {
        let all = self.list("", |_| true)?;
        let mut findings =
            vec![TrackerFinding::good(format!("{} tickets in {}", all.tickets.len(), self.name()))];
        findings.extend(all.broken.into_iter().map(TrackerFinding::bad));
        Ok(findings)
    }
}

#[cfg(test)]
mod tests;
