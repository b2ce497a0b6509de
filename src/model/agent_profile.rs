//! What is known about one kind of agent: how its hooks are written, and what a run of it needs. Profiles are TOML
//! files in `scripts/agents`, built into the program; a person can add some in `~/.config/orion/agents`.

use toml_edit::{DocumentMut, Item, Table, Value};

/// Words that a hook may say.
pub(crate) const HOOK_MARKS: [&str; 6] = ["ready", "busy", "idle", "working", "question", "ended"];

/// Where and how an agent's hooks are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HookForm {
    /// A settings file in JSON, with comments or without: `hooks.EVENT` is a list.
    Json,
    /// A settings file in TOML: `[[hooks.EVENT]]`.
    Toml,
    /// A file of its own: an extension or a plugin.
    File,
    /// Variables of the agent's environment; nothing is installed.
    Environment,
    /// It has none.
    None,
}

/// One hook: at this event, this word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HookEvent {
    pub(crate) on: String,
    /// Which of the event's kinds; `None` is all of them.
    pub(crate) matcher: Option<String>,
    /// One of [`HOOK_MARKS`].
    pub(crate) mark: String,
    /// The oldest version with this event, `1.0.62`.
    pub(crate) since: Option<String>,
}

/// The hooks of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AgentHooks {
    pub(crate) form: HookForm,
    /// Below the home directory: `.claude`.
    pub(crate) folder: String,
    /// The variable that moves this folder.
    pub(crate) folder_from: Option<String>,
    /// In the folder.
    pub(crate) file: String,
    /// In a project, instead of the person's own; `None` where the agent reads none.
    pub(crate) project: Option<String>,
    /// For [`HookForm::File`]: the name of its content beside the profile.
    pub(crate) source: Option<String>,
    /// How long the agent waits for a hook, in its own unit.
    pub(crate) timeout: i64,
    /// What the person still has to do.
    pub(crate) todo: Option<String>,
    pub(crate) events: Vec<HookEvent>,
    pub(crate) environment: Vec<(String, String)>,
}

/// One version of an agent that was played with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AgentTried {
    pub(crate) version: String,
    /// `2026-12-01`.
    pub(crate) on: String,
    /// Which scenes were played, and what was found, for people.
    pub(crate) what: String,
}

/// One kind of agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AgentProfile {
    /// The name of its file: `claude`.
    pub(crate) name: String,
    /// For people: `Claude Code`.
    pub(crate) title: String,
    /// Names of its program.
    pub(crate) commands: Vec<String>,
    /// An argument that a run needs, given where the program's `--help` knows it.
    pub(crate) argument: Option<String>,
    /// Does it leave a process behind that is not part of the run?
    pub(crate) owner_only: bool,
    /// Does it outlive its terminal? The reaper is then told to end what is left of a closed run.
    pub(crate) outlives: bool,
    /// Names of processes that belong to an idle agent.
    pub(crate) residents: Vec<String>,
    /// Variables that a new run must not inherit.
    pub(crate) env_drop: Vec<String>,
    /// What it does when its terminal is closed, for people.
    pub(crate) hup: String,
    /// What ends its session when it is typed.
    pub(crate) quit: Option<String>,
    /// A pattern for the line of its idle prompt.
    pub(crate) prompt: Option<String>,
    pub(crate) hooks: AgentHooks,
    pub(crate) tried: Vec<AgentTried>,
}

impl AgentProfile {
    /// Reads a profile; `name` is that of its file.
    ///
    /// # Errors
    /// What is wrong with it: lower case, no full stop.
    pub(crate) fn parse(name: &str, text: &str) -> Result<Self, String> {
        let document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
            error.message().lines().next().unwrap_or("not TOML").to_owned()
        })?;
        let top = Reader { table: document.as_table(), place: "" };
        top.knows(&[
            "title",
            "commands",
            "argument",
            "outlives",
            "owner_only",
            "residents",
            "env_drop",
            "hup",
            "quit",
            "prompt",
            "hooks",
            "tried",
        ])?;
        let empty = Table::new();
        let hooks = match document.get("hooks") {
            None => &empty,
            Some(item) => item.as_table().ok_or("hooks is not a table")?,
        };
        Ok(Self {
            name: name.to_owned(),
            title: top.text("title")?.unwrap_or_else(|| name.to_owned()),
            commands: top.list("commands")?,
            argument: top.text("argument")?,
            owner_only: top.flag("owner_only")?,
            outlives: top.flag("outlives")?,
            residents: top.list("residents")?,
            env_drop: top.list("env_drop")?,
            hup: top.text("hup")?.unwrap_or_else(|| "was not tried".to_owned()),
            quit: top.text("quit")?,
            prompt: top.text("prompt")?,
            hooks: hooks_of(&Reader { table: hooks, place: "hooks." })?,
            tried: tried(document.get("tried"))?,
        })
    }

    /// The hooks for a version; all of them where it is not known.
    pub(crate) fn events(&self, version: Option<&str>) -> Vec<HookEvent> {
        let version = version.and_then(numbers);
        let fits = |event: &&HookEvent| match (&version, event.since.as_deref().and_then(numbers)) {
            (Some(version), Some(since)) => *version >= since,
            _ => true,
        };
        self.hooks.events.iter().filter(fits).cloned().collect()
    }
}

