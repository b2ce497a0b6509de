//! A token: used, never shown.

use crate::error::escape;
use crate::os::plain_file;
use crate::tracker::failure::{Failure, Why};
use std::fmt;
use std::path::Path;

/// Tokens are short; more is some other file.
const CAP: u64 = 8192;

/// A secret. Printing it in any way gives a word, never the secret.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only servers are shown it"))]
impl Secret {
    /// A token as it stood in the environment or a file; blanks around it are cut.
    ///
    /// # Errors
    /// [`Why::Setting`] when it is empty or cannot stand in a header.
    pub(crate) fn new(text: &str) -> Result<Self, Failure> {
        let text = text.trim();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Failure::new(
                Why::Setting,
                "the token is empty or has blanks or odd characters in it",
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// Reads a token file that nobody else may read.
    ///
    /// # Errors
    /// [`Why::Setting`]: missing, a link, readable by others, or without a token.
    pub(crate) fn from_file(path: &Path) -> Result<Self, Failure> {
        let name = escape(path.as_os_str().as_encoded_bytes(), 300);
        let content = plain_file::read(path, CAP).map_err(|error| {
            let why = crate::error::reason(&error);
            Failure::new(Why::Setting, format!("cannot read the token file {name}: {why}"))
        })?;
        if content.mode & 0o077 != 0 {
            return Err(Failure::new(Why::Setting, format!("the token file {name} is open to other users"))
                .hint(format!("chmod 600 {name}")));
        }
        let text = String::from_utf8(content.bytes);
        Self::new(&text.unwrap_or_default()).map_err(|_| {
            Failure::new(Why::Setting, format!("the token file {name} does not hold a token in one line"))
        })
    }

    /// The secret itself, for a header.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }

    /// A text without the secret, should a server have repeated it.
    pub(super) fn scrub(&self, text: &str) -> String {
        text.replace(&self.0, "(token)")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(set)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_secret_is_never_shown_and_its_file_is_private() {
        let secret = Secret::new(" s3cret\n").expect("token");
        assert_eq!(format!("{secret:?}"), "Secret(set)");
        assert_eq!(secret.scrub("bad token s3cret!"), "bad token (token)!");
        for bad in ["", " ", "a b", "a\nb", "\u{e9}"] {
            let failure = Secret::new(bad).expect_err(bad);
            assert!(bad.trim().is_empty() || !failure.to_string().contains(bad), "{failure}");
        }
        let file = tempfile::NamedTempFile::new().expect("file");
        std::fs::write(file.path(), "s3cret\n").expect("write");
        let mode = |mode| {
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).expect("chmod");
            Secret::from_file(file.path())
        };
        assert_eq!(mode(0o600).expect("private"), secret);
        let open = mode(0o640).expect_err("open to the group").to_string();
        assert!(open.contains("open to other users") && !open.contains("s3cret"), "{open}");
        assert!(Secret::from_file(Path::new("/nonexistent")).is_err());
    }
}
