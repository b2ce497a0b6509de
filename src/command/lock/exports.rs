//! What a command that runs under a lock finds in its environment.

use crate::command::records::Records;
use crate::env;
use crate::model::name::LockName;
use crate::model::record::Record;
use std::ffi::OsString;

/// What the command finds in its environment.
pub(super) fn exports(store: &Records, name: &LockName, record: &Record) -> Vec<(&'static str, OsString)> {
    let token = record.token;
    let held = env::text(env::name::LOCKS).map_or_else(String::new, |held| format!("{held} "));
    let mut exports: Vec<(&'static str, OsString)> = vec![
        (env::name::LOCK_NAME, name.as_str().into()),
        (env::name::LOCK_TOKEN, token.to_string().into()),
        (env::name::LOCKS, format!("{held}{}:{token}", name.file()).into()),
    ];
    // One of another lock, whose command we are, would be a lie about this one.
    exports
        .push((env::name::LOCK_SLOT, record.slot().map_or_else(String::new, |slot| slot.to_string()).into()));
    if store.state.place.rule == crate::model::place::Rule::Option {
        // Where `--dir` was relative, the command may stand elsewhere.
        let path =
            std::path::absolute(&store.state.place.path).unwrap_or_else(|_| store.state.place.path.clone());
        exports.push((env::name::DIR, path.into()));
    }
    exports
}
