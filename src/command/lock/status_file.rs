//! `--status-file`: one JSON line per fact, so that "held" and "the command said
//! 75 itself" can be told apart.

use crate::error::{Error, Kind, reason};
use crate::os::clock;
use crate::report::{Report, document};
use nix::libc::ENXIO;
use rustix::fs::OFlags;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// An open status file, or none.
#[derive(Debug)]
pub(in crate::command) struct StatusFile(Option<(File, PathBuf)>);

impl StatusFile {
    /// Opens it before anything is taken, so that a bad path costs nothing. Nobody is waited for: a FIFO must
    /// have its reader already.
    pub(in crate::command) fn open(path: Option<&Path>) -> Result<Self, Error> {
        let Some(path) = path else { return Ok(Self(None)) };
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let file = options.open(path).map_err(|error| {
            let failed = Error::new(
                Kind::CannotCreate,
                format!("--status-file {}: {}", path.display(), reason(&error)),
            );
            match error.raw_os_error() {
                Some(ENXIO) => failed.hint("a FIFO needs a reader before, a socket cannot be opened"),
                _ => failed,
            }
        })?;
        Ok(Self(Some((file, path.to_owned()))))
    }

    /// Did somebody ask for one?
    pub(super) fn is_asked(&self) -> bool {
        self.0.is_some()
    }

    /// Nobody asked for one.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// Writes a fact.
    ///
    /// # Errors
    /// CANTCREAT: it is full, or whoever read it has gone.
    pub(in crate::command) fn try_fact(&self, fact: &str, name: &str, more: &Value) -> Result<(), Error> {
        let Some((file, path)) = &self.0 else { return Ok(()) };
        let mut object = json!({"fact": fact, "name": name, "at": clock::wall().rfc3339()});
        if let (Some(object), Some(more)) = (object.as_object_mut(), more.as_object()) {
            object.extend(more.clone());
        }
        let mut file = file;
        file.write_all(format!("{}\n", document(&object)).as_bytes()).map_err(|error| {
            let what = format!(
                "--status-file {}: '{fact}' could not be written: {}",
                path.display(),
                reason(&error)
            );
            Error::new(Kind::CannotCreate, what)
        })
    }

    /// As [`StatusFile::try_fact`], best effort.
    #[cfg(feature = "postgres")]
    pub(in crate::command) fn fact(&self, fact: &str, name: &str, more: &Value) {
        drop(self.try_fact(fact, name, more));
    }

    /// As [`StatusFile::try_fact`], where nothing depends on it any more: what is lost is said.
    pub(in crate::command) fn fact_or_say(&self, report: &Report, fact: &str, name: &str, more: &Value) {
        if let Err(error) = self.try_fact(fact, name, more) {
            report.warning(&error.to_string());
        }
    }
}
