//! The link's socket: plain, or TLS where `tls-replication` says so. It blocks, but never for long.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use engine::replication::replica::Primary;
use rustls::{ClientConnection, StreamOwned};
use socket2::{Domain, Protocol, SockRef, TcpKeepalive, Type};

use crate::shared::Shared;

/// A reading waits so long for bytes.
const READ_WAIT: Duration = Duration::from_millis(200);

/// A connection to a primary.
pub(super) enum Socket {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Socket {
    /// Connects within `repl-timeout`. The second answer is the same socket, to be closed by others.
    pub(super) fn connect(shared: &Shared, primary: &Primary) -> Result<(Socket, TcpStream), String> {
        let config = &shared.server.config;
        let timeout = Duration::from_secs(config.int("repl-timeout").max(1) as u64);
        let source = config.string("bind-source-addr");
        let host = primary.host.trim_matches(['[', ']']);
        let addresses = (host, primary.port).to_socket_addrs();
        let addresses = addresses.map_err(|error| format!("Unable to resolve its name: {error}"))?;
        let mut reason = "its name has no address".to_owned();
        for address in addresses {
            match connect_to(address, &source, timeout) {
                Ok(tcp) => return Socket::over(shared, tcp, primary, timeout),
                Err(error) => reason = format!("Unable to connect to MASTER: {error}"),
            }
        }
        Err(reason)
    }

    fn over(
        shared: &Shared,
        tcp: TcpStream,
        primary: &Primary,
        timeout: Duration,
    ) -> Result<(Socket, TcpStream), String> {
        let failed = |error: io::Error| error.to_string();
        tcp.set_nodelay(!shared.server.config.bool("repl-disable-tcp-nodelay")).map_err(failed)?;
        tcp.set_read_timeout(Some(READ_WAIT)).map_err(failed)?;
        tcp.set_write_timeout(Some(timeout)).map_err(failed)?;
        SockRef::from(&tcp).set_tcp_keepalive(&TcpKeepalive::new().with_time(timeout)).map_err(failed)?;
        let other = tcp.try_clone().map_err(failed)?;
        if !shared.server.config.bool("tls-replication") {
            return Ok((Socket::Plain(tcp), other));
        }
        let session = shared.tls.connect(&primary.host)?;
        let mut stream = StreamOwned::new(session, tcp);
        let started = Instant::now();
        while stream.conn.is_handshaking() {
            match stream.conn.complete_io(&mut stream.sock) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && started.elapsed() < timeout => {}
                Err(error) => return Err(format!("TLS handshake with MASTER failed: {error}")),
            }
        }
        Ok((Socket::Tls(Box::new(stream)), other))
    }

    /// As [`Read::read`]; an error [`ErrorKind::WouldBlock`] or `TimedOut` where nothing comes for a moment.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Plain(socket) => socket.read(buffer),
            Socket::Tls(stream) => stream.read(buffer),
        }
    }

    /// As [`Write::write_all`].
    pub(super) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Socket::Plain(socket) => socket.write_all(bytes),
            Socket::Tls(stream) => {
                stream.write_all(bytes)?;
                stream.flush()
            }
        }
    }
}

/// Connects to one address, from `source` if that is one.
fn connect_to(address: SocketAddr, source: &str, timeout: Duration) -> io::Result<TcpStream> {
    let Ok(source) = source.parse() else { return TcpStream::connect_timeout(&address, timeout) };
    let socket = socket2::Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.bind(&SocketAddr::new(source, 0).into())?;
    socket.connect_timeout(&address.into(), timeout)?;
    Ok(socket.into())
}
