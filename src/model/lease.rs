//! What a resident writes into its lock file: the JSON object of an existing Go
//! program, of which we know some fields and keep the rest byte for byte.

use crate::model::identity::PID_MAX;
use crate::model::stamp::{Stamp, Written};
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::fmt;

/// The hidden subcommand that stands between `orion-lease run` and its command.
/// A command is known by it: its parent's first argument, its grandparent the holder.
pub(crate) const GUARDIAN: &str = "guardian";

/// The hidden subcommand of the shim that becomes the command.
pub(crate) const BECOME: &str = "become";

/// The longest payload that is read or written, bytes.
pub(crate) const MAX_PAYLOAD: usize = 16 * 1024;

/// A payload: its fields in the order they were found, values as they were written.
#[derive(Clone, Debug)]
pub(crate) struct Payload {
    fields: Vec<(String, Box<RawValue>)>,
}

/// Which build of a program a resident runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Build {
    pub(crate) mod_time: Option<Stamp>,
    pub(crate) size: Option<u64>,
    pub(crate) revision: Option<String>,
}

/// What our own tick adds so that silence can be counted in time awake. A field that
/// could not be read when the tick was written is absent, and proves nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TickStamp {
    /// The boot in which the clocks below ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) boot_id: Option<String>,
    /// The time namespace in which the clocks below were read (time_namespaces(7)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) time_ns: Option<u64>,
    /// CLOCK_MONOTONIC at the tick, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) monotonic_us: Option<u64>,
    /// CLOCK_BOOTTIME at the tick, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) boottime_us: Option<u64>,
    /// The `last_tick` it was written with; another writer's tick makes it void.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) of: String,
    /// All lock files of the role, where it has several: a tick goes into each of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) locks: Vec<String>,
}

/// What a resident says about itself when it takes the role.
#[derive(Clone, Debug)]
pub(crate) struct FirstPayload<'a> {
    pub(crate) pid: u32,
    pub(crate) host: &'a str,
    pub(crate) surface: &'a str,
    pub(crate) acquired_at: Stamp,
    pub(crate) store: Option<&'a str>,
    pub(crate) build: Option<&'a Build>,
    /// The lock files of the role.
    pub(crate) locks: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct RawBuild {
    #[serde(default)]
    mod_time: Option<String>,
    #[serde(default)]
    size: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revision: Option<String>,
}

impl Payload {
    /// Reads one JSON object with nothing but white space around it. `None` for
    /// anything else: torn, empty, too long, another shape.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > MAX_PAYLOAD {
            return None;
        }
        let OrderedFields(fields) = serde_json::from_slice(bytes).ok()?;
        Some(Self { fields })
    }

    /// A resident's first words.
    pub(crate) fn new(by: &FirstPayload<'_>) -> Self {
        let mut payload = Self { fields: Vec::new() };
        payload.set("pid", &by.pid);
        payload.set("host", by.host);
        payload.set("surface", by.surface);
        payload.set("acquired_at", &by.acquired_at.rfc3339_trimmed());
        if let Some(store) = by.store {
            payload.set("store", store);
        }
        if let Some(build) = by.build
            && let Some(mod_time) = build.mod_time
        {
            let written = RawBuild {
                mod_time: Some(mod_time.rfc3339_trimmed()),
                size: Some(build.size.and_then(|size| i64::try_from(size).ok()).unwrap_or(0)),
                revision: build.revision.clone(),
            };
            payload.set("build", &written);
        }
        if by.locks.len() > 1 {
            let locks = by.locks.clone();
            payload.set("orion", &TickStamp { locks, ..TickStamp::default() });
        }
        payload
    }

    /// The same with a new tick; every other field stays as it is.
    #[must_use]
    pub(crate) fn ticked(mut self, at: Stamp, clocks: TickStamp) -> Self {
        let of = at.rfc3339_nanos();
        self.set("last_tick", &of);
        let locks = self.locks();
        self.set("orion", &TickStamp { of, locks, ..clocks });
        self
    }

    /// The other lock files of its role; empty where it has one only.
    pub(crate) fn locks(&self) -> Vec<String> {
        self.get::<TickStamp>("orion").map_or_else(Vec::new, |orion| orion.locks)
    }

    /// The text to write: one line.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut text = String::from("{");
        for (position, (name, value)) in self.fields.iter().enumerate() {
            if position > 0 {
                text.push(',');
            }
            text.push_str(&serde_json::Value::from(name.as_str()).to_string());
            text.push(':');
            text.push_str(value.get());
        }
        text.push_str("}\n");
        text.into_bytes()
    }

    /// The holder's process number; `None` when it cannot be one.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.get("pid").filter(|pid| (1..=PID_MAX).contains(pid))
    }

    /// The machine's name, shown only.
    pub(crate) fn host(&self) -> Option<String> {
        self.get("host")
    }

    /// Where the holder came from.
    pub(crate) fn surface(&self) -> Option<String> {
        self.get("surface").filter(|surface: &String| !surface.is_empty())
    }

    /// The store it says it serves, shown only.
    pub(crate) fn store(&self) -> Option<String> {
        self.get("store").filter(|store: &String| !store.is_empty())
    }

    /// When it took the role.
    pub(crate) fn acquired_at(&self) -> Written {
        self.time("acquired_at")
    }

    /// Its last sign of life.
    pub(crate) fn last_tick(&self) -> Written {
        self.time("last_tick")
    }

    /// The clocks of that tick, if they still belong to it.
    pub(crate) fn tick_stamp(&self) -> Option<TickStamp> {
        let stamp: TickStamp = self.get("orion")?;
        let of = Stamp::read(&stamp.of).stamp()?;
        (of.time() == self.last_tick().stamp()?.time()).then_some(stamp)
    }

    /// Which build it runs; `None` when it does not say.
    pub(crate) fn build(&self) -> Option<Build> {
        let raw: RawBuild = self.get("build")?;
        let mod_time = raw.mod_time.as_deref().map_or(Written::Absent, Stamp::read).stamp()?;
        Some(Build {
            mod_time: Some(mod_time),
            size: raw.size.and_then(|size| u64::try_from(size).ok()),
            revision: raw.revision.filter(|revision| !revision.is_empty()),
        })
    }

    fn time(&self, name: &str) -> Written {
        match self.raw(name).map(RawValue::get) {
            None | Some("null") => Written::Absent,
            Some(text) => {
                serde_json::from_str::<String>(text).map_or(Written::Unreadable, |text| Stamp::read(&text))
            }
        }
    }

    /// Of two fields with one name the last counts, as in Go.
    fn raw(&self, name: &str) -> Option<&RawValue> {
        self.fields.iter().rev().find(|(found, _)| found == name).map(|(_, value)| &**value)
    }

    fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_str(self.raw(name)?.get()).ok()
    }

    fn set<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        // Numbers, strings and maps of them always have a JSON form.
        let Ok(value) = to_raw_value(value) else { return };
        match self.fields.iter_mut().rev().find(|(found, _)| found == name) {
            Some((_, old)) => *old = value,
            None => self.fields.push((name.to_owned(), value)),
        }
    }
}

