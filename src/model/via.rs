//! A lock on a database: where the database is, and what stands in its row. Rules, no connections.

use serde::Deserialize;
use serde_json::Value;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The number of the protocol, and of the schema's version.
pub(crate) const VIA_PROTOCOL: u64 = 1;

/// Rows of locks.
pub(crate) const VIA_LOCK: &str = "lock";
/// Rows of tickets.
pub(crate) const VIA_CLAIM: &str = "claim";

/// A password. It is never shown, also not by `{:?}`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ViaPassword(pub(crate) String);

impl fmt::Debug for ViaPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// One server of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ViaHost {
    /// A name, an address, or the absolute path of a directory with a socket; empty: the default socket.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl ViaHost {
    /// Is it a socket of this machine?
    pub(crate) fn is_socket(&self) -> bool {
        self.host.is_empty() || self.host.starts_with('/')
    }
}

/// A database, as a URL says it: `postgres://USER@HOST:PORT/DB?sslrootcert=FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ViaTarget {
    /// Tried in this order.
    pub(crate) hosts: Vec<ViaHost>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<ViaPassword>,
    pub(crate) database: Option<String>,
    /// `service=NAME`: the rest stands in the service file.
    pub(crate) service: Option<String>,
    /// `sslmode=verify-full`, also where it is not demanded.
    pub(crate) verify: bool,
    /// `insecure=yes`: a server elsewhere without TLS is accepted.
    pub(crate) insecure: bool,
    /// `pooler=session`: a pooler in session mode is accepted.
    pub(crate) pooler: bool,
    pub(crate) root_cert: Option<PathBuf>,
    pub(crate) cert: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) passfile: Option<PathBuf>,
}

/// The port of a server when none is named.
const PORT: u16 = 5432;

