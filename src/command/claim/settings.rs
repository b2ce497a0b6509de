//! The settings in force: flags, then the environment, then one TOML file, then
//! what we think best. Every value knows where it came from.

use super::settings_secrets::Text;
use super::{settings_file, settings_secrets};
use crate::cli::claim::ClaimShared;
use crate::command::records::Where;
use crate::env;
use crate::error::Error;
use crate::model::address::{Address, GITHUB};
use crate::model::arbiter::Arbiter;
use crate::model::claim::Goal;
use crate::model::duration;
use crate::model::labels::Labels;
use crate::model::place::StatePlace;
use crate::model::stage::Boundary;
use crate::report::escape;
use crate::tracker::{Options, Secret, TokenSource};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// A setting's name in the file, its variable, and its default.
const KEYS: [(&str, &str, &str); 30] = [
    ("tracker", env::name::TRACKER, ""),
    ("arbiter", env::name::ARBITER, ""),
    ("arbiter_grace", "", ""),
    ("arbiter_fence", "", ""),
    ("git_remote", "", ""),
    ("single_machine", env::name::SINGLE_MACHINE, "false"),
    ("ignore_assignee", "", "false"),
    ("host", "", ""),
    ("github_api", env::name::GITHUB_API, GITHUB),
    ("jira_version", "", ""),
    ("user", env::name::TRACKER_USER, ""),
    ("token_file", "", ""),
    ("token_command", "", ""),
    ("ca_file", "", ""),
    ("allow_http", "", "false"),
    ("timeout", "", "30s"),
    ("patience", "", "45s"),
    ("settle", "", "60s"),
    ("tick_every", "", "60s"),
    ("on_success", "", "ready"),
    ("finished", "", "push -> ready"),
    ("labels.queue", "", "orion-queue"),
    ("labels.working", "", "orion-working"),
    ("labels.ci_wait", "", "orion-ci-wait"),
    ("labels.ready", "", "orion-ready"),
    ("labels.failed", "", "orion-failed"),
    ("labels.stage_prefix", "", "orion-stage-"),
    ("labels.host_prefix", "", "orion-host-"),
    ("watch.every", "", "60s"),
    ("watch.max", "", "1"),
];

/// All of them.
#[derive(Debug)]
pub(super) struct ClaimSettings {
    pub(super) place: StatePlace,
    /// The file, and whether it is there.
    pub(super) file: (PathBuf, bool),
    texts: BTreeMap<&'static str, Text>,
    /// Where the token comes from; never the token.
    pub(super) token_from: Option<String>,
    token: TokenSource,
    /// Canonical.
    pub(super) address: Address,
    pub(super) arbiter: Option<Arbiter>,
    /// WHERE, of an arbiter that is a database; `None`: ORION_VIA.
    pub(super) arbiter_place: Option<String>,
    /// What a run promises there, as typed.
    pub(super) arbiter_grace: Option<String>,
    pub(super) arbiter_fence: Option<String>,
    pub(super) single_machine: bool,
    /// Tickets of somebody else are offered too.
    pub(super) ignore_assignee: bool,
    pub(super) git_remote: Option<String>,
    /// This machine's name on a ticket.
    pub(super) host: String,
    pub(super) labels: Labels,
    /// How long a tracker may take to show an event of ours.
    pub(super) settle: Duration,
    pub(super) tick_every: Duration,
    pub(super) on_success: Goal,
    pub(super) finished: Boundary,
    pub(super) watch_every: Duration,
    pub(super) watch_max: u32,
    jira_version: Option<u8>,
    allow_http: bool,
    timeout: Duration,
    patience: Duration,
}

