//! No setting holds a secret: they are printed, recorded, and handed to the programs
//! we call. What looks like one is refused without being repeated.

use crate::error::Error;
use crate::model::secret_text::secret_in;
use std::collections::BTreeMap;

/// One setting as text.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) value: String,
    /// `--tracker`, `ORION_TRACKER`, `claim.toml`, `default`.
    pub(super) from: String,
}

/// # Errors
/// CONFIG, naming the setting, where it came from, and where its secret belongs.
pub(super) fn refuse(texts: &BTreeMap<&'static str, Text>) -> Result<(), Error> {
    for (key, Text { value, from }) in texts {
        let why = match *key {
            // These are words for people or for a program of their own.
            "user" if value.contains(':') => Some("has a colon, as between a name and a password"),
            "token_file" if !value.is_empty() && !value.contains('/') => Some("is not a path"),
            // A slash forgotten in the address must not print what stands before the @.
            "tracker" if names_a_server(value) && value.contains('@') => {
                Some("has a user or a secret in its address")
            }
            "github_api" if value.contains('@') => Some("has a user or a secret in its address"),
            _ => secret_in(value),
        };
        if let Some(why) = why {
            let message = format!("{key} (from {from}) {why}; its value is not repeated here");
            return Err(Error::config(message).hint(belongs(key)));
        }
    }
    Ok(())
}

fn names_a_server(tracker: &str) -> bool {
    !tracker.starts_with("file:") && !tracker.starts_with("command:")
}

fn belongs(key: &str) -> &'static str {
    match key {
        "git_remote" => "use ssh, or let git ask a credential helper: git help credentials",
        "arbiter" => {
            "put the password into ~/.pgpass (mode 0600, PGPASSFILE), or set ORION_VIA to the URL and say --arbiter database"
        }
        "token_file" => "put the token into a file of mode 0600 and name the file, with its directory",
        _ => "put the token into ORION_TRACKER_TOKEN or token_file, and a login into user",
    }
}
