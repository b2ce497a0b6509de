//! TOML settings: `[[hooks.EVENT]]` with `hooks = [{ type = "command", command = "…" }]`.

use super::hooks::{InstalledHook, WantedHook, our_mark};
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike, Value};

fn parse(text: &str) -> Result<DocumentMut, String> {
    text.parse()
        .map_err(|error: toml_edit::TomlError| format!("not TOML: {}", error.message().replace('\n', " ")))
}

fn hooks(document: &DocumentMut) -> Result<Option<&dyn TableLike>, String> {
    match document.get("hooks") {
        None => Ok(None),
        Some(item) => item.as_table_like().map(Some).ok_or_else(|| "hooks is not a table".to_owned()),
    }
}

/// The words of ours among the commands of one group.
fn marks(group: &dyn TableLike) -> Vec<Option<String>> {
    let ours = |one: &dyn TableLike| one.get("command").and_then(Item::as_str).and_then(our_mark);
    match group.get("hooks") {
        Some(Item::Value(Value::Array(array))) => {
            array.iter().map(|one| one.as_inline_table().and_then(|one| ours(one))).collect()
        }
        Some(Item::ArrayOfTables(tables)) => tables.iter().map(|one| ours(one)).collect(),
        _ => Vec::new(),
    }
}

fn groups(item: &Item) -> Vec<&dyn TableLike> {
    match item {
        Item::ArrayOfTables(tables) => tables.iter().map(|one| one as &dyn TableLike).collect(),
        Item::Value(Value::Array(array)) => {
            array.iter().filter_map(|one| one.as_inline_table()).map(|one| one as &dyn TableLike).collect()
        }
        _ => Vec::new(),
    }
}

/// As [`super::settings::found`].
pub(super) fn found(text: &str) -> Result<Vec<InstalledHook>, String> {
    let document = parse(text)?;
    let mut found = Vec::new();
    let Some(hooks) = hooks(&document)? else { return Ok(found) };
    for (event, item) in hooks.iter() {
        for group in groups(item) {
            let matcher = group.get("matcher").and_then(Item::as_str).map(str::to_owned);
            for mark in marks(group).into_iter().flatten() {
                found.push(InstalledHook { event: event.to_owned(), matcher: matcher.clone(), mark });
            }
        }
    }
    Ok(found)
}

/// As [`super::settings::with`].
pub(super) fn with(text: &str, wanted: &[WantedHook]) -> Result<String, String> {
    let mut document = parse(text)?;
    hooks(&document)?;
    let item = document.entry("hooks").or_insert_with(|| {
        let mut table = Table::new();
        // No [hooks] line: [[hooks.EVENT]] is enough.
        table.set_implicit(true);
        Item::Table(table)
    });
    let Item::Table(hooks) = item else {
        return Err("hooks is written in one line, where [[hooks.EVENT]] cannot be added".to_owned());
    };
    for hook in wanted {
        let on = &hook.event.on;
        let list = hooks.entry(on).or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
        match list {
            Item::ArrayOfTables(tables) => tables.push(group(hook)),
            Item::Value(Value::Array(array)) => array.push(group(hook).into_inline_table()),
            _ => return Err(format!("hooks.{on} is not a list")),
        }
    }
    Ok(document.to_string())
}

fn group(hook: &WantedHook) -> Table {
    let mut command = InlineTable::new();
    command.insert("type", "command".into());
    command.insert("command", hook.command.as_str().into());
    command.insert("timeout", hook.timeout.into());
    let mut group = Table::new();
    if let Some(matcher) = &hook.event.matcher {
        group.insert("matcher", toml_edit::value(matcher.as_str()));
    }
    let mut commands = Array::new();
    commands.push(command);
    group.insert("hooks", toml_edit::value(commands));
    group
}

/// As [`super::settings::without`].
pub(super) fn without(text: &str) -> Result<String, String> {
    let mut document = parse(text)?;
    let Some(hooks) = document.get_mut("hooks").and_then(Item::as_table_like_mut) else {
        return Ok(text.to_owned());
    };
    let names: Vec<String> = hooks.iter().map(|(name, _)| name.to_owned()).collect();
    for name in names {
        let Some(item) = hooks.get_mut(&name) else { continue };
        let empty = match item {
            Item::ArrayOfTables(tables) => {
                let before = tables.len();
                tables.retain(|group| !is_only_ours(group));
                tables.iter_mut().for_each(|group| take_ours(group));
                tables.is_empty() && before > 0
            }
            Item::Value(Value::Array(array)) => {
                let before = array.len();
                array.retain(|one| !one.as_inline_table().is_some_and(|one| is_only_ours(one)));
                array.iter_mut().filter_map(Value::as_inline_table_mut).for_each(|group| take_ours(group));
                array.is_empty() && before > 0
            }
            _ => false,
        };
        if empty {
            hooks.remove(&name);
        }
    }
    if hooks.is_empty() {
        document.remove("hooks");
    }
    Ok(document.to_string())
}

fn is_only_ours(group: &dyn TableLike) -> bool {
    let marks = marks(group);
    !marks.is_empty() && marks.iter().all(Option::is_some)
}

/// Ours out of a group that has other commands as well.
fn take_ours(group: &mut dyn TableLike) {
    let mut marks = marks(group).into_iter().map(|mark| mark.is_none()).collect::<Vec<_>>().into_iter();
    match group.get_mut("hooks") {
        Some(Item::Value(Value::Array(array))) => array.retain(|_| marks.next().unwrap_or(true)),
        Some(Item::ArrayOfTables(tables)) => tables.retain(|_| marks.next().unwrap_or(true)),
        _ => {}
    }
}
