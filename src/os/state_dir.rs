//! The state directory: chosen by uid or by one explicit setting, checked before use.

use crate::error::{Error, Kind, reason};
use crate::model::account::{Account, AccountKey};
use crate::model::place::{Choices, Rule, StatePlace, choose, file_system, parse_machine_file};
use crate::os::dir::{Dir, Opened};
use crate::os::users;
use rustix::fs::{OFlags, Stat, fstat, fstatfs};
use rustix::process::{getegid, geteuid, getgroups};
use std::cell::OnceCell;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The setting that binds the whole machine.
const MACHINE_FILE: &str = "/etc/orion/dir";
/// Marks: used by one container at a time; shared between machines.
const PRIVATE: &str = ".private";
const NETWORK: &str = ".network";
/// Left by the first acquire from a pid namespace other than the initial one.
const CONTAINERS: &str = ".containers";
const STATE_ID: &str = ".state-id";

/// An open, checked state directory.
#[derive(Debug)]
pub(crate) struct StateDir {
    pub(crate) dir: Dir,
    pub(crate) place: StatePlace,
    /// Name of its file system.
    pub(crate) file_system: String,
    /// Accepted without asking.
    pub(crate) local: bool,
    /// Marked as shared between machines.
    pub(crate) network: bool,
    /// Marked as used by one container at a time.
    private: OnceCell<bool>,
    /// `st_dev` and `st_ino`, to compare two views.
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) uid: u32,
}

/// A mark of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirMark {
    Private,
    Network,
}

/// Which directory it is, for `user` or for ourselves.
///
/// # Errors
/// CONFIG, with the line to type.
pub(crate) fn place(
    option: Option<PathBuf>,
    variable: Option<PathBuf>,
    user: Option<&str>,
) -> Result<StatePlace, Error> {
    if let Some(user) = user {
        return place_of_user(user);
    }
    let machine = if option.is_some() { None } else { machine_file()? };
    let uid = geteuid().as_raw();
    let explicit = option.is_some() || machine.is_some() || variable.is_some();
    // Only asked when needed: the passwd database may be a server.
    let home = if explicit || uid == 0 { None } else { home_of(uid)? };
    choose(&Choices { option, machine, variable, uid, home })
        .map_err(|message| Error::config(message).hint("give an absolute path: --dir DIR or ORION_DIR=DIR"))
}

fn place_of_user(name: &str) -> Result<StatePlace, Error> {
    let user = users::find(AccountKey::Name(name))
        .map_err(|why| Error::config(format!("user {name}: {why}")))?
        .ok_or_else(|| Error::usage(format!("there is no user {name}")))?;
    of_account(user)
}

/// A user's own directory.
///
/// # Errors
/// CONFIG: it has no home.
fn of_account(user: Account) -> Result<StatePlace, Error> {
    choose(&Choices { uid: user.uid, home: Some(user.home), ..Choices::default() }).map_err(Error::config)
}

fn home_of(uid: u32) -> Result<Option<PathBuf>, Error> {
    users::find(AccountKey::Uid(uid)).map(|user| user.map(|user| user.home)).map_err(|why| {
        Error::config(format!("the home of uid {uid} cannot be looked up: {why}"))
            .hint("give an absolute path: --dir DIR or ORION_DIR=DIR")
    })
}

/// `/etc/orion/dir`: root's, not writable by others, one absolute path.
fn machine_file() -> Result<Option<PathBuf>, Error> {
    let bad = |why: &str| {
        Error::config(format!("{MACHINE_FILE} {why}"))
            .hint("it must be root's, mode 0644, and hold one absolute path")
    };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(MACHINE_FILE, flags, rustix::fs::Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => return Ok(None),
        Err(error) => return Err(bad(&format!("cannot be opened: {}", reason(&error.into())))),
    };
    let stat = fstat(&file).map_err(|error| bad(&reason(&error.into())))?;
    if stat.st_uid != 0 || stat.st_mode & 0o022 != 0 || stat.st_mode & 0o170_000 != 0o100_000 {
        return Err(bad("is not a file that only root can write"));
    }
    let mut bytes = Vec::new();
    file.take(8192).read_to_end(&mut bytes).map_err(|error| bad(&reason(&error)))?;
    parse_machine_file(&bytes).map(Some).map_err(bad)
}

