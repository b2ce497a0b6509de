//! What an agent tells its hooks about itself: one JSON object on their standard input. Only what is needed is
//! read, nothing has to be there, and other fields may be of any kind.

use crate::model::mark::Background;
use serde_json::Value;

/// Fields that list work which goes on after the end of a turn (Claude Code, since 2.1.150 or so): tasks in
/// the background, and times at which the agent will wake up by itself.
const LISTS: [&str; 2] = ["background_tasks", "session_crons"];

/// The part of a hook's JSON that a mark depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HookWords {
    /// `hook_event_name`: `Stop`, `Notification`, …
    pub(crate) event: Option<String>,
    /// What runs on in the background.
    pub(crate) background: Background,
}

impl HookWords {
    /// Nothing was said.
    pub(crate) fn silent() -> Self {
        Self { event: None, background: Background::NotSaid }
    }

    /// Reads the bytes that a hook was given. What is not JSON says nothing.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let Ok(Value::Object(fields)) = serde_json::from_slice::<Value>(bytes) else {
            return Self::silent();
        };
        let event = fields.get("hook_event_name").and_then(Value::as_str).map(str::to_owned);
        let said: Vec<u64> = LISTS.iter().filter_map(|name| fields.get(*name)).filter_map(size).collect();
        let background = match (said.is_empty(), said.iter().sum()) {
            (true, _) => Background::NotSaid,
            (false, 0) => Background::None,
            (false, tasks) => Background::Some(tasks),
        };
        Self { event, background }
    }
}

/// How many pieces of work a field lists. `null` is an absent field; what is not a list at all is counted
/// as one, because what cannot be read must not pass for "nothing runs".
fn size(field: &Value) -> Option<u64> {
    match field {
        Value::Null => None,
        Value::Array(items) => Some(items.len() as u64),
        _ => Some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn background_work_is_read_and_doubt_counts_as_work() {
        let cases = [
            ("", Background::NotSaid),
            ("{}", Background::NotSaid),
            ("[]", Background::NotSaid),
            ("{\"background_tasks\":[]", Background::NotSaid),
            (r#"{"background_tasks":null,"session_crons":null}"#, Background::NotSaid),
            (r#"{"background_tasks":[]}"#, Background::None),
            (r#"{"background_tasks":[],"session_crons":[]}"#, Background::None),
            (r#"{"background_tasks":[{"id":"b1"}],"session_crons":[]}"#, Background::Some(1)),
            (r#"{"background_tasks":[],"session_crons":[{"id":"c"},{"id":"d"}]}"#, Background::Some(2)),
            (r#"{"background_tasks":[1,2],"session_crons":[3]}"#, Background::Some(3)),
            (r#"{"background_tasks":{}}"#, Background::Some(1)),
            (r#"{"background_tasks":false}"#, Background::Some(1)),
            (r#"{"background_tasks":0}"#, Background::Some(1)),
            (r#"{"background_tasks":"none","session_crons":[]}"#, Background::Some(1)),
        ];
        for (text, expected) in cases {
            assert_eq!(HookWords::parse(text.as_bytes()).background, expected, "{text}");
        }
    }

    #[test]
    fn the_event_is_read_where_it_is_text() {
        let event = |text: &str| HookWords::parse(text.as_bytes()).event;
        assert_eq!(event(r#"{"hook_event_name":"Stop","x":1}"#).as_deref(), Some("Stop"));
        assert_eq!(event(r#"{"hook_event_name":7}"#), None);
        assert_eq!(HookWords::parse(b"\xff{}"), HookWords::silent());
    }
}
