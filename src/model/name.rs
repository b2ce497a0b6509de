//! Names of locks: any text of 1 to 200 bytes without control characters. On disk, a name that fits
//! `[A-Za-z0-9][A-Za-z0-9._-]*` is its own file, and another one is percent-encoded, so that two names
//! share a file only if their bytes are equal.

use crate::model::duration;
use crate::model::letters::is_mark;
use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::fmt;

/// The longest name, bytes.
const MAX: usize = 200;
/// The longest file stem, bytes: `.NAME.corrupt.999` is still a file name (255, NAME_MAX).
const STEM_MAX: usize = 200;
/// How much of a longer one is kept before its hash, bytes.
const KEPT: usize = 130;
/// Between that and the hash. No encoded name has it: a percent sign is followed by two digits there.
const HASHED: &str = "%-";

/// A valid name. Also the rule for ticket keys, as far as [`LockName::plain`] goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LockName {
    text: String,
    /// What its files are called; absent: as the name.
    stem: Option<String>,
}

impl LockName {
    /// Checks a name that a person typed.
    ///
    /// # Errors
    /// Why it is refused, as a fragment that stands after the escaped name.
    pub(crate) fn parse(text: &OsStr) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("not a lock name: {why}"));
        let Some(text) = text.to_str() else { return wrong("it is not UTF-8") };
        if text.starts_with("./") || text.starts_with("../") {
            return wrong("it reads as a path, and a name is not a path (leave the dots out)");
        }
        if duration::looks_like(text) {
            return Err(format!(
                "reads as a duration, not as a lock name (to wait that long: -w {text} NAME)"
            ));
        }
        match text.len() {
            0 => wrong("it is empty"),
            length if length > MAX => wrong(&format!("it has {length} bytes; at most {MAX}")),
            _ if text.chars().any(char::is_control) => wrong("it has control characters"),
            _ => Self::of(text).map_or_else(|| wrong("it stands for a directory"), Ok),
        }
    }

    /// A name that is its own file: the pattern alone.
    pub(crate) fn plain(text: &OsStr) -> Option<Self> {
        let text = text.to_str()?;
        let first = text.bytes().next()?;
        (text.len() <= 100 && first.is_ascii_alphanumeric() && text.bytes().all(is_plain))
            .then(|| Self { text: text.to_owned(), stem: None })
    }

    /// The name whose files are called so; `None`: no name's are, or only a record can tell which
    /// ([`is_hashed`]).
    pub(crate) fn from_stem(stem: &[u8]) -> Option<Self> {
        let mut bytes = Vec::with_capacity(stem.len());
        let mut rest = stem;
        while let Some((byte, after)) = rest.split_first() {
            rest = after;
            if *byte == b'%' {
                let (digits, after) = rest.split_at_checked(2)?;
                bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
                rest = after;
            } else {
                bytes.push(*byte);
            }
        }
        let name = Self::of(std::str::from_utf8(&bytes).ok()?)?;
        // Only as we write it: two files would be one name else.
        (name.file().as_bytes() == stem).then_some(name)
    }

    /// By the rules that hold for files too.
    pub(crate) fn of(text: &str) -> Option<Self> {
        let legal = (1..=MAX).contains(&text.len())
            && !text.chars().any(char::is_control)
            && !matches!(text, "." | "..")
            && !text.starts_with("./")
            && !text.starts_with("../");
        legal.then(|| Self { text: text.to_owned(), stem: Some(encode(text)).filter(|stem| stem != text) })
    }

    /// The name as text.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// What its files are called, before the dot.
    pub(crate) fn file(&self) -> &str {
        self.stem.as_deref().unwrap_or(&self.text)
    }
}

/// Is it the stem of a name that is too long for one, so that its record has the name?
pub(crate) fn is_hashed(stem: &[u8]) -> bool {
    stem.windows(HASHED.len()).any(|part| part == HASHED.as_bytes())
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-".contains(&byte)
}

/// What is no letter or digit cannot be first: a dot hides a file, a dash is an option, and with an underscore
/// begin the logs of the tools themselves.
fn encode(text: &str) -> String {
    let mut stem = String::with_capacity(text.len());
    for (at, byte) in text.bytes().enumerate() {
        if is_plain(byte) && (at > 0 || byte.is_ascii_alphanumeric()) {
            stem.push(char::from(byte));
        } else {
            stem.push_str(&format!("%{byte:02X}"));
        }
    }
    if stem.len() <= STEM_MAX {
        return stem;
    }
    stem.truncate(KEPT);
    let hash: String = Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{stem}{HASHED}{hash}")
}

/// As typed, escaped for a terminal. `{name:#}`: as it is to be typed to a shell.
impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |text: &str| -> String {
            text.chars()
                .map(|c| if is_mark(c) { c.escape_default().to_string() } else { c.to_string() })
                .collect()
        };
        if !f.alternate() {
            return f.write_str(&shown(&self.text));
        }
        let bare = self.text.bytes().all(|byte| is_plain(byte) || b"/@:+,%=".contains(&byte));
        if self.text.starts_with('-') {
            f.write_str("-- ")?;
        }
        if bare {
            f.write_str(&self.text)
        } else if self.text.chars().any(is_mark) {
            let text = self.text.replace('\\', "\\\\").replace('\'', "\\'");
            let text = shown(&text).replace("\\u{", "\\u").replace('}', "");
            write!(f, "$'{text}'")
        } else {
            write!(f, "'{}'", self.text.replace('\'', "'\\''"))
        }
    }
}

#[cfg(test)]
#[path = "name_tests.rs"]
mod tests;