impl StateDir {
    /// Opens and checks it. `None`: it does not exist (and `create` is false).
    ///
    /// # Errors
    /// CONFIG for a directory nobody should trust or whose file system is not
    /// known to lock, else as the system answers.
    pub(crate) fn open(place: StatePlace, create: bool) -> Result<Option<Self>, Error> {
        let shown = place.path.display().to_string();
        let dir = match Dir::open(&place.path) {
            Ok(dir) => dir,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !create => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // A directory that somebody typed is made, what should be above it is not: it may be mistyped,
                // and two spellings would be two locks.
                let by_default = matches!(place.rule, Rule::Root | Rule::Home);
                let made = if by_default { make(&place.path) } else { make_last(&place.path) };
                made.and_then(|()| Dir::open(&place.path)).map_err(|error| cannot_make(&place, &error))?
            }
            Err(error) if error.raw_os_error() == Some(nix::libc::ENOTDIR) => {
                return Err(
                    Error::config(format!("{shown} is not a directory")).hint("name another one with --dir")
                );
            }
            Err(error) => return Err(Error::io(&format!("directory {shown}"), &error)),
        };
        let opened = |error: rustix::io::Errno| Error::io(&format!("directory {shown}"), &error.into());
        let stat = fstat(dir.fd()).map_err(opened)?;
        trusted(&stat, &shown, place.rule)?;
        let kind = fstatfs(dir.fd()).map_err(opened)?.f_type;
        let (file_system, local) = file_system(u64::try_from(kind).unwrap_or(0));
        let network = dir.stat(NETWORK).is_ok();
        if !local && !network {
            return Err(Error::config(format!(
                "{shown} is on {file_system}, where a lock may hold on one machine only"
            ))
            .hint(format!("if it is yours to judge: orion-lock --dir {shown} where --mark-network")));
        }
        Ok(Some(Self {
            place,
            file_system,
            local,
            network,
            private: OnceCell::new(),
            device: stat.st_dev,
            inode: stat.st_ino,
            uid: stat.st_uid,
            dir,
        }))
    }

    /// Is it marked as used by one container at a time? Looked for at the first need.
    pub(crate) fn is_private(&self) -> bool {
        *self.private.get_or_init(|| self.dir.stat(PRIVATE).is_ok())
    }

    /// Was a lock in it taken from another pid namespace than the initial one?
    pub(crate) fn has_containers(&self) -> bool {
        self.dir.stat(CONTAINERS).is_ok()
    }

    /// Leaves the mark that [`StateDir::has_containers`] looks for; best effort, made once.
    pub(crate) fn note_container(&self) {
        if !self.has_containers() {
            drop(self.dir.create(CONTAINERS));
        }
    }

    /// The random id of this directory, made at the first need.
    ///
    /// # Errors
    /// As creating a file answers.
    pub(crate) fn state_id(&self) -> io::Result<String> {
        for _ in 0..2 {
            if let Opened::File(mut file) = self.dir.open_file(STATE_ID, OFlags::RDONLY)? {
                let mut text = String::with_capacity(128);
                Read::by_ref(&mut file).take(64).read_to_string(&mut text)?;
                return Ok(text.trim().to_owned());
            }
            let mut random = [0; 16];
            File::open("/dev/urandom")?.read_exact(&mut random)?;
            let id: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
            let mode = if self.dir.shared { 0o660 } else { 0o600 };
            let permissions: fs::Permissions = PermissionsExt::from_mode(mode);
            let mut temp = tempfile::Builder::new().prefix(".state-").tempfile_in(self.dir.path())?;
            temp.as_file().set_permissions(permissions)?;
            temp.write_all(format!("{id}\n").as_bytes())?;
            // Whole or not at all, and the first one stays.
            match temp.persist_noclobber(self.dir.path().join(STATE_ID)) {
                Ok(_) => return Ok(id),
                Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error.error),
            }
        }
        Err(io::ErrorKind::InvalidData.into())
    }
}

