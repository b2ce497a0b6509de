//! Log files: one line a write, 64 KiB and two old ones. Best effort; nothing here
//! is needed for a decision.

use crate::model::event::{Event, Turned, parse, turn_away};
use crate::os::dir::{Dir, Opened};
use crate::os::flock::{self, Mode};
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// A log is put aside when it is larger than this, bytes.
const FULL: u64 = 64 * 1024;
/// How much of the end is looked at for equal lines, bytes.
const TAIL: u64 = 2 * 1024;
/// How long a writer waits for others before it appends anyway.
const PATIENCE: Duration = Duration::from_millis(100);

fn file_name(name: &str) -> String {
    format!("{name}.jsonl")
}

/// Appends lines.
///
/// # Errors
/// What opening or writing answers; the caller lets it pass.
pub(crate) fn append(dir: &Dir, name: &str, events: &[Event]) -> io::Result<()> {
    let (file, locked) = open_locked(dir, name)?;
    let text: String = events.iter().map(Event::line).collect();
    let length = file.metadata()?.len();
    let end = length + text.len() as u64;
    write_end(&file, &tail(&file, length, 1)?, text)?;
    if locked {
        rotate(dir, name, &file, end)?;
    }
    Ok(())
}

/// Adds a refusal or skip, as a count where the last line is an equal one.
///
/// # Errors
/// As [`append`].
pub(crate) fn add_turned_away(dir: &Dir, name: &str, event: &Event) -> io::Result<Turned> {
    let (file, locked) = open_locked(dir, name)?;
    let length = file.metadata()?.len();
    let tail = tail(&file, length, TAIL)?;
    let turned = turn_away(&tail, event);
    if turned.replace > 0 && locked {
        let at = length - turned.replace as u64;
        // Not the descriptor opened for appending: pwrite ignores the offset there (pwrite(2), BUGS).
        if let Opened::File(file) = dir.open_file(&file_name(name), OFlags::RDWR)? {
            file.write_all_at(turned.line.as_bytes(), at)?;
        }
    } else {
        let line = if turned.replace > 0 { event.line() } else { turned.line.clone() };
        write_end(&file, &tail, line)?;
    }
    if locked {
        rotate(dir, name, &file, length)?;
    }
    Ok(turned)
}

/// Removes the log of a name with its old files; missing ones are fine.
///
/// # Errors
/// EACCES and the like.
pub(crate) fn remove(dir: &Dir, name: &str) -> io::Result<()> {
    ["", ".1", ".2"].iter().try_for_each(|suffix| dir.unlink(&format!("{}{suffix}", file_name(name))))
}

/// Every event of a name, oldest first, the two old files included.
///
/// # Errors
/// What opening or reading answers; a missing file is empty.
pub(crate) fn read(dir: &Dir, name: &str) -> io::Result<Vec<Event>> {
    let mut bytes = Vec::new();
    for suffix in [".2", ".1", ""] {
        if let Opened::File(file) = dir.open_file(&format!("{}{suffix}", file_name(name)), OFlags::RDONLY)? {
            Read::take(file, 16 * FULL).read_to_end(&mut bytes)?;
            bytes.push(b'\n');
        }
    }
    Ok(parse(&bytes))
}

/// The file for appending, and whether its lock was won in time. A file rotated
/// away between open and lock is opened again.
fn open_locked(dir: &Dir, name: &str) -> io::Result<(File, bool)> {
    loop {
        let Opened::File(file) = dir.open_or_create(&file_name(name), OFlags::RDWR | OFlags::APPEND)? else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let file = if flock::try_lock(&file, Mode::Exclusive)? {
            file
        } else {
            let spare = file.try_clone()?;
            match flock::lock_within(file, Mode::Exclusive, PATIENCE)? {
                Some(file) => file,
                None => return Ok((spare, false)),
            }
        };
        if dir.leads_to(&file_name(name), &file)? {
            return Ok((file, true));
        }
    }
}

/// The last bytes of a file of this length.
pub(super) fn tail(file: &File, length: u64, most: u64) -> io::Result<Vec<u8>> {
    let start = length.saturating_sub(most);
    let mut bytes = vec![0; usize::try_from(length - start).unwrap_or(0)];
    file.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}

/// One write; a torn last line is closed first.
pub(super) fn write_end(mut file: &File, tail: &[u8], mut text: String) -> io::Result<()> {
    use std::io::Write;
    if tail.last().is_some_and(|byte| *byte != b'\n') {
        text.insert(0, '\n');
    }
    file.write_all(text.as_bytes())
}

/// Puts a file of about this length aside if it is full, under its lock, with a second look at size and inode.
fn rotate(dir: &Dir, name: &str, file: &File, length: u64) -> io::Result<()> {
    let current = file_name(name);
    if length <= FULL || file.metadata()?.len() <= FULL || !dir.leads_to(&current, file)? {
        return Ok(());
    }
    match dir.rename(&format!("{current}.1"), &format!("{current}.2")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    dir.rename(&current, &format!("{current}.1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_log_is_put_aside_twice_and_then_forgotten() {
        let temp = tempfile::tempdir().expect("dir");
        let dir = Dir::open(temp.path()).expect("open");
        let mut event = Event::new("acquired", "t".into(), "x");
        event.detail = Some("d".repeat(4000));
        for token in 0..80 {
            event.token = Some(token);
            append(&dir, "x", &[event.clone()]).expect("append");
        }
        let mut names: Vec<_> =
            std::fs::read_dir(temp.path()).expect("list").map(|e| e.expect("entry").file_name()).collect();
        names.sort();
        assert_eq!(names, ["x.jsonl", "x.jsonl.1", "x.jsonl.2"]);
        let tokens: Vec<_> = read(&dir, "x").expect("read").iter().filter_map(|event| event.token).collect();
        assert_eq!(tokens.last(), Some(&79));
        assert!(tokens.is_sorted() && tokens.len() < 80 && tokens.len() > 30, "{tokens:?}");
    }

    #[test]
    fn counts_are_written_in_place() {
        let temp = tempfile::tempdir().expect("dir");
        let dir = Dir::open(temp.path()).expect("open");
        for round in 1..=120 {
            let event = Event { token: Some(1), ..Event::new("skipped", format!("t{round}"), "x") };
            assert_eq!(add_turned_away(&dir, "x", &event).expect("log").in_a_row, round);
        }
        let events = read(&dir, "x").expect("read");
        assert_eq!((events.len(), events[0].times()), (1, 120));
    }

    #[test]
    fn a_log_held_by_somebody_is_appended_to_all_the_same() {
        let temp = tempfile::tempdir().expect("dir");
        let dir = Dir::open(temp.path()).expect("open");
        append(&dir, "x", &[Event::new("acquired", "t1".into(), "x")]).expect("append");
        let other = File::open(temp.path().join("x.jsonl")).expect("open");
        assert!(flock::try_lock(&other, Mode::Exclusive).expect("lock"));
        append(&dir, "x", &[Event::new("released", "t2".into(), "x")]).expect("append");
        assert_eq!(read(&dir, "x").expect("read").len(), 2);
    }
}
