//! `--print-config`: which settings are in force and where each came from. Secrets
//! are shown as set or not set.

use super::ClaimCall;
use super::settings::ClaimSettings;
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
            object.insert(key.to_owned(), json!({"value": text.value, "from": text.from}));
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
        let value = escape(text.value.as_bytes(), 300);
        let comment = if value.is_empty() { "# " } else { "" };
        lines.push(format!("{comment}{name} = \"{value}\"  # {}", text.from));
    }
    lines.push(match token {
        Some(from) => format!("# token: set, from {from}"),
        None => "# token: not set".to_owned(),
    });
    drop(call.report.data(&lines.join("\n")));
    Ok(Exit::Ok.into())
}
