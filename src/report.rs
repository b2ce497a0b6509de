//! All talk. Data goes to stdout, everything else to stderr with the program's
//! name before it. Nothing here can panic on a closed pipe or a full disk, and
//! nothing else in the crate prints.

pub(crate) use crate::error::escape;
use crate::error::{Error, Kind};
use serde_json::{Value, json};
use std::io::{self, Write};

/// How a tool talks in this call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    /// The program's name, before every line on stderr.
    pub(crate) program: &'static str,
    /// `-q`: no refusals and skips.
    pub(crate) quiet: bool,
    /// `-v`: evidence too.
    pub(crate) verbose: bool,
    /// `--json`: data and errors as one object.
    pub(crate) json: bool,
}

impl Report {
    /// A report with none of the switches.
    pub(crate) fn new(program: &'static str) -> Self {
        Self { program, quiet: false, verbose: false, json: false }
    }

    /// Writes data and a newline to stdout.
    ///
    /// # Errors
    /// What stdout answers. A closed pipe is an error too: whoever must know that
    /// the data arrived (a token) decides on it, the others ignore it.
    pub(crate) fn data(&self, text: &str) -> io::Result<()> {
        self.bytes(text.as_bytes())
    }

    /// As [`Report::data`], for what need not be UTF-8: a path.
    ///
    /// # Errors
    /// As [`Report::data`].
    pub(crate) fn bytes(&self, bytes: &[u8]) -> io::Result<()> {
        if stdout_was_closed() {
            return Err(rustix::io::Errno::BADF.into());
        }
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.write_all(b"\n")?;
        stdout.flush()
    }

    /// What became of data that was asked for: a reader that closed the pipe has what it wanted,
    /// anything else is IOERR.
    ///
    /// # Errors
    /// [`Kind::Io`].
    pub(crate) fn or_broken_pipe(&self, written: io::Result<()>) -> Result<(), Error> {
        match written {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Error::new(Kind::Io, format!("stdout: {}", crate::error::reason(&error))))
            }
            _ => Ok(()),
        }
    }

    /// Writes one JSON object to stdout, `"schema": 1` first.
    ///
    /// # Errors
    /// As [`Report::data`].
    pub(crate) fn object(&self, value: &Value) -> io::Result<()> {
        self.data(&document(value))
    }

    /// A line for people that `-q` silences: refusals and skips.
    pub(crate) fn notice(&self, line: &str) {
        if !self.quiet {
            self.warning(line);
        }
    }

    /// Does nobody read a refusal, because `-q` silences its line and no object is printed in its place?
    pub(crate) fn hides_refusals(&self) -> bool {
        self.quiet && !self.json
    }

    /// A line for people that only `-v` brings: evidence.
    pub(crate) fn detail(&self, line: &str) {
        if self.verbose {
            self.warning(line);
        }
    }

    /// A line nothing silences.
    pub(crate) fn warning(&self, line: &str) {
        // One write, so that lines of many processes on one terminal or mail stay whole.
        let line = format!("{}: {line}\n", self.program);
        drop(io::stderr().write_all(line.as_bytes()));
    }

    /// A failure: the line on stderr, and with `--json` the object on stdout.
    /// `-q` silences it only where `quietable` says that it is a refusal.
    pub(crate) fn error(&self, error: &Error, quietable: bool) {
        if self.json {
            drop(self.object(&json!({ "error": error_object(error) })));
        }
        if quietable {
            self.notice(&error.to_string());
        } else {
            self.warning(&error.to_string());
        }
    }
}

/// Was this process started without a stdout? The runtime then opens /dev/null in its place,
/// for reading and writing, which nobody does who redirects there.
fn stdout_was_closed() -> bool {
    use rustix::fs::{OFlags, fcntl_getfl, fstat};
    let stdout = io::stdout();
    let both_ways = fcntl_getfl(&stdout).is_ok_and(|flags| flags.contains(OFlags::RDWR));
    both_ways && fstat(&stdout).is_ok_and(|stat| stat.st_rdev == rustix::fs::makedev(1, 3))
}

/// An error as `--json` shows it.
pub(crate) fn error_object(error: &Error) -> Value {
    let mut object = json!({"kind": error.kind().as_str(), "message": error.message()});
    if let Some(hint) = error.advice() {
        object["hint"] = json!(hint);
    }
    object
}

/// A JSON object as text, `"schema":1` first whatever its other keys are.
pub(crate) fn document(value: &Value) -> String {
    let text = value.to_string();
    let fields = text.strip_prefix('{').unwrap_or("}");
    let comma = if fields == "}" { "" } else { "," };
    format!("{{\"schema\":1{comma}{fields}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_document_begins_with_its_schema() {
        assert_eq!(document(&json!({"a": 1, "z": [2]})), r#"{"schema":1,"a":1,"z":[2]}"#);
        assert_eq!(document(&json!({})), r#"{"schema":1}"#);
    }

    #[test]
    fn text_from_outside_cannot_drive_a_terminal() {
        assert_eq!(escape(b"a\x1b[2Jb\n", 99), "a\\u{1b}[2Jb\\n");
        assert_eq!(escape("ab\u{202e}c".as_bytes(), 99), "ab\\u{202e}c");
        assert_eq!(escape(b"\xffok", 99), "\\xffok");
        assert_eq!(escape("déjà".as_bytes(), 3), "déj…");
    }
}