/// An object as a list, so that order and unknown values survive.
struct OrderedFields(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for OrderedFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OrderedVisitor;
        impl<'de> Visitor<'de> for OrderedVisitor {
            type Value = OrderedFields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OrderedFields, A::Error> {
                let mut fields = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    fields.push(entry);
                }
                Ok(OrderedFields(fields))
            }
        }
        deserializer.deserialize_map(OrderedVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GO: &str = r#"{"pid":812,"host":"box","surface":"wake","acquired_at":"2026-11-29T10:12:04.5+01:00",
        "last_tick":"0001-01-01T00:00:00Z","build":{"mod_time":"0001-01-01T00:00:00Z","size":0,"revision":""},
        "future":{"big":123456789012345678901234567890, "f":1e400},"n":1.0}"#;

    fn parse(text: &str) -> Payload {
        Payload::parse(text.as_bytes()).expect("an object")
    }

    fn clocks() -> TickStamp {
        TickStamp { boot_id: Some("boot".into()), monotonic_us: Some(77), ..TickStamp::default() }
    }

    #[test]
    fn gos_zero_values_read_as_absent() {
        let payload = parse(GO);
        assert_eq!(payload.pid(), Some(812));
        assert_eq!(payload.surface().as_deref(), Some("wake"));
        assert_eq!(payload.last_tick(), Written::Absent);
        assert_eq!(payload.build(), None);
        assert_eq!(payload.acquired_at().stamp().expect("time").rfc3339_trimmed(), "2026-11-29T09:12:04.5Z");
    }

    #[test]
    fn a_tick_keeps_what_it_does_not_know() {
        let at = Stamp::read("2026-11-29T09:20:00.25Z").stamp().expect("time");
        let ticked = parse(GO).ticked(at, clocks());
        let text = String::from_utf8(ticked.to_bytes()).expect("text");
        assert!(
            text.contains(r#""future":{"big":123456789012345678901234567890, "f":1e400},"n":1.0"#),
            "{text}"
        );
        assert!(text.contains(r#""acquired_at":"2026-11-29T10:12:04.5+01:00""#), "{text}");
        let again = parse(&text);
        assert_eq!(again.last_tick().stamp().expect("time").time(), at.time());
        assert_eq!(again.tick_stamp().expect("ours").monotonic_us, Some(77));
    }

    #[test]
    fn another_writers_tick_voids_our_stamp() {
        let at = Stamp::read("2026-11-29T09:20:00Z").stamp().expect("time");
        let text = String::from_utf8(parse(GO).ticked(at, clocks()).to_bytes()).expect("text");
        let theirs =
            text.replace("\"last_tick\":\"2026-11-29T09:20:00", "\"last_tick\":\"2026-11-29T09:21:00");
        assert_ne!(text, theirs);
        assert_eq!(parse(&theirs).tick_stamp(), None);
    }

    #[test]
    fn what_is_no_payload_is_none_and_what_is_no_pid_is_no_pid() {
        for text in ["", "{", "[]", "null", "7", "{\"pid\":1}x", "{\"pid\":1}{\"pid\":2}", "{\"pid\":1}\0"] {
            assert!(Payload::parse(text.as_bytes()).is_none(), "{text}");
        }
        assert!(Payload::parse(&vec![b' '; MAX_PAYLOAD + 1]).is_none());
        for pid in ["0", "-1", "4194305", "\"5\"", "5.5", "null", "99999999999999999999"] {
            assert_eq!(parse(&format!("{{\"pid\":{pid}}}")).pid(), None, "{pid}");
        }
        assert_eq!(parse("{\"pid\":1,\"pid\":2}").pid(), Some(2));
        assert_eq!(parse("{\"last_tick\":5}").last_tick(), Written::Unreadable);
        assert_eq!(parse("{\"last_tick\":null}").last_tick(), Written::Absent);
        assert_eq!(parse("{\"build\":\"x\"}").build(), None);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_crash_the_reader(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            if let Some(payload) = Payload::parse(&bytes) {
                drop((payload.pid(), payload.last_tick(), payload.build(), payload.tick_stamp()));
            }
        }
    }
}
