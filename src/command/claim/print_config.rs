//! `--print-config`: which settings are in force and where each came from. Secrets
//! are shown as set or not set.

use super::ClaimCall;
use super::settings::ClaimSettings;
use super::settings_file;
use super::settings_secrets::Text;
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::report::escape;
use serde_json::{Map, json};

pub(super) fn print(call: &ClaimCall) -> Result<Status, Error> {
    let settings = ClaimSettings::read(&call.shared)?;
    let (path, there) = &settings.file;
    let token = settings.token_from.as_deref();
    if call.report.json {
        let mut object = Map::new();
        for (key, text) in settings.texts() {
            object.insert(key.to_owned(), json!({"value": shown(key, text), "from": text.from}));
        }
        object.insert("token".into(), json!({"set": token.is_some(), "from": token}));
        drop(call.report.object(&json!({
            "directory": settings.place.path,
            "file": path,
            "file_exists": there,
            "settings": object,
        })));
        return Ok(Exit::Ok.into());
    }
    let mut lines = vec![
        format!("# state directory: {} ({})", settings.place.path.display(), settings.place.rule.as_str()),
        format!("# settings file: {}{}", path.display(), if *there { "" } else { " (not there)" }),
    ];
    let mut table = "";
    for (key, text) in settings.texts() {
        let (group, name) = key.split_once('.').unwrap_or(("", key));
        if group != table {
            lines.push(format!("[{group}]"));
        }
        table = group;
        let value = shown(key, text);
        let comment = if value.is_empty() || value != text.value { "# " } else { "" };
        lines.push(format!("{comment}{name} = \"{}\"  # {}", escape(value.as_bytes(), 300), text.from));
    }
    lines.push(match token {
        Some(from) => format!("# token: set, from {from}"),
        None => "# token: not set".to_owned(),
    });
    drop(call.report.data(&lines.join("\n")));
    Ok(Exit::Ok.into())
}

/// A setting's value; of a program that prints a token only its name.
fn shown(key: &str, text: &Text) -> String {
    match settings_file::words(&text.value) {
        Ok(words) if key == "token_command" => match words.len() - 1 {
            0 => words[0].clone(),
            more => format!("{} and {more} more words", words[0]),
        },
        _ => text.value.clone(),
    }
}
