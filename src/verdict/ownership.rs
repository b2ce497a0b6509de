//! May the caller change what a record says? The token gives the right, or being
//! the recorded owner. Descent gives none: a nested script's exit trap must not
//! free its parent's lock.

use crate::model::identity::ProcessIdentity;
use crate::model::observation::Found;
use crate::model::record::{BadRecord, Record};
use crate::model::token::GuardToken;

/// What a caller shows.
#[derive(Clone, Debug)]
pub(crate) enum Credential {
    Token(u64),
    Owner(ProcessIdentity),
}

/// What it is worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// The live record is the caller's.
    Mine,
    /// It was, and was released under this very token.
    AlreadyReleased,
    /// It is not; says whose it is instead.
    NotMine(String),
    /// Nothing can be said.
    Unclear(String),
    /// A newer format.
    Newer(u64),
}

/// Compares a right with what stands there; `guard` is the last token, where known.
pub(crate) fn ownership(found: &Found, guard: Option<GuardToken>, right: &Credential) -> Ownership {
    let record = match found {
        Found::Record(stored) => &stored.record,
        Found::Nothing => {
            return match (right, guard.and_then(GuardToken::number)) {
                // One above: a release that had to remove the record raised it, so that nobody stands for it.
                (Credential::Token(token), Some(last)) if *token == last || token + 1 == last => {
                    Ownership::AlreadyReleased
                }
                _ => Ownership::NotMine("nobody holds it".into()),
            };
        }
        Found::Bad(BadRecord::Newer(schema)) => return Ownership::Newer(*schema),
        Found::Bad(BadRecord::Corrupt(why)) => {
            return Ownership::NotMine(format!("its record is corrupt ({why})"));
        }
        Found::Unreadable(why) => return Ownership::Unclear(format!("its record cannot be read: {why}")),
        Found::NotAFile(what) => return Ownership::Unclear(format!("its record is {what}")),
    };
    let mine = match right {
        Credential::Token(token) => record.token == *token,
        Credential::Owner(owner) => record.owners.iter().any(|recorded| recorded.same(owner)),
    };
    match (mine, &record.released_at) {
        (true, None) => Ownership::Mine,
        (true, Some(_)) => Ownership::AlreadyReleased,
        (false, _) => Ownership::NotMine(whose(record)),
    }
}

fn whose(record: &Record) -> String {
    match &record.released_at {
        Some(_) => format!("another owner had it last and released it (token {})", record.token),
        None => {
            let owner = record.owners.first().map_or(0, |owner| owner.pid);
            format!("its record names pid {owner} with token {}", record.token)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::record::{LOCK, Stored};
    use serde_json::json;

    fn found(released: bool) -> Found {
        let mut value = json!({
            "schema": 1, "kind": "lock", "name": "x", "token": 5,
            "owners": [{"pid": 812, "start_ticks": 7}],
            "host": {"boottime_us": 5}, "acquired_at": "2026-11-29T09:12:04Z"
        });
        if released {
            value["released_at"] = json!("2026-11-29T10:00:00Z");
        }
        Found::Record(Box::new(Stored::parse(value.to_string().as_bytes(), LOCK, "x").expect("a record")))
    }

    fn owner(pid: u32, start_ticks: u64) -> Credential {
        Credential::Owner(ProcessIdentity { pid, start_ticks, pidfs_ino: None, comm: String::new(), uid: 0 })
    }

    #[test]
    fn the_token_or_the_owner_itself_and_nothing_else() {
        let last = Some(GuardToken::Last(5));
        let cases = [
            (found(false), Credential::Token(5), "mine"),
            (found(false), Credential::Token(4), "not"),
            (found(false), owner(812, 7), "mine"),
            (found(false), owner(812, 8), "not"),
            (found(false), owner(813, 7), "not"),
            (found(true), Credential::Token(5), "already"),
            (found(true), Credential::Token(4), "not"),
            (found(true), owner(812, 7), "already"),
            (Found::Nothing, Credential::Token(5), "already"),
            (Found::Nothing, Credential::Token(6), "not"),
            // The release of a full disk: the record went, and the guard's token was raised.
            (Found::Nothing, Credential::Token(4), "already"),
            (Found::Nothing, Credential::Token(3), "not"),
            (Found::Nothing, owner(812, 7), "not"),
            (Found::Bad(BadRecord::Corrupt("torn".into())), Credential::Token(5), "not"),
            (Found::Bad(BadRecord::Newer(2)), Credential::Token(5), "newer"),
            (Found::Unreadable("no".into()), Credential::Token(5), "unclear"),
        ];
        for (found, right, expected) in cases {
            let answer = ownership(&found, last, &right);
            let word = match answer {
                Ownership::Mine => "mine",
                Ownership::AlreadyReleased => "already",
                Ownership::NotMine(_) => "not",
                Ownership::Unclear(_) => "unclear",
                Ownership::Newer(_) => "newer",
            };
            assert_eq!(word, expected, "{found:?} {right:?}");
        }
        let whose = |released| match ownership(&found(released), last, &Credential::Token(4)) {
            Ownership::NotMine(whose) => whose,
            other => panic!("{other:?}"),
        };
        assert_eq!(whose(false), "its record names pid 812 with token 5");
        assert_eq!(whose(true), "another owner had it last and released it (token 5)");
    }
}
