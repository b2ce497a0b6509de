//! Whose locks are read: the caller's, another user's, or everybody's.

use super::LockCall;
use crate::cli::shared::Whose;
use crate::command::records::Where;
use crate::error::Error;

/// The directories to read.
pub(super) fn places(call: &LockCall, whose: &Whose) -> Result<Vec<Where>, Error> {
    let of = |user: String| Where { dir: None, user: Some(user) };
    if let Some(user) = &whose.user {
        return Ok(vec![of(user.clone())]);
    }
    if !whose.all_users {
        return Ok(vec![call.place()]);
    }
    let passwd = std::fs::read_to_string("/etc/passwd").map_err(|error| Error::io("/etc/passwd", &error))?;
    let names = passwd.lines().filter_map(|line| line.split(':').next()).filter(|name| !name.is_empty());
    let mut places: Vec<Where> = Vec::new();
    let mut seen = Vec::new();
    for place in names.map(|name| of(name.to_owned())) {
        // Several system users share a home, or have none.
        if let Ok(found) = place.place()
            && found.path.is_dir()
            && !seen.contains(&found.path)
        {
            seen.push(found.path);
            places.push(place);
        }
    }
    Ok(places)
}
