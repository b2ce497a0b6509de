//! Where a database is, and the password for it: WHERE, /etc/orion/via, the service file, the password file.

use crate::error::{Error, reason};
use crate::model::place::DATABASE_NAMES;
use crate::model::via::{VIA_CLAIM, VIA_LOCK, ViaPassword, ViaTarget};
use rustix::fs::{OFlags, fstat};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// What the environment says about databases. Read by the caller.
#[derive(Clone, Debug, Default)]
pub(crate) struct ViaEnvironment {
    /// ORION_VIA
    pub(crate) place: Option<String>,
    /// PGPASSFILE
    pub(crate) passfile: Option<PathBuf>,
    /// PGSERVICEFILE
    pub(crate) servicefile: Option<PathBuf>,
}

/// A database to connect to, and how to call it.
#[derive(Clone, Debug)]
pub(crate) struct ViaPlace {
    /// As typed: the NAME, or the URL without a password.
    pub(crate) shown: String,
    pub(crate) target: ViaTarget,
    pub(crate) user: String,
    pub(crate) database: String,
    /// Not the rows of locks are meant, but those of this tracker's tickets.
    pub(crate) tickets: Option<String>,
}

impl ViaPlace {
    /// The same database, for a tracker's tickets.
    pub(crate) fn for_tickets(self, tracker: Option<String>) -> Self {
        Self { tickets: tracker, ..self }
    }

    /// The kind of its rows.
    pub(crate) fn kind(&self) -> &'static str {
        if self.tickets.is_some() { VIA_CLAIM } else { VIA_LOCK }
    }

    /// What a row is called there.
    pub(crate) fn row_name(&self, name: &str) -> String {
        match &self.tickets {
            Some(tracker) => format!("{tracker}/{name}"),
            None => name.to_owned(),
        }
    }

    /// And here; `None`: it is none of these.
    pub(crate) fn local_name<'n>(&self, row: &'n str) -> Option<&'n str> {
        match &self.tickets {
            Some(tracker) => row.strip_prefix(tracker.as_str())?.strip_prefix('/'),
            None => Some(row),
        }
    }
}

/// Resolves WHERE: the argument, else ORION_VIA.
///
/// # Errors
/// USAGE for a password in an argument, CONFIG for what is not usable.
pub(crate) fn resolve(typed: Option<&str>, env: &ViaEnvironment) -> Result<ViaPlace, Error> {
    let Some(text) = typed.or(env.place.as_deref()) else {
        return Err(Error::usage("which database? No --via, and ORION_VIA is not set").hint("--via WHERE"));
    };
    let by_url = text.contains("://");
    let mut target = if by_url { parsed(text, "the URL")? } else { named(text)? };
    if typed.is_some() && by_url && target.password.is_some() {
        return Err(Error::usage("a password in an argument can be read by everybody on this machine (ps)")
            .hint("put it in ~/.pgpass (mode 0600, PGPASSFILE), or set ORION_VIA to the URL"));
    }
    let shown = if by_url { target.shown() } else { text.to_owned() };
    let me = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten();
    let home = me.as_ref().map(|user| user.dir.clone());
    if let Some(service) = target.service.take() {
        let in_home = || home.as_ref().map(|home| home.join(".pg_service.conf"));
        let path = env.servicefile.clone().or_else(in_home);
        let path = path.ok_or_else(|| Error::config("no service file: this user has no home"))?;
        from_service(&mut target, &service, &path)?;
    }
    if target.hosts.is_empty() {
        target.hosts.push(crate::model::via::ViaHost { host: String::new(), port: 5432 });
    }
    let user = target.user.clone().or_else(|| me.map(|user| user.name));
    let user =
        user.ok_or_else(|| Error::config("this uid has no name; give one: postgres://USER@HOST/DB"))?;
    let database = target.database.clone().unwrap_or_else(|| user.clone());
    if target.root_cert.is_none() {
        let usual = home.as_ref().map(|home| home.join(".postgresql/root.crt"));
        target.root_cert = usual.filter(|path| path.is_file());
    }
    if target.password.is_none() {
        let passfile = target.passfile.clone().or_else(|| env.passfile.clone());
        target.password = match passfile {
            Some(path) => from_passfile(&target, &user, &database, &path, true)?,
            None => match home.map(|home| home.join(".pgpass")) {
                Some(path) => from_passfile(&target, &user, &database, &path, false)?,
                None => None,
            },
        };
    }
    Ok(ViaPlace { shown, target, user, database, tickets: None })
}

fn parsed(url: &str, what: &str) -> Result<ViaTarget, Error> {
    ViaTarget::parse(url).map_err(|why| {
        Error::config(format!("{what} {why}")).hint("for example: postgres://job@db.example.org/locks")
    })
}

