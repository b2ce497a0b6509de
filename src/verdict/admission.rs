//! May somebody come to a name, beside the members that are there? Every member was
//! judged by itself; one of which nothing can be proved counts as there.

use crate::model::entry::EntryMode;

/// Is a member there?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// Free or proved dead.
    Gone,
    Live,
    Unknown,
}

/// What counts of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemberFacts {
    pub(crate) presence: Presence,
    /// It holds the name alone.
    pub(crate) exclusive: bool,
    /// Its slot; `None`: it has none.
    pub(crate) slot: Option<u32>,
    /// Nothing is known of it, so any slot may be its own, and it may be alone.
    pub(crate) unreadable: bool,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Come in; a member gets this slot.
    Enter { slot: Option<u32> },
    /// Proved: somebody is in the way.
    Held,
    /// Somebody may be in the way.
    Unclear,
    /// Nobody is in the way, but somebody who needs the name alone stands in line.
    ExclusiveWaits,
    /// A person paused it, and nobody is proved to be there.
    Paused,
    /// A person may have paused it: what was written down cannot be read.
    PauseUnclear,
}

/// Decides. `exclusive_waits`: somebody who wants it alone stands in line, and came first.
pub(crate) fn admission(mode: EntryMode, members: &[MemberFacts], exclusive_waits: bool) -> Admission {
    let there: Vec<&MemberFacts> =
        members.iter().filter(|member| member.presence != Presence::Gone).collect();
    let in_the_way: Vec<&MemberFacts> = match mode {
        EntryMode::Exclusive => there.clone(),
        EntryMode::Slots(_) | EntryMode::Shared => {
            there.iter().copied().filter(|member| member.exclusive || member.unreadable).collect()
        }
    };
    if !in_the_way.is_empty() {
        return proof(&in_the_way, 1);
    }
    if let EntryMode::Slots(slots) = mode
        && there.len() >= slots as usize
    {
        return proof(&there, slots as usize);
    }
    match mode {
        EntryMode::Exclusive => Admission::Enter { slot: None },
        _ if exclusive_waits => Admission::ExclusiveWaits,
        EntryMode::Shared => Admission::Enter { slot: None },
        EntryMode::Slots(_) => Admission::Enter { slot: lowest_free(&there) },
    }
}

/// "Held" needs as many live members as are in the way.
fn proof(members: &[&MemberFacts], enough: usize) -> Admission {
    let live = members.iter().filter(|member| member.presence == Presence::Live).count();
    if live >= enough { Admission::Held } else { Admission::Unclear }
}

/// Fewer members than slots are there, so one of the first `len + 1` numbers is free.
fn lowest_free(there: &[&MemberFacts]) -> Option<u32> {
    (1..=u32::MAX).find(|slot| there.iter().all(|member| member.slot != Some(*slot)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn member(presence: Presence, slot: Option<u32>) -> MemberFacts {
        MemberFacts { presence, exclusive: false, slot, unreadable: false }
    }
    const ALONE: MemberFacts =
        MemberFacts { presence: Presence::Live, exclusive: true, slot: None, unreadable: false };
    const UNREADABLE: MemberFacts = MemberFacts { unreadable: true, ..member(Presence::Unknown, None) };

    #[test]
    fn who_may_come_in() {
        use Admission::{Enter, ExclusiveWaits, Held, Unclear};
        use EntryMode::{Exclusive, Shared, Slots};
        use Presence::{Gone, Live, Unknown};
        let free = Enter { slot: None };
        let dead_alone = MemberFacts { presence: Gone, ..ALONE };
        let maybe_alone = MemberFacts { presence: Unknown, ..ALONE };
        let (one, two, share) = (member(Live, Some(1)), member(Live, Some(2)), member(Live, None));
        let rows: [(EntryMode, &[MemberFacts], bool, Admission); 24] = [
            (Exclusive, &[], true, free),
            (Exclusive, &[dead_alone], true, free),
            (Exclusive, &[member(Gone, Some(1)), member(Gone, None)], false, free),
            (Exclusive, &[member(Gone, Some(1)), two], false, Held),
            (Exclusive, &[member(Unknown, Some(1))], false, Unclear),
            (Exclusive, &[member(Unknown, Some(1)), share], false, Held),
            (Slots(1), &[], false, Enter { slot: Some(1) }),
            (Slots(3), &[one, two], false, Enter { slot: Some(3) }),
            (Slots(3), &[two], false, Enter { slot: Some(1) }),
            (Slots(3), &[member(Gone, Some(1)), two], false, Enter { slot: Some(1) }),
            (Slots(2), &[one, two], false, Held),
            (Slots(2), &[one, share], false, Held),
            (Slots(2), &[one, member(Unknown, Some(2))], false, Unclear),
            (Slots(1), &[one, member(Unknown, Some(2))], false, Held),
            (Slots(1), &[one, two], false, Held),
            (Exclusive, &[one, two, share], false, Held),
            (Slots(5), &[ALONE], false, Held),
            (Slots(5), &[maybe_alone], false, Unclear),
            (Slots(5), &[one, UNREADABLE], false, Unclear),
            (Slots(3), &[one], true, ExclusiveWaits),
            (Slots(1), &[one], true, Held),
            (Shared, &[one, two, share], false, free),
            (Shared, &[share], true, ExclusiveWaits),
            (Shared, &[ALONE], true, Held),
        ];
        for (mode, members, waits, expected) in rows {
            assert_eq!(admission(mode, members, waits), expected, "{mode:?} {members:?} {waits}");
        }
    }
}
