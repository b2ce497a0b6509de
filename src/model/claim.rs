//! What the record of a claim says beyond a lock's: its `attrs`.

use crate::model::arbiter::Arbiter;
use crate::model::ticket::EventId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// How far a claim came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Phase {
    /// Said, nothing written yet.
    Intent,
    /// The queue label was taken off by us.
    Gated,
    /// The ticket was closed under its owner.
    Closed,
    /// Claimed. What a newer version may call it is at least that.
    #[default]
    #[serde(other)]
    Held,
}

impl Phase {
    /// The word in records.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Intent => "intent",
            Self::Gated => "gated",
            Self::Held => "held",
            Self::Closed => "closed",
        }
    }
}

/// Where a ticket goes when its holder is through with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Goal {
    Ready,
    CiWait,
    Queue,
    Failed,
}

impl Goal {
    /// The word in records, events and options.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::CiWait => "ci-wait",
            Self::Queue => "queue",
            Self::Failed => "failed",
        }
    }
}

/// A hand-over that its holder decided; written before the ticket is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Handing {
    pub(crate) to: Goal,
    /// RFC 3339, UTC.
    pub(crate) at: String,
    /// By `release`: the owner may live on, and the ticket waits only for others that work on it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) released: bool,
    /// The command died of a signal: it counts as a death.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) died: bool,
}

impl Handing {
    /// The word for `ended` once it is carried out.
    pub(crate) fn ended(&self) -> &'static str {
        if self.died { DIED } else { self.to.as_str() }
    }
}

/// A ticket whose command said 75.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GivenBack {
    /// So many times in a row.
    pub(crate) times: u32,
    /// It is not taken again before; RFC 3339, UTC.
    pub(crate) until: String,
}

/// How the command of a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CommandResult {
    /// As a shell reports it: 128 + N for signal N.
    pub(crate) status: u8,
    /// The signal it died of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<i32>,
    /// How long it ran, milliseconds.
    pub(crate) ran_ms: u64,
    /// RFC 3339, UTC.
    pub(crate) at: String,
    /// The file with the end of its stderr (`--keep-output`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stderr: Option<String>,
}

/// Deaths of a ticket's holders in a row, within one boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Deaths {
    #[serde(default)]
    pub(crate) boot: String,
    #[serde(default)]
    pub(crate) count: u32,
    /// The token of the last one counted, so that none is counted twice.
    #[serde(default)]
    pub(crate) token: u64,
}

/// Where an earlier run of the ticket left its work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Resume {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) branch: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) worktree: Option<String>,
    /// That run's token.
    #[serde(default)]
    pub(crate) token: u64,
}

/// The attrs of a claim's record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attrs {
    /// Canonical address of the tracker.
    #[serde(default)]
    pub(crate) tracker: String,
    #[serde(default)]
    pub(crate) state: Phase,
    /// Random, one per claim.
    #[serde(default)]
    pub(crate) nonce: String,
    /// `run` or `acquire`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) via: String,
    /// Who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) arbiter: Option<String>,
    /// The event that queued the ticket, where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) round: Option<String>,
    /// Our event that took the queue label off, where that was the gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) gate: Option<String>,
    /// Our event that put the working label on.
    #[serde(default, rename = "mark", skip_serializing_if = "Option::is_none")]
    pub(crate) working_event: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) branch: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) worktree: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) handing: Option<Handing>,
    /// It was given back with 75, and is left alone for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) given_back: Option<GivenBack>,
    /// How its command ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<CommandResult>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) deaths: Option<Deaths>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) resume: Option<Resume>,
    /// How it ended: a [`Goal`]'s word, `died`, `lost`, `aside` or `freed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended: Option<String>,
    /// Why, where that is not what its run decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
}

/// `ended` of a claim whose run ended without a hand-over.
pub(crate) const DIED: &str = "died";
/// `ended` of a claim that another one won.
pub(crate) const LOST: &str = "lost";
/// `ended` of a claim whose ticket moved on without it.
pub(crate) const ASIDE: &str = "aside";
/// `ended` of a claim that a person freed.
pub(crate) const FREED: &str = "freed";

impl Attrs {
    /// Reads them; what does not parse is a held claim without a mark, which frees nothing.
    pub(crate) fn read(attrs: &Map<String, Value>) -> Self {
        serde_json::from_value(Value::Object(attrs.clone())).unwrap_or_default()
    }