/// `2.1.197` as numbers; anything behind the third is left out.
pub(crate) fn numbers(version: &str) -> Option<[u64; 3]> {
    let mut parts = version.split('.').map(|part| {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().ok()
    });
    Some([parts.next()??, parts.next()??, parts.next().flatten().unwrap_or(0)])
}

fn hooks_of(reader: &Reader<'_>) -> Result<AgentHooks, String> {
    reader.knows(&[
        "form",
        "folder",
        "folder_from",
        "file",
        "project",
        "source",
        "timeout",
        "todo",
        "events",
        "environment",
    ])?;
    let form = match reader.text("form")?.as_deref() {
        Some("json") => HookForm::Json,
        Some("toml") => HookForm::Toml,
        Some("file") => HookForm::File,
        Some("environment") => HookForm::Environment,
        Some("none") | None => HookForm::None,
        Some(other) => {
            return Err(format!("hooks.form is {other:?}, not json, toml, file, environment or none"));
        }
    };
    let timeout = match reader.table.get("timeout") {
        None => 10,
        Some(item) => item.as_integer().filter(|n| *n > 0).ok_or("hooks.timeout is not a number above 0")?,
    };
    let hooks = AgentHooks {
        form,
        folder: reader.text("folder")?.unwrap_or_default(),
        folder_from: reader.text("folder_from")?,
        file: reader.text("file")?.unwrap_or_default(),
        project: reader.text("project")?,
        source: reader.text("source")?,
        timeout,
        todo: reader.text("todo")?,
        events: pairs(reader.table.get("events"), "hooks.events")?
            .iter()
            .map(event)
            .collect::<Result<_, _>>()?,
        environment: pairs(reader.table.get("environment"), "hooks.environment")?
            .iter()
            .map(|pair| Ok::<_, String>((word(pair, "name")?, word(pair, "value")?)))
            .collect::<Result<_, _>>()?,
    };
    if matches!(form, HookForm::Json | HookForm::Toml | HookForm::File) && hooks.file.is_empty() {
        return Err("hooks.file is missing".to_owned());
    }
    if form == HookForm::File && hooks.source.is_none() {
        return Err("hooks.source is missing".to_owned());
    }
    Ok(hooks)
}

fn event(fields: &Fields) -> Result<HookEvent, String> {
    let mark = word(fields, "mark")?;
    if !HOOK_MARKS.contains(&mark.as_str()) {
        return Err(format!("{mark:?} is not a word of orion-mark"));
    }
    Ok(HookEvent {
        on: word(fields, "on")?,
        matcher: optional(fields, "matcher")?,
        mark,
        since: optional(fields, "since")?,
    })
}

fn tried(item: Option<&Item>) -> Result<Vec<AgentTried>, String> {
    let all = pairs(item, "tried")?;
    all.iter()
        .map(|one| {
            Ok(AgentTried { version: word(one, "version")?, on: word(one, "on")?, what: word(one, "what")? })
        })
        .collect()
}

/// One table of a list.
type Fields = Vec<(String, String)>;

fn word(fields: &Fields, key: &str) -> Result<String, String> {
    optional(fields, key)?.ok_or_else(|| format!("{key} is missing in one of its tables"))
}

fn optional(fields: &Fields, key: &str) -> Result<Option<String>, String> {
    Ok(fields.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone()))
}

