//! The connection itself: a socket of this machine or TCP, with or without TLS, every wait with an end.

use super::fault::ViaFault;
use super::tls::{self, TlsFiles};
use crate::model::via::ViaHost;
use crate::os::process::wait_any;
use rustix::net::sockopt;
use rustls::{ClientConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Where a socket is, when the URL names no host: Debian's place.
const SOCKETS: &str = "/var/run/postgresql";

/// An open connection.
#[derive(Debug)]
pub(crate) enum ViaStream {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// Is a connection to a place allowed without TLS, and is TLS asked for?
#[derive(Clone, Copy, Debug)]
pub(crate) struct TlsRule {
    pub(crate) verify: bool,
    pub(crate) insecure: bool,
}

impl ViaStream {
    /// Connects before `end`.
    ///
    /// # Errors
    /// [`ViaFault::Down`] when nobody is there, [`ViaFault::Setting`] when the server cannot be proved to be the right one.
    pub(crate) fn open(
        host: &ViaHost,
        rule: TlsRule,
        files: &TlsFiles,
        end: Instant,
    ) -> Result<Self, ViaFault> {
        if host.is_socket() {
            let dir = if host.host.is_empty() { SOCKETS } else { &host.host };
            // connect(2) to a socket waits only while its queue is full; a thread has the end.
            let path = Path::new(dir).join(format!(".s.PGSQL.{}", host.port));
            let socket = within(end, move || UnixStream::connect(path))??;
            return Ok(Self::Unix(socket));
        }
        let addresses = resolve(host, end)?;
        let mut last = ViaFault::Down(format!("{} has no address", host.host));
        for address in addresses {
            match TcpStream::connect_timeout(&address, left(end)?) {
                Ok(socket) => {
                    keep_alive(&socket)?;
                    let loopback = address.ip().is_loopback();
                    if rule.verify || !(loopback || rule.insecure) {
                        return Self::with_tls(socket, &host.host, files, end, !rule.verify);
                    }
                    return Ok(Self::Tcp(socket));
                }
                Err(error) => last = error.into(),
            }
        }
        Err(last)
    }

    fn with_tls(
        socket: TcpStream,
        name: &str,
        files: &TlsFiles,
        end: Instant,
        demanded: bool,
    ) -> Result<Self, ViaFault> {
        let connection = tls::connection(files, name)?;
        let mut plain = Self::Tcp(socket);
        let mut request = bytes::BytesMut::new();
        postgres_protocol::message::frontend::ssl_request(&mut request);
        plain.send(&request, end)?;
        let mut answer = [0];
        // Exactly one byte: what an attacker put behind it would be read as said under TLS (CVE-2021-23222).
        plain.receive(&mut answer, end)?;
        if answer != *b"S" {
            let why = if demanded { ", and it is not on this machine" } else { "" };
            return Err(ViaFault::setting(
                format!("the server offers no TLS{why}"),
                "ssl=on there, or insecure=yes in the URL if nobody else can be on the way",
            ));
        }
        let Self::Tcp(socket) = plain else { return Err(ViaFault::Down("no socket".into())) };
        let mut stream = StreamOwned::new(connection, socket);
        while stream.conn.is_handshaking() {
            stream.sock.set_read_timeout(Some(left(end)?))?;
            stream.sock.set_write_timeout(Some(left(end)?))?;
            stream.conn.complete_io(&mut stream.sock).map_err(|error| tls::fault(&error))?;
        }
        Ok(Self::Tls(Box::new(stream)))
    }

    /// The hash of the server's certificate, for channel binding.
    pub(crate) fn end_point(&self) -> Option<Vec<u8>> {
        match self {
            Self::Tls(stream) => tls::end_point(&stream.conn),
            _ => None,
        }
    }

    /// Is it encrypted?
    pub(crate) fn has_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Sends everything before `end`.
    pub(crate) fn send(&mut self, bytes: &[u8], end: Instant) -> Result<(), ViaFault> {
        let time = Some(left(end)?);
        match self {
            Self::Unix(socket) => {
                socket.set_write_timeout(time)?;
                socket.write_all(bytes)?;
            }
            Self::Tcp(socket) => {
                socket.set_write_timeout(time)?;
                socket.write_all(bytes)?;
            }
            Self::Tls(stream) => {
                stream.sock.set_write_timeout(time)?;
                stream.write_all(bytes).and_then(|()| stream.flush()).map_err(|error| tls::fault(&error))?;
            }
        }
        Ok(())
    }

    /// Receives at least one byte before `end`; the end of the connection is an error.
    pub(crate) fn receive(&mut self, into: &mut [u8], end: Instant) -> Result<usize, ViaFault> {
        loop {
            let time = Some(left(end)?);
            let got = match self {
                Self::Unix(socket) => socket.set_read_timeout(time).and_then(|()| socket.read(into)),
                Self::Tcp(socket) => socket.set_read_timeout(time).and_then(|()| socket.read(into)),
                Self::Tls(stream) => stream.sock.set_read_timeout(time).and_then(|()| stream.read(into)),
            };
            match got {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(tls::fault(&error)),
            }
        }
    }

    /// Waits until something can be received, or for `time`.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let fd = match self {
            Self::Unix(socket) => socket.as_fd(),
            Self::Tcp(socket) => socket.as_fd(),
            Self::Tls(stream) => {
                if !stream.conn.wants_read() {
                    return true;
                }
                stream.sock.as_fd()
            }
        };
        wait_any(&[fd], Some(time)).map_or(true, |ready| !ready.is_empty())
    }
}

/// What is left; nothing is an error.
fn left(end: Instant) -> Result<Duration, ViaFault> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::Error::from(io::ErrorKind::TimedOut).into()) } else { Ok(left) }
}

/// Something that has no time limit of its own, in a thread that is left behind when time is over.
fn within<T: Send + 'static>(end: Instant, call: impl FnOnce() -> T + Send + 'static) -> Result<T, ViaFault> {
    let (give, take) = mpsc::sync_channel(1);
    std::thread::Builder::new().name("connect".into()).spawn(move || give.send(call()).ok())?;
    take.recv_timeout(left(end)?).map_err(|_| io::Error::from(io::ErrorKind::TimedOut).into())
}

/// The addresses of a host. A look-up has no time limit of its own (resolv.conf(5)).
fn resolve(host: &ViaHost, end: Instant) -> Result<Vec<SocketAddr>, ViaFault> {
    if let Ok(ip) = host.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, host.port)]);
    }
    let (name, port) = (host.host.clone(), host.port);
    let found = within(end, move || (name.as_str(), port).to_socket_addrs().map(Vec::from_iter))?;
    found.map_err(|_| ViaFault::Down(format!("the name {} is not known", host.host)))
}

/// A peer that is gone is noticed in 11 seconds, on our side as on the server's.
fn keep_alive(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, Duration::from_secs(5))?;
    sockopt::set_tcp_keepintvl(socket, Duration::from_secs(2))?;
    sockopt::set_tcp_keepcnt(socket, 3)?;
    sockopt::set_tcp_user_timeout(socket, 11_000)?;
    Ok(())
}
