//! The user database, without the C library: `/etc/passwd` is read by us, and whom
//! it does not know is asked of getent(1), which may load the system's modules
//! (LDAP, SSSD, systemd) where a static program of ours would crash in them.

use crate::model::account::{Account, AccountKey, accounts};
use crate::os::call::{self, NoAnswer};
use std::io;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Users of this machine, one a line, passwd(5).
const PASSWD: &str = "/etc/passwd";
/// Where getent is where PATH does not lead to one.
const GETENT: &str = "/usr/bin/getent";
/// How long a directory service may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Status of getent(1): no such key.
const NO_SUCH_KEY: i32 = 2;

/// Nobody, somebody, or why that cannot be said.
type AccountAnswer = Result<Option<Account>, String>;

/// Looks a user up. `None`: nobody is called so.
///
/// # Errors
/// `/etc/passwd` cannot be read, or getent does not answer in time; what it is, in words.
pub(crate) fn find(key: AccountKey<'_>) -> AccountAnswer {
    // A service that did not answer is not asked and waited for again, say for the log.
    static LAST: Mutex<Option<(u32, AccountAnswer)>> = Mutex::new(None);
    let AccountKey::Uid(uid) = key else { return look_up(key) };
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    match &*last {
        Some((known, answer)) if *known == uid => answer.clone(),
        _ => {
            let answer = look_up(key);
            *last = Some((uid, answer.clone()));
            answer
        }
    }
}

fn look_up(key: AccountKey<'_>) -> AccountAnswer {
    let Some(query) = key.query() else { return Ok(None) };
    if let Some(account) = listed()?.into_iter().find(|account| key.means(account)) {
        return Ok(Some(account));
    }
    ask(key, &query)
}

/// The users of `/etc/passwd`, in its order; none where there is no such file.
///
/// # Errors
/// It cannot be read.
pub(crate) fn listed() -> Result<Vec<Account>, String> {
    match std::fs::read(PASSWD) {
        Ok(bytes) => Ok(accounts(&bytes).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(format!("{PASSWD}: {}", crate::error::reason(&error))),
    }
}

fn ask(key: AccountKey<'_>, query: &str) -> AccountAnswer {
    let words = ["passwd", query];
    // As PATH says, else where it always is: cron jobs and services have odd ones.
    let answer = match call::call(Command::new("getent").args(words), PATIENCE) {
        Err(NoAnswer::NotFound) => call::call(Command::new(GETENT).args(words), PATIENCE),
        other => other,
    };
    let failed = |why: String| Err(format!("getent passwd {query} {why}"));
    match answer.map(|answer| (answer.status.code(), answer.stdout)) {
        // It compares as it likes: digits as a number, names without case.
        Ok((Some(0), stdout)) => Ok(accounts(&stdout).find(|account| key.means(account))),
        Ok((Some(NO_SUCH_KEY), _)) => Ok(None),
        Ok((Some(code), _)) => failed(format!("ended with {code}")),
        Ok((None, _)) => failed("was killed".into()),
        // No such program: then there are no users but those of the file.
        Err(NoAnswer::NotFound) => Ok(None),
        Err(NoAnswer::TimedOut | NoAnswer::TooMuch) => {
            failed(format!("gave no answer within {}s", PATIENCE.as_secs()))
        }
        Err(NoAnswer::Failed(error)) => {
            failed(format!("could not be asked: {}", crate::error::reason(&error)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_found_by_both_and_nobody_by_none() {
        let root = find(AccountKey::Uid(0)).expect("a database").expect("root");
        assert_eq!((root.name.as_str(), root.uid), ("root", 0));
        assert_eq!(find(AccountKey::Name("root")).expect("a database"), Some(root));
        assert_eq!(find(AccountKey::Uid(3_999_999_999)).expect("a database"), None);
        assert_eq!(find(AccountKey::Name("no-such-user-of-ours")).expect("a database"), None);
        assert_eq!(find(AccountKey::Name("0")).expect("a database"), None, "a number is not a name");
    }
}
