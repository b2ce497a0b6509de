//! Names of locks: `[A-Za-z0-9][A-Za-z0-9._-]{0,99}`, nothing else, so that two
//! names never share a file and a name is safe on every terminal.

use crate::model::duration;
use std::ffi::OsStr;
use std::fmt;

/// A valid name. Also the rule for ticket keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LockName(String);

impl LockName {
    /// Checks a name that a person typed.
    ///
    /// # Errors
    /// Why it is refused, as a fragment that stands after the escaped name.
    pub(crate) fn parse(text: &OsStr) -> Result<Self, String> {
        let name = Self::from_file(text)
            .ok_or("not a lock name (use A-Z a-z 0-9 . _ -, a letter or digit first, at most 100)")?;
        if duration::looks_like(&name.0) {
            return Err(format!(
                "reads as a duration, not as a lock name (to wait that long: -w {} NAME)",
                name.0
            ));
        }
        Ok(name)
    }

    /// A name as found in a directory: the pattern alone.
    pub(crate) fn from_file(text: &OsStr) -> Option<Self> {
        let text = text.to_str()?;
        let first = text.bytes().next()?;
        let legal = first.is_ascii_alphanumeric()
            && text.len() <= 100
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        legal.then(|| Self(text.to_owned()))
    }

    /// The name as text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn only_the_pattern_is_a_name() {
        let long = "n".repeat(101);
        let bad: [&[u8]; 12] = [
            b"",
            b".",
            b"..",
            b"a/b",
            b"../x",
            b"-rf",
            b" a",
            b"a\nb",
            b"\x1b[2J",
            b"\xff",
            "é".as_bytes(),
            long.as_bytes(),
        ];
        for name in bad {
            assert!(LockName::parse(OsStr::from_bytes(name)).is_err(), "{name:?}");
        }
        for name in ["a", "sync", "A.b_c-9", "10", "n".repeat(100).as_str()] {
            assert!(LockName::parse(OsStr::new(name)).is_ok(), "{name}");
        }
        let hint = LockName::parse(OsStr::new("10m")).expect_err("a duration");
        assert!(hint.contains("-w 10m"), "{hint}");
    }
}
