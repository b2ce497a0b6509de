//! Who won a ticket, from what the tracker shows.