/// Makes a directory and what is missing above it, 0700 whatever the umask.
fn make(path: &Path) -> io::Result<()> {
    match make_last(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match path.parent() {
            Some(parent) if parent != Path::new("") => {
                make(parent)?;
                // Only once: procfs says ENOENT whatever its parents are.
                make_last(path)
            }
            _ => Err(error),
        },
        other => other,
    }
}

fn make_last(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => fs::set_permissions(path, PermissionsExt::from_mode(0o700)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// A user without a home of their own has not chosen a bad directory: none was chosen.
fn cannot_make(place: &StatePlace, error: &io::Error) -> Error {
    let what = format!("directory {}", place.path.display());
    let refused = matches!(
        error.raw_os_error(),
        Some(
            nix::libc::EACCES | nix::libc::EPERM | nix::libc::ENOENT | nix::libc::ENOTDIR | nix::libc::EROFS
        )
    );
    if place.rule == Rule::Home && refused {
        return Error::config(format!("{what} in your home cannot be made: {}", reason(error)))
            .hint("give an absolute path: --dir DIR or ORION_DIR=DIR");
    }
    let failed = Error::io(&what, error);
    if error.kind() == io::ErrorKind::NotFound {
        return Error::new(Kind::CannotCreate, failed.message()).hint(format!(
            "what is above it does not exist; if it is meant: mkdir -p {}",
            place.path.display()
        ));
    }
    failed
}

/// Leaves a mark in a directory, also in one whose file system is refused without it.
///
/// # Errors
/// As the system answers.
pub(crate) fn mark(path: &Path, mark: DirMark) -> Result<(), Error> {
    let failed = |error: io::Error| Error::io(&format!("directory {}", path.display()), &error);
    let dir = Dir::open(path).map_err(failed)?;
    let name = match mark {
        DirMark::Private => PRIVATE,
        DirMark::Network => NETWORK,
    };
    match dir.create(name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other.map(drop).map_err(failed),
    }
}

/// May a lock be kept in it? It belongs to root, to us, or to the group of a
/// directory shared on purpose; nobody else can write it.
fn trusted(stat: &Stat, shown: &str, rule: Rule) -> Result<(), Error> {
    let mode = stat.st_mode;
    if mode & 0o1000 != 0 {
        return Err(Error::config(format!(
            "{shown} is sticky, so a dead owner's record could be removed by nobody else"
        ))
        .hint("use a directory of your own, or share one: chgrp GROUP DIR && chmod 2770 DIR"));
    }
    if mode & 0o002 != 0 {
        return Err(Error::config(format!("{shown} can be written by everybody"))
            .hint(format!("chmod o-w {shown}, or share it with a group: chmod 2770 {shown}")));
    }
    let us = geteuid().as_raw();
    if stat.st_uid == us || stat.st_uid == 0 {
        return Ok(());
    }
    let group = stat.st_gid;
    let member = getegid().as_raw() == group
        || getgroups().is_ok_and(|groups| groups.iter().any(|gid| gid.as_raw() == group));
    if mode & 0o2020 == 0o2020 && (member || us == 0) {
        return Ok(());
    }
    // Root looks at a user's own directory with --user; it is trusted as that user's.
    if us == 0 && rule == Rule::Home {
        return Ok(());
    }
    Err(Error::config(format!("{shown} belongs to uid {}, not to you (uid {us})", stat.st_uid))
        .hint("use a directory of your own, or share one: chgrp GROUP DIR && chmod 2770 DIR"))
}
