//! Users as passwd(5) writes them down. Read by us: the C library's look-ups load
//! modules of the system, which a statically linked program cannot do.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// One user of this system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) home: PathBuf,
}

/// Which user is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccountKey<'a> {
    Uid(u32),
    Name(&'a str),
}

impl AccountKey<'_> {
    /// Is it this one?
    pub(crate) fn means(self, account: &Account) -> bool {
        match self {
            Self::Uid(uid) => account.uid == uid,
            Self::Name(name) => account.name == name,
        }
    }

    /// What `getent passwd` is asked for. `None`: nobody can be called so.
    pub(crate) fn query(self) -> Option<String> {
        match self {
            Self::Uid(uid) => Some(uid.to_string()),
            Self::Name(name) => {
                let odd = name.is_empty()
                    || name.starts_with(['-', '+'])
                    || name.contains([':', '/'])
                    || name.chars().any(|c| c.is_control() || c.is_whitespace());
                (!odd).then(|| name.to_owned())
            }
        }
    }
}

/// Reads lines `name:password:uid:gid:comment:home:shell`. What is not one is left out: comments,
/// the `+` and `-` lines of NIS, numbers out of range.
pub(crate) fn accounts(passwd: &[u8]) -> impl Iterator<Item = Account> + '_ {
    passwd.split(|byte| *byte == b'\n').filter_map(account)
}

fn account(line: &[u8]) -> Option<Account> {
    if line.starts_with(b"#") || line.starts_with(b"+") || line.starts_with(b"-") {
        return None;
    }
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b':').collect();
    let [name, _, uid, _, _, home, ..] = fields.as_slice() else { return None };
    let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty())?.to_owned();
    let digits =
        std::str::from_utf8(uid).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    Some(Account { name, uid: digits.parse().ok()?, home: PathBuf::from(OsStr::from_bytes(home)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_users_are_read_and_others_left_out() {
        let text = b"root:x:0:0:root:/root:/bin/sh\n# me:x:5:5::/x:\n+::::::\n-bad:x:6:6::/x:\nshort:x:7\n\
            pi:x:1000:1000:Pi,,,:/home/pi:/bin/bash\nodd:x:-1:0::/x:\nbig:x:4294967296:0::/x:\n\
            nul:x::0::/x:\nlast:x:8:8::/home/\xff:/bin/sh";
        let found: Vec<Account> = accounts(text).collect();
        let names: Vec<(&str, u32)> = found.iter().map(|it| (it.name.as_str(), it.uid)).collect();
        assert_eq!(names, [("root", 0), ("pi", 1000), ("last", 8)]);
        assert_eq!(found[1].home, PathBuf::from("/home/pi"));
        assert_eq!(found[2].home.as_os_str().as_bytes(), b"/home/\xff");
        assert!(AccountKey::Uid(1000).means(&found[1]) && !AccountKey::Uid(1000).means(&found[0]));
        assert!(AccountKey::Name("pi").means(&found[1]) && !AccountKey::Name("Pi").means(&found[1]));
    }

    #[test]
    fn nothing_that_is_no_name_is_asked_for() {
        for name in ["", "-x", "+", "a:b", "../x", "a b", "a\nb", "a\0"] {
            assert_eq!(AccountKey::Name(name).query(), None, "{name:?}");
        }
        assert_eq!(AccountKey::Name("DOM\\pi").query().as_deref(), Some("DOM\\pi"));
        assert_eq!(AccountKey::Uid(7).query().as_deref(), Some("7"));
    }

    proptest::proptest! {
        #[test]
        fn no_passwd_file_crashes_the_reader(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            let _ = accounts(&bytes).count();
        }
    }
}