impl ClaimSettings {
    /// Reads all of them.
    ///
    /// # Errors
    /// CONFIG, naming the setting and where it came from.
    pub(super) fn read(shared: &ClaimShared) -> Result<Self, Error> {
        let place = Where { dir: shared.dir.clone(), user: None }.place()?;
        let explicit =
            shared.config.clone().or_else(|| env::value(env::name::CLAIM_CONFIG).map(PathBuf::from));
        let path = explicit.clone().unwrap_or_else(|| place.path.join("claim.toml"));
        let in_file = settings_file::read(&path, explicit.is_some())?;
        let there = in_file.is_some();
        let mut in_file = in_file.unwrap_or_default();
        let mut texts = BTreeMap::new();
        for (key, variable, default) in KEYS {
            let stored = in_file.remove(key);
            let flag = match key {
                "tracker" => shared.tracker.clone(),
                "arbiter" => shared.arbiter.clone(),
                "single_machine" => shared.single_machine.then(|| "true".to_owned()),
                "ignore_assignee" => shared.ignore_assignee.then(|| "true".to_owned()),
                _ => None,
            };
            let from_variable = Some(variable).filter(|name| !name.is_empty()).and_then(env::text);
            let (value, from) = match (flag, from_variable, stored) {
                (Some(value), ..) => (value, format!("--{}", key.replace('_', "-"))),
                (None, Some(value), _) => (value, variable.to_owned()),
                (None, None, Some(value)) => (value, path.display().to_string()),
                (None, None, None) => (default.to_owned(), "default".to_owned()),
            };
            texts.insert(key, Text { value, from });
        }
        if let Some(unknown) = in_file.keys().next() {
            return Err(Error::config(format!(
                "{}: there is no setting {}",
                path.display(),
                escape(unknown.as_bytes(), 60)
            ))
            .hint("see the settings: orion-claim --print-config"));
        }
        settings_secrets::refuse(&texts)?;
        Self::resolve(place, (path, there), texts)
    }

    fn resolve(
        place: StatePlace,
        file: (PathBuf, bool),
        mut texts: BTreeMap<&'static str, Text>,
    ) -> Result<Self, Error> {
        let default_tracker = texts.get("tracker").is_none_or(|text| text.value.is_empty());
        if default_tracker {
            let tickets =
                std::path::absolute(place.path.join("tickets")).unwrap_or_else(|_| place.path.clone());
            let value = format!("file:{}", tickets.display());
            texts.insert("tracker", Text { value, from: "default".into() });
        }
        if texts.get("host").is_none_or(|text| text.value.is_empty()) {
            let value = crate::os::host::identity().hostname;
            texts.insert("host", Text { value, from: "default".into() });
        }
        let get = Getter(&texts);
        let base = get.some("github_api");
        let address = get.parsed("tracker", |text| Address::parse(text, base))?;
        // Two ways to one directory are one tracker.
        let address = match address {
            Address::File(path) => Address::File(std::fs::canonicalize(&path).unwrap_or(path)),
            other => other,
        };
        let (token, token_from) = token(&address, get)?;
        let labels = Labels {
            queue: get.text("labels.queue"),
            working: get.text("labels.working"),
            ci_wait: get.text("labels.ci_wait"),
            ready: get.text("labels.ready"),
            failed: get.text("labels.failed"),
            stage_prefix: get.text("labels.stage_prefix"),
            host_prefix: get.text("labels.host_prefix"),
        };
        if let Some(why) = labels.unusable() {
            return Err(Error::config(why));
        }
        let arbiter = |text: &str| {
            Arbiter::parse(text).or_else(|| is_database(text).then_some(Arbiter::Database)).ok_or(
                "is not an arbiter (guard, label-gate, comment-order, git-ref, none, or a database: its URL, its name in /etc/orion/via, or 'database' for ORION_VIA)".to_owned(),
            )
        };
        let goal = |text: &str| match text {
            "ready" => Ok(Goal::Ready),
            "ci-wait" => Ok(Goal::CiWait),
            _ => Err("is neither ready nor ci-wait".to_owned()),
        };
        let boundary =
            |text: &str| Boundary::parse(text).ok_or("is not a change of stage (FROM -> TO)".to_owned());
        let version = |text: &str| match text {
            "2" => Ok(2),
            "3" => Ok(3),
            _ => Err("is neither 2 nor 3".to_owned()),
        };
        let count =
            |text: &str| text.parse().ok().filter(|n| *n > 0).ok_or("is not a number from 1 on".to_owned());
        let bool = |text: &str| text.parse().map_err(|_| "is neither true nor false".to_owned());
        Ok(Self {
            arbiter: get.optional("arbiter", arbiter)?,
            arbiter_place: get.some("arbiter").filter(|text| is_database(text)).map(str::to_owned),
            arbiter_grace: get.optional("arbiter_grace", promise)?,
            arbiter_fence: get.optional("arbiter_fence", promise)?,
            single_machine: get.parsed("single_machine", bool)?,
            ignore_assignee: get.parsed("ignore_assignee", bool)?,
            git_remote: get.some("git_remote").map(str::to_owned),
            host: get.text("host"),
            labels,
            settle: get.parsed("settle", duration::parse)?,
            tick_every: get.parsed("tick_every", some_time)?,
            on_success: get.parsed("on_success", goal)?,
            finished: get.parsed("finished", boundary)?,
            watch_every: get.parsed("watch.every", some_time)?,
            watch_max: get.parsed("watch.max", count)?,
            jira_version: get.optional("jira_version", version)?,
            allow_http: get.parsed("allow_http", bool)?,
            timeout: get.parsed("timeout", some_time)?,
            patience: get.parsed("patience", duration::parse)?,
            address,
            token,
            token_from,
            place,
            file,
            texts,
        })
    }

