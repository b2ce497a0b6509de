//! Whose locks are read: the caller's, another user's, or everybody's.

use super::LockCall;
use crate::cli::shared::Whose;
use crate::command::records::Where;
use crate::error::Error;
use crate::os::users;

/// The directories to read.
pub(super) fn places(call: &LockCall, whose: &Whose) -> Result<Vec<Where>, Error> {
    let of = |user: String| Where { dir: None, user: Some(user) };
    if let Some(user) = &whose.user {
        return Ok(vec![of(user.clone())]);
    }
    if !whose.all_users {
        return Ok(vec![call.place()]);
    }
    // Whom only a directory service knows cannot be listed: it may have a hundred thousand.
    let accounts = users::listed().map_err(Error::config)?;
    let names = accounts.into_iter().map(|account| account.name);
    let mut places: Vec<Where> = Vec::new();
    let mut seen = Vec::new();
    for place in names.map(of) {
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
