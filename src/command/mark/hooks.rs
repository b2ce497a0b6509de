//! Hooks as they stand in settings files, and which of them are ours.

use crate::model::agent_profile::{HOOK_MARKS, HookEvent};

/// A hook as it is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WantedHook {
    pub(super) event: HookEvent,
    /// `orion-mark idle`.
    pub(super) command: String,
    pub(super) timeout: i64,
}

/// A hook of ours that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InstalledHook {
    pub(super) event: String,
    pub(super) matcher: Option<String>,
    pub(super) mark: String,
}

impl InstalledHook {
    /// For people: `Notification (idle_prompt) says idle`.
    pub(super) fn show(&self) -> String {
        show(&self.event, self.matcher.as_deref(), &self.mark)
    }
}

impl WantedHook {
    pub(super) fn is(&self, other: &InstalledHook) -> bool {
        // No matcher, an empty one and * are the same to every agent.
        let all =
            |matcher: Option<&str>| matcher.filter(|text| !matches!(*text, "" | "*")).map(str::to_owned);
        self.event.on == other.event
            && all(self.event.matcher.as_deref()) == all(other.matcher.as_deref())
            && self.event.mark == other.mark
    }

    pub(super) fn show(&self) -> String {
        show(&self.event.on, self.event.matcher.as_deref(), &self.event.mark)
    }
}

fn show(event: &str, matcher: Option<&str>, mark: &str) -> String {
    match matcher.filter(|text| !matches!(*text, "" | "*")) {
        Some(matcher) => format!("{event} ({matcher}) says {mark}"),
        None => format!("{event} says {mark}"),
    }
}

/// The word of a command that is ours and nothing else: `orion-mark idle`, also with a path.
pub(super) fn our_mark(command: &str) -> Option<String> {
    let mut words = command.split_ascii_whitespace();
    let program = words.next()?.trim_matches(['"', '\'']);
    let mark = words.next()?;
    let ours = program == "orion-mark" || program.ends_with("/orion-mark");
    (ours && words.next().is_none() && HOOK_MARKS.contains(&mark)).then(|| mark.to_owned())
}
