//! What a command wrote to its stderr, kept for people: only with `--keep-output`, because nobody knows
//! what an agent prints. The file is the command's own while it runs, so that the end of this program
//! neither stops the command nor loses a word of it.

use super::Claims;
use crate::cli::claim_run::ClaimHow;
use crate::error::{Error, Kind, reason};
use crate::model::claim::{Attrs, CommandResult};
use crate::model::duration;
use crate::model::ticket::{Expect, Key};
use crate::os::{plain_file, signals};
use crate::report::{Report, escape};
use crate::tracker::Failure;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// So much stays, bytes.
const KEPT: u64 = 4096;
/// So much of one line is shown.
const LINE: usize = 200;

/// The file of one run.
#[derive(Debug)]
pub(super) struct KeptOutput {
    path: PathBuf,
    file: File,
}

/// Asked before a ticket is claimed: can files be made in `dir`? It is made where only it is missing.
///
/// # Errors
/// CANTCREAT.
fn check(dir: &Path) -> Result<(), Error> {
    let failed = |error: std::io::Error| {
        Error::new(Kind::CannotCreate, format!("--keep-output {}: {}", dir.display(), reason(&error)))
            .hint("nothing was claimed")
    };
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    if !dir.is_dir() {
        return Err(failed(rustix::io::Errno::NOTDIR.into()));
    }
    rustix::fs::access(dir, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)
        .map_err(|errno| failed(errno.into()))
}

impl KeptOutput {
    /// A new file.
    ///
    /// # Errors
    /// CANTCREAT.
    pub(super) fn open(dir: &Path, key: &Key, token: u64) -> Result<Self, Error> {
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
        let path = dir.join(format!("{key}.{token}.stderr"));
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(|error| Error::io(&path.display().to_string(), &error))?;
        Ok(Self { path, file })
    }

    /// What the command gets as its stderr.
    ///
    /// # Errors
    /// EMFILE and the like.
    pub(super) fn stderr(&self) -> std::io::Result<File> {
        self.file.try_clone()
    }

    /// Its path, for the record.
    pub(super) fn path(&self) -> String {
        self.path.display().to_string()
    }

    /// Nothing writes to it any more: what stays is its end.
    pub(super) fn cut(&self, report: &Report) {
        let cut = || {
            let size = plain_file::stamp(&self.path)?.size;
            if size > KEPT {
                let temp = self.path.with_extension("stderr.tmp");
                plain_file::replace(&self.path, &temp, &plain_file::end(&self.path, KEPT)?, 0o600)?;
            }
            std::io::Result::Ok(())
        };
        if let Err(error) = cut() {
            report.detail(&format!("{}: {}", self.path.display(), reason(&error)));
        }
    }
}

/// The last lines that a command wrote, at most `most` of them, safe for a terminal.
pub(super) fn last_lines(path: &str, most: usize) -> Vec<String> {
    let bytes = plain_file::end(Path::new(path), KEPT).unwrap_or_default();
    let lines: Vec<&[u8]> =
        bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).collect();
    lines[lines.len().saturating_sub(most)..].iter().map(|line| escape(line.trim_ascii_end(), LINE)).collect()
}

impl ClaimHow {
    /// Asked before a ticket is claimed: can what is asked for be done at all?
    ///
    /// # Errors
    /// CANTCREAT for a directory without room for files, CONFIG for a tracker without comments.
    pub(super) fn check(&self, claims: &Claims) -> Result<(), Error> {
        if let Some(dir) = &self.keep_output {
            check(dir)?;
        }
        if self.comment && !claims.tracker.can().comments {
            let tracker = claims.settings.address.canonical();
            return Err(
                Error::config(format!("--comment: {tracker} takes no comments")).hint("nothing was claimed")
            );
        }
        Ok(())
    }
}

/// Says on the ticket how the command ended, while the ticket is ours, and before it moves: what is written
/// after that could be taken for a person's hand. A comment is never worth a hand-over.
pub(super) fn comment(claims: &Claims, key: &Key, attrs: &Attrs, result: &CommandResult, token: u64) {
    let working = &claims.settings.labels.working;
    let mark = attrs.working_event().map(|id| (working.clone(), id));
    let write = || -> Result<Option<String>, Failure> {
        let events = if mark.is_some() { claims.tracker.events(key)? } else { Vec::new() };
        let expect = Expect { has: vec![working.clone()], mark, ..Expect::default() };
        match expect.broken(&claims.tracker.ticket(key)?, &events) {
            Some(why) => Ok(Some(why)),
            None => {
                claims.tracker.comment(key, &sentence(result, &claims.settings.host, token)).map(|()| None)
            }
        }
    };
    match write() {
        Ok(None) => {}
        Ok(Some(why)) => claims.report.detail(&format!("{key}: no comment was written: {why}")),
        Err(failure) => claims.report.warning(&format!("{key}: no comment was written: {failure}")),
    }
}

/// What is known of the end, and of which claim it was, so that a lost answer can be looked for.
fn sentence(result: &CommandResult, host: &str, token: u64) -> String {
    let how = match result.signal {
        Some(signal) => format!("was killed by {}", signals::name(signal)),
        None => format!("ended with status {}", result.status),
    };
    let ran = duration::show(Duration::from_millis(result.ran_ms));
    format!("orion-claim: the command {how} after {ran} (host {host}, token {token})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::marker::Marker;

    #[test]
    fn a_comment_for_people_is_no_marker() {
        let result =
            CommandResult { status: 137, signal: Some(9), ran_ms: 61_000, at: String::new(), stderr: None };
        let said = sentence(&result, "pi", 7);
        assert_eq!(said, "orion-claim: the command was killed by SIGKILL after 1m1s (host pi, token 7)");
        assert_eq!(Marker::parse(&said), None);
    }
}
