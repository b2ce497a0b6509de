//! `--status-file`: one JSON line per fact, so that "held" and "the command said
//! 75 itself" can be told apart.

use crate::error::{Error, Kind, reason};
use crate::os::clock;
use crate::report::document;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// An open status file, or none.
#[derive(Debug)]
pub(in crate::command) struct StatusFile(Option<File>);

impl StatusFile {
    /// Opens it before anything is taken, so that a bad path costs nothing.
    pub(in crate::command) fn open(path: Option<&Path>) -> Result<Self, Error> {
        let Some(path) = path else { return Ok(Self(None)) };
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path).map_err(|error| {
            Error::new(Kind::CannotCreate, format!("--status-file {}: {}", path.display(), reason(&error)))
        })?;
        Ok(Self(Some(file)))
    }

    /// Writes a fact; best effort, the lock decides.
    pub(in crate::command) fn fact(&self, fact: &str, name: &str, more: &Value) {
        let Some(mut file) = self.0.as_ref() else { return };
        let mut object = json!({"fact": fact, "name": name, "at": clock::wall().rfc3339()});
        if let (Some(object), Some(more)) = (object.as_object_mut(), more.as_object()) {
            object.extend(more.clone());
        }
        drop(file.write_all(format!("{}\n", document(&object)).as_bytes()));
    }
}