/// A list of tables with text in them, written either way.
fn pairs(item: Option<&Item>, place: &str) -> Result<Vec<Fields>, String> {
    let wrong = || format!("{place} is not a list of tables with text");
    let text = |value: Option<&str>| value.filter(|text| clean(text)).map(str::to_owned).ok_or_else(wrong);
    match item {
        None => Ok(Vec::new()),
        Some(Item::Value(Value::Array(array))) => array
            .iter()
            .map(|one| {
                let table = one.as_inline_table().ok_or_else(wrong)?;
                table.iter().map(|(key, value)| Ok((key.to_owned(), text(value.as_str())?))).collect()
            })
            .collect(),
        Some(Item::ArrayOfTables(tables)) => tables
            .iter()
            .map(|table| table.iter().map(|(key, item)| Ok((key.to_owned(), text(item.as_str())?))).collect())
            .collect(),
        Some(_) => Err(wrong()),
    }
}

/// A line break or a NUL would break what callers read.
fn clean(text: &str) -> bool {
    !text.contains(char::is_control)
}

struct Reader<'a> {
    table: &'a Table,
    place: &'static str,
}

impl Reader<'_> {
    fn knows(&self, keys: &[&str]) -> Result<(), String> {
        match self.table.iter().find(|(key, _)| !keys.contains(key)) {
            Some((key, _)) => Err(format!("{}{key} is not a key of a profile", self.place)),
            None => Ok(()),
        }
    }

    /// Empty text is none.
    fn text(&self, key: &str) -> Result<Option<String>, String> {
        match self.table.get(key) {
            None => Ok(None),
            Some(item) => match item.as_str() {
                Some(text) if clean(text) => Ok(Some(text.to_owned()).filter(|text| !text.is_empty())),
                _ => Err(format!("{}{key} is not one line of text", self.place)),
            },
        }
    }

    fn flag(&self, key: &str) -> Result<bool, String> {
        let item = self.table.get(key);
        item.map_or(Ok(false), |item| {
            item.as_bool().ok_or(format!("{}{key} is not true or false", self.place))
        })
    }

    fn list(&self, key: &str) -> Result<Vec<String>, String> {
        let wrong = || format!("{}{key} is not a list of words", self.place);
        let Some(item) = self.table.get(key) else { return Ok(Vec::new()) };
        let array = item.as_array().ok_or_else(wrong)?;
        array
            .iter()
            .map(|one| one.as_str().filter(|text| clean(text) && !text.is_empty()).map(str::to_owned))
            .map(|one| one.ok_or_else(wrong))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_profile_says_what_is_wrong() {
        for (text, wrong) in [
            ("x", "key"),
            ("titel = 'x'", "titel is not a key"),
            ("title = 7", "title is not one line"),
            ("title = \"a\\nb\"", "title is not one line"),
            ("commands = 'x'", "commands is not a list"),
            ("commands = ['']", "commands is not a list"),
            ("owner_only = 'yes'", "owner_only is not true or false"),
            ("hooks = 1", "hooks is not a table"),
            ("[hooks]\nform = 'yaml'", "hooks.form"),
            ("[hooks]\nform = 'json'", "hooks.file is missing"),
            ("[hooks]\nform = 'file'\nfile = 'x'", "hooks.source is missing"),
            ("[hooks]\nevents = [{ on = 'Stop', mark = 'done' }]", "not a word of orion-mark"),
            ("[hooks]\nevents = [{ mark = 'idle' }]", "on is missing"),
            ("[hooks]\nevents = ['x']", "hooks.events is not a list"),
            ("[hooks]\ntimeout = 0", "hooks.timeout"),
        ] {
            let error = AgentProfile::parse("x", text).expect_err(text);
            assert!(error.contains(wrong), "{text}: {error}");
        }
        assert_eq!(AgentProfile::parse("x", "").expect("empty").hooks.form, HookForm::None);
    }

    #[test]
    fn old_versions_do_not_get_new_hooks() {
        let text = "[hooks]\nevents = [{ on = 'A', mark = 'idle', since = '1.0.62' }, \
            { on = 'B', mark = 'idle', since = '2.1.9' }, { on = 'C', mark = 'idle' }]";
        let profile = AgentProfile::parse("x", text).expect("a profile");
        let names = |version| profile.events(version).into_iter().map(|event| event.on).collect::<String>();
        assert_eq!(names(None), "ABC");
        assert_eq!(names(Some("1.0.61")), "C");
        assert_eq!(names(Some("1.0.62")), "AC");
        assert_eq!(names(Some("2.1.10")), "ABC", "numbers, not letters");
        assert_eq!(names(Some("2.1")), "AC");
        assert_eq!(names(Some("nightly")), "ABC");
    }
}
