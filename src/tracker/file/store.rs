//! One ticket under its guard: both files change together or not at all.
//!
//! The guard file holds a note of the write in progress. Whoever wins the guard
//! after a kill finds it and finishes that write, so that an event of ours never
//! turns into "somebody edited the file".

use super::history::{EDIT, History, Line};
use super::ticket_file::TicketFile;
use crate::error::escape;
use crate::model::ticket::{EventId, Expect, Key, Ticket, TicketChange};
use crate::os::clock;
use crate::os::mask::Blocked;
use crate::os::plain_file::{self, Content, FileStamp, Placed};
use crate::tracker::failure::{Failure, Why};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A ticket is prose; more than this is a mistake.
const TICKET_CAP: u64 = 1 << 20;
/// Some hundred thousand events.
const HISTORY_CAP: u64 = 64 << 20;
/// So many looks, 20 ms apart, at a file that an editor may be just writing.
const HALF_WRITTEN: u32 = 25;
/// A guard is held for a write and a sync.
const GUARD_WAIT: Duration = Duration::from_secs(10);

/// Where the files of one ticket are.
pub(super) struct Paths {
    pub(super) ticket: PathBuf,
    history: PathBuf,
    guard: PathBuf,
    temp: PathBuf,
}

impl Paths {
    pub(super) fn new(dir: &Path, key: &Key) -> Self {
        Self {
            ticket: dir.join(format!("{key}.toml")),
            history: dir.join(format!("{key}.history.jsonl")),
            // A name with a leading dot is not a key, so these can never be a ticket's.
            guard: dir.join(format!(".{key}.guard")),
            temp: dir.join(format!(".{key}.tmp")),
        }
    }
}

/// The write in progress, as the guard file holds it.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    lines: Vec<Line>,
    add: Vec<String>,
    remove: Vec<String>,
    /// The ticket file before the write: while it is this one, the write has not happened.
    inode: u64,
    size: u64,
    modified_ns: String,
    /// The file that shall replace it: while that stands in its place, the write has happened.
    #[serde(default)]
    draft: u64,
}

impl Note {
    fn is_before(&self, stamp: FileStamp) -> bool {
        (stamp.inode, stamp.size, stamp.modified_ns.to_string())
            == (self.inode, self.size, self.modified_ns.clone())
    }
}

/// What a change of labels came to.
#[derive(Debug)]
pub(super) enum FileWrite {
    /// Written. The id of the event by which the first of the added labels came on, if it did.
    Done(Option<EventId>),
    /// A person saved the ticket in the meantime: theirs stands, and was read again.
    Edited,
}

/// Both files as read.
pub(super) struct TicketState {
    pub(super) ticket: Ticket,
    pub(super) history: History,
    file: TicketFile,
    bytes: Vec<u8>,
    stamp: FileStamp,
    mode: u32,
}

/// The ticket alone, for lists: `None` unless its file mentions `label`. A file
/// with an escape in it may mean the label without showing it, and is read.
pub(super) fn read_mentioning(paths: &Paths, key: &Key, label: &str) -> Result<Option<Ticket>, Failure> {
    let content = content(paths, key)?;
    let mentions =
        |needle: &[u8]| needle.is_empty() || content.bytes.windows(needle.len()).any(|at| at == needle);
    // A file being written by an editor is never "without the label".
    if !content.bytes.is_empty() && !mentions(label.as_bytes()) && !content.bytes.contains(&b'\\') {
        return Ok(None);
    }
    let file = TicketFile::parse(&content.bytes).map_err(|why| broken(paths, &why))?;
    file.ticket(key, &paths.ticket, revision(content.stamp)).map(Some).map_err(|why| broken(paths, &why))
}

fn content(paths: &Paths, key: &Key) -> Result<Content, Failure> {
    plain_file::read(&paths.ticket, TICKET_CAP).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            Failure::new(Why::NoTicket, format!("no ticket {key} (no {})", name(&paths.ticket)))
        }
        _ => Failure::local(&format!("cannot read {}", name(&paths.ticket)), &error),
    })
}

fn broken(paths: &Paths, why: &str) -> Failure {
    let why = escape(why.as_bytes(), 200);
    Failure::new(Why::Protocol, format!("{} {why}", name(&paths.ticket))).hint("correct the file")
}

