//! A ticket that somebody queued again between our gate and our working label.

use crate::model::ticket::{EventId, TicketChange, TicketEvent};

/// The working event of a claim that passed the gate `gate`, although the ticket was
/// queued again since: nobody has taken the queue label off in the new round, so the one
/// working event since the gate can only be that claim's. `None`: that is not so.
pub(crate) fn queued_over(
    events: &[TicketEvent],
    queue: &str,
    working: &str,
    gate: &EventId,
) -> Option<EventId> {
    let start = events.iter().rposition(|event| event.id == *gate)?;
    let since = &events[start + 1..];
    let on = |label: &str, event: &&TicketEvent| matches!(&event.what, TicketChange::Labeled(name) if name == label);
    let taken =
        since.iter().any(|event| matches!(&event.what, TicketChange::Unlabeled(name) if name == queue));
    let mut ours = since.iter().filter(|event| on(working, event));
    match (taken, ours.next(), ours.next()) {
        (false, Some(event), None) if since.iter().any(|event| on(queue, &event)) => Some(event.id.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(letters: &str) -> Option<String> {
        let events: Vec<TicketEvent> = letters
            .char_indices()
            .map(|(place, letter)| {
                let what = match letter {
                    'Q' => TicketChange::Labeled("q".into()),
                    'q' => TicketChange::Unlabeled("q".into()),
                    'W' => TicketChange::Labeled("w".into()),
                    _ => TicketChange::Unlabeled("w".into()),
                };
                TicketEvent { id: EventId(place.to_string()), what, at: None, actor: String::new() }
            })
            .collect();
        queued_over(&events, "q", "w", &EventId("1".into())).map(|id| id.0)
    }

    #[test]
    fn our_working_label_over_a_new_round_is_known_as_ours() {
        assert_eq!(found("QqQW").as_deref(), Some("3"), "queued again before we put working on");
        assert_eq!(found("QqWwQ").as_deref(), Some("2"), "or after");
        assert_eq!(found("QqQqW"), None, "somebody passed the new round's gate");
        assert_eq!(found("QqQWW"), None, "two of them");
        assert_eq!(found("QqW"), None, "not queued again at all");
        assert_eq!(found("Qq"), None);
        assert_eq!(found("Q"), None, "no such gate");
    }
}
