//! As what somebody comes to a name: alone, in a slot, or to share it.

use crate::model::record::Record;
use serde_json::{Map, Value, json};

/// `attrs.slot`: the number of a member's slot, 1 and up; absent for a share.
pub(crate) const SLOT: &str = "slot";
/// `attrs.slots`: how many slots that member asked for.
pub(crate) const SLOTS: &str = "slots";

/// What is asked for. The number of slots is the caller's word, not a property of the name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum EntryMode {
    /// Nobody else may be there.
    #[default]
    Exclusive,
    /// One of so many slots, beside other members.
    Slots(u32),
    /// Beside any number of other members.
    Shared,
}

impl EntryMode {
    /// What a member's record says of it, beside who it is.
    pub(crate) fn attrs(self, slot: Option<u32>) -> Map<String, Value> {
        let mut attrs = Map::new();
        if let (Self::Slots(slots), Some(slot)) = (self, slot) {
            attrs.insert(SLOT.into(), json!(slot));
            attrs.insert(SLOTS.into(), json!(slots));
        }
        attrs
    }
}

impl Record {
    /// The slot it holds; `None`: it shares the name, or holds it alone.
    pub(crate) fn slot(&self) -> Option<u32> {
        self.number(SLOT)
    }

    /// How many slots its owner asked for.
    pub(crate) fn slots(&self) -> Option<u32> {
        self.number(SLOTS)
    }

    fn number(&self, key: &str) -> Option<u32> {
        u32::try_from(self.attrs.get(key)?.as_u64()?).ok()
    }
}
