//! A session that may hold a lock: opened, set up in one message, and read back before it is believed.

use super::credentials::ViaPlace;
use super::fault::ViaFault;
use super::stream::{TlsRule, ViaStream};
use super::tls::TlsFiles;
use super::wire::{ServerReply, Wire};
use crate::model::via::ViaHost;
use serde::Deserialize;
use std::time::{Duration, Instant};

/// How long connecting may take.
pub(crate) const CONNECT: Duration = Duration::from_secs(3);

/// Poolers drop what is said at the start, so it is set here. The isolation matters: an older snapshot shows the last
/// holder. A role's own time limits must not end a session that waits for days.
const SET_UP: &str = "\
set idle_session_timeout = 0; set statement_timeout = '10s'; set lock_timeout = '5s'; \
set synchronous_commit = on; set default_transaction_isolation = 'read committed'; \
set default_transaction_read_only = off; set search_path = pg_catalog; set timezone = 'UTC'; \
set tcp_keepalives_idle = 5; set tcp_keepalives_interval = 2; set tcp_keepalives_count = 3; \
set tcp_user_timeout = 11000; \
select json_build_object('pid', pg_backend_pid(), 'recovery', pg_is_in_recovery(), \
'version', current_setting('server_version'), 'number', current_setting('server_version_num')::int, \
'fsync', current_setting('fsync'), 'standbys', current_setting('synchronous_standby_names'), \
'superuser', current_setting('is_superuser'), 'max', current_setting('max_connections')::int, \
'now', extract(epoch from clock_timestamp()), \
'set', array_to_string(array[current_setting('idle_session_timeout'), current_setting('statement_timeout'), \
current_setting('lock_timeout'), current_setting('synchronous_commit'), \
current_setting('default_transaction_isolation'), current_setting('default_transaction_read_only')], ' '))::text";

/// What the settings must read as.
const SETTINGS: &str = "0 10s 5s on read committed off";

/// What a session found out about its server.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ServerFacts {
    /// The backend's process number.
    pub(crate) pid: i64,
    pub(crate) recovery: bool,
    pub(crate) version: String,
    pub(crate) number: u32,
    pub(crate) fsync: String,
    /// `synchronous_standby_names`
    pub(crate) standbys: String,
    pub(crate) superuser: String,
    pub(crate) max: u32,
    /// Seconds since 1970, by the server's clock.
    pub(crate) now: f64,
    set: String,
}

/// An open session.
#[derive(Debug)]
pub(crate) struct ViaSession {
    wire: Wire,
    /// Which rows it is for.
    pub(super) kind: &'static str,
    pub(crate) facts: ServerFacts,
}

impl ViaSession {
    /// Opens a session on the first server of the place that can be written.
    ///
    /// # Errors
    /// [`ViaFault`]; a pooler is a setting, a standby is down.
    pub(crate) fn open(place: &ViaPlace, limit: Duration) -> Result<Self, ViaFault> {
        Self::open_on(place, limit, true)
    }

    /// As [`ViaSession::open`]; a standby will do, to look.
    ///
    /// # Errors
    /// [`ViaFault`].
    pub(crate) fn open_to_look(place: &ViaPlace, limit: Duration) -> Result<Self, ViaFault> {
        Self::open_on(place, limit, false)
    }

    fn open_on(place: &ViaPlace, limit: Duration, writes: bool) -> Result<Self, ViaFault> {
        let mut worst: Option<ViaFault> = None;
        let hosts = place.target.hosts.len();
        for (at, host) in place.target.hosts.iter().enumerate() {
            let share = limit / u32::try_from(hosts - at).unwrap_or(1).max(1);
            match Self::open_at(place, host, Instant::now() + share.max(Duration::from_millis(200)), writes) {
                Ok(session) => return Ok(session),
                Err(fault) => {
                    let telling = matches!(worst, Some(ViaFault::Setting(..) | ViaFault::Sql(..)));
                    if !telling || matches!(fault, ViaFault::Setting(..)) {
                        worst = Some(fault);
                    }
                }
            }
        }
        Err(worst.unwrap_or_else(|| ViaFault::Down("no server is named".into())))
    }

    fn open_at(place: &ViaPlace, host: &ViaHost, end: Instant, writes: bool) -> Result<Self, ViaFault> {
        let target = &place.target;
        let rule = TlsRule { verify: target.verify, insecure: target.insecure };
        let files = TlsFiles {
            root_cert: target.root_cert.clone(),
            cert: target.cert.clone(),
            key: target.key.clone(),
        };
        let stream = ViaStream::open(host, rule, &files, end)?;
        let password = target.password.as_ref().map(|password| password.0.as_str());
        let mut wire = Wire::start(stream, &place.user, &place.database, password, end)?;
        let text = wire.query(SET_UP, end)?.value.unwrap_or_default();
        let facts: ServerFacts = serde_json::from_str(&text)
            .map_err(|_| ViaFault::Down("its settings cannot be read back".into()))?;
        if facts.pid != i64::from(wire.key_pid) && !target.pooler {
            return Err(ViaFault::setting(
                "between here and the server stands a pooler, which may give one session to several clients",
                "connect to the server itself; a pooler in session mode: pooler=session in the URL",
            ));
        }
        if facts.set != SETTINGS {
            return Err(ViaFault::setting(
                format!("the server or a pooler changes the settings of a session ({})", facts.set),
                "connect to the server itself",
            ));
        }
        if facts.number < 140_000 {
            let what = format!("PostgreSQL {} is too old", facts.version);
            return Err(ViaFault::setting(what, "14 or later"));
        }
        if writes && facts.recovery {
            return Err(ViaFault::Down("it can only be read (a standby)".into()));
        }
        if facts.fsync != "on" {
            return Err(ViaFault::setting(
                "fsync=off there: a lock that was given could be forgotten at a power cut",
                "fsync=on in postgresql.conf",
            ));
        }
        Ok(Self { wire, kind: place.kind(), facts })
    }

    /// Asks the server something.
    ///
    /// # Errors
    /// [`ViaFault`]; after [`ViaFault::Down`] the session must not be used again.
    pub(crate) fn ask(&mut self, text: &str, time: Duration) -> Result<ServerReply, ViaFault> {
        self.wire.query(text, Instant::now() + time)
    }

    /// Waits for news of a release, for at most `time`.
    ///
    /// # Errors
    /// [`ViaFault`]: the session is gone.
    pub(crate) fn wait_for_news(&mut self, time: Duration) -> Result<bool, ViaFault> {
        self.wire.notified(time)
    }

    /// Is it encrypted?
    pub(crate) fn has_tls(&self) -> bool {
        self.wire.has_tls()
    }

    /// Ends it, so that the server frees its lock now.
    pub(crate) fn close(self) {
        self.wire.terminate();
    }
}
