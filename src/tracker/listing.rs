//! What a tracker lists.

use crate::model::labels::Labels;
use crate::model::ticket::Ticket;

/// Tickets of one list, and those that could not be read: one broken ticket never hides the others.
#[derive(Debug, Default)]
pub(crate) struct TicketList {
    /// In the tracker's order (queue: the next to claim first).
    pub(crate) tickets: Vec<Ticket>,
    /// What could not be read, one line each.
    pub(crate) broken: Vec<String>,
}

impl TicketList {
    /// Only those that somebody put in the queue.
    pub(super) fn queued(mut self, labels: &Labels) -> Self {
        self.tickets.retain(|ticket| labels.is_wished(ticket));
        self
    }

    /// Only those that a run is on, or was.
    pub(super) fn in_flight(mut self, labels: &Labels) -> Self {
        self.tickets.retain(|ticket| labels.in_flight(ticket));
        self
    }

    /// By number. A ticket that moved between two pages must not be there twice.
    #[cfg(feature = "http")]
    pub(super) fn by_number(mut self) -> Self {
        self.tickets.sort_by_key(|ticket| ticket.key.as_str().parse::<u64>().unwrap_or(u64::MAX));
        self.tickets.dedup_by(|a, b| a.key == b.key);
        self
    }
}
