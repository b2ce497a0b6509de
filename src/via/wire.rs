//! The protocol of PostgreSQL (version 3.0), as far as a lock needs it: start, SCRAM, simple queries,
//! notifications. Every wait has an end.

use super::fault::ViaFault;
use super::stream::ViaStream;
use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::sasl::{
    ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256,
};
use postgres_protocol::message::backend::{ErrorFields, Message};
use postgres_protocol::message::frontend;
use std::io;
use std::time::{Duration, Instant};

/// What a query gave: the first column of its last row, and whether the server warned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerReply {
    /// `None`: no row, or null.
    pub(crate) value: Option<String>,
    /// The server's words of warning, such as a commit that no standby has confirmed.
    pub(crate) warning: Option<String>,
}

/// A started connection.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: ViaStream,
    received: BytesMut,
    /// What BackendKeyData said; a pooler's number is not a backend's.
    pub(crate) key_pid: i32,
    notified: bool,
}

impl Wire {
    /// Says who we are, and proves it.
    ///
    /// # Errors
    /// What the server answers; a way to prove it that gives the password away.
    pub(crate) fn start(
        stream: ViaStream,
        user: &str,
        database: &str,
        password: Option<&str>,
        end: Instant,
    ) -> Result<Self, ViaFault> {
        let mut wire = Self { stream, received: BytesMut::new(), key_pid: 0, notified: false };
        let parameters = [
            ("user", user),
            ("database", database),
            ("client_encoding", "UTF8"),
            ("application_name", "orion-via"),
        ];
        wire.send(end, |out| frontend::startup_message(parameters, out))?;
        wire.authenticate(password, end)?;
        loop {
            match wire.message(end)? {
                Message::BackendKeyData(key) => wire.key_pid = key.process_id(),
                Message::ReadyForQuery(_) => return Ok(wire),
                Message::ErrorResponse(body) => return Err(sql(body.fields())),
                Message::ParameterStatus(_) | Message::NoticeResponse(_) => {}
                _ => return Err(strange()),
            }
        }
    }

    fn authenticate(&mut self, password: Option<&str>, end: Instant) -> Result<(), ViaFault> {
        loop {
            match self.message(end)? {
                Message::AuthenticationOk => return Ok(()),
                Message::AuthenticationSasl(body) => {
                    let offered: Vec<String> = body
                        .mechanisms()
                        .map(|name| Ok(name.to_owned()))
                        .collect()
                        .map_err(ViaFault::from)?;
                    return self.scram(&offered, password, end);
                }
                Message::AuthenticationMd5Password(_) => return Err(weak("md5")),
                Message::AuthenticationCleartextPassword => return Err(weak("the password itself")),
                Message::ErrorResponse(body) => return Err(sql(body.fields())),
                Message::NoticeResponse(_) => {}
                Message::AuthenticationGss
                | Message::AuthenticationSspi
                | Message::AuthenticationKerberosV5 => {
                    return Err(ViaFault::setting(
                        "the server asks for Kerberos, which these tools do not speak",
                        "scram-sha-256, cert or peer in pg_hba.conf",
                    ));
                }
                _ => return Err(strange()),
            }
        }
    }

    /// SCRAM-SHA-256 (RFC 7677), bound to the TLS channel where both sides can.
    fn scram(&mut self, offered: &[String], password: Option<&str>, end: Instant) -> Result<(), ViaFault> {
        let Some(password) = password else {
            return Err(ViaFault::setting(
                "the server asks for a password, and there is none",
                "a line in ~/.pgpass (PGPASSFILE), or ORION_VIA with a password in its URL",
            ));
        };
        let has = |name: &str| offered.iter().any(|it| it == name);
        let hash = self.stream.end_point();
        let (binding, mechanism) = match hash {
            Some(hash) if has(SCRAM_SHA_256_PLUS) => {
                (ChannelBinding::tls_server_end_point(hash), SCRAM_SHA_256_PLUS)
            }
            // "y": we could. A server that can, too, then knows that somebody took its offer away.
            Some(_) => (ChannelBinding::unrequested(), SCRAM_SHA_256),
            None => (ChannelBinding::unsupported(), SCRAM_SHA_256),
        };
        if !has(mechanism) {
            return Err(ViaFault::setting(
                "the server offers no SCRAM-SHA-256",
                "password_encryption=scram-sha-256 there, and set the password anew",
            ));
        }
        let mut scram = ScramSha256::new(password.as_bytes(), binding);
        self.send(end, |out| frontend::sasl_initial_response(mechanism, scram.message(), out))?;
        let body = match self.message(end)? {
            Message::AuthenticationSaslContinue(body) => body,
            Message::ErrorResponse(body) => return Err(sql(body.fields())),
            _ => return Err(strange()),
        };
        scram.update(body.data()).map_err(|_| strange())?;
        self.send(end, |out| frontend::sasl_response(scram.message(), out))?;
        let body = match self.message(end)? {
            Message::AuthenticationSaslFinal(body) => body,
            Message::ErrorResponse(body) => return Err(sql(body.fields())),
            _ => return Err(strange()),
        };
        // Only who knows the password, too, can have made this proof.
        scram.finish(body.data()).map_err(|_| {
            ViaFault::setting(
                "the server could not prove that it knows the password",
                "is it the right server?",
            )
        })?;
        match self.message(end)? {
            Message::AuthenticationOk => Ok(()),
            Message::ErrorResponse(body) => Err(sql(body.fields())),
            _ => Err(strange()),
        }
    }