/// Reads both files without the guard.
pub(super) fn read(paths: &Paths, key: &Key) -> Result<TicketState, Failure> {
    let content = content(paths, key)?;
    let history = match plain_file::read(&paths.history, HISTORY_CAP) {
        Ok(content) => History::parse(&content.bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => History::default(),
        Err(error) => return Err(Failure::local(&format!("cannot read {}", name(&paths.history)), &error)),
    };
    let file = TicketFile::parse(&content.bytes).map_err(|why| broken(paths, &why))?;
    let ticket =
        file.ticket(key, &paths.ticket, revision(content.stamp)).map_err(|why| broken(paths, &why))?;
    Ok(TicketState { ticket, history, file, bytes: content.bytes, stamp: content.stamp, mode: content.mode })
}

/// A ticket and its events in agreement: what a person did with an editor is
/// written down first.
pub(super) fn read_explained(paths: &Paths, key: &Key) -> Result<TicketState, Failure> {
    let state = read(paths, key)?;
    if state.history.missing(&state.ticket.labels, state.ticket.closed).is_empty() {
        return Ok(state);
    }
    // Perhaps only a write in progress; under the guard it is the truth.
    Guarded::open(paths, key).map(|guarded| guarded.state)
}

/// A ticket whose guard is ours.
pub(super) struct Guarded<'a> {
    paths: &'a Paths,
    guard: File,
    pub(super) state: TicketState,
    /// A terminal must not stop us in the middle of a change.
    _stops: Blocked,
}

impl<'a> Guarded<'a> {
    /// Wins the guard, finishes what a killed writer began, writes down what a person did.
    pub(super) fn open(paths: &'a Paths, key: &Key) -> Result<Self, Failure> {
        // Before the guard file is made: a mistyped key leaves nothing behind.
        let first = read(paths, key)?;
        let failed =
            |error: io::Error| Failure::local(&format!("cannot lock {}", name(&paths.guard)), &error);
        let stops = Blocked::terminal_stops();
        let guard = plain_file::locked(&paths.guard, guard_mode(first.mode), GUARD_WAIT).map_err(failed)?;
        let guard = guard.ok_or_else(|| {
            Failure::new(
                Why::Unreachable,
                format!("somebody stays in the middle of a change of ticket {key}"),
            )
            .hint(format!("see who: fuser {}", paths.guard.display()))
        })?;
        finish_note(paths, key, &guard)?;
        let mut guarded = Self { paths, guard, state: read(paths, key)?, _stops: stops };
        guarded.explain()?;
        Ok(guarded)
    }

    /// Writes down what a person did.
    fn explain(&mut self) -> Result<(), Failure> {
        let TicketState { ticket, history, .. } = &self.state;
        let missing = history.missing(&ticket.labels, ticket.closed);
        if missing.is_empty() {
            return Ok(());
        }
        let lines = history.lines_for(&missing, clock::wall(), EDIT);
        self.append(lines)
    }

    /// Reads what a person saved. An editor that is just writing leaves half a file for an instant.
    fn look_again(&mut self) -> Result<(), Failure> {
        let key = self.state.ticket.key.clone();
        let mut state = read(self.paths, &key);
        for _ in 0..HALF_WRITTEN {
            if state.is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
            state = read(self.paths, &key);
        }
        self.state = state?;
        self.explain()
    }

    /// Why the ticket is not as expected.
    pub(super) fn broken(&self, expect: &Expect) -> Option<String> {
        expect.broken(&self.state.ticket, &self.state.history.events())
    }

    /// Changes labels: events and ticket, or neither. A person who saved the ticket since it was
    /// read is right: then nothing is changed.
    pub(super) fn change(
        &mut self,
        add: &[String],
        remove: &[String],
        actor: &str,
    ) -> Result<FileWrite, Failure> {
        let on = |label: &&String| self.state.ticket.has(label);
        let off: Vec<String> = remove.iter().filter(on).cloned().collect();
        let new: Vec<String> = add.iter().filter(|label| !on(label)).cloned().collect();
        if off.is_empty() && new.is_empty() {
            return Ok(FileWrite::Done(None));
        }
        let events = off
            .iter()
            .cloned()
            .map(TicketChange::Unlabeled)
            .chain(new.iter().cloned().map(TicketChange::Labeled));
        let lines = self.state.history.lines_for(&events.collect::<Vec<_>>(), clock::wall(), actor);
        let is_mark = |line: &&Line| line.event == "labeled" && line.label.as_ref() == add.first();
        let mark = lines.iter().find(is_mark).map(|line| EventId(line.id.to_string()));
        let draft = draft(self.paths, &mut self.state, &new, &off)?;
        let stamp = self.state.stamp;
        let note = Note {
            lines: lines.clone(),
            add: new,
            remove: off,
            inode: stamp.inode,
            size: stamp.size,
            modified_ns: stamp.modified_ns.to_string(),
            draft: draft.inode,
        };
        let text = serde_json::to_vec(&note).unwrap_or_default();
        self.local(&self.paths.guard, plain_file::overwrite(&self.guard, &text))?;
        let size = plain_file::stamp(&self.paths.history).map_or(0, |stamp| stamp.size);
        let placed = self.append(lines).and_then(|()| place(self.paths, &self.state.bytes));
        // After a failure nothing may be left that the next one would finish.
        let ours = matches!(placed, Ok(Placed::Ours));
        let undone = ours || plain_file::cut(&self.paths.history, size).is_ok();
        let settled = undone && plain_file::overwrite(&self.guard, b"").is_ok();
        match placed {
            // A note that stays is looked at by the next one, who finds that it has happened.
            Ok(Placed::Ours) => Ok(FileWrite::Done(mark)),
            Ok(Placed::Theirs) => self.look_again().map(|()| FileWrite::Edited),
            Err(failure) => {
                drop(std::fs::remove_file(&self.paths.temp));
                Err(failure.maybe_applied(!settled))
            }
        }
    }

