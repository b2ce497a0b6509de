//! Which directory holds the locks, and what may be said of it. Rules, no system calls.

use std::path::{Path, PathBuf};

/// Names of databases for everybody on this machine: root's, `NAME URL` a line.
pub(crate) const DATABASE_NAMES: &str = "/etc/orion/via";

/// Which rule chose the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// `--dir`.
    Option,
    /// `/etc/orion/dir`, for the whole machine.
    Machine,
    /// `ORION_DIR`.
    Variable,
    /// root's default, `/var/lib/orion`.
    Root,
    /// A user's default, below the home of the passwd database.
    Home,
}

impl Rule {
    /// For people and JSON.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Option => "--dir",
            Self::Machine => "/etc/orion/dir",
            Self::Variable => "ORION_DIR",
            Self::Root => "default of root",
            Self::Home => "default of the user",
        }
    }
}

/// A directory and why it is that one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StatePlace {
    pub(crate) path: PathBuf,
    pub(crate) rule: Rule,
    /// ORION_DIR is set and `/etc/orion/dir` overrules it.
    pub(crate) overruled: bool,
}

/// What can choose a directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choices {
    pub(crate) option: Option<PathBuf>,
    pub(crate) machine: Option<PathBuf>,
    pub(crate) variable: Option<PathBuf>,
    pub(crate) uid: u32,
    /// From the passwd database; never HOME.
    pub(crate) home: Option<PathBuf>,
}

/// Picks the directory: option, machine, variable, then the user's own.
///
/// # Errors
/// What is unusable and the line to type.
pub(crate) fn choose(choices: &Choices) -> Result<StatePlace, String> {
    if let Some(path) = &choices.option {
        // A path typed on the command line may be relative: the person sees where they stand.
        return Ok(StatePlace { path: path.clone(), rule: Rule::Option, overruled: false });
    }
    if let Some(path) = &choices.machine {
        return Ok(StatePlace {
            path: path.clone(),
            rule: Rule::Machine,
            overruled: choices.variable.is_some(),
        });
    }
    if let Some(path) = &choices.variable {
        if !path.is_absolute() {
            return Err(format!("the path in ORION_DIR is not absolute: {}", path.display()));
        }
        return Ok(StatePlace { path: path.clone(), rule: Rule::Variable, overruled: false });
    }
    if choices.uid == 0 {
        return Ok(StatePlace { path: PathBuf::from("/var/lib/orion"), rule: Rule::Root, overruled: false });
    }
    let home = choices.home.as_ref().filter(|home| home.is_absolute() && home.as_path() != Path::new("/"));
    home.map_or_else(
        || Err(format!("uid {} has no home directory in the passwd database", choices.uid)),
        |home| Ok(StatePlace { path: home.join(".local/state/orion"), rule: Rule::Home, overruled: false }),
    )
}

/// The content of `/etc/orion/dir`: one absolute path and a newline.
///
/// # Errors
/// Why it is not.
pub(crate) fn parse_machine_file(bytes: &[u8]) -> Result<PathBuf, &'static str> {
    use std::os::unix::ffi::OsStrExt;
    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if line.is_empty() || line.contains(&b'\n') || line.contains(&0) || line.len() > 4095 {
        return Err("does not hold exactly one path");
    }
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(line));
    if path.is_absolute() { Ok(path) } else { Err("does not hold an absolute path") }
}

/// File systems of this machine alone, on which flock and record locks are known to work:
/// `f_type` of statfs(2) and the name.
const LOCAL: [(u64, &str); 8] = [
    (0xEF53, "ext2/3/4"),
    (0x5846_5342, "xfs"),
    (0x9123_683E, "btrfs"),
    (0xF2F5_2010, "f2fs"),
    (0xCA45_1A4E, "bcachefs"),
    (0x2FC1_2FC1, "zfs"),
    (0x0102_1994, "tmpfs"),
    (0x794C_7630, "overlay"),
];

/// Others by name, for a message.
const OTHERS: [(u64, &str); 9] = [
    (0x6969, "nfs"),
    (0xFF53_4D42, "cifs"),
    (0xFE53_4D42, "smb2"),
    (0x6573_5546, "fuse"),
    (0x0102_1997, "9p"),
    (0x00C3_6400, "ceph"),
    (0x4D44, "vfat"),
    (0x9FA0, "proc"),
    (0x8584_58F6, "ramfs"),
];

/// The name of a file system and whether it is accepted without asking.
pub(crate) fn file_system(f_type: u64) -> (String, bool) {
    let known = |list: &[(u64, &str)]| {
        list.iter().find(|(magic, _)| *magic == f_type).map(|(_, name)| (*name).to_owned())
    };
    match known(&LOCAL) {
        Some(name) => (name, true),
        None => (known(&OTHERS).unwrap_or_else(|| format!("type 0x{f_type:x}")), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Choices {
        Choices {
            option: Some("x".into()),
            machine: Some("/m".into()),
            variable: Some("/v".into()),
            uid: 1000,
            home: Some("/home/u".into()),
        }
    }

    #[test]
    fn option_machine_variable_user_in_that_order() {
        let mut choices = all();
        assert_eq!(choose(&choices).expect("option").rule, Rule::Option);
        choices.option = None;
        let place = choose(&choices).expect("machine");
        assert_eq!((place.rule, place.overruled), (Rule::Machine, true));
        choices.machine = None;
        assert_eq!(choose(&choices).expect("variable").path, Path::new("/v"));
        choices.variable = Some("rel".into());
        assert!(choose(&choices).is_err());
        choices.variable = None;
        assert_eq!(choose(&choices).expect("home").path, Path::new("/home/u/.local/state/orion"));
        for home in [None, Some("/".into()), Some("nowhere".into())] {
            choices.home = home;
            assert!(choose(&choices).is_err());
        }
        choices.uid = 0;
        assert_eq!(choose(&choices).expect("root").path, Path::new("/var/lib/orion"));
    }

    #[test]
    fn the_machine_file_is_one_absolute_path() {
        assert_eq!(parse_machine_file(b"/srv/orion\n"), Ok("/srv/orion".into()));
        for bad in [&b""[..], b"\n", b"rel\n", b"/a\n/b\n", b"/a\0"] {
            assert!(parse_machine_file(bad).is_err(), "{bad:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_machine_file_crashes_the_reader(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            if let Ok(path) = parse_machine_file(&bytes) {
                proptest::prop_assert!(path.is_absolute());
            }
        }
    }
}
