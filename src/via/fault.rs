//! What a database, or the way to it, answers instead of an answer.

use crate::error::{Error, Kind, escape, reason};
use std::io;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ViaFault {
    /// Nobody there, or not now: may pass.
    Down(String),
    /// It will not work like this: a setting, a certificate, a right. What, and what to do.
    Setting(String, String),
    /// An error of the server: SQLSTATE and its words.
    Sql(String, String),
}

impl ViaFault {
    /// A setting that cannot work.
    pub(crate) fn setting(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Setting(what.into(), hint.into())
    }

    /// Is it the server's time limit for a lock inside it, so that a second try makes sense?
    pub(crate) fn is_lock_timeout(&self) -> bool {
        matches!(self, Self::Sql(state, _) if state == "55P03")
    }

    /// As a failure of a tool; `place` is the database, without a password.
    pub(crate) fn at(&self, place: &str) -> Error {
        match self {
            Self::Down(why) => Error::new(Kind::Unreachable, format!("no answer from {place}: {why}")),
            Self::Setting(what, hint) => Error::config(format!("{place}: {what}")).hint(hint.clone()),
            Self::Sql(state, words) => Self::server(place, state, words),
        }
    }

    fn server(place: &str, state: &str, words: &str) -> Error {
        let words = escape(words.as_bytes(), 200);
        match state {
            "42501" => Error::config(format!("{place}: this role may not use the locks there: {words}"))
                .hint("whoever made the schema: orion-lock --via WHERE init --grant ROLE"),
            "3F000" | "42P01" | "42883" => {
                Error::config(format!("{place}: the locks are not set up in this database"))
                    .hint("once, as its owner: orion-lock --via WHERE init --grant ROLE")
            }
            "28P01" | "28000" | "3D000" => {
                Error::config(format!("{place}: {words}")).hint("see AUTHENTICATION in man orion-via")
            }
            "53300" => Error::new(Kind::Unreachable, format!("{place}: no connection is free: {words}")),
            "25006" => {
                Error::new(Kind::Unreachable, format!("{place} can only be read (a standby): {words}"))
            }
            _ => Error::new(Kind::Unreachable, format!("{place}: {words} ({state})")),
        }
    }

    /// Words for a log line.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Down(why) | Self::Setting(why, _) => why.clone(),
            Self::Sql(state, words) => format!("{} ({state})", escape(words.as_bytes(), 200)),
        }
    }
}

impl From<io::Error> for ViaFault {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                Self::Down("it did not answer in time".into())
            }
            io::ErrorKind::UnexpectedEof => Self::Down("it closed the connection".into()),
            _ => Self::Down(reason(&error)),
        }
    }
}