    /// Appends a comment.
    pub(super) fn comment(mut self, body: &str, actor: &str) -> Result<(), Failure> {
        let line = self.state.history.comment_line(body, clock::wall(), actor);
        self.append(vec![line])
    }

    fn append(&mut self, lines: Vec<Line>) -> Result<(), Failure> {
        let bytes = self.state.history.bytes(&lines);
        self.local(&self.paths.history, plain_file::append(&self.paths.history, &bytes, self.state.mode))?;
        self.state.history.extend(lines);
        Ok(())
    }

    fn local<T>(&self, path: &Path, outcome: io::Result<T>) -> Result<T, Failure> {
        outcome.map_err(|error| Failure::local(&format!("cannot write {}", name(path)), &error))
    }
}

/// Finishes the write of somebody who was killed in the middle of it.
fn finish_note(paths: &Paths, key: &Key, guard: &File) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::local(&format!("cannot use {}", name(&paths.guard)), &error);
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut &*guard, &mut bytes).map_err(failed)?;
    if bytes.is_empty() {
        return Ok(());
    }
    // A note that does not parse was torn while it was written, and one without any of its lines
    // in the history was not begun: readers have seen the ticket as it was, so that is what it is.
    let mut state = read(paths, key)?;
    if let Ok(note) = serde_json::from_slice::<Note>(&bytes)
        && note.lines.iter().any(|line| state.history.has(line))
    {
        let lost: Vec<Line> = note.lines.iter().filter(|line| !state.history.has(line)).cloned().collect();
        if !lost.is_empty() {
            let bytes = state.history.bytes(&lost);
            plain_file::append(&paths.history, &bytes, state.mode).map_err(failed)?;
            state.history.extend(lost);
        }
        if note.is_before(state.stamp) {
            // Not placed yet. A person who saves in this moment is right, as always.
            draft(paths, &mut state, &note.add, &note.remove)?;
            place(paths, &state.bytes)?;
        } else if state.stamp.inode == note.draft
            && plain_file::stamp(&paths.temp).is_ok_and(|out| !note.is_before(out))
        {
            // Placed over something that a person had saved, and killed before that was seen.
            plain_file::take_back(&paths.ticket, &paths.temp, note.draft, |_| false).map_err(failed)?;
        }
    }
    match std::fs::remove_file(&paths.temp) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    plain_file::overwrite(guard, b"").map_err(failed)
}

/// The ticket as it shall be, beside the ticket as it is.
fn draft(
    paths: &Paths,
    state: &mut TicketState,
    add: &[String],
    remove: &[String],
) -> Result<FileStamp, Failure> {
    state.file.change(add, remove);
    let text = state.file.text();
    plain_file::draft(&paths.temp, text.as_bytes(), state.mode).map_err(|error| cannot_write(paths, &error))
}

fn place(paths: &Paths, read: &[u8]) -> Result<Placed, Failure> {
    plain_file::place(&paths.ticket, &paths.temp, read).map_err(|error| cannot_write(paths, &error))
}

fn cannot_write(paths: &Paths, error: &io::Error) -> Failure {
    Failure::local(&format!("cannot write {}", name(&paths.ticket)), error)
}

fn revision(stamp: FileStamp) -> String {
    format!("{}-{}-{}", stamp.inode, stamp.size, stamp.modified_ns)
}

/// Whoever may write the ticket may lock it.
fn guard_mode(ticket: u32) -> u32 {
    ticket & 0o666 | 0o600
}

fn name(path: &Path) -> String {
    escape(path.as_os_str().as_encoded_bytes(), 300)
}
