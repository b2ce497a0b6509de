//! The README.
