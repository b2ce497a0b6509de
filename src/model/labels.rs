//! The labels that say whose turn a ticket is. Names are settings and are matched
//! exactly, never by prefix.

use crate::model::ticket::Ticket;

/// The names in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Labels {
    /// May be claimed.
    pub(crate) queue: String,
    /// Claimed: the lock.
    pub(crate) working: String,
    /// Pull request open, checks running, slot free.
    pub(crate) ci_wait: String,
    /// Work pushed, waiting for integration.
    pub(crate) ready: String,
    /// Stopped, needs a person.
    pub(crate) failed: String,
    /// Before an actor's id; shown to people, never read for control.
    pub(crate) stage_prefix: String,
    /// Before a machine's name; shown to people only.
    pub(crate) host_prefix: String,
}

impl Default for Labels {
    fn default() -> Self {
        let name = |end: &str| format!("orion-{end}");
        Self {
            queue: name("queue"),
            working: name("working"),
            ci_wait: name("ci-wait"),
            ready: name("ready"),
            failed: name("failed"),
            stage_prefix: name("stage-"),
            host_prefix: name("host-"),
        }
    }
}

impl Labels {
    /// The five that mean something, queue first.
    pub(crate) fn managed(&self) -> [&str; 5] {
        [&self.queue, &self.working, &self.ci_wait, &self.ready, &self.failed]
    }

    /// May it be claimed: queued, neither claimed nor waiting for its checks, not closed. Ready and
    /// failed beside the queue label are of the time before somebody queued it again.
    pub(crate) fn in_queue(&self, ticket: &Ticket) -> bool {
        self.is_wished(ticket) && !ticket.has(&self.ci_wait)
    }

    /// Somebody wants it to be worked on, now or when its checks are through.
    pub(crate) fn is_wished(&self, ticket: &Ticket) -> bool {
        !ticket.closed && ticket.has(&self.queue) && !ticket.has(&self.working)
    }

    /// What goes with a claim: left over from the time before the ticket was queued again.
    pub(crate) fn left_over(&self, ticket: &Ticket) -> Vec<String> {
        [&self.ready, &self.failed].into_iter().filter(|label| ticket.has(label)).cloned().collect()
    }

    /// Carries the lock, open or closed.
    pub(crate) fn in_flight(&self, ticket: &Ticket) -> bool {
        ticket.has(&self.working)
    }

    /// Handed on: ready, ci-wait or failed is on it.
    pub(crate) fn handed_on(&self, ticket: &Ticket) -> bool {
        [&self.ci_wait, &self.ready, &self.failed].iter().any(|label| ticket.has(label))
    }

    /// The stage and host labels on it: what a hand-over takes off beside the lock.
    pub(crate) fn stage_and_host(&self, ticket: &Ticket) -> Vec<String> {
        let ours =
            |label: &&String| label.starts_with(&self.stage_prefix) || label.starts_with(&self.host_prefix);
        ticket.labels.iter().filter(ours).cloned().collect()
    }

    /// The label that names this machine; characters no tracker takes everywhere become `-`.
    pub(crate) fn host(&self, name: &str) -> String {
        format!("{}{}", self.host_prefix, slug(name))
    }

    /// The label that names the actor at work, built from its id.
    pub(crate) fn stage(&self, actor: &str) -> String {
        format!("{}{}", self.stage_prefix, slug(actor))
    }

    /// Why these names cannot be used; `None` when they can.
    pub(crate) fn unusable(&self) -> Option<String> {
        let managed = self.managed();
        for (position, name) in managed.iter().enumerate() {
            if name.trim() != *name || name.is_empty() || name.chars().any(char::is_control) {
                return Some(format!("the label {name:?} is empty, padded or has control characters"));
            }
            // Case alone tells no two labels apart on GitHub.
            if managed[..position].iter().any(|other| other.to_lowercase() == name.to_lowercase()) {
                return Some(format!("the label {name} has two meanings"));
            }
            for prefix in [&self.stage_prefix, &self.host_prefix] {
                if prefix.is_empty() || name.starts_with(prefix.as_str()) {
                    return Some(format!("the label {name} begins with the prefix {prefix:?}"));
                }
            }
        }
        None
    }
}

fn slug(text: &str) -> String {
    // GitHub takes 50 characters for a whole label.
    let keep = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    text.chars().take(32).map(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ticket::Key;

    fn ticket(labels: &[&str], closed: bool) -> Ticket {
        Ticket {
            closed,
            labels: labels.iter().map(|&label| label.to_owned()).collect(),
            ..Ticket::bare(Key::new("1").expect("key"))
        }
    }

    #[test]
    fn the_queue_is_the_label_and_nothing_that_contradicts_it() {
        let labels = Labels::default();
        assert!(labels.in_queue(&ticket(&["bug", "orion-queue"], false)));
        assert!(!labels.in_queue(&ticket(&["orion-queue"], true)), "closed ends everything");
        assert!(!labels.in_queue(&ticket(&["orion-queue2", "Orion-Queue"], false)), "exactly");
        for other in ["orion-working", "orion-ci-wait"] {
            assert!(!labels.in_queue(&ticket(&["orion-queue", other], false)), "{other}");
        }
        for other in ["orion-ready", "orion-failed"] {
            assert!(labels.in_queue(&ticket(&["orion-queue", other], false)), "{other}: queued again");
        }
        let waits = ticket(&["orion-queue", "orion-ci-wait"], false);
        assert!(labels.is_wished(&waits), "kept until its checks are through");
    }

    #[test]
    fn stage_and_host_are_ours_by_prefix_and_names_are_made_safe() {
        let labels = Labels::default();
        let ticket = ticket(&["orion-working", "orion-stage-7", "orion-host-pi", "stage"], false);
        assert_eq!(labels.stage_and_host(&ticket), ["orion-stage-7", "orion-host-pi"]);
        assert_eq!(labels.host("a b,\"c\u{e9}"), "orion-host-a-b--c-");
    }

    #[test]
    fn labels_that_cannot_be_told_apart_are_refused() {
        assert_eq!(Labels::default().unusable(), None);
        let with = |change: fn(&mut Labels)| {
            let mut labels = Labels::default();
            change(&mut labels);
            labels.unusable()
        };
        assert!(with(|labels| labels.ready = "ORION-queue".into()).is_some());
        assert!(with(|labels| labels.ready = " x".into()).is_some());
        assert!(with(|labels| labels.ready = "orion-stage-ready".into()).is_some());
        assert!(with(|labels| labels.host_prefix = String::new()).is_some());
    }
}
