//! May a queued ticket be begun now? Pure.

use crate::model::ticket::Ticket;

/// Why a queued ticket is not offered; `None` when it is. `me` is who we are, as
/// the tracker names people, where that is known.
pub(crate) fn kept_back(
    ticket: &Ticket,
    blockers: &[String],
    me: Option<&str>,
    ignore_assignee: bool,
) -> Option<String> {
    if !blockers.is_empty() {
        return Some(format!("blocked by {}", blockers.join(", ")));
    }
    let ours = |name: &String| me.is_some_and(|me| me.eq_ignore_ascii_case(name));
    if ignore_assignee || ticket.assignees.is_empty() || ticket.assignees.iter().any(ours) {
        return None;
    }
    let to = ticket.assignees.join(", ");
    Some(match me {
        Some(me) => format!("assigned to {to}, and we are {me}"),
        None => format!("assigned to {to}, and who we are is not known"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ticket::Key;

    fn ticket(assignees: &[&str]) -> Ticket {
        Ticket {
            assignees: assignees.iter().map(|&name| name.to_owned()).collect(),
            ..Ticket::bare(Key::new("1").expect("key"))
        }
    }

    #[test]
    fn a_blocker_or_somebody_else_keeps_it_back() {
        let said = |ticket: &Ticket, me, ignore| kept_back(ticket, &[], me, ignore);
        assert_eq!(said(&ticket(&[]), None, false), None);
        assert_eq!(said(&ticket(&["Ann", "bot"]), Some("Bot"), false), None);
        assert_eq!(
            said(&ticket(&["Ann"]), Some("bot"), false).as_deref(),
            Some("assigned to Ann, and we are bot")
        );
        assert!(said(&ticket(&["Ann"]), None, false).is_some_and(|why| why.contains("not known")));
        assert_eq!(said(&ticket(&["Ann"]), None, true), None);
        // No setting ignores a blocker.
        let blocked = kept_back(&ticket(&[]), &["7".into(), "9".into()], Some("bot"), true);
        assert_eq!(blocked.as_deref(), Some("blocked by 7, 9"));
    }
}