    /// For a fresh record.
    pub(crate) fn to_map(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(map)) => map,
            _ => Map::new(),
        }
    }

    /// The event that queued the ticket.
    pub(crate) fn round(&self) -> Option<EventId> {
        self.round.clone().map(EventId)
    }

    /// Our gate event.
    pub(crate) fn gate(&self) -> Option<EventId> {
        self.gate.clone().map(EventId)
    }

    /// Our working event.
    pub(crate) fn working_event(&self) -> Option<EventId> {
        self.working_event.clone().map(EventId)
    }

    /// Who decided.
    pub(crate) fn arbiter(&self) -> Option<Arbiter> {
        self.arbiter.as_deref().and_then(Arbiter::parse)
    }

    /// Deaths before this claim's own, within this boot.
    pub(crate) fn deaths_before(&self, boot: &str, token: u64) -> u32 {
        match &self.deaths {
            Some(deaths) if deaths.boot == boot => {
                deaths.count - u32::from(deaths.token == token).min(deaths.count)
            }
            _ => 0,
        }
    }

    /// The attrs of the next claim of the ticket that come from this one, which ended.
    pub(crate) fn inherited(&self, token: u64) -> Map<String, Value> {
        let mut map = Map::new();
        let ended = self.ended.as_deref().unwrap_or_default();
        if ended == DIED || ended == LOST {
            // One that was lost did nothing: what it inherited goes on.
            map.extend(self.deaths.as_ref().map(|deaths| ("deaths".to_owned(), json!(deaths))));
        }
        let worked = [DIED, FREED, Goal::Queue.as_str(), Goal::Failed.as_str()].contains(&ended);
        let resume = if worked && (self.branch.is_some() || self.worktree.is_some()) {
            Some(Resume { branch: self.branch.clone(), worktree: self.worktree.clone(), token })
        } else if worked || ended == LOST {
            self.resume.clone()
        } else {
            None
        };
        if ended == Goal::Queue.as_str() || ended == LOST {
            map.extend(self.given_back.as_ref().map(|back| ("given_back".to_owned(), json!(back))));
        }
        map.extend(resume.map(|resume| ("resume".to_owned(), json!(resume))));
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attrs_survive_json_and_strange_ones_free_nothing() {
        let attrs =
            Attrs { state: Phase::Gated, nonce: "n".into(), gate: Some("7".into()), ..Attrs::default() };
        assert_eq!(Attrs::read(&attrs.to_map()), attrs);
        let mut strange = attrs.to_map();
        strange.insert("state".into(), json!("parked"));
        assert_eq!(Attrs::read(&strange).state, Phase::Held, "from the future");
        strange.insert("mark".into(), json!(7));
        let read = Attrs::read(&strange);
        assert_eq!((read.state, read.working_event), (Phase::Held, None));
    }

    #[test]
    fn deaths_count_within_one_boot_and_none_twice() {
        let deaths = Deaths { boot: "b".into(), count: 2, token: 9 };
        let attrs = Attrs { deaths: Some(deaths), ..Attrs::default() };
        assert_eq!(attrs.deaths_before("b", 9), 1, "this one is in it already");
        assert_eq!(attrs.deaths_before("b", 10), 2);
        assert_eq!(attrs.deaths_before("c", 10), 0, "restarted since");
        assert_eq!(Attrs::default().deaths_before("b", 1), 0);
    }

    #[test]
    fn the_next_taker_hears_of_work_that_was_interrupted() {
        let ended = |ended: &str, branch: Option<&str>| {
            let resume = Some(Resume { branch: Some("older".into()), worktree: None, token: 1 });
            let branch = branch.map(str::to_owned);
            let attrs = Attrs {
                ended: Some(ended.into()),
                branch,
                resume,
                deaths: Some(Deaths::default()),
                ..Attrs::default()
            };
            let map = attrs.inherited(5);
            let branch = map.get("resume").and_then(|resume| resume["branch"].as_str().map(str::to_owned));
            (branch, map.contains_key("deaths"))
        };
        let some = |branch: &str| Some(branch.to_owned());
        assert_eq!(ended(DIED, Some("b")), (some("b"), true));
        assert_eq!(ended(DIED, None), (some("older"), true), "it did not say where it worked");
        assert_eq!(ended("queue", Some("b")), (some("b"), false));
        assert_eq!(
            ended("failed", Some("b")),
            (some("b"), false),
            "a person who queues it again wants to know"
        );
        assert_eq!(ended(LOST, Some("b")), (some("older"), true), "it did nothing");
        assert_eq!(ended("ready", Some("b")), (None, false));
        assert_eq!(ended(ASIDE, Some("b")), (None, false));
    }
}
