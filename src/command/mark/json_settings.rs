//! JSON settings, with comments or without: `{"hooks": {"EVENT": [{"matcher": M, "hooks": [{"command": C}]}]}}`.

use super::hooks::{InstalledHook, WantedHook, our_mark};
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode};

/// Some editors begin a file with it (RFC 8259, 8.1).
const BOM: char = '\u{feff}';

/// What agents read as well; anything looser could mean one thing to us and another to them.
fn options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

fn parse(text: &str) -> Result<CstRootNode, String> {
    CstRootNode::parse(text.trim_start_matches(BOM), &options()).map_err(|error| format!("not JSON: {error}"))
}

/// The file again, with the mark of its beginning if it had one.
fn print(root: &CstRootNode, text: &str) -> String {
    let bom = if text.starts_with(BOM) { "\u{feff}" } else { "" };
    format!("{bom}{root}")
}

/// The value of a key that stands there once.
fn property(object: &CstObject, name: &str) -> Result<Option<CstNode>, String> {
    let mut found =
        object.properties().into_iter().filter(|property| property.decoded_name().as_deref() == Some(name));
    let first = found.next();
    match (first, found.next()) {
        (_, Some(_)) => Err(format!("\"{name}\" stands in it twice")),
        (None, None) => Ok(None),
        (Some(property), None) => {
            property.value().map(Some).ok_or_else(|| format!("\"{name}\" has no value"))
        }
    }
}

fn object(root: &CstRootNode) -> Result<Option<CstObject>, String> {
    match root.value() {
        None => Ok(None),
        Some(value) => value.as_object().map(Some).ok_or_else(|| "it is not an object".to_owned()),
    }
}

fn hooks(top: &CstObject) -> Result<Option<CstObject>, String> {
    match property(top, "hooks")? {
        None => Ok(None),
        Some(value) => value.as_object().map(Some).ok_or_else(|| "\"hooks\" is not an object".to_owned()),
    }
}

/// The list of an event.
fn event(hooks: &CstObject, name: &str) -> Result<Option<CstArray>, String> {
    match property(hooks, name)? {
        None => Ok(None),
        Some(value) => {
            value.as_array().map(Some).ok_or_else(|| format!("\"hooks\".\"{name}\" is not a list"))
        }
    }
}

fn text_of(object: &CstObject, name: &str) -> Option<String> {
    object.get(name)?.value()?.as_string_lit()?.decoded_value().ok()
}

/// The commands of one group, each with its word if it is ours.
fn commands(group: &CstObject) -> Vec<(CstObject, Option<String>)> {
    let all = group.get("hooks").and_then(|property| property.array_value());
    let all = all.map(|array| array.elements()).unwrap_or_default();
    all.iter()
        .filter_map(|one| one.as_object())
        .map(|one| {
            let mark = text_of(&one, "command").and_then(|command| our_mark(&command));
            (one, mark)
        })
        .collect()
}

/// As [`super::settings::found`].
pub(super) fn found(text: &str) -> Result<Vec<InstalledHook>, String> {
    let root = parse(text)?;
    let mut found = Vec::new();
    let Some(hooks) = object(&root)?.map(|top| hooks(&top)).transpose()?.flatten() else { return Ok(found) };
    for name in hooks.properties().iter().filter_map(jsonc_parser::cst::CstObjectProp::decoded_name) {
        // A list of another kind is the agent's business until a hook of ours is to go there.
        let Ok(Some(list)) = event(&hooks, &name) else { continue };
        for group in list.elements().iter().filter_map(|one| one.as_object()) {
            let matcher = text_of(&group, "matcher");
            for mark in commands(&group).into_iter().filter_map(|(_, mark)| mark) {
                found.push(InstalledHook { event: name.clone(), matcher: matcher.clone(), mark });
            }
        }
    }
    Ok(found)
}

/// As [`super::settings::with`].
pub(super) fn with(text: &str, wanted: &[WantedHook]) -> Result<String, String> {
    let root = parse(text)?;
    let top = match object(&root)? {
        Some(top) => top,
        None => root.object_value_or_set(),
    };
    let hooks = match hooks(&top)? {
        Some(hooks) => hooks,
        None => top.object_value_or_set("hooks"),
    };
    for hook in wanted {
        let list = match event(&hooks, &hook.event.on)? {
            Some(list) => list,
            None => hooks.array_value_or_set(&hook.event.on),
        };
        list.append(group(hook));
    }
    let mut after = print(&root, text);
    if text.trim_start_matches(BOM).trim().is_empty() && !after.ends_with('\n') {
        after.push('\n');
    }
    Ok(after)
}

fn group(hook: &WantedHook) -> CstInputValue {
    let text = |text: &str| CstInputValue::String(text.to_owned());
    let command = CstInputValue::Object(vec![
        ("type".to_owned(), text("command")),
        ("command".to_owned(), text(&hook.command)),
        ("timeout".to_owned(), CstInputValue::Number(hook.timeout.to_string())),
    ]);
    let mut fields = Vec::new();
    if let Some(matcher) = &hook.event.matcher {
        fields.push(("matcher".to_owned(), text(matcher)));
    }
    fields.push(("hooks".to_owned(), CstInputValue::Array(vec![command])));
    CstInputValue::Object(fields)
}

/// How many comments there are.
fn comments(node: &CstNode) -> usize {
    usize::from(node.is_comment()) + node.children().iter().map(comments).sum::<usize>()
}

/// As [`super::settings::without`]. A list that is empty now stays where a comment would go with it.
pub(super) fn without(text: &str) -> Result<String, String> {
    let count = |text: &str| parse(text).map(|root| root.children().iter().map(comments).sum::<usize>());
    let tidy = take_out(text, true)?;
    if count(&tidy)? < count(text)? { take_out(text, false) } else { Ok(tidy) }
}

fn take_out(text: &str, tidy: bool) -> Result<String, String> {
    let root = parse(text)?;
    let Some(top) = object(&root)? else { return Ok(text.to_owned()) };
    let Some(hooks) = hooks(&top)? else { return Ok(text.to_owned()) };
    for property in hooks.properties() {
        let Some(list) = property.array_value() else { continue };
        let mut took = false;
        for group in list.elements().iter().filter_map(|one| one.as_object()) {
            let all = commands(&group);
            let others =
                group.get("hooks").and_then(|one| one.array_value()).map_or(0, |one| one.elements().len());
            let ours: Vec<CstObject> =
                all.into_iter().filter(|(_, mark)| mark.is_some()).map(|(one, _)| one).collect();
            if ours.is_empty() {
                continue;
            }
            took = true;
            if ours.len() == others {
                group.remove();
            } else {
                ours.into_iter().for_each(CstObject::remove);
            }
        }
        if tidy && took && list.elements().is_empty() {
            property.remove();
        }
    }
    if tidy
        && hooks.properties().is_empty()
        && let Some(property) = top.get("hooks")
    {
        property.remove();
    }
    Ok(print(&root, text))
}