/// A line of `/etc/orion/via`. A name that is missing there is never silently this machine alone.
fn named(name: &str) -> Result<ViaTarget, Error> {
    let bad = |why: String| {
        Error::config(format!("{DATABASE_NAMES} {why}"))
            .hint(format!("as root, a line there: {name} postgres://USER@HOST/DATABASE"))
    };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(DATABASE_NAMES, flags, rustix::fs::Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => {
            return Err(bad(format!("does not exist, so '{}' is not a database", shown(name))));
        }
        Err(error) => return Err(bad(format!("cannot be read: {}", reason(&error.into())))),
    };
    let stat = fstat(&file).map_err(|error| bad(reason(&error.into())))?;
    if stat.st_uid != 0 || stat.st_mode & 0o022 != 0 || stat.st_mode & 0o170_000 != 0o100_000 {
        return Err(bad("is not a file that only root can write".to_owned()));
    }
    let mut text = String::new();
    file.take(256 * 1024).read_to_string(&mut text).map_err(|error| bad(reason(&error)))?;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let Some((first, url)) = line.split_once(char::is_whitespace) else { continue };
        if first == name {
            let target = parsed(url.trim(), &format!("{DATABASE_NAMES}: the URL of {name}"))?;
            if target.password.is_some() {
                return Err(bad(format!("has a password in the URL of {name}, where everybody can read it")));
            }
            return Ok(target);
        }
    }
    Err(bad(format!("has no line for '{}'", shown(name))))
}

fn shown(name: &str) -> String {
    crate::error::escape(name.as_bytes(), 60)
}

/// A section `[NAME]` of a service file. What the URL says wins.
fn from_service(target: &mut ViaTarget, service: &str, path: &Path) -> Result<(), Error> {
    let bad = |why: &str| Error::config(format!("service file {}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| bad(&reason(&error)))?;
    let mut found = ViaTarget::parse("postgres://").map_err(|why| bad(&why))?;
    let (mut inside, mut seen) = (false, false);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            inside = name.trim() == service;
            seen |= inside;
        } else if inside {
            let (key, value) = line.split_once('=').ok_or_else(|| bad("a line without '='"))?;
            found.set(key.trim(), value.trim()).map_err(|why| bad(&format!("[{service}] {why}")))?;
        }
    }
    if !seen {
        return Err(bad(&format!("there is no [{service}] in it")));
    }
    if found.password.is_some() {
        private(path).map_err(|why| bad(&why))?;
    }
    if target.hosts.is_empty() {
        target.hosts = found.hosts;
    }
    target.user = target.user.take().or(found.user);
    target.password = target.password.take().or(found.password);
    target.database = target.database.take().or(found.database);
    target.root_cert = target.root_cert.take().or(found.root_cert);
    target.cert = target.cert.take().or(found.cert);
    target.key = target.key.take().or(found.key);
    target.passfile = target.passfile.take().or(found.passfile);
    target.verify |= found.verify;
    target.insecure |= found.insecure;
    target.pooler |= found.pooler;
    Ok(())
}

/// Nobody else may read it.
fn private(path: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(path).map_err(|error| reason(&error))?.permissions().mode();
    if mode & 0o077 == 0 { Ok(()) } else { Err(format!("others can read it; chmod 600 {}", path.display())) }
}

/// A line `HOST:PORT:DATABASE:USER:PASSWORD` of a password file, `*` for any, `\` before `:` and `\`.
fn from_passfile(
    target: &ViaTarget,
    user: &str,
    database: &str,
    path: &Path,
    demanded: bool,
) -> Result<Option<ViaPassword>, Error> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(_) if !demanded => return Ok(None),
        Err(error) => {
            return Err(Error::config(format!("password file {}: {}", path.display(), reason(&error))));
        }
    };
    private(path).map_err(|why| Error::config(format!("password file {}: {why}", path.display())))?;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let fields = fields(line);
        let [host, port, db, role, password] = fields.as_slice() else { continue };
        let is = |pattern: &String, value: &str| pattern == "*" || pattern == value;
        let fits = |it: &crate::model::via::ViaHost| {
            let name = if it.is_socket() { "localhost" } else { &it.host };
            (is(host, name) || is(host, &it.host)) && is(port, &it.port.to_string())
        };
        if target.hosts.iter().any(fits) && is(db, database) && is(role, user) {
            return Ok(Some(ViaPassword(password.clone())));
        }
    }
    Ok(None)
}

fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        let last = fields.len() - 1;
        match c {
            '\\' => fields[last].extend(chars.next()),
            ':' if last < 4 => fields.push(String::new()),
            c => fields[last].push(c),
        }
    }
    fields
}
