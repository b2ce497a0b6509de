//! A pause: a person's word that nothing new begins, until it is taken back or its time is over.

use crate::model::time::WallTime;
use serde::{Deserialize, Serialize};

/// The newest format that this version reads.
pub(crate) const PAUSE_SCHEMA: u64 = 1;
/// `kind` of its file.
const KIND: &str = "pause";
/// No file of ours is longer, bytes.
pub(crate) const PAUSE_MAX: usize = 16 * 1024;

/// What a person said, as it stands in its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pause {
    schema: u64,
    kind: String,
    /// User id of who said it.
    pub(crate) uid: u32,
    /// The name of that user, where it was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
    /// RFC 3339, UTC.
    pub(crate) since: String,
    /// RFC 3339, UTC: it ends by itself then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
}

impl Pause {
    /// A pause that begins at `since`.
    pub(crate) fn new(
        (uid, user): (u32, Option<String>),
        since: WallTime,
        until: Option<WallTime>,
        note: Option<String>,
    ) -> Self {
        let (since, until) = (since.rfc3339(), until.map(WallTime::rfc3339));
        Self { schema: PAUSE_SCHEMA, kind: KIND.to_owned(), uid, user, since, until, note }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > PAUSE_MAX {
            return Err(format!("longer than {PAUSE_MAX} bytes"));
        }
        let pause: Self = serde_json::from_slice(bytes).map_err(|_| "not a pause of ours".to_owned())?;
        if pause.kind != KIND {
            return Err("not a pause of ours".to_owned());
        }
        if pause.schema > PAUSE_SCHEMA {
            return Err(format!("written by a newer version (schema {})", pause.schema));
        }
        let readable = |time: &String| WallTime::parse(time).is_some();
        if !readable(&pause.since) || !pause.until.as_ref().is_none_or(readable) {
            return Err("its times cannot be read".to_owned());
        }
        Ok(pause)
    }

    /// The file.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// When it began.
    pub(crate) fn begun(&self) -> WallTime {
        WallTime::parse(&self.since).unwrap_or(WallTime(0))
    }

    /// When it ends by itself; `None`: it does not.
    pub(crate) fn end(&self) -> Option<WallTime> {
        self.until.as_deref().and_then(WallTime::parse)
    }
}

/// What was found in the place of a pause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PauseFound {
    Nothing,
    /// A pause, and when people were told of it last.
    Read(Box<Pause>, WallTime),
    /// Something stands there, and why it says nothing.
    Unreadable(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_survives_its_file_and_other_files_are_none() {
        let until = WallTime::parse("2026-11-30T09:12:04.113Z");
        let pause = Pause::new((7, Some("anna".to_owned())), WallTime(1_000), until, Some("disk".to_owned()));
        assert_eq!(Pause::parse(&pause.bytes()), Ok(pause.clone()));
        assert_eq!((pause.begun(), pause.end()), (WallTime(1_000), until));
        let text = String::from_utf8(pause.bytes()).expect("text");
        for (from, to) in [
            ("\"schema\":1", "\"schema\":2"),
            ("\"kind\":\"pause\"", "\"kind\":\"lock\""),
            ("2026-11-30T", "2026-11-30 at "),
            ("1970-01-01T", "long ago "),
            ("}", ""),
        ] {
            assert!(text.contains(from), "{from}");
            assert!(Pause::parse(text.replace(from, to).as_bytes()).is_err(), "{to}");
        }
        assert!(Pause::parse(b"").is_err());
        let long = text.replace("disk", &"d".repeat(PAUSE_MAX));
        assert!(Pause::parse(long.as_bytes()).is_err());
    }
}