    /// How to reach the tracker.
    pub(super) fn options(&self) -> Options {
        Options {
            labels: self.labels.clone(),
            token: self.token.clone(),
            user: self.some("user").map(str::to_owned),
            jira_version: self.jira_version,
            allow_http: self.allow_http,
            ca_file: self.some("ca_file").map(PathBuf::from),
            timeout: self.timeout,
            patience: self.patience,
        }
    }

    fn some(&self, key: &str) -> Option<&str> {
        Getter(&self.texts).some(key)
    }

    /// The tracker as it was given, for programs that we start.
    pub(super) fn tracker_text(&self) -> &str {
        self.some("tracker").unwrap_or_default()
    }

    /// Every setting by name, for `--print-config`.
    pub(super) fn texts(&self) -> impl Iterator<Item = (&'static str, &Text)> {
        KEYS.iter().filter_map(|(key, ..)| Some((*key, self.texts.get(key)?)))
    }
}

#[derive(Clone, Copy)]
struct Getter<'a>(&'a BTreeMap<&'static str, Text>);

impl<'a> Getter<'a> {
    fn some(&self, key: &str) -> Option<&'a str> {
        self.0.get(key).map(|text| text.value.as_str()).filter(|value| !value.is_empty())
    }

    fn text(&self, key: &str) -> String {
        self.some(key).unwrap_or_default().to_owned()
    }

    fn parsed<T>(&self, key: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<T, Error> {
        let text = self.some(key).unwrap_or_default();
        parse(text).map_err(|why| {
            let from = self.0.get(key).map_or("default", |text| text.from.as_str());
            // The words of a program may be anything.
            if key == "token_command" {
                return Error::config(format!("{key} (from {from}) {why}"));
            }
            Error::config(format!("{key} (from {from}): '{}' {why}", escape(text.as_bytes(), 120)))
        })
    }

    fn optional<T>(&self, key: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, Error> {
        if self.some(key).is_none() { Ok(None) } else { self.parsed(key, parse).map(Some) }
    }
}

/// A database by URL, or by a name that root gave it.
fn is_database(text: &str) -> bool {
    text.contains("://") || crate::os::settings_file::names_database(text)
}

/// A duration, as it is handed on.
fn promise(text: &str) -> Result<String, String> {
    some_time(text).map(|_| text.to_owned())
}

/// A duration that is not nothing.
fn some_time(text: &str) -> Result<Duration, String> {
    let time = duration::parse(text)?;
    if time.is_zero() { Err("must be longer than zero".to_owned()) } else { Ok(time) }
}

/// Where the tracker's token comes from. Never from an argument: those are public.
fn token(address: &Address, get: Getter<'_>) -> Result<(TokenSource, Option<String>), Error> {
    let names: &[&str] = match address {
        Address::GitHub { .. } => &env::name::GITHUB_TOKENS,
        Address::Jira { .. } => &[env::name::JIRA_TOKEN],
        Address::GitLab { .. } => &[env::name::GITLAB_TOKEN],
        Address::Gitea { .. } => &[env::name::GITEA_TOKEN],
        Address::File(_) | Address::Command(_) => return Ok((TokenSource::Nothing, None)),
    };
    for name in std::iter::once(&env::name::TRACKER_TOKEN).chain(names) {
        if let Some(value) = env::value(name) {
            let text = value.into_string().unwrap_or_default();
            let secret = Secret::new(&text).map_err(|failure| Error::config(format!("{name}: {failure}")))?;
            return Ok((TokenSource::Given(secret), Some((*name).to_owned())));
        }
    }
    match (get.some("token_file"), get.some("token_command")) {
        (None, None) => Ok((TokenSource::Nothing, None)),
        (Some(_), Some(_)) => Err(Error::config("token_file and token_command are both set: one is enough")),
        (Some(path), None) => {
            let path = PathBuf::from(path);
            // Said now, and not by the first request.
            Secret::from_file(&path)?;
            let from = format!("token_file {}", path.display());
            Ok((TokenSource::File(path), Some(from)))
        }
        (None, Some(_)) => {
            let words = get.parsed("token_command", settings_file::words)?;
            let from = format!("token_command {}", words.first().map_or("", String::as_str));
            Ok((TokenSource::Command(words), Some(from)))
        }
    }
}
