//! The settings file: one TOML file, read as names with texts.

use crate::error::{Error, reason};
use crate::os::plain_file;
use std::collections::BTreeMap;
use std::path::Path;
use toml_edit::{DocumentMut, Item, Value};

/// Settings are short.
const CAP: u64 = 1 << 20;

/// Every setting in the file by its dotted name. `None`: there is no file, and nobody asked for it.
///
/// # Errors
/// CONFIG: unreadable, writable by others, not TOML.
pub(super) fn read(path: &Path, asked_for: bool) -> Result<Option<BTreeMap<String, String>>, Error> {
    let shown = path.display();
    let content = match plain_file::read(path, CAP) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !asked_for => return Ok(None),
        Err(error) => return Err(Error::config(format!("{shown}: {}", reason(&error)))),
        Ok(content) => content,
    };
    // It may name a program to run.
    let owner = std::fs::symlink_metadata(path).map(|meta| std::os::unix::fs::MetadataExt::uid(&meta));
    if owner.is_ok_and(|uid| uid != 0 && uid != rustix::process::geteuid().as_raw()) {
        return Err(Error::config(format!("{shown}: belongs to another user")));
    }
    if content.mode & 0o022 != 0 {
        return Err(
            Error::config(format!("{shown}: others may write it")).hint(format!("chmod go-w {shown}"))
        );
    }
    let text =
        String::from_utf8(content.bytes).map_err(|_| Error::config(format!("{shown}: is not UTF-8")))?;
    let document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        let at = error.span().map_or(0, |span| span.start);
        let line = text.get(..at).map_or(1, |before| before.matches('\n').count() + 1);
        let why = error.message().lines().next().unwrap_or("not TOML").to_owned();
        Error::config(format!("{shown}, line {line}: {why}"))
    })?;
    let mut settings = BTreeMap::new();
    for (key, item) in document.iter() {
        match item {
            Item::Table(table) => {
                for (inner, item) in table.iter() {
                    let name = format!("{key}.{inner}");
                    let text =
                        item.as_value().and_then(plain).ok_or_else(|| odd(&shown.to_string(), &name))?;
                    settings.insert(name, text);
                }
            }
            item => {
                let text = item.as_value().and_then(plain).ok_or_else(|| odd(&shown.to_string(), key))?;
                settings.insert(key.to_owned(), text);
            }
        }
    }
    Ok(Some(settings))
}

fn odd(path: &str, name: &str) -> Error {
    Error::config(format!("{path}: {name} is not text, a number, true, false or a list of words"))
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.value().clone()),
        Value::Integer(number) => Some(number.value().to_string()),
        Value::Boolean(flag) => Some(flag.value().to_string()),
        Value::Array(list) => {
            let words: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
            serde_json::to_string(&words?).ok()
        }
        _ => None,
    }
}

/// The words of a setting that is a list.
///
/// # Errors
/// What is wrong, as a fragment.
pub(super) fn words(text: &str) -> Result<Vec<String>, String> {
    let words: Vec<String> = serde_json::from_str(text)
        .map_err(|_| "is not a list of words (write [\"program\", \"argument\"])".to_owned())?;
    if words.first().is_none_or(String::is_empty) {
        return Err("is an empty list (write [\"program\", \"argument\"])".to_owned());
    }
    Ok(words)
}
