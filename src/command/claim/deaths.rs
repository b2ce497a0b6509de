//! Counting the deaths of a ticket's holders: within one boot, and none twice.

use super::Claims;
use crate::error::Error;
use crate::model::claim::{Attrs, Deaths};
use crate::model::name::LockName;
use crate::model::record::Record;
use crate::verdict::ownership::Credential;
use serde_json::{Value, json};

/// The boot that a record was written in.
pub(super) fn boot(record: &Record) -> String {
    record.host.boot_id.clone().unwrap_or_default()
}

/// Writes down that the holder of this record died, with whatever else `changes` says of it.
/// By token, so that no death counts twice. Gives the number of deaths with this one.
///
/// # Errors
/// What our own files answer.
pub(super) fn count(
    claims: &Claims,
    name: &LockName,
    record: &Record,
    attrs: &Attrs,
    mut changes: Vec<(&str, Value)>,
) -> Result<u32, Error> {
    let boot = boot(record);
    let count = attrs.deaths_before(&boot, record.token) + 1;
    if attrs.deaths.as_ref().is_some_and(|deaths| deaths.token == record.token) {
        return Ok(count);
    }
    changes.push(("deaths", json!(Deaths { boot, count, token: record.token })));
    claims.store.amend(name, &Credential::Token(record.token), &[], &changes)?;
    Ok(count)
}
