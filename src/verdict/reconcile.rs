//! What the reconcile pass does with one ticket.