    /// Runs a query, or several in one message.
    ///
    /// # Errors
    /// The server's error; after any other error the connection must not be used again.
    pub(crate) fn query(&mut self, text: &str, end: Instant) -> Result<ServerReply, ViaFault> {
        self.send(end, |out| frontend::query(text, out))?;
        let (mut reply, mut failed) = (ServerReply::default(), None);
        loop {
            match self.message(end)? {
                Message::DataRow(row) => {
                    let first = row.ranges().next().map_err(ViaFault::from)?.flatten();
                    reply.value =
                        first.map(|range| String::from_utf8_lossy(&row.buffer()[range]).into_owned());
                }
                Message::ErrorResponse(body) => failed = Some(sql(body.fields())),
                Message::NoticeResponse(body) => {
                    let (severity, _, words) = parts(body.fields());
                    if severity == "WARNING" {
                        reply.warning = Some(words);
                    }
                }
                Message::ReadyForQuery(_) => return failed.map_or(Ok(reply), Err),
                Message::RowDescription(_)
                | Message::CommandComplete(_)
                | Message::EmptyQueryResponse
                | Message::ParameterStatus(_) => {}
                Message::NotificationResponse(_) => self.notified = true,
                _ => return Err(strange()),
            }
        }
    }

    /// Waits for a notification, for at most `time`; `true` when one came.
    ///
    /// # Errors
    /// The connection is gone.
    pub(crate) fn notified(&mut self, time: Duration) -> Result<bool, ViaFault> {
        let end = Instant::now() + time;
        loop {
            if std::mem::take(&mut self.notified) {
                return Ok(true);
            }
            match Message::parse(&mut self.received)? {
                Some(Message::NotificationResponse(_)) => self.notified = true,
                Some(Message::ErrorResponse(body)) => return Err(sql(body.fields())),
                Some(_) => {}
                None => {
                    let left = end.saturating_duration_since(Instant::now());
                    if left.is_zero() || !self.stream.wait(left) {
                        return Ok(false);
                    }
                    self.fill(Instant::now() + Duration::from_secs(1))?;
                }
            }
        }
    }

    /// Is it encrypted?
    pub(crate) fn has_tls(&self) -> bool {
        self.stream.has_tls()
    }

    /// Says good-bye, so that the server frees at once what the session had.
    pub(crate) fn terminate(mut self) {
        drop(self.send(Instant::now() + Duration::from_millis(500), |out| {
            frontend::terminate(out);
            Ok(())
        }));
    }

    fn send(
        &mut self,
        end: Instant,
        write: impl FnOnce(&mut BytesMut) -> io::Result<()>,
    ) -> Result<(), ViaFault> {
        let mut out = BytesMut::new();
        write(&mut out)?;
        self.stream.send(&out, end)
    }

    fn message(&mut self, end: Instant) -> Result<Message, ViaFault> {
        loop {
            if let Some(message) = Message::parse(&mut self.received)? {
                return Ok(message);
            }
            if self.received.len() > LONGEST {
                return Err(strange());
            }
            self.fill(end)?;
        }
    }

    fn fill(&mut self, end: Instant) -> Result<(), ViaFault> {
        let mut buffer = [0; 8192];
        let count = self.stream.receive(&mut buffer, end)?;
        self.received.extend_from_slice(&buffer[..count]);
        Ok(())
    }
}

/// No answer of our functions is longer; whoever sends more is not a server of ours.
const LONGEST: usize = 64 * 1024 * 1024;

fn weak(what: &str) -> ViaFault {
    ViaFault::setting(
        format!("the server asks for {what}, which gives the password away; it was not sent"),
        "scram-sha-256 in pg_hba.conf, and set the password anew",
    )
}

fn strange() -> ViaFault {
    ViaFault::Down("it does not speak the protocol of PostgreSQL".into())
}

fn parts(mut fields: ErrorFields<'_>) -> (String, String, String) {
    let (mut severity, mut state, mut words) = (String::new(), String::new(), String::new());
    while let Ok(Some(field)) = fields.next() {
        let text = String::from_utf8_lossy(field.value_bytes()).into_owned();
        match field.type_() {
            b'V' => severity = text,
            b'C' => state = text,
            b'M' => words = text,
            // Detail, hint and query hold what nobody should read in a log.
            _ => {}
        }
    }
    (severity, state, words)
}

fn sql(fields: ErrorFields<'_>) -> ViaFault {
    let (_, state, words) = parts(fields);
    ViaFault::Sql(state, words)
}