impl ViaTarget {
    /// Reads a URL.
    ///
    /// # Errors
    /// What is wrong with it; never with its password in it.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let rest = url
            .strip_prefix("postgres://")
            .or_else(|| url.strip_prefix("postgresql://"))
            .ok_or("is not a URL (postgres://USER@HOST:PORT/DATABASE)")?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (who, hosts) = match authority.rsplit_once('@') {
            Some((who, hosts)) => (Some(who), hosts),
            None => (None, authority),
        };
        let mut target = Self {
            hosts: Vec::new(),
            user: None,
            password: None,
            database: some(decoded(database)?),
            service: None,
            verify: false,
            insecure: false,
            pooler: false,
            root_cert: None,
            cert: None,
            key: None,
            passfile: None,
        };
        if let Some(who) = who {
            let (user, password) = match who.split_once(':') {
                Some((user, password)) => (user, some(decoded(password)?)),
                None => (who, None),
            };
            target.user = some(decoded(user)?);
            target.password = password.map(ViaPassword);
        }
        for host in hosts.split(',').filter(|host| !host.is_empty()) {
            target.hosts.push(host_of(host)?);
        }
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or("has an option without a value behind its '?'")?;
            target.set(key, &decoded(value)?)?;
        }
        Ok(target)
    }

    /// One option of a URL, or one line of a service file.
    ///
    /// # Errors
    /// What is unknown or unusable.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let path = || {
            let path = PathBuf::from(value);
            if path.is_absolute() { Ok(path) } else { Err(format!("needs an absolute path for {key}")) }
        };
        match key {
            "host" | "hostaddr" => {
                let ports: Vec<u16> = self.hosts.iter().map(|host| host.port).collect();
                self.hosts = Vec::new();
                for (at, host) in value.split(',').enumerate() {
                    let port = ports.get(at).or(ports.first()).copied().unwrap_or(PORT);
                    self.hosts.push(ViaHost { host: host.to_owned(), port });
                }
            }
            "port" => {
                let port = value.parse().map_err(|_| "has a port that is not a number".to_owned())?;
                if self.hosts.is_empty() {
                    self.hosts.push(ViaHost { host: String::new(), port });
                }
                self.hosts.iter_mut().for_each(|host| host.port = port);
            }
            "user" => self.user = some(value.to_owned()),
            "password" => self.password = some(value.to_owned()).map(ViaPassword),
            "dbname" => self.database = some(value.to_owned()),
            "service" => self.service = some(value.to_owned()),
            "sslmode" => match value {
                "verify-full" => self.verify = true,
                "disable" => self.verify = false,
                _ => {
                    return Err(format!(
                        "says sslmode={value}, which does not prove whose server it is (use verify-full, or disable on this machine)"
                    ));
                }
            },
            "insecure" if value == "yes" => self.insecure = true,
            "pooler" if value == "session" => self.pooler = true,
            "sslrootcert" => self.root_cert = Some(path()?),
            "sslcert" => self.cert = Some(path()?),
            "sslkey" => self.key = Some(path()?),
            "passfile" => self.passfile = Some(path()?),
            // The tools do what these ask for by themselves.
            "target_session_attrs" if value == "read-write" => {}
            "channel_binding" if value == "prefer" => {}
            "application_name" | "connect_timeout" => {}
            _ => return Err(format!("has an option that is not known: {key}={value}")),
        }
        Ok(())
    }

    /// The same without its password, for messages, records and the command's environment.
    pub(crate) fn shown(&self) -> String {
        let hosts: Vec<String> = self
            .hosts
            .iter()
            .map(|it| match it.host.contains(':') {
                true => format!("[{}]:{}", it.host, it.port),
                false => format!("{}:{}", encoded(&it.host), it.port),
            })
            .collect();
        let user = self.user.as_ref().map_or_else(String::new, |user| format!("{}@", encoded(user)));
        let database = self.database.as_deref().map(encoded).unwrap_or_default();
        let mut options: Vec<String> = Vec::new();
        let mut add = |key: &str, value: Option<String>| {
            options.extend(value.map(|value| format!("{key}={}", encoded(&value))));
        };
        let text = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        add("service", self.service.clone());
        add("sslmode", self.verify.then(|| "verify-full".to_owned()));
        add("insecure", self.insecure.then(|| "yes".to_owned()));
        add("pooler", self.pooler.then(|| "session".to_owned()));
        add("sslrootcert", text(&self.root_cert));
        add("sslcert", text(&self.cert));
        add("sslkey", text(&self.key));
        add("passfile", text(&self.passfile));
        let mark = if options.is_empty() { "" } else { "?" };
        format!("postgres://{user}{}/{database}{mark}{}", hosts.join(","), options.join("&"))
    }

    /// The folder of this machine's records for this database: 8 hex of hosts and database.
    pub(crate) fn records_folder(&self, database: &str) -> String {
        let hosts: Vec<String> = self.hosts.iter().map(|it| format!("{}:{}", it.host, it.port)).collect();
        let text = format!("{}/{database}", hosts.join(","));
        format!("{:08x}", crate::model::address::fnv1a(text.as_bytes()))
    }
}

fn some(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

fn host_of(text: &str) -> Result<ViaHost, String> {
    let number = |text: &str| text.parse().map_err(|_| "has a port that is not a number".to_owned());
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or("has a '[' without its ']'")?;
        let port = rest.strip_prefix(':').map_or(Ok(PORT), number)?;
        return Ok(ViaHost { host: host.to_owned(), port });
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, number(port)?),
        None => (text, PORT),
    };
    Ok(ViaHost { host: decoded(host)?, port })
}

fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        if *first != b'%' {
            bytes.push(*first);
            rest = tail;
            continue;
        }
        let hex = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|byte| *byte != 0);
        bytes.push(byte.ok_or("has a '%' without two hexadecimal digits behind it")?);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())
}

fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// Who holds or held a lock, as the holder wrote it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct ViaHolder {
    #[serde(default)]
    pub(crate) host: String,
    #[serde(default)]
    pub(crate) machine_id: Option<String>,
    #[serde(default)]
    pub(crate) pid: u32,
    #[serde(default)]
    pub(crate) comm: String,
    #[serde(default)]
    pub(crate) uid: u32,
    #[serde(default)]
    pub(crate) note: Option<String>,
}

