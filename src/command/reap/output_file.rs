//! `--keep-output`: what stood in a terminal, before it is closed.

use crate::error::Error;
use crate::os::clock;
use crate::os::dir::Dir;
use std::io::Write;
use std::path::Path;

/// The directory for saved text; opened before anything is closed.
#[derive(Debug)]
pub(crate) struct OutputDir {
    dir: Dir,
    prefix: String,
}

impl OutputDir {
    /// Opens it, and makes it (0700) if it is missing.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        use std::os::unix::fs::DirBuilderExt;
        let what = format!("--keep-output {}", path.display());
        if let Err(error) = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path) {
            return Err(Error::io(&what, &error));
        }
        let mut dir = Dir::open(path).map_err(|error| Error::io(&what, &error))?;
        // What stood on somebody's screen is for nobody else, in a group's directory too.
        dir.shared = false;
        let now = clock::wall().rfc3339().replace([':', '.'], "-");
        Ok(Self { dir, prefix: now })
    }

    /// Writes one file, new and 0600.
    pub(crate) fn save(&self, runner: &str, id: &str, text: &[u8]) -> Result<(), String> {
        let plain = |text: &str| -> String {
            text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(60).collect()
        };
        let name = format!("{}-{}-{}.txt", self.prefix, plain(runner), plain(id));
        let mut file = self.dir.create(&name).map_err(|error| crate::error::reason(&error))?;
        file.write_all(text).map_err(|error| crate::error::reason(&error))
    }
}