/// The row of a lock.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ViaRow {
    pub(crate) name: String,
    pub(crate) token: u64,
    /// How often its holder attached again.
    #[serde(rename = "gen")]
    pub(crate) generation: i64,
    pub(crate) nonce: Option<String>,
    pub(crate) backend: Option<i64>,
    /// `None`: its holder gave no grace (`--grace never`).
    pub(crate) grace_ms: Option<u64>,
    pub(crate) holder: Option<ViaHolder>,
    pub(crate) acquired_at: Option<String>,
    pub(crate) released_at: Option<String>,
    /// The session that has the row's advisory lock.
    pub(crate) locker: Option<i64>,
    /// Seconds since it was acquired, by the server's clock.
    pub(crate) held_s: Option<f64>,
    pub(crate) last_tick: Option<Value>,
    /// Seconds since the last tick, by the server's clock.
    pub(crate) silent_s: Option<f64>,
    pub(crate) stop_asked_at: Option<String>,
    /// The last run that began.
    #[serde(default)]
    pub(crate) ran_token: Option<u64>,
    pub(crate) ran_at: Option<String>,
    pub(crate) ran_key: Option<String>,
    pub(crate) ran_status: Option<i64>,
    pub(crate) ran_ended_s: Option<f64>,
}

impl ViaRow {
    /// The holder's grace.
    pub(crate) fn grace(&self) -> Option<Duration> {
        self.grace_ms.map(Duration::from_millis)
    }

    /// Is somebody written there who has not given it back?
    pub(crate) fn is_taken(&self) -> bool {
        self.token > 0 && self.released_at.is_none()
    }

    /// How far the holder is behind its promise to tick.
    pub(crate) fn overdue(&self) -> Option<Duration> {
        let every = self.last_tick.as_ref()?.get("every_s")?.as_f64()?;
        let silent = self.silent_s.filter(|silent| self.is_taken() && *silent > every)?;
        Duration::try_from_secs_f64(silent).ok()
    }
}

/// What a look gave.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ViaLook {
    pub(crate) version: u64,
    pub(crate) rows: Vec<ViaRow>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_the_database_is() {
        let target =
            ViaTarget::parse("postgres://job:p%40ss@db1:5433,[::1],db2/locks?insecure=yes").expect("a URL");
        let hosts: Vec<(&str, u16)> = target.hosts.iter().map(|it| (it.host.as_str(), it.port)).collect();
        assert_eq!(hosts, [("db1", 5433), ("::1", 5432), ("db2", 5432)]);
        assert_eq!(target.password, Some(ViaPassword("p@ss".into())));
        assert_eq!(target.database.as_deref(), Some("locks"));
        assert!(target.insecure && !target.pooler);
        let shown = target.shown();
        assert!(
            !shown.contains("p@ss") && !shown.contains("p%40ss") && !format!("{target:?}").contains("p@ss")
        );
        let again = ViaTarget::parse(&shown).expect("what is shown can be typed");
        assert_eq!(again, ViaTarget { password: None, ..target });
        let socket = ViaTarget::parse("postgresql:///x?host=/run/pg&port=7&user=u").expect("a socket");
        assert_eq!(socket.hosts, [ViaHost { host: "/run/pg".into(), port: 7 }]);
        assert!(socket.hosts[0].is_socket());
        assert_eq!(ViaTarget::parse(&socket.shown()), Ok(socket));
    }

    #[test]
    fn what_cannot_be_kept_is_refused() {
        for bad in [
            "",
            "db1",
            "mysql://x/y",
            "postgres://h:port/x",
            "postgres://h/x?sslmode=require",
            "postgres://h/x?sslmode=prefer",
            "postgres://h/x?sslrootcert=rel.crt",
            "postgres://h/x?pooler=transaction",
            "postgres://h/x?insecure=true",
            "postgres://h/x?colour=red",
            "postgres://h/%zz",
            "postgres://[::1/x",
        ] {
            assert!(ViaTarget::parse(bad).is_err(), "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_url_crashes_the_reader(text in "\\PC{0,80}", tail in "[a-z@:/?&=%,\\[\\]0-9]{0,60}") {
            for url in [text.clone(), format!("postgres://{tail}{text}")] {
                if let Ok(target) = ViaTarget::parse(&url) {
                    drop(target.shown());
                }
            }
        }
    }
}
